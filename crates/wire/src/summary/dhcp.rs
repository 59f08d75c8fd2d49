//! Prints BOOTP and DHCP.

use super::dhcp_options::{DhcpOptionKind, option_by_number};
use super::text::{
    DecodeResult, HwText, PrintableText, SummaryLine, bytes_from, put, slice_at, u8_at, u16_at,
    u32_at, v4_at,
};

const LEN: usize = 236;
const MAGIC: u32 = 0x6382_5363;
const PAD: u8 = 0;
const END: u8 = 255;
const MESSAGES: [(u8, &str); 13] = [
    (1, "Discover"),
    (2, "Offer"),
    (3, "Request"),
    (4, "Decline"),
    (5, "ACK"),
    (6, "NACK"),
    (7, "Release"),
    (8, "Inform"),
    (9, "Force Renew"),
    (10, "Lease Query"),
    (11, "Lease Unassigned"),
    (12, "Lease Unknown"),
    (13, "Lease Active"),
];
/// How many option names there are per row in a list of requested options.
const OPTION_NAMES_PER_ROW: usize = 4;

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "bootp";
    put!(line, "BOOTP/DHCP, ");
    let (operation, hardware) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    let hw_len = u8_at(bytes, 2)?;
    line.name(
        &[(1, "Request"), (2, "Reply")],
        operation,
        format_args!("unknown (0x{operation:02x})"),
    );
    let is_ethernet = hardware == 1 && hw_len == 6;
    if is_ethernet && operation == 1 {
        put!(line, " from {}", HwText(slice_at(bytes, 28, 6)?));
    }
    put!(line, ", length {length}");
    if !line.is_verbose() {
        return Ok(());
    }
    u16_at(bytes, 8)?;
    if hardware != 1 {
        put!(line, ", htype {hardware}");
    }
    if !is_ethernet {
        put!(line, ", hlen {hw_len}");
    }
    header(line, bytes)?;
    if is_ethernet {
        put!(line, "\n\t  Client-Ethernet-Address {}", HwText(slice_at(bytes, 28, 6)?));
    }
    texts(line, bytes)?;
    vendor(line, bytes_from(bytes, LEN))
}

fn header(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let (hops, xid, seconds) = (u8_at(bytes, 3)?, u32_at(bytes, 4)?, u16_at(bytes, 8)?);
    if hops > 0 {
        put!(line, ", hops {hops}");
    }
    if xid != 0 {
        put!(line, ", xid 0x{xid:x}");
    }
    if seconds > 0 {
        put!(line, ", secs {seconds}");
    }
    put!(line, ", Flags [");
    line.bits(&[(0x8000, "Broadcast")], u32::from(u16_at(bytes, 10)?), ", ");
    put!(line, "]");
    if line.detail.verbose > 1 {
        put!(line, " (0x{:04x})", u16_at(bytes, 10)?);
    }
    for (name, at) in [("Client", 12), ("Your", 16), ("Server", 20), ("Gateway", 24)] {
        let address = v4_at(bytes, at)?;
        if !address.is_unspecified() {
            put!(line, "\n\t  {name}-IP {address}");
        }
    }
    Ok(())
}

/// Writes the names of the server and of the boot file.
fn texts(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    for (name, at, len) in [("sname", 44, 64), ("file", 108, 128)] {
        if u8_at(bytes, at)? == 0 {
            continue;
        }
        let text = bytes_from(bytes, at);
        let text = &text[..len.min(text.len())];
        let end = text.iter().position(|&byte| byte == 0);
        put!(line, "\n\t  {name} \"{}", PrintableText(&text[..end.unwrap_or(text.len())]));
        put!(line, "\"");
        if end.is_none() {
            return Err(super::text::TruncatedHeader);
        }
    }
    Ok(())
}

