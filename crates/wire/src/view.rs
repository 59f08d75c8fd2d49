//! Finds the offsets of a frame's headers in one pass over the link and IP headers. It is fast
//! enough to be called for every frame.
//!
//! ```text
//!   dst src | tag tag | type | IPv4 or IPv6 | extensions | UDP, TCP, … | padding
//!                            ^ l3                        ^ l4          ^ end (by the header)
//! ```
//!
//! # Invariants of a [`Headers`] for the frame it was parsed from
//! 1. `l3 <= frame.len()`, and `l4 <= frame.len()` if there is an IP header.
//! 2. `l3 < l4 <= end`. `end` is the end of the packet according to its header; a truncated frame
//!    is shorter.
//!
//! Not for: the contents of transport headers (except [`Headers::ports`]) or tunnels.

use core::fmt;

use crate::assigned::{EtherType, IpProto, VlanTag};
use crate::field::{array, be16};

/// Maximum number of VLAN tags that are parsed.
pub const MAX_TAGS: usize = 2;
/// Maximum number of IPv6 extension headers that are parsed. It limits the time that a malicious
/// packet can take.
const MAX_EXTENSIONS: u32 = 8;
/// Length in bytes of an Ethernet header: destination MAC, source MAC and type.
const ETHERNET_LEN: usize = 14;
const TAG_LEN: usize = 4;
const IPV4_MIN_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// The offsets and numbers that forwarding and classification need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The type of the payload, which is the EtherType after the VLAN tags (at most [`MAX_TAGS`]).
    pub ethertype: EtherType,
    /// Offset of the first byte after the Ethernet header and its tags.
    pub l3: u16,
    tag_count: u8,
    tags: [VlanTag; MAX_TAGS],
    /// What is in the IP headers; `None` if the frame is neither IPv4 nor IPv6.
    pub ip: Option<Ip>,
}

/// The contents of a frame's IP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The version of the IP header.
    pub version: IpVersion,
    /// The protocol at `l4`. If the frame is a later fragment, `l4` is in the middle of the
    /// protocol's data.
    pub proto: IpProto,
    /// Whether the packet is a fragment, and which one.
    pub fragment: FragmentPosition,
    /// Offset of the first byte after the IP header, its options and its extension headers.
    pub l4: u16,
    /// Offset of the end of the IP packet according to its header. Ethernet padding may follow it.
    pub end: u32,
    /// Whether an IPv6 routing header has segments left. If so, transport checksums do not cover
    /// the destination in the IPv6 header but one in the routing header.
    pub rerouted: bool,
}

/// The version of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IP version 4, with a header of 20 to 60 bytes.
    V4,
    /// IP version 6, with a header of 40 bytes and optional extension headers.
    V6,
}

/// Which part of an IP packet is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentPosition {
    /// The whole packet, which is not fragmented.
    Whole,
    /// The first fragment, which contains the transport header.
    First,
    /// A fragment other than the first. It has no transport header.
    Later,
}

/// The kind of header at which parsing has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderLayer {
    /// The Ethernet header: addresses and type.
    Ethernet,
    /// A VLAN tag.
    Vlan,
    /// The IPv4 header with its options.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
}

impl fmt::Display for HeaderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
        })
    }
}

/// Why the headers of a frame are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The frame ends within a header.
    #[error("the frame ends at byte {have}, its {layer} header at byte {need}")]
    Truncated {
        /// The header that is truncated.
        layer: HeaderLayer,
        /// Minimum length of a frame that contains this header, in bytes.
        need: u32,
        /// Length of the frame in bytes.
        have: u32,
    },
    /// The version in the IP header does not match the EtherType.
    #[error("the {layer} header says version {found}")]
    Version {
        /// The layer of the IP header.
        layer: HeaderLayer,
        /// The version in the IP header.
        found: u8,
    },
    /// An IPv4 header gives its length as less than 20 bytes.
    #[error("an IPv4 header of {found} bytes is shorter than 20")]
    HeaderLength {
        /// The length that the header gives, in bytes.
        found: u8,
    },
    /// An IP header gives a length for the whole packet that is less than the length of the
    /// headers.
    #[error("an {layer} packet of {found} bytes ends inside its {headers} bytes of headers")]
    TotalLength {
        /// The layer of the IP header.
        layer: HeaderLayer,
        /// The length of the packet that the header gives, in bytes.
        found: u32,
        /// The length of the headers, in bytes.
        headers: u32,
    },
    /// There are more than eight IPv6 extension headers. No legitimate packet has as many.
    #[error("more than {MAX_EXTENSIONS} IPv6 extension headers")]
    TooManyExtensions,
}

