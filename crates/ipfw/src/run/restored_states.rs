//! The outcome of `state` commands.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::SavedState;

/// The results of the `state` commands of a file.
#[derive(Clone, Debug, Default)]
pub struct RestoredStates {
    /// States that were restored here, and must be restored in the engines that have the flows.
    pub states: Vec<SavedState>,
    /// The line and the reason for each state that was not restored. Expired states are not
    /// included.
    pub refused: Vec<(u32, String)>,
}
