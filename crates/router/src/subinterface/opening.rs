//! Opens the ports that subinterfaces need: packet sockets on the interfaces, and TAP devices.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use slipring_cli::{Diagnostic, Failure};
use slipring_datapath::control_queue::ControlQueue;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::worker::Worker;
use slipring_datapath::workers::WorkerTask;
use slipring_port::iface::Iface;
use slipring_port::{OpenError, OpenOptions, Port, RegionNeeds, WaitStrategy, packet, tap};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_wire::MacAddr;

use super::link::{LIMITS, SubinterfaceLink};
use super::processor::{QueueRole, Subinterface, SubinterfaceProcessor, SubinterfaceShared};
use super::{OwnSubinterface, SubinterfaceDevice, SubinterfaceHandle, port_of};
use crate::config::EngineSettings;

/// Slots of each ring.
const SLOTS: u32 = 512;
/// Size of a buffer in bytes. Longer frames use several buffers.
const BUF_SIZE: u32 = 2048;

/// Subinterfaces with their ports, ready to run.
pub(crate) struct OpenSubinterfaces {
    pub(crate) handle: SubinterfaceHandle,
    processor: SubinterfaceProcessor,
    queues: WorkerQueues,
}

impl OpenSubinterfaces {
    /// Creates the devices of subinterfaces, and opens the interfaces that carry or may get their
    /// packets. `priorities` contains the priorities of tagged frames, indexed by the class
    /// selector of the DSCP.
    ///
    /// # Errors
    /// If a privilege is missing, or an interface refuses.
    pub(crate) fn open(
        own: &[OwnSubinterface],
        kernel: &[Iface],
        priorities: [u8; 8],
        settings: &EngineSettings,
    ) -> Result<Self, Failure> {
        let mut ports = Vec::new();
        for iface in interfaces(own, kernel) {
            ports.push((QueueRole::Wire(iface.index), open_wire(iface, own)?));
        }
        let (mut devices, mut subinterfaces) = (Vec::new(), Vec::new());
        for (number, it) in own.iter().enumerate() {
            ports.push((QueueRole::Tap(number), open_tap(it, 1)?));
            let device = device_of(it)?;
            subinterfaces.push(Subinterface {
                port: port_of(kernel.len(), number),
                parent: it.parent.index,
                tags: it.tags,
                link: link_of(it, device.ifindex, settings),
                counters: Default::default(),
            });
            devices.push(device);
        }
        let shared = Arc::new(SubinterfaceShared {
            tasks: ControlQueue::new()?,
            seen: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            figures: Mutex::default(),
        });
        let (mut roles, mut queues) = (Vec::new(), Vec::new());
        for (role, port) in ports {
            for queue in port.queues {
                roles.push(role);
                queues.push(WorkerQueue::input(queue));
            }
        }
        let processor =
            SubinterfaceProcessor::new(subinterfaces, roles, Arc::clone(&shared), priorities);
        let queues = WorkerQueues::new(queues);
        let handle = SubinterfaceHandle { thread: Some(shared), devices };
        Ok(Self { handle, processor, queues })
    }

    /// Returns the task for the thread of the subinterfaces.
    pub(super) fn into_task(self) -> WorkerTask {
        Worker::new(self.processor, self.queues).into_task("route", WaitStrategy::default())
    }
}

/// Returns the interfaces that carry the subinterfaces, and those of the kernel, without
/// repetitions.
fn interfaces<'i>(own: &'i [OwnSubinterface], kernel: &'i [Iface]) -> Vec<&'i Iface> {
    once(own.iter().map(|it| &it.parent).chain(kernel))
}

/// Returns the interfaces that carry tagged frames, without repetitions.
pub(crate) fn parents(own: &[OwnSubinterface]) -> Vec<&Iface> {
    once(own.iter().map(|it| &it.parent))
}

fn once<'i>(ifaces: impl Iterator<Item = &'i Iface>) -> Vec<&'i Iface> {
    let mut all: Vec<&Iface> = Vec::new();
    for iface in ifaces {
        if !all.iter().any(|known| known.index == iface.index) {
            all.push(iface);
        }
    }
    all
}

/// Returns the existing device of a subinterface.
pub(super) fn device_of(own: &OwnSubinterface) -> Result<SubinterfaceDevice, Failure> {
    let device = Iface::find(&own.name).map_err(|cause| OpenError::new(&own.name, cause))?;
    let (name, parent, tags) = (own.name.clone(), own.parent.index, own.tags);
    Ok(SubinterfaceDevice { name, ifindex: device.index, parent, tags })
}

/// Creates the link of a subinterface whose device has this index.
pub(super) fn link_of(
    own: &OwnSubinterface,
    ifindex: u32,
    settings: &EngineSettings,
) -> SubinterfaceLink {
    let seed = u64::from(ifindex) << 32 | u64::from(own.parent.index);
    SubinterfaceLink::new(MacAddr(own.parent.mac), settings.limits(LIMITS), seed)
}

/// Opens the socket of an interface. It receives only the frames of the interface's VLANs.
pub(super) fn open_wire(iface: &Iface, own: &[OwnSubinterface]) -> Result<Port, Failure> {
    let on_it = own.iter().filter(|it| it.parent.index == iface.index);
    let mut ids: Vec<u16> = on_it.filter_map(|it| Some(it.tags.outer?.1)).collect();
    ids.sort_unstable();
    ids.dedup();
    let options = OpenOptions {
        slots: SLOTS,
        shared: true,
        // NICs drop frames of VLANs and multicast groups that the kernel has not joined, so the
        // socket is promiscuous.
        promiscuous: !ids.is_empty(),
        vlan_ids: Some(ids),
        ..OpenOptions::default()
    };
    let name = format!("packet:{}", iface.name);
    let needs = packet::needs(&name, &iface.name, None, &options).map_err(refused)?;
    let region = region(needs)?;
    packet::open(&name, &iface.name, None, &region, &options).map_err(refused)
}

/// Opens the device of a subinterface, with this many queues.
pub(super) fn open_tap(own: &OwnSubinterface, queues: u32) -> Result<Port, Failure> {
    let options = OpenOptions {
        slots: SLOTS,
        tap_mac: Some(own.parent.mac),
        tap_mtu: Some(own.mtu()),
        ..OpenOptions::default()
    };
    let name = format!("tap:{}", own.name);
    let needs = tap::needs(&name, &own.name, queues, &options).map_err(refused)?;
    tap::open(&name, &own.name, queues, &region(needs)?, &options).map_err(refused)
}

fn region(needs: RegionNeeds) -> Result<Arc<Region>, Failure> {
    /// Number of buffers that each region reserves for itself.
    const OWN_BUFS: u32 = 2;
    let geometry =
        Geometry { ring_bytes: needs.ring_bytes, bufs: needs.bufs + OWN_BUFS, buf_size: BUF_SIZE };
    Region::create(geometry, HugePages::Never).map_err(|error| std::io::Error::other(error).into())
}

fn refused(error: OpenError) -> Failure {
    Diagnostic::of(&error).into()
}
