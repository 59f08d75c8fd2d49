//! `slipring daemon --supervise`, a simple service manager for one daemon.
//!
//! ```text
//!   supervisor                          worker: the daemon, as any manager would start it
//!   RUN/supervisor-PID/notify <-------  NOTIFY_SOCKET: READY=1, FDSTORE=1 with a descriptor, ..
//!   descriptors by name       ------->  LISTEN_FDS, LISTEN_FDNAMES of the next worker
//!   an eventfd                <-------  all is well (`heartbeat`)
//! ```
//!
//! The supervisor does little that could fail: no frame and no client reaches it, and it reads the
//! configuration only at its start. When a worker ends unexpectedly, the supervisor immediately
//! starts the next one, with all descriptors that the ended worker had stored. A worker that no
//! longer answers is killed, and so is also replaced. If ten workers end within ten seconds, the
//! stored state is assumed to be the cause, and the next worker starts without it. If ten more end
//! as quickly, the supervisor ends too. If a service manager has started the supervisor, the
//! supervisor passes the worker's notifications on to it, except those that store or remove
//! descriptors.
//!
//! The socket is in a directory that no other user can enter. If other users could fill the socket,
//! a worker could not store what it must store before it answers a program.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open};
use slipring_cli::codes::SR0303;
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals};
use slipring_native_proto::trust;

use crate::heartbeat::{self, Heartbeat, Silence};
use crate::run::run_dir;
use crate::scheduling::SchedulingClass;
use crate::service_manager::{self, ServiceManager};
use crate::settings::{DaemonSettings, SettingsSources};

/// How many descriptors the supervisor offers to store. There is one for the device, and a few per
/// user and network namespace.
const MAX_STORED_FDS: &str = "65536";
/// The number of the first descriptor that is passed to the worker.
const FIRST_PASSED_FD: i32 = 3;
/// Maximum length of a notification in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// If this many workers end within [`DEATH_WINDOW`], the stored state is assumed to be the cause.
const MAX_RECENT_DEATHS: usize = 10;
const DEATH_WINDOW: Duration = Duration::from_secs(10);
/// Maximum time of a single wait for the worker.
const WAIT_PERIOD: Timespec =
    Timespec { tv_sec: 0, tv_nsec: heartbeat::HEARTBEAT_PERIOD.subsec_nanos() as i64 };
/// The start of the names of directories in which supervisors listen. A process id follows.
const DIRECTORY_PREFIX: &str = "supervisor-";

/// Runs a worker. Whenever it ends unexpectedly, starts another one.
pub(crate) fn run(
    sources: &SettingsSources,
    settings: &DaemonSettings,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    // The supervisor needs the same scheduling class as the worker. A worker with a higher class
    // could take all processor time, so that the supervisor could not replace it.
    settings.scheduling.map_or(Ok(()), SchedulingClass::apply)?;
    let signals = Signals::install()?;
    let run_dir = run_dir(sources, settings, session)?;
    let socket = NotifySocket::bind(&run_dir).map_err(|error| {
        Diagnostic::new(SR0303, format!("cannot listen in {}", run_dir.display()))
            .with_cause(error.to_string())
            .with_help("run it as root, or give it a directory of yours by --run-dir")
    })?;
    let mut supervisor = Supervisor {
        manager: ServiceManager::from_environment(None),
        stored_fds: service_manager::inherited_fds().into_iter().collect(),
        is_ready: false,
        is_stopping: false,
        last_notified: Instant::now(),
    };
    let (mut deaths, mut is_afresh) = (WorkerExitTimes::default(), false);
    loop {
        let ended = supervisor.serve(&socket, &signals)?;
        let status = ended.status;
        if status.success() || signals.stopping() {
            return Ok(exit_of(status));
        }
        // A worker that has ended by itself before it was ready, and has left no state to continue
        // with, cannot start, and has already reported why. Another one would fail too.
        let has_said_why = status.signal().is_none();
        if has_said_why && !supervisor.is_ready && supervisor.stored_fds.is_empty() {
            return Ok(exit_of(status));
        }
        let how = ended.describe();
        if !deaths.record(Instant::now()) {
            session
                .reporter
                .warn(format_args!("the worker has ended ({how}): another takes over"))?;
            continue;
        }
        // This closes the stored descriptors. The FUSE connection ends with its last descriptor, so
        // programs get errors now.
        supervisor.stored_fds.clear();
        if is_afresh {
            return Err(Diagnostic::new(SR0303, "no worker stays alive")
                .with_cause(format!(
                    "{MAX_RECENT_DEATHS} more have ended within {} seconds, the last one by {how}",
                    DEATH_WINDOW.as_secs()
                ))
                .with_help("see what they say, without --supervise: slipring daemon")
                .into());
        }
        is_afresh = true;
        deaths = WorkerExitTimes::default();
        session.reporter.warn(format_args!(
            "{MAX_RECENT_DEATHS} workers have ended within {} seconds ({how}): another starts afresh, and \
             programs have to open the device again",
            DEATH_WINDOW.as_secs()
        ))?;
    }
}

