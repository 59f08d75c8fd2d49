//! Host rings (`netmap:IF^`): the host stack's side of an interface as a port.
//!
//! ```text
//!   host stack -- tcx egress of IF --> veth K ==> veth U -- AF_XDP --> rx ring
//!              <- ingress of IF <- tcx ingress of K <== U <- AF_XDP -- tx ring
//! ```
//! The interface stays a kernel interface, with its addresses and routes. The programs hang on
//! links and the hidden veth pair belongs to the port, so dropping it restores the interface;
//! after a kill, the next port of this kind removes the pair that was left.
//!
//! The pair has a queue for each host ring; frames of one flow come by the same ring.
//!
//! Needs AF_XDP in the driver on the NIC's side: a program in the stack would see what is meant
//! for the host once more.

use std::io;
use std::sync::{Arc, OnceLock};

use slipring_ring::Region;

use crate::bpf::host::{HostRedirected, redirect};
use crate::error::{OpenCause, OpenError};
use crate::iface::Iface;
use crate::info::Mode;
use crate::netlink::Netlink;
use crate::options::{Needs, OpenOptions, XdpMode};
use crate::port::Port;
use crate::xdp::{self, Beyond};

/// What the port takes from a region.
#[must_use]
pub fn needs(options: &OpenOptions) -> Needs {
    let [to_host, from_host] = options.host_rings;
    Needs::pairs(to_host.max(from_host).max(1), options.slots)
}

/// The rings that an interface's host side has where so many are wished: no more than the interface
/// has itself.
#[must_use]
pub fn rings(iface: &Iface, [to_host, from_host]: [u32; 2]) -> [u32; 2] {
    let most = iface.rx_queues.max(iface.tx_queues).max(1);
    [to_host.clamp(1, most), from_host.clamp(1, most)]
}

/// Opens the host's side of interface `ifname`.
///
/// # Errors
/// [`OpenError`], mostly for want of privileges or of tcx (Linux 6.6).
pub fn open(
    shown: &str,
    ifname: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let failed = |cause| OpenError::new(shown, cause);
    let iface = Iface::find(ifname).map_err(failed)?;
    let rings = rings(&iface, options.host_rings);
    let pair = HiddenPair::create(&iface, rings).map_err(failed)?;
    let guard = Arc::new(Guard { redirected: OnceLock::new(), pair });
    // Ours alone: nobody else uses the pair, so there is no host to keep away from it.
    let inner = OpenOptions { xdp: XdpMode::Native, shared: true, ..options.clone() };
    let beyond = Beyond { kept: guard.clone(), iface: iface.clone() };
    let user = &guard.pair.user;
    let mut port = xdp::open_towards(shown, user, None, region, &inner, beyond)?;
    // Not before somebody is there to take the frames.
    let redirected = redirect(iface.index, guard.pair.kernel_index).map_err(failed)?;
    guard.redirected.set(redirected).expect("the guard is new, and only set here");
    port.info.kind = "host";
    port.info.mode = Mode::new()
        .with("mode", "veth+tcx")
        .with("slots", options.slots)
        .with("host", "attached")
        .with("queues", port.queues.len())
        .with_link(iface.up);
    port.info.mac = Some(iface.mac);
    port.info.mtu = Some(iface.mtu);
    Ok(port)
}

/// Restores the interface. Programs first, so that no frame of the host finds half a way.
#[derive(Debug)]
struct Guard {
    redirected: OnceLock<HostRedirected>,
    pair: HiddenPair,
}

/// The veth pair between host stack and port.
#[derive(Debug)]
struct HiddenPair {
    kernel_index: u32,
    user: String,
}

impl HiddenPair {
    fn create(iface: &Iface, rings: [u32; 2]) -> Result<Self, OpenCause> {
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
        let stem = format!("sr{}h{}", std::process::id(), iface.index);
        let (kernel, user) = (format!("{stem}k"), format!("{stem}u"));
        // The kernel leads a frame of the host to the queue that its flow's hash says.
        netlink.add_veth_with_queues(&kernel, &user, None, [from_host, to_host])?;
        let index_of = |name: &str| {
            let found = netlink.links()?.into_iter().find(|link| link.name == name);
            found.map(|link| link.index).ok_or_else(|| io::Error::other("the new link is gone"))
        };
        let pair = Self { kernel_index: index_of(&kernel)?, user };
        for index in [pair.kernel_index, index_of(&pair.user)?] {
            netlink.set_mtu(index, iface.mtu)?;
            netlink.set_up(index)?;
        }
        Ok(pair)
    }
}

impl Drop for HiddenPair {
    fn drop(&mut self) {
        // Gone already when the namespace or an administrator was faster.
        let _ = Netlink::open().and_then(|netlink| netlink.delete(self.kernel_index));
    }
}

/// Removes hidden pairs whose process was killed, in this network namespace.
///
/// # Errors
/// The kernel's, mostly for want of CAP_NET_ADMIN.
pub fn remove_stale() -> io::Result<()> {
    let netlink = Netlink::open()?;
    for link in netlink.links()? {
        if link.kind == "veth" && owner(&link.name).is_some_and(is_dead) {
            netlink.delete(link.index)?;
        }
    }
    Ok(())
}

/// The process that made the kernel's end of a hidden pair with this name.
fn owner(name: &str) -> Option<u32> {
    let (pid, index) = name.strip_prefix("sr")?.strip_suffix('k')?.split_once('h')?;
    index.parse::<u32>().ok()?;
    pid.parse().ok()
}

fn is_dead(pid: u32) -> bool {
    !std::path::Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner("sr4121h12k"), Some(4121));
        for other in ["sr4121h12u", "sr4121hk", "srhk", "veth0", "sr12k", "eth0h1k"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_living_process_keeps_its_pair() {
        assert!(!is_dead(std::process::id()));
    }
}
