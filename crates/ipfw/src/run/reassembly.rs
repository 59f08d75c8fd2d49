//! Reassembly of IPv4 fragments, so that rules see the whole packet.
//!
//! Fragments are forwarded as fragments; only the rules see the reassembled packet. The fragments
//! are released when the last one arrives. If rules change the packet, the caller copies the
//! changes to its fragments.
//!
//! # Invariants
//! 1. At most [`MAX_PACKETS`] packets wait, of at most [`MAX_FRAGMENTS`] fragments each.
//! 2. The waiting fragments of a packet never overlap. A packet with overlapping fragments is
//!    discarded, since it is unknown which bytes a host would accept (RFC 5722 requires the same
//!    for IPv6). If a fragment arrives again with the same bytes, only the second copy is dropped.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use slipring_wire::assigned::VlanTag;

use crate::packet::PacketHeaders;

/// Maximum number of packets that wait at once.
const MAX_PACKETS: usize = 1024;
/// Maximum number of fragments per packet.
const MAX_FRAGMENTS: usize = 64;
/// Maximum time that fragments wait, in ns. Common hosts wait as long.
const WAIT_NS: u64 = 30_000_000_000;
const MORE_FRAGMENTS: u16 = 0x2000;
/// Maximum length of an IPv4 packet in bytes, header included.
const MAX_PACKET_LEN: usize = 65_535;

/// Fragments by outcome, in frames; `whole` counts packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounters {
    /// Frames passed to the reassembly.
    pub fragments: u64,
    /// Packets reassembled.
    pub whole: u64,
    /// Frames released: the fragments of the reassembled packets.
    pub released: u64,
    /// Frames dropped because other fragments of their packet did not arrive in time.
    pub late: u64,
    /// Frames dropped because a fragment of their packet was invalid, overlapped or contradicted
    /// another one, or exceeded the maximum packet size or number of fragments.
    pub overlapping: u64,
    /// Frames dropped because too many packets waited.
    pub crowded: u64,
    /// Frames dropped because the same fragment already waits.
    pub repeated: u64,
}

impl FragmentCounters {
    /// Adds the counters of another engine.
    pub const fn add(&mut self, other: &Self) {
        let Self { fragments, whole, released, late, overlapping, crowded, repeated } = *other;
        self.fragments += fragments;
        self.whole += whole;
        self.released += released;
        self.late += late;
        self.overlapping += overlapping;
        self.crowded += crowded;
        self.repeated += repeated;
    }
}

/// The fields that are equal in all fragments of a packet: source, destination, identification,
/// protocol and VLAN ids. Different VLANs may use the same addresses.
type FragmentKey = (u128, u128, u16, u8, [Option<u16>; 2]);

#[derive(Debug)]
struct PartialPacket {
    since_ns: u64,
    /// Fragments by offset in bytes.
    fragments: BTreeMap<u32, WaitingFragment>,
    /// Payload bytes of the whole packet; `None` until the fragment at its end has arrived.
    total: Option<u32>,
}

#[derive(Debug)]
struct WaitingFragment {
    frame: Vec<u8>,
    /// Offset of the IP header in the frame, in bytes.
    l3: usize,
    payload: core::ops::Range<usize>,
    /// Sequence number of the arrival: frames leave in the order in which they arrived.
    order: u64,
}

/// A reassembled packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReassembledPacket {
    /// The whole packet as a frame, with cleared fragment fields.
    pub(super) frame: Vec<u8>,
    /// The fragments that waited, in order of arrival, without the fragment that arrived last.
    pub(super) earlier: Vec<Vec<u8>>,
}

/// All waiting packets.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    waiting: BTreeMap<FragmentKey, PartialPacket>,
    /// For each waiting packet, the arrival time of its first fragment, and its key; oldest first.
    expiry_queue: BTreeSet<(u64, FragmentKey)>,
    order: u64,
    counters: FragmentCounters,
}

impl Reassembly {
    pub(super) const fn counters(&self) -> &FragmentCounters {
        &self.counters
    }

    /// Returns the number of waiting frames.
    pub(super) fn held(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.fragments.len()).sum()
    }

    /// Takes a fragment; returns the packet if this fragment completes it.
    pub(super) fn offer(
        &mut self,
        frame: &[u8],
        packet: &PacketHeaders,
        now: u64,
    ) -> Option<ReassembledPacket> {
        self.forget_late(now);
        self.counters.fragments += 1;
        let vlans = packet.tags.map(|tag| tag.map(VlanTag::vid));
        let key = (packet.src, packet.dst, packet.ip_id, packet.proto, vlans);
        if !self.waiting.contains_key(&key) {
            if self.waiting.len() >= MAX_PACKETS {
                self.counters.crowded += 1;
                return None;
            }
            self.expiry_queue.insert((now, key));
            let waiting = PartialPacket { since_ns: now, fragments: BTreeMap::new(), total: None };
            self.waiting.insert(key, waiting);
        }
        self.order += 1;
        let waiting = self.waiting.get_mut(&key)?;
        match waiting.add(frame, packet, self.order) {
            Ok(AddOutcome::Waits) => None,
            Ok(AddOutcome::Repeated) => {
                self.counters.repeated += 1;
                None
            }
            Ok(AddOutcome::Last) => {
                let waiting = self.take(key)?;
                self.counters.whole += 1;
                self.counters.released += waiting.fragments.len() as u64;
                Some(waiting.assemble())
            }
            Err(()) => {
                let lost = waiting.fragments.len() as u64 + 1;
                self.take(key);
                self.counters.overlapping += lost;
                None
            }
        }
    }

    /// Time at which [`Self::forget_late`] must be called next, in ns; `None` if no fragment waits.
    pub(super) fn next_expiry_ns(&self) -> Option<u64> {
        self.expiry_queue.first().map(|(since, _)| since + WAIT_NS)
    }

    pub(super) fn forget_late(&mut self, now: u64) {
        while let Some(&(since, key)) =
            self.expiry_queue.first().filter(|(since, _)| since + WAIT_NS <= now)
        {
            self.expiry_queue.remove(&(since, key));
            let late = self.waiting.remove(&key).map_or(0, |waiting| waiting.fragments.len());
            self.counters.late += late as u64;
        }
    }

    fn take(&mut self, key: FragmentKey) -> Option<PartialPacket> {
        let waiting = self.waiting.remove(&key)?;
        self.expiry_queue.remove(&(waiting.since_ns, key));
        Some(waiting)
    }
}

