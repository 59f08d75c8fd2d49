//! The host rings of an interface (`netmap:IF^`) as a port: the port receives what the host stack
//! sends on the interface, and the stack receives what the port sends.
//!
//! ```text
//!   host stack --> tcx egress of IF ===redirect===> veth K --> veth U --AF_XDP--> rx ring
//!   host stack <-- ingress of IF <==redirect== tcx ingress of K <-- veth U <--AF_XDP-- tx ring
//! ```
//!
//! IF is the interface, and stays a kernel interface with its addresses and routes. K and U are the
//! two ends of a hidden veth pair: K on the kernel's side, U on the user's side, where the port has
//! its sockets. One tcx program redirects frames that the host sends on IF to K, and another one
//! redirects frames that arrive on K to the host, as if IF had received them. BPF links keep the
//! programs attached, and the port owns the pair, so dropping the port restores the interface.
//!
//! U is in a network namespace that only descriptors of the port keep alive, such as its sockets.
//! When the process ends for any reason, and no other process has borrowed a queue, the kernel
//! removes the namespace, and so U and its peer K. The kernel does that in the background, so it
//! takes a moment. Creating a namespace requires CAP_SYS_ADMIN. Without it, U is in the same
//! namespace as K. Then the pair of a killed process remains until the next port of an interface is
//! opened ([`remove_stale`]).
//!
//! The pair has a queue for each host ring; all frames of a flow use the same queue.
//!
//! If AF_XDP sockets of IF itself are open at the same time, they must use native XDP: generic XDP
//! runs in the stack, and would also see the frames that this port sends to the host.

mod pair;

use std::sync::{Arc, OnceLock};

use slipring_ring::Region;

use crate::bpf::host::{HostRedirected, redirect};
use crate::error::OpenError;
use crate::iface::Iface;
use crate::info::PortMode;
use crate::options::{OpenOptions, RegionNeeds, XdpMode};
use crate::port::Port;
use crate::xdp::{self, RedirectPeer};
use pair::HostVethPair;

pub use pair::{remove_of, remove_stale};

/// Key of a `PortMode` entry: the requested number of host rings. The entry is
/// present if the interface has fewer rings than that.
pub const REQUESTED: &str = "host-rings-requested";

/// The memory that the host rings of an interface need from a region.
#[must_use]
pub fn needs(iface: &Iface, options: &OpenOptions) -> RegionNeeds {
    RegionNeeds::pairs(pairs(rings(iface, options.host_rings)), options.slots)
}

/// Refuses an interface whose host rings cannot be opened, in a region with buffers of `buf_size`
/// bytes. [`open`] begins with this check.
///
/// # Errors
/// [`OpenError`] when there is no such interface, or when its MTU is above what AF_XDP carries.
pub fn check(name: &str, ifname: &str, buf_size: u32) -> Result<Iface, OpenError> {
    let checked = Iface::find(ifname)
        .and_then(|iface| xdp::check_mtu(&iface, true, buf_size).map(|()| iface));
    checked.map_err(|cause| OpenError::new(name, cause))
}

/// Returns how many ring pairs a port has, given its numbers of rings in both directions: the
/// greater number, but at least one.
fn pairs([to_host, from_host]: [u32; 2]) -> u32 {
    to_host.max(from_host).max(1)
}

/// Returns the number of host rings of an interface, given the requested `[to_host, from_host]`.
/// Each is at least 1, and at most the greater of the interface's numbers of rx and tx queues.
#[must_use]
pub fn rings(iface: &Iface, [to_host, from_host]: [u32; 2]) -> [u32; 2] {
    let most = iface.rx_queues.max(iface.tx_queues).max(1);
    [to_host.clamp(1, most), from_host.clamp(1, most)]
}

/// Opens the host's side of interface `ifname`.
///
/// # Errors
/// [`OpenError`], usually because a privilege or tcx (Linux 6.6) is missing.
pub fn open(
    shown: &str,
    ifname: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let failed = |cause| OpenError::new(shown, cause);
    let iface = check(shown, ifname, region.buf_size())?;
    let rings = rings(&iface, options.host_rings);
    let pair = HostVethPair::create(&iface, rings).map_err(failed)?;
    let guard = Arc::new(HostRingsGuard { redirected: OnceLock::new(), pair });
    // Only this port uses the hidden pair, so the host need not be detached from it.
    let inner = OpenOptions { xdp: XdpMode::Native, shared: true, ..options.clone() };
    let home = guard.pair.netns().map_err(failed)?;
    let beyond = RedirectPeer { keep_alive: guard.clone(), iface: iface.clone(), netns: home };
    let user = &guard.pair.user;
    let open = || xdp::open_redirected(shown, user, None, region, &inner, beyond);
    let mut port = guard.pair.enter_user_netns(open).map_err(failed)??;
    // The redirection begins only now, because before this no socket could have received the
    // frames.
    let redirected = redirect(iface.index, guard.pair.kernel_index).map_err(failed)?;
    guard.redirected.set(redirected).expect("the guard is new, and only set here");
    port.info.kind = "host";
    port.info.mode = PortMode::new()
        .with("mode", "veth+tcx")
        .with("slots", options.slots)
        .with("host", "attached")
        .with("queues", port.queues.len());
    let requested = pairs(options.host_rings);
    if requested > pairs(rings) {
        port.info.mode = port.info.mode.with(REQUESTED, requested);
    }
    port.info.mode = port.info.mode.with_link(iface.up);
    port.info.mac = Some(iface.mac);
    port.info.mtu = Some(iface.mtu);
    Ok(port)
}

/// Restores the interface when this value is dropped. The programs are detached before the pair is
/// removed, so that no frame of the host is redirected to a pair that no longer exists.
#[derive(Debug)]
struct HostRingsGuard {
    redirected: OnceLock<HostRedirected>,
    pair: HostVethPair,
}
