//! Detects new rules, policies or filters of the kernel that forwarded packets would bypass, while
//! the router runs.
//!
//! ```text
//!   notifications of nf_tables, IPsec, tc --> list again --> changed? --> latest(), doorbell
//!                                             (checks.rs)                   |
//!                      the routing thread leaves these interfaces to the kernel
//! ```
//!
//! A separate thread makes the lists, because a long list of rules must not delay a heartbeat. The
//! lists require CAP_NET_ADMIN, so this thread keeps only that capability. Changes that netlink
//! does not announce (BPF programs, tables of iptables-legacy) are polled every [`PERIOD`]. The
//! list of those tables is a file that only root may open. If the thread becomes another user, the
//! helper opens it.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};

use netlink_sys::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use slipring_confine::{
    BPF_CALL, CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, UserIds, confine, confine_as,
};
use slipring_privileged::PrivilegedHelper;
use slipring_ring::Doorbell;

use crate::checks::{self, CheckedInterface, HookLister, Obstacle};

/// Netlink families with the groups that announce changes: `NFNLGRP_NFTABLES` of
/// linux/netfilter/nfnetlink.h, `XFRMNLGRP_POLICY` of linux/xfrm.h, `RTNLGRP_TC` of
/// linux/rtnetlink.h, links (`RTNLGRP_LINK`), and the settings of interfaces,
/// `RTNLGRP_IPV4_NETCONF` and `RTNLGRP_IPV6_NETCONF`.
const ANNOUNCEMENTS: [(isize, u32); 6] = [(12, 7), (6, 4), (0, 4), (0, 1), (0, 24), (0, 25)];
/// Period of polling for changes that netlink does not announce.
const PERIOD: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Further changes usually follow within milliseconds, because a table is loaded rule by rule. They
/// are collected for this time.
const COALESCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A running watch. It ends when this value is dropped.
pub(crate) struct BypassWatch {
    shared: Arc<WatchShared>,
    thread: Option<JoinHandle<()>>,
}

struct WatchShared {
    interfaces: Vec<CheckedInterface>,
    /// Opens root's files, if the thread is another user.
    helper: Option<Arc<PrivilegedHelper>>,
    latest: Mutex<Vec<Obstacle>>,
    stopped: AtomicBool,
    /// Rings for the watching thread when it must end.
    stop: Doorbell,
    /// Rings for the main thread after a change.
    changed: Arc<Doorbell>,
}

impl BypassWatch {
    /// Starts a thread that watches `interfaces` for obstacles, in the network namespace of the
    /// calling thread. `known` contains the obstacles that were found before. `changed` rings when
    /// the obstacles differ from these, and after each later change. With `user`, the new thread
    /// changes to that user, and the privileged helper process opens files for it that only root
    /// may open.
    ///
    /// # Errors
    /// If the system refuses an eventfd.
    pub(crate) fn start(
        interfaces: Vec<CheckedInterface>,
        known: Vec<Obstacle>,
        changed: Arc<Doorbell>,
        user: Option<(UserIds, Arc<PrivilegedHelper>)>,
    ) -> io::Result<Self> {
        let sockets = ANNOUNCEMENTS.into_iter().filter_map(|(family, group)| {
            // A kernel that does not support the family announces nothing.
            subscribe(family, group).ok()
        });
        let sockets: Vec<_> = sockets.collect();
        let (user, helper) = user.unzip();
        let shared = Arc::new(WatchShared {
            interfaces,
            helper,
            latest: Mutex::new(known),
            stopped: AtomicBool::new(false),
            stop: Doorbell::new()?,
            changed,
        });
        let watching = shared.clone();
        let (confined, is_confined) = sync_channel::<()>(1);
        let thread = spawn(move || {
            // The kernel lists nf_tables and IPsec policies only for CAP_NET_ADMIN. If capabilities
            // cannot be dropped here, the main thread reports the error, because it drops more of
            // them. Listing the programs of an interface needs the system call `bpf`; loading a
            // program would need CAP_BPF.
            let calls = SETUP_ONLY_CALLS.iter().copied().filter(|call| *call != BPF_CALL);
            let calls: Vec<_> = calls.collect();
            let (kept, calls) = (CapabilitySet::NET_ADMIN, [FORBIDDEN_CALLS, &calls]);
            match user {
                None => drop(confine(kept, &calls)),
                // An error is ignored: if this thread cannot become the user, neither can the main
                // thread, and the run ends.
                Some(user) => drop(confine_as(user, kept, &calls)),
            }
            drop(confined);
            watching.watch(&sockets);
        });
        // No packet is read before all threads are confined. The channel never carries a message:
        // `recv` returns when the sender is dropped.
        let _ = is_confined.recv();
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the obstacles that the last check has found.
    pub(crate) fn latest(&self) -> Vec<Obstacle> {
        self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for BypassWatch {
    fn drop(&mut self) {
        // Relaxed: the flag guards no other data.
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.stop.ring();
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked, which it has already reported.
            let _ = thread.join();
        }
    }
}

impl WatchShared {
    fn watch(&self, sockets: &[Socket]) {
        // Obstacles may have appeared between the checks at the start and the subscription, so they
        // are listed once before the first wait.
        let (mut announced, mut hooks) = (self.announced(), HookLister::default());
        self.note(&announced, &mut hooks);
        while !self.waited(sockets, PERIOD) {
            if drain(sockets) {
                if self.waited(&[], COALESCE) {
                    return;
                }
                drain(sockets);
                announced = self.announced();
            }
            self.note(&announced, &mut hooks);
        }
    }

    /// Waits for a change, or for `time`. Returns whether the watch must end.
    fn waited(&self, sockets: &[Socket], time: Timespec) -> bool {
        let mut fds = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        fds.extend(
            sockets.iter().map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)),
        );
        // Even if a signal interrupted the poll, the caller checks for messages and lists again.
        let _ = poll(&mut fds, Some(&time));
        self.stopped.load(Ordering::Relaxed)
    }

