//! L0/L2 crate: see Cargo.toml.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
