//! Passes a timeline to the thread that moves frames, completely or not at all.
//!
//! # Invariants
//! 1. If a timeline cannot be handed over, the thread keeps its old plans, or gets them back. If
//!    the thread does not answer in time, the old plans are queued after the new ones.
//!
//! Not for checking whether the settings result in valid links.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use slipring_cli::Diagnostic;
use slipring_cli::codes::{SR0015, SR0405};
use slipring_control::REPLY_TIMEOUT;
use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::Nanos;

use super::timeline::SettingsTimeline;
use crate::config;
use crate::realtime::{EmulatorChannel, PlanChange};

/// How long to wait until the thread that moves frames has answered all plans of a change. That
/// thread may not have started yet: on a busy machine, the page faults of its memory take seconds.
/// The client waits longer than this for the reply.
const HANDOVER_TIMEOUT: Duration =
    REPLY_TIMEOUT.checked_sub(Duration::from_secs(2)).expect("it is longer");

/// Why a change was refused.
pub(super) type ChangeRefusal = Box<Diagnostic>;

/// Submits plans to the thread that moves frames.
pub(super) struct PlanHandover {
    channel: Arc<EmulatorChannel>,
    reply_timeout: Duration,
}

impl PlanHandover {
    pub(super) const fn new(channel: Arc<EmulatorChannel>) -> Self {
        Self { channel, reply_timeout: HANDOVER_TIMEOUT }
    }

    pub(super) const fn channel(&self) -> &Arc<EmulatorChannel> {
        &self.channel
    }

    /// Submits all versions of a new timeline except the first one, without waiting for answers.
    pub(super) fn begin(&self, timeline: &SettingsTimeline) {
        let (answer, _) = mpsc::channel();
        for version in &timeline.versions()[1..] {
            self.post(version.at_ns, false, &version.network, answer.clone());
        }
    }

    /// Replaces timeline `old` by `new`, which differs from index `first` on; `time` is the
    /// earliest time at which a change can apply.
    ///
    /// # Errors
    /// [`ChangeRefusal`] if the running links cannot apply the timeline, or the thread does not
    /// answer.
    pub(super) fn replace_timeline(
        &self,
        old: &SettingsTimeline,
        new: &SettingsTimeline,
        first: usize,
        time: Nanos,
    ) -> Result<(), ChangeRefusal> {
        let versions = new.versions();
        let deadline = Instant::now() + self.reply_timeout;
        let submit = |at_ns, replaces, network: &_| self.submit(deadline, at_ns, replaces, network);
        let passed = (|| {
            // The first changed version is submitted alone. The engine's answer to it holds for
            // all versions, because they have the same ports and links.
            if let Some(version) = versions.get(first) {
                submit(version.at_ns, false, &version.network)?;
            }
            let was_to_come = !old.pending(time).is_empty();
            if !was_to_come && first + 1 == versions.len() {
                return Ok(());
            }
            submit(time, true, &new.current(time).network)?;
            let mut to_come = new.pending(time).iter();
            to_come.try_for_each(|version| submit(version.at_ns, false, &version.network))
        })();
        passed.inspect_err(|_| self.restore(old, time))
    }

    /// Keeps the current version and cancels all future ones.
    ///
    /// # Errors
    /// [`ChangeRefusal`] if the thread does not answer.
    pub(super) fn stop(
        &self,
        timeline: &SettingsTimeline,
        time: Nanos,
    ) -> Result<(), ChangeRefusal> {
        let deadline = Instant::now() + self.reply_timeout;
        let stopped = self.submit(deadline, time, true, &timeline.current(time).network);
        stopped.inspect_err(|_| self.restore(timeline, time))
    }

    /// Submits `timeline` again, after all plans that are already queued, without waiting for an
    /// answer.
    fn restore(&self, timeline: &SettingsTimeline, time: Nanos) {
        let (answer, _) = mpsc::channel();
        self.post(time, true, &timeline.current(time).network, answer.clone());
        for version in timeline.pending(time) {
            self.post(version.at_ns, false, &version.network, answer.clone());
        }
    }

