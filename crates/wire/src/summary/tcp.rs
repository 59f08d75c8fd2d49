//! Prints TCP: flags, numbers, window, options, payload.

use super::conversations::SegmentNumbers;
use super::ip_carrier::{IpCarrier, IpEndpoints, checked};
use super::text::{
    DecodeResult, PrintableText, SummaryLine, TruncatedHeader, bytes_from, put, slice_at, u8_at,
    u16_at, u32_at, upto,
};
use super::{dns, text_protocols};
use crate::assigned::IpProto;

const MIN_LEN: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
/// The flag bits, and tcpdump's letters for them, in tcpdump's order.
const FLAG_LETTERS: [(u32, &str); 8] = [
    (0x01, "F"),
    (0x02, "S"),
    (0x04, "R"),
    (0x08, "P"),
    (0x10, "."),
    (0x20, "U"),
    (0x40, "E"),
    (0x80, "W"),
];

/// The fields of the fixed TCP header.
struct TcpHeader {
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    urgent: u16,
}

impl TcpHeader {
    fn read(bytes: &[u8], ports: (u16, u16)) -> Result<Self, TruncatedHeader> {
        let [seq, ack] = [u32_at(bytes, 4)?, u32_at(bytes, 8)?];
        let (flags, window, urgent) = (u8_at(bytes, 13)?, u16_at(bytes, 14)?, u16_at(bytes, 18)?);
        Ok(Self { ports, seq, ack, flags, window, urgent })
    }
}

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "tcp";
    let Ok(ports) = u16_at(bytes, 0).and_then(|from| Ok((from, u16_at(bytes, 2)?))) else {
        carrier.write_endpoints(line, IpProto::TCP, None);
        line.text.pop();
        line.cut();
        return Ok(());
    };
    carrier.write_endpoints(line, IpProto::TCP, Some(ports));
    let len = usize::from(u8_at(bytes, 12)? >> 4) * 4;
    if len < MIN_LEN {
        let left = length as i64 - len as i64;
        put!(line, " tcp {} [bad hdr length {len} - too short, < {MIN_LEN}]", left as u32);
        return Ok(());
    }
    let header = TcpHeader::read(bytes, ports)?;
    if line.detail.is_quick {
        put!(line, "tcp {}", (length as u32).wrapping_sub(len as u32));
    } else {
        put!(line, "Flags [");
        line.bits(&FLAG_LETTERS, u32::from(header.flags), "");
        put!(line, "]");
    }
    let numbers = if line.detail.is_quick { None } else { relative(line, &header, carrier) };
    if len > length {
        put!(line, " [bad hdr length {len} - too long, > {length}]");
        return Ok(());
    }
    if line.detail.is_quick {
        return Ok(());
    }
    if line.is_verbose() && line.detail.checksums && !carrier.is_fragment {
        checksum(line, bytes, length, carrier);
    }
    let left = length - len;
    write_numbers(line, &header, left, numbers.as_ref());
    if len > MIN_LEN && !options(line, bytes_from(bytes, MIN_LEN), len - MIN_LEN, numbers.as_ref())?
    {
        return Ok(());
    }
    put!(line, ", length {left}");
    if left > 0 { payload(line, &header, bytes_from(bytes, len), left) } else { Ok(()) }
}

/// Returns the numbers to print, relative to the start of the conversation if it is known. Returns
/// `None` if the numbers in the header must be printed: the segment has no ACK, `-S` was given, or
/// no conversations are remembered.
fn relative(
    line: &mut SummaryLine<'_>,
    header: &TcpHeader,
    carrier: &IpCarrier,
) -> Option<SegmentNumbers> {
    if line.detail.is_absolute || header.flags & ACK == 0 {
        return None;
    }
    let ends = match carrier.ends {
        IpEndpoints::V4(src, dst) => (src.into(), dst.into()),
        IpEndpoints::V6(src, dst, _) => (src.0.into(), dst.0.into()),
    };
    let is_start = header.flags & SYN != 0;
    let conversations = line.conversations.as_mut()?;
    Some(conversations.numbers(ends, header.ports, (header.seq, header.ack), is_start))
}

fn checksum(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize, carrier: &IpCarrier) {
    let sum = carrier.pseudo(IpProto::TCP, length);
    match checked(sum, bytes, length, 16) {
        Some((found, right)) if found == right => put!(line, ", cksum 0x{found:04x} (correct)"),
        Some((found, right)) => {
            put!(line, ", cksum 0x{found:04x} (incorrect -> 0x{right:04x})");
        }
        None => {}
    }
}

/// Writes `, seq 1:101, ack 7, win 502`. The sequence number is written only if the segment has a
/// payload, SYN, FIN or RST, or if `-v` was given at least twice.
fn write_numbers(
    line: &mut SummaryLine<'_>,
    header: &TcpHeader,
    length: usize,
    numbers: Option<&SegmentNumbers>,
) {
    let (seq, ack) = numbers.map_or((header.seq, header.ack), |numbers| (numbers.seq, numbers.ack));
    if line.detail.verbose > 1 || length > 0 || header.flags & (SYN | FIN | RST) != 0 {
        put!(line, ", seq {seq}");
        if length > 0 {
            put!(line, ":{}", seq.wrapping_add(length as u32));
        }
    }
    if header.flags & ACK != 0 {
        put!(line, ", ack {ack}");
    }
    put!(line, ", win {}", header.window);
    if header.flags & URG != 0 {
        put!(line, ", urg {}", header.urgent);
    }
}

