//! Answers requests to a running router.

/// Value of `program` in the answer to `hello`, by which clients recognise a router.
pub(crate) const PROGRAM_NAME: &str = "route";
