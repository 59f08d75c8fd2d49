//! `slipring daemon --supervise`: a service manager of our own, for one daemon.
//!
//! ```text
//!   supervisor                              worker: the daemon, as any manager would start it
//!   socket                       <--------  NOTIFY_SOCKET: READY=1, FDSTORE=1 with a descriptor, ..
//!   descriptors by name          -------->  LISTEN_FDS, LISTEN_FDNAMES of the next worker
//! ```
//!
//! It does nothing that could fail: no frame, no client, no configuration passes through it. A
//! worker that dies is followed at once by another, which has all that the first had stored. What
//! it tells goes on to the manager that started us, if one did.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus};

use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open};
use slipring_cli::{Exit, Failure, Session, Signals};

use crate::manager::{self, Manager};

/// How many descriptors we keep: one for the device, a few for each user and network namespace.
const ROOM: &str = "65536";
/// The first number of those that are handed on.
const FIRST: i32 = 3;
/// Bytes of a message.
const LONGEST: usize = 4096;

/// Serves by a worker, and by the next when that dies.
pub(crate) fn run(session: &mut Session<'_>) -> Result<Exit, Failure> {
    let signals = Signals::install()?;
    let socket = Socket::bind()?;
    let mut supervisor = Supervisor {
        above: Manager::of_environment(),
        kept: manager::handed().into_iter().collect(),
        is_ready: false,
        failures: 0,
    };
    loop {
        supervisor.is_ready = false;
        let mut worker = supervisor.start(&socket)?;
        let ended = supervisor.watch(&mut worker, &socket, &signals)?;
        if ended.success() || signals.stopping() {
            return Ok(exit_of(ended));
        }
        supervisor.failures = if supervisor.is_ready { 0 } else { supervisor.failures + 1 };
        // It has said why; to try again with what the one before it has kept might be in vain.
        if supervisor.failures > 1 || supervisor.kept.is_empty() {
            return Ok(exit_of(ended));
        }
        let how = match ended.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("status {}", ended.code().unwrap_or_default()),
        };
        session.reporter.warn(format_args!("the worker has ended ({how}): another takes over"))?;
    }
}

/// Our own end, as the worker's was.
fn exit_of(ended: ExitStatus) -> Exit {
    let same = |exit: &Exit| ended.code() == Some(*exit as i32);
    Exit::ALL.into_iter().find(same).unwrap_or(Exit::Machine)
}

struct Supervisor {
    /// Who started us.
    above: Manager,
    kept: BTreeMap<String, OwnedFd>,
    is_ready: bool,
    /// Workers in a row that never were ready.
    failures: u32,
}

impl Supervisor {
    fn start(&self, socket: &Socket) -> Result<Child, Failure> {
        // The shell alone knows its number, which stays when it becomes the worker.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh"]).arg(env::current_exe()?);
        command.args(words(env::args_os()));
        let names: Vec<&str> = self.kept.keys().map(String::as_str).collect();
        command
            .env("NOTIFY_SOCKET", format!("@{}", socket.name))
            .env(manager::ROOM, ROOM)
            .env("LISTEN_FDS", names.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            // The watchdog above hears the worker through us.
            .env_remove("WATCHDOG_PID")
            // What a terminal sends to all of its group we pass on, once.
            .process_group(0);
        let fds = self
            .kept
            .values()
            .zip(FIRST..)
            .map(|(fd, child_fd)| Ok(FdMapping { parent_fd: fd.try_clone()?, child_fd }));
        let fds = fds.collect::<io::Result<_>>()?;
        command.fd_mappings(fds).map_err(|error| io::Error::other(error.to_string()))?;
        slipring_core::kill_with_parent(&mut command);
        Ok(command.spawn()?)
    }

    /// Hears the worker, passes signals on to it, and keeps what it says is to be kept, until it
    /// ends.
    fn watch(
        &mut self,
        worker: &mut Child,
        socket: &Socket,
        signals: &Signals,
    ) -> Result<ExitStatus, Failure> {
        let pid = Pid::from_child(worker);
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        let mut told_to_stop = false;
        loop {
            let fds = [socket.socket.as_fd(), signals.wake_fd(), process.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // Interrupted or not: all three are looked at.
            let _ = poll(&mut fds, None);
            let has_ended = !fds[2].revents().is_empty();
            signals.acknowledge();
            // What it said before its end counts.
            while let Some((text, fd)) = socket.hear() {
                self.obey(&text, fd);
            }
            if has_ended {
                return Ok(worker.wait()?);
            }
            // One that ends just now needs no signal any more.
            if signals.stopping() && !told_to_stop {
                let _ = kill_process(pid, Signal::TERM);
                told_to_stop = true;
            }
            if signals.take_reload() {
                let _ = kill_process(pid, Signal::HUP);
            }
        }
    }

    fn obey(&mut self, text: &str, fd: Option<OwnedFd>) {
        let has = |line: &str| text.lines().any(|said| said == line);
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        self.is_ready |= has("READY=1");
        match (name, fd) {
            (Some(name), Some(fd)) if has("FDSTORE=1") => {
                self.kept.insert(name.to_owned(), fd);
            }
            (Some(name), _) if has("FDSTOREREMOVE=1") => {
                self.kept.remove(name);
            }
            _ => self.above.tell(text),
        }
    }
}

/// The words of the worker: ours, without the one that makes us the supervisor.
fn words(mut all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let name = all.next().map(PathBuf::from).unwrap_or_default();
    let rest = all.filter(|word| word != "--supervise");
    // By that name, which its own file has not, a program is the daemon without being told so.
    let implied =
        name.file_name().is_some_and(|name| name.to_string_lossy().ends_with("slipringd"));
    implied.then(|| OsString::from("daemon")).into_iter().chain(rest).collect()
}

/// Where the worker is heard. Everybody could find it by its name, so who speaks is looked at.
struct Socket {
    socket: UnixDatagram,
    name: String,
}

impl Socket {
    fn bind() -> io::Result<Self> {
        let number = RandomState::new().build_hasher().finish();
        let name = format!("slipring-{}-{number:x}", process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        set_socket_passcred(&socket, true)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, name })
    }

    /// The next message of a process with our rights, with a descriptor if it brings one.
    fn hear(&self) -> Option<(String, Option<OwnedFd>)> {
        loop {
            let mut bytes = [0; LONGEST];
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            let heard = rustix::io::retry_on_intr(|| {
                recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            });
            let len = heard.ok()?.bytes;
            let (mut fd, mut is_ours) = (None, false);
            for message in control.drain() {
                match message {
                    RecvAncillaryMessage::ScmRights(mut fds) => fd = fds.next(),
                    RecvAncillaryMessage::ScmCredentials(who) => is_ours = who.uid == geteuid(),
                    _ => {}
                }
            }
            if is_ours {
                return Some((String::from_utf8_lossy(&bytes[..len]).into_owned(), fd));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker_of(words_of_ours: &str) -> Vec<String> {
        let words = super::words(words_of_ours.split(' ').map(OsString::from));
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_worker_is_the_daemon_that_we_were_asked_to_be() {
        assert_eq!(
            worker_of("slipring daemon --supervise --mode 666"),
            ["daemon", "--mode", "666"]
        );
        assert_eq!(worker_of("/usr/sbin/slipringd --supervise"), ["daemon"]);
        assert_eq!(
            worker_of("slipring-slipringd --link none --supervise"),
            ["daemon", "--link", "none"]
        );
    }
}
