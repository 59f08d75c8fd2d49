//! Decides which engine handles a flow, and changes the engines of flows.
//!
//! ```text
//!   hold frames --> all engines get the rules --> states move to the new engines --> go on
//! ```
//!
//! Translations and delayed frames never move: rules with `nat` or pipes are executed only by the
//! first engine.

use std::sync::{Mutex, PoisonError};

use slipring_ipfw::run::Ruleset;
use slipring_ipfw::state::{SavedState, ip_frame};

use super::{ChangeFaults, ChangeReport, ControlPlane};
use crate::command_batch::CommandFault;
use crate::dataplane::{RuleDataplane, submit};
use crate::distribution::Steering;

/// Maximum number of bytes that are read of a transport header to find its ports.
const MAX_TRANSPORT_HEADER_BYTES: usize = 20;

impl ControlPlane {
    /// Returns how frames are steered; `None` if the rules do not decide this.
    fn steering(&self) -> Option<Steering> {
        self.steering.as_ref().map(|steering| *lock(steering))
    }

    /// Returns how these rules require frames to be steered; `None` if nothing changes: there are
    /// no new rules, frames are already steered in this way, or the rules do not decide this.
    pub(super) fn new_steering(&self, ruleset: Option<&Ruleset>) -> Option<Steering> {
        let new = Steering::of(ruleset?.config());
        self.steering().filter(|steering| *steering != new).map(|_| new)
    }

    /// Returns the number of engines among which the states are distributed.
    pub(super) fn engines_with_states(&self) -> u32 {
        match self.steering() {
            Some(Steering::First) => 1,
            _ => self.engines.len() as u32,
        }
    }

    /// Applies a change of the rules that also changes the steering of frames. From the first
    /// engine's change until all states have moved, no frame is checked.
    pub(super) fn steer_by(
        &self,
        steering: Steering,
        change: impl FnOnce(&Self) -> Result<ChangeReport, ChangeFaults>,
    ) -> Result<ChangeReport, ChangeFaults> {
        let _held = FrameHold::of(self).map_err(|fault| vec![(fault, None)])?;
        let before = self.set_steering(steering);
        let changed = change(self).inspect_err(|_| {
            self.set_steering(before);
        })?;
        self.move_states().map_err(|fault| vec![(fault, None)])?;
        Ok(changed)
    }

    fn set_steering(&self, steering: Steering) -> Steering {
        let set = |of: &Mutex<Steering>| std::mem::replace(&mut *lock(of), steering);
        self.steering.as_ref().map_or(steering, set)
    }

    /// Moves each state to the engine that now receives the packets of its flow.
    fn move_states(&self) -> Result<(), CommandFault> {
        let taken = self.finish_on_engines(|| {
            |dataplane: &mut dyn RuleDataplane, now| dataplane.firewall_mut().take_states(now)
        })?;
        let taken: Vec<_> = taken.into_iter().flatten().collect();
        if taken.is_empty() {
            return Ok(());
        }
        let mut parts = self.partition_states(taken).into_iter();
        let restored = self.finish_on_engines(|| {
            let part = parts.next().unwrap_or_default();
            move |dataplane: &mut dyn RuleDataplane, now| {
                // States that do not fit are lost: they exceed the maximum, which was higher
                // before.
                dataplane.firewall_mut().restore(part, now);
            }
        });
        restored.map(drop)
    }

    /// Groups states by the engine that handles their flow. Returns one list per engine.
    pub(super) fn partition_states(&self, states: Vec<SavedState>) -> Vec<Vec<SavedState>> {
        let mut all = vec![Vec::new(); self.engines.len()];
        for state in states {
            let thread = self.thread_of(&state);
            all[thread].push(state);
        }
        all
    }

    fn thread_of(&self, state: &SavedState) -> usize {
        let Some(distribution) = &self.distribution else { return 0 };
        let payload = [0; MAX_TRANSPORT_HEADER_BYTES];
        let frame = ip_frame(&state.link, &state.flow, state.flow.proto, &payload);
        let steering = self.steering().unwrap_or(Steering::ByHosts);
        steering.thread_of(&frame, distribution).unwrap_or_default()
    }
}

/// A guard that holds frames, unchecked, until it is dropped.
struct FrameHold<'p>(&'p ControlPlane);

impl<'p> FrameHold<'p> {
    /// Makes all engines hold frames, and waits until no engine checks a frame.
    fn of(plane: &'p ControlPlane) -> Result<Self, CommandFault> {
        // The guard is created first: if an error occurs below, its drop releases the frames.
        let held = Self(plane);
        plane.run_on_engines(|| {
            |dataplane: &mut dyn RuleDataplane, _| dataplane.hold_frames(true)
        })?;
        Ok(held)
    }
}

impl Drop for FrameHold<'_> {
    fn drop(&mut self) {
        for engine in &self.0.engines {
            // An engine that has ended has no frames.
            drop(submit(&**engine, |dataplane, _| dataplane.hold_frames(false)));
        }
    }
}

/// A poisoned lock can be used, because it protects a single value.
fn lock(steering: &Mutex<Steering>) -> std::sync::MutexGuard<'_, Steering> {
    steering.lock().unwrap_or_else(PoisonError::into_inner)
}
