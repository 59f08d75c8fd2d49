//! Tests of `make install` and `make uninstall` in temporary directories. A shell script or a small
//! program takes the place of the binary.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BINARY: &str = "#!/bin/sh
case $1 in
    names) echo pkt-gen ;;
    man) : > $2/slipring.1 ;;
    completions) echo $2 ;;
esac
";

/// A program that is compiled in place of [`BINARY`], so that it has symbols. It only writes the
/// manual page.
const PROGRAM_WITH_SYMBOLS: &str = r#"
fn main() {
    let words: Vec<_> = std::env::args().collect();
    if words.len() == 3 && words[1] == "man" {
        std::fs::write(format!("{}/slipring.1", words[2]), "").unwrap();
    }
}
"#;

/// The files of a simulated machine, below a temporary directory.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        let binary = root.0.path().join("built");
        fs::write(&binary, BINARY).unwrap();
        fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        root.make_archive();
        fs::create_dir_all(root.path("/home/joe/.local/bin")).unwrap();
        root
    }

    /// Creates an archive with an empty object. It stands for the C library that cargo builds.
    fn make_archive(&self) {
        let dir = self.0.path();
        let object = dir.join("empty.o");
        let good = |command: &mut Command| assert!(command.status().unwrap().success());
        good(Command::new("cc").args(["-x", "c", "-c", "-o"]).arg(&object).arg("/dev/null"));
        good(Command::new("ar").arg("rcs").arg(dir.join("lib.a")).arg(object));
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(&path[1..])
    }

    fn make(&self, words: &[&str]) -> Output {
        let mut make = Command::new("make");
        make.arg("-C").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        make.arg(format!("DESTDIR={}", self.0.path().join("root").display()));
        make.arg(format!("BINARY={}", self.0.path().join("built").display()));
        make.arg(format!("LIBRARY={}", self.0.path().join("lib.a").display())).args(words);
        // The test may itself be run by a `make`. Without these variables, that `make` does not
        // pass its flags on.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        make.env("CARGO_TARGET_DIR", self.0.path().join("target")).env("HOME", "/home/joe");
        make.output().unwrap()
    }

    fn well(&self, words: &[&str]) -> String {
        let done = self.make(words);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Returns every file and directory below the root.
    fn listing(&self) -> BTreeSet<String> {
        let root = self.0.path().join("root");
        let mut found = BTreeSet::new();
        list(&root, &root, &mut found);
        found
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }
}

fn list(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        found.insert(format!("/{}", path.strip_prefix(root).unwrap().display()));
        if path.is_dir() && !path.is_symlink() {
            list(root, &path, found);
        }
    }
}

#[test]
fn below_a_home_everything_goes_below_it_and_goes_again() {
    let root = Root::new();
    let before = root.listing();
    let said = root.well(&["install", "PREFIX=/home/joe/.local"]);
    assert!(said.contains("slipringd needs root: sudo systemctl link"), "{said}");
    let added: Vec<_> = root.listing().difference(&before).cloned().collect();
    let outside: Vec<_> = added.iter().filter(|path| !path.starts_with("/home/joe/")).collect();
    assert!(outside.is_empty(), "{outside:?}");
    for path in [
        "/home/joe/.local/bin/slipring",
        "/home/joe/.local/bin/slipring-pkt-gen",
        "/home/joe/.local/etc/slipring/daemon.toml.example",
        "/home/joe/.local/share/man/man1/slipring.1",
        "/home/joe/.local/share/slipring/systemd/slipringd.service",
        // Wireshark 4.0 looks in the first of these directories, Wireshark 4.4 in the second.
        "/home/joe/.config/wireshark/extcap/slipring-extcap",
        "/home/joe/.local/lib/wireshark/extcap/slipring-extcap",
    ] {
        assert!(root.has(path), "{path} in {added:#?}");
    }
    let unit = root.path("/home/joe/.local/share/slipring/systemd/slipringd.service");
    assert!(fs::read_to_string(unit).unwrap().contains("ExecStart=/home/joe/.local/bin/slipring"));
    // The second installation must not forget what the first one has installed.
    root.well(&["install", "PREFIX=/home/joe/.local", "LINKS=1"]);
    assert!(root.has("/home/joe/.local/bin/pkt-gen"));
    root.well(&["uninstall", "PREFIX=/home/joe/.local"]);
    assert_eq!(root.listing(), before);
}

