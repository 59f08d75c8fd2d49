//! Describes the frames that a generator sends.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use slipring_wire::MacAddr;
use slipring_wire::frame::{
    BuildError, EchoKind, EchoSpec, Fill, FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair,
    TagSpec, TcpSpec,
};
use slipring_wire::view::IpVersion;

use crate::endpoints::Endpoints;
use crate::flows::EndpointOrder;
use crate::sizes::Sizes;

/// The frames to send. The default is the classic pkt-gen frame: 60 bytes of UDP from 10.0.0.1 to
/// 10.1.0.1, both with port 1234, to the broadcast MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficPattern {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address.
    pub dst_mac: MacAddr,
    /// VLAN tags, the outermost first. There are at most two.
    pub tags: Vec<TagSpec>,
    /// Addresses and ports from which the packets are sent.
    pub src: Endpoints,
    /// How the source of each packet is chosen.
    pub src_order: EndpointOrder,
    /// Addresses and ports to which the packets are sent. They must have the same IP version as
    /// `src`.
    pub dst: Endpoints,
    /// How the destination of each packet is chosen.
    pub dst_order: EndpointOrder,
    /// The header that follows the IP header.
    pub protocol: TrafficProtocol,
    /// Lengths of the frames, without the CRC.
    pub sizes: Sizes,
    /// Time to live (IPv4) or hop limit (IPv6).
    pub ttl: u8,
    /// Type of service (IPv4) or traffic class (IPv6).
    pub tos: u8,
    /// The contents of the payload after the stamp.
    pub fill: Fill,
}

/// The header after the IP header, and the meaning of ports in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficProtocol {
    /// Each frame contains a UDP datagram.
    Udp,
    /// TCP segments without a connection.
    Tcp {
        /// Flag bits as on the wire: FIN 0x01, SYN 0x02, RST 0x04, PSH 0x08, ACK 0x10.
        flags: u8,
    },
    /// ICMP echo requests. The source port becomes the identifier, and the destination port the
    /// sequence number.
    Echo,
}

/// Why a pattern was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The source and the destination have different IP versions.
    #[error("source and destination must both be IPv4 or both IPv6")]
    MixedFamilies,
    /// There are too many tags, or the shortest or the longest length is impossible for a frame
    /// with these headers.
    #[error(transparent)]
    Frame(#[from] BuildError),
}

impl Default for TrafficPattern {
    fn default() -> Self {
        let endpoint = |a, b, c, d| {
            let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            Endpoints::one(address, Endpoints::DEFAULT_PORT)
        };
        Self {
            src_mac: MacAddr::ZERO,
            dst_mac: MacAddr::BROADCAST,
            tags: Vec::new(),
            src: endpoint(10, 0, 0, 1),
            src_order: EndpointOrder::Sweep,
            dst: endpoint(10, 1, 0, 1),
            dst_order: EndpointOrder::Sweep,
            protocol: TrafficProtocol::Udp,
            sizes: Sizes::smallest(),
            ttl: 64,
            tos: 0,
            fill: Fill::Byte(0),
        }
    }
}

impl TrafficPattern {
    /// Checks the pattern in the same way as [`Generator::new`](crate::Generator::new).
    ///
    /// # Errors
    /// [`PatternError`] if parts of the pattern contradict each other.
    pub fn check(&self) -> Result<(), PatternError> {
        if self.src.family() != self.dst.family() {
            return Err(PatternError::MixedFamilies);
        }
        let spec = self.frame_spec();
        for len in [self.sizes.min(), self.sizes.max()] {
            spec.build(usize::from(len))?;
        }
        Ok(())
    }

    /// Returns the length of all headers in bytes. No shorter frame can be sent.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.frame_spec().header_len()
    }

    /// Returns the specification of all frames. The addresses and ports in it are only
    /// placeholders, because they differ from frame to frame.
    pub(crate) fn frame_spec(&self) -> FrameSpec {
        FrameSpec {
            src_mac: self.src_mac,
            dst_mac: self.dst_mac,
            tags: self.tags.clone(),
            ip: self.ip_spec(),
            l4: self.l4_spec(),
            fill: self.fill.clone(),
        }
    }

    fn ip_spec(&self) -> IpSpec {
        match self.src.family() {
            IpVersion::V4 => {
                IpSpec::V4(Ipv4Spec { ttl: self.ttl, tos: self.tos, ..Ipv4Spec::default() })
            }
            IpVersion::V6 => IpSpec::V6(Ipv6Spec {
                hop_limit: self.ttl,
                traffic_class: self.tos,
                ..Ipv6Spec::default()
            }),
        }
    }

    fn l4_spec(&self) -> L4Spec {
        match self.protocol {
            TrafficProtocol::Udp => L4Spec::Udp(PortPair::default()),
            TrafficProtocol::Tcp { flags } => L4Spec::Tcp(TcpSpec { flags, ..TcpSpec::default() }),
            TrafficProtocol::Echo => {
                L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 0, seq: 0 })
            }
        }
    }
}
