//! The veth pair between the host's stack and a port: where its ends are, and its lifetime.
//!
//! The creator of a pair holds a unix socket with the pair's name, as an abstract address, until it
//! removes the pair or ends. By this socket, other processes of the network namespace can tell
//! whether a pair is in use, even from another PID namespace.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::error::OpenCause;
use crate::iface::{Iface, or_by_keeper};
use crate::netlink::Netlink;
use crate::netns::Netns;

/// A hidden veth pair. Dropping it removes both ends.
#[derive(Debug)]
pub(super) struct HostVethPair {
    pub(super) kernel_index: u32,
    /// Index of the interface that gets the host rings.
    iface_index: u32,
    pub(super) user: String,
    /// The namespace of the port's end; `None` if it is the same as that of the kernel's end.
    user_netns: Option<Netns>,
    _mark: OwnedFd,
}

impl HostVethPair {
    pub(super) fn create(iface: &Iface, rings: [u32; 2]) -> Result<Self, OpenCause> {
        Self::try_create(iface, rings).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => OpenCause::Privilege {
                what: "make the link to the host",
                capabilities: "cap_net_admin,cap_bpf,cap_net_raw",
                source,
            },
            _ => OpenCause::System { what: "make the link to the host", source },
        })
    }

    fn try_create(iface: &Iface, [to_host, from_host]: [u32; 2]) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        let [kernel, user] = names(std::process::id(), iface.index);
        // The name is bound before the link exists, so that no other process takes the link for one
        // of a killed process.
        let mark = bind_owner_mark(&kernel)?;
        // If a privilege is missing or the user has too many namespaces, this is `None`; then both
        // ends are in this namespace.
        let user_netns = Netns::new().ok();
        let peer_netns = user_netns.as_ref().map(AsFd::as_fd);
        // The kernel selects a queue for each frame of the host by its flow's hash.
        netlink.add_veth_with_queues(&kernel, &user, peer_netns, [from_host, to_host])?;
        let kernel_index = index_of(&netlink, &kernel)?;
        let pair = Self { kernel_index, iface_index: iface.index, user, user_netns, _mark: mark };
        netlink.set_mtu(kernel_index, iface.mtu)?;
        netlink.set_up(kernel_index)?;
        pair.in_user_netns(|| set_up_user(&pair.user, iface.mtu))?;
        Ok(pair)
    }

    /// Returns the calling thread's namespace, which is that of the kernel's end; `None` if both
    /// ends are in it.
    pub(super) fn netns(&self) -> Result<Option<Netns>, OpenCause> {
        let current = self.user_netns.as_ref().map(|_| Netns::current());
        let failed = |source| OpenCause::System { what: "name the network namespace", source };
        current.transpose().map_err(failed)
    }

    /// Runs `work` in the namespace of the port's end.
    pub(super) fn enter_user_netns<T: Send>(
        &self,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, OpenCause> {
        let failed = |source| OpenCause::System { what: "enter the link to the host", source };
        self.in_user_netns(|| Ok(work())).map_err(failed)
    }

    fn in_user_netns<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.user_netns {
            Some(netns) => netns.run(work),
            None => work(),
        }
    }
}

fn set_up_user(name: &str, mtu: u32) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.disable_ipv6_autoconf(name)?;
    let index = index_of(&netlink, name)?;
    netlink.set_mtu(index, mtu)?;
    netlink.set_up(index)
}

fn index_of(netlink: &Netlink, name: &str) -> io::Result<u32> {
    let found = netlink.links()?.into_iter().find(|link| link.name == name);
    found.map(|link| link.index).ok_or_else(|| io::Error::other("the new link is gone"))
}

impl Drop for HostVethPair {
    fn drop(&mut self) {
        // The link may already have been removed, with the namespace or by an administrator.
        let removed = Netlink::open().and_then(|netlink| netlink.delete(self.kernel_index));
        let _ = or_by_keeper(removed, |keeper| keeper.remove_hidden_link(self.iface_index));
    }
}