fn vendor(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    if u32_at(bytes, 0)? != MAGIC {
        if u32_at(bytes, 0)? != 0 {
            put!(line, "\n\t  Vendor-#0x{:x}", u32_at(bytes, 0)?);
        }
        return Ok(());
    }
    put!(line, "\n\t  Vendor-rfc1048 Extensions\n\t    Magic Cookie 0x{MAGIC:08x}");
    let mut left = bytes_from(bytes, 4);
    while let [number, more @ ..] = left {
        match *number {
            PAD => {
                let pads = left.iter().take_while(|&&byte| byte == PAD).count();
                if line.detail.verbose > 2 {
                    put!(line, "\n\t    PAD (0), length 0");
                    if pads > 1 {
                        put!(line, ", occurs {pads}");
                    }
                }
                left = &left[pads..];
            }
            END => {
                if line.detail.verbose > 2 {
                    put!(line, "\n\t    END (255), length 0");
                }
                left = more;
            }
            number => {
                let len = usize::from(u8_at(more, 0)?);
                let (name, kind) = option_by_number(number).unwrap_or(("Unknown", guessed(len)));
                put!(
                    line,
                    "\n\t    {name} ({number}), length {len}{}",
                    if len > 0 { ": " } else { "" }
                );
                option(line, kind, slice_at(more, 1, len)?)?;
                left = &more[1 + len..];
            }
        }
    }
    Ok(())
}

/// Guesses the kind of content of an unknown option from its length, as tcpdump does.
fn guessed(len: usize) -> DhcpOptionKind {
    match len {
        0 => DhcpOptionKind::Bytes,
        len if len % 4 == 0 => DhcpOptionKind::Long,
        len if len % 2 == 0 => DhcpOptionKind::Short,
        _ => DhcpOptionKind::Bytes,
    }
}

fn option(line: &mut SummaryLine<'_>, kind: DhcpOptionKind, data: &[u8]) -> DecodeResult {
    match kind {
        DhcpOptionKind::Text => put!(line, "\"{}\"", PrintableText(data)),
        DhcpOptionKind::Addresses => each(line, data, 4, |line, part| {
            put!(line, "{}.{}.{}.{}", part[0], part[1], part[2], part[3])
        }),
        DhcpOptionKind::Long => each(line, data, 4, |line, part| {
            put!(line, "{}", u32::from_be_bytes([part[0], part[1], part[2], part[3]]));
        }),
        DhcpOptionKind::Short => each(line, data, 2, |line, part| {
            put!(line, "{}", u16::from_be_bytes([part[0], part[1]]));
        }),
        DhcpOptionKind::Pairs => each(line, data, 8, |line, part| {
            put!(line, "({}.{}.{}.{}:", part[0], part[1], part[2], part[3]);
            put!(line, "{}.{}.{}.{})", part[4], part[5], part[6], part[7]);
        }),
        DhcpOptionKind::Flag => each(line, data, 1, |line, part| match part[0] {
            0 => put!(line, "N"),
            1 => put!(line, "Y"),
            other => put!(line, "{other}?"),
        }),
        DhcpOptionKind::Message if data.len() == 1 => {
            line.name(&MESSAGES, data[0], format_args!("Unknown ({})", data[0]));
        }
        DhcpOptionKind::Overload => overload(line, data),
        DhcpOptionKind::Requested => requested(line, data),
        DhcpOptionKind::ClientId => client(line, data)?,
        DhcpOptionKind::Classes => classes(line, data)?,
        DhcpOptionKind::Agent => agent(line, data)?,
        DhcpOptionKind::Name => name(line, data),
        DhcpOptionKind::Routes => routes(line, data)?,
        _ => {
            for (at, byte) in data.iter().enumerate() {
                put!(line, "{}{byte}", if at == 0 { "" } else { "." });
            }
        }
    }
    Ok(())
}

fn overload(line: &mut SummaryLine<'_>, data: &[u8]) {
    let [fields, left @ ..] = data else { return };
    let names = [(1, "file"), (2, "sname"), (3, "file+sname")];
    line.name(&names, *fields, format_args!("#{fields}"));
    if !left.is_empty() {
        put!(line, "\n\t  trailing data length {}", left.len());
    }
}

