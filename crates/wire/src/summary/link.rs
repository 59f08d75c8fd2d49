//! Prints Ethernet (addresses, type, VLAN tags), LLC and SNAP, and passes the payload on to its
//! decoder.

use super::text::{
    DecodeResult, SummaryLine, TruncatedHeader, bytes_from, mac_at, put, u8_at, u16_at, u24_at,
    upto,
};
use super::{arp, ip, ip6, stp};
use crate::assigned::EtherType;

const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// The largest value of the type field that is a length and not a type.
const MAX_LENGTH: u16 = 1500;

/// Writes a frame that had `length` bytes on the wire. Sets `header_len` to the number of bytes
/// before the payload, once this is known.
pub(super) fn frame(
    line: &mut SummaryLine<'_>,
    frame: &[u8],
    length: usize,
    header_len: &mut usize,
) -> DecodeResult {
    line.protocol = "ether";
    if frame.len() < HEADER_LEN || length < HEADER_LEN {
        return Err(TruncatedHeader);
    }
    let mut ethertype = EtherType(u16_at(frame, 12)?);
    let mut at = HEADER_LEN;
    if line.link {
        put!(line, "{} > {}, ", mac_at(frame, 6)?, mac_at(frame, 0)?);
    }
    let mut tags = 0;
    while ethertype.is_vlan() {
        match tag(line, frame, length, at, (ethertype, tags))? {
            Some(inner) => ethertype = inner,
            None => return Ok(()),
        }
        at += TAG_LEN;
        tags += 1;
    }
    if ethertype.0 <= MAX_LENGTH {
        if line.link {
            put!(line, "802.3, length {}: ", ethertype.0);
        }
        let claimed = usize::from(ethertype.0).min(length - at);
        let packet = upto(bytes_from(frame, at), claimed);
        *header_len = at;
        return llc(line, frame, packet, claimed, header_len);
    }
    if line.link {
        type_of(line, ethertype, length, tags);
    }
    *header_len = at;
    if !payload(line, ethertype, frame, at, length - at)? {
        if !line.link {
            put!(line, "{} > {}, ", mac_at(frame, 6)?, mac_at(frame, 0)?);
            type_of(line, ethertype, length, 0);
        }
        line.bytes(bytes_from(frame, at));
    }
    Ok(())
}

/// Writes the VLAN tag at offset `at`. It follows the type `outer` and `tags` other tags. Returns
/// the type after it; `None` if the frame is truncated.
fn tag(
    line: &mut SummaryLine<'_>,
    frame: &[u8],
    length: usize,
    at: usize,
    (outer, tags): (EtherType, u32),
) -> Result<Option<EtherType>, TruncatedHeader> {
    if frame.len() < at + TAG_LEN || length < at + TAG_LEN {
        line.protocol = "vlan";
        line.cut();
        return Ok(None);
    }
    let tag = u16_at(frame, at)?;
    if line.link {
        type_of(line, outer, length, tags);
        put!(line, "vlan {}, p {}, ", tag & 0xfff, tag >> 13);
        put!(line, "{}", if tag & 0x1000 == 0 { "" } else { "DEI, " });
    }
    Ok(Some(EtherType(u16_at(frame, at + 2)?)))
}

/// Writes `ethertype IPv4 (0x0800), length 60: `. The length is written only after the first type
/// of a frame.
fn type_of(line: &mut SummaryLine<'_>, ethertype: EtherType, length: usize, tags: u32) {
    type_text(line, ethertype);
    if tags == 0 {
        put!(line, ", length {length}: ");
    } else {
        put!(line, ", ");
    }
}

fn type_text(line: &mut SummaryLine<'_>, ethertype: EtherType) {
    let number = ethertype.0;
    match (ethertype.name(), line.detail.is_quick) {
        (Some(name), true) => put!(line, "{name}"),
        (Some(name), false) => put!(line, "ethertype {name} (0x{number:04x})"),
        (None, true) => put!(line, "Unknown Ethertype (0x{number:04x})"),
        (None, false) => put!(line, "ethertype Unknown (0x{number:04x})"),
    }
}