/// The result of adding a fragment.
enum AddOutcome {
    /// Other fragments of the packet are missing.
    Waits,
    /// The packet is complete.
    Last,
    /// The fragment had already arrived.
    Repeated,
}

impl PartialPacket {
    /// Adds a fragment. Fails if the fragment is invalid, contradicts earlier fragments or exceeds
    /// a limit: in these cases the packet must be discarded.
    fn add(&mut self, frame: &[u8], packet: &PacketHeaders, order: u64) -> Result<AddOutcome, ()> {
        let start = u32::from(packet.ip_off & 0x1fff) * 8;
        let payload = packet.l4..packet.end;
        let len = payload.len() as u32;
        let end = start + len;
        let is_last = packet.ip_off & MORE_FRAGMENTS == 0;
        let cut = packet.ip_len as usize != packet.end - packet.l3;
        let odd = !is_last && !len.is_multiple_of(8);
        let is_full = self.fragments.len() >= MAX_FRAGMENTS;
        if cut || odd || len == 0 || is_full || self.min_packet_len(packet) > MAX_PACKET_LEN {
            return Err(());
        }
        let bytes = &frame[payload.clone()];
        let is_end = self.total == Some(end);
        if self.fragments.get(&start).is_some_and(|same| same.bytes() == bytes && is_last == is_end)
        {
            return Ok(AddOutcome::Repeated);
        }
        let before = self.fragments.range(..=start).next_back();
        let overlaps_before = before.is_some_and(|(at, fragment)| at + fragment.len() > start);
        let overlaps_after = self.fragments.range(start..end).next().is_some();
        let beyond = self.total.is_some_and(|total| end > total || is_last);
        if overlaps_before || overlaps_after || beyond {
            return Err(());
        }
        if is_last {
            let last_end =
                self.fragments.iter().next_back().map_or(0, |(at, last)| at + last.len());
            if last_end > end {
                return Err(());
            }
            self.total = Some(end);
        }
        let fragment = WaitingFragment { frame: frame.to_vec(), l3: packet.l3, payload, order };
        self.fragments.insert(start, fragment);
        let have: u32 = self.fragments.values().map(WaitingFragment::len).sum();
        Ok(if self.total == Some(have) { AddOutcome::Last } else { AddOutcome::Waits })
    }

    /// Returns the minimum length of the whole packet in bytes, as known from the fragments that
    /// wait and from the fragment `packet`. The header has the length that it has in the fragment
    /// at offset 0, or its minimum length while that fragment is missing.
    fn min_packet_len(&self, packet: &PacketHeaders) -> usize {
        const MIN_HEADER_LEN: usize = 20;
        let start = usize::from(packet.ip_off & 0x1fff) * 8;
        let header_len = match self.fragments.get(&0) {
            _ if start == 0 => packet.l4 - packet.l3,
            Some(first) => first.payload.start - first.l3,
            None => MIN_HEADER_LEN,
        };
        let last = self.fragments.iter().next_back();
        let known_end = last.map_or(0, |(at, fragment)| at + fragment.len());
        header_len + (start + packet.end - packet.l4).max(known_end as usize)
    }

    /// Joins the fragments to a packet: the link and IP header of the fragment at offset 0, and all
    /// payloads.
    fn assemble(self) -> ReassembledPacket {
        let mut frame = Vec::new();
        let mut fragments: Vec<_> = self.fragments.into_values().collect();
        for (index, fragment) in fragments.iter().enumerate() {
            let from = if index == 0 { 0 } else { fragment.payload.start };
            frame.extend_from_slice(&fragment.frame[from..fragment.payload.end]);
        }
        clear_fragment_fields(&mut frame, fragments[0].l3);
        fragments.sort_by_key(|fragment| fragment.order);
        // The caller has the frame of the fragment that arrived last, so this fragment is left out.
        fragments.pop();
        ReassembledPacket {
            frame,
            earlier: fragments.into_iter().map(|fragment| fragment.frame).collect(),
        }
    }
}

impl WaitingFragment {
    fn bytes(&self) -> &[u8] {
        &self.frame[self.payload.clone()]
    }

    fn len(&self) -> u32 {
        self.payload.len() as u32
    }
}

/// Turns the IP header at `l3` into that of a whole packet.
fn clear_fragment_fields(frame: &mut [u8], l3: usize) {
    let len = (frame.len() - l3) as u16;
    let Some(header) = frame.get_mut(l3..) else { return };
    let header_len = usize::from(header[0] & 0xf) * 4;
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header[6..8].fill(0);
    header[10..12].fill(0);
    let sum = slipring_wire::checksum::of(&header[..header_len]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