/// Returns the names of the two ends of the pair that process `process` creates for interface
/// `ifindex`.
fn names(process: u32, ifindex: u32) -> [String; 2] {
    let (process, ifindex) = (base_36(process), base_36(ifindex));
    ["k", "u"].map(|end| format!("sr{process}h{ifindex}{end}"))
}

/// Returns a number in base 36 with capital letters. So the longest name has 15 bytes, as many as
/// the kernel allows.
fn base_36(number: u32) -> String {
    let mut digits = Vec::new();
    let mut rest = number;
    while rest > 0 || digits.is_empty() {
        digits.extend(char::from_digit(rest % 36, 36).map(|digit| digit.to_ascii_uppercase()));
        rest /= 36;
    }
    digits.iter().rev().collect()
}

/// Reads a number that [`base_36`] has written.
fn parse_base_36(text: &str) -> Option<u32> {
    let is_ours = text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    u32::from_str_radix(text, 36).ok().filter(|_| is_ours)
}

/// Removes the hidden pair that process `process` has created for interface `ifindex`, if the pair
/// exists.
///
/// # Errors
/// The kernel's error, if it cannot list or remove links.
pub fn remove_of(process: u32, ifindex: u32) -> io::Result<()> {
    let (netlink, [kernel, _]) = (Netlink::open()?, names(process, ifindex));
    let links = netlink.links()?;
    let pair = links.iter().find(|link| link.kind == "veth" && link.name == kernel);
    pair.map_or(Ok(()), |link| netlink.delete(link.index))
}

/// Removes the hidden pairs of killed processes in this network namespace. The kernel has not
/// removed these pairs, because their processes could not create a namespace for them, or because a
/// program to which a daemon lent the queues still holds them.
///
/// # Errors
/// The kernel's error, usually because CAP_NET_ADMIN is missing.
pub fn remove_stale() -> io::Result<()> {
    let netlink = Netlink::open()?;
    for link in netlink.links()? {
        if link.kind == "veth" && owner(&link.name).is_some() && is_unused(&link.name) {
            match netlink.delete(link.index) {
                // The kernel has removed the link since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                deleted => deleted?,
            }
        }
    }
    Ok(())
}

/// Returns the ID of the process that has created the pair whose kernel's end has this name; `None`
/// for other links.
fn owner(name: &str) -> Option<u32> {
    let (pid, index) = name.strip_prefix("sr")?.strip_suffix('k')?.split_once('h')?;
    parse_base_36(index)?;
    parse_base_36(pid)
}

/// Binds a socket whose name is that of the pair. Until the socket is closed, it marks the pair as
/// in use.
fn bind_owner_mark(kernel: &str) -> Result<OwnedFd, Errno> {
    let mark = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    bind(&mark, &SocketAddrUnix::new_abstract_name(format!("slipring/{kernel}").as_bytes())?)?;
    Ok(mark)
}

/// Returns whether no process has marked the pair as in use. If this cannot be found out, the pair
/// counts as in use.
fn is_unused(kernel: &str) -> bool {
    bind_owner_mark(kernel).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_fit_the_kernel_and_have_their_owner() {
        // The largest process ID and interface index of Linux.
        for (process, ifindex) in [(1 << 22, i32::MAX as u32), (0, 0), (9_999, 99_999)] {
            let [kernel, user] = names(process, ifindex);
            assert!(kernel.len() <= 15 && user.len() <= 15, "{kernel} {user}");
            assert_eq!(owner(&kernel), Some(process));
        }
    }

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner("sr4121h12k"), u32::from_str_radix("4121", 36).ok());
        for other in ["sr4121h12u", "sr4121hk", "srhk", "veth0", "sr12k", "eth0h1k"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_pair_is_in_use_as_long_as_somebody_has_its_mark() {
        let name = format!("sr{}h4096k", std::process::id());
        assert!(is_unused(&name));
        let held = bind_owner_mark(&name).unwrap();
        assert!(!is_unused(&name));
        drop(held);
        assert!(is_unused(&name));
    }
}
