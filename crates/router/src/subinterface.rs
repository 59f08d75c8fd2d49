//! Subinterfaces that the kernel does not have: `eth1.100`, `eth1.100.7`.
//!
//! ```text
//!   name.rs       what a name says: parent and tags
//!   link.rs       one subinterface: its neighbours, and which frames go between wire and kernel
//!   tags.rs       tags of frames
//!   opening.rs    the ports, and the devices that the kernel sees
//!   processor.rs  next to XDP: a thread with wire, TAP devices, engine
//!   shared.rs     the subinterfaces that workers (`worker/vlan.rs`) serve and share
//!   ports.rs      the ports of workers
//!   succession.rs takeover: what moves to another router (offer.rs, gates.rs,
//!                 handed_packet.rs)
//!   own.rs        subinterfaces of the plan
//! ```
//!
//! For each subinterface there is a TAP device of its name. The device has the addresses and
//! routes. So `ip`, FRR and BIRD see an ordinary interface, and the mirror of the kernel's tables
//! contains its addresses and routes. The device exists as long as this process, or a router that
//! has taken over from it.
//!
//! # Invariants
//! 1. A packet is routed here only by tables that were confirmed in the last 100 ms. Otherwise the
//!    kernel gets it from the TAP device, and routes it. Workers take no frames while their tables
//!    are old: the packets wait in the sockets.
//! 2. Only frames with the VLAN identifiers of subinterfaces are received, and the XDP program of
//!    the interface leaves all tagged frames to the kernel, which has no device for them. So no
//!    packet is forwarded twice.

mod figures;
mod gates;
mod handed_packet;
mod link;
mod name;
mod offer;
mod opening;
mod own;
mod ports;
mod processor;
mod shared;
mod succession;
pub(crate) mod tags;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slipring_cli::Failure;
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_fib::{FibPortIndex, ForwardingTables, PortConfig, VlanTags, VrfIndex};
use slipring_neighbour::icmp::IcmpLimits;
use slipring_port::{Nanos, RunError};
use slipring_ring::Doorbell;

pub(crate) use figures::{SubinterfaceCounters, SubinterfaceFigures};
use gates::SubinterfaceGate;
#[cfg(test)]
pub(crate) use link::tests as link_tests;
pub(crate) use link::{LinkVerdict, WaitingPacket};
pub(crate) use name::SubinterfaceName;
pub(crate) use offer::SubinterfaceOffer;
pub(crate) use opening::{OpenSubinterfaces, parents};
pub(crate) use own::OwnSubinterface;
pub(crate) use ports::SubinterfacePorts;
pub(crate) use processor::QueueRole;
use processor::{SubinterfaceProcessor, SubinterfaceShared};
pub(crate) use shared::{SharedSubinterfaces, SubinterfaceFrame, WaitEnd};
pub(crate) use succession::SubinterfaceState;

/// A subinterface with its device.
#[derive(Clone, Debug)]
pub(crate) struct SubinterfaceDevice {
    pub(crate) name: String,
    /// Index of the TAP device.
    pub(crate) ifindex: u32,
    parent: u32,
    tags: VlanTags,
}

/// The access of the routing thread and of takeovers to the subinterfaces.
#[derive(Clone, Default)]
pub(crate) struct SubinterfaceHandle {
    /// The thread of subinterfaces; `None` if workers serve them.
    thread: Option<Arc<SubinterfaceShared>>,
    /// The subinterfaces that workers serve; `None` if there is a thread.
    workers: Option<Arc<SharedSubinterfaces>>,
    /// The gates of all queues, which a takeover closes.
    gates: Vec<SubinterfaceGate>,
    pub(crate) devices: Vec<SubinterfaceDevice>,
}

