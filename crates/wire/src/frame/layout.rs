//! The offsets of the fields of a built frame, and functions that set the fields.
//!
//! Every setter is for a *copy* of the template's bytes. It keeps the checksums valid and costs a
//! few nanoseconds. If the frame does not have the field, or the slice ends before the field or a
//! checksum that covers it, a setter changes nothing and returns `None`.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::assigned::IpProto;
use crate::checksum::{Delta, Sum, nonzero};
use crate::field::{array, be16, put, put_be16};
use crate::mac::MacAddr;
use crate::view::IpVersion;

/// A frame to be copied, and the offsets of the fields that can be changed in the copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTemplate {
    /// The frame, without CRC and with valid checksums.
    pub bytes: Vec<u8>,
    /// The offsets of the frame's fields.
    pub layout: FrameLayout,
}

/// The offsets of a frame's fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// The version of the IP header.
    pub version: IpVersion,
    /// The protocol above IP.
    pub proto: IpProto,
    /// Offset of the first byte of the IP header.
    pub l3: usize,
    /// Offset of the first byte of the transport header.
    pub l4: usize,
    /// Offset of the transport header's checksum.
    pub l4_check: usize,
    /// Offset of the first byte of the payload.
    pub payload: usize,
}

impl FrameLayout {
    /// Offset of the destination MAC address.
    pub const DST_MAC: usize = 0;
    /// Offset of the source MAC address.
    pub const SRC_MAC: usize = 6;

    /// Offset of the IP source address.
    #[must_use]
    pub const fn ip_src(&self) -> usize {
        match self.version {
            IpVersion::V4 => self.l3 + 12,
            IpVersion::V6 => self.l3 + 8,
        }
    }

    /// Offset of the IP destination address.
    #[must_use]
    pub const fn ip_dst(&self) -> usize {
        match self.version {
            IpVersion::V4 => self.l3 + 16,
            IpVersion::V6 => self.l3 + 24,
        }
    }

    /// Offset of the checksum of the IPv4 header; `None` for IPv6.
    #[must_use]
    pub const fn ip_check(&self) -> Option<usize> {
        match self.version {
            IpVersion::V4 => Some(self.l3 + 10),
            IpVersion::V6 => None,
        }
    }

    /// Offset of the source port; `None` if the frame is neither UDP nor TCP.
    #[must_use]
    pub const fn src_port(&self) -> Option<usize> {
        match self.proto {
            IpProto::UDP | IpProto::TCP => Some(self.l4),
            _ => None,
        }
    }

    /// Offset of the destination port; `None` if the frame is neither UDP nor TCP.
    #[must_use]
    pub const fn dst_port(&self) -> Option<usize> {
        match self.proto {
            IpProto::UDP | IpProto::TCP => Some(self.l4 + 2),
            _ => None,
        }
    }

    /// Offset of the identifier of an ICMP echo message; `None` if the frame is no such message.
    /// The sequence number is 2 bytes after it.
    #[must_use]
    pub const fn echo_id(&self) -> Option<usize> {
        match self.proto {
            IpProto::ICMP | IpProto::ICMPV6 => Some(self.l4 + 4),
            _ => None,
        }
    }

    /// Sets the destination MAC address.
    #[inline]
    pub fn set_dst_mac(&self, frame: &mut [u8], mac: MacAddr) -> Option<()> {
        put(frame, Self::DST_MAC, mac.0)
    }

    /// Sets the source MAC address.
    #[inline]
    pub fn set_src_mac(&self, frame: &mut [u8], mac: MacAddr) -> Option<()> {
        put(frame, Self::SRC_MAC, mac.0)
    }

    /// Sets the source address of an IPv4 frame.
    #[inline]
    pub fn set_src_v4(&self, frame: &mut [u8], address: Ipv4Addr) -> Option<()> {
        self.set_v4(frame, self.ip_src(), address)
    }

    /// Sets the destination address of an IPv4 frame.
    #[inline]
    pub fn set_dst_v4(&self, frame: &mut [u8], address: Ipv4Addr) -> Option<()> {
        self.set_v4(frame, self.ip_dst(), address)
    }

    /// Sets the source address of an IPv6 frame.
    #[inline]
    pub fn set_src_v6(&self, frame: &mut [u8], address: Ipv6Addr) -> Option<()> {
        self.set_v6(frame, self.ip_src(), address)
    }

