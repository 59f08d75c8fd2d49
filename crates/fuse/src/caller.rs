//! The process that makes a call. Its memory and its network namespace are found by its thread id.
//!
//! A thread id is a weak reference. After the caller was killed, another process may have the id by
//! the time this process looks it up. So the memory is opened first, because the descriptor stays
//! connected to that address space, even across an exec. Afterwards this process checks that the
//! thread has the caller's user id, and that it did not start after the call.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::time::ClockId;
use slipring_netmap::{CallerMemory, Cancel, Errno, Opener, SharedPages};

use crate::namespaces::Namespaces;
use crate::pages;

/// Flag of pidfd_open that allows any thread, not only a thread-group leader (Linux 6.9, which also
/// introduced passthrough).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

/// A caller whose identity has been checked.
#[derive(Debug)]
pub(crate) struct Caller {
    memory: File,
    cancel: Option<Arc<Cancel>>,
    tid: u32,
    uid: u32,
    called: Duration,
}

impl Caller {
    /// Opens the memory of thread `tid` of user `uid`, whose call has already arrived. Fails if the
    /// thread with this id belongs to another user or has started since this function was called.
    pub(crate) fn open(tid: u32, uid: u32) -> Result<Self, Errno> {
        let called = boot_time();
        if tid == 0 {
            return Err(Errno::FAULT);
        }
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{tid}/mem"));
        let memory = memory.map_err(|error| errno_of(&error, Errno::NOMEM, Errno::FAULT))?;
        check(tid, uid, called)?;
        Ok(Self { memory, cancel: None, tid, uid, called })
    }

    /// Attaches `cancel`, by which another thread can end the call.
    pub(crate) fn with_cancel(self, cancel: Arc<Cancel>) -> Self {
        Self { cancel: Some(cancel), ..self }
    }
}

impl CallerMemory for Caller {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.memory.read_exact_at(out, addr).map_err(|_| Errno::FAULT)
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.memory.write_all_at(bytes, addr).map_err(|_| Errno::FAULT)
    }

    fn shared(&mut self, addr: u64, len: u64) -> Result<SharedPages, Errno> {
        let (tid, flags) = (self.tid, OFlags::PATH | OFlags::CLOEXEC);
        let process = rustix::fs::open(format!("/proc/{tid}"), flags, Mode::empty());
        let process =
            process.map_err(|error| errno_of(&error.into(), Errno::NOMEM, Errno::FAULT))?;
        let pages = pages::shared(&process, addr, len)?;
        // This is checked after the pages were found, as in `open`, because the thread id may now
        // belong to another process.
        check(self.tid, self.uid, self.called)?;
        Ok(pages)
    }

    fn eventfd(&mut self, number: i32) -> Result<OwnedFd, Errno> {
        let tid = Pid::from_raw(self.tid as i32).ok_or(Errno::FAULT)?;
        let lack = |error: Errno| errno_of(&error.into(), Errno::NOMEM, Errno::BADF);
        let thread = pidfd_open(tid, PIDFD_THREAD).map_err(lack)?;
        let own = pidfd_getfd(thread, number, PidfdGetfdFlags::empty()).map_err(lack)?;
        // This is checked after the descriptor was copied, as in `open`, because the thread id may
        // now belong to another process.
        check(self.tid, self.uid, self.called)?;
        let kind = fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd()));
        let is_eventfd = kind.is_ok_and(|kind| kind.as_os_str() == "anon_inode:[eventfd]");
        if is_eventfd { Ok(own) } else { Err(Errno::INVAL) }
    }

    fn cancel(&self) -> Option<Arc<Cancel>> {
        self.cancel.clone()
    }
}

/// The memory of the program that made a call, and the number of the call.
pub(crate) struct CallMemory<M>(pub(crate) M, pub(crate) u64);

impl<M: CallerMemory> CallerMemory for CallMemory<M> {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.0.read(addr, out)
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write(addr, bytes)
    }

    fn shared(&mut self, addr: u64, len: u64) -> Result<SharedPages, Errno> {
        self.0.shared(addr, len)
    }

    fn eventfd(&mut self, number: i32) -> Result<OwnedFd, Errno> {
        self.0.eventfd(number)
    }

    fn cancel(&self) -> Option<Arc<Cancel>> {
        self.0.cancel()
    }

    fn call(&self) -> Option<u64> {
        Some(self.1)
    }
}

/// The memory of calls that access no memory except their argument.
pub(crate) struct NoTaskMemory;

