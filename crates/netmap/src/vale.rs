//! Switches (netmap's VALE): `vale0:a` is port `a` of the learning switch `vale0`.
//!
//! ```text
//!   tx ring of vale0:a            Hub of vale0                 rx rings of vale0:b, vale0:c, a NIC
//!   slots head..  -> Frames::read -> Switch::forward (a lock) -> Outlet::deliver (none) -> listeners
//!                                                                a lease of slots each
//! ```
//!
//! Every port has a memory of its own, so frames are copied; a ring that is full loses them, which
//! is counted. A switch is there while it has a port.

pub(crate) mod attach;
pub(crate) mod bridge;
mod control;
mod copy_plan;
mod destination_ring;
mod frame_edit;
mod frames;
mod loop_check;
mod offload_fixup;
pub(crate) mod port;
mod requests;
mod restart;

use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::adapter::{Adapter, AdapterShape};
use crate::domain::{Domain, MemoryNeeds, NetmapMemory};
use crate::names::{AdapterNames, AdapterRequest, PortKey};
use attach::NicAttachment;
use bridge::Bridge;
use port::ValePort;

pub use control::{SwitchInfo, SwitchPortInfo};

/// Most rings each way of a port.
const MAX_RINGS: u16 = 16;
/// Buffers of a port's memory that are nobody's at first: for pipes and monitors that come later,
/// as many of them as there is room. These at least, whatever else the user has.
const SPARE_BUFS: u32 = 2048;
/// Most extra buffers of a port; a request may be granted fewer than it asks for.
const MAX_EXTRA_BUFS: u32 = 500_000;
/// Bytes for interfaces' records, and for rings without buffers of their own.
const SPARE_RING_BYTES: u64 = 256 << 10;
/// Bytes of rings for each spare buffer: a pipe's slot has one at either end.
const RING_BYTES_PER_BUF: u64 = 40;
/// The longest name of a port within its switch.
const MAX_NAME_LEN: usize = 15;

/// A user's switches, and what in them outlives its openers.
#[derive(Debug, Default)]
pub(crate) struct BridgeTable {
    /// By number; those that are gone leave a place.
    bridges: Vec<(PortKey, Weak<Bridge>)>,
    /// Ports made by request.
    persistent: std::collections::HashMap<PortKey, Arc<ValePort>>,
    /// Interfaces and second places of persistent ports, by their name in the switch.
    attached: std::collections::HashMap<PortKey, Arc<NicAttachment>>,
}

impl BridgeTable {
    /// Whether anything here outlives those who have files open.
    pub(crate) fn is_lasting(&self) -> bool {
        !self.persistent.is_empty() || !self.attached.is_empty()
    }

    /// Whether a name is that of a persistent port.
    pub(crate) fn is_persistent(&self, key: &PortKey) -> bool {
        self.persistent.contains_key(key)
    }

    /// All that [`Self::existing`] finds, by their own names.
    pub(crate) fn named(&self) -> Vec<(PortKey, Arc<dyn Adapter>)> {
        let attached = self.attached.iter().map(|(key, one)| (key.clone(), one.nic().clone()));
        let persistent = self.persistent.iter();
        let persistent =
            persistent.map(|(key, one)| (key.clone(), one.clone() as Arc<dyn Adapter>));
        attached.chain(persistent).collect()
    }

    /// An interface in a switch, or a persistent port by either of its names.
    pub(crate) fn existing(&self, key: &PortKey) -> Option<Arc<dyn Adapter>> {
        if let Some(attached) = self.attached.get(key) {
            return Some(attached.nic().clone());
        }
        let (switch, name) = key.1.split_once(':').unwrap_or(("", &key.1));
        let port = self.persistent.get(&(key.0, name.to_owned()))?;
        let there =
            switch.is_empty() || port.attachment().is_some_and(|(hub, _)| hub.name() == switch);
        there.then(|| port.clone() as Arc<dyn Adapter>)
    }

