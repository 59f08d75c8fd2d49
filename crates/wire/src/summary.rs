//! One line of text about a frame, in the words of tcpdump, and a hex dump.
//!
//! `{}` gives `IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18`; `{:#}` puts addresses, type, length
//! and VLAN tags of the link layer in the place of `IP`. Sequence numbers are absolute. A header that the frame cuts
//! short reads `[|tcp]`, one that contradicts itself gives the reason in brackets.
//!
//! Not for fast paths: it is as slow as text is.

mod arp;
mod detail;
mod dump;
mod icmp;
mod ip;
mod tcp;

use core::fmt;

pub use dump::{Hex, HexDump, Text};

use crate::assigned::EtherType;
use crate::field::{array, be16};
use crate::mac::MacAddr;
use crate::view::Headers;

/// A frame that prints as one line.
///
/// ```
/// use slipring_wire::{FrameSpec, summary::Summary};
/// let frame = FrameSpec::default().build(60)?.bytes;
/// let line = Summary::new(&frame).to_string();
/// assert_eq!(line, "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Summary<'f> {
    frame: &'f [u8],
    wire_len: usize,
    detail: Detail,
}

/// How much a line says of the IP and transport headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Detail {
    /// Addresses and lengths.
    Quick,
    /// What matters of each protocol.
    #[default]
    Normal,
    /// The IP header's fields too, on a line before the addresses.
    Full {
        /// Whether checksums are verified and told.
        checksums: bool,
        /// Whether those of UDP over IPv4 are as well, as of tcpdump's second `-v`.
        udp_v4: bool,
    },
}

impl<'f> Summary<'f> {
    /// The summary of a whole frame.
    #[must_use]
    pub fn new(frame: &'f [u8]) -> Self {
        Self { frame, wire_len: frame.len(), detail: Detail::Normal }
    }

    /// Says how long the frame was, in bytes, before a capture cut it.
    #[must_use]
    pub fn with_wire_len(self, wire_len: usize) -> Self {
        Self { wire_len, ..self }
    }

    /// Says more or less.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(link) = Headers::link(self.frame) else {
            return f.write_str("[|ether]");
        };
        if f.alternate() {
            self.addresses(f, &link)?;
        }
        if f.alternate() {
            self.tags(f, &link)?;
        }
        let l3 = usize::from(link.l3);
        match link.ethertype {
            EtherType::IPV4 | EtherType::IPV6 => ip::line(f, self.frame, self.detail),
            EtherType::ARP => arp::line(f, &self.frame[l3..], self.detail),
            EtherType(len) if len < 0x600 => write!(f, "802.3, length {len}"),
            // Its type and length stand before it.
            _ if f.alternate() => Ok(()),
            other => {
                let payload_len = self.wire_len.saturating_sub(l3);
                write!(f, "ethertype {other}, length {payload_len}")
            }
        }
    }
}

impl Summary<'_> {
    fn addresses(&self, f: &mut fmt::Formatter<'_>, link: &Headers) -> fmt::Result {
        let mac = |at| MacAddr(array(self.frame, at).unwrap_or_default());
        let (src, dst) = (mac(6), mac(0));
        let outer = EtherType(be16(self.frame, 12).unwrap_or(link.ethertype.0));
        write!(f, "{src} > {dst}, ")?;
        self.ethertype(f, outer)?;
        write!(f, ", length {}: ", self.wire_len)
    }

    /// `vlan 5, p 3, ethertype IPv4 (0x0800), `.
    fn tags(&self, f: &mut fmt::Formatter<'_>, link: &Headers) -> fmt::Result {
        let tags = link.tags_found();
        for (at, tag) in (1..).zip(tags) {
            write!(f, "vlan {}, p {}, ", tag.vid(), tag.priority())?;
            if tag.drop_eligible() {
                f.write_str("DEI, ")?;
            }
            let inner = be16(self.frame, 12 + 4 * at).unwrap_or(link.ethertype.0);
            self.ethertype(f, EtherType(inner))?;
            f.write_str(", ")?;
        }
        Ok(())
    }

    /// `ethertype IPv4 (0x0800)`, or in few words `IPv4`.
    fn ethertype(&self, f: &mut fmt::Formatter<'_>, ethertype: EtherType) -> fmt::Result {
        let number = ethertype.0;
        match (ethertype.is_known(), self.detail) {
            (true, Detail::Quick) => write!(f, "{ethertype}"),
            (true, _) => write!(f, "ethertype {ethertype} (0x{number:04x})"),
            (false, Detail::Quick) => write!(f, "Unknown Ethertype (0x{number:04x})"),
            (false, _) => write!(f, "ethertype Unknown (0x{number:04x})"),
        }
    }
}

#[cfg(test)]
mod tests;