#[test]
fn programs_are_installed_without_symbols_which_lie_apart() {
    let root = Root::new();
    let source = root.0.path().join("main.rs");
    fs::write(&source, PROGRAM_WITH_SYMBOLS).unwrap();
    for name in ["built", "slipring-bench"] {
        let program = root.0.path().join(name);
        let done = Command::new("rustc").arg("-g").arg(&source).arg("-o").arg(program).status();
        assert!(done.unwrap().success());
    }
    root.well(&["install", "PREFIX=/home/joe/.local", "SYMBOLS=1"]);
    let section = |path: &str, name: &str| {
        let listed = Command::new("objdump").arg("-h").arg(root.path(path)).output().unwrap();
        String::from_utf8(listed.stdout).unwrap().contains(name)
    };
    for program in ["bin/slipring", "lib/slipring/slipring-bench"] {
        let installed = format!("/home/joe/.local/{program}");
        let symbols = format!("/home/joe/.local/lib/debug/home/joe/.local/{program}.debug");
        assert!(!section(&installed, ".debug_line"), "{installed} has symbols");
        assert!(section(&installed, ".gnu_debuglink"), "{installed} does not name its symbols");
        assert!(section(&symbols, ".debug_line"), "{symbols} has none");
        assert!(Command::new(root.path(&installed)).status().unwrap().success());
    }
    root.well(&["uninstall", "PREFIX=/home/joe/.local"]);
    assert!(!root.has("/home/joe/.local/lib"));
}

#[test]
fn a_system_prefix_has_the_systems_directories_and_what_others_put_there_stays() {
    let root = Root::new();
    fs::create_dir_all(root.path("/lib/systemd/system")).unwrap();
    let mut before = root.listing();
    root.well(&["install", "PREFIX=/usr/local", "EXTCAP=/usr/lib/x/wireshark/extcap"]);
    for path in [
        "/lib/systemd/system/slipringd.socket",
        "/etc/slipring/daemon.toml.example",
        "/usr/lib/x/wireshark/extcap/slipring-extcap",
        "/usr/local/lib/libnetmap.a",
        "/usr/local/lib/libnetmap.so",
        "/usr/local/lib/libslipring.a",
        "/usr/local/lib/libslipring.so",
        "/usr/local/lib/libslipring.so.1",
        "/usr/local/lib/pkgconfig/libnetmap.pc",
        "/usr/local/lib/pkgconfig/slipring.pc",
        "/usr/local/include/slipring.h",
    ] {
        assert!(root.has(path), "{path} in {:#?}", root.listing());
    }
    fs::write(root.path("/etc/slipring/daemon.toml"), "").unwrap();
    root.well(&["uninstall", "PREFIX=/usr/local"]);
    before.extend(["/etc", "/etc/slipring", "/etc/slipring/daemon.toml"].map(str::to_owned));
    assert_eq!(root.listing(), before);
}

#[test]
fn what_was_not_installed_is_not_uninstalled_and_that_is_said() {
    let root = Root::new();
    let done = root.make(&["uninstall", "PREFIX=/usr"]);
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("nothing was installed there"), "{said}");
}

#[test]
fn what_somebody_else_has_put_in_its_place_stays_and_is_named() {
    let root = Root::new();
    let theirs = root.path("/home/joe/.local/bin/pkt-gen");
    fs::write(&theirs, "mine").unwrap();
    let before = root.listing();
    let done = root.make(&["install", "PREFIX=/home/joe/.local", "LINKS=1"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains(&theirs.display().to_string()), "{said}");
    assert_eq!(root.listing(), before);
    // Without `LINKS=1`, the installation does not conflict with the user's file. Uninstalling must
    // not take that file for one of ours.
    root.well(&["install", "PREFIX=/home/joe/.local"]);
    root.well(&["uninstall", "PREFIX=/home/joe/.local"]);
    assert_eq!(root.listing(), before);
    assert_eq!(fs::read(&theirs).unwrap(), b"mine");
}

#[test]
fn paths_that_make_cannot_work_with_and_programs_that_are_none_are_refused_in_words() {
    let root = Root::new();
    for (word, told) in [
        ("PREFIX=/home/joe/my programs", "cannot have spaces"),
        ("BINARY=/nosuch/slipring", "BINARY=/nosuch/slipring is no program"),
    ] {
        let before = root.listing();
        let done = root.make(&["install", "PREFIX=/home/joe/.local", word]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(told), "{word}: {said}");
        assert_eq!(root.listing(), before);
    }
}

#[test]
fn a_checkout_or_target_directory_with_a_space_in_its_path_is_refused_before_anything_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let checkout = dir.path().join("my programs");
    fs::create_dir(&checkout).unwrap();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../Makefile"), checkout.join("Makefile"))
        .unwrap();
    let told = |make: &mut Command| {
        let done = make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().unwrap();
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    let mut make = Command::new("make");
    make.current_dir(&checkout).args(["-n", "stage"]).env_remove("CARGO_TARGET_DIR");
    let said = told(&mut make);
    assert!(
        said.contains("the checkout cannot lie in `") && said.contains("my programs"),
        "{said}"
    );
    let mut make = Command::new("make");
    make.arg("-C").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).args(["-n", "stage"]);
    let said = told(make.env("CARGO_TARGET_DIR", &checkout));
    assert!(said.contains("CARGO_TARGET_DIR cannot have a space"), "{said}");
}
