//! What holds for every command that has links.

mod instead;
mod stats;