    /// Sets the destination address of an IPv6 frame.
    #[inline]
    pub fn set_dst_v6(&self, frame: &mut [u8], address: Ipv6Addr) -> Option<()> {
        self.set_v6(frame, self.ip_dst(), address)
    }

    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&self, frame: &mut [u8], port: u16) -> Option<()> {
        self.set_l4(frame, self.src_port()?, port.to_be_bytes())
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&self, frame: &mut [u8], port: u16) -> Option<()> {
        self.set_l4(frame, self.dst_port()?, port.to_be_bytes())
    }

    /// Sets the identifier and the sequence number of an echo message.
    #[inline]
    pub fn set_echo(&self, frame: &mut [u8], id: u16, seq: u16) -> Option<()> {
        let value = u32::from(id) << 16 | u32::from(seq);
        self.set_l4(frame, self.echo_id()?, value.to_be_bytes())
    }

    /// Sets the sequence number of a TCP segment.
    #[inline]
    pub fn set_tcp_seq(&self, frame: &mut [u8], seq: u32) -> Option<()> {
        if self.proto != IpProto::TCP {
            return None;
        }
        self.set_l4(frame, self.l4 + 4, seq.to_be_bytes())
    }

    /// Overwrites the payload's bytes from its offset `at` on. `at` must be even, because checksums
    /// are sums of 16-bit words.
    #[inline]
    pub fn set_payload<const N: usize>(
        &self,
        frame: &mut [u8],
        at: usize,
        bytes: [u8; N],
    ) -> Option<()> {
        if !at.is_multiple_of(2) {
            return None;
        }
        self.set_l4(frame, self.payload.checked_add(at)?, bytes)
    }

    /// Makes the first `len` bytes of `frame` a valid frame, by changing lengths and checksums. The
    /// caller must then drop the bytes after `len`. The function reads these bytes. So the template
    /// must have the maximum length, and copies of it are shortened.
    ///
    /// # Examples
    /// ```
    /// use slipring_wire::FrameSpec;
    /// let spec = FrameSpec::default();
    /// let template = spec.build(1514)?;
    /// let mut frame = template.bytes.clone();
    /// template.layout.shorten(&mut frame, 60);
    /// assert_eq!(frame[..60], spec.build(60)?.bytes);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn shorten(&self, frame: &mut [u8], len: usize) -> Option<()> {
        let end = self.end(frame)?;
        let cut = frame.get(len..end)?;
        if len < self.payload {
            return None;
        }
        // If the removed bytes start at an odd offset, they are in the other halves of their words
        // than a sum from 0 assumes. A leading zero byte corrects this.
        let lead: &[u8] = if (len - self.l4) % 2 == 1 { &[0] } else { &[] };
        let removed = Sum::new().bytes(lead).bytes(cut).folded();
        let (old, new) = ((end - self.l4) as u16, (len - self.l4) as u16);
        let mut delta = Delta::new().u16(removed, 0);
        if self.proto != IpProto::ICMP {
            delta = delta.u16(old, new);
        }
        if self.proto == IpProto::UDP {
            put_be16(frame, self.l4 + 4, new)?;
            delta = delta.u16(old, new);
        }
        self.fix_l4(frame, delta)?;
        self.set_ip_len(frame, len)
    }

    /// Returns the offset of the first byte after the IP packet.
    fn end(&self, frame: &[u8]) -> Option<usize> {
        Some(match self.version {
            IpVersion::V4 => self.l3 + usize::from(be16(frame, self.l3 + 2)?),
            IpVersion::V6 => self.l4 + usize::from(be16(frame, self.l3 + 4)?),
        })
    }

    fn set_ip_len(&self, frame: &mut [u8], len: usize) -> Option<()> {
        let Some(check) = self.ip_check() else {
            return put_be16(frame, self.l3 + 4, (len - self.l4) as u16);
        };
        let (old, new) = (be16(frame, self.l3 + 2)?, (len - self.l3) as u16);
        put_be16(frame, self.l3 + 2, new)?;
        fix(frame, check, Delta::new().u16(old, new))
    }

    #[inline]
    fn set_v4(&self, frame: &mut [u8], at: usize, address: Ipv4Addr) -> Option<()> {
        let check = self.ip_check()?;
        frame.get(..self.payload)?;
        let old = u32::from_be_bytes(array(frame, at)?);
        let delta = Delta::new().u32(old, address.to_bits());
        put(frame, at, address.octets())?;
        fix(frame, check, delta)?;
        // Of all checksums in frames that are built here, only that of ICMP does not cover the IP
        // addresses.
        if self.proto == IpProto::ICMP { Some(()) } else { self.fix_l4(frame, delta) }
    }

    #[inline]
    fn set_v6(&self, frame: &mut [u8], at: usize, address: Ipv6Addr) -> Option<()> {
        if self.version != IpVersion::V6 {
            return None;
        }
        self.set_l4(frame, at, address.octets())
    }

    /// Writes bytes that only the transport checksum covers, and corrects this checksum.
    #[inline]
    fn set_l4<const N: usize>(&self, frame: &mut [u8], at: usize, new: [u8; N]) -> Option<()> {
        frame.get(..self.payload)?;
        let old: [u8; N] = array(frame, at)?;
        put(frame, at, new)?;
        self.fix_l4(frame, Delta::new().bytes(&old, &new))
    }

    #[inline]
    fn fix_l4(&self, frame: &mut [u8], delta: Delta) -> Option<()> {
        let checksum = delta.apply(be16(frame, self.l4_check)?);
        let is_udp = self.proto == IpProto::UDP;
        put_be16(frame, self.l4_check, if is_udp { nonzero(checksum) } else { checksum })
    }
}

#[inline]
fn fix(frame: &mut [u8], check: usize, delta: Delta) -> Option<()> {
    let checksum = delta.apply(be16(frame, check)?);
    put_be16(frame, check, checksum)
}

#[cfg(test)]
mod tests;
