//! Paths in the source tree and in cargo's output. Also commands that must succeed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::closing;

/// Returns the root of the tree.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the path of a file that cargo has built, for example `libslipring.a`. It is searched for
/// in the directory of the running test and in the directory above.
///
/// # Panics
/// If the file does not exist.
#[must_use]
pub fn built(file: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dirs = own.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join(file)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{file} is not beside {}", own.display()))
}

/// Returns what a command has written to stdout. It must have ended successfully.
///
/// # Panics
/// If the command has failed. The message contains all of its output.
#[track_caller]
pub fn stdout(output: Output) -> String {
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {written}{errors}", output.status);
    written
}

/// Compiles a C program. Warnings are errors. The new file is moved to the path `program` only when
/// it is complete, because another run may be using the old one.
pub(crate) fn compile_static(source: &Path, program: &Path) {
    let new = program.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(&new).arg(source);
    stdout(closing::output(&mut cc).unwrap());
    std::fs::rename(new, program).unwrap();
}
