//! Frames that wait until the kernel has resolved their neighbour.
//!
//! The kernel keeps the neighbours. A frame to a neighbour whose MAC address is unknown waits here;
//! the kernel is asked once, and the next forwarding tables that the worker gets contain its
//! answer. If the kernel reports that the neighbour does not answer, the sender gets an ICMP error,
//! as from the kernel.

use std::collections::VecDeque;
use std::net::IpAddr;

use slipring_fib::{FibPortIndex, ForwardingTables, NextHopAddress};
use slipring_neighbour::{
    HoldDropCause, NeighbourCache, NeighbourClaim, NeighbourEvent, NeighbourLimits, NeighbourState,
    NeighbourTimers,
};
use slipring_port::Nanos;
use slipring_route::HeldPacket;
use slipring_wire::mac::MacAddr;

/// The end of a frame's wait.
pub(super) enum HeldEvent {
    /// The neighbour of the packet has this MAC address.
    Released { held: HeldPacket, frame: Vec<u8>, mac: MacAddr },
    /// The neighbour of the packet does not answer.
    Unanswered { held: HeldPacket, frame: Vec<u8> },
    /// The packet was dropped to make space for another packet.
    Displaced { held: HeldPacket },
}

/// Time after which a neighbour is given up if the kernel reports nothing about it.
const ANSWER_TIMEOUT_NS: Nanos = 5_000_000_000;

type WaitingFrame = (HeldPacket, Vec<u8>);

/// The waiting frames of a worker, by egress port.
pub(super) struct HeldFrames {
    /// Limits of each port.
    limits: NeighbourLimits,
    caches: Vec<NeighbourCache<WaitingFrame>>,
    requests: Vec<(FibPortIndex, IpAddr)>,
    events: VecDeque<HeldEvent>,
}

impl HeldFrames {
    pub(super) const fn new(limits: NeighbourLimits) -> Self {
        Self { limits, caches: Vec::new(), requests: Vec::new(), events: VecDeque::new() }
    }

    /// Stores a frame.
    ///
    /// # Errors
    /// The packet, if there is no space for it.
    pub(super) fn hold(
        &mut self,
        held: HeldPacket,
        frame: Vec<u8>,
        now_ns: Nanos,
    ) -> Result<(), HeldPacket> {
        let port = usize::from(held.port.0);
        while self.caches.len() <= port {
            let timers = NeighbourTimers {
                retransmit_ns: ANSWER_TIMEOUT_NS,
                max_multicast_solicits: 1,
                ..NeighbourTimers::default()
            };
            self.caches.push(NeighbourCache::new(timers, self.limits, 0));
        }
        let len = frame.len() as u32;
        let stored = self.caches[port].hold(held.next_hop, (held, frame), len, now_ns);
        self.collect(port);
        stored.map_err(|((held, _), _)| held)
    }

    /// Releases the frames whose neighbours have MAC addresses in these tables.
    pub(super) fn resolve(&mut self, tables: &ForwardingTables, now_ns: Nanos) {
        if self.caches.iter().all(NeighbourCache::is_empty) {
            return;
        }
        for adjacency in tables.adjacencies.iter() {
            let (NextHopAddress::Via(address), Some(mac)) = (adjacency.next_hop, adjacency.mac)
            else {
                continue;
            };
            let port = usize::from(adjacency.port.0);
            let Some(cache) = self.caches.get_mut(port) else { continue };
            let entry = cache.get(address, now_ns);
            if entry.is_some_and(|entry| entry.state == NeighbourState::Incomplete) {
                cache.learn(NeighbourClaim::answer(address, mac), now_ns);
            }
            // The tables contain the neighbour now, so it is no longer needed here.
            cache.remove(address);
            self.collect(port);
        }
    }

    /// Gives up a neighbour on the link of a port.
    pub(super) fn fail(&mut self, port: usize, neighbour: IpAddr) {
        if let Some(cache) = self.caches.get_mut(port) {
            cache.fail(neighbour);
            self.collect(port);
        }
    }

    /// Handles the timers that are due.
    pub(super) fn tick(&mut self, now_ns: Nanos) {
        for port in 0..self.caches.len() {
            if self.caches[port].next_ns().is_some_and(|due| due <= now_ns) {
                self.caches[port].tick(now_ns);
                self.collect(port);
            }
        }
    }

    /// Returns when [`Self::tick`] is due next; `None` if no timer runs.
    pub(super) fn next_ns(&self) -> Option<Nanos> {
        self.caches.iter().filter_map(NeighbourCache::next_ns).min()
    }

    /// Returns the next frame that no longer waits.
    pub(super) fn poll(&mut self) -> Option<HeldEvent> {
        self.events.pop_front()
    }

    /// Returns the neighbours that the kernel must be asked for.
    pub(super) fn take_requests(&mut self) -> Vec<(FibPortIndex, IpAddr)> {
        std::mem::take(&mut self.requests)
    }

    fn collect(&mut self, port: usize) {
        while let Some(event) = self.caches[port].poll_event() {
            match event {
                NeighbourEvent::Solicit { target, .. } => {
                    self.requests.push((FibPortIndex(port as u16), target));
                }
                NeighbourEvent::Released { mac, frame: (held, frame), .. } => {
                    self.events.push_back(HeldEvent::Released { held, frame, mac });
                }
                NeighbourEvent::Dropped { frame: (held, frame), cause, .. } => {
                    let is_silent = cause == HoldDropCause::Unanswered;
                    self.events.push_back(match is_silent {
                        true => HeldEvent::Unanswered { held, frame },
                        false => HeldEvent::Displaced { held },
                    });
                }
                NeighbourEvent::Changed { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_fib::Adjacency;

    use super::*;
    use crate::subinterface::link_tests::{engine, host, packet};

    /// A worker gets a snapshot with a new neighbour before the entries of the IPv4 table that lead
    /// to it are written. A packet that is held in between is released when they are written.
    #[test]
    fn a_packet_that_is_held_for_a_neighbour_of_the_same_tables_is_released_with_their_cells() {
        let mut engine = engine();
        let next_hop = NextHopAddress::Via(host(0).into());
        let mac = MacAddr([2, 0, 0, 0, 7, 7]);
        let neighbour = Adjacency { port: FibPortIndex(1), next_hop, mac: Some(mac) };
        let tables = ForwardingTables {
            adjacencies: [neighbour].into(),
            ..ForwardingTables::clone(engine.tables())
        };
        let mut waiting = HeldFrames::new(NeighbourLimits::default());
        waiting.resolve(&tables, 0);
        let waits = packet(&mut engine, host(0), 1);
        assert!(waiting.hold(waits.held, waits.frame, 0).is_ok());
        assert!(waiting.poll().is_none());
        waiting.resolve(&tables, 0);
        assert!(matches!(waiting.poll(), Some(HeldEvent::Released { mac: to, .. }) if to == mac));
    }
}
