//! Provides network interfaces as netmap ports.
//!
//! A port is looked up when a request names it. Its interface is taken from the host when the port
//! is first bound, and given back when the last client closes it. Both happen in the network
//! namespace of the user who opened the port, in a thread that enters that namespace.
//!
//! [`NicAccess`] decides which interfaces a user may take. The interface that carries the default
//! route is refused unless `take_over` is set.
//!
//! Virtual machines (`vhost:PATH`) are bound like interfaces, but nothing is taken from the host.
//! This process creates their socket, or connects to it, with its own rights, so only root and the
//! user of this process may bind them.
//!
//! The host's side (`NR_REG_SW` and similar) has separate rings. Their number is what the first
//! client that opens the port requests, but at most the number of rings of the interface. Frames
//! that the host sends through the interface arrive on these rings, and the host receives frames
//! that are sent on them. Unless the NIC's rings are bound, the host still receives frames from the
//! wire.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod netns;
mod nic;
mod poller;
mod queue_loans;
mod ring_counts;

use std::num::NonZeroU16;
use std::sync::Arc;

use slipring_abi::name::{ConfSpec, PortName, PortNameKind, kind};
use slipring_core::kinds::{self, AfterRestart};
use slipring_netmap::{
    Adapter, AdapterRequest, AdapterShape, Errno, MemoryNeeds, NetmapMemory, Provider,
    RecoveredPort,
};
use slipring_port::iface::Iface;
use slipring_port::{OpenOptions, RegionNeeds};

use crate::netns::in_netns;
use crate::ring_counts::NicRingCounts;

/// Maximum number of ring pairs of a virtual machine.
const MAX_RING_PAIRS: u16 = 16;

/// Which interfaces users may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicAccess {
    /// Whether all users who may open the device may take interfaces. If not, only root may.
    pub all_users: bool,
    /// Whether the interface that carries the default route may also be taken.
    pub take_over: bool,
}

/// The host's network interfaces, as ports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nics {
    access: NicAccess,
}

impl Nics {
    /// Creates a provider that takes interfaces only as `access` allows.
    #[must_use]
    pub fn new(access: NicAccess) -> Self {
        Self { access }
    }
}

impl Provider for Nics {
    fn resume(&self, left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        let mut name = PortName::from_request_name(left.name.as_bytes()).ok()?;
        let AdapterShape { rings: [pairs, _], host_rings: host, slots: [slots, _] } = left.shape;
        if kinds::of(&name.kind).facts().restart != AfterRestart::Reopened {
            return None;
        }
        if name.kind.has(kind::RING_PAIRS) {
            name.conf = with_pairs(pairs);
        }
        let buf_size = left.memory.region().buf_size();
        let host_rings = host.map(u32::from);
        let options =
            OpenOptions { slots, buf_size: Some(buf_size), host_rings, ..OpenOptions::default() };
        let sides = NicRingCounts { nic: pairs, host };
        let netns = left.netns.clone()?;
        let index = in_netns(&netns, || Iface::find(&name.name).map(|iface| iface.index));
        let index = index.and_then(Result::ok);
        let nic = nic::Nic::new(name, index, netns, options, sides, left.memory.clone());
        nic.resume(&left.rings).then(|| Arc::new(nic) as Arc<dyn Adapter>)
    }

    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        let everybody = self.access.all_users || wanted.domain.uid() == 0;
        self.find_with_access(wanted, NicAccess { all_users: everybody, ..self.access })
    }
}

