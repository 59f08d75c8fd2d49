//! Code that only the end-to-end tests of this binary share: a running bridge, a sender and a
//! listener of frames, pings, a web server, and tcpdump as a witness.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod bridge;
pub(crate) mod frames;
pub(crate) mod ping;
pub(crate) mod web;
pub(crate) mod witness;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The binary under test.
pub(crate) const SLIPRING: &str = env!("CARGO_BIN_EXE_slipring");

/// Makes cargo build the program that `slipring bench` runs. Does nothing if that program is
/// already next to the binary under test, as after a build of the whole workspace.
pub(crate) fn build_bench_program() {
    if !Path::new(SLIPRING).with_file_name("slipring-bench").exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-q", "-p", "slipring-bench"]);
        assert!(cargo.status().unwrap().success());
    }
}

/// Copies the binary under test into `dir`, where ordinary users can run it, because they may have
/// no access to the build directory. Returns the path of the copy.
pub(crate) fn copy_to(dir: &Path) -> PathBuf {
    slipring_test_support::program::copy_into(dir, Path::new(SLIPRING))
}
