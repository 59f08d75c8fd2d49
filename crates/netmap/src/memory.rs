//! Memory: a user's file and the memories in it, pages that programs provide, access to the memory
//! of the calling program, and the ledger for the saved state.

pub(crate) mod caller;
pub(crate) mod external;
pub(crate) mod ledger;
pub(crate) mod netmap_memory;
pub(crate) mod user_memory;