impl Nics {
    /// Finds the port that a client with the rights `access` requests: an interface, or a virtual
    /// machine. Here, `all_users` says whether this client may take interfaces.
    ///
    /// # Errors
    /// The errors of [`Provider::find`].
    pub fn find_with_access(
        &self,
        wanted: &AdapterRequest<'_>,
        access: NicAccess,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let name = PortName::from_request_name(wanted.name.as_bytes()).map_err(|_| Errno::NXIO)?;
        match name.kind {
            PortNameKind::Netmap => {}
            PortNameKind::Vhost | PortNameKind::VhostClient => {
                return open_vhost(wanted, name, access);
            }
            _ => return Err(Errno::NXIO),
        }
        let netns = wanted.opener.netns_fd.clone().ok_or(Errno::NXIO)?;
        let mut options = options(wanted, access);
        let ifname = name.name.clone();
        let (iface, needs) =
            in_netns(&netns, || look_up(&ifname, &mut options)).ok_or(Errno::NXIO)??;
        if !access.all_users {
            return Err(Errno::PERM);
        }
        let memory = memory(wanted, needs)?;
        options.buf_size = Some(memory.region().buf_size());
        let nic = iface.rx_queues.min(u16::MAX.into()) as u16;
        let sides = NicRingCounts { nic, host: options.host_rings.map(|rings| rings as u16) };
        Ok(Arc::new(nic::Nic::new(name, Some(iface.index), netns, options, sides, memory)))
    }
}

/// Opens the port of a virtual machine. It has the greater of the requested numbers of tx and rx
/// rings, from 1 to [`MAX_RING_PAIRS`].
fn open_vhost(
    wanted: &AdapterRequest<'_>,
    name: PortName,
    access: NicAccess,
) -> Result<Arc<dyn Adapter>, Errno> {
    let uid = wanted.domain.uid();
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    let netns = wanted.opener.netns_fd.as_ref().ok_or(Errno::NXIO)?;
    let netns = Arc::new(netns.try_clone().map_err(|_| Errno::NFILE)?);
    let mut name = name;
    let pairs =
        wanted.register.nr_tx_rings.max(wanted.register.nr_rx_rings).clamp(1, MAX_RING_PAIRS);
    name.conf = with_pairs(pairs);
    let mut options = options(wanted, access);
    let memory = memory(wanted, RegionNeeds::pairs(pairs.into(), options.slots))?;
    options.buf_size = Some(memory.region().buf_size());
    Ok(Arc::new(nic::Nic::new(name, None, netns, options, NicRingCounts::nic_pair(pairs), memory)))
}

fn with_pairs(pairs: u16) -> ConfSpec {
    let rings = NonZeroU16::new(pairs);
    ConfSpec { tx_rings: rings, rx_rings: rings, ..ConfSpec::default() }
}

fn memory(wanted: &AdapterRequest<'_>, needs: RegionNeeds) -> Result<Arc<NetmapMemory>, Errno> {
    let room = MemoryNeeds { ring_bytes: needs.ring_bytes, bufs: needs.bufs };
    match wanted.memory {
        Some(memory) => Ok(memory.clone()),
        None => wanted.domain.memory_with(room),
    }
}

fn options(wanted: &AdapterRequest<'_>, access: NicAccess) -> OpenOptions {
    let (params, register) = (wanted.domain.params(), wanted.register);
    OpenOptions {
        slots: params.ring_slots,
        buf_size: Some(params.buf_size),
        take_over: access.take_over,
        host_rings: [register.nr_host_tx_rings, register.nr_host_rx_rings].map(u32::from),
        ..OpenOptions::default()
    }
}

/// Finds the interface, and the memory that is needed to open it. Limits the requested number of
/// host rings to the maximum.
fn look_up(ifname: &str, options: &mut OpenOptions) -> Result<(Iface, RegionNeeds), Errno> {
    let iface = Iface::find(ifname).map_err(|_| Errno::NXIO)?;
    options.host_rings = slipring_port::host::rings(&iface, options.host_rings);
    let xdp = slipring_port::xdp::needs(ifname, ifname, None, options);
    let packet = slipring_port::packet::needs(ifname, ifname, None, options);
    let (Ok(xdp), Ok(packet)) = (xdp, packet) else { return Err(Errno::NXIO) };
    let host = slipring_port::host::needs(&iface, options);
    let needs = RegionNeeds {
        ring_bytes: xdp.ring_bytes.max(packet.ring_bytes) + host.ring_bytes,
        bufs: xdp.bufs.max(packet.bufs) + host.bufs,
    };
    Ok((iface, needs))
}
