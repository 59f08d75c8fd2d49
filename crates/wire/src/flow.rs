//! The flow of a frame, and a hash that distributes flows over queues or servers.
//!
//! | frame | key |
//! |---|---|
//! | TCP, UDP, SCTP | addresses, protocol, ports, VLAN ids |
//! | other IP, IPv4 fragments | addresses, protocol, VLAN ids |
//! | IPv6 fragments | addresses, the number of the fragment header (44), VLAN ids |
//! | anything else, or broken | MAC addresses, type, VLAN ids |
//!
//! Only the first fragment of a packet has ports. So the ports of all fragments are ignored, and
//! all fragments have the same key. Fragments of an IPv6 packet may differ in the protocol that
//! their headers name (RFC 8200, section 4.5), so it is ignored, too. The hash is SipHash-1-3 over
//! the key. An attacker who does not know its two secret words cannot choose flows with equal
//! hashes. With the same two words, the hashes are the same on every machine.
//!
//! Not for connection state, and not for hashes that must be equal to those of a network card
//! (Toeplitz).

use siphasher::sip::SipHasher13;

use crate::assigned::{EtherType, IpProto};
use crate::field::array;
use crate::view::{FragmentPosition, Headers, Ip, IpVersion};

/// One end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowEndpoint {
    /// An IPv6, IPv4 or MAC address as a number. [`FlowKey::kind`] says which it is.
    pub address: u128,
    /// The transport port; 0 if the packet has none.
    pub port: u16,
}

/// What kind of addresses a [`FlowKey`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// MAC addresses. The value is the EtherType of the payload.
    Link(EtherType),
    /// IPv4 addresses. The value is the protocol above IP.
    V4(IpProto),
    /// IPv6 addresses. The value is the protocol above IP, or [`IpProto::FRAGMENT`] for fragments.
    V6(IpProto),
}

/// The fields that are the same in all frames of one flow, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// What kind of addresses `src` and `dst` have.
    pub kind: FlowKind,
    /// The VLAN ids, 12 bits each; the id of the inner tag is in the lowest bits. If there are no
    /// tags, the value is 0.
    pub vlans: u32,
    /// The source of the frame.
    pub src: FlowEndpoint,
    /// The destination of the frame.
    pub dst: FlowEndpoint,
}

impl FlowKey {
    /// Returns the flow of `frame`. Every frame has one. Frames with a malformed IP header are
    /// distinguished only by MAC addresses, type and VLAN ids; frames that end within the Ethernet
    /// header or its tags, only by their complete MAC addresses.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        match Headers::parse(frame).or_else(|_| Headers::link(frame)) {
            Ok(headers) => Self::from_headers(frame, &headers),
            Err(_) => Self::link(frame, EtherType(0), 0),
        }
    }

    /// Like [`Self::of`], but for a frame whose headers were already parsed.
    #[must_use]
    pub fn from_headers(frame: &[u8], headers: &Headers) -> Self {
        let vlans =
            headers.tags_found().iter().fold(0, |ids, tag| ids << 12 | u32::from(tag.vid()));
        let ip = headers.ip.and_then(|ip| Self::ip(frame, headers, ip, vlans));
        ip.unwrap_or_else(|| Self::link(frame, headers.ethertype, vlans))
    }

    /// Returns the key of the flow in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, ..self }
    }

    /// Returns a key that is the same for both directions of the flow.
    #[must_use]
    pub fn undirected(self) -> Self {
        if self.src <= self.dst { self } else { self.reversed() }
    }

    fn ip(frame: &[u8], headers: &Headers, ip: Ip, vlans: u32) -> Option<Self> {
        let l3 = usize::from(headers.l3);
        let (kind, src, dst) = match ip.version {
            IpVersion::V4 => {
                let address = |at| array(frame, at).map(u32::from_be_bytes).map(u128::from);
                (FlowKind::V4(ip.proto), address(l3 + 12)?, address(l3 + 16)?)
            }
            IpVersion::V6 => {
                let address = |at| array(frame, at).map(u128::from_be_bytes);
                let proto = match ip.fragment {
                    FragmentPosition::Whole => ip.proto,
                    _ => IpProto::FRAGMENT,
                };
                (FlowKind::V6(proto), address(l3 + 8)?, address(l3 + 24)?)
            }
        };
        let ports = match ip.fragment {
            FragmentPosition::Whole => headers.ports(frame),
            _ => None,
        };
        let (src_port, dst_port) = ports.unwrap_or_default();
        Some(Self {
            kind,
            vlans,
            src: FlowEndpoint { address: src, port: src_port },
            dst: FlowEndpoint { address: dst, port: dst_port },
        })
    }

    fn link(frame: &[u8], ethertype: EtherType, vlans: u32) -> Self {
        let mac = |at| {
            let bytes = array::<6>(frame, at).unwrap_or_default();
            let address = bytes.iter().fold(0, |mac, &byte| mac << 8 | u128::from(byte));
            FlowEndpoint { address, port: 0 }
        };
        Self { kind: FlowKind::Link(ethertype), vlans, src: mac(6), dst: mac(0) }
    }

    /// Returns the key as bytes. Each field is at a fixed offset.
    fn to_bytes(self) -> [u8; 44] {
        let (kind, detail) = match self.kind {
            FlowKind::Link(ethertype) => (0, ethertype.0),
            FlowKind::V4(proto) => (4, u16::from(proto.0)),
            FlowKind::V6(proto) => (6, u16::from(proto.0)),
        };
        let mut bytes = [0; 44];
        bytes[..16].copy_from_slice(&self.src.address.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.dst.address.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.src.port.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.dst.port.to_le_bytes());
        bytes[36..40].copy_from_slice(&(self.vlans | kind << 24).to_le_bytes());
        bytes[40..42].copy_from_slice(&detail.to_le_bytes());
        bytes
    }
}

/// Hashes flows. The hashes depend on two secret words.
///
/// ```
/// use slipring_wire::{FlowHasher, FlowKey, FrameSpec};
///
/// let frame = FrameSpec::default().build(60)?.bytes;
/// let key = FlowKey::of(&frame);
/// let hasher = FlowHasher::new([1, 2]);
/// assert_ne!(hasher.hash(&key), hasher.hash(&key.reversed()));
/// let symmetric = hasher.symmetric();
/// assert_eq!(symmetric.hash(&key), symmetric.hash(&key.reversed()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlowHasher {
    sip: SipHasher13,
    is_symmetric: bool,
}

impl FlowHasher {
    /// Makes a hasher that distinguishes the two directions of a flow.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Self {
        Self { sip: SipHasher13::new_with_keys(secret[0], secret[1]), is_symmetric: false }
    }

    /// Like [`Self::new`], but both directions of a flow have the same hash.
    #[must_use]
    pub const fn symmetric(self) -> Self {
        Self { is_symmetric: true, ..self }
    }

    /// Returns the hash of a flow.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        let key = if self.is_symmetric { key.undirected() } else { *key };
        self.sip.hash(&key.to_bytes())
    }

    /// Returns the hash of the flow of `frame`.
    #[must_use]
    pub fn hash_frame(&self, frame: &[u8]) -> u64 {
        self.hash(&FlowKey::of(frame))
    }
}

#[cfg(test)]
mod tests;
