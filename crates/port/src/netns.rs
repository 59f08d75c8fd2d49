//! Anonymous network namespaces: for the hidden pair of an interface, `slipring run`, the demo, the
//! doctor's trials, benchmarks and tests.
//!
//! A namespace lives as long as a descriptor, a socket or a thread holds it. There is nothing on
//! disk, so a killed process leaves nothing behind.
//!
//! Not for named namespaces that other programs made; `ip netns exec` enters those.

mod sys;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::mount::MountPropagationFlags;
use rustix::process::DumpableBehavior;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// Creates an empty namespace. The caller stays in its own.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN; see [`become_private_user`].
    pub fn new() -> io::Result<Self> {
        // A separate thread enters the new namespace and then ends. The namespace of the calling
        // thread does not change.
        in_thread(|| {
            become_private()?;
            Self::current()
        })
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's error, if `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self { fd: File::open("/proc/thread-self/ns/net")?.into() })
    }

    /// Runs `work` in a thread that is in this namespace, and waits for it. Sockets that it creates
    /// and processes that it starts belong to the namespace, wherever they are used later.
    ///
    /// # Errors
    /// The error of entering the namespace, or of `work`.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread into this namespace permanently.
    ///
    /// # Errors
    /// The kernel's error, usually because a capability is missing.
    pub fn enter(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        Ok(rustix::thread::move_into_link_name_space(self.fd.as_fd(), network)?)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Moves the calling thread into a new network namespace.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN.
pub fn become_private() -> io::Result<()> {
    sys::unshare(UnshareFlags::NEWNET)
}

/// Moves this process into a new user namespace, in which it is root, and a new network namespace
/// that belongs to the user namespace. An ordinary user may do this, if the system allows it.
///
/// # Errors
/// `InvalidInput` if the process has several threads; `PermissionDenied` or ENOSPC if the system
/// does not allow it.
pub fn become_private_user() -> io::Result<()> {
    become_user(|_| 0)?;
    become_private()
}

/// Moves this process into a new user namespace in which it stays the same user, but has all rights
/// in namespaces that it creates from now on. Programs that it runs have no additional rights.
///
/// # Errors
/// Same as for [`become_private_user`].
pub fn become_own_user() -> io::Result<()> {
    become_user(|id| id)
}

/// Enters a new user namespace. `inside` maps each ID that this process has outside to its ID
/// inside.
fn become_user(inside: fn(u32) -> u32) -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER)?;
    // A program with file capabilities does not own the files below its /proc/self, and could not
    // write the maps. This makes it their owner. It is harmless, because the program's rights end
    // at the new namespace.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // An ordinary user may map a group only after setgroups was denied.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{} {uid} 1", inside(uid)))?;
    std::fs::write("/proc/self/gid_map", format!("{} {gid} 1", inside(gid)))
}

/// Moves the calling thread into a private mount namespace: mounts that it makes from now on are
/// visible only to the thread and to programs that it starts.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN.
pub fn become_private_mounts() -> io::Result<()> {
    sys::unshare(UnshareFlags::NEWNS)?;
    // Mounts made outside still propagate into the namespace; mounts made inside do not propagate
    // out.
    let inwards = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", inwards)?)
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use crate::netlink::Netlink;

    use super::*;

    fn links() -> io::Result<Vec<String>> {
        Ok(Netlink::open()?.links()?.into_iter().map(|link| link.name).collect())
    }

    #[test]
    fn a_new_namespace_has_only_loopback_and_the_caller_stays_outside() {
        let outside = links().unwrap();
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(error) => return slipring_test_support::skip!("no network namespace: {error}"),
        };
        netns.run(|| Netlink::open()?.add_veth("a", "b", None)).unwrap();
        let mut inside = netns.run(links).unwrap();
        inside.sort();
        assert_eq!(inside, ["a", "b", "lo"]);
        assert_eq!(links().unwrap(), outside);
    }
}
