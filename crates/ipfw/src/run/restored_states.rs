//! The outcome of `state` commands.

use alloc::string::String;
use alloc::vec::Vec;

use crate::state::SavedState;

/// What came of the `state` commands of a file.
#[derive(Clone, Debug, Default)]
pub struct RestoredStates {
    /// States that are there again, or shall be in the engines that know flows.
    pub states: Vec<SavedState>,
    /// Those that are not, by line, and why. States whose time is over are not among them.
    pub refused: Vec<(u32, String)>,
}
