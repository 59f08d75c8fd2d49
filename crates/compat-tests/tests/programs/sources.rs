//! Tests that compile sources written for netmap, in their languages.

use std::process::Command;

use slipring_test_support::tree::stdout;

use super::builds::{include, of_tests};

const SOURCES: [&str; 3] = ["rings", "client", "library"];

fn compiles(compiler: &str, language: &[&str]) {
    for source in SOURCES {
        let mut command = Command::new(compiler);
        command.args(language).args(["-Wall", "-Wextra", "-Werror", "-O2", "-fsyntax-only"]);
        command.arg(format!("-I{}", include().display()));
        command.arg(of_tests("c/sources").join(format!("{source}.c")));
        stdout(command.output().unwrap());
    }
}

#[test]
fn sources_for_netmap_compile_as_the_c_that_they_ask_for() {
    for language in
        [&["-std=gnu99"][..], &["-std=c99", "-D_GNU_SOURCE"], &["-std=gnu11"], &["-std=gnu17"]]
    {
        compiles("cc", language);
    }
}

#[test]
fn sources_for_netmap_compile_as_cplusplus() {
    if Command::new("c++").arg("--version").output().is_err() {
        slipring_test_support::skip!("there is no C++ compiler");
        return;
    }
    for language in ["-std=c++11", "-std=c++17"] {
        compiles("c++", &["-x", "c++", language]);
    }
}
