//! The identity of the program that opened a file.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The identity of the opener, as far as port names and rules depend on it.
#[derive(Debug)]
pub struct Opener {
    /// Inode number of its network namespace.
    pub netns: u64,
    /// A descriptor of the network namespace, to open ports there. All files that were opened in
    /// that namespace share the descriptor.
    pub netns_fd: Option<Arc<OwnedFd>>,
    /// The groups of the program when it opened the file.
    pub gids: Vec<u32>,
}
