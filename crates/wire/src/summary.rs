//! What a frame is, in the words of tcpdump, and a hex dump.
//!
//! `{}` gives `IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18`; `{:#}` puts addresses, type, length
//! and VLAN tags of the link layer in the place of `IP`. Where tcpdump prints the same, the text is
//! equal to tcpdump's to the byte. What the captured bytes cut short ends with `[|tcp]`.
//!
//! ```text
//!   link ──> arp, stp                text: the line as it grows, and reads that may find the end
//!     └──> ip, ip6 ──> tcp ──> lines, dns
//!                  ├─> udp ──> dns, dhcp, ntp, bfd, vxlan ──> link
//!                  ├─> icmp ──> ip: the packet that an error quotes
//!                  ├─> gre ──> ip, ip6, link
//!                  └─> icmp6 ──> nd; igmp, ospf, vrrp
//! ```
//!
//! # Invariants
//! 1. Whatever the bytes are, nothing panics and nothing recurses without a bound.
//! 2. Bytes of a stranger reach the text only as printable characters.
//!
//! Not for fast paths: it is as slow as text is. Not for reassembly.

mod arp;
mod bfd;
mod conversations;
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
mod vrrp;
mod vxlan;

use alloc::string::{String, ToString};
use core::fmt;

pub use conversations::Conversations;
pub use dump::{Hex, HexDump, TextDump};
use text::SummaryLine;

/// A frame that prints as a line, or with [`Detail::verbose`] as some.
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

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Detail {
    /// Little is said of protocols: tcpdump's `-q`.
    pub is_quick: bool,
    /// How often tcpdump's `-v` is given: header fields and options too, on lines of their own.
    pub verbose: u8,
    /// Whether checksums of IPv4, TCP and UDP are verified and told, with `verbose`.
    pub checksums: bool,
    /// TCP's numbers are those of the header, and not counted from the beginning of a
    /// conversation: `-S`.
    pub is_absolute: bool,
    /// The bytes are printed in any case, so that those nobody decodes need not be here.
    pub bytes_follow: bool,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            is_quick: false,
            verbose: 0,
            checksums: true,
            is_absolute: false,
            bytes_follow: true,
        }
    }
}

/// The text of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameText {
    /// What was said, without a line break at the end.
    pub text: String,
    /// Length of the link layer's header in bytes: the whole frame, where that is cut short.
    pub link_len: usize,
}

impl<'f> Summary<'f> {
    /// The summary of a whole frame.
    #[must_use]
    pub fn new(frame: &'f [u8]) -> Self {
        Self { frame, wire_len: frame.len(), detail: Detail::default() }
    }

    /// Says how long the frame was, in bytes, before a capture cut it.
    #[must_use]
    pub fn with_wire_len(self, wire_len: usize) -> Self {
        Self { wire_len: wire_len.max(self.frame.len()), ..self }
    }

    /// Says more or less.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// Writes it, with the header of the link layer if `link`. TCP's numbers count from the
    /// beginning of conversations that `conversations` knows, and it learns of new ones; without
    /// it they are absolute.
    #[must_use]
    pub fn write(&self, link: bool, conversations: Option<&mut Conversations>) -> FrameText {
        let mut line = SummaryLine {
            text: String::new(),
            detail: self.detail,
            link,
            protocol: "",
            depth: 0,
            conversations,
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

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write(f.alternate(), None).text)
    }
}

#[cfg(test)]
mod tests;
