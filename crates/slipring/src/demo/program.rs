//! Runs other people's programs inside a namespace: as witnesses that know nothing of slipring.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use slipring_core::kill_with_parent;

use slipring_datapath::workers::WorkersStop;

/// A program that is killed when this is dropped, or when the thread that started it ends.
pub(super) struct DemoChild {
    child: Child,
}

impl DemoChild {
    /// Starts it, with its output to be read here.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        // Messages are parsed, so they must be in the language that is parsed.
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A Ctrl-C is for us alone: we end it in our own time.
        command.process_group(0);
        Ok(Self { child: kill_with_parent(command).spawn()? })
    }

    /// Waits until it prints a line with `word` in it.
    pub(super) fn wait_for_line(&mut self, word: &str) -> io::Result<()> {
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let mut lines = BufReader::new(self.child.stdout.as_mut().ok_or_else(ended)?).lines();
        loop {
            if lines.next().ok_or_else(ended)??.contains(word) {
                return Ok(());
            }
        }
    }

    /// All that it prints until it ends; `None` when `stop` came first. For outputs that fit a
    /// pipe.
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
        // It may have ended by itself, and then needs no more than being waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for either; whether it was the first.
fn comes_first(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [one, other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    while let Err(error) = poll(&mut fds, None) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(!fds[0].revents().is_empty())
}
