//! The identity of the program that opened a file.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What access rules and port names need to know about the program that opened a file.
#[derive(Debug)]
pub struct Opener {
    /// Inode number of the program's network namespace.
    pub netns: u64,
    /// A descriptor of the network namespace, to open ports there. All files that were opened in
    /// that namespace share the descriptor.
    pub netns_fd: Option<Arc<OwnedFd>>,
    /// The groups of the program when it opened the file.
    pub gids: Vec<u32>,
}
