//! The switch: ports, addresses, decisions.

mod decide;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use slipring_wire::MacAddr;

use crate::batch::SwitchBatch;
use crate::config::{SwitchConfig, SwitchConfigError, UnknownUnicast};
use crate::counters::{SwitchDropReason, SwitchPortCounters, SwitchTraffic};
use crate::lookup::{LearnedLookup, SwitchLookup, SwitchPacket};
use crate::port::{PortForwarding, SwitchPort, SwitchPortConfig, SwitchPortId};
use crate::table::{MacEntry, MacTable, key_of, tick_of};
use crate::vlan::VlanMembership;
use decide::BatchForwarder;

/// Number of buckets of the address table that every batch searches for old addresses.
const SWEEP_BUCKETS: usize = 8;

/// A learning switch; see the [crate documentation](crate).
///
/// ```
/// use slipring_switch::{DeliveryCounts, FrameSlots, SlotMarks, Switch, SwitchBatch};
/// use slipring_switch::{SwitchConfig, SwitchPacket, SwitchPortConfig};
///
/// let mut switch = Switch::new(SwitchConfig::default());
/// let [a, b, c] = [(); 3].map(|()| switch.attach(SwitchPortConfig::default()).unwrap());
/// let mut batch = SwitchBatch::new();
/// let frame = b"\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x08\x06";
/// let slots = FrameSlots { first: 5, count: 1 };
/// let packet = SwitchPacket { header: frame, len: 60, slots, marks: SlotMarks::default() };
///
/// switch.forward(0, a, 0, [packet], &mut batch);
/// let ports: Vec<_> = batch.destinations().map(|to| to.port()).collect();
/// assert_eq!(ports, [b, c]);
/// assert!(batch.destinations().all(|to| to.copies().next().unwrap().slots == slots));
/// for i in 0..batch.len() {
///     batch.report(i, DeliveryCounts { packets: 1, bytes: 60 });
/// }
/// switch.settle(&mut batch);
/// assert_eq!(switch.counters(c).unwrap().tx.packets, 1);
/// ```
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    table: MacTable,
    ports: Vec<Option<SwitchPort>>,
    /// The properties of each port that decisions need, indexed by port number.
    forwarding: Vec<PortForwarding>,
    /// The numbers of all attached ports.
    present: Vec<u32>,
    /// For each VLAN, the numbers of the ports that may receive its frames. An entry is computed
    /// when a frame is first flooded in the VLAN; all entries are removed when ports change.
    members: BTreeMap<u16, Vec<u32>>,
    /// The total number of rings of all ports.
    queues: u32,
}

