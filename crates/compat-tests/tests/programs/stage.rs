//! The device of a test, and namespaces in which it is `/dev/netmap`.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use slipring_test_support::tree::stdout;
use tempfile::TempDir;

/// A script that makes a `/dev` with the device, and waits. The namespaces exist as long as the
/// script runs.
const SPACE: &str = r#"
dev=$1 netmap=$2
mount -t tmpfs dev "$dev"
for name in null zero full random urandom tty; do
    : > "$dev/$name"
    mount --bind "/dev/$name" "$dev/$name"
done
ln -s "$netmap" "$dev/netmap"
mount --rbind "$dev" /dev
ip link set lo up
echo ready
exec cat
"#;

/// The environment of a test's programs. It is removed at the end of the test.
pub(crate) struct Stage {
    dir: TempDir,
    device: Child,
    space: Child,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let fuse = dir.path().join("fuse");
        let mut device = Command::new(env!("CARGO_BIN_EXE_slipring-compat-tests"));
        let device = start(device.arg(&fuse));
        let dev = dir.path().join("dev");
        fs::create_dir(&dev).unwrap();
        let mut space = Command::new("unshare");
        space.args(["--mount", "--net", "sh", "-ec", SPACE, "space"]);
        let space = start(space.arg(dev).arg(fuse.join("netmap")));
        Self { dir, device, space }
    }

    /// Process id of the device's server.
    pub(crate) fn daemon(&self) -> u32 {
        self.device.id()
    }

    /// Returns a command that runs in the environment, for at most five minutes.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        let space = self.space.id().to_string();
        command.args(["--mount", "--net", "--target", &space, "timeout", "300"]).arg(program);
        command
    }

    /// Runs a program, which must succeed. Returns its output.
    pub(crate) fn run(&self, program: impl AsRef<OsStr>, args: &[&str]) -> String {
        stdout(self.command(program).args(args).output().unwrap())
    }

    /// Runs a line of shell, which must succeed. Returns its output.
    pub(crate) fn shell(&self, line: &str) -> String {
        self.run("sh", &["-ec", line])
    }

    fn fuse(&self) -> PathBuf {
        self.dir.path().join("fuse")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in [&mut self.space, &mut self.device] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = unmount(self.fuse(), UnmountFlags::DETACH);
    }
}

/// Ends a program of [`Stage::command`] with TERM. The program runs under `timeout`, which passes
/// the signal on to it.
pub(crate) fn end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let _ = child.wait();
}

/// Starts a program and waits until it prints `ready`.
fn start(command: &mut Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        panic!("{command:?} did not start: {output}");
    }
    child
}