    /// Submits a plan and waits for the answer.
    fn submit(
        &self,
        deadline: Instant,
        at_ns: Nanos,
        replaces: bool,
        network: &NetworkSpec,
    ) -> Result<(), ChangeRefusal> {
        let (answer, answered) = mpsc::channel();
        self.post(at_ns, replaces, network, answer);
        match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let refused = Diagnostic::new(SR0015, "the running links cannot take the change");
                let help = match error {
                    ChangeError::Shape { .. } => config::RESTART_HELP,
                    ChangeError::Spec(_) => "see what holds: slipring emulate ctl get",
                };
                Err(Box::new(refused.with_cause(error.to_string()).with_help(help)))
            }
            Err(_) => {
                let gone = Diagnostic::new(SR0405, "the emulation does not answer");
                let cause = "it is ending, or was kept from running; nothing has changed";
                let help = "see whether it runs: slipring emulate ctl stats";
                Err(Box::new(gone.with_cause(cause).with_help(help)))
            }
        }
    }

    fn post(
        &self,
        at_ns: Nanos,
        replaces: bool,
        network: &NetworkSpec,
        answer: mpsc::Sender<Result<(), ChangeError>>,
    ) {
        let plan = Box::new(network.clone());
        self.channel.change(PlanChange { at_ns, replaces, plan, answer });
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde_json::json;
    use slipring_cli::Diagnose;

    use super::super::timeline::SettingsEdit;
    use super::*;
    use crate::config::EmulationConfig;

    fn timeline() -> SettingsTimeline {
        let text = "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\ndelay = \"20ms\"\n";
        let config = EmulationConfig::parse("link.toml", text).unwrap();
        let network = config.network().unwrap();
        SettingsTimeline::new(0, config, network)
    }

    fn with(timeline: &SettingsTimeline, delays: &[(Nanos, &str)]) -> SettingsTimeline {
        let edit = |&(at_ns, delay): &(Nanos, &str)| {
            (at_ns, SettingsEdit::Set(config::entries([("up.delay", &json!(delay))]).unwrap()))
        };
        let mut timeline = timeline.clone();
        timeline.insert_batch(0, delays.iter().map(edit).collect()).unwrap();
        timeline
    }

    /// Acts as the thread that moves frames: takes and accepts `count` changes.
    fn accept(channel: &EmulatorChannel, count: usize) -> Vec<PlanChange> {
        let mut taken = Vec::new();
        while taken.len() < count {
            for change in channel.take_changes() {
                change.answer.send(Ok(())).unwrap();
                taken.push(change);
            }
            thread::yield_now();
        }
        taken
    }

    #[test]
    fn who_leaves_in_the_midst_of_a_change_finds_the_old_settings_behind_it() {
        let channel = Arc::new(EmulatorChannel::new().unwrap());
        let patience = Duration::from_secs(2);
        let handover = PlanHandover { channel: channel.clone(), reply_timeout: patience };
        let old = with(&timeline(), &[(900, "70ms")]);
        let new = with(&old, &[(500, "30ms"), (600, "40ms")]);
        for accepted in 0..4 {
            let taker = channel.clone();
            let taker = thread::spawn(move || {
                accept(&taker, accepted);
                // This change is not answered.
                while taker.take_changes().is_empty() {
                    thread::yield_now();
                }
            });
            let error = handover.replace_timeline(&old, &new, 1, 100).unwrap_err();
            assert_eq!(error.summary(), "the emulation does not answer", "{accepted}");
            taker.join().unwrap();
            let left: Vec<_> = channel.take_changes();
            let [holds, comes] = &left[..] else { panic!("{accepted}: {left:?}") };
            assert!(holds.replaces, "{accepted}: what came before is taken back");
            assert_eq!(*holds.plan, *old.versions()[0].network);
            assert_eq!((comes.at_ns, &*comes.plan), (900, &*old.versions()[1].network));
        }
    }

    #[test]
    fn a_thread_that_begins_late_is_waited_for_as_long_as_the_client_waits() {
        let channel = Arc::new(EmulatorChannel::new().unwrap());
        let handover = PlanHandover::new(channel.clone());
        let old = timeline();
        let taker = thread::spawn(move || {
            // Simulates the time that the page faults of the thread's memory take on a busy
            // machine.
            thread::sleep(Duration::from_millis(2500));
            accept(&channel, 1)
        });
        handover.replace_timeline(&old, &with(&old, &[(500, "30ms")]), 1, 100).unwrap();
        assert_eq!(taker.join().unwrap().len(), 1);
    }

    #[test]
    fn one_change_is_handed_over_once_and_several_as_a_whole() {
        let channel = Arc::new(EmulatorChannel::new().unwrap());
        let handover = PlanHandover::new(channel.clone());
        let old = timeline();
        for (delays, times) in [
            (&[(500, "30ms")][..], &[(500, false)][..]),
            (
                &[(500, "30ms"), (600, "40ms")],
                &[(500, false), (100, true), (500, false), (600, false)],
            ),
        ] {
            let taker = channel.clone();
            let count = times.len();
            let taker = thread::spawn(move || accept(&taker, count));
            handover.replace_timeline(&old, &with(&old, delays), 1, 100).unwrap();
            let taken = taker.join().unwrap();
            let taken: Vec<_> =
                taken.iter().map(|change| (change.at_ns, change.replaces)).collect();
            assert_eq!(taken, times);
        }
    }
}
