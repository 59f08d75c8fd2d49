//! Parses the headers of a frame.

use slipring_wire::assigned::IpProto;
use slipring_wire::view::{FragmentPosition, HeaderLayer, Headers, Ip, IpVersion, ViewError};

use super::{IpFamily, MalformedReason, PacketHeaders};
use crate::rule::Ipv6Extension;

impl PacketHeaders {
    /// Parses `frame`.
    ///
    /// # Errors
    /// [`MalformedReason`] if the headers are truncated or inconsistent.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, MalformedReason> {
        let mut packet = Self::EMPTY;
        packet.read(frame)?;
        Ok(packet)
    }

    /// Parses `frame` into `self`. This avoids a copy of the parsed headers, which is slow just
    /// after their fields were written one by one.
    ///
    /// # Errors
    /// [`MalformedReason`] if the headers are truncated or inconsistent; the fields are then
    /// meaningless.
    #[inline]
    pub fn read(&mut self, frame: &[u8]) -> Result<(), MalformedReason> {
        if self.plain_v4(frame) { self.transport(frame) } else { self.general(frame) }
    }

    /// Fast path for the most common frame: IPv4 without tags and options. Reads all fields before
    /// the transport header. Returns `false` for all other frames, which the general path parses.
    #[inline(always)]
    fn plain_v4(&mut self, frame: &[u8]) -> bool {
        const L3: u16 = 14;
        let Some(head) = frame.first_chunk::<34>() else { return false };
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let total_len = half(16);
        if head[12..15] != [0x08, 0x00, 0x45] || total_len < 20 {
            return false;
        }
        *self = Self {
            macs: *head.first_chunk().expect("twelve of 34 bytes"),
            ethertype: 0x0800,
            version: IpFamily::V4,
            src: word(26).into(),
            dst: word(30).into(),
            proto: head[23],
            ttl: head[22],
            tos: head[15],
            ip_id: half(18),
            ip_len: total_len.into(),
            ip_off: half(20),
            later_fragment: !matches!(half(20) & 0x3fff, 0 | 0x2000),
            l3: L3.into(),
            l4: usize::from(L3) + 20,
            end: (usize::from(L3) + usize::from(total_len)).min(frame.len()),
            counted_len: u32::from(total_len).min((frame.len() - usize::from(L3)) as u32),
            ..Self::EMPTY
        };
        true
    }

    /// Slow path for all other frames.
    #[inline(never)]
    fn general(&mut self, frame: &[u8]) -> Result<(), MalformedReason> {
        let headers = Headers::parse(frame).map_err(|error| cause(&error))?;
        self.link(frame, &headers);
        let Some(ip) = headers.ip else { return Ok(()) };
        self.proto = ip.proto.0;
        self.l4 = usize::from(ip.l4);
        self.end = (ip.end as usize).min(frame.len());
        self.later_fragment = ip.fragment == FragmentPosition::Later;
        self.ip_len = ip.end - u32::from(headers.l3);
        self.counted_len = (self.end - self.l3) as u32;
        match ip.version {
            IpVersion::V4 => self.v4(frame).ok_or(MalformedReason::ShortIp)?,
            IpVersion::V6 => self.v6(frame, &ip).ok_or(MalformedReason::ShortIp)?,
        }
        self.transport(frame)
    }

    /// Resets all fields and reads the Ethernet header.
    fn link(&mut self, frame: &[u8], headers: &Headers) {
        *self = Self::EMPTY;
        let found = headers.tags_found();
        self.macs = frame.first_chunk().copied().unwrap_or_default();
        self.ethertype = headers.ethertype.0;
        self.tags = [found.first().copied(), found.get(1).copied()];
        (self.l3, self.l4) = (usize::from(headers.l3), usize::from(headers.l3));
        (self.end, self.counted_len) = (frame.len(), frame.len() as u32);
    }

    fn v4(&mut self, frame: &[u8]) -> Option<()> {
        let header = frame.get(self.l3..)?.first_chunk::<20>()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        self.version = IpFamily::V4;
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
        self.version = IpFamily::V6;
        self.tos = (first >> 20) as u8;
        self.flow_label = first & 0xf_ffff;
        self.ttl = header[7];
        (self.src, self.dst) = (address(8), address(24));
        if usize::from(ip.l4) != self.l3 + 40 {
            self.extensions = extensions(frame, header[6], self.l3 + 40, self.l4);
        }
        if self.proto == 50 {
            self.extensions |= Ipv6Extension::Esp as u8;
        }
        Some(())
    }

    /// Reads the ports, the TCP flags, or the ICMP type and code, if there is a transport header.
    #[inline(always)]
    fn transport(&mut self, frame: &[u8]) -> Result<(), MalformedReason> {
        if self.later_fragment {
            // An IPv4 TCP fragment at offset 8 could overwrite the TCP flags that the rules saw in
            // the first fragment.
            let is_tiny =
                self.proto == 6 && self.version == IpFamily::V4 && self.ip_off & 0x1fff == 1;
            return if is_tiny { Err(MalformedReason::TinyFragment) } else { Ok(()) };
        }
        let need = min_transport_len(IpProto(self.proto), self.version);
        if need == 0 {
            return Ok(());
        }
        let header = frame.get(self.l4..self.end).filter(|header| header.len() >= need);
        let header = header.ok_or(MalformedReason::ShortTransport)?;
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
            return if has_offset { Ok(()) } else { Err(MalformedReason::ShortTransport) };
        }
        Ok(())
    }
}

