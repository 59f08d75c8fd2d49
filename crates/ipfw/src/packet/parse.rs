//! One pass over the headers of a frame.

use slipring_wire::MacAddr;
use slipring_wire::assigned::IpProto;
use slipring_wire::view::{Fragment, Headers, Ip, IpVersion, Layer, ViewError};

use super::{Malformed, Packet, Version};
use crate::rule::Extension;

impl Packet {
    /// Reads `frame`.
    ///
    /// # Errors
    /// [`Malformed`] if its headers cannot be believed.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let headers = Headers::parse(frame).map_err(|error| cause(&error))?;
        let mut packet = link(frame, &headers);
        if let Some(ip) = headers.ip {
            packet.proto = ip.proto.0;
            packet.l4 = usize::from(ip.l4);
            packet.end = (ip.end as usize).min(frame.len());
            packet.later_fragment = ip.fragment == Fragment::Later;
            packet.ip_len = ip.end - u32::from(headers.l3);
            packet.counted_len = packet.ip_len;
            match ip.version {
                IpVersion::V4 => packet.v4(frame).ok_or(Malformed::ShortIp)?,
                IpVersion::V6 => packet.v6(frame, &ip).ok_or(Malformed::ShortIp)?,
            }
            packet.transport(frame)?;
        }
        Ok(packet)
    }

    fn v4(&mut self, frame: &[u8]) -> Option<()> {
        let header = frame.get(self.l3..)?.first_chunk::<20>()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        self.version = Version::V4;
        self.tos = header[1];
        self.ip_id = (word(4) >> 16) as u16;
        self.ip_off = word(4) as u16;
        self.ttl = header[8];
        (self.src, self.dst) = (word(12).into(), word(16).into());
        Some(())
    }

    fn v6(&mut self, frame: &[u8], ip: &Ip) -> Option<()> {
        let header = frame.get(self.l3..)?.first_chunk::<40>()?;
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let address = |at: usize| {
            header[at..at + 16].iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
        };
        self.version = Version::V6;
        self.tos = (first >> 20) as u8;
        self.flow_label = first & 0xf_ffff;
        self.ttl = header[7];
        (self.src, self.dst) = (address(8), address(24));
        if usize::from(ip.l4) != self.l3 + 40 {
            self.extensions = extensions(frame, header[6], self.l3 + 40, self.l4);
        }
        if self.proto == 50 {
            self.extensions |= Extension::Esp as u8;
        }
        Some(())
    }

    /// Ports, flags and types, where there is a transport header.
    #[inline]
    fn transport(&mut self, frame: &[u8]) -> Result<(), Malformed> {
        if self.later_fragment {
            // Such a fragment could overwrite the flags that the rules saw in the first one.
            let is_tiny =
                self.proto == 6 && self.version == Version::V4 && self.ip_off & 0x1fff == 1;
            return if is_tiny { Err(Malformed::TinyFragment) } else { Ok(()) };
        }
        let need = match IpProto(self.proto) {
            IpProto::TCP => 20,
            IpProto::UDP | UDP_LITE => 8,
            IpProto::SCTP => 12,
            IpProto::ICMP if self.version == Version::V4 => 8,
            IpProto::ICMPV6 if self.version == Version::V6 => 4,
            _ => return Ok(()),
        };
        let header = frame.get(self.l4..self.end).filter(|header| header.len() >= need);
        let header = header.ok_or(Malformed::ShortTransport)?;
        if need == 4 || IpProto(self.proto) == IpProto::ICMP {
            self.icmp = (header[0], header[1]);
            return Ok(());
        }
        self.has_ports = true;
        self.src_port = u16::from_be_bytes([header[0], header[1]]);
        self.dst_port = u16::from_be_bytes([header[2], header[3]]);
        if need == 20 {
            self.tcp_flags = header[13];
            let has_offset = header[12] >> 4 >= 5;
            return if has_offset { Ok(()) } else { Err(Malformed::ShortTransport) };
        }
        Ok(())
    }
}

const UDP_LITE: IpProto = IpProto(136);

fn link(frame: &[u8], headers: &Headers) -> Packet {
    let mac = |at: usize| {
        frame
            .get(at..)
            .and_then(|rest| rest.first_chunk::<6>())
            .map_or(MacAddr::ZERO, |mac| MacAddr(*mac))
    };
    let found = headers.tags_found();
    Packet {
        src_mac: mac(6),
        dst_mac: mac(0),
        ethertype: headers.ethertype.0,
        tags: [found.first().copied(), found.get(1).copied()],
        version: Version::None,
        src: 0,
        dst: 0,
        proto: 0,
        ttl: 0,
        tos: 0,
        ip_id: 0,
        ip_len: 0,
        ip_off: 0,
        later_fragment: false,
        extensions: 0,
        flow_label: 0,
        has_ports: false,
        src_port: 0,
        dst_port: 0,
        tcp_flags: 0,
        icmp: (0, 0),
        l3: usize::from(headers.l3),
        l4: usize::from(headers.l3),
        end: frame.len(),
        counted_len: frame.len() as u32,
    }
}

/// The extension headers between `at` and `end`, which the link view found to lie in the frame.
fn extensions(frame: &[u8], first: u8, at: usize, end: usize) -> u8 {
    let (mut next, mut at, mut seen) = (IpProto(first), at, 0);
    while at < end {
        let Some(&[following, len, kind, _]) = frame.get(at..).and_then(|rest| rest.first_chunk())
        else {
            break;
        };
        let (bits, size) = match next {
            IpProto::HOP_BY_HOP => (Extension::HopByHop as u8, 8 + usize::from(len) * 8),
            IpProto::DESTINATION => (Extension::Destination as u8, 8 + usize::from(len) * 8),
            IpProto::FRAGMENT => (Extension::Fragment as u8, 8),
            IpProto::AUTHENTICATION => (Extension::Auth as u8, 8 + usize::from(len) * 4),
            IpProto::ROUTING => {
                let by_type = match kind {
                    0 => Extension::Route0 as u8,
                    2 => Extension::Route2 as u8,
                    _ => 0,
                };
                (Extension::Route as u8 | by_type, 8 + usize::from(len) * 8)
            }
            _ => (0, 8 + usize::from(len) * 8),
        };
        (next, at, seen) = (IpProto(following), at + size, seen | bits);
    }
    seen
}

fn cause(error: &ViewError) -> Malformed {
    match error {
        ViewError::Truncated { layer: Layer::Ethernet | Layer::Vlan, .. } => Malformed::ShortLink,
        ViewError::Truncated { layer: Layer::Ipv6Extension, .. } => Malformed::Extensions,
        ViewError::Truncated { .. } => Malformed::ShortIp,
        ViewError::Version { .. } => Malformed::Version,
        ViewError::HeaderLength { .. } => Malformed::HeaderLength,
        ViewError::TotalLength { .. } => Malformed::TotalLength,
        _ => Malformed::Extensions,
    }
}
