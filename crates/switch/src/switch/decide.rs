//! Selects the destinations of each frame in a batch. This code runs once per frame.

use alloc::vec::Vec;

use crate::UnknownUnicast;
use crate::batch::{BatchEntry, DeliveryTarget, SwitchBatch};
use crate::counters::{SwitchDropReason, SwitchTraffic};
use crate::flood::FloodClass;
use crate::lookup::{SwitchLookup, SwitchPacket, SwitchRoute};
use crate::port::SwitchPortId;
use crate::switch::Switch;
use crate::table::{LearnOutcome, MacKey, key_of, tick_of};
use crate::vlan::{FrameTag, VlanEgress};

/// Length of an Ethernet header in bytes: two addresses and the type.
const HEADER_LEN: usize = 14;
/// The EtherType of a customer VLAN tag.
const TAG_TYPE: u64 = 0x8100;
/// The bit that marks a group address, in an address that was read as a number.
const GROUP_BIT: u64 = 1 << 40;
const BROADCAST: u64 = (1 << 48) - 1;

/// The state for deciding about the frames of one batch: values that do not change during the
/// batch, and results that consecutive similar frames reuse.
pub(super) struct BatchForwarder {
    now_ns: u64,
    tick: u32,
    source: SwitchPortId,
    ring: u32,
    is_vlan_aware: bool,
    learns: bool,
    is_isolated: bool,
    floods_unknown: bool,
    /// The source address that was learned last. Consecutive frames from the same station are
    /// learned only once.
    last_source: u64,
    rx: SwitchTraffic,
    flooded: u64,
    copies: u64,
}

/// The contents of a frame's header.
#[derive(Clone, Copy)]
struct SwitchHeader {
    /// The destination address in the frame's VLAN.
    to: MacKey,
    from: MacKey,
    vlan: u16,
    tagged: FrameTag,
}

impl BatchForwarder {
    pub(super) fn new(
        switch: &Switch,
        now_ns: u64,
        source: SwitchPortId,
        ring: u32,
    ) -> Option<Self> {
        let config = switch.port(source)?;
        Some(Self {
            now_ns,
            tick: tick_of(now_ns),
            source,
            ring,
            is_vlan_aware: switch.config.is_vlan_aware,
            learns: config.learns,
            is_isolated: config.is_isolated,
            floods_unknown: switch.config.unknown_unicast == UnknownUnicast::Flood,
            last_source: 0,
            rx: SwitchTraffic::default(),
            flooded: 0,
            copies: 0,
        })
    }

    /// Decides about one frame.
    #[inline(always)]
    pub(super) fn packet(
        &mut self,
        switch: &mut Switch,
        lookup: &mut impl SwitchLookup,
        batch: &mut SwitchBatch,
        packet: &SwitchPacket<'_>,
    ) {
        self.rx.packets += 1;
        self.rx.bytes += u64::from(packet.len);
        if let Err(reason) = self.decide(switch, lookup, batch, packet) {
            self.drop(switch, reason);
        }
    }

    #[inline(always)]
    fn decide(
        &mut self,
        switch: &mut Switch,
        lookup: &mut impl SwitchLookup,
        batch: &mut SwitchBatch,
        packet: &SwitchPacket<'_>,
    ) -> Result<(), SwitchDropReason> {
        let header = self.header(switch, packet)?;
        self.learn(switch, packet, &header);
        let entry = BatchEntry::new(packet.slots, packet.len, header.vlan, header.tagged);
        let (port, ring) = match packet.marks.to {
            Some(port) => (port.0, self.ring),
            None => match lookup.route(self.source, packet) {
                SwitchRoute::Learned => return self.by_table(switch, batch, &header, entry),
                SwitchRoute::Port(port) => (port.0, self.ring),
                SwitchRoute::Ring(port, ring) => (port.0, ring),
                SwitchRoute::Flood => return self.flood(switch, batch, FloodClass::Unknown, entry),
                SwitchRoute::Drop => return Err(SwitchDropReason::Lookup),
            },
        };
        self.send(switch, batch, port, ring, entry)
    }

    #[inline(always)]
    fn by_table(
        &mut self,
        switch: &mut Switch,
        batch: &mut SwitchBatch,
        header: &SwitchHeader,
        entry: BatchEntry,
    ) -> Result<(), SwitchDropReason> {
        if header.to.key & GROUP_BIT != 0 {
            let broadcast = header.to.key & BROADCAST == BROADCAST;
            let class = if broadcast { FloodClass::Broadcast } else { FloodClass::Multicast };
            return self.flood(switch, batch, class, entry);
        }
        match switch.table.find(header.to, self.tick) {
            Some(port) => self.send(switch, batch, port, self.ring, entry),
            None if self.floods_unknown => self.flood(switch, batch, FloodClass::Unknown, entry),
            None => Err(SwitchDropReason::UnknownUnicast),
        }
    }

