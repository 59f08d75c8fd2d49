//! The published files of a run directory, and which of their programs still run.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use slipring_native_proto::trust;

use crate::sys::lock;

/// Extension of published files.
const FILE_SUFFIX: &str = "stats";

/// A file published by a running program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedCounters {
    /// Process id of the program, from the file's name.
    pub pid: u32,
    /// Path of the file.
    pub path: PathBuf,
}

/// Returns all files in `dir` whose program is running, and those that cannot be opened, in the
/// order of process ids. A directory that cannot be read or trusted ([`trust::check_dir`]) counts
/// as empty.
#[must_use]
pub fn running(dir: &Path) -> Vec<PublishedCounters> {
    if trust::check_dir(dir).is_err() {
        return Vec::new();
    }
    let mut found: Vec<_> = published(dir).filter(|found| is_alive(&found.path)).collect();
    found.sort();
    found
}

/// Returns the path at which a process publishes.
pub(super) fn path_of(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("{pid}.{FILE_SUFFIX}"))
}

/// Removes the files of ended programs; ignores those that cannot be removed.
pub(super) fn remove_dead(dir: &Path) {
    for dead in published(dir).filter(|found| !is_alive(&found.path)) {
        let _ = fs::remove_file(dead.path);
    }
}

/// Opens a file for reading, safely: without following a symbolic link or blocking on a FIFO.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether the publisher of an open file is running: then it holds the write lock on the file.
pub(super) fn is_locked(file: &File) -> bool {
    lock::is_locked(file)
}

/// Whether the publisher of the file is running. True if the file exists, but cannot be opened.
fn is_alive(path: &Path) -> bool {
    open(path).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |file| is_locked(&file))
}

fn published(dir: &Path) -> impl Iterator<Item = PublishedCounters> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let path = entry.path();
        let special = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_socket());
        let ends_so = path.extension().is_some_and(|end| end == FILE_SUFFIX);
        let pid = path.file_stem()?.to_str()?.parse().ok()?;
        (ends_so && !special).then_some(PublishedCounters { pid, path })
    })
}
