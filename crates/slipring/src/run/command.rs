//! The command: its start in the namespace, its signals, its end.
//!
//! The command shares this process's terminal, standard streams and process group, so that the
//! calling shell treats both as one job. Signals of the terminal reach the command directly; this
//! process forwards signals that other processes send to it.
//!
//! The kernel kills the command when the thread that started it ends, and so when this process is
//! killed. Processes that the command leaves running become children of this process and are ended
//! too, because without the link they would have no network.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use slipring_core::{kill_with_parent, netns};
use slipring_ring::Doorbell;

use super::sandbox::RunSandbox;

/// The file in which programs look for name servers.
const RESOLV_CONF_PATH: &str = "/etc/resolv.conf";
/// Directory of [`RESOLV_CONF_PATH`].
const ETC_DIR: &str = "/etc";
/// How long processes that outlive the command may take to end after TERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(1);

/// The command line to run.
#[derive(Debug, Clone)]
pub(super) struct RunCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(&'static str, String)>,
}

/// Signals sent to this process, to be forwarded to the command.
pub(super) struct ForwardedSignals {
    delivery: SignalDelivery<UnixStream, WithRawSiginfo>,
}

/// A running command.
pub(super) struct RunningCommand {
    thread: JoinHandle<io::Result<ExitStatus>>,
    pid: Pid,
    ended: Arc<Doorbell>,
}

/// Why the command could not start.
#[derive(Debug)]
pub(super) enum StartError {
    /// A step before the command's execution failed, for example entering its namespaces. The text
    /// names the step.
    Namespace(&'static str, io::Error),
    /// The command could not be executed.
    Exec(io::Error),
}

impl ForwardedSignals {
    /// Catches the signals, which then no longer end this process.
    pub(super) fn install() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let delivery = SignalDelivery::with_pipe(read, write, WithRawSiginfo, signals)?;
        Ok(Self { delivery })
    }