impl Headers {
    /// Parses the headers of `frame`.
    ///
    /// # Errors
    /// [`ViewError`] if the frame ends within a link or IP header, or if such a header is
    /// inconsistent. It is not an error if the frame is neither IPv4 nor IPv6: `ip` is `None` then.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, ViewError> {
        match Self::plain_ipv4(frame) {
            Some(headers) => Ok(headers),
            None => Self::parse_any(frame),
        }
    }

    /// Parses the most common kind of frame: IPv4 without tags and options, which has 34 bytes of
    /// headers at fixed offsets. If this returns `None`, the caller must use [`Self::parse`] or
    /// [`Self::parse_any`].
    #[inline(always)]
    pub(crate) fn plain_ipv4(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<{ ETHERNET_LEN + IPV4_MIN_LEN }>()?;
        let total_len = u16::from_be_bytes([head[16], head[17]]);
        if head[12..15] != [0x08, 0x00, 0x45] || usize::from(total_len) < IPV4_MIN_LEN {
            return None;
        }
        Some(Self {
            ip: Some(Ip {
                version: IpVersion::V4,
                proto: IpProto(head[23]),
                fragment: ipv4_fragment(u16::from_be_bytes([head[20], head[21]])),
                l4: (ETHERNET_LEN + IPV4_MIN_LEN) as u16,
                end: ETHERNET_LEN as u32 + u32::from(total_len),
                rerouted: false,
            }),
            ..Self::untagged(EtherType::IPV4)
        })
    }

    #[inline(never)]
    fn parse_any(frame: &[u8]) -> Result<Self, ViewError> {
        let mut headers = Self::link(frame)?;
        let l3 = usize::from(headers.l3);
        headers.ip = match headers.ethertype {
            EtherType::IPV4 => Some(ipv4(frame, l3)?),
            EtherType::IPV6 => Some(ipv6(frame, l3)?),
            _ => None,
        };
        Ok(headers)
    }

    /// Parses only the Ethernet header and its tags. `ip` is `None`.
    ///
    /// # Errors
    /// [`ViewError::Truncated`] if the frame ends within the Ethernet header or its tags.
    #[inline]
    pub fn link(frame: &[u8]) -> Result<Self, ViewError> {
        let ethertype = be16(frame, ETHERNET_LEN - 2)
            .ok_or_else(|| truncated(frame, HeaderLayer::Ethernet, ETHERNET_LEN))?;
        let mut headers = Self::untagged(EtherType(ethertype));
        if headers.ethertype.is_vlan() {
            headers.tags(frame)?;
        }
        Ok(headers)
    }

    #[inline(always)]
    const fn untagged(ethertype: EtherType) -> Self {
        Self {
            ethertype,
            l3: ETHERNET_LEN as u16,
            tag_count: 0,
            tags: [VlanTag(0); MAX_TAGS],
            ip: None,
        }
    }

    fn tags(&mut self, frame: &[u8]) -> Result<(), ViewError> {
        while self.ethertype.is_vlan() && usize::from(self.tag_count) < MAX_TAGS {
            let at = usize::from(self.l3);
            let [a, b, c, d] = array(frame, at)
                .ok_or_else(|| truncated(frame, HeaderLayer::Vlan, at + TAG_LEN))?;
            self.tags[usize::from(self.tag_count)] = VlanTag(u16::from_be_bytes([a, b]));
            self.tag_count += 1;
            self.ethertype = EtherType(u16::from_be_bytes([c, d]));
            self.l3 += TAG_LEN as u16;
        }
        Ok(())
    }

    /// Returns the VLAN tags, the outermost first; at most [`MAX_TAGS`].
    #[inline]
    #[must_use]
    pub fn tags_found(&self) -> &[VlanTag] {
        &self.tags[..usize::from(self.tag_count)]
    }

    /// Returns the source and destination ports of a UDP, TCP or SCTP packet; `None` if the frame
    /// does not contain them.
    #[inline]
    #[must_use]
    pub fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        let ip = self.ip?;
        let has_ports = matches!(ip.proto, IpProto::UDP | IpProto::TCP | IpProto::SCTP);
        if !has_ports || ip.fragment == FragmentPosition::Later || ip.end < u32::from(ip.l4) + 4 {
            return None;
        }
        let [a, b, c, d] = array(frame, usize::from(ip.l4))?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
}

impl Ip {
    /// Returns the number of bytes from `l4` to the end of the packet, according to the IP header.
    #[inline]
    #[must_use]
    pub fn l4_len(&self) -> u32 {
        self.end - u32::from(self.l4)
    }

    /// Returns the transport header and the payload, without Ethernet padding; `None` if the frame
    /// does not contain all of them.
    #[inline]
    #[must_use]
    pub fn l4_bytes<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        frame.get(usize::from(self.l4)..self.end as usize)
    }
}

