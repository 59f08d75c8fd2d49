//! Counters of a queue: written by the one thread that syncs the queue, read by any thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a frame was not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropCause {
    /// The rx ring was full when the frame arrived.
    RxRingFull,
    /// There was no buffer for the received frame.
    RxNoBuffer,
    /// The received frame did not fit into one buffer, or into the longest possible chain of
    /// buffers; or it was a super-frame that could not be segmented.
    RxTooLong,
    /// The kernel dropped the frame before our socket received it.
    RxKernel,
    /// The received bytes were no frame, because a record was malformed or the frame was too short.
    RxMalformed,
    /// A tx slot named no usable buffer or one that is already being sent, had length 0, or ended
    /// beyond its buffer.
    TxBadSlot,
    /// The frame was longer than the port can send.
    TxTooLong,
    /// The kernel or device refused the frame.
    TxRefused,
    /// The last slot of a packet was missing: the last released slot had `NS_MOREFRAG`.
    TxIncomplete,
    /// The port cannot send at all.
    TxUnsupported,
    /// The other end does not exist: no guest is connected.
    TxNoPeer,
    /// The program has ended, or the interface was removed, before the kernel or the device has
    /// taken the frame.
    TxUnsent,
    /// Fault injection dropped the frame on purpose.
    Fault,
    /// Route mode: the frame is neither IPv4 nor IPv6, or it has a VLAN tag.
    RouteNotIp,
    /// Route mode: the frame is addressed to another hardware address.
    RouteOtherHost,
    /// Route mode: the frame is a broadcast or multicast frame.
    RouteBroadcast,
    /// Route mode: the packet is addressed to the router itself, which answers only pings.
    RouteOwn,
    /// Route mode: the destination is in the subnet from which the frame came.
    RouteSameSubnet,
    /// Route mode: the destination is link-local.
    RouteLinkLocal,
    /// Route mode: the destination is the loopback or the unspecified address.
    RouteMartian,
    /// Route mode: there is no subnet or gateway for the destination.
    RouteNoWay,
    /// Route mode: the packet's TTL or hop limit has expired.
    RouteExpired,
    /// Route mode: the next hop does not answer ARP or neighbour discovery, or too many frames
    /// already wait for next hops.
    RouteUnresolved,
}

impl DropCause {
    /// All causes, in the order in which [`QueueCounters`] counts them.
    pub const ALL: [Self; 23] = [
        Self::RxRingFull,
        Self::RxNoBuffer,
        Self::RxTooLong,
        Self::RxKernel,
        Self::RxMalformed,
        Self::TxBadSlot,
        Self::TxTooLong,
        Self::TxRefused,
        Self::TxIncomplete,
        Self::TxUnsupported,
        Self::TxNoPeer,
        Self::TxUnsent,
        Self::Fault,
        Self::RouteNotIp,
        Self::RouteOtherHost,
        Self::RouteBroadcast,
        Self::RouteOwn,
        Self::RouteSameSubnet,
        Self::RouteLinkLocal,
        Self::RouteMartian,
        Self::RouteNoWay,
        Self::RouteExpired,
        Self::RouteUnresolved,
    ];

    /// Returns the name of the cause in reports. Programs read these names, so they do not change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RxRingFull => "rx_ring_full",
            Self::RxNoBuffer => "rx_no_buffer",
            Self::RxTooLong => "rx_too_long",
            Self::RxKernel => "rx_kernel",
            Self::RxMalformed => "rx_malformed",
            Self::TxBadSlot => "tx_bad_slot",
            Self::TxTooLong => "tx_too_long",
            Self::TxRefused => "tx_refused",
            Self::TxIncomplete => "tx_incomplete",
            Self::TxUnsupported => "tx_unsupported",
            Self::TxNoPeer => "tx_no_peer",
            Self::TxUnsent => "tx_unsent",
            Self::Fault => "fault",
            Self::RouteNotIp => "route_not_ip",
            Self::RouteOtherHost => "route_other_host",
            Self::RouteBroadcast => "route_broadcast",
            Self::RouteOwn => "route_own",
            Self::RouteSameSubnet => "route_same_subnet",
            Self::RouteLinkLocal => "route_link_local",
            Self::RouteMartian => "route_martian",
            Self::RouteNoWay => "route_no_way",
            Self::RouteExpired => "route_expired",
            Self::RouteUnresolved => "route_unresolved",
        }
    }
}