const UDP_LITE: IpProto = IpProto(136);

/// The minimum length in bytes of a transport header that is parsed; 0 for other protocols.
#[inline(always)]
pub(super) const fn min_transport_len(proto: IpProto, version: IpFamily) -> usize {
    match (proto, version) {
        (IpProto::TCP, _) => 20,
        (IpProto::UDP | UDP_LITE, _) => 8,
        (IpProto::SCTP, _) => 12,
        (IpProto::ICMP, IpFamily::V4) => 8,
        (IpProto::ICMPV6, IpFamily::V6) => 4,
        _ => 0,
    }
}

/// Returns the IPv6 extension headers between `at` and `end`, as bits. The headers' lengths were
/// already checked.
fn extensions(frame: &[u8], first: u8, at: usize, end: usize) -> u8 {
    let (mut next, mut at, mut seen) = (IpProto(first), at, 0);
    while at < end {
        let Some(&[following, len, kind, _]) = frame.get(at..).and_then(|rest| rest.first_chunk())
        else {
            break;
        };
        let (bits, size) = match next {
            IpProto::HOP_BY_HOP => (Ipv6Extension::HopByHop as u8, 8 + usize::from(len) * 8),
            IpProto::DESTINATION => (Ipv6Extension::Destination as u8, 8 + usize::from(len) * 8),
            IpProto::FRAGMENT => (Ipv6Extension::Fragment as u8, 8),
            IpProto::AUTHENTICATION => (Ipv6Extension::Auth as u8, 8 + usize::from(len) * 4),
            IpProto::ROUTING => {
                let by_type = match kind {
                    0 => Ipv6Extension::Route0 as u8,
                    2 => Ipv6Extension::Route2 as u8,
                    _ => 0,
                };
                (Ipv6Extension::Route as u8 | by_type, 8 + usize::from(len) * 8)
            }
            _ => (0, 8 + usize::from(len) * 8),
        };
        (next, at, seen) = (IpProto(following), at + size, seen | bits);
    }
    seen
}

fn cause(error: &ViewError) -> MalformedReason {
    match error {
        ViewError::Truncated { layer: HeaderLayer::Ethernet | HeaderLayer::Vlan, .. } => {
            MalformedReason::ShortLink
        }
        ViewError::Truncated { layer: HeaderLayer::Ipv6Extension, .. } => {
            MalformedReason::Extensions
        }
        ViewError::Truncated { .. } => MalformedReason::ShortIp,
        ViewError::Version { .. } => MalformedReason::Version,
        ViewError::HeaderLength { .. } => MalformedReason::HeaderLength,
        ViewError::TotalLength { .. } => MalformedReason::TotalLength,
        _ => MalformedReason::Extensions,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_short_way_reads_what_the_long_one_reads(
            mut frame in prop::collection::vec(any::<u8>(), 0..80),
            plain in 0..4,
            len in 0..80_u16,
            proto in prop::sample::select(alloc::vec![1_u8, 6, 17, 132, 136, 47]),
            fragment in prop::sample::select(alloc::vec![0_u16, 0x2000, 0x4000, 0x2001, 5]),
        ) {
            if plain > 0 && frame.len() > 34 {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[16..18].copy_from_slice(&len.to_be_bytes());
                frame[20..22].copy_from_slice(&fragment.to_be_bytes());
                frame[23] = proto;
            }
            let (mut short, mut long) = (PacketHeaders::EMPTY, PacketHeaders::EMPTY);
            let results = (short.read(&frame), long.general(&frame));
            prop_assert_eq!(results.0, results.1);
            if results.0.is_ok() {
                prop_assert_eq!(short, long);
            }
        }
    }
}