/// Writes the parts of `size` bytes, separated by commas, and then the number of remaining bytes.
fn each(
    line: &mut SummaryLine<'_>,
    data: &[u8],
    size: usize,
    write: impl Fn(&mut SummaryLine<'_>, &[u8]),
) {
    for (at, part) in data.chunks_exact(size).enumerate() {
        put!(line, "{}", if at == 0 { "" } else { "," });
        write(line, part);
    }
    let left = data.len() % size;
    if left > 0 {
        put!(line, "\n\t  trailing data length {left}");
    }
}

fn requested(line: &mut SummaryLine<'_>, data: &[u8]) {
    for (at, &number) in data.iter().enumerate() {
        put!(line, "{}", if at % OPTION_NAMES_PER_ROW == 0 { "\n\t      " } else { ", " });
        put!(line, "{} ({number})", option_by_number(number).map_or("Unknown", |(name, _)| name));
    }
}

fn client(line: &mut SummaryLine<'_>, data: &[u8]) -> DecodeResult {
    match data {
        [] => {}
        [0, text @ ..] => put!(line, "\"{}\"", PrintableText(text)),
        [1, address @ ..] => put!(line, "ether {}", ColonHex(address)),
        [hardware, address @ ..] => put!(line, "hardware-type {hardware}, {}", ColonHex(address)),
    }
    Ok(())
}

/// Formats bytes as hex, separated by colons. An empty slice becomes an empty text.
struct ColonHex<'b>(&'b [u8]);

impl core::fmt::Display for ColonHex<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { HwText(self.0).fmt(f) }
    }
}

fn agent(line: &mut SummaryLine<'_>, mut data: &[u8]) -> DecodeResult {
    const NAMES: [(u8, &str); 5] = [
        (1, "Circuit-ID"),
        (2, "Remote-ID"),
        (5, "Link-selection"),
        (6, "Subscriber-ID"),
        (11, "Server-ID-Override"),
    ];
    while data.len() >= 2 {
        let (kind, len) = (data[0], usize::from(data[1]));
        put!(line, "\n\t      ");
        line.name(&NAMES, kind, format_args!("Unknown"));
        put!(line, " SubOption {kind}, length {len}: ");
        let text = slice_at(data, 2, len)?;
        if matches!(kind, 1 | 2 | 6) {
            put!(line, "{}", PrintableText(text));
        }
        data = &data[2 + len..];
    }
    Ok(())
}

fn classes(line: &mut SummaryLine<'_>, mut data: &[u8]) -> DecodeResult {
    for nth in 1.. {
        let [len, more @ ..] = data else { break };
        let text = slice_at(more, 0, usize::from(*len))?;
        put!(line, "\n\t      instance#{nth}: \"{}\", length {len}", PrintableText(text));
        data = &more[text.len()..];
    }
    Ok(())
}

fn name(line: &mut SummaryLine<'_>, data: &[u8]) {
    let [flags, answers @ ..] = data else {
        put!(line, "[ERROR: length < 3 bytes]");
        return;
    };
    let [first, second, text @ ..] = answers else {
        put!(line, "[ERROR: length < 3 bytes]");
        return;
    };
    if flags & 0xf0 != 0 {
        put!(line, "[ERROR: MBZ nibble 0x{:x} != 0] ", flags >> 4);
    }
    if flags & 0x0f != 0 {
        put!(line, "[");
        for (bit, letter) in [(1, "S"), (2, "O"), (4, "E"), (8, "N")] {
            put!(line, "{}", if flags & bit == 0 { "" } else { letter });
        }
        put!(line, "] ");
    }
    if *first != 0 || *second != 0 {
        put!(line, "{first}/{second} ");
    }
    put!(line, "\"{}\"", PrintableText(text));
}

fn routes(line: &mut SummaryLine<'_>, mut data: &[u8]) -> DecodeResult {
    if data.len() < 5 {
        put!(line, "[ERROR: length < 5 bytes]");
        return Ok(());
    }
    let mut between = "";
    while let [width, more @ ..] = data {
        if *width > 32 {
            put!(line, "{between}[ERROR: Mask width ({width}) > 32]");
            return Ok(());
        }
        let octets = usize::from(*width).div_ceil(8);
        let network = slice_at(more, 0, octets)?;
        put!(line, "{between}(");
        match octets {
            0 => put!(line, "default"),
            _ => {
                for at in 0..4 {
                    put!(
                        line,
                        "{}{}",
                        if at == 0 { "" } else { "." },
                        network.get(at).copied().unwrap_or(0)
                    );
                }
                put!(line, "/{width}");
            }
        }
        put!(line, ":{})", v4_at(more, octets)?);
        between = ",";
        data = &more[octets + 4..];
    }
    Ok(())
}
