//! Paths in the tree and in cargo's output, and commands that must succeed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the root of the tree.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns a file that cargo has built, for example `libslipring.a`: from the directory of the
/// running test, or a directory above it.
///
/// # Panics
/// If there is no such file.
#[must_use]
pub fn built(file: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dirs = own.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join(file)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{file} is not beside {}", own.display()))
}

/// Returns what a command that has ended wrote to stdout.
///
/// # Panics
/// If the command failed; the message contains all of its output.
#[track_caller]
pub fn stdout(output: Output) -> String {
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {written}{errors}", output.status);
    written
}

/// Compiles a C program; warnings are errors. The new file is moved to the path `program` only when
/// it is complete, since another run may be using the old file.
pub(crate) fn compile_static(source: &Path, program: &Path) {
    let new = program.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(&new).arg(source);
    stdout(cc.output().unwrap());
    std::fs::rename(new, program).unwrap();
}
