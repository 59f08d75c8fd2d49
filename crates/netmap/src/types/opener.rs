//! The identity of the program that opened a file.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Who opened a file, as far as names depend on it.
#[derive(Debug)]
pub struct Opener {
    /// Which network namespace: its inode number.
    pub netns: u64,
    /// The namespace itself, for ports that live in it. All who opened there share it.
    pub netns_fd: Option<Arc<OwnedFd>>,
    /// The groups that it was in when it opened.
    pub gids: Vec<u32>,
}