    /// Those of a network namespace that are there.
    fn in_netns(&self, netns: u64) -> impl Iterator<Item = Arc<Bridge>> + '_ {
        let ours = self.bridges.iter().filter(move |((at, _), _)| *at == netns);
        ours.filter_map(|(_, hub)| hub.upgrade())
    }

    /// The switch of this name, if it is there.
    fn find(&self, netns: u64, name: &str) -> Option<Arc<Bridge>> {
        self.in_netns(netns).find(|hub| hub.name() == name)
    }

    /// The switch of this name; a new one has the lowest number that is free.
    fn get_or_create(&mut self, netns: u64, name: &str) -> Arc<Bridge> {
        if let Some(hub) = self.find(netns, name) {
            return hub;
        }
        let free = self.bridges.iter().position(|(_, hub)| hub.strong_count() == 0);
        let at = free.unwrap_or(self.bridges.len());
        let hub = Bridge::new(name.to_owned(), at as u16);
        let entry = ((netns, name.to_owned()), Arc::downgrade(&hub));
        match free {
            Some(at) => self.bridges[at] = entry,
            None => self.bridges.push(entry),
        }
        hub
    }
}

/// Whether a name is for a switch's port.
pub(crate) fn is_vale(name: &str) -> bool {
    name.starts_with("vale")
}

/// Switch and port of a name such as `vale0:a`.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Errno> {
    let (switch, port) = name.split_once(':').ok_or(Errno::INVAL)?;
    let is_id = switch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // What is named by a path is as long as that is.
    let fits = !port.is_empty() && (port.len() <= MAX_NAME_LEN || port.starts_with("vhost"));
    if is_vale(switch) && is_id && fits { Ok((switch, port)) } else { Err(Errno::INVAL) }
}

impl AdapterRequest<'_> {
    /// The port of a switch, made if it is not there. It joins the switch with its first bind.
    pub(crate) fn vale(&self, names: &mut AdapterNames) -> Result<Arc<dyn Adapter>, Errno> {
        let (switch, _) = split(self.name)?;
        let hub = names.switches.get_or_create(self.opener.netns, switch);
        Ok(self.vale_port(self.name, Some(hub))?)
    }

    /// A port that nobody has yet, sized as the request wishes.
    pub(crate) fn vale_port(
        &self,
        name: &str,
        home: Option<Arc<Bridge>>,
    ) -> Result<Arc<ValePort>, Errno> {
        let (wish, params) = (self.register, self.domain.params());
        let rings = |count: u16| count.clamp(1, MAX_RINGS);
        let shape = AdapterShape {
            rings: [rings(wish.nr_tx_rings), rings(wish.nr_rx_rings)],
            host_rings: [0; 2],
            slots: [params.slots(wish.nr_tx_slots), params.slots(wish.nr_rx_slots)],
        };
        let memory = match self.memory {
            Some(memory) => memory.clone(),
            None => {
                self.domain.private_memory(memory_needs(&shape, self.domain, wish.nr_extra_bufs))?
            }
        };
        let cells = self.domain.ledger.words_region().clone();
        Ok(ValePort::new(name.to_owned(), shape, memory, cells, home))
    }
}

/// What the memory of one port holds.
fn memory_needs(shape: &AdapterShape, domain: &Domain, extra: u32) -> MemoryNeeds {
    let spare = domain.spare_bufs(RING_BYTES_PER_BUF).max(SPARE_BUFS);
    let ring_bytes = SPARE_RING_BYTES + u64::from(spare) * RING_BYTES_PER_BUF;
    let spare = MemoryNeeds { ring_bytes, bufs: spare + extra.min(MAX_EXTRA_BUFS) };
    (0..2).fold(spare, |room, dir| {
        room + MemoryNeeds::rings(shape.rings[dir].into(), shape.slots[dir], true)
    })
}

/// A memory that a request names by number.
fn memory_of(domain: &Arc<Domain>, id: u16) -> Result<Option<Arc<NetmapMemory>>, Errno> {
    if id == 0 { Ok(None) } else { domain.memory(id).map(Some) }
}
