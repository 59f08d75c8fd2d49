//! The steps of a takeover, and how each of them is undone.
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
//! Only threads take frames. In XDP, the programs that the links run decide which router forwards.
//!
//! # Invariants
//! 1. The predecessor takes no frames from its first step after `ready` on, until it has resumed.
//!    It resumes unless it has read `taken`.
//! 2. The successor takes no frames before it has sent `taken` as a whole. If the successor ends,
//!    the predecessor first reads everything that the successor has sent, and only then sees the
//!    end.
//! 3. So at most one of them takes frames. If the takeover fails, the predecessor takes them again,
//!    or the kernel forwards if the predecessor has ended. A successor that ends after `taken` ends
//!    as any router: the kernel forwards.
//! 4. Only the predecessor exchanges programs, so none is exchanged after it has resumed.
//! 5. Each router waits for a limited time, and then cuts the other one off: the other one can send
//!    nothing any more, but what it has sent before still counts. So a router that hangs delays the
//!    other one no longer than that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde_json::{Value, json};

use super::channel::Channel;

/// Maximum time that either router may take for its steps up to the offer.
const OFFER_LIMIT: Duration = Duration::from_secs(30);
/// Maximum time that the successor may take to open its interfaces and to read all tables.
/// Meanwhile, the predecessor forwards.
const READY_LIMIT: Duration = Duration::from_mins(5);
/// Maximum time that the predecessor may take to forward the frames that it has taken, and to
/// collect its states.
const YOURS_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time that the successor may take to restore the states. Meanwhile, frames wait.
const TAKEN_LIMIT: Duration = Duration::from_secs(5);

/// An offer: a document, and the descriptors that belong to its parts, in the order of the parts.
pub(super) struct OfferMessage {
    pub(super) document: Value,
    pub(super) fds: Vec<OwnedFd>,
}

/// A router that can be taken over.
pub(super) trait Predecessor {
    /// Returns the offer to a successor.
    ///
    /// # Errors
    /// Why this router cannot be taken over, as text.
    fn offer(&mut self) -> Result<OfferMessage, String>;

    /// Stops taking frames, waits until all taken frames are processed, and then for a short time
    /// until they are sent. Then makes the links run `programs`, which forward by the successor's
    /// tables. Returns the state with which the successor continues.
    ///
    /// # Errors
    /// Why this router cannot be released, as text.
    fn release(&mut self, programs: Vec<OwnedFd>) -> Result<Value, String>;

    /// Undoes [`Self::release`], even if it has failed halfway: this router forwards again.
    fn resume(&mut self);
}

/// The result of a takeover for the predecessor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandedOver {
    /// The successor forwards.
    Yes,
    /// This router forwards as before, for this reason.
    No(String),
}

/// Executes the predecessor's side of a takeover.
pub(super) fn hand_over(channel: &mut Channel, router: &mut impl Predecessor) -> HandedOver {
    // The successor's reader may read beyond the answer to its request. The offer is sent only
    // after the successor's first message, which proves that the successor has read the answer.
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
    // A successor that has not sent "begin" could not read the refusal.
    if expect(channel, "begin", OFFER_LIMIT).is_ok() {
        refuse(channel, why);
    }
}

/// Sends the successor the reason for a refusal. Returns this reason.
fn refuse(channel: &mut Channel, why: &str) -> String {
    // If the successor has ended, it does not need the message.
    let _ = channel.send(&json!({ "step": "refused", "why": why }), &[]);
    why.to_owned()
}

/// The successor's first step: requests the offer.
///
/// # Errors
/// The predecessor's reason for a refusal, or the error of the connection.
pub(super) fn receive_offer(channel: &mut Channel) -> io::Result<OfferMessage> {
    channel.send(&json!({ "step": "begin" }), &[])?;
    let (document, fds) = expect(channel, "offer", OFFER_LIMIT)?;
    Ok(OfferMessage { document, fds })
}

/// The successor's last steps, when it is ready to forward. After a successful return, it must
/// forward. `prepare` gets the state that the predecessor has handed over.
///
/// # Errors
/// As [`receive_offer`], or the error of `prepare`. The predecessor then still forwards, or has
/// ended.
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

/// Waits for the message of a step, for which the other router may take `limit`. Returns the
/// message and its descriptors.
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
