//! Describes a frame in tcpdump's format, and prints hex dumps.
//!
//! `{}` prints `IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18`. `{:#}` starts with the
//! addresses, type, length and VLAN tags of the link layer instead of `IP`. Where tcpdump prints
//! the same information, the text is identical to tcpdump's, byte for byte. If the captured bytes
//! end too early, the text ends with `[|tcp]` or similar.
//!
//! A module may use the modules to its right and below it in this drawing. A packet inside a packet
//! is printed through a function pointer in the line (`text::SummaryLine::inner`). So no decoder
//! has to use a decoder to its left or above it.
//!
//! ```text
//!   link ──> arp, stp
//!    └─> ip, ip6 ──> upper_layer ──> tcp ──> text_protocols, dns
//!                     │              udp ──> dns, dhcp, ntp, bfd, vxlan
//!                     │              icmp6 ──> nd ──> dns;  igmp, ospf, vrrp
//!                     └────────────> icmp, gre           inside icmp, gre, vxlan, IP in IP: inner
//!   ip_carrier: the IP header below a protocol
//!   text: the line as it grows, and bounds-checked reads
//! ```
//!
//! # Invariants
//! 1. No bytes make a decoder panic or recurse without a bound.
//! 2. Bytes from the network reach the text only as printable characters.
//!
//! Not for fast paths: text output is slow. Not for reassembly.

mod arp;
mod bfd;
mod conversations;
mod detail;
mod dhcp;
mod dhcp_options;
mod dns;
mod dump;
mod gre;
mod icmp;
mod icmp6;
mod igmp;
mod ip;
mod ip6;
mod ip_carrier;
mod ip_options;
mod link;
mod nd;
mod ntp;
mod ospf;
mod ospf_lsa;
mod stp;
mod tcp;
mod text;
mod text_protocols;
mod udp;
mod upper_layer;
mod vrrp;
mod vxlan;

use alloc::string::{String, ToString};
use core::fmt;

pub use conversations::Conversations;
pub use detail::Detail;
pub use dump::{Hex, HexDump, TextDump};
use text::{DecodeResult, Encapsulated, SummaryLine};

/// A frame that can be printed as one line, or with [`Detail::verbose`] as several lines.
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

/// The summary text of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameText {
    /// The text, without a line break at the end.
    pub text: String,
    /// Length of the link layer's header in bytes, including LLC and SNAP. If the Ethernet header
    /// or a VLAN tag is truncated, it is the length of the whole frame. If LLC or SNAP is
    /// truncated, it includes all bytes of the LLC packet.
    pub link_len: usize,
}

impl<'f> Summary<'f> {
    /// Creates the summary of a frame that was captured completely.
    #[must_use]
    pub fn new(frame: &'f [u8]) -> Self {
        Self { frame, wire_len: frame.len(), detail: Detail::default() }
    }

    /// Sets the length that the frame had, in bytes, before a capture truncated it.
    #[must_use]
    pub fn with_wire_len(self, wire_len: usize) -> Self {
        Self { wire_len: wire_len.max(self.frame.len()), ..self }
    }

    /// Sets how much detail the summary has.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// Writes the summary. It has the header of the link layer if `link` is true. TCP numbers are
    /// relative to the start of their conversation if `conversations` knows it; those of segments
    /// with SYN or without ACK are absolute. A conversation is added to `conversations` at its
    /// first segment with ACK. If `conversations` is `None` or [`Detail::is_absolute`] is set, all
    /// TCP numbers are absolute, and nothing is added; nor with [`Detail::is_quick`], which prints
    /// no numbers.
    #[must_use]
    pub fn write(&self, link: bool, conversations: Option<&mut Conversations>) -> FrameText {
        let mut line = SummaryLine {
            text: String::new(),
            detail: self.detail,
            link,
            protocol: "",
            depth: 0,
            conversations,
            decode_inner,
        };
        if self.frame.is_empty() {
            return FrameText { text: "[Invalid header: caplen==0]".to_string(), link_len: 0 };
        }
        let mut link_len = self.frame.len();
        if link::frame(&mut line, self.frame, self.wire_len, &mut link_len).is_err() {
            line.cut();
        }
        FrameText { text: line.text, link_len }
    }
}

/// Writes a packet that is contained in another packet.
fn decode_inner(
    line: &mut SummaryLine<'_>,
    packet: Encapsulated,
    bytes: &[u8],
    length: usize,
) -> DecodeResult {
    match packet {
        Encapsulated::Ethernet => link::frame(line, bytes, length, &mut 0),
        Encapsulated::Ipv4 => ip::packet(line, bytes, length),
        Encapsulated::Ipv6 => ip6::packet(line, bytes, length),
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write(f.alternate(), None).text)
    }
}

#[cfg(test)]
mod tests;
