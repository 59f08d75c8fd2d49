//! Subinterfaces that the kernel does not have: `eth1.100`, `eth1.100.7`.
//!
//! ```text
//!   name.rs       what a name says: parent and tags
//!   link.rs       neighbours of one subinterface; what the wire and the kernel hear of each other
//!   tags.rs       tags of frames
//!   opening.rs    the ports, and the devices that the kernel sees
//!   processor.rs  next to XDP: a thread with wire, TAP devices, engine
//!   shared.rs     in workers, which are in `worker/vlan.rs`: the links, for all of them
//!   ports.rs      the ports of workers
//! ```
//!
//! For each subinterface there is a TAP device of its name. It has the addresses and routes, so `ip`,
//! FRR and BIRD see an interface, and the mirror of the kernel's tables learns them like those of
//! any other. The device exists as long as this process.
//!
//! # Invariants
//! 1. A packet is routed here only by tables that were confirmed in the last 100 ms. Otherwise the
//!    kernel gets it from the TAP device, and routes it.
//!    Workers take no frames by such tables: packets wait in their sockets.
//! 2. Only frames with the VLAN identifiers of subinterfaces are received, and the program of the
//!    interface leaves all tagged frames to the kernel, which has no device for them: no packet is
//!    forwarded twice.

mod figures;
mod link;
mod name;
mod opening;
mod ports;
mod processor;
mod shared;
pub(crate) mod tags;

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use slipring_cli::Failure;
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_fib::{FibPortIndex, ForwardingTables, PortConfig, VlanTags, VrfIndex};
use slipring_neighbour::icmp::IcmpLimits;
use slipring_port::iface::Iface;
use slipring_port::{Nanos, RunError, now};
use slipring_ring::Doorbell;

pub(crate) use figures::{SubinterfaceCounters, SubinterfaceFigures};
pub(crate) use link::{LinkVerdict, WaitingPacket};
pub(crate) use name::SubinterfaceName;
pub(crate) use opening::{OpenSubinterfaces, parents};
pub(crate) use ports::SubinterfacePorts;
pub(crate) use processor::QueueRole;
use processor::{SubinterfaceProcessor, SubinterfaceShared};
pub(crate) use shared::{SharedSubinterfaces, SubinterfaceFrame, WaitEnd};

/// A subinterface of the plan.
#[derive(Clone, Debug)]
pub(crate) struct OwnSubinterface {
    /// The name, as typed, and as the TAP device has it.
    pub(crate) name: String,
    /// The interface that carries its frames.
    pub(crate) parent: Iface,
    pub(crate) tags: VlanTags,
}

impl OwnSubinterface {
    /// The MTU of the TAP device. The kernel sends a frame beyond an interface's MTU by a tag of type
    /// 0x8100, but not by tags of a service VLAN, so both of these count.
    pub(crate) const fn mtu(&self) -> u32 {
        const TWO_TAGS_LEN: u32 = 8;
        match self.tags.inner {
            Some(_) => self.parent.mtu.saturating_sub(TWO_TAGS_LEN),
            None => self.parent.mtu,
        }
    }

    /// The tags in words.
    pub(crate) fn tag_words(&self) -> String {
        match (self.tags.outer, self.tags.inner) {
            (Some((_, outer)), Some((_, inner))) => format!("VLAN {inner} in service VLAN {outer}"),
            (Some((_, only)), _) => format!("VLAN {only}"),
            _ => String::new(),
        }
    }
}

/// A subinterface with its device.
#[derive(Clone, Debug)]
pub(crate) struct SubinterfaceDevice {
    pub(crate) name: String,
    /// Index of the TAP device.
    pub(crate) ifindex: u32,
    parent: u32,
    tags: VlanTags,
}

/// The routing thread's end of the subinterfaces.
#[derive(Clone)]
pub(crate) struct SubinterfaceHandle {
    /// The thread of subinterfaces; none if workers serve them.
    thread: Option<Arc<SubinterfaceShared>>,
    pub(crate) devices: Vec<SubinterfaceDevice>,
}

impl SubinterfaceHandle {
    /// The ports of the mirror.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortConfig> {
        self.devices.iter().map(|device| PortConfig {
            ifindex: device.ifindex,
            parent: Some(device.parent),
            name: device.name.clone(),
            vrf: VrfIndex(0),
            tags: device.tags,
        })
    }

    /// Notes that the tables were those of the kernel at this time.
    pub(crate) fn note_current(&self, at: Nanos) {
        if let Some(thread) = &self.thread {
            thread.seen.store(at, Ordering::Release);
        }
    }

    /// Routes by a snapshot from now on. `own` are the addresses of the machine.
    pub(crate) fn set_tables(
        &self,
        tables: &Arc<ForwardingTables>,
        own: Vec<IpAddr>,
        limits: IcmpLimits,
    ) {
        let tables = Arc::clone(tables);
        self.tell(move |processor| {
            processor.set_tables(&tables, own, now());
            // The first snapshot has made the engine.
            processor.engine.iter_mut().for_each(|engine| engine.set_icmp_limits(limits));
        });
    }

    fn tell(&self, task: impl FnOnce(&mut SubinterfaceProcessor) + Send + 'static) {
        if let Some(thread) = &self.thread {
            thread.tasks.push(Box::new(task));
        }
    }

    /// The generation of the snapshot that the thread uses, or an earlier one; `None` without a thread.
    pub(crate) fn generation(&self) -> Option<u64> {
        Some(self.thread.as_ref()?.generation.load(Ordering::Acquire))
    }

    /// Sets, by port, whose packets are left to the kernel.
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
        let Some(thread) = &self.thread else { return Vec::new() };
        thread.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Subinterfaces, and what will serve them.
pub(crate) enum ServedSubinterfaces {
    /// A thread of their own, next to XDP.
    ByThread(Box<OpenSubinterfaces>),
    ByWorkers(SubinterfacePorts),
}

impl ServedSubinterfaces {
    /// The routing thread's end.
    pub(crate) fn handle(&self) -> SubinterfaceHandle {
        match self {
            Self::ByThread(open) => open.handle.clone(),
            Self::ByWorkers(ports) => ports.handle.clone(),
        }
    }

    /// What the thread gets, and what the workers get.
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

    /// Ends the thread; the devices go with it.
    ///
    /// # Errors
    /// The error by which it has ended before.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        let ended = self.workers.finish();
        self.handle.thread.iter().for_each(|thread| thread.tasks.close());
        ended
    }
}

/// The index of the first subinterface's port: after all interfaces of the kernel.
pub(crate) const fn port_of(kernel_ports: usize, number: usize) -> FibPortIndex {
    FibPortIndex((kernel_ports + number) as u16)
}