/// Writes the payload of a frame. Returns `false` if the type is unknown.
pub(super) fn payload(
    line: &mut SummaryLine<'_>,
    ethertype: EtherType,
    frame: &[u8],
    at: usize,
    length: usize,
) -> Result<bool, TruncatedHeader> {
    let packet = bytes_from(frame, at);
    match ethertype.0 {
        0x0800 => ip::packet(line, packet, length)?,
        0x86dd => ip6::packet(line, packet, length)?,
        0x0806 | 0x8035 => arp::line(line, packet, length)?,
        0x9000 => loopback(line, packet, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}

const LOOPBACK_REPLY: u16 = 1;
const LOOPBACK_FORWARD: u16 = 2;

/// Writes Ethernet's configuration testing protocol. Its numbers are little-endian.
fn loopback(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "loopback";
    put!(line, "Loopback");
    if length < 2 {
        put!(line, " (packet length {length} < 2) (invalid)");
        return Ok(());
    }
    let skip = u16_at(packet, 0)?.swap_bytes();
    put!(line, ", skipCount {skip}");
    if skip % 8 != 0 {
        put!(line, " (bogus)");
    }
    let function_at = 2 + usize::from(skip);
    if function_at + 2 > length {
        put!(line, " (invalid)");
        return Ok(());
    }
    let function = u16_at(packet, function_at)?.swap_bytes();
    let (at, left) = (function_at + 2, length - function_at - 2);
    put!(line, ", ");
    line.name(
        &[(LOOPBACK_REPLY, "Reply"), (LOOPBACK_FORWARD, "Forward Data")],
        function,
        format_args!("unknown ({function})"),
    );
    match function {
        LOOPBACK_REPLY if left >= 2 => {
            let number = u16_at(packet, at)?.swap_bytes();
            put!(line, ", receipt number {number}, data ({} octets)", left - 2);
        }
        LOOPBACK_FORWARD if left >= 6 => {
            put!(line, ", forwarding address {}, data ({} octets)", mac_at(packet, at)?, left - 6);
        }
        LOOPBACK_REPLY | LOOPBACK_FORWARD => put!(line, " (invalid)"),
        _ => {}
    }
    Ok(())
}

const SAPS: [(u8, &str); 13] = [
    (0x00, "Null"),
    (0x02, "802.1B I"),
    (0x03, "802.1B G"),
    (0x06, "IP"),
    (0x0e, "ProWay NM"),
    (0x42, "STP"),
    (0x8e, "ProWay"),
    (0x80, "802.1? 3Com"),
    (0xaa, "SNAP"),
    (0xe0, "IPX"),
    (0xf0, "NetBeui"),
    (0xfe, "OSI"),
    (0xff, "Global"),
];

/// Writes LLC. Adds the length of its header to `link_len`.
fn llc(
    line: &mut SummaryLine<'_>,
    frame: &[u8],
    packet: &[u8],
    length: usize,
    link_len: &mut usize,
) -> DecodeResult {
    line.protocol = "llc";
    if packet.len() < 3 || length < 3 {
        *link_len += packet.len();
        line.cut();
        line.bytes_always(packet);
        return Ok(());
    }
    let (dsap, ssap) = (u8_at(packet, 0)?, u8_at(packet, 1)?);
    let is_unnumbered = packet[2] & 3 == 3;
    let (control, header_len) = match is_unnumbered {
        true => (u16::from(packet[2]), 3),
        false if packet.len() < 4 || length < 4 => {
            *link_len += packet.len();
            line.cut();
            line.bytes(packet);
            return Ok(());
        }
        false => (u16_at(packet, 2)?.swap_bytes(), 4),
    };
    if line.link {
        llc_header(line, dsap, ssap, control, is_unnumbered);
    }
    let inner = bytes_from(packet, header_len);
    let left = length - header_len;
    if (dsap, ssap, control) == (0xaa, 0xaa, 3) && is_unnumbered {
        return snap(line, frame, packet, length, link_len);
    }
    *link_len += header_len;
    match (dsap, ssap, control) {
        (0x42, 0x42, 3) if is_unnumbered => stp::line(line, inner, left)?,
        (0x06, 0x06, 3) if is_unnumbered => ip::packet(line, inner, left)?,
        _ => {
            if !line.link {
                put!(line, "{} > {} ", mac_at(frame, 6)?, mac_at(frame, 0)?);
                saps(line, dsap, ssap);
            }
            llc_kind(line, control, is_unnumbered, length, header_len);
            line.bytes(packet);
        }
    }
    Ok(())
}

/// Writes an LLC header, such as `LLC, dsap STP (0x42) Individual, ssap STP (0x42) Command, ctrl
/// 0x03: `.
fn llc_header(line: &mut SummaryLine<'_>, dsap: u8, ssap: u8, control: u16, is_unnumbered: bool) {
    put!(line, "LLC, dsap ");
    line.name(&SAPS, dsap & 0xfe, format_args!("Unknown"));
    put!(line, " (0x{:02x}) ", dsap & 0xfe);
    put!(line, "{}, ssap ", if dsap & 1 == 0 { "Individual" } else { "Group" });
    line.name(&SAPS, ssap & 0xfe, format_args!("Unknown"));
    put!(line, " (0x{:02x}) ", ssap & 0xfe);
    put!(line, "{}", if ssap & 1 == 0 { "Command" } else { "Response" });
    match is_unnumbered {
        true => put!(line, ", ctrl 0x{control:02x}: "),
        false => put!(line, ", ctrl 0x{control:04x}: "),
    }
}

fn saps(line: &mut SummaryLine<'_>, dsap: u8, ssap: u8) {
    let (d, s) = (dsap & 0xfe, ssap & 0xfe);
    line.name(&SAPS, s, format_args!("Unknown SAP 0x{s:02x}"));
    if d != s {
        put!(line, " > ");
        line.name(&SAPS, d, format_args!("Unknown SAP 0x{d:02x}"));
    }
    put!(line, " ");
}

const UNNUMBERED: [(u16, &str); 9] = [
    (0x03, "ui"),
    (0x63, "ua"),
    (0x43, "disc"),
    (0x0f, "dm"),
    (0x6f, "sabme"),
    (0xe3, "test"),
    (0xaf, "xid"),
    (0x87, "frmr"),
    (0x07, "rd"),
];

fn llc_kind(
    line: &mut SummaryLine<'_>,
    control: u16,
    is_unnumbered: bool,
    length: usize,
    header: usize,
) {
    let flags = |is_set: bool, name| if is_set { name } else { "Command" };
    if is_unnumbered {
        let kind = control & 0xef;
        put!(line, "Unnumbered, ");
        line.name(&UNNUMBERED, kind, format_args!("{kind:02x}"));
        put!(line, ", Flags [{}], length {length}", flags(control & 0x10 != 0, "Poll"));
    } else if control & 1 == 1 {
        let kinds = ["Receiver Ready", "Receiver not Ready", "Reject", "unknown"];
        let kind = kinds[usize::from(control >> 2 & 3)];
        let (poll, seq) = (control & 0x100 != 0, control >> 9);
        put!(line, "Supervisory, {kind}, rcv seq {seq}, ");
        put!(line, "Flags [{}], length {length}", flags(poll, "Poll"));
    } else {
        let (send, seq, poll) = (control >> 1 & 0x7f, control >> 9, control & 0x100 != 0);
        put!(line, "Information, send seq {send}, rcv seq {seq}, ");
        put!(line, "Flags [{}], length {}", flags(poll, "Poll"), length - header);
    }
}

const OUIS: [(u32, &str); 4] =
    [(0, "Ethernet"), (0x00_000c, "Cisco"), (0x00_80c2, "RFC2684"), (0x08_0007, "Appletalk")];

/// Writes SNAP. Adds the length of its header, eight bytes with the LLC header, to `link_len`.
fn snap(
    line: &mut SummaryLine<'_>,
    frame: &[u8],
    packet: &[u8],
    length: usize,
    link_len: &mut usize,
) -> DecodeResult {
    const LEN: usize = 8;
    line.protocol = "snap";
    if packet.len() < LEN || length < LEN {
        *link_len += packet.len();
        line.cut();
        line.bytes(packet);
        return Ok(());
    }
    *link_len += LEN;
    let (oui, kind) = (u24_at(packet, 3)?, EtherType(u16_at(packet, 6)?));
    let left = length - LEN;
    if line.link {
        snap_header(line, oui, kind, left);
    }
    let known = oui == 0 && payload(line, kind, packet, LEN, left)?;
    if !known {
        if !line.link {
            put!(line, "{} > {} SNAP, ", mac_at(frame, 6)?, mac_at(frame, 0)?);
            snap_kind(line, oui, kind, left);
        }
        line.bytes(packet);
    }
    Ok(())
}

fn snap_header(line: &mut SummaryLine<'_>, oui: u32, kind: EtherType, length: usize) {
    put!(line, "oui ");
    line.name(&OUIS, oui, format_args!("Unknown"));
    put!(line, " (0x{oui:06x}), ");
    pid(line, oui, kind);
    put!(line, ", length {length}: ");
}

fn snap_kind(line: &mut SummaryLine<'_>, oui: u32, kind: EtherType, length: usize) {
    if oui != 0 {
        put!(line, "oui ");
        line.name(&OUIS, oui, format_args!("Unknown"));
        put!(line, " (0x{oui:06x}), ");
    }
    pid(line, oui, kind);
    put!(line, ", length {length}: ");
}

fn pid(line: &mut SummaryLine<'_>, oui: u32, kind: EtherType) {
    if oui == 0 {
        let name = kind.name().unwrap_or("Unknown");
        put!(line, "ethertype {name} (0x{:04x})", kind.0);
    } else {
        put!(line, "pid Unknown (0x{:04x})", kind.0);
    }
}
