//! How a port is to be opened, beyond its name.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use slipring_ring::{HugePages, Region, RegionError, RingDirection, RingHalves, RingView};

use crate::queue::Interest;

/// How an `xdp:` port may attach to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// Zero-copy if possible, otherwise native with copying, otherwise generic. The port's mode
    /// line names the result.
    #[default]
    Best,
    /// Zero-copy only. If that is not possible, the port does not open.
    ZeroCopy,
    /// XDP in the driver, with or without a copy. If that is not possible, the port does not open.
    Native,
    /// XDP in the network stack, which works on any interface.
    Generic,
}

/// Maximum number of VLAN identifiers to which a port can be limited; the kernel's filter compares
/// them one by one.
pub const MAX_VLAN_IDS: usize = 200;

/// Options common to all kinds of ports; a kind ignores options that do not apply to it.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Slots per ring; `@conf:` in the port's name overrides this.
    pub slots: u32,
    /// Bytes per buffer, if a region is created for this port (`slipring_ring::is_buf_size`).
    /// `None`: a size that suits the ports is chosen.
    pub buf_size: Option<u32>,
    /// How many times the memory that a port needs is reserved again, for middleware that will wrap
    /// the port: each wrapper has separate rings. 0 without middleware.
    pub reserve_factor: u32,
    /// Page size, if a region is created for this port.
    pub huge: HugePages,
    /// Directions in which the port is used. A capture file is read if the port only receives, and
    /// written if the port only sends. With both directions, the file is read if it exists, and
    /// otherwise written.
    pub direction: Interest,
    /// Captures that are written even if the files exist.
    pub captures_to_write: Vec<String>,
    /// Captures that are read even if the files do not exist; `-` is then the standard input.
    pub captures_to_read: Vec<String>,
    /// How an `xdp:` port attaches to its interface.
    pub xdp: XdpMode,
    /// Whether the host's stack keeps using the interface.
    pub shared: bool,
    /// Whether the interface's host rings are used too. The port must then not reach the NIC
    /// through the host's stack.
    pub uses_host_rings: bool,
    /// Requested numbers of host rings, `[to the host, from the host]`, at least one. A port has at
    /// most as many host rings as the interface has rings. If it has fewer than requested, its mode
    /// shows the requested number.
    pub host_rings: [u32; 2],
    /// Whether the port may take the interface that carries the default route.
    pub take_over: bool,
    /// Whether to receive frames for other hosts.
    pub promiscuous: bool,
    /// Whether an interface that is down (not IFF_UP) is an error: then the port does not open, and
    /// an open port fails when the interface goes down. A `vfio:` port fails when its card loses
    /// the carrier. If this is false, the port waits until the interface is up.
    pub exit_on_link_down: bool,
    /// For how many microseconds each system call busy-polls the device; 0 for not at all.
    pub busy_poll_us: u32,
    /// Bytes of the virtio-net header before each frame in the rings: 0, 10 or 12.
    pub vnet_hdr: u32,
    /// The MAC address of a TAP device that the port creates; `None` for a random one.
    pub tap_mac: Option<[u8; 6]>,
    /// The MTU, in bytes, of a TAP device that the port creates; `None` for 1500.
    pub tap_mtu: Option<u32>,
    /// A `packet:` port receives only frames whose outermost VLAN tag has one of these identifiers,
    /// at most [`MAX_VLAN_IDS`]. `None`: all frames. Ignored with [`Self::socket_filters`].
    pub vlan_ids: Option<Vec<u16>>,
    /// Path of the daemon's native socket, if `pipe:` ports are pipes of the daemon; `None` if they
    /// are pipes within this process.
    pub daemon: Option<PathBuf>,
    /// Whether a `packet:` port sends past the interface's queueing discipline.
    pub qdisc_bypass: bool,
    /// Whether a `packet:` port with all queues, and with [`Self::qdisc_bypass`], sends by AF_XDP
    /// sockets if these can be used for the interface, which costs less. No other AF_XDP socket can
    /// then use the queues.
    pub sends_by_xdp: bool,
    /// Socket filters (`SO_ATTACH_BPF`), one for each receive queue of a `packet:` port, which
    /// decide which frames the port receives. The port must be [`Self::shared`] and have all
    /// queues. If the list is empty, the port receives all frames from the wire.
    pub socket_filters: Vec<Arc<OwnedFd>>,
    /// Rings of a previous process that the port resumes: tx and rx of each pair, with
    /// [`Self::slots`] slots each. If the list is empty, the port creates new rings.
    pub rings: Vec<[RingView; 2]>,
}

impl OpenOptions {
    /// Returns a ring of pair `i` of a port: one of [`Self::rings`], or else a new ring with number
    /// `ringid`.
    ///
    /// # Errors
    /// [`RegionError`] if the region does not have enough memory left.
    pub fn ring<D: RingDirection>(
        &self,
        region: &Arc<Region>,
        i: usize,
        ringid: u16,
    ) -> Result<RingHalves<D>, RegionError> {
        match self.rings.get(i) {
            Some(pair) => Ok(RingHalves::resume_existing(&pair[D::DIR as usize])),
            None => RingHalves::create(region, ringid, self.slots),
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            slots: 1024,
            buf_size: None,
            reserve_factor: 0,
            huge: HugePages::Try,
            direction: Interest::BOTH,
            captures_to_write: Vec::new(),
            captures_to_read: Vec::new(),
            xdp: XdpMode::Best,
            shared: false,
            uses_host_rings: false,
            host_rings: [1; 2],
            take_over: false,
            promiscuous: true,
            exit_on_link_down: false,
            busy_poll_us: 0,
            vnet_hdr: 0,
            tap_mac: None,
            tap_mtu: None,
            vlan_ids: None,
            daemon: None,
            qdisc_bypass: true,
            sends_by_xdp: false,
            socket_filters: Vec::new(),
            rings: Vec::new(),
        }
    }
}

/// The memory that a port needs from a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionNeeds {
    /// Bytes of the ring area.
    pub ring_bytes: u64,
    /// Number of buffers.
    pub bufs: u32,
}

impl RegionNeeds {
    /// Returns the needs of `queues` ring pairs of `slots` slots, each slot with a buffer.
    #[must_use]
    pub fn pairs(queues: u32, slots: u32) -> Self {
        let ring = slipring_ring::ring_bytes(slots).next_multiple_of(128);
        Self { ring_bytes: 2 * ring * u64::from(queues), bufs: 2 * slots * queues }
    }
}

impl std::ops::Mul<u32> for RegionNeeds {
    type Output = Self;

    fn mul(self, times: u32) -> Self {
        Self {
            ring_bytes: self.ring_bytes * u64::from(times),
            bufs: self.bufs.saturating_mul(times),
        }
    }
}

impl std::ops::AddAssign for RegionNeeds {
    fn add_assign(&mut self, other: Self) {
        self.ring_bytes += other.ring_bytes;
        self.bufs += other.bufs;
    }
}
