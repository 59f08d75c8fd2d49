//! Tests that need access to the internals of the crate.

mod expressions;
mod programs;
