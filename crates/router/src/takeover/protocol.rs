//! The steps of a takeover, and what undoes them.
//!
//! ```text
//!   predecessor                              successor
//!                                         <-- begin
//!      offer: interfaces, links, sockets  -->
//!   forwards                                 opens, reads all tables, probes
//!                                         <-- ready: programs
//!   takes no frames any more; its last
//!   frame is out; exchanges the programs
//!      yours: positions, states           -->
//!                                         <-- taken
//!   ends                                     takes frames
//! ```
//!
//! # Invariants
//! 1. The predecessor takes no frames from its first step after `ready` on, until it has resumed. It
//!    resumes unless it has read `taken`.
//! 2. The successor takes no frames before it has sent `taken` as a whole. What it has sent before its
//!    end is read before its end is seen.
//! 3. So at most one of them takes frames, and one does if either is alive. A successor that ends after
//!    `taken` ends as any router: the kernel forwards.
//! 4. Only the predecessor exchanges programs, so none is exchanged behind its back after it has resumed.
//! 5. Each waits for a limited time, and then cuts the other one off: it can send nothing any more, and
//!    what it had sent before counts. A router that hangs holds up the other one no longer than that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde_json::{Value, json};

use super::channel::Channel;

/// How long either may take until the offer.
const OFFER_LIMIT: Duration = Duration::from_secs(30);
/// How long the successor may take to open its interfaces and to read all tables. The predecessor forwards
/// meanwhile.
const READY_LIMIT: Duration = Duration::from_mins(5);
/// How long the predecessor may take to forward what it has taken, and to collect its states.
const YOURS_LIMIT: Duration = Duration::from_secs(10);
/// How long the successor may take to restore the states. Frames wait meanwhile.
const TAKEN_LIMIT: Duration = Duration::from_secs(5);

/// What is offered: a document, and the descriptors that it numbers.
pub(super) struct OfferMessage {
    pub(super) document: Value,
    pub(super) fds: Vec<OwnedFd>,
}

/// A router that can be taken over.
pub(super) trait Predecessor {
    /// What a successor needs.
    ///
    /// # Errors
    /// Why this router cannot be taken over, in words.
    fn offer(&mut self) -> Result<OfferMessage, String>;

    /// Takes no more frames, and waits until those that were taken are out. Then the programs forward by
    /// the successor's tables. Returns what the successor needs to go on.
    ///
    /// # Errors
    /// Why not, in words.
    fn release(&mut self, programs: Vec<OwnedFd>) -> Result<Value, String>;

    /// Forwards again, after all or some of [`Self::release`].
    fn resume(&mut self);
}

/// How a takeover has ended for the predecessor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandedOver {
    /// The successor forwards.
    Yes,
    /// This router forwards as before, for this reason.
    No(String),
}

/// The predecessor's side.
pub(super) fn hand_over(channel: &mut Channel, router: &mut impl Predecessor) -> HandedOver {
    // The answer to the request comes before, and its reader may read on: so the successor has read it.
    let begun = expect(channel, "begin", OFFER_LIMIT).map_err(|error| error.to_string());
    let offered = begun.and_then(|_| router.offer().map_err(|why| refuse(channel, &why)));
    let offered = offered.and_then(|OfferMessage { document, fds }| {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        channel.send(&document, &fds).map_err(|error| error.to_string())
    });
    let ready = offered
        .and_then(|()| expect(channel, "ready", READY_LIMIT).map_err(|error| error.to_string()));
    let (_, programs) = match ready {
        Ok(ready) => ready,
        Err(why) => return HandedOver::No(why),
    };
    let taken = match router.release(programs) {
        Ok(state) => channel
            .send(&json!({ "step": "yours", "state": state }), &[])
            .and_then(|()| expect(channel, "taken", TAKEN_LIMIT))
            .map_err(|error| format!("the new router has not taken over: {error}")),
        Err(why) => Err(refuse(channel, &why)),
    };
    match taken {
        Ok(_) => HandedOver::Yes,
        Err(why) => {
            router.resume();
            HandedOver::No(why)
        }
    }
}

/// Refuses a successor before it gets an offer.
pub(super) fn turn_away(channel: &mut Channel, why: &str) {
    // A successor that has not begun could not read the refusal.
    if expect(channel, "begin", OFFER_LIMIT).is_ok() {
        refuse(channel, why);
    }
}

/// Tells the successor why not. Returns the reason.
fn refuse(channel: &mut Channel, why: &str) -> String {
    // A successor that has ended need not know.
    let _ = channel.send(&json!({ "step": "refused", "why": why }), &[]);
    why.to_owned()
}

/// The successor's first step: what is offered.
///
/// # Errors
/// The predecessor's reason, or that of the connection.
pub(super) fn receive_offer(channel: &mut Channel) -> io::Result<OfferMessage> {
    channel.send(&json!({ "step": "begin" }), &[])?;
    let (document, fds) = expect(channel, "offer", OFFER_LIMIT)?;
    Ok(OfferMessage { document, fds })
}

/// The successor's last steps, once it could forward. When this returns, it must. Returns what the
/// predecessor knows.
///
/// # Errors
/// As [`receive_offer`]: the predecessor forwards, or has ended.
pub(super) fn take_over(
    channel: &mut Channel,
    programs: &[BorrowedFd<'_>],
    prepare: impl FnOnce(&Value) -> io::Result<()>,
) -> io::Result<()> {
    channel.send(&json!({ "step": "ready" }), programs)?;
    let (mut yours, _) = expect(channel, "yours", YOURS_LIMIT)?;
    prepare(&yours["state"].take())?;
    channel.send(&json!({ "step": "taken" }), &[])
}

/// Receives the message of a step, for which the other router may take `limit`.
fn expect(channel: &mut Channel, step: &str, limit: Duration) -> io::Result<(Value, Vec<OwnedFd>)> {
    let (message, fds) = channel.receive(limit)?;
    match message["step"].as_str() {
        Some(is) if is == step => Ok((message, fds)),
        Some("refused") => {
            Err(io::Error::other(message["why"].as_str().unwrap_or_default().to_owned()))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests;