impl CallerMemory for NoTaskMemory {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}

/// Returns the network namespace and the groups of a thread that opens the device.
///
/// # Errors
/// [`Errno::NFILE`] if this process lacks descriptors or memory, or the user has reached the limit
/// of namespaces; other errors if the thread is gone or does not belong to user `uid`.
pub(crate) fn opener(namespaces: &Namespaces, tid: u32, uid: u32) -> Result<Opener, Errno> {
    let called = boot_time();
    let (netns, netns_fd) = namespaces.of(tid, uid)?;
    let status = check(tid, uid, called);
    let status = status.map_err(|lack| if lack == Errno::NOMEM { Errno::NFILE } else { lack })?;
    Ok(Opener { netns, netns_fd: Some(netns_fd), gids: gids(&status) })
}

/// Returns the error number to report if one of the caller's files could not be opened: `lack` if
/// this process has too little memory or too few descriptors, otherwise `fault`.
pub(crate) fn errno_of(error: &io::Error, lack: Errno, fault: Errno) -> Errno {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => lack,
        _ => fault,
    }
}

/// Checks that the thread belongs to the user, and that it already existed at the time of its call.
/// Returns the text of `/proc/TID/status`.
fn check(tid: u32, uid: u32, called: Duration) -> Result<String, Errno> {
    let read = |name| {
        let text = fs::read_to_string(format!("/proc/{tid}/{name}"));
        text.map_err(|error| errno_of(&error, Errno::NOMEM, Errno::FAULT))
    };
    let (status, stat) = (read("status")?, read("stat")?);
    let right = fs_uid(&status) == Some(uid) && started(&stat).is_some_and(|at| at <= called);
    if right { Ok(status) } else { Err(Errno::FAULT) }
}

/// Returns the file system user id, which is the fourth number of `Uid:`.
fn fs_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Returns the file system group id and the supplementary groups.
fn gids(status: &str) -> Vec<u32> {
    let line = |name| status.lines().find_map(move |line| line.strip_prefix(name));
    let own = line("Gid:").and_then(|ids| ids.split_whitespace().nth(3));
    let others = line("Groups:").unwrap_or_default().split_whitespace();
    own.into_iter().chain(others).filter_map(|id| id.parse().ok()).collect()
}

/// Returns the time from boot to the thread's start. This is field 22 of `stat`, which is the 20th
/// field after the name.
fn started(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks * 1000 / per_second))
}

fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> (u32, u32) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        (tid, rustix::process::geteuid().as_raw())
    }

    #[test]
    fn a_callers_memory_is_read_and_written_and_holes_are_faults() {
        let (tid, uid) = me();
        let mut caller = Caller::open(tid, uid).unwrap();
        let mine = Box::new([1u8, 2, 3, 4]);
        let addr = mine.as_ptr() as u64;
        let mut seen = [0; 4];
        caller.read(addr, &mut seen).unwrap();
        assert_eq!(seen, *mine);
        assert_eq!(caller.read(8, &mut seen), Err(Errno::FAULT));
        assert_eq!(caller.write(u64::MAX - 1, &seen), Err(Errno::FAULT));
    }

    #[test]
    fn another_user_or_nobody_is_refused() {
        let (tid, uid) = me();
        assert_eq!(Caller::open(tid, uid + 1).err(), Some(Errno::FAULT));
        assert_eq!(Caller::open(0, uid).err(), Some(Errno::FAULT));
        assert_eq!(opener(&Namespaces::new(None), tid, uid + 1).err(), Some(Errno::FAULT));
    }

    #[test]
    fn what_we_lack_is_not_called_the_callers_fault() {
        let of = |errno: Errno| errno_of(&errno.into(), Errno::NOMEM, Errno::FAULT);
        assert_eq!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(of), [Errno::NOMEM; 3]);
        assert_eq!([Errno::NOENT, Errno::ACCESS, Errno::SRCH].map(of), [Errno::FAULT; 3]);
    }

    #[test]
    fn the_groups_are_those_that_files_are_opened_by() {
        let status = "Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n";
        assert_eq!(gids(status), [8, 9, 10]);
        assert_eq!(gids("Gid:\n"), [0; 0]);
    }

    #[test]
    fn one_who_started_after_the_call_did_not_make_it() {
        let (tid, uid) = me();
        assert!(check(tid, uid, boot_time()).is_ok());
        assert_eq!(check(tid, uid, Duration::from_millis(1)), Err(Errno::FAULT));
    }
}
