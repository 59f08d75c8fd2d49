//! Tests that need access to the internals of the crate.

mod expressions;
mod generated_code;
mod instructions;
mod nesting;
mod programs;
