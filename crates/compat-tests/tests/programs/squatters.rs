//! A program that syncs its own queues connects to a socket. In these tests, trusted and other
//! users listen on such sockets.

use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Uid;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect,
    listen, recv, socket_with,
};
use slipring_test_support::program::copy_into;
use slipring_test_support::tree::stdout;
use tempfile::TempDir;

use super::builds::c_program_with_library;

const ROOT: u32 = 0;
const STRANGER: u32 = 4242;
/// Size of the program's request in bytes.
const QUESTION: usize = 24;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c_program_with_library("squatters"))
}

/// A device's directory. It is in the directory with the device's sockets.
struct DeviceDir {
    dir: TempDir,
    around: PathBuf,
}

impl DeviceDir {
    /// Creates both directories; `None` if the test does not run as root.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let around = dir.path().join("run");
        fs::create_dir_all(around.join("fuse")).unwrap();
        File::create(around.join("fuse/netmap")).unwrap();
        for path in [dir.path(), &around] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        if !rustix::process::geteuid().is_root() {
            slipring_test_support::skip!("to be somebody else needs root");
            return None;
        }
        Some(Self { dir, around })
    }

    fn socket(&self) -> PathBuf {
        self.around.join("native.sock")
    }

    /// Runs the program as `user`.
    fn ask(&self, user: u32) -> String {
        stdout(self.program(user).output().unwrap())
    }

    fn program(&self, user: u32) -> Command {
        let mut command = Command::new(copy_into(self.dir.path(), program()));
        command.arg(self.around.join("fuse/netmap")).uid(user).gid(user);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn new_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Creates a socket on which `user` listens.
fn listener(user: u32, path: &Path) -> OwnedFd {
    let (user, socket) = (Uid::from_raw(user), new_socket());
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
    // A listener's credentials are those of the thread that calls listen. So this thread changes
    // its user.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            listen(&socket, 1).unwrap();
        });
        thread.join().unwrap();
    });
    socket
}

/// Accepts all clients that have connected. Returns how many bytes each has sent. All of them must
/// have disconnected.
fn heard(listener: &OwnedFd) -> Vec<usize> {
    let come = std::iter::from_fn(|| accept(listener).ok());
    come.map(|one| recv(&one, &mut [0; 64][..], RecvFlags::empty()).unwrap().1).collect()
}

/// Waits until a socket is readable and returns the result of `act`.
fn ready<T>(socket: OwnedFd, act: impl Fn(&OwnedFd) -> rustix::io::Result<T>) -> T {
    poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).unwrap();
    act(&socket).unwrap()
}

#[test]
fn who_is_trusted_is_asked() {
    for (user, owner) in [(ROOT, ROOT), (STRANGER, ROOT), (STRANGER, STRANGER)] {
        let Some(site) = DeviceDir::new() else { return };
        chown(&site.around, Some(owner), None).unwrap();
        let listener = listener(owner, &site.socket());
        let asking = site.program(user).spawn().unwrap();
        let one = ready(listener, |listener| accept(listener));
        let question = ready(one, |one| recv(one, &mut [0; 64][..], RecvFlags::empty()));
        assert_eq!(question.1, QUESTION, "{user} {owner}");
        // The listener has closed the connection.
        assert_eq!(stdout(asking.wait_with_output().unwrap()), "0 sockets\n");
    }
}

#[test]
fn hostile_directories_are_not_looked_into() {
    for (owner, mode) in [(STRANGER, 0o755), (ROOT, 0o777), (ROOT, 0o775), (ROOT, 0o1777)] {
        let Some(site) = DeviceDir::new() else { return };
        // Root listens on this socket, but in such a directory another user could have replaced it.
        let listener = listener(ROOT, &site.socket());
        chown(&site.around, Some(owner), None).unwrap();
        fs::set_permissions(&site.around, Permissions::from_mode(mode)).unwrap();
        for user in [ROOT, STRANGER + 1] {
            assert_eq!(site.ask(user), "0 sockets\n");
        }
        assert_eq!(heard(&listener), [0; 0], "{owner} {mode:o}");
    }
}

#[test]
fn hostile_listeners_are_told_nothing() {
    for by_link in [false, true] {
        let Some(site) = DeviceDir::new() else { return };
        let elsewhere = site.around.join("elsewhere");
        let listener = match by_link {
            false => listener(STRANGER, &site.socket()),
            true => {
                symlink(&elsewhere, site.socket()).unwrap();
                listener(STRANGER, &elsewhere)
            }
        };
        for user in [ROOT, STRANGER + 1] {
            assert_eq!(site.ask(user), "0 sockets\n");
            assert_eq!(heard(&listener), [0], "{user} has come and said nothing");
        }
    }
}

#[test]
fn hostile_listeners_who_accept_nobody_hold_nobody_up() {
    let Some(site) = DeviceDir::new() else { return };
    let _listener = listener(STRANGER, &site.socket());
    let address = SocketAddrUnix::new(site.socket()).unwrap();
    let others = std::iter::repeat_with(|| {
        let other = new_socket();
        connect(&other, &address).map(|()| other)
    });
    let _others: Vec<_> = others.map_while(Result::ok).collect();
    // The listener's queue is full, so another connection would wait until one is accepted.
    assert_eq!(site.ask(ROOT), "0 sockets\n");
}