#[inline]
fn ipv4(frame: &[u8], l3: usize) -> Result<Ip, ViewError> {
    let cut = |need| truncated(frame, HeaderLayer::Ipv4, need);
    let header: [u8; IPV4_MIN_LEN] = array(frame, l3).ok_or_else(|| cut(l3 + IPV4_MIN_LEN))?;
    if header[0] >> 4 != 4 {
        return Err(ViewError::Version { layer: HeaderLayer::Ipv4, found: header[0] >> 4 });
    }
    let header_len = usize::from(header[0] & 0xf) * 4;
    if header_len < IPV4_MIN_LEN {
        return Err(ViewError::HeaderLength { found: header_len as u8 });
    }
    if frame.len() < l3 + header_len {
        return Err(cut(l3 + header_len));
    }
    let total_len = u16::from_be_bytes([header[2], header[3]]);
    if usize::from(total_len) < header_len {
        let (found, headers) = (u32::from(total_len), header_len as u32);
        return Err(ViewError::TotalLength { layer: HeaderLayer::Ipv4, found, headers });
    }
    Ok(Ip {
        version: IpVersion::V4,
        proto: IpProto(header[9]),
        fragment: ipv4_fragment(u16::from_be_bytes([header[6], header[7]])),
        l4: (l3 + header_len) as u16,
        end: l3 as u32 + u32::from(total_len),
        rerouted: false,
    })
}

/// Decodes the fragment field of IPv4. Its bits are: reserved, don't fragment, more fragments, 13
/// of offset.
#[inline(always)]
fn ipv4_fragment(bits: u16) -> FragmentPosition {
    match bits & 0x3fff {
        0 => FragmentPosition::Whole,
        0x2000 => FragmentPosition::First,
        _ => FragmentPosition::Later,
    }
}

#[inline]
fn ipv6(frame: &[u8], l3: usize) -> Result<Ip, ViewError> {
    let header: [u8; 8] = match array(frame, l3) {
        Some(header) if frame.len() >= l3 + IPV6_LEN => header,
        _ => return Err(truncated(frame, HeaderLayer::Ipv6, l3 + IPV6_LEN)),
    };
    if header[0] >> 4 != 6 {
        return Err(ViewError::Version { layer: HeaderLayer::Ipv6, found: header[0] >> 4 });
    }
    let payload_len = u16::from_be_bytes([header[4], header[5]]);
    let mut ip = Ip {
        version: IpVersion::V6,
        proto: IpProto(header[6]),
        fragment: FragmentPosition::Whole,
        l4: (l3 + IPV6_LEN) as u16,
        end: (l3 + IPV6_LEN) as u32 + u32::from(payload_len),
        rerouted: false,
    };
    if is_extension(ip.proto) {
        extensions(frame, l3, &mut ip)?;
    }
    Ok(ip)
}

/// Advances `ip` past the extension headers. Each is at most 2,048 bytes long. So `l4` does not
/// exceed 16 bits even with [`MAX_EXTENSIONS`] of them.
fn extensions(frame: &[u8], l3: usize, ip: &mut Ip) -> Result<(), ViewError> {
    for _ in 0..MAX_EXTENSIONS {
        let at = usize::from(ip.l4);
        let cut = |need| truncated(frame, HeaderLayer::Ipv6Extension, need);
        let header: [u8; 8] = array(frame, at).ok_or_else(|| cut(at + 8))?;
        let len = match ip.proto {
            IpProto::FRAGMENT => 8,
            // RFC 4302: the length field of the header counts words of four bytes, minus two.
            IpProto::AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if frame.len() < at + len {
            return Err(cut(at + len));
        }
        if ip.end < (at + len) as u32 {
            let (found, headers) = (ip.end - l3 as u32, (at + len - l3) as u32);
            return Err(ViewError::TotalLength { layer: HeaderLayer::Ipv6, found, headers });
        }
        match ip.proto {
            IpProto::FRAGMENT => {
                ip.fragment = ipv6_fragment(u16::from_be_bytes([header[2], header[3]]));
            }
            // Byte 3 is the number of segments left.
            IpProto::ROUTING => ip.rerouted |= header[3] != 0,
            _ => {}
        }
        ip.l4 = (at + len) as u16;
        ip.proto = IpProto(header[0]);
        // In a fragment that is not the first, data follows the fragment header, not another
        // header.
        if !is_extension(ip.proto) || ip.fragment == FragmentPosition::Later {
            return Ok(());
        }
    }
    Err(ViewError::TooManyExtensions)
}

/// Decodes the fragment field of IPv6. Its bits are: 13 of offset, 2 reserved, more fragments. A
/// fragment that is the whole packet (an atomic fragment) counts as a whole packet.
fn ipv6_fragment(bits: u16) -> FragmentPosition {
    match bits & 0xfff9 {
        0 => FragmentPosition::Whole,
        1 => FragmentPosition::First,
        _ => FragmentPosition::Later,
    }
}

#[inline]
fn is_extension(proto: IpProto) -> bool {
    matches!(
        proto,
        IpProto::HOP_BY_HOP
            | IpProto::ROUTING
            | IpProto::FRAGMENT
            | IpProto::AUTHENTICATION
            | IpProto::DESTINATION
            | IpProto::MOBILITY
    )
}

#[cold]
fn truncated(frame: &[u8], layer: HeaderLayer, need: usize) -> ViewError {
    ViewError::Truncated { layer, need: need as u32, have: frame.len() as u32 }
}

#[cfg(test)]
mod tests;