/// The times at which workers have ended.
#[derive(Debug, Default)]
struct WorkerExitTimes(VecDeque<Instant>);

impl WorkerExitTimes {
    /// Records that one more worker has ended. Returns whether too many have ended in a short time.
    fn record(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        if self.0.len() < MAX_RECENT_DEATHS {
            return false;
        }
        let first = self.0.pop_front();
        first.is_some_and(|first| now.duration_since(first) < DEATH_WINDOW)
    }
}

/// How a worker has ended.
struct WorkerExit {
    status: ExitStatus,
    /// The silence for which the supervisor has killed the worker, if it did.
    hung: Option<Silence>,
}

impl WorkerExit {
    /// Describes the end for messages.
    fn describe(&self) -> String {
        match (self.status.signal(), self.hung) {
            (Some(_), Some(silence)) => format!("killed after {silence}"),
            (Some(signal), None) => format!("signal {signal}"),
            (None, _) => format!("status {}", self.status.code().unwrap_or_default()),
        }
    }
}

/// Converts the exit status of the worker to that of the supervisor.
fn exit_of(ended: ExitStatus) -> Exit {
    let same = |exit: &Exit| ended.code() == Some(*exit as i32);
    Exit::ALL.into_iter().find(same).unwrap_or(Exit::Machine)
}

struct Supervisor {
    /// The service manager that has started the supervisor, if there is one.
    manager: ServiceManager,
    stored_fds: BTreeMap<String, OwnedFd>,
    is_ready: bool,
    /// Whether the worker was told to end. If so, missing heartbeats are ignored.
    is_stopping: bool,
    /// When the supervisor last told its own manager that worker and supervisor are alive.
    last_notified: Instant,
}

impl Supervisor {
    /// Runs one worker from its start to its end. Returns how it ended.
    fn serve(&mut self, socket: &NotifySocket, signals: &Signals) -> Result<WorkerExit, Failure> {
        (self.is_ready, self.is_stopping) = (false, false);
        let heartbeat = Heartbeat::new()?;
        let mut worker = self.start(socket, &heartbeat)?;
        self.watch(&mut worker, socket, signals, heartbeat)
    }

