//! A whole program, from `argv` to exit status and bytes on both streams.

#![allow(clippy::unwrap_used)]

mod config;
mod generated;
mod runs;
mod schema;
mod stage;
