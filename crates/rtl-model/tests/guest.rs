//! Tests the model with the kernel's driver for the real chips: unmodified kernels bind r8169 to
//! it, bring the link up, ping through it, and access no register that the model does not know.
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

/// Finds the QEMU of `make qemu`, or of SLIPRING_QEMU.
fn qemu() -> Option<PathBuf> {
    let fetched = || shared("qemu/qemu-system-x86_64");
    let path = std::env::var_os("SLIPRING_QEMU").map_or_else(fetched, PathBuf::from);
    if !path.exists() {
        skip!("no QEMU at {}: make qemu", path.display());
        return None;
    }
    Some(path)
}

/// The unpacked kernel of a Debian suite.
fn kernel(suite: &str) -> Option<PathBuf> {
    let dir = shared("guest-kernel").join(suite);
    std::fs::create_dir_all(&dir).unwrap();
    let script = Path::new(HERE).join("../../scripts/guest-kernel.sh");
    let done = Command::new("sh").arg(script).arg(suite).arg(&dir).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).trim().to_owned();
    match done.status.code() {
        Some(0) => Some(dir),
        Some(77) => {
            skip!("no kernel for guests: {said}");
            None
        }
        code => panic!("guest-kernel.sh: {code:?}: {said}"),
    }
}

fn accepted(suite: &str, chip: &str) {
    let Some(qemu) = qemu() else { return };
    let Some(kernel) = kernel(suite) else { return };
    let done = Command::new("sh")
        .arg(Path::new(HERE).join("../../scripts/guest-r8169.sh"))
        .arg(kernel)
        .arg(chip)
        .env("MODEL", env!("CARGO_BIN_EXE_slipring-rtl-model"))
        .env("QEMU", qemu)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
}

#[test]
fn linux_6_1_drives_the_rtl8168h() {
    accepted("bookworm", "8168h");
}

#[test]
fn linux_6_1_drives_the_rtl8125b() {
    accepted("bookworm", "8125b");
}

#[test]
fn linux_6_12_drives_the_rtl8168g() {
    accepted("trixie", "8168g");
}

#[test]
fn linux_6_12_drives_the_rtl8125a() {
    accepted("trixie", "8125a");
}
