//! Builds programs and libraries from their sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use slipring_test_support::tree::{self, root, stdout};

/// The exit status of `build.sh` if the sources cannot be downloaded.
const NO_SOURCES: i32 = 77;

/// Returns the directory of slipring's C headers.
pub(crate) fn include() -> PathBuf {
    root().join("include").canonicalize().unwrap()
}

/// Returns the path of a directory or file, given relative to this crate's directory `tests`.
pub(crate) fn of_tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// Returns the directory for build results, which is kept for the next run.
pub(crate) fn built() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Returns the directory with slipring's C library, which is built first if needed.
pub(crate) fn libnetmap() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = built().join("libnetmap");
        let mut make = Command::new("make");
        make.arg("-C").arg(root().join("libnetmap"));
        make.arg(format!("OUT={}", dir.display())).arg("CFLAGS=-O2 -Werror");
        make.arg(format!("ARCHIVE={}", tree::built("libslipring.a").display()));
        stdout(make.output().unwrap());
        dir
    })
}

/// Builds a static program from `tests/c/NAME.c` and our headers, with the arguments `more`.
pub(crate) fn c_program(name: &str, more: &[&str]) -> PathBuf {
    c_source(name, &[&["-static", "-pthread"], more].concat())
}

/// The libraries of the system that a static program with our C library needs.
pub(crate) const SYSTEM_LIBRARIES: [&str; 3] = ["-lgcc_eh", "-lm", "-ldl"];

/// Builds a static program with our C library, so that it can sync ports in its own process.
pub(crate) fn c_program_with_library(name: &str) -> PathBuf {
    let library = libnetmap().join("libslipring.a");
    let found = ["-DNETMAP_INPROCESS_LINKED", library.to_str().unwrap()];
    c_program(name, &[&found, &SYSTEM_LIBRARIES[..]].concat())
}

/// Builds a program from `tests/c/NAME.c` and our headers, linked in the machine's default way.
pub(crate) fn c_source(name: &str, more: &[&str]) -> PathBuf {
    c_source_as(name, name, more)
}

/// Like [`c_source`], but the program is called `program`.
pub(crate) fn c_source_as(program: &str, name: &str, more: &[&str]) -> PathBuf {
    // The program is written with a temporary name first, because another run may be using the old
    // program.
    let fresh = built().join(format!("{program}-{}", std::process::id()));
    let include = format!("-I{}", include().display());
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&fresh).arg(include);
    cc.arg(of_tests("c").join(format!("{name}.c"))).args(more);
    stdout(cc.output().unwrap());
    let program = built().join(program);
    fs::rename(fresh, &program).unwrap();
    program
}

/// Builds third-party sources with `third-party/build.sh`. Returns the directory of the results.
///
/// # Errors
/// The reason why the sources cannot be downloaded.
pub(crate) fn third_party(name: &str) -> Result<PathBuf, String> {
    let dir = built().join("third-party").join(name);
    let mut build = Command::new(of_tests("third-party/build.sh"));
    build.arg(name).arg(&dir).arg(include()).arg(libnetmap());
    let output = build.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(dir.join("lib")),
        Some(NO_SOURCES) => Err(text),
        _ => panic!("{name} does not build: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
