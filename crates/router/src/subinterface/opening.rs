//! Opens the ports that subinterfaces need: packet sockets on the interfaces, and TAP devices.

use std::sync::atomic::{AtomicBool, AtomicU64};
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

use super::gates::SubinterfaceGate;
use super::link::{LIMITS, SubinterfaceLink};
use super::offer::SubinterfaceOffer;
use super::own::{OwnSubinterface, vlan_ids};
use super::processor::{QueueRole, Subinterface, SubinterfaceProcessor, SubinterfaceShared};
use super::{SubinterfaceDevice, SubinterfaceHandle, port_of};
use crate::config::EngineSettings;
use crate::queue_gate::GateWatch;
use crate::surviving_queue::SurvivingQueue;

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
    /// packets, unless `offer` contains them. `priorities` contains the priorities of tagged
    /// frames, indexed by the class selector of the DSCP. With `waits`, frames are taken only after
    /// [`SubinterfaceHandle::begin`].
    ///
    /// # Errors
    /// If a privilege is missing, or an interface refuses.
    pub(crate) fn open(
        own: &[OwnSubinterface],
        kernel: &[Iface],
        priorities: [u8; 8],
        settings: &EngineSettings,
        (offer, waits): (&mut SubinterfaceOffer, bool),
    ) -> Result<Self, Failure> {
        let mut ports = Vec::new();
        for iface in interfaces(own, kernel) {
            ports.push((QueueRole::Wire(iface.index), open_wire(iface, own, offer)?));
        }
        let (mut devices, mut subinterfaces) = (Vec::new(), Vec::new());
        for (number, it) in own.iter().enumerate() {
            let opened = open_tap(it, 1, offer)?;
            let device = device_of(it, &opened.port)?;
            ports.push((QueueRole::Tap(number), opened));
            subinterfaces.push(Subinterface {
                port: port_of(kernel.len(), number),
                parent: it.parent.index,
                tags: it.tags,
                link: link_of(it, device.ifindex, settings),
                counters: Default::default(),
            });
            devices.push(device);
        }
        let (mut roles, mut queues, mut gates) = (Vec::new(), Vec::new(), Vec::new());
        let mut counters = Vec::new();
        for (role, OpenedPort { port, is_inherited }) in ports {
            let of_port = SubinterfaceGate::of_port(role, &port.queues, is_inherited)?;
            for (queue, of) in port.queues.into_iter().zip(&of_port) {
                roles.push(role);
                let number = match role {
                    QueueRole::Tap(number) => Some(number),
                    QueueRole::Wire(of) => own.iter().position(|it| it.parent.index == of),
                };
                // A socket of an interface without subinterfaces receives nothing.
                counters.extend(number.map(|number| (number, queue.counters().clone())));
                let queue = SurvivingQueue::new(queue, Some(GateWatch::new(of.gate.clone())));
                queues.push(WorkerQueue::input(Box::new(queue)));
            }
            gates.extend(of_port);
        }
        let shared = Arc::new(SubinterfaceShared {
            tasks: ControlQueue::new()?,
            seen: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            has_begun: AtomicBool::new(!waits),
            figures: Mutex::default(),
            queues: counters,
        });
        let processor =
            SubinterfaceProcessor::new(subinterfaces, roles, Arc::clone(&shared), priorities);
        let queues = WorkerQueues::new(queues);
        let handle = SubinterfaceHandle { thread: Some(shared), workers: None, gates, devices };
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

/// A port, and whether another router had opened it.
pub(super) struct OpenedPort {
    pub(super) port: Port,
    pub(super) is_inherited: bool,
}

/// Returns the device of a subinterface, which has this port. It may have been renamed.
pub(super) fn device_of(own: &OwnSubinterface, port: &Port) -> Result<SubinterfaceDevice, Failure> {
    let name = port.info.mode.get("if").unwrap_or(&own.name);
    let device = Iface::find(name).map_err(|cause| OpenError::new(&own.name, cause))?;
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

/// Opens the sockets of an interface. They receive only the frames of the interface's VLANs.
pub(super) fn open_wire(
    iface: &Iface,
    own: &[OwnSubinterface],
    offer: &mut SubinterfaceOffer,
) -> Result<OpenedPort, Failure> {
    let on_it = own.iter().filter(|it| it.parent.index == iface.index);
    let ids = vlan_ids(on_it.map(|it| it.tags));
    let options = OpenOptions {
        slots: SLOTS,
        shared: true,
        // NICs drop frames of VLANs and multicast groups that the kernel has not joined, so the
        // sockets make the interface promiscuous.
        promiscuous: !ids.is_empty(),
        vlan_ids: Some(ids),
        ..OpenOptions::default()
    };
    let name = format!("packet:{}", iface.name);
    let needs = packet::needs(&name, &iface.name, None, &options).map_err(refused)?;
    let region = region(needs)?;
    let inherited = offer.take_wire(iface);
    let is_inherited = inherited.is_some();
    let port = match inherited {
        Some(sockets) => packet::open_inherited(&name, &iface.name, &region, &options, sockets),
        None => packet::open(&name, &iface.name, None, &region, &options),
    };
    Ok(OpenedPort { port: port.map_err(refused)?, is_inherited })
}

/// Opens the device of a subinterface, with this many queues. A device of the offer keeps the
/// queues that it has.
pub(super) fn open_tap(
    own: &OwnSubinterface,
    queues: u32,
    offer: &mut SubinterfaceOffer,
) -> Result<OpenedPort, Failure> {
    let options = OpenOptions {
        slots: SLOTS,
        tap_mac: Some(own.parent.mac),
        tap_mtu: Some(own.mtu()),
        ..OpenOptions::default()
    };
    let name = format!("tap:{}", own.name);
    let inherited = offer.take_device(&own.name);
    let is_inherited = inherited.is_some();
    let port = match inherited {
        Some(descriptors) => {
            let needs = RegionNeeds::pairs(descriptors.len() as u32, SLOTS);
            tap::open_inherited(&name, &region(needs)?, &options, descriptors)
        }
        None => {
            let needs = tap::needs(&name, &own.name, queues, &options).map_err(refused)?;
            tap::open(&name, &own.name, queues, &region(needs)?, &options)
        }
    };
    Ok(OpenedPort { port: port.map_err(refused)?, is_inherited })
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