    fn announced(&self) -> Vec<Obstacle> {
        let found = checks::announced(&self.interfaces);
        found.unwrap_or_else(|error| vec![checks::unlisted(&error)])
    }

    /// Polls for changes that netlink does not announce, and reports a difference.
    fn note(&self, announced: &[Obstacle], hooks: &mut HookLister) {
        let mut found = announced.to_vec();
        found.extend(
            checks::unannounced(&self.interfaces, hooks, self.helper.as_deref())
                .unwrap_or_else(|error| vec![checks::unlisted(&error)]),
        );
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if *latest != found {
            *latest = found;
            self.changed.ring();
        }
    }
}

fn subscribe(family: isize, group: u32) -> io::Result<Socket> {
    let mut socket = Socket::new(family)?;
    socket.bind_auto()?;
    socket.add_membership(group)?;
    Ok(socket)
}

/// Discards all messages in the sockets; their contents do not matter. Returns whether there was a
/// change. An overrun also counts as a change.
fn drain(sockets: &[Socket]) -> bool {
    let mut buffer = [0; 4096];
    let mut any = false;
    for socket in sockets {
        // Any other error ends the reading of this socket, such as `EAGAIN` when it is empty.
        while let Ok(_) | Err(Errno::NOBUFS) = recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
            any = true;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use rustix::event::poll;
    use slipring_bpf::{BpfAttachType, BpfLinkFlags};
    use slipring_test_support::{Namespace, eventually, installed};

    use super::*;

    /// Waits until the watch reports these obstacles. Other reports may come before, since the
    /// watch may list the obstacles between two changes.
    fn wait(watch: &BypassWatch, changed: &Doorbell, is_found: impl Fn(&[Obstacle]) -> bool) {
        eventually("the change to be noticed", || {
            let mut fds = [PollFd::from_borrowed_fd(changed.as_fd(), PollFlags::IN)];
            let ready = poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
            (ready == Ok(1)).then(|| changed.clear())?;
            is_found(&watch.latest()).then_some(())
        });
    }

    fn shows(found: &[Obstacle], command: &str) -> bool {
        found.iter().any(|found| found.show == command)
    }

    fn shows_prefix(found: &[Obstacle], command: &str) -> bool {
        found.iter().any(|found| found.show.starts_with(command))
    }

    #[test]
    fn a_rule_that_is_added_or_removed_while_the_router_runs_is_noticed() {
        if !installed("nft") {
            return;
        }
        let Some(namespace) = Namespace::new() else { return };
        let changed = Arc::new(Doorbell::new().unwrap());
        let bell = changed.clone();
        let watch =
            namespace.run(|| BypassWatch::start(Vec::new(), Vec::new(), bell, None).unwrap());
        namespace.command("nft", "add table inet t");
        namespace.command("nft", "add chain inet t c { type filter hook forward priority 0 ; }");
        namespace.command("nft", "add rule inet t c counter drop");
        wait(&watch, &changed, |found| shows(found, "nft list chain inet t c"));
        namespace.command("nft", "delete table inet t");
        wait(&watch, &changed, <[_]>::is_empty);
    }

    #[test]
    fn a_tcx_program_that_is_attached_or_detached_while_the_router_runs_is_noticed() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        let changed = Arc::new(Doorbell::new().unwrap());
        let bell = changed.clone();
        let (watch, ifindex) = namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 };
            let known = checks::obstacles(std::slice::from_ref(&r0)).unwrap();
            (BypassWatch::start(vec![r0], known, bell, None).unwrap(), ifindex)
        });
        let before = watch.latest();
        let link = namespace.run(move || {
            let program = checks::accept_all();
            program.attach(ifindex, BpfAttachType::TcxEgress, BpfLinkFlags::Last).unwrap()
        });
        wait(&watch, &changed, |found| shows(found, "bpftool net show dev r0"));
        drop(link);
        wait(&watch, &changed, |found| found == before);
    }

    #[test]
    fn forwarding_that_is_switched_off_while_the_router_runs_is_noticed() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        let set = |path: &'static str, value: &'static str| {
            namespace.run(move || std::fs::write(format!("/proc/sys/net/{path}"), value).unwrap());
        };
        set("ipv4/ip_forward", "1");
        set("ipv6/conf/all/forwarding", "1");
        let changed = Arc::new(Doorbell::new().unwrap());
        let bell = changed.clone();
        let watch = namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 };
            BypassWatch::start(vec![r0], Vec::new(), bell, None).unwrap()
        });
        for path in ["ipv4/conf/r0/forwarding", "ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            set(path, "0");
            wait(&watch, &changed, |found| {
                shows_prefix(found, "sysctl net.ipv4.conf.r0.forwarding")
            });
            set("ipv4/ip_forward", "1");
            set("ipv4/conf/r0/forwarding", "1");
            set("ipv6/conf/all/forwarding", "1");
            wait(&watch, &changed, <[_]>::is_empty);
        }
    }

    #[test]
    fn a_filter_of_an_interface_is_noticed() {
        if !installed("tc") {
            return;
        }
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        let changed = Arc::new(Doorbell::new().unwrap());
        let bell = changed.clone();
        let watch = namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 };
            BypassWatch::start(vec![r0], Vec::new(), bell, None).unwrap()
        });
        namespace.command("tc", "qdisc add dev r0 clsact");
        namespace.command("tc", "filter add dev r0 egress u32 match u32 0 0");
        wait(&watch, &changed, |found| {
            found.first().is_some_and(|found| found.interface.as_deref() == Some("r0"))
        });
    }
}