impl SubinterfaceHandle {
    /// Returns the ports that the mirror must have for the subinterfaces.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortConfig> {
        self.devices.iter().map(|device| PortConfig {
            ifindex: device.ifindex,
            parent: Some(device.parent),
            name: device.name.clone(),
            vrf: VrfIndex(0),
            tags: device.tags,
        })
    }

    /// Records that the tables were equal to the kernel's tables at this time.
    pub(crate) fn note_current(&self, at: Nanos) {
        if let Some(thread) = &self.thread {
            thread.seen.store(at, Ordering::Release);
        }
    }

    /// Makes the thread use a snapshot from now on. `own` contains the addresses of the machine.
    pub(crate) fn set_tables(
        &self,
        tables: &Arc<ForwardingTables>,
        own: Vec<IpAddr>,
        limits: IcmpLimits,
    ) {
        let tables = Arc::clone(tables);
        self.tell(move |processor| {
            processor.set_tables(&tables, own);
            // The engine exists only after the first snapshot.
            processor.engine.iter_mut().for_each(|engine| engine.set_icmp_limits(limits));
        });
    }

    /// Makes the subinterfaces answer requests for the addresses in a snapshot (ARP, ND), if a
    /// thread serves the subinterfaces.
    pub(crate) fn set_addresses(&self, tables: &Arc<ForwardingTables>) {
        let tables = Arc::clone(tables);
        self.tell(move |processor| processor.set_addresses(&tables));
    }

    fn tell(&self, task: impl FnOnce(&mut SubinterfaceProcessor) + Send + 'static) {
        if let Some(thread) = &self.thread {
            thread.tasks.push(Box::new(task));
        }
    }

    /// The generation of the snapshot that the thread uses, or an earlier one; `None` without a
    /// thread.
    pub(crate) fn generation(&self) -> Option<u64> {
        Some(self.thread.as_ref()?.generation.load(Ordering::Acquire))
    }

    /// Sets, by port, whether its packets are left to the kernel.
    pub(crate) fn set_left(&self, left: Vec<bool>) {
        self.tell(move |processor| processor.left = left);
    }

    /// Sets the limits of ICMP errors.
    pub(crate) fn set_icmp_limits(&self, limits: IcmpLimits) {
        self.tell(move |processor| {
            processor.engine.iter_mut().for_each(|engine| engine.set_icmp_limits(limits));
        });
    }

    /// The counters of the thread, by subinterface; none without a thread.
    pub(crate) fn figures(&self) -> Vec<SubinterfaceFigures> {
        self.thread.as_ref().map_or(Vec::new(), |thread| thread.figures())
    }
}

/// Subinterfaces, and whether a thread or the workers serve them.
pub(crate) enum ServedSubinterfaces {
    /// A thread of its own serves them, next to XDP programs for the other interfaces.
    ByThread(Box<OpenSubinterfaces>),
    ByWorkers(SubinterfacePorts),
}

impl ServedSubinterfaces {
    /// Returns the routing thread's access.
    pub(crate) fn handle(&self) -> SubinterfaceHandle {
        match self {
            Self::ByThread(open) => open.handle.clone(),
            Self::ByWorkers(ports) => ports.handle.clone(),
        }
    }

    /// Returns the part for the thread, and the part for the workers.
    pub(crate) fn split(
        served: Option<Self>,
    ) -> (Option<OpenSubinterfaces>, Option<SubinterfacePorts>) {
        match served {
            None => (None, None),
            Some(Self::ByThread(open)) => (Some(*open), None),
            Some(Self::ByWorkers(ports)) => (None, Some(ports)),
        }
    }
}

/// The running thread.
pub(crate) struct SubinterfaceThread {
    workers: Workers,
    handle: SubinterfaceHandle,
}

impl SubinterfaceThread {
    /// Starts the thread, which rings `ended` at its end.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn start(open: OpenSubinterfaces, ended: Arc<Doorbell>) -> Result<Self, Failure> {
        let handle = open.handle.clone();
        let task = open.into_task();
        let task: WorkerTask = Box::new(move |stop| {
            let result = task(stop);
            ended.ring();
            result
        });
        Ok(Self { workers: Workers::start(vec![task])?, handle })
    }

    /// Whether the thread has ended, because a port was lost.
    pub(crate) fn has_ended(&self) -> bool {
        !self.workers.is_running()
    }

    /// Ends the thread and removes the devices.
    ///
    /// # Errors
    /// The error that had already ended the thread.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        let ended = self.workers.finish();
        self.handle.thread.iter().for_each(|thread| thread.tasks.close());
        ended
    }
}

/// Returns the port of subinterface `number`. The first one comes after all interfaces of the
/// kernel.
pub(crate) const fn port_of(kernel_ports: usize, number: usize) -> FibPortIndex {
    FibPortIndex((kernel_ports + number) as u16)
}
