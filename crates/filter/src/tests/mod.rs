//! Tests that need the inside of the crate.

mod expressions;
mod programs;