/// Packets and their bytes, without CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficCounts {
    /// Number of whole packets.
    pub packets: u64,
    /// Total number of bytes in the packets.
    pub bytes: u64,
}

impl std::ops::AddAssign for TrafficCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// A queue's counters. Only one thread writes them, so an addition is a load and a store.
#[derive(Debug, Default)]
pub struct QueueCounters {
    rx: [AtomicU64; 2],
    tx: [AtomicU64; 2],
    in_flight: AtomicU64,
    strays: AtomicU64,
    uncaptured: AtomicU64,
    drops: [AtomicU64; DropCause::ALL.len()],
}

impl QueueCounters {
    /// Counts packets that the program can now read.
    #[inline(always)]
    pub fn received(&self, traffic: TrafficCounts) {
        add(&self.rx[0], traffic.packets);
        add(&self.rx[1], traffic.bytes);
    }

    /// Counts packets that were sent completely: the kernel, device or other end has taken them.
    #[inline(always)]
    pub fn sent(&self, traffic: TrafficCounts) {
        add(&self.tx[0], traffic.packets);
        add(&self.tx[1], traffic.bytes);
    }

    /// Counts packets that were lost for this cause.
    #[inline(always)]
    pub fn dropped(&self, cause: DropCause, packets: u64) {
        add(&self.drops[cause as usize], packets);
    }

    /// Sets the total number of packets lost for a cause; for causes that the kernel counts.
    pub fn set_dropped(&self, cause: DropCause, packets: u64) {
        self.drops[cause as usize].store(packets, Ordering::Relaxed);
    }

    /// Sets the number of packets that wait until the kernel or the device has sent them.
    #[inline(always)]
    pub fn set_in_flight(&self, packets: u64) {
        self.in_flight.store(packets, Ordering::Relaxed);
    }

    /// Counts one completion of a buffer that was not in flight: a late or repeated completion, or
    /// a buffer that does not belong to the port.
    #[cold]
    pub fn count_stray(&self) {
        add(&self.strays, 1);
    }

    /// Sets the number of packets that passed but could not be written to the requested capture.
    pub fn set_uncaptured(&self, packets: u64) {
        self.uncaptured.store(packets, Ordering::Relaxed);
    }

    /// Returns a copy of all counters.
    #[must_use]
    pub fn snapshot(&self) -> QueueSnapshot {
        let traffic = |side: &[AtomicU64; 2]| TrafficCounts {
            packets: side[0].load(Ordering::Relaxed),
            bytes: side[1].load(Ordering::Relaxed),
        };
        QueueSnapshot {
            rx: traffic(&self.rx),
            tx: traffic(&self.tx),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            strays: self.strays.load(Ordering::Relaxed),
            uncaptured: self.uncaptured.load(Ordering::Relaxed),
            drops: std::array::from_fn(|i| self.drops[i].load(Ordering::Relaxed)),
        }
    }
}

#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Values of [`QueueCounters`]. Each was read once; the other thread may have counted in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSnapshot {
    /// Packets that the program could read.
    pub rx: TrafficCounts,
    /// Packets that were sent.
    pub tx: TrafficCounts,
    /// Packets that wait until the kernel or the device has sent them.
    pub in_flight: u64,
    /// Completions of buffers that were not in flight. If this is not 0, the kernel, the device or
    /// a program that borrowed the queue misbehaved.
    pub strays: u64,
    /// Packets that passed but could not be written to the requested capture, for example because
    /// its disk was full.
    pub uncaptured: u64,
    drops: [u64; DropCause::ALL.len()],
}

impl QueueSnapshot {
    /// Number of packets lost for the reason `cause`.
    #[must_use]
    pub fn dropped(&self, cause: DropCause) -> u64 {
        self.drops[cause as usize]
    }

    /// Returns the causes whose count is above 0, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropCause, u64)> + '_ {
        DropCause::ALL.into_iter().zip(self.drops).filter(|&(_, count)| count > 0)
    }
}

impl std::ops::AddAssign for QueueSnapshot {
    fn add_assign(&mut self, other: Self) {
        self.rx += other.rx;
        self.tx += other.tx;
        self.in_flight += other.in_flight;
        self.strays += other.strays;
        self.uncaptured += other.uncaptured;
        for (sum, count) in self.drops.iter_mut().zip(other.drops) {
            *sum += count;
        }
    }
}
