//! Functions with which decoders read bytes and append text; a read beyond the captured bytes ends
//! the line.

use alloc::string::String;
use core::fmt::{self, Write};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::conversations::Conversations;
use super::detail::Detail;
use super::dump::HexDump;
use crate::field::array;
use crate::mac::MacAddr;

/// The captured bytes ended within a header. The line then ends with `[|` and the protocol's name.
pub(super) struct TruncatedHeader;

/// The result of a decoder.
pub(super) type DecodeResult = Result<(), TruncatedHeader>;

/// The kinds of packets that a packet can contain: in a tunnel, or quoted in an ICMP error.
#[derive(Clone, Copy)]
pub(super) enum Encapsulated {
    Ethernet,
    Ipv4,
    Ipv6,
}

/// A function that writes a packet which is contained in another packet and had `length` bytes on
/// the wire.
pub(super) type InnerDecoder =
    fn(&mut SummaryLine<'_>, packet: Encapsulated, bytes: &[u8], length: usize) -> DecodeResult;

/// The line in progress, and its settings.
pub(super) struct SummaryLine<'s> {
    pub(super) text: String,
    pub(super) detail: Detail,
    /// Whether the link layer's header is printed.
    pub(super) link: bool,
    /// Name of the protocol being decoded, to print if the line ends truncated.
    pub(super) protocol: &'static str,
    /// The current nesting depth of headers.
    pub(super) depth: u8,
    pub(super) conversations: Option<&'s mut Conversations>,
    /// The function that knows all decoders; decoders of outer headers call it.
    pub(super) decode_inner: InnerDecoder,
}

/// Maximum nesting depth of headers, which limits the decoder's stack on hostile input.
const MAX_DEPTH: u8 = 16;

impl SummaryLine<'_> {
    /// Appends text.
    pub(super) fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }

    /// Appends the name of a number, or `unknown` if the number has none.
    pub(super) fn name<N: Copy + PartialEq>(
        &mut self,
        names: &[(N, &str)],
        number: N,
        unknown: fmt::Arguments<'_>,
    ) {
        match name_of(names, number) {
            Some(name) => self.text.push_str(name),
            None => self.put(unknown),
        }
    }

    /// Appends the names of the bits that are set, separated by `between`, or `none`.
    pub(super) fn bits(&mut self, names: &[(u32, &str)], bits: u32, between: &str) {
        let mut first = true;
        for (_, name) in names.iter().filter(|(bit, _)| bits & bit == *bit) {
            if !first {
                self.text.push_str(between);
            }
            self.text.push_str(name);
            first = false;
        }
        if first {
            self.text.push_str("none");
        }
    }

    /// Appends `[|` and the protocol's name: the captured bytes ended.
    pub(super) fn cut(&mut self) {
        let protocol = self.protocol;
        self.put(format_args!(" [|{protocol}]"));
    }

    /// Appends undecoded bytes as hex and text on separate lines, unless the caller prints all
    /// bytes anyway or `-q` was given.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if !self.detail.bytes_follow && !self.detail.is_quick {
            self.bytes_always(bytes);
        }
    }

    /// Appends bytes as hex and text, even if the caller prints all bytes anyway.
    pub(super) fn bytes_always(&mut self, bytes: &[u8]) {
        self.text.push('\n');
        self.put(format_args!("{}", HexDump(bytes)));
        self.text.pop();
    }

    /// Whether `-v` was given.
    pub(super) fn is_verbose(&self) -> bool {
        self.detail.verbose > 0
    }

    /// Writes a packet that is contained in the packet being decoded.
    pub(super) fn inner(
        &mut self,
        packet: Encapsulated,
        bytes: &[u8],
        length: usize,
    ) -> DecodeResult {
        (self.decode_inner)(self, packet, bytes, length)
    }

    /// Enters a nested header; returns `false` at the maximum depth.
    pub(super) fn enter(&mut self) -> bool {
        self.depth += 1;
        self.depth <= MAX_DEPTH
    }
}

