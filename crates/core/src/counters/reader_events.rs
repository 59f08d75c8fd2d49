//! Detects readers of this process's counters by inotify. So read access is all that readers need,
//! and a process without readers need not publish.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// The descriptor is readable once a reader has opened or read the watched file of counters after
/// the last [`Self::take_events`].
#[derive(Debug)]
pub struct ReaderEvents(OwnedFd);

impl ReaderEvents {
    pub(super) fn watch(path: &Path) -> io::Result<Self> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&watch, path, WatchFlags::OPEN | WatchFlags::ACCESS)?;
        Ok(Self(watch))
    }

    /// Whether the file was opened or read since the last call.
    #[must_use]
    pub fn take_events(&self) -> bool {
        let mut bytes = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.0, &mut bytes);
        let mut any = false;
        while events.next().is_ok() {
            any = true;
        }
        any
    }
}

impl AsFd for ReaderEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