    #[inline(always)]
    fn header(
        &self,
        switch: &Switch,
        packet: &SwitchPacket<'_>,
    ) -> Result<SwitchHeader, SwitchDropReason> {
        let head = packet.header.first_chunk::<HEADER_LEN>().ok_or(SwitchDropReason::Runt)?;
        if packet.len < HEADER_LEN as u32 {
            return Err(SwitchDropReason::Runt);
        }
        let word = |at| head[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        // The first eight bytes contain the destination. The last eight contain the source and the
        // type.
        let (first, last) = (word(0), word(HEADER_LEN - 8));
        let (vlan, tagged) = if self.is_vlan_aware {
            self.vlan_of(switch, packet, last)?
        } else {
            (0, FrameTag::No)
        };
        let [to, from] = [first, last].map(|word| switch.table.locate(key_of(word >> 16, vlan)));
        Ok(SwitchHeader { to, from, vlan, tagged })
    }

    #[inline(never)]
    fn vlan_of(
        &self,
        switch: &Switch,
        packet: &SwitchPacket<'_>,
        last: u64,
    ) -> Result<(u16, FrameTag), SwitchDropReason> {
        let tagged = if last & 0xffff == TAG_TYPE { tag_of(packet)? } else { FrameTag::No };
        let port = switch.port(self.source).ok_or(SwitchDropReason::VlanIngress)?;
        let vlan = port.vlan.ingress(tagged).ok_or(SwitchDropReason::VlanIngress)?;
        Ok((vlan, tagged))
    }

    #[inline(always)]
    fn learn(&mut self, switch: &mut Switch, packet: &SwitchPacket<'_>, header: &SwitchHeader) {
        let from = header.from;
        if from.key == self.last_source || !self.learns || packet.marks.no_learn {
            return;
        }
        // A group address or zero is not the address of a station, so it is not learned.
        if from.key & GROUP_BIT != 0 || from.key & BROADCAST == 0 {
            return;
        }
        self.last_source = from.key;
        match switch.table.learn(from, self.source.0, self.tick) {
            LearnOutcome::Known => {}
            news => self.learned(switch, news),
        }
    }

    #[cold]
    fn learned(&self, switch: &mut Switch, news: LearnOutcome) {
        let Some(port) = switch.port_mut(self.source) else { return };
        match news {
            LearnOutcome::Known => {}
            LearnOutcome::New => port.counters.learned += 1,
            LearnOutcome::Moved => port.counters.moved += 1,
            LearnOutcome::Full => port.counters.not_learned += 1,
        }
    }

    /// Sends a frame to one port.
    #[inline(always)]
    fn send(
        &mut self,
        switch: &Switch,
        batch: &mut SwitchBatch,
        to: u32,
        ring: u32,
        entry: BatchEntry,
    ) -> Result<(), SwitchDropReason> {
        if to == self.source.0 {
            return Err(SwitchDropReason::SamePort);
        }
        let facts = switch.forwarding.get(to as usize).copied().unwrap_or_default();
        if facts.rings == 0 {
            return Err(SwitchDropReason::NoSuchPort);
        }
        if self.is_isolated && facts.is_isolated {
            return Err(SwitchDropReason::Isolated);
        }
        // The remainder is computed only if necessary, because a division is slow.
        let ring = if ring < facts.rings { ring } else { ring % facts.rings };
        let queue = facts.first_queue + ring;
        if self.is_vlan_aware || !batch.is_open(queue) {
            self.open_one(
                switch,
                batch,
                DeliveryTarget { port: SwitchPortId(to), ring, queue, egress: VlanEgress::AsIs },
                &entry,
            )?;
        }
        batch.chain(queue, entry);
        Ok(())
    }

    /// Makes a ring a destination of the batch. Returns an error if its port does not exist or is
    /// not in the frame's VLAN.
    #[inline(never)]
    fn open_one(
        &self,
        switch: &Switch,
        batch: &mut SwitchBatch,
        target: DeliveryTarget,
        entry: &BatchEntry,
    ) -> Result<(), SwitchDropReason> {
        let port =
            switch.ports[target.port.0 as usize].as_ref().ok_or(SwitchDropReason::NoSuchPort)?;
        if self.is_vlan_aware && !port.config.vlan.is_member(entry.vlan) {
            return Err(SwitchDropReason::VlanEgress);
        }
        open(batch, DeliveryTarget { egress: port.egress(self.is_vlan_aware), ..target });
        Ok(())
    }

    /// Sends a frame to ring 0 of every port that receives flooded frames of this class and VLAN.
    #[inline(never)]
    fn flood(
        &mut self,
        switch: &mut Switch,
        batch: &mut SwitchBatch,
        class: FloodClass,
        entry: BatchEntry,
    ) -> Result<(), SwitchDropReason> {
        let now_ns = self.now_ns;
        let source = switch.port_mut(self.source).ok_or(SwitchDropReason::NoSuchPort)?;
        if !source.storm.admits(class, now_ns, entry.len) {
            return Err(storm_reason(class));
        }
        let ports = match batch.sets.find(entry.vlan, class) {
            Some(set) => Self::flood_set(batch, set, entry),
            None => match batch.sets.add(entry.vlan, class) {
                Some(set) => {
                    for target in self.targets(switch, class, entry.vlan) {
                        open(batch, target);
                        batch.add_to_flood_set(target.queue, set);
                        batch.sets.get_mut(set).ports += 1;
                    }
                    Self::flood_set(batch, set, entry)
                }
                None => self.flood_one_by_one(switch, batch, class, entry),
            },
        };
        if ports == 0 {
            return Err(SwitchDropReason::NoDestination);
        }
        self.flooded += u64::from(ports > 1);
        self.copies += u64::from(ports - 1);
        Ok(())
    }

    /// Floods a frame to the ports of a flood set. Returns their number.
    fn flood_set(batch: &mut SwitchBatch, set: usize, entry: BatchEntry) -> u32 {
        let ports = batch.sets.get_mut(set).ports;
        if ports > 0 {
            batch.flood(set, entry);
        }
        ports
    }

    /// Floods a frame when the batch has no space for another flood set: adds one entry per port
    /// instead.
    fn flood_one_by_one(
        &self,
        switch: &mut Switch,
        batch: &mut SwitchBatch,
        class: FloodClass,
        entry: BatchEntry,
    ) -> u32 {
        let targets = self.targets(switch, class, entry.vlan);
        for &target in &targets {
            open(batch, target);
            batch.chain(target.queue, entry);
        }
        targets.len() as u32
    }

    /// Returns ring 0 of each port that receives flooded frames of this class and VLAN from the
    /// source port.
    fn targets(&self, switch: &mut Switch, class: FloodClass, vlan: u16) -> Vec<DeliveryTarget> {
        let is_vlan_aware = self.is_vlan_aware;
        let members: Vec<u32> = switch.members(vlan).to_vec();
        let target = |at: u32| {
            let port = switch.ports[at as usize].as_ref()?;
            let parted = self.is_isolated && port.config.is_isolated;
            let egress = if is_vlan_aware { port.egress(true) } else { VlanEgress::AsIs };
            let gets = at != self.source.0 && !parted && port.takes(class);
            let queue = switch.forwarding[at as usize].first_queue;
            gets.then_some(DeliveryTarget { port: SwitchPortId(at), ring: 0, queue, egress })
        };
        members.into_iter().filter_map(target).collect()
    }

    #[cold]
    fn drop(&self, switch: &mut Switch, reason: SwitchDropReason) {
        if let Some(port) = switch.port_mut(self.source) {
            port.counters.drop(reason, 1);
        }
    }

    /// Adds the batch's counts to the source port's counters.
    pub(super) fn end(self, switch: &mut Switch) {
        if let Some(port) = switch.port_mut(self.source) {
            port.counters.rx += self.rx;
            port.counters.flooded += self.flooded;
            port.counters.copies += self.copies;
        }
    }
}

fn open(batch: &mut SwitchBatch, target: DeliveryTarget) {
    if !batch.is_open(target.queue) {
        batch.open(target);
    }
}

/// Returns the VLAN tag of a frame whose type says that it has one; an error if the frame is too
/// short for a tag.
fn tag_of(packet: &SwitchPacket<'_>) -> Result<FrameTag, SwitchDropReason> {
    match packet.header.get(HEADER_LEN..HEADER_LEN + 2) {
        Some(&[high, low]) if packet.len >= 18 => {
            Ok(FrameTag::With(u16::from_be_bytes([high, low]) & 0xfff))
        }
        _ => Err(SwitchDropReason::Runt),
    }
}

fn storm_reason(class: FloodClass) -> SwitchDropReason {
    match class {
        FloodClass::Broadcast => SwitchDropReason::StormBroadcast,
        FloodClass::Multicast => SwitchDropReason::StormMulticast,
        FloodClass::Unknown => SwitchDropReason::StormUnknown,
    }
}