    /// Forwards pending signals to `pid`.
    fn forward_until_end(&mut self, pid: Pid) {
        for info in self.delivery.pending() {
            // A positive code means that the kernel sent the signal on behalf of the terminal. The
            // command has got it as well.
            if info.si_code <= 0
                && let Some(signal) = Signal::from_named_raw(info.si_signo)
            {
                // Sending fails if the command has ended since.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

impl RunningCommand {
    /// Starts the command in the namespace of the sandbox.
    pub(super) fn start(site: &RunSandbox, call: RunCommand) -> Result<Self, StartError> {
        let namespace_error = |what| move |error| StartError::Namespace(what, error);
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| {
            StartError::Namespace("adopt what the command leaves", error.into())
        })?;
        let ended = Arc::new(Doorbell::new().map_err(namespace_error("make an event descriptor"))?);
        let inside = site.inside.as_fd().try_clone_to_owned();
        let inside = inside.map_err(namespace_error("name the namespace"))?;
        let (resolv_conf, bell) = (site.resolv_conf.clone(), ended.clone());
        let (started, start) = channel();
        let thread = thread::spawn(move || {
            let status = run_to_end(inside, resolv_conf, call, &started);
            bell.ring();
            status
        });
        match start.recv() {
            Ok(Ok(pid)) => Ok(Self { thread, pid, ended }),
            Ok(Err(error)) => Err(error),
            Err(gone) => Err(StartError::Namespace("start a thread", io::Error::other(gone))),
        }
    }

    /// Waits for the command's end, and returns its status. Forwards signals until then. If the
    /// doorbell `lost` rings, the emulator has ended, and the command gets TERM.
    pub(super) fn wait(
        self,
        site: &RunSandbox,
        forwarded: &mut ForwardedSignals,
        lost: &Doorbell,
    ) -> io::Result<ExitStatus> {
        let mut link_lost = false;
        while !self.thread.is_finished() {
            let mut fds = vec![
                PollFd::new(forwarded.delivery.get_read(), PollFlags::IN),
                PollFd::new(&*self.ended, PollFlags::IN),
            ];
            if !link_lost {
                fds.push(PollFd::new(lost, PollFlags::IN));
            }
            // An interrupted poll is no error: everything is checked again.
            let _ = poll(&mut fds, None);
            let rings = fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
            if rings {
                link_lost = true;
                let _ = kill_process(self.pid, Signal::TERM);
            }
            if !fds[1].revents().is_empty() {
                break;
            }
            forwarded.forward_until_end(self.pid);
        }
        let status = match self.thread.join() {
            Ok(status) => status,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        kill_orphans(site.helper());
        status
    }
}

/// The work of the command's thread: starts the command, sends its process id (or why it could not
/// be started) to `started`, waits for the command, and returns its status.
fn run_to_end(
    inside: std::os::fd::OwnedFd,
    resolv_conf: Option<String>,
    call: RunCommand,
    started: &Sender<Result<Pid, StartError>>,
) -> io::Result<ExitStatus> {
    let begun = enter(inside, resolv_conf).and_then(|()| {
        let mut command = Command::new(&call.program);
        command.args(&call.args).envs(call.env);
        kill_with_parent(&mut command).spawn().map_err(StartError::Exec)
    });
    // Sending cannot fail, because the receiver waits for the value.
    match begun {
        Ok(mut child) => {
            let _ = started.send(Ok(Pid::from_child(&child)));
            child.wait()
        }
        Err(error) => {
            let _ = started.send(Err(error));
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

/// Moves this thread into the command's namespaces.
fn enter(inside: std::os::fd::OwnedFd, resolv_conf: Option<String>) -> Result<(), StartError> {
    let namespace_error = |what| move |error| StartError::Namespace(what, error);
    let network = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(inside.as_fd(), network)
        .map_err(|error| StartError::Namespace("enter the command's namespace", error.into()))?;
    if let Some(text) = resolv_conf {
        netns::become_private_mounts().map_err(namespace_error("make a mount namespace"))?;
        // If the file does not exist, programs cannot resolve names anyway, and nothing has to be
        // replaced.
        if fs::exists(RESOLV_CONF_PATH).unwrap_or(false) {
            replace(&text).map_err(namespace_error("replace /etc/resolv.conf"))?;
        }
    }
    Ok(())
}

/// Replaces `/etc/resolv.conf` by a file with the contents `text`, in this thread's own mount
/// namespace.
///
/// The file is in a tmpfs of its own. After this function returns, only the mount of the file over
/// `/etc/resolv.conf` refers to this tmpfs, so it needs no cleanup. (A removed file would need none
/// either, but in a nested run nothing could be mounted over it.) Before that, the tmpfs is mounted
/// over `/etc` in this thread's mount namespace, so only this thread sees it. A directory in `/tmp`
/// would not do, because it could belong to another user.
fn replace(text: &str) -> io::Result<()> {
    // Opened before `/etc` is covered. Symbolic links are followed, so this is the file that
    // programs read.
    let file = rustix::fs::open(RESOLV_CONF_PATH, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", ETC_DIR, "tmpfs", flags, None)?;
    let written =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(RESOLV_CONF_PATH);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    let covered = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let bound = written.and_then(|()| Ok(mount_bind(RESOLV_CONF_PATH, covered)?));
    unmount(ETC_DIR, UnmountFlags::DETACH)?;
    bound
}

/// Ends processes that the command has started and that are still running: first by TERM, then by
/// KILL. `helper` is a child of this process; it is not ended.
fn kill_orphans(helper: Option<Pid>) {
    let start = Instant::now();
    let mut asked = Vec::new();
    loop {
        let left = orphans(helper);
        if left.is_empty() {
            return;
        }
        let signal = if start.elapsed() < TERM_TIMEOUT { Signal::TERM } else { Signal::KILL };
        for pid in left {
            if signal == Signal::KILL || !asked.contains(&pid) {
                let _ = kill_process(pid, signal);
                asked.push(pid);
            }
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if start.elapsed() > 2 * TERM_TIMEOUT {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the children of this process that it did not start: processes whose parents have ended.
fn orphans(helper: Option<Pid>) -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<_> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    let pids = words.filter_map(|word| Pid::from_raw(word.parse().ok()?));
    pids.filter(|pid| Some(*pid) != helper).collect()
}

/// Returns the exit status that a shell would report for the command.
pub(super) fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
