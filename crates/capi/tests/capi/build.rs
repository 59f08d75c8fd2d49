//! Builds and runs the test programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_test_support::tree::{built, root, stdout};
use tempfile::TempDir;

/// A language for test programs. It selects the compiler.
#[derive(Clone, Copy)]
pub(crate) enum Language {
    C11,
    Cpp17,
}

impl Language {
    fn compiler(self) -> Command {
        let (program, words): (_, &[&str]) = match self {
            Self::C11 => ("cc", &["-std=c11"]),
            Self::Cpp17 => ("c++", &["-x", "c++", "-std=c++17"]),
        };
        let mut compiler = Command::new(program);
        compiler.args(words);
        compiler
    }
}

/// The libraries that Rust's standard library, which is in `libslipring.a`, needs.
const SYSTEM_LIBRARIES: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// With which library a program is linked.
#[derive(Clone, Copy)]
pub(crate) enum Linked {
    Static,
    Shared,
}

/// Compiles `source` to a program below `dir`. A warning is an error.
pub(crate) fn program(dir: &TempDir, source: &Path, language: Language, linked: Linked) -> PathBuf {
    // The header is alone in its directory, so that warnings about it are shown. netmap's headers
    // count as system headers.
    let include = dir.path().join("include");
    fs::create_dir_all(&include).unwrap();
    fs::copy(root().join("include/slipring.h"), include.join("slipring.h")).unwrap();
    let program = dir.path().join("program");
    let mut compiler = language.compiler();
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_POSIX_C_SOURCE=200809L"]);
    compiler.arg("-I").arg(&include).arg("-isystem").arg(root().join("include"));
    compiler.arg("-o").arg(&program).arg(source).args(["-x", "none"]);
    match linked {
        Linked::Static => compiler.arg(built("libslipring.a")).args(SYSTEM_LIBRARIES),
        Linked::Shared => compiler.arg(built("libslipring.so")),
    };
    stdout(compiler.output().unwrap());
    program
}

/// Runs a program that [`program`] has built, and that must succeed; returns its output.
pub(crate) fn run(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    let libraries = built("libslipring.so");
    command.args(args).env("LD_LIBRARY_PATH", libraries.parent().unwrap());
    stdout(command.output().unwrap())
}
