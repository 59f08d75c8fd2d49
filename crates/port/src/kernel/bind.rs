//! A descriptor that is bound to a port, and the layout of its rings.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use slipring_abi::name::{PortName, PortNameKind, RingSelection};
use slipring_abi::{
    NETMAP_IF_RING_OFS, NETMAP_REQ_MAXSIZE, NETMAP_REQ_PORT_INFO_GET, NETMAP_RING_RX,
    NETMAP_RING_TX, NR_NO_TX_POLL, NetmapIf, NetmapRing, NmreqHeader, NmreqRegister, PlainData,
};
use slipring_ring::DeviceMapping;

use super::{protocol_error, sys};
use crate::error::OpenCause;

/// Maximum number of NIC rings, and of host rings, per direction that is accepted from a device.
const MAX_RINGS: u32 = 256;

/// A descriptor of the device that is bound to rings of a port.
pub(super) struct KernelBinding {
    file: File,
    granted: NmreqRegister,
}

/// A ring, as its header describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelRingLayout {
    pub(super) offset: u64,
    pub(super) num_slots: u32,
    pub(super) data_start: u64,
    pub(super) buf_size: u32,
}

/// The tx ring and the rx ring of one pair; `None` for a ring that is not bound.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BoundRings {
    pub(super) tx: Option<KernelRingLayout>,
    pub(super) rx: Option<KernelRingLayout>,
}

impl BoundRings {
    /// Returns the tx ring, or the rx ring if there is no tx ring.
    pub(super) fn first(&self) -> Option<&KernelRingLayout> {
        self.tx.as_ref().or(self.rx.as_ref())
    }

    /// Returns those of these rings that are not among `others`. If a port has fewer rings in one
    /// direction, netmap binds the first of them again for further pairs.
    pub(super) fn without(self, others: &[Self]) -> Self {
        let is_new = |ring: &KernelRingLayout, of: fn(&Self) -> Option<KernelRingLayout>| {
            others.iter().filter_map(of).all(|other| other.offset != ring.offset)
        };
        Self {
            tx: self.tx.filter(|ring| is_new(ring, |other| other.tx)),
            rx: self.rx.filter(|ring| is_new(ring, |other| other.rx)),
        }
    }
}

impl KernelBinding {
    /// Opens the device and binds the rings that the name selects.
    pub(super) fn new(name: &PortName, device: &Path) -> Result<Self, OpenCause> {
        let file = open_node(device)?;
        let header = name.to_header().ok_or_else(|| protocol_error("a port without a name"))?;
        let mut wanted = name.to_register();
        // A poll for frames need not send, because this program calls tx sync after it has queued
        // frames.
        wanted.nr_flags |= NR_NO_TX_POLL;
        let granted = sys::register(file.as_fd(), &header, &wanted);
        let granted = granted.map_err(|error| refused(name, error))?;
        Ok(Self { file, granted })
    }

    /// Duplicates the descriptor, for a mapping.
    pub(super) fn file(&self) -> Result<OwnedFd, OpenCause> {
        let fd = self.file.as_fd().try_clone_to_owned();
        fd.map_err(|source| OpenCause::System { what: "duplicate the netmap device", source })
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Returns the number of bytes to map.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.granted.nr_memsize
    }

    /// Returns the ring pairs that `rings` selects, each as a selection of one pair.
    pub(super) fn ring_pairs(&self, rings: RingSelection) -> Vec<RingSelection> {
        let granted = &self.granted;
        // The number is limited, because the device may report an impossible one, and each ring is
        // opened separately.
        let most = MAX_RINGS as u16;
        let nic = 0..granted.nr_tx_rings.max(granted.nr_rx_rings).min(most);
        let host = 0..granted.nr_host_tx_rings.max(granted.nr_host_rx_rings).min(most);
        match rings {
            RingSelection::All => nic.map(RingSelection::One).collect(),
            RingSelection::Host => host.map(RingSelection::OneHost).collect(),
            RingSelection::NicAndHost => {
                nic.map(RingSelection::One).chain(host.map(RingSelection::OneHost)).collect()
            }
            one => vec![one],
        }
    }

