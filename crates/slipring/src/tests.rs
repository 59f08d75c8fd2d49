//! What holds for every command that has links.

mod examples;
mod instead;
mod stats;
