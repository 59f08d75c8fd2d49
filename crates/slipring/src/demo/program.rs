//! Runs external programs in a namespace, as probes that do not depend on slipring.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use slipring_core::kill_with_parent;

use slipring_datapath::workers::WorkersStop;

/// A child process. It is killed on drop, and when the thread that started it ends.
pub(super) struct DemoChild {
    child: Child,
}

impl DemoChild {
    /// Starts the program with its output piped to this process.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        // The output is parsed, so it must be in the language that the parser expects.
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A Ctrl-C must reach only this process, which then ends the child itself.
        command.process_group(0);
        Ok(Self { child: kill_with_parent(command).spawn()? })
    }

    /// Waits until the program prints a line that contains `word`.
    pub(super) fn wait_for_line(&mut self, word: &str) -> io::Result<()> {
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let mut lines = BufReader::new(self.child.stdout.as_mut().ok_or_else(ended)?).lines();
        loop {
            if lines.next().ok_or_else(ended)??.contains(word) {
                return Ok(());
            }
        }
    }

    /// Waits until the program ends and returns all its output; `None` if `stop` is set before
    /// that. The output must fit into a pipe, because it is read only at the end.
    pub(super) fn output(mut self, stop: &WorkersStop) -> io::Result<Option<String>> {
        let pid = Pid::from_child(&self.child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        if !comes_first(ended.as_fd(), stop.doorbell.as_fd())? {
            return Ok(None);
        }
        self.child.wait()?;
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        Ok(Some(text))
    }
}

impl Drop for DemoChild {
    fn drop(&mut self) {
        // Killing fails if the child has already ended; it only needs to be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until one of the descriptors is readable; returns whether `one` is.
fn comes_first(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [one, other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    while let Err(error) = poll(&mut fds, None) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(!fds[0].revents().is_empty())
}
