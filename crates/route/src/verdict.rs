//! The router's decision about a frame.

use core::net::IpAddr;
use core::ops::Range;

use slipring_fib::FibPortIndex;

use crate::cause::RouteDropCause;
use crate::packet::{PacketTraits, RoutedPacket};
use crate::punt::PuntClass;

/// The router's decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteVerdict {
    /// The frame was rewritten and leaves by a port.
    Forward(ForwardedFrame),
    /// The packet was fragmented; the fragments are in the engine's output queue.
    Fragmented,
    /// The packet waits, unchanged, until the MAC address of its next hop is known.
    Hold(HeldPacket),
    /// The program keeps a copy of the frame, and processes it again later.
    Delayed,
    /// The kernel handles the frame, which is unchanged.
    Kernel(PuntClass),
    /// The packet is dropped, and its sender gets no error.
    Drop(RouteDropCause),
    /// The packet is dropped; an ICMP error about it is in the engine's output queue.
    Answered(RouteDropCause),
}

/// A rewritten frame: [`Self::prepend`], followed by the bytes in [`Self::range`].
///
/// ```text
///   in:   | MAC addresses, type | IP packet | trailer |
///         :                     :           :
///   out:  | MAC addresses, type | IP packet |                range = 0..end
///            | shorter header   | IP packet |                range = start..end
///   prepend | longer header     | IP packet |                range = 0..end, prepend: 4 or 8 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedFrame {
    /// The egress port.
    pub port: FibPortIndex,
    pub(crate) start: u16,
    pub(crate) end: u32,
    pub(crate) prepend: LinkPrefix,
}

impl ForwardedFrame {
    /// The bytes of the given frame that are sent.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The bytes to send before [`Self::range`]: the start of a link header that is longer than
    /// that of the given frame.
    #[must_use]
    pub fn prepend(&self) -> &[u8] {
        &self.prepend.bytes[..usize::from(self.prepend.len)]
    }

    /// Length of the frame as sent, in bytes, without padding to Ethernet's minimum of 60.
    #[must_use]
    pub const fn frame_len(&self) -> u32 {
        self.end - self.start as u32 + self.prepend.len as u32
    }
}

/// The first bytes of a link header for which the frame has no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkPrefix {
    pub(crate) bytes: [u8; 8],
    pub(crate) len: u8,
}

/// A packet whose next hop has no MAC address yet. The program keeps it together with a copy of the
/// frame, and passes both to `RouteEngine::release` or `unanswered`, or drops it by `discard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    /// The egress port.
    pub port: FibPortIndex,
    /// The neighbour to resolve.
    pub next_hop: IpAddr,
    pub(crate) packet: RoutedPacket,
}

impl HeldPacket {
    /// Length of the frame without a trailer. The program must keep this many bytes.
    #[must_use]
    pub const fn frame_len(&self) -> usize {
        self.packet.end as usize
    }

    /// The port at which the packet arrived. For an ICMP error of the router, it is the ingress
    /// port of the packet that caused the error.
    #[must_use]
    pub const fn ingress(&self) -> FibPortIndex {
        FibPortIndex(self.packet.port)
    }

    /// Returns whether the router itself created the packet, such as an ICMP error. Such a packet
    /// did not arrive, so programs do not count it as forwarded from [`Self::ingress`].
    #[must_use]
    pub const fn is_own(&self) -> bool {
        self.packet.traits.has(PacketTraits::OWN)
    }
}
