//! The environment of a daemon: its own network and mounts, a run directory, a C program.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use slipring_core::netns;

use crate::support::namespace::Namespace;
use crate::support::program::{Ended, Program, SLIPRING};

/// A user id with no other processes in the tests.
pub(crate) const NOBODY: u32 = 65_534;

/// Frames for a pipe: several times its rings.
pub(crate) const MANY: u32 = 5000;

/// Frames for an interface: less than its ring, since a full ring loses frames.
pub(crate) const FEW: u32 = 500;

/// Mounts made here are private, and vanish with the last program that runs here.
pub(crate) struct Site {
    pub(crate) inside: Namespace,
    dir: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Option<Self> {
        let inside = Namespace::new()?;
        inside.run(|| netns::become_private_mounts().unwrap());
        // The machine's daemon.toml is only for the machine's daemon.
        if Path::new("/etc/slipring").exists() {
            inside.command("mount", "-t tmpfs none /etc/slipring");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Some(Self { inside, dir })
    }

    /// Creates a site with a veth pair, `e0` and `e1`, that sends nothing by itself.
    pub(crate) fn with_cable() -> Option<Self> {
        let site = Self::new()?;
        site.inside.silence("default");
        site.inside.ip("link add e0 type veth peer name e1");
        site.inside.ip("link set e0 up");
        site.inside.ip("link set e1 up");
        Some(site)
    }

    /// Returns a path that nothing else uses.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Starts a daemon; without a link in /dev, unless the words ask for one.
    pub(crate) fn launch(&self, words: &str) -> Program {
        let none = if words.contains("--link") { "" } else { "--link none" };
        self.launch_with_default_link(&format!("{words} {none}"))
    }

    /// Starts a daemon with its default link.
    pub(crate) fn launch_with_default_link(&self, words: &str) -> Program {
        let mut command = Command::new(SLIPRING);
        command.arg("daemon").arg("--run-dir").arg(self.run_dir());
        command.args(words.split_ascii_whitespace());
        Program::launch(&self.inside, command)
    }

    /// Starts a daemon and waits until it is ready.
    pub(crate) fn daemon(&self, words: &str) -> Program {
        let daemon = self.launch(words);
        daemon.wait_for_text("door=fuse");
        daemon
    }

    /// Starts the C program on the device in the run directory.
    pub(crate) fn client(&self, words: &str) -> Program {
        Program::launch(&self.inside, client(&self.run_dir().join("netmap"), words))
    }

    /// Returns what the C program prints when it binds a port: `bound`, or the error.
    pub(crate) fn bind(&self, words: &str) -> String {
        said(self.client(&format!("bind {words}")).finish())
    }

    /// Does the same as user nobody.
    pub(crate) fn bind_as_nobody(&self, words: &str) -> String {
        let mut command = client(&self.run_dir().join("netmap"), &format!("bind {words}"));
        command.uid(NOBODY).gid(NOBODY);
        said(Program::launch(&self.inside, command).finish())
    }

    /// Asserts that `count` frames pass between two programs, complete and in order.
    pub(crate) fn exchange(&self, from: &str, to: &str, count: u32) {
        let receiver = self.client(&format!("receive {to} {count}"));
        receiver.wait_for_text("bound");
        self.client(&format!("send {from} {count}")).finish().well();
        assert_eq!(said(receiver.finish()), "bound\nreceived");
    }

    /// Runs one of our commands on this run directory.
    pub(crate) fn ask(&self, words: &str) -> Ended {
        let mut command = Command::new(SLIPRING);
        command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", self.run_dir());
        Program::launch(&self.inside, command).finish()
    }

    /// Returns the number of mounts in the run directory.
    pub(crate) fn mounts(&self) -> usize {
        let run_dir = self.run_dir().display().to_string();
        self.inside.command("cat", "/proc/self/mounts").matches(&run_dir).count()
    }

    /// Asserts that an ended daemon left nothing behind.
    pub(crate) fn is_clean(&self) {
        assert_eq!(self.mounts(), 0);
        assert!(fs::read_dir(self.run_dir().join("fuse")).unwrap().next().is_none());
        let mut left: Vec<_> =
            fs::read_dir(self.run_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["fuse", "slipringd.lock"]);
    }
}

/// Returns the command of the C program with these words.
pub(crate) fn client(device: &Path, words: &str) -> Command {
    let mut client = Command::new(program());
    client.arg(device).args(words.split_ascii_whitespace());
    client
}

pub(crate) fn said(ended: Ended) -> String {
    ended.well().stdout.trim_end().to_owned()
}

/// Returns the path of the C program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../slipring/tests/daemon/port.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("netmap-port");
        let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"];
        let done = Command::new("cc").args(flags).arg(&program).arg(source).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    })
}