const OPTIONS: [(u8, &str); 18] = [
    (0, "eol"),
    (1, "nop"),
    (2, "mss"),
    (3, "wscale"),
    (4, "sackOK"),
    (5, "sack"),
    (6, "echo"),
    (7, "echoreply"),
    (8, "TS"),
    (11, "cc"),
    (12, "ccnew"),
    (13, "ccecho"),
    (19, "md5"),
    (20, "scps"),
    (28, "uto"),
    (29, "tcp-ao"),
    (30, "mptcp"),
    (34, "tfo"),
];
const END: u8 = 0;
const NOP: u8 = 1;

/// Writes the options. Returns `false` if they are invalid. The line ends after them in this case.
fn options(
    line: &mut SummaryLine<'_>,
    mut bytes: &[u8],
    mut length: usize,
    numbers: Option<&SegmentNumbers>,
) -> Result<bool, TruncatedHeader> {
    put!(line, ", options [");
    let mut between = "";
    while length > 0 {
        put!(line, "{between}");
        between = ",";
        let kind = u8_at(bytes, 0)?;
        let len = match kind {
            END | NOP => 1,
            _ => usize::from(u8_at(bytes, 1)?),
        };
        if len > length || (len < 2 && !matches!(kind, END | NOP)) {
            put!(line, "[bad opt]");
            return Ok(false);
        }
        line.name(&OPTIONS, kind, format_args!("unknown-{kind}"));
        let option_bytes = option(line, kind, slice_at(bytes, 0, len), bytes, len, numbers)?;
        let Some(used) = option_bytes else {
            put!(line, "[bad opt]");
            return Ok(false);
        };
        if used != len {
            put!(line, "[len {len}]");
        }
        bytes = bytes_from(bytes, used);
        length -= used;
        if kind == END {
            break;
        }
    }
    put!(line, "]");
    Ok(true)
}

/// Writes an option. Returns its correct length, or `None` if it is too short.
fn option(
    line: &mut SummaryLine<'_>,
    kind: u8,
    whole: Result<&[u8], TruncatedHeader>,
    bytes: &[u8],
    len: usize,
    numbers: Option<&SegmentNumbers>,
) -> Result<Option<usize>, TruncatedHeader> {
    let fixed = match kind {
        END | NOP => 1,
        2 | 28 => 4,
        3 => 3,
        4 => 2,
        6 | 7 | 11..=13 => 6,
        8 => 10,
        19 => 18,
        _ => len,
    };
    if fixed > len {
        return Ok(None);
    }
    let data = &match whole {
        Ok(whole) => whole,
        Err(_) => slice_at(bytes, 0, fixed)?,
    }[fixed.min(2)..];
    match kind {
        2 => put!(line, " {}", u16_at(data, 0)?),
        3 => put!(line, " {}", u8_at(data, 0)?),
        5 => sack(line, data, numbers)?,
        6 | 7 | 11..=13 => put!(line, " {}", u32_at(data, 0)?),
        8 => put!(line, " val {} ecr {}", u32_at(data, 0)?, u32_at(data, 4)?),
        19 => {
            put!(line, " shared secret not supplied with -M, can't check - ");
            data.iter().take(16).for_each(|byte| put!(line, "{byte:02x}"));
        }
        28 => user_timeout(line, u16_at(data, 0)?),
        34 => fast_open(line, data),
        END | NOP | 4 => {}
        _ => {
            for (at, byte) in data.iter().enumerate() {
                put!(line, "{}{byte:02x}", if at == 0 { " 0x" } else { "" });
            }
        }
    }
    Ok(Some(fixed))
}

fn sack(line: &mut SummaryLine<'_>, data: &[u8], numbers: Option<&SegmentNumbers>) -> DecodeResult {
    if !data.len().is_multiple_of(8) {
        put!(line, " invalid sack");
        return Ok(());
    }
    let base = numbers.map_or(0, |numbers| numbers.peer_base);
    put!(line, " {} ", data.len() / 8);
    for block in data.chunks(8) {
        let at = |at| u32_at(block, at).map(|number| number.wrapping_sub(base));
        put!(line, "{{{}:{}}}", at(0)?, at(4)?);
    }
    Ok(())
}

fn user_timeout(line: &mut SummaryLine<'_>, word: u16) {
    // tcpdump reads the lowest bit as the unit: 0 means seconds and 1 means minutes.
    let unit = if word & 1 == 0 { 1 } else { 60 };
    put!(line, " 0x{word:x} {}", u32::from(word >> 1) * unit);
}

fn fast_open(line: &mut SummaryLine<'_>, cookie: &[u8]) {
    put!(line, "  ");
    if cookie.is_empty() {
        put!(line, "cookiereq");
    } else if !cookie.len().is_multiple_of(2) || !(4..=16).contains(&cookie.len()) {
        put!(line, "invalid");
    } else {
        put!(line, "cookie ");
        cookie.iter().for_each(|byte| put!(line, "{byte:02x}"));
    }
}

/// Writes the payload if a port says which protocol it has. With `-v`, writes the payload of a RST
/// as text.
fn payload(
    line: &mut SummaryLine<'_>,
    header: &TcpHeader,
    bytes: &[u8],
    length: usize,
) -> DecodeResult {
    if header.flags & RST != 0 && line.is_verbose() {
        let option_bytes = upto(bytes, length);
        put!(line, " [RST {}]", PrintableText(option_bytes));
        return if option_bytes.len() < length { Err(TruncatedHeader) } else { Ok(()) };
    }
    let (from, to) = header.ports;
    if let Some(protocol) = text_protocols::of_ports(from, to) {
        return text_protocols::line(line, protocol, upto(bytes, length), length);
    }
    if from == 53 || to == 53 {
        return dns::over_tcp(line, upto(bytes, length), length);
    }
    Ok(())
}