/// Appends formatted text to a [`SummaryLine`].
macro_rules! put {
    ($line:expr, $($text:tt)*) => { $line.put(core::format_args!($($text)*)) };
}
pub(super) use put;

/// Returns the name of a number in a table; `None` if it has none.
pub(super) fn name_of<'n, N: Copy + PartialEq>(
    names: &[(N, &'n str)],
    number: N,
) -> Option<&'n str> {
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Result<u8, TruncatedHeader> {
    bytes.get(at).copied().ok_or(TruncatedHeader)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Result<u16, TruncatedHeader> {
    array(bytes, at).map(u16::from_be_bytes).ok_or(TruncatedHeader)
}

pub(super) fn u24_at(bytes: &[u8], at: usize) -> Result<u32, TruncatedHeader> {
    let [a, b, c] = array(bytes, at).ok_or(TruncatedHeader)?;
    Ok(u32::from_be_bytes([0, a, b, c]))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, TruncatedHeader> {
    array(bytes, at).map(u32::from_be_bytes).ok_or(TruncatedHeader)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Result<u64, TruncatedHeader> {
    array(bytes, at).map(u64::from_be_bytes).ok_or(TruncatedHeader)
}

pub(super) fn v4_at(bytes: &[u8], at: usize) -> Result<Ipv4Addr, TruncatedHeader> {
    array::<4>(bytes, at).map(Ipv4Addr::from).ok_or(TruncatedHeader)
}

pub(super) fn v6_at(bytes: &[u8], at: usize) -> Result<Ipv6Text, TruncatedHeader> {
    array::<16>(bytes, at).map(|bytes| Ipv6Text(Ipv6Addr::from(bytes))).ok_or(TruncatedHeader)
}

pub(super) fn mac_at(bytes: &[u8], at: usize) -> Result<MacAddr, TruncatedHeader> {
    array::<6>(bytes, at).map(MacAddr).ok_or(TruncatedHeader)
}

/// Returns `len` bytes from offset `at` on; an error if they were not captured.
pub(super) fn slice_at(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], TruncatedHeader> {
    bytes.get(at..).and_then(|rest| rest.get(..len)).ok_or(TruncatedHeader)
}

/// Returns the bytes from offset `at` on; empty if `bytes` ends before.
pub(super) fn bytes_from(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Returns at most the first `len` bytes.
pub(super) fn upto(bytes: &[u8], len: usize) -> &[u8] {
    &bytes[..len.min(bytes.len())]
}

/// Formats an IPv6 address as inet_ntop(3) does.
#[derive(Clone, Copy)]
pub(super) struct Ipv6Text(pub(super) Ipv6Addr);

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Formats bytes as text; characters that a terminal could interpret are escaped as in tcpdump.
pub(super) struct PrintableText<'b>(pub(super) &'b [u8]);

impl fmt::Display for PrintableText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b' '..=b'~' => f.write_char(char::from(byte))?,
                // As tcpdump writes them: M-x for bytes above 127, ^x for control characters.
                128.. => {
                    f.write_str("M-")?;
                    match byte & 0x7f {
                        low @ 32..127 => f.write_char(char::from(low))?,
                        low => write!(f, "^{}", char::from(low ^ 0x40))?,
                    }
                }
                low => write!(f, "^{}", char::from(low ^ 0x40))?,
            }
        }
        Ok(())
    }
}

/// Formats bytes as hex, separated by colons.
pub(super) struct HwText<'p>(pub(super) &'p [u8]);

impl fmt::Display for HwText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("<empty>");
        }
        for (at, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if at > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

/// Writes bytes as hex, sixteen to a line, each line after `indent`.
pub(super) fn hex(line: &mut SummaryLine<'_>, bytes: &[u8], indent: &str) {
    for (index, row) in bytes.chunks(16).enumerate() {
        put!(line, "{indent}0x{:04x}: ", index * 16);
        for (at, byte) in row.iter().enumerate() {
            put!(line, "{}{byte:02x}", if at % 2 == 0 { " " } else { "" });
        }
    }
}
