//! Counters. They balance: every packet is counted once when it appears, and once by its outcome.

use alloc::vec::Vec;

use slipring_fib::FibPortIndex;

use crate::cause::RouteDropCause;
use crate::punt::{PuntClass, PuntReason};
use crate::verdict::{ForwardedFrame, RouteVerdict};

/// Counters of a port. Drops and packets for the kernel count at the ingress port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePortCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes of the received frames.
    pub rx_bytes: u64,
    /// Frames sent, fragments and ICMP errors included.
    pub tx_packets: u64,
    /// Bytes of the sent frames.
    pub tx_bytes: u64,
    /// Packets for the kernel, by [`PuntClass`].
    pub kernel: [u64; PuntClass::COUNT],
    /// Packets for the kernel, by [`PuntReason`].
    pub reasons: [u64; PuntReason::COUNT],
    /// Packets dropped, by [`RouteDropCause`].
    pub dropped: [u64; RouteDropCause::COUNT],
    /// Packets that exceeded the rate of the port's policer and therefore got another DSCP.
    pub marked: u64,
}

impl Default for RoutePortCounters {
    fn default() -> Self {
        Self {
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            kernel: [0; PuntClass::COUNT],
            reasons: [0; PuntReason::COUNT],
            dropped: [0; RouteDropCause::COUNT],
            marked: 0,
        }
    }
}

/// Counters of an engine.
///
/// # Invariant
/// Between two batches, the number of packets received and generated is equal to the number of
/// packets forwarded, held, delayed, dropped and given to the kernel ([`Self::is_balanced`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// Packets forwarded, including fragmented ones and sent ICMP errors.
    pub forwarded: u64,
    /// Packets that wait for a neighbour now.
    pub held: u64,
    /// Packets of which the program keeps copies now, to process them again later.
    pub delayed: u64,
    /// Packets that the router itself created: ICMP errors, redirects and others.
    pub generated: u64,
    /// How many of the packets in `generated` are redirects that were not dropped.
    pub redirects: u64,
    /// ICMP errors that were not sent because of the rate limit. Errors that were also suppressed
    /// for another reason do not count.
    pub suppressed: u64,
    /// Packets that were fragmented; they count as forwarded.
    pub fragmented: u64,
    /// Fragments of the fragmented packets.
    pub fragments: u64,
    /// Counters of each port, by [`FibPortIndex`].
    pub ports: Vec<RoutePortCounters>,
    /// Counters of frames from ports that do not exist.
    pub unknown_port: RoutePortCounters,
}

impl RouteCounters {
    /// Returns the counters of a port.
    #[inline(always)]
    pub(crate) fn port(&mut self, port: u16) -> &mut RoutePortCounters {
        self.ports.get_mut(usize::from(port)).unwrap_or(&mut self.unknown_port)
    }

    /// Makes room for the counters of `ports` ports; counters that exist stay as they are.
    pub(crate) fn grow(&mut self, ports: usize) {
        if ports > self.ports.len() {
            self.ports.resize_with(ports, RoutePortCounters::default);
        }
    }

    /// Counts the outcome of a packet that arrived at `port`.
    #[inline]
    pub(crate) fn count(&mut self, port: u16, verdict: &RouteVerdict) {
        match *verdict {
            RouteVerdict::Forward(frame) => self.count_sent(frame.port, frame.frame_len()),
            RouteVerdict::Fragmented => {
                self.forwarded += 1;
                self.fragmented += 1;
            }
            RouteVerdict::Hold(_) => self.held += 1,
            RouteVerdict::Delayed => self.delayed += 1,
            RouteVerdict::Kernel(class) => self.port(port).kernel[class as usize] += 1,
            RouteVerdict::Drop(cause) | RouteVerdict::Answered(cause) => {
                self.port(port).dropped[cause as usize] += 1;
            }
        }
    }

    /// Reverts the count of a packet that was to be forwarded or held.
    pub(crate) fn uncount(&mut self, verdict: &RouteVerdict) {
        match *verdict {
            RouteVerdict::Forward(frame) => {
                self.forwarded -= 1;
                let port = self.port(frame.port.0);
                port.tx_packets -= 1;
                port.tx_bytes -= u64::from(frame.frame_len());
            }
            RouteVerdict::Hold(_) => self.held -= 1,
            _ => {}
        }
    }

    /// Counts a forwarded packet of `len` bytes.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, port: FibPortIndex, len: u32) {
        self.forwarded += 1;
        self.count_frame(port, len);
    }

    /// Counts a sent frame of `len` bytes, which may be one of several frames of a packet.
    #[inline(always)]
    pub(crate) fn count_frame(&mut self, port: FibPortIndex, len: u32) {
        let counters = self.port(port.0);
        counters.tx_packets += 1;
        counters.tx_bytes += u64::from(len);
    }

    /// Counts a packet as dropped that was counted as forwarded before.
    pub(crate) fn count_unsent(&mut self, ingress: FibPortIndex, frame: &ForwardedFrame) {
        self.forwarded -= 1;
        let egress = self.port(frame.port.0);
        egress.tx_packets -= 1;
        egress.tx_bytes -= u64::from(frame.frame_len());
        self.port(ingress.0).dropped[RouteDropCause::TransmitQueueFull as usize] += 1;
    }

    fn total(&self, count: impl Fn(&RoutePortCounters) -> u64) -> u64 {
        self.ports.iter().chain([&self.unknown_port]).map(count).sum()
    }

    /// Packets received at all ports.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.total(|port| port.rx_packets)
    }

    /// Packets dropped for this cause at all ports.
    #[must_use]
    pub fn dropped(&self, cause: RouteDropCause) -> u64 {
        self.total(|port| port.dropped[cause as usize])
    }

    /// Packets dropped for any cause at all ports.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.total(|port| port.dropped.iter().sum())
    }

    /// Packets of this class, from all ports, that the kernel got.
    #[must_use]
    pub fn kernel(&self, class: PuntClass) -> u64 {
        self.total(|port| port.kernel[class as usize])
    }

    /// Packets of all classes, from all ports, that the kernel got.
    #[must_use]
    pub fn all_kernel(&self) -> u64 {
        self.total(|port| port.kernel.iter().sum())
    }

    /// Packets from all ports that the kernel got for this reason.
    #[must_use]
    pub fn punted(&self, reason: PuntReason) -> u64 {
        self.total(|port| port.reasons[reason as usize])
    }

    /// Returns whether every packet was counted once by its outcome. Only valid between two
    /// batches.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let appeared = self.received() + self.generated;
        let waiting = self.held + self.delayed;
        appeared == self.forwarded + waiting + self.all_dropped() + self.all_kernel()
    }
}
