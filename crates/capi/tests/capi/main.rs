//! Tests `include/slipring.h` and its implementation with programs in C and C++, and by comparing
//! texts.
#![allow(clippy::unwrap_used)]

mod build;
mod document;
mod header;
mod licences;
mod programs;
