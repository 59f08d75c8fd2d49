//! Waits for the replies of the engines. An engine's thread may reply late, or end before it
//! replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::command_batch::{CommandFault, sysexits};

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// A decision shared by several engines: whether a requested change takes effect. The first engine
/// that starts the change commits all engines to it. Until then, the caller can withdraw the change
/// for all engines.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangeClaim(Arc<AtomicU8>);

impl ChangeClaim {
    /// Must be called by an engine before it makes the change. Returns false if the change was
    /// withdrawn.
    pub(super) fn begin(&self) -> bool {
        self.settle(BEGUN)
    }

    /// Withdraws the change. Returns false if an engine has already started to make it.
    fn withdraw(&self) -> bool {
        self.settle(WITHDRAWN)
    }

    /// If nothing is decided yet, decides `as_what`. Returns whether the decision is now `as_what`.
    fn settle(&self, as_what: u8) -> bool {
        // Relaxed suffices: the claim does not order any other data. Results are passed through
        // channels.
        match self.0.compare_exchange(OPEN, as_what, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(settled) => settled == as_what,
        }
    }
}

/// Collects the results of all engines.
///
/// # Errors
/// [`CommandFault`] if an engine has ended or does not answer in time.
pub(super) fn wait_for_all<T>(
    posted: Vec<Receiver<T>>,
    timeout: Duration,
) -> Result<Vec<T>, CommandFault> {
    let until = Instant::now() + timeout;
    let answer = |answered: Receiver<T>| {
        let left = until.saturating_duration_since(Instant::now());
        answered.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => late("try it again"),
            RecvTimeoutError::Disconnected => ending(),
        })
    };
    posted.into_iter().map(answer).collect()
}

/// Collects the results of all engines, however late they are.
///
/// # Errors
/// [`CommandFault`] if an engine has ended.
pub(super) fn wait_until_done<T>(posted: Vec<Receiver<T>>) -> Result<Vec<T>, CommandFault> {
    posted.into_iter().map(|answered| answered.recv().map_err(|_| ending())).collect()
}

/// Collects the results of a change. If no engine starts the change in time, the change is
/// withdrawn. If one has started it, all others will also make it, so the function waits for all
/// results.
///
/// # Errors
/// [`CommandFault`] if an engine has ended or the change was withdrawn.
pub(super) fn wait_for_change<T>(
    posted: Vec<Receiver<Option<T>>>,
    claim: &ChangeClaim,
    timeout: Duration,
) -> Result<Vec<T>, CommandFault> {
    let until = Instant::now() + timeout;
    let answer = |answered: Receiver<Option<T>>| {
        let left = until.saturating_duration_since(Instant::now());
        let result = match answered.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) if claim.withdraw() => return Err(withdrawn()),
            Err(RecvTimeoutError::Timeout) => answered.recv().map_err(|_| ending())?,
            Err(RecvTimeoutError::Disconnected) => return Err(ending()),
            Ok(result) => result,
        };
        result.ok_or_else(withdrawn)
    };
    posted.into_iter().map(answer).collect()
}

fn withdrawn() -> CommandFault {
    late("nothing was changed; try it again")
}

fn late(advice: &str) -> CommandFault {
    CommandFault::new(format!("the firewall does not answer in time: {advice}"), sysexits::PROTOCOL)
}

fn ending() -> CommandFault {
    CommandFault::new("the firewall does not answer: it is ending", sysexits::PROTOCOL)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    type Posted = (Vec<mpsc::Sender<Option<u8>>>, Vec<Receiver<Option<u8>>>);

    fn two_engines() -> Posted {
        (0..2).map(|_| mpsc::channel()).unzip()
    }

    #[test]
    fn a_change_that_no_engine_begins_in_time_is_withdrawn_and_not_made_later() {
        let (_engines, posted) = two_engines();
        let claim = ChangeClaim::default();
        let fault = wait_for_change(posted, &claim, Duration::ZERO).unwrap_err();
        assert!(fault.message.contains("nothing was changed"), "{fault:?}");
        assert!(!claim.begin());
    }

    #[test]
    fn a_change_that_one_engine_has_begun_is_waited_for_however_late_the_others_are() {
        let (engines, posted) = two_engines();
        let claim = ChangeClaim::default();
        assert!(claim.begin());
        let late = std::thread::spawn(move || {
            for (engine, result) in engines.iter().zip([1, 2]) {
                engine.send(Some(result)).unwrap();
            }
        });
        assert_eq!(wait_for_change(posted, &claim, Duration::ZERO).unwrap(), [1, 2]);
        late.join().unwrap();
    }

    #[test]
    fn an_engine_that_ends_is_told_from_one_that_is_late() {
        let (engines, posted) = two_engines();
        drop(engines);
        let fault =
            wait_for_change(posted, &ChangeClaim::default(), Duration::MAX / 4).unwrap_err();
        assert!(fault.message.ends_with("it is ending"), "{fault:?}");
        let (_engines, posted) = two_engines();
        let fault = wait_for_all(posted, Duration::ZERO).unwrap_err();
        assert!(fault.message.ends_with("try it again"), "{fault:?}");
    }
}
