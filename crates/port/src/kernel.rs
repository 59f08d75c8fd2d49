//! `kernel:NAME`: a port of a netmap device, by its name there: an interface, a pipe
//! (`kernel:x{1`), a switch's port (`kernel:vale0:a`). The device belongs to netmap's kernel module
//! or to a slipring daemon; this port is an ordinary client of either.
//!
//! ```text
//!   open --> REGISTER --> mmap --> netmap_if --> rings and buffers, used where they are
//!                                                 NIOCTXSYNC, NIOCRXSYNC, poll
//! ```
//! A port with several rings is opened once per ring pair, as netmap's own multi-threaded
//! programs do, so that each queue can have a thread of its own.
//!
//! # Invariants
//! 1. Sizes and offsets from the device are read once and checked against its mapping.
//! 2. A frame counts as sent when the device has returned its slot.
//! 3. A monitor ends with the port that it watches, which is no error; frames that it received
//!    before stay readable.
//!
//! Not for: ports of this process, which need no device.

mod bind;
mod queue;
mod sys;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_native_proto::trust;
use slipring_ring::{DeviceMapping, Geometry, HugePages, Region};

use crate::error::{OpenCause, OpenError};
use crate::iface::Iface;
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::port::Port;
use crate::queue::Queue;
use crate::xdp::MAX_LINK_HEADER_LEN;

use bind::{BoundRings, KernelBinding};
use queue::KernelQueue;
pub use sys::control;

pub use crate::error::DEVICE_PATH;

/// Returns the default device. That is the device in `run_dir`, if it exists and the directory can
/// be trusted, because the pipes and switches of the daemon that uses `run_dir` are found there
/// too; otherwise [`DEVICE_PATH`].
#[must_use]
pub fn default_device(run_dir: &Path) -> PathBuf {
    let daemons = run_dir.join("netmap");
    let is_there = trust::check_dir(run_dir).is_ok() && daemons.exists();
    if is_there { daemons } else { PathBuf::from(DEVICE_PATH) }
}

/// Maximum number of slots per packet, as in netmap.
const MAX_FRAGMENTS: u32 = 64;

/// Opens a port of a netmap device. The device is the one in `name`; if `name` has none, it is
/// `device`.
///
/// # Errors
/// [`OpenError`] if the device or the port does not exist, the port is busy, or the device reports
/// impossible memory.
pub fn open(shown: &str, name: &PortName, device: &Path) -> Result<Port, OpenError> {
    let device = name.device.as_deref().map_or(device, Path::new);
    open_at(shown, name, device).map_err(|cause| OpenError::new(shown, cause))
}

/// Checks whether `name` of `device` could be opened, as far as this can be found out without a
/// bind: by the device node, the right to use the port, and the existence of the port. A switch's
/// port and a pipe's end need not exist, since binding creates them.
///
/// # Errors
/// Same as for [`open`].
pub fn probe(shown: &str, name: &PortName, device: &Path) -> Result<(), OpenError> {
    bind::probe(name, device).map_err(|cause| OpenError::new(shown, cause))
}

fn open_at(shown: &str, name: &PortName, device: &Path) -> Result<Port, OpenCause> {
    let bounds = bind_all(name, device)?;
    let is_monitor = name.flags.is_monitor();
    // Each descriptor that is bound to a monitor port gets a monitor of its own. If the monitor
    // copies frames, each descriptor also gets memory of its own.
    let laid: Vec<BoundMemory> = match is_monitor {
        true => bounds.chunks(1).map(layouts).collect::<Result<Vec<_>, _>>()?.concat(),
        false => layouts(&bounds)?,
    };
    let none = Geometry { ring_bytes: 512 * laid.len() as u64, bufs: 2, buf_size: 2048 };
    let none = Region::create(none, HugePages::Never)?;
    let iface = name.pipe.is_none().then(|| Iface::find(&name.name).ok()).flatten();
    let mut queues = Vec::new();
    for (bound, (pair, region)) in bounds.into_iter().zip(&laid) {
        // A monitor never sends: its tx ring exists only because every netmap port has a tx ring.
        let pair = BoundRings { tx: pair.tx.filter(|_| !is_monitor), ..*pair };
        let queue = KernelQueue::new(shown, bound.into_file(), &pair, [region, &none])?;
        let queue = if is_monitor { queue.watching() } else { queue };
        queues.push(match &iface {
            Some(_) => queue.of_interface(&name.name),
            None => queue,
        });
    }
    let buf_size = laid[0].0.first().map_or(0, |ring| ring.buf_size);
    let info = info(shown, device, iface, &queues, buf_size);
    let queues = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect();
    Ok(Port { info, queues })
}

/// Rings of one bind, and the memory that contains them.
type BoundMemory = (BoundRings, Arc<Region>);

/// Returns the rings of all binds. The binds share one memory, which is mapped once.
fn layouts(bounds: &[KernelBinding]) -> Result<Vec<BoundMemory>, OpenCause> {
    let mapping = DeviceMapping::new(bounds[0].file()?, bounds[0].memory_bytes())?;
    let mut pairs: Vec<BoundRings> = Vec::new();
    for bound in bounds {
        let pair = bound.layout(&mapping)?.without(&pairs);
        pairs.push(pair);
    }
    let first = *pairs[0].first().ok_or_else(|| protocol_error("no ring at all"))?;
    let region = mapping.into_region(first.data_start, first.buf_size)?;
    Ok(pairs.into_iter().map(|pair| (pair, region.clone())).collect())
}

/// Binds each ring pair separately. If there are several, the first bind only finds out how many.
fn bind_all(name: &PortName, device: &Path) -> Result<Vec<KernelBinding>, OpenCause> {
    let first = KernelBinding::new(name, device)?;
    let singles = first.ring_pairs(name.rings);
    if singles.len() <= 1 {
        return Ok(vec![first]);
    }
    // The first bind is dropped, because an exclusive bind of all rings would conflict with one
    // bind per ring.
    drop(first);
    let mut single = name.clone();
    let bind = |rings| {
        single.rings = rings;
        KernelBinding::new(&single, device)
    };
    singles.into_iter().map(bind).collect()
}

fn info(
    shown: &str,
    device: &Path,
    iface: Option<Iface>,
    queues: &[KernelQueue],
    buf_size: u32,
) -> PortInfo {
    let mode = PortMode::new().with("mode", "netmap").with("device", device.display());
    // The device does not report the longest frame that an interface accepts, so it is computed
    // from the interface's MTU.
    let longest =
        iface.as_ref().map_or(u32::MAX, |iface| iface.mtu.saturating_add(MAX_LINK_HEADER_LEN));
    PortInfo {
        name: shown.to_owned(),
        kind: "kernel",
        mode: mode
            .with("queues", queues.len())
            .with("slots", queues.iter().map(KernelQueue::slots).max().unwrap_or(0)),
        caps: PortCaps {
            rx: queues.iter().any(KernelQueue::receives),
            tx: queues.iter().any(KernelQueue::sends),
            max_packet: buf_size.saturating_mul(MAX_FRAGMENTS).min(longest),
            max_slot: buf_size,
        },
        mac: iface.as_ref().map(|iface| iface.mac),
        mtu: iface.map(|iface| iface.mtu),
    }
}

/// Builds the error for an impossible answer of the device.
fn protocol_error(what: &str) -> OpenCause {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    OpenCause::System { what: "make sense of what the netmap device says", source }
}
