//! Programs and libraries from their sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::stage::good;

/// The root of the tree.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where things are built, and kept for the next run.
pub(crate) fn built() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Our C library.
pub(crate) fn libnetmap() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = built().join("libnetmap");
        let mut make = Command::new("make");
        make.arg("-C").arg(root().join("libnetmap"));
        make.arg(format!("OUT={}", dir.display())).arg("CFLAGS=-O2 -Werror");
        good(make.output().unwrap());
        dir
    })
}

/// A static program from `tests/c/NAME.c` and our headers; `more` goes behind it.
pub(crate) fn c_program(name: &str, more: &[&str]) -> PathBuf {
    let program = built().join(format!("{name}-{}", std::process::id()));
    let source = format!("{}/tests/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let include = format!("-I{}/include", root().display());
    let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o"];
    let mut cc = Command::new("cc");
    cc.args(flags).arg(&program).args([&include, &source]).args(more);
    good(cc.output().unwrap());
    program
}
