//! The control sockets of a run directory and their names, as files.
//!
//! ```text
//!   4711.sock              the socket of process 4711
//!   edge.sock -> 4711.sock a name of its run
//! ```
//!
//! Sockets and names are made, moved and removed under a lock, so that no process acts on what
//! another one is changing.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::trust::FileLock;

/// The file that is locked while sockets in the directory are created or removed.
pub const LOCK_FILE: &str = "control.lock";

/// Returns the path of the socket of process `pid`.
#[must_use]
pub fn socket_of(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("{pid}.sock"))
}

/// Returns the paths of all sockets and names in a directory.
#[must_use]
pub fn sockets(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
}

/// Returns whether `link` leads to `socket`, which is in the same directory.
#[must_use]
pub fn leads_to(link: &Path, socket: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| Some(target.as_os_str()) == socket.file_name())
}

/// Gives the socket of process `pid` the name `name`, which must be valid. If another run has this
/// name, that run loses it.
///
/// # Errors
/// The kernel's error.
pub fn take_name(dir: &Path, pid: u32, name: &str) -> io::Result<()> {
    let _lock = FileLock::lock(&dir.join(LOCK_FILE))?;
    let new = dir.join(format!("{pid}.new"));
    symlink(format!("{pid}.sock"), &new)?;
    fs::rename(&new, dir.join(format!("{name}.sock")))
}

/// Removes the socket of a process, and its names. Names that another run has taken over stay.
/// Files that cannot be removed now are removed at the next start of a program.
pub fn remove_socket(dir: &Path, pid: u32) {
    // Without this lock, another run could take over the name between the check and the removal.
    let _lock = FileLock::lock(&dir.join(LOCK_FILE));
    let socket = socket_of(dir, pid);
    for name in sockets(dir).iter().filter(|name| leads_to(name, &socket)) {
        let _ = fs::remove_file(name);
    }
    let _ = fs::remove_file(socket);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_run_has_taken_over_stays_when_the_first_one_ends() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for pid in [1, 2] {
            fs::write(socket_of(dir, pid), "").unwrap();
            take_name(dir, pid, "edge").unwrap();
        }
        remove_socket(dir, 1);
        let mut left = sockets(dir);
        left.sort();
        assert_eq!(left, [socket_of(dir, 2), dir.join("edge.sock")]);
        remove_socket(dir, 2);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }
}
