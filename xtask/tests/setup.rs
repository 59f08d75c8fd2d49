//! Tests of `scripts/setup.sh` on simulated machines. Scripts take the place of the programs of
//! apt.

#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The programs that `setup.sh` itself needs.
const TOOLS: [&str; 9] = ["bash", "cat", "cp", "env", "grep", "head", "sed", "sort", "uname"];

/// A script that stands for apt-get. While the file `locked` has lines, it fails with the next of
/// them as its message, as if another program held apt's lock. Otherwise it records its arguments
/// without the first three, which are options, and installs a compiler or make if that is
/// requested.
const APT_GET: &str = r#"
said=$(head -n 1 "$MACHINE/locked")
if [ -n "$said" ]; then
    sed -i 1d "$MACHINE/locked"
    echo "$said" >&2
    exit 100
fi
shift 3
echo "$*" >> "$MACHINE/asked"
for package in "$@"; do
    case "$package" in
        gcc) cp "$MACHINE/bin/rustc" "$MACHINE/bin/cc" ;;
        make) cp "$MACHINE/bin/rustc" "$MACHINE/bin/make" ;;
    esac
done
"#;

const APT_CACHE: &str = r#"
case "$1" in
    show) grep -qx -e "$3" "$MACHINE/archive" ;;
    pkgnames) grep -e "^$2" "$MACHINE/archive" ;;
    depends) cat "$MACHINE/depends" ;;
esac
"#;

/// A simulated machine without packages, and its package archive.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(archive: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        fs::create_dir(machine.path("bin")).unwrap();
        fs::create_dir_all(machine.path("usr/include")).unwrap();
        for tool in TOOLS {
            let mut found = ["/usr/bin", "/bin"].into_iter().map(|dir| Path::new(dir).join(tool));
            let found = found.find(|path| path.exists()).unwrap();
            symlink(found, machine.path("bin").join(tool)).unwrap();
        }
        machine.program("apt-get", APT_GET);
        machine.program("apt-cache", APT_CACHE);
        machine.program("rustc", "echo 'rustc 1.999.0'");
        machine.program("cargo", "");
        // This replaces `sleep`, so that waiting takes no time.
        machine.program("sleep", "");
        machine.program("id", "echo 0");
        machine.file("locked", "").file("depends", "").file("asked", "");
        machine.file("archive", &archive.replace(' ', "\n")).file("usr/include/stdio.h", "");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn set_up(&self, target: &str) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/setup.sh");
        let mut command = Command::new("/bin/bash");
        command.arg(script).arg(target).env_clear().env("PATH", self.path("bin"));
        command.env("MACHINE", self.0.path()).env("SLIPRING_SETUP_ROOT", self.0.path());
        command.env("SLIPRING_APT_WAIT", "3").output().unwrap()
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.path("asked")).unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

const LOCKED: &str =
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)\n";

#[test]
fn who_finds_apts_lock_held_waits_and_says_for_whom() {
    let machine = Machine::new("gcc g++ make");
    machine.file("locked", &LOCKED.repeat(2));
    let done = machine.set_up("fuzz");
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(machine.asked(), "update\ninstall -y --no-install-recommends gcc make g++\n");
    assert_eq!(said(&done).matches("held by process 7 (apt)").count(), 1, "{}", said(&done));
}

#[test]
fn a_lock_that_is_never_given_back_ends_the_wait() {
    let machine = Machine::new("gcc g++ make");
    machine.file("locked", &LOCKED.repeat(20));
    let done = machine.set_up("fuzz");
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("still locked after 3 s; run this again"), "{}", said(&done));
}

#[test]
fn another_error_of_apt_is_told_at_once() {
    let machine = Machine::new("gcc g++ make");
    machine.file("locked", "E: The disk is full\nE: it is asked once only\n");
    let done = machine.set_up("fuzz");
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("E: The disk is full"), "{}", said(&done));
    assert_eq!(fs::read_to_string(machine.path("locked")).unwrap().lines().count(), 1);
}

#[test]
fn what_the_archive_does_not_have_is_named_and_the_rest_installed() {
    let machine = Machine::new("gcc make");
    let done = machine.set_up("fuzz");
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("has no package g++;"), "{}", said(&done));
    assert_eq!(machine.asked(), "update\ninstall -y --no-install-recommends gcc make\n");
}

#[test]
fn a_compiler_that_cannot_be_had_ends_it() {
    let machine = Machine::new("make g++");
    let done = machine.set_up("fuzz");
    assert_eq!(done.status.code(), Some(3));
    assert!(said(&done).contains("cc is missing still"), "{}", said(&done));
}

/// Returns the packages of libclang that the script installs.
fn libclang(machine: &Machine) -> Vec<String> {
    let done = machine.set_up("test");
    assert!(done.status.success(), "{}", said(&done));
    let asked = machine.asked();
    let words = asked.split_whitespace().filter(|word| word.starts_with("libclang"));
    words.map(str::to_owned).collect()
}

#[test]
fn libclang_is_of_the_version_that_the_distribution_prefers() {
    let both = |version| format!("libclang1-{version} libclang-common-{version}-dev");
    let machine = Machine::new(&format!("gcc make {} {}", both(14), both(19)));
    assert_eq!(libclang(&machine), ["libclang1-19", "libclang-common-19-dev"], "the newest");
    let machine = Machine::new(&format!("gcc make {} {}", both(14), both(19)));
    machine.file("depends", "libclang1\n  Depends: libclang1-14\n");
    assert_eq!(libclang(&machine), ["libclang1-14", "libclang-common-14-dev"]);
    let machine = Machine::new(&format!("gcc make {} libclang1-20", both(18)));
    assert_eq!(libclang(&machine), ["libclang1-18", "libclang-common-18-dev"], "with headers");
}

#[test]
fn libclang_that_is_there_is_not_asked_for() {
    let machine = Machine::new("gcc make libclang1-14 libclang-common-14-dev");
    let llvm = machine.path("usr/lib/llvm-21/lib");
    fs::create_dir_all(llvm.join("clang/21/include")).unwrap();
    fs::write(llvm.join("clang/21/include/stddef.h"), "").unwrap();
    fs::write(llvm.join("libclang-21.so.1"), "").unwrap();
    assert!(libclang(&machine).is_empty());
}

#[test]
fn an_ordinary_user_is_told_the_command() {
    let machine = Machine::new("gcc g++ make");
    machine.program("id", "echo 1000");
    let done = machine.set_up("fuzz");
    assert_eq!(done.status.code(), Some(3));
    let command = "sudo apt-get install --no-install-recommends gcc make g++\n";
    assert!(said(&done).contains(command), "{}", said(&done));
    assert_eq!(machine.asked(), "");
}
