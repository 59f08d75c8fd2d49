//! Tests the model with two drivers for the real chips: unmodified kernels bind r8169 to it, bring
//! the link up and ping through it; DPDK's testpmd sends frames through it. The model reports no
//! violation, except a known one of DPDK's driver: a write to a locked register.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_test_support::skip;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a directory in cargo's target directory, which tests of other crates also use.
fn shared(name: &str) -> PathBuf {
    // A relative directory is relative to the workspace.
    let target = option_env!("CARGO_TARGET_DIR").unwrap_or("target");
    Path::new(HERE).join("../..").join(target).join(name)
}

/// Finds the QEMU that SLIPRING_QEMU names; without this variable, that of `make qemu`.
fn qemu() -> Option<PathBuf> {
    let fetched = || shared("qemu/qemu-system-x86_64");
    let path = std::env::var_os("SLIPRING_QEMU").map_or_else(fetched, PathBuf::from);
    if !path.exists() {
        skip!("no QEMU at {}: make qemu", path.display());
        return None;
    }
    Some(path)
}

fn script(name: &str) -> PathBuf {
    Path::new(HERE).join("../../scripts").join(name)
}

/// Unpacks packages into `dir` by a script. Skips the test if they cannot be fetched.
fn unpacked(command: &mut Command, dir: PathBuf, what: &str) -> Option<PathBuf> {
    std::fs::create_dir_all(&dir).unwrap();
    let done = command.arg(&dir).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).trim().to_owned();
    match done.status.code() {
        Some(0) => Some(dir),
        Some(77) => {
            skip!("no {what} for guests: {said}");
            None
        }
        code => panic!("{command:?}: {code:?}: {said}"),
    }
}

/// The unpacked kernel of a Debian suite.
fn kernel(suite: &str) -> Option<PathBuf> {
    let mut command = Command::new("sh");
    command.arg(script("guest-kernel.sh")).arg(suite);
    unpacked(&mut command, shared("guest-kernel").join(suite), "kernel")
}

/// The unpacked testpmd of DPDK, with the libraries that it loads.
fn dpdk() -> Option<PathBuf> {
    unpacked(&mut Command::new(script("dpdk.sh")), shared("dpdk"), "DPDK")
}

fn kernel_accepts(suite: &str, chip: &str) {
    let Some(kernel) = kernel(suite) else { return };
    run(Command::new("sh").arg(script("guest-r8169.sh")).arg(kernel).arg(chip));
}

fn dpdk_accepts(chip: &str) {
    let (Some(kernel), Some(dpdk)) = (kernel("trixie"), dpdk()) else { return };
    run(Command::new("sh").arg(script("guest-dpdk.sh")).arg(kernel).arg(dpdk).arg(chip));
}

/// Runs a script that boots a guest with the model.
fn run(command: &mut Command) {
    let Some(qemu) = qemu() else { return };
    let done = command
        .env("MODEL", env!("CARGO_BIN_EXE_slipring-rtl-model"))
        .env("QEMU", qemu)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
}

#[test]
fn linux_6_1_drives_the_rtl8168h() {
    kernel_accepts("bookworm", "8168h");
}

#[test]
fn linux_6_1_drives_the_rtl8125b() {
    kernel_accepts("bookworm", "8125b");
}

#[test]
fn linux_6_12_drives_the_rtl8168g() {
    kernel_accepts("trixie", "8168g");
}

#[test]
fn linux_6_12_drives_the_rtl8125a() {
    kernel_accepts("trixie", "8125a");
}

#[test]
fn dpdk_24_11_drives_the_rtl8125a() {
    dpdk_accepts("8125a");
}

#[test]
fn dpdk_24_11_drives_the_rtl8125b() {
    dpdk_accepts("8125b");
}