    /// Returns the layout of the first ring pair of this bind.
    pub(super) fn layout(&self, mapping: &DeviceMapping) -> Result<BoundRings, OpenCause> {
        let start = self.granted.nr_offset;
        let head: NetmapIf = read(mapping, start)?;
        let counts =
            [head.ni_tx_rings, head.ni_host_tx_rings, head.ni_rx_rings, head.ni_host_rx_rings];
        if counts.iter().any(|&count| count > MAX_RINGS) {
            return Err(protocol_error("an impossible number of rings"));
        }
        let tx_rings = counts[0] + counts[1];
        let rx_rings = counts[2] + counts[3];
        let tx = first_ring(mapping, start, 0..tx_rings, NETMAP_RING_TX)?;
        let rx = first_ring(mapping, start, tx_rings..tx_rings + rx_rings, NETMAP_RING_RX)?;
        let sound = match (&tx, &rx) {
            (Some(tx), Some(rx)) => (tx.data_start, tx.buf_size) == (rx.data_start, rx.buf_size),
            _ => true,
        };
        if sound {
            Ok(BoundRings { tx, rx })
        } else {
            Err(protocol_error("rings with different buffers"))
        }
    }
}

/// Queries the device about a port without binding it.
pub(super) fn probe(name: &PortName, device: &Path) -> Result<(), OpenCause> {
    let file = open_node(device)?;
    let header = name.to_header().ok_or_else(|| protocol_error("a port without a name"))?;
    let header = NmreqHeader { nr_reqtype: NETMAP_REQ_PORT_INFO_GET, ..header };
    let mut body = [0; NETMAP_REQ_MAXSIZE];
    let may_be_made =
        name.pipe.is_some() || name.name.contains(':') || name.kind != PortNameKind::Kernel;
    match sys::control(file.as_fd(), &header, &mut body, true) {
        Err(error)
            if error.raw_os_error() == Some(libc::ENXIO)
                && may_be_made
                && !name.flags.is_monitor() =>
        {
            Ok(())
        }
        Err(error) => Err(refused(name, error)),
        Ok(_) => Ok(()),
    }
}

fn open_node(device: &Path) -> Result<File, OpenCause> {
    let file = OpenOptions::new().read(true).write(true).open(device);
    file.map_err(|error| no_device(device, error))
}

/// Returns the first of the rings that are bound. In the interface record, offset 0 means that a
/// ring is not bound.
fn first_ring(
    mapping: &DeviceMapping,
    start: u64,
    rings: std::ops::Range<u32>,
    direction: u16,
) -> Result<Option<KernelRingLayout>, OpenCause> {
    for index in rings {
        let behind = NETMAP_IF_RING_OFS as u64 + 8 * u64::from(index);
        let offset: i64 = read(mapping, start.saturating_add(behind))?;
        if offset != 0 {
            let at = start.checked_add_signed(offset);
            return ring(mapping, at.ok_or_else(|| protocol_error("a ring nowhere"))?, direction)
                .map(Some);
        }
    }
    Ok(None)
}

fn ring(
    mapping: &DeviceMapping,
    offset: u64,
    direction: u16,
) -> Result<KernelRingLayout, OpenCause> {
    let header: NetmapRing = read(mapping, offset)?;
    let data_start = offset.checked_add_signed(header.buf_ofs);
    if header.dir != direction {
        return Err(protocol_error("a ring of the other direction"));
    }
    Ok(KernelRingLayout {
        offset,
        num_slots: header.num_slots,
        data_start: data_start.ok_or_else(|| protocol_error("buffers nowhere"))?,
        buf_size: header.nr_buf_size,
    })
}

fn read<T: PlainData>(mapping: &DeviceMapping, at: u64) -> Result<T, OpenCause> {
    let mut bytes = [0; 256];
    let bytes = bytes.get_mut(..T::SIZE).ok_or_else(|| protocol_error("a record too long"))?;
    let inside = mapping.read(at, bytes);
    inside.then(|| T::read_from(bytes)).flatten().ok_or_else(|| protocol_error("a place outside"))
}

fn no_device(device: &Path, source: io::Error) -> OpenCause {
    match source.kind() {
        io::ErrorKind::NotFound => OpenCause::NoDevice { path: device.display().to_string() },
        io::ErrorKind::PermissionDenied => {
            OpenCause::Denied { name: device.display().to_string(), source }
        }
        _ => OpenCause::File { path: device.display().to_string(), source },
    }
}

fn refused(name: &PortName, source: io::Error) -> OpenCause {
    let ifname = name.request_name().unwrap_or_default();
    match source.raw_os_error() {
        Some(libc::ENXIO | libc::ENODEV) => OpenCause::NoInterface { ifname },
        Some(libc::ENETDOWN) => OpenCause::Down { ifname },
        Some(libc::EPERM) => OpenCause::Denied { name: ifname, source },
        _ => OpenCause::System { what: "bind a port of the netmap device", source },
    }
}
