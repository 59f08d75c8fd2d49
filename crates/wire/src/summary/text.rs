//! Functions with which decoders read bytes and append text. If a decoder reads beyond the captured
//! bytes, the line ends.

use alloc::string::String;
use core::fmt::{self, Write};
use core::net::{Ipv4Addr, Ipv6Addr};

use super::conversations::Conversations;
use super::detail::Detail;
use super::dump::HexDump;
use crate::field::array;
use crate::mac::MacAddr;

/// The captured bytes ended within a header. The line then ends with `[|` and the name of the
/// protocol.
pub(super) struct TruncatedHeader;

/// The result of a decoder: an error if the captured bytes ended within a header.
pub(super) type DecodeResult = Result<(), TruncatedHeader>;

/// The kinds of packets that a packet can contain, in a tunnel or quoted in an ICMP error.
#[derive(Clone, Copy)]
pub(super) enum Encapsulated {
    Ethernet,
    Ipv4,
    Ipv6,
}

/// A function that writes a packet which is contained in another packet. The inner packet had
/// `length` bytes on the wire.
pub(super) type InnerDecoder =
    fn(&mut SummaryLine<'_>, packet: Encapsulated, bytes: &[u8], length: usize) -> DecodeResult;

/// The text of a frame while it is written, and the settings for it.
pub(super) struct SummaryLine<'s> {
    pub(super) text: String,
    pub(super) detail: Detail,
    /// Whether the link layer's header is printed.
    pub(super) link: bool,
    /// Name of the protocol that is being decoded. It is printed if the captured bytes end.
    pub(super) protocol: &'static str,
    /// How many nested headers [`Self::enter`] has counted.
    pub(super) depth: u8,
    pub(super) conversations: Option<&'s mut Conversations>,
    /// The function that knows all decoders. The decoders of outer headers call it for inner
    /// packets.
    pub(super) decode_inner: InnerDecoder,
}

/// Maximum number of nested headers. It limits the stack that a malicious packet can use.
const MAX_DEPTH: u8 = 16;

impl SummaryLine<'_> {
    /// Appends formatted text to the line.
    pub(super) fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }

    /// Appends the name of a number, or `unknown` if it has no name.
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

    /// Appends the names of the bits that are set, separated by `between`. If none is set, appends
    /// `none`.
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

    /// Appends `[|` and the name of the protocol, because the captured bytes ended.
    pub(super) fn cut(&mut self) {
        let protocol = self.protocol;
        self.put(format_args!(" [|{protocol}]"));
    }

    /// Appends bytes that are not decoded, as hex and text on separate lines. Appends nothing if
    /// the caller prints all bytes anyway, or `-q` was given.
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

    /// Returns whether `-v` was given.
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

    /// Counts a nested header. Returns `false` if there are more than [`MAX_DEPTH`].
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

/// Returns the name of a number in a table; `None` if it has no name.
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

/// Returns the `len` bytes from offset `at` on, or an error if they were not captured.
pub(super) fn slice_at(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], TruncatedHeader> {
    bytes.get(at..).and_then(|rest| rest.get(..len)).ok_or(TruncatedHeader)
}

/// Returns the bytes from offset `at` on. If `bytes` ends before `at`, returns an empty slice.
pub(super) fn bytes_from(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Returns the first `len` bytes, or all bytes if there are fewer.
pub(super) fn upto(bytes: &[u8], len: usize) -> &[u8] {
    &bytes[..len.min(bytes.len())]
}

/// Formats an IPv6 address as inet_ntop(3) does.
#[derive(Clone, Copy)]
pub(super) struct Ipv6Text(pub(super) Ipv6Addr);

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.segments() {
            // inet_ntop(3) writes the last 32 bits as an IPv4 address if exactly the 96 bits before
            // them are the longest run of zeros.
            [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
                write!(f, "::{}", Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
            }
            _ => self.0.fmt(f),
        }
    }
}

/// Formats bytes as text. Characters that a terminal could interpret are escaped as in tcpdump.
pub(super) struct PrintableText<'b>(pub(super) &'b [u8]);

impl fmt::Display for PrintableText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b' '..=b'~' => f.write_char(char::from(byte))?,
                // As in tcpdump, bytes above 127 are written as M-x, and control characters as ^x.
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

/// Writes bytes as hex, sixteen to a line. Each line starts with `indent`.
pub(super) fn hex(line: &mut SummaryLine<'_>, bytes: &[u8], indent: &str) {
    for (index, row) in bytes.chunks(16).enumerate() {
        put!(line, "{indent}0x{:04x}: ", index * 16);
        for (at, byte) in row.iter().enumerate() {
            put!(line, "{}{byte:02x}", if at % 2 == 0 { " " } else { "" });
        }
    }
}
