//! Tests that hold for every command with links.

mod examples;
mod instead;
mod stats;
