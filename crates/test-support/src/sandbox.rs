//! An environment for a daemon. It has network and mount namespaces, a run directory, and
//! `c/netmap-port.c`, a C program that uses netmap.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program::copy_into;
use crate::{FinishedProgram, Namespace, Program, tree};

/// The id of a user who has no other processes in the tests.
pub const NOBODY: u32 = 65_534;

/// Number of frames to send through a pipe. It is several times the number of slots in its rings.
pub const FRAMES_BEYOND_RING: u32 = 5000;

/// Number of frames to send over an interface. It is less than the number of slots in its ring,
/// because a full ring loses frames.
pub const FRAMES_WITHIN_RING: u32 = 500;

/// The environment of a daemon in a test. Mounts that are made in a sandbox are visible only in it,
/// and disappear with the last program that runs in it.
#[derive(Debug)]
pub struct Sandbox {
    /// The namespace in which all programs of the sandbox run.
    pub inside: Namespace,
    slipring: &'static str,
    dir: tempfile::TempDir,
}

impl Sandbox {
    /// Creates a sandbox in which `slipring` is the binary to run. Returns `None`, after printing
    /// why, if this is not permitted.
    #[must_use]
    pub fn new(slipring: &'static str) -> Option<Self> {
        let inside = Namespace::new()?;
        inside.unshare_mounts();
        // The machine's daemon.toml is only for the daemon of the machine, so the sandbox hides it.
        if Path::new("/etc/slipring").exists() {
            inside.command("mount", "-t tmpfs none /etc/slipring");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Some(Self { inside, slipring, dir })
    }

    /// Creates a sandbox with a veth pair, `e0` and `e1`. Nothing is sent on it unless a test does
    /// so.
    #[must_use]
    pub fn with_cable(slipring: &'static str) -> Option<Self> {
        let sandbox = Self::new(slipring)?;
        sandbox.inside.silence("default");
        sandbox.inside.ip("link add e0 type veth peer name e1");
        sandbox.inside.ip("link set e0 up");
        sandbox.inside.ip("link set e1 up");
        sandbox.inside.wait_for_carrier("e0");
        sandbox.inside.wait_for_carrier("e1");
        Some(sandbox)
    }

    /// Returns the path of the file `name` in the sandbox's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a copy of a program that every user can run.
    #[must_use]
    pub fn copy_of(&self, program: impl AsRef<Path>) -> PathBuf {
        copy_into(self.dir.path(), program.as_ref())
    }

    /// Returns the run directory of the programs in the sandbox.
    pub fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Starts a daemon. It creates no link in /dev, unless `words` request one.
    pub fn launch(&self, words: &str) -> Program {
        let none = if words.contains("--link") { "" } else { "--link none" };
        self.launch_with_default_link(&format!("{words} {none}"))
    }

    /// Starts a daemon with its default link.
    pub fn launch_with_default_link(&self, words: &str) -> Program {
        let mut command = Command::new(self.slipring);
        command.arg("daemon").arg("--run-dir").arg(self.run_dir());
        command.args(words.split_ascii_whitespace());
        Program::launch(&self.inside, command)
    }

    /// Starts a daemon and waits until it is ready.
    pub fn daemon(&self, words: &str) -> Program {
        let daemon = self.launch(words);
        daemon.wait_for_text("transport=fuse");
        daemon
    }

    /// Starts the C program on the device in the run directory.
    pub fn client(&self, words: &str) -> Program {
        Program::launch(&self.inside, client(&self.run_dir().join("netmap"), words))
    }

    /// Returns what the C program prints when it binds a port: `bound`, or an error.
    pub fn bind(&self, words: &str) -> String {
        output(self.client(&format!("bind {words}")).finish())
    }

    /// Like [`Self::bind`], but as an ordinary user.
    pub fn bind_as_nobody(&self, words: &str) -> String {
        output(self.client_of_nobody(&format!("bind {words}")).finish())
    }

    /// Like [`Self::client`], but as an ordinary user.
    pub fn client_of_nobody(&self, words: &str) -> Program {
        let mut command = Command::new(self.copy_of(program()));
        command.arg(self.run_dir().join("netmap")).args(words.split_ascii_whitespace());
        command.uid(NOBODY).gid(NOBODY);
        Program::launch(&self.inside, command)
    }

    /// Asserts that `count` frames from a program on the port `from` reach a program on the port
    /// `to`, complete and in order.
    pub fn exchange(&self, from: &str, to: &str, count: u32) {
        let receiver = self.client(&format!("receive {to} {count}"));
        receiver.wait_for_text("bound");
        self.client(&format!("send {from} {count}")).finish().well();
        assert_eq!(output(receiver.finish()), "bound\nreceived");
    }

    /// Runs a slipring command that uses the run directory of the sandbox.
    pub fn ask(&self, words: &str) -> FinishedProgram {
        let mut command = Command::new(self.slipring);
        command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", self.run_dir());
        Program::launch(&self.inside, command).finish()
    }

    /// Returns the number of mounts in the run directory.
    pub fn mounts(&self) -> usize {
        let run_dir = self.run_dir().display().to_string();
        self.inside.command("cat", "/proc/self/mounts").matches(&run_dir).count()
    }

    /// Asserts that a daemon that has ended has left no mounts, and in the run directory only its
    /// lock file and an empty directory.
    pub fn is_clean(&self) {
        assert_eq!(self.mounts(), 0);
        assert!(fs::read_dir(self.run_dir().join("fuse")).unwrap().next().is_none());
        let mut left: Vec<_> =
            fs::read_dir(self.run_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["fuse", "slipringd.lock"]);
    }
}

/// Returns the command of the C program with these arguments.
pub fn client(device: &Path, words: &str) -> Command {
    let mut client = Command::new(program());
    client.arg(device).args(words.split_ascii_whitespace());
    client
}

/// Returns the stdout of a program that has succeeded, without trailing white space.
pub fn output(ended: FinishedProgram) -> String {
    ended.well().stdout.trim_end().to_owned()
}

/// Returns the path of the C program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = tree::root().join("crates/test-support/c/netmap-port.c");
        // The program is in the directory of the running test's executable, to which only cargo and
        // tests write.
        let program = std::env::current_exe().unwrap().with_file_name("netmap-port");
        tree::compile_static(&source, &program);
        program
    })
}
