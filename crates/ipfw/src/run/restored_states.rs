//! The outcome of `state` commands.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::SavedState;

/// The results of the `state` commands of a file.
#[derive(Clone, Debug, Default)]
pub struct RestoredStates {
    /// States that were restored, or are to be restored in the engines that have the flows.
    pub states: Vec<SavedState>,
    /// States that were not restored, with their line and the reason. Expired states are not
    /// included.
    pub refused: Vec<(u32, String)>,
}
