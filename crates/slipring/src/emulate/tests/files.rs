//! Settings from files.
