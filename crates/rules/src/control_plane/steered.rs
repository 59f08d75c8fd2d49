//! Decides which engine handles a flow, and changes the engines of flows.
//!
//! ```text
//!   hold frames --> all engines get the rules --> states move to the new engines --> go on
//! ```
//!
//! Translations and delayed frames need not move: with `nat` or pipes in the rules, they are in the
//! first engine, and otherwise there are none.

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
    /// How frames are steered; `None` if the rules do not decide that.
    fn steering(&self) -> Option<Steering> {
        self.steering.as_ref().map(|steering| *lock(steering))
    }

    /// Returns how frames must be steered by these rules, if they are not steered like that.
    pub(super) fn new_steering(&self, ruleset: Option<&Ruleset>) -> Option<Steering> {
        let new = Steering::of(ruleset?.config());
        self.steering().filter(|steering| *steering != new).map(|_| new)
    }

    /// Returns among how many engines the states are distributed.
    pub(super) fn engines_with_states(&self) -> u32 {
        match self.steering() {
            Some(Steering::First) => 1,
            _ => self.engines.len() as u32,
        }
    }

    /// Makes a change of the rules by which frames are steered in another way. No frame is checked
    /// between the first engine's change and the arrival of all states.
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

    /// Moves all states to the engines to which the packets of their flows go.
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
                // States for which there is no space exceed the maximum; the table had been larger
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

/// Frames are held as long as this value lives.
struct FrameHold<'p>(&'p ControlPlane);

impl<'p> FrameHold<'p> {
    /// Waits until no engine checks a frame.
    fn of(plane: &'p ControlPlane) -> Result<Self, CommandFault> {
        // Created first, so that frames are no longer held if an error occurs below.
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

/// The lock can be used even if it is poisoned, because it protects a single value.
fn lock(steering: &Mutex<Steering>) -> std::sync::MutexGuard<'_, Steering> {
    steering.lock().unwrap_or_else(PoisonError::into_inner)
}
