//! The messages of rtnetlink that describe routing, as numbers and slices.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
