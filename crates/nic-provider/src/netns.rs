//! Runs code in the network namespace of an interface.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::thread::LinkNameSpaceType;

/// Runs `work` in a network namespace; `None` if the namespace cannot be entered.
pub(crate) fn in_netns<T: Send>(netns: &OwnedFd, work: impl FnOnce() -> T + Send) -> Option<T> {
    let entered = || -> io::Result<T> {
        let network = Some(LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(netns.as_fd(), network)?;
        Ok(work())
    };
    // A separate thread enters the namespace and ends here, so the calling thread stays in its own
    // namespace.
    thread::scope(|scope| scope.spawn(entered).join().ok()?.ok())
}