    fn start(&self, socket: &NotifySocket, heartbeat: &Heartbeat) -> Result<Child, Failure> {
        // LISTEN_PID must be the worker's process id, which is unknown before the worker starts. So
        // a shell sets it to its own process id, and then executes the worker, which keeps this id.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh"]).arg(env::current_exe()?);
        command.args(worker_args(env::args_os()));
        let kept = self.stored_fds.iter().map(|(name, fd)| (name.as_str(), fd.as_fd()));
        let (names, fds): (Vec<_>, Vec<_>) =
            kept.chain([(heartbeat::HEARTBEAT_FD_NAME, heartbeat.fd())]).unzip();
        // The worker sends two heartbeats in this time.
        let watchdog = (heartbeat::HEARTBEAT_PERIOD * 2).as_micros();
        command
            .env("NOTIFY_SOCKET", socket.dir.join(NotifySocket::SOCKET_NAME))
            .env(service_manager::FDSTORE_VARIABLE, MAX_STORED_FDS)
            .env("LISTEN_FDS", names.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            // The supervisor is the worker's watchdog. It passes the worker's heartbeats on to the
            // watchdog of its own manager.
            .env("WATCHDOG_USEC", watchdog.to_string())
            .env_remove("WATCHDOG_PID")
            // A terminal sends signals to its process group. They must reach the worker only once,
            // through the supervisor.
            .process_group(0);
        let mapped = |(fd, child_fd): (BorrowedFd<'_>, i32)| {
            Ok(FdMapping { parent_fd: fd.try_clone_to_owned()?, child_fd })
        };
        let fds = fds.into_iter().zip(FIRST_PASSED_FD..).map(mapped).collect::<io::Result<_>>()?;
        command.fd_mappings(fds).map_err(|error| io::Error::other(error.to_string()))?;
        slipring_core::kill_with_parent(&mut command);
        Ok(command.spawn()?)
    }

    /// Waits until the worker ends, and returns how it ended. Until then, stores its descriptors,
    /// passes signals on to it, and kills it if it hangs.
    fn watch(
        &mut self,
        worker: &mut Child,
        socket: &NotifySocket,
        signals: &Signals,
        mut heartbeat: Heartbeat,
    ) -> Result<WorkerExit, Failure> {
        let pid = Pid::from_child(worker);
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        let (mut told_to_stop, mut hung, mut period) = (false, None, Instant::now());
        loop {
            let fds = [socket.socket.as_fd(), signals.wake_fd(), process.as_fd(), heartbeat.fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // Even if a signal interrupted the poll, all descriptors are checked below.
            let _ = poll(&mut fds, Some(&WAIT_PERIOD));
            let has_ended = !fds[2].revents().is_empty();
            signals.acknowledge();
            let was_ready = self.is_ready;
            // Messages that the worker sent before its end are still handled.
            while let Some((text, fd)) = socket.recv() {
                self.handle_message(&text, fd);
            }
            if has_ended {
                return Ok(WorkerExit { status: worker.wait()?, hung });
            }
            if heartbeat.take_beats() {
                self.notify_manager();
                heartbeat.record_life(pid);
                period = Instant::now();
            } else if self.is_ready != was_ready {
                // The silence of the start, which may be long, does not count any more.
                heartbeat.record_life(pid);
                period = Instant::now();
            } else if period.elapsed() >= heartbeat::HEARTBEAT_PERIOD {
                period = Instant::now();
                let silence = heartbeat.record_miss(pid, self.is_ready);
                let silence = silence.filter(|_| hung.is_none() && !self.is_stopping);
                hung = hung.or(silence.filter(|_| kill_process(pid, Signal::KILL).is_ok()));
            }
            // If the worker ends at this moment, it needs no signal, so an error is ignored.
            if signals.stopping() && !told_to_stop {
                let _ = kill_process(pid, Signal::TERM);
                (told_to_stop, self.is_stopping) = (true, true);
            }
            if signals.take_reload() {
                let _ = kill_process(pid, Signal::HUP);
            }
        }
    }

    /// If the supervisor's own manager has a watchdog, tells it that worker and supervisor are
    /// alive.
    fn notify_manager(&mut self) {
        let now = Instant::now();
        let is_due = |often: Duration| now.duration_since(self.last_notified) >= often;
        if self.manager.watchdog().is_some_and(is_due) {
            self.manager.send_watchdog();
            self.last_notified = now;
        }
    }

    fn handle_message(&mut self, text: &str, fd: Option<OwnedFd>) {
        let has = |line: &str| text.lines().any(|other| other == line);
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        self.is_ready |= has("READY=1");
        self.is_stopping |= has("STOPPING=1");
        match (name, fd) {
            (Some(name), Some(fd)) if has("FDSTORE=1") => {
                self.stored_fds.insert(name.to_owned(), fd);
            }
            (Some(name), _) if has("FDSTOREREMOVE=1") => {
                self.stored_fds.remove(name);
            }
            _ => self.manager.notify(text),
        }
    }
}

/// Returns the arguments of the worker. They are those of the supervisor without the flag
/// `--supervise`.
fn worker_args(mut all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let name = all.next().map(PathBuf::from).unwrap_or_default();
    let rest = all.filter(|word| word != "--supervise");
    // A program that is called `slipringd` is the daemon even without the argument `daemon`. But
    // the supervisor runs an executable with another name, so the worker needs the argument.
    let implied =
        name.file_name().is_some_and(|name| name.to_string_lossy().ends_with("slipringd"));
    implied.then(|| OsString::from("daemon")).into_iter().chain(rest).collect()
}

/// The socket to which the worker sends notifications. It is in a directory that only this user can
/// enter. Both are removed on drop.
struct NotifySocket {
    socket: UnixDatagram,
    dir: PathBuf,
}

impl NotifySocket {
    const SOCKET_NAME: &str = "notify";

    fn bind(run_dir: &Path) -> io::Result<Self> {
        trust::make_dir(run_dir, 0o755)?;
        remove_dead(run_dir);
        let dir = run_dir.join(format!("{DIRECTORY_PREFIX}{}", process::id()));
        trust::make_dir(&dir, 0o700)?;
        let socket = UnixDatagram::bind(dir.join(Self::SOCKET_NAME))?;
        set_socket_passcred(&socket, true)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, dir })
    }

    /// Returns the next message from a process of this user, and the descriptor that came with it,
    /// if one did.
    fn recv(&self) -> Option<(String, Option<OwnedFd>)> {
        loop {
            let mut bytes = [0; MAX_MESSAGE_BYTES];
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            let is_readable = rustix::io::retry_on_intr(|| {
                recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
            });
            let len = is_readable.ok()?.bytes;
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

impl Drop for NotifySocket {
    fn drop(&mut self) {
        // If the directory cannot be removed now, the next supervisor removes it.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes the directories of supervisors that were killed.
fn remove_dead(run_dir: &Path) {
    for entry in fs::read_dir(run_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX));
        let is_ours =
            |pid: u32| pid == process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        if pid.and_then(|pid| pid.parse().ok()).is_some_and(is_ours) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_deaths_in_ten_seconds_are_too_many_and_slower_ones_never() {
        let start = Instant::now();
        let too_many = |gap_ms: u64| {
            let mut deaths = WorkerExitTimes::default();
            let at = |i: u64| start + Duration::from_millis(i * gap_ms);
            (0..100).position(|i| deaths.record(at(i)))
        };
        assert_eq!(too_many(1), Some(9));
        assert_eq!(too_many(1110), Some(9));
        assert_eq!(too_many(1112), None);
    }

    fn worker_of(words_of_ours: &str) -> Vec<String> {
        let words = super::worker_args(words_of_ours.split(' ').map(OsString::from));
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