impl Switch {
    /// Makes a switch without ports.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            table: MacTable::new(config.max_addresses, config.ageing_ns, config.secret),
            config,
            ports: Vec::new(),
            forwarding: Vec::new(),
            present: Vec::new(),
            members: BTreeMap::new(),
            queues: 0,
        }
    }

    /// Attaches a port, which gets the lowest free number.
    ///
    /// # Errors
    /// [`SwitchConfigError`] if the port's configuration is invalid.
    pub fn attach(&mut self, config: SwitchPortConfig) -> Result<SwitchPortId, SwitchConfigError> {
        let port = SwitchPort::new(config)?;
        let at = self.ports.iter().position(Option::is_none).unwrap_or(self.ports.len());
        if at == self.ports.len() {
            self.ports.push(None);
        }
        self.ports[at] = Some(port);
        self.renumber();
        Ok(SwitchPortId(at as u32))
    }

    /// Detaches a port and forgets its addresses. Returns its final counters, or `None` if no port
    /// has this number. The caller must first settle all batches that refer to the port.
    pub fn detach(&mut self, id: SwitchPortId) -> Option<SwitchPortCounters> {
        let port = self.ports.get_mut(id.0 as usize)?.take()?;
        self.table.flush(0, |entry| entry.port == id);
        self.renumber();
        Some(port.counters)
    }

    /// Changes a port's configuration. Its counters stay. A storm limit that does not change keeps
    /// the tokens that it has left. The port's addresses are forgotten if its VLANs changed.
    ///
    /// # Errors
    /// [`SwitchConfigError`] if the port does not exist or `config` is invalid. The port is
    /// unchanged then.
    pub fn reconfigure(
        &mut self,
        id: SwitchPortId,
        config: SwitchPortConfig,
    ) -> Result<(), SwitchConfigError> {
        let mut fresh = SwitchPort::new(config)?;
        let port = self.port_mut(id).ok_or(SwitchConfigError::NoSuchPort(id.0))?;
        let moved = port.config.vlan != fresh.config.vlan;
        fresh.storm.keep_unchanged(core::mem::take(&mut port.storm));
        *port = SwitchPort { counters: port.counters, ..fresh };
        if moved {
            self.table.flush(0, |entry| entry.port == id);
        }
        self.renumber();
        Ok(())
    }

    /// Sets how long an address is remembered without frames from it, in ns; `None` if addresses
    /// are never forgotten.
    pub fn set_ageing(&mut self, ageing_ns: Option<u64>) {
        self.config.ageing_ns = ageing_ns;
        self.table.set_ageing(ageing_ns);
    }

    /// Turns VLAN awareness on or off. If this is a change, all addresses are forgotten, because
    /// their VLANs have a new meaning.
    pub fn set_vlan_aware(&mut self, is_vlan_aware: bool) {
        if self.config.is_vlan_aware != is_vlan_aware {
            self.config.is_vlan_aware = is_vlan_aware;
            self.table.flush(0, |_| true);
            self.renumber();
        }
    }

    /// Sets what the switch does with frames to unknown addresses.
    pub fn set_unknown_unicast(&mut self, unknown_unicast: UnknownUnicast) {
        self.config.unknown_unicast = unknown_unicast;
    }

    /// The switch's configuration, with all changes.
    #[must_use]
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// The numbers of the attached ports.
    pub fn ports(&self) -> impl Iterator<Item = SwitchPortId> + '_ {
        self.present.iter().map(|&at| SwitchPortId(at))
    }

    /// A port's configuration; `None` if no port has this number.
    #[must_use]
    pub fn port(&self, id: SwitchPortId) -> Option<&SwitchPortConfig> {
        self.ports.get(id.0 as usize)?.as_ref().map(|port| &port.config)
    }

    /// A port's counters; `None` if no port has this number.
    #[must_use]
    pub fn counters(&self, id: SwitchPortId) -> Option<&SwitchPortCounters> {
        self.ports.get(id.0 as usize)?.as_ref().map(|port| &port.counters)
    }

    /// The address table.
    #[must_use]
    pub fn table(&self) -> &MacTable {
        &self.table
    }

    /// The port at which an address was learned or set; `None` if the address is not known.
    #[must_use]
    pub fn find(&self, now_ns: u64, mac: MacAddr, vlan: u16) -> Option<SwitchPortId> {
        let key = self.table.locate(key_of(mac.to_u64(), vlan));
        self.table.find(key, tick_of(now_ns)).map(SwitchPortId)
    }

    /// Sets a static address, which neither ages nor moves.
    ///
    /// # Errors
    /// [`SwitchConfigError`] if `mac` is a group address, the port does not exist, or the table is
    /// full.
    pub fn pin(
        &mut self,
        now_ns: u64,
        mac: MacAddr,
        vlan: u16,
        port: SwitchPortId,
    ) -> Result<(), SwitchConfigError> {
        if mac.is_multicast() {
            return Err(SwitchConfigError::GroupAddress);
        }
        self.port(port).ok_or(SwitchConfigError::NoSuchPort(port.0))?;
        let fits = self.table.pin(key_of(mac.to_u64(), vlan), port.0, tick_of(now_ns));
        if fits { Ok(()) } else { Err(SwitchConfigError::TableFull(self.config.max_addresses)) }
    }

    /// Forgets one address; returns whether the table held it, even if it was too old.
    pub fn remove_mac(&mut self, mac: MacAddr, vlan: u16) -> bool {
        self.table.remove(key_of(mac.to_u64(), vlan))
    }

    /// Forgets the addresses for which `which` returns true; returns the number of forgotten
    /// addresses.
    pub fn flush(&mut self, now_ns: u64, which: impl FnMut(&MacEntry) -> bool) -> usize {
        self.table.flush(now_ns, which)
    }

    /// Decides the destinations of frames that `source` sends from its tx ring `ring`, in the
    /// order of the frames, and learns their source addresses. Replaces the contents of `batch`, so
    /// the caller must first call [`Self::settle`] for the decisions that it contains. If the port
    /// does not exist, `batch` is empty afterwards.
    #[inline]
    pub fn forward<'p>(
        &mut self,
        now_ns: u64,
        source: SwitchPortId,
        ring: u32,
        packets: impl IntoIterator<Item = SwitchPacket<'p>>,
        batch: &mut SwitchBatch,
    ) {
        self.forward_by(now_ns, source, ring, packets, &mut LearnedLookup, batch);
    }

    /// Like [`Self::forward`], but `lookup` selects the destination of each frame, instead of the
    /// address table.
    #[inline]
    pub fn forward_by<'p>(
        &mut self,
        now_ns: u64,
        source: SwitchPortId,
        ring: u32,
        packets: impl IntoIterator<Item = SwitchPacket<'p>>,
        lookup: &mut impl SwitchLookup,
        batch: &mut SwitchBatch,
    ) {
        batch.begin(self.queues as usize);
        self.table.sweep(SWEEP_BUCKETS, tick_of(now_ns));
        let Some(mut turn) = BatchForwarder::new(self, now_ns, source, ring) else { return };
        for packet in packets {
            turn.packet(self, lookup, batch, &packet);
        }
        turn.end(self);
    }

    /// Adds the frames that were reported as delivered, and the rest of the batch's frames as
    /// dropped, to the counters of their destination ports. Then empties the batch.
    pub fn settle(&mut self, batch: &mut SwitchBatch) {
        for dest in batch.dests() {
            let asked = u64::from(batch.copies_to(dest));
            if let Some(port) = self.port_mut(dest.target.port) {
                let sent = SwitchTraffic::from(dest.delivered);
                port.counters.tx += sent;
                let lost = asked.saturating_sub(sent.packets);
                port.counters.drop(SwitchDropReason::DestinationFull, lost);
            }
        }
        batch.begin(self.queues as usize);
    }

    /// Counts frames of `source` that were lost before they reached the switch. Their bytes are not
    /// counted. Has no effect if the port does not exist.
    pub fn refuse(&mut self, source: SwitchPortId, reason: SwitchDropReason, packets: u64) {
        if let Some(port) = self.port_mut(source) {
            port.counters.rx.packets += packets;
            port.counters.drop(reason, packets);
        }
    }

    fn port_mut(&mut self, id: SwitchPortId) -> Option<&mut SwitchPort> {
        self.ports.get_mut(id.0 as usize)?.as_mut()
    }

    /// Renumbers the rings of all ports, and removes the lists of ports per VLAN.
    fn renumber(&mut self) {
        self.queues = 0;
        self.present.clear();
        self.members.clear();
        self.forwarding.clear();
        for (at, port) in (0..).zip(&self.ports) {
            let Some(SwitchPort { config, .. }) = port else {
                self.forwarding.push(PortForwarding::default());
                continue;
            };
            let (rings, is_isolated) = (config.rings, config.is_isolated);
            self.forwarding.push(PortForwarding { first_queue: self.queues, rings, is_isolated });
            self.queues += rings;
            self.present.push(at);
        }
    }

    /// The ports that may receive frames of a VLAN.
    fn members(&mut self, vlan: u16) -> &[u32] {
        if !self.config.is_vlan_aware {
            return &self.present;
        }
        let (ports, present) = (&self.ports, &self.present);
        self.members.entry(vlan).or_insert_with(|| {
            let is_member = |&&at: &&u32| {
                let port = ports[at as usize].as_ref();
                port.is_some_and(|port| VlanMembership::is_member(&port.config.vlan, vlan))
            };
            present.iter().filter(is_member).copied().collect()
        })
    }
}

#[cfg(test)]
mod tests;
