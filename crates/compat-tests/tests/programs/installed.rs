//! Tests the library as it is installed: headers, archive, shared object, pkg-config.

use std::fs;
use std::process::Command;

use slipring_test_support::tree::{built, root, stdout};

use super::builds::of_tests;
use super::stage::Stage;

#[test]
fn a_program_builds_and_runs_against_the_installed_library() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("prefix");
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("libnetmap")).arg("install");
    make.arg(format!("OUT={}", dir.path().join("out").display()));
    make.arg(format!("ARCHIVE={}", built("libslipring.a").display()));
    stdout(make.arg(format!("PREFIX={}", prefix.display())).output().unwrap());
    assert!(prefix.join("lib/libnetmap.a").is_file());
    let config = fs::read_to_string(prefix.join("lib/pkgconfig/libnetmap.pc")).unwrap();
    assert!(config.contains(&format!("prefix={}\n", prefix.display())), "{config}");

    let program = dir.path().join("library");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&program).arg(of_tests("c/library.c")).arg("-pthread");
    cc.arg(format!("-I{}/include", prefix.display())).arg(format!("-L{}/lib", prefix.display()));
    stdout(cc.arg("-lnetmap").output().unwrap());
    let stage = Stage::new();
    let mut run = stage.command(program);
    run.arg("nmport_moves_frames_through_a_pipe").env("LD_LIBRARY_PATH", prefix.join("lib"));
    stdout(run.output().unwrap());
}
