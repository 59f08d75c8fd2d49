//! The outcome of `state` commands.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::SavedState;

/// The results of `state` commands.
#[derive(Clone, Debug, Default)]
pub struct RestoredStates {
    /// States that must be restored in the engines that have the flows. They were restored here as
    /// well, as far as there was space.
    pub states: Vec<SavedState>,
    /// The line and the reason for each state that was not restored. Expired states, and states for
    /// which there was no space, are not included.
    pub refused: Vec<(u32, String)>,
}
