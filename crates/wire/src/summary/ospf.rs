//! Prints OSPF, version 2.

use super::ospf_lsa as lsa;
use super::text::{
    DecodeResult, PrintableText, SummaryLine, bytes_from, put, u8_at, u16_at, u32_at, upto, v4_at,
};

const LEN: usize = 24;
const MD5: u16 = 2;
const MD5_LEN: usize = 16;
const KINDS: [(u8, &str); 5] =
    [(1, "Hello"), (2, "Database Description"), (3, "LS-Request"), (4, "LS-Update"), (5, "LS-Ack")];
const DATABASE_FLAGS: [(u32, &str); 4] =
    [(0x08, "OOBResync"), (0x04, "Init"), (0x02, "More"), (0x01, "Master")];

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "ospf2";
    let (version, kind) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    let auth = u16_at(bytes, 14)?;
    // An MD5 digest follows the packet. It does not count in the packet's length.
    let (bytes, length) = match auth == MD5 && length >= MD5_LEN {
        true => (upto(bytes, length - MD5_LEN), length - MD5_LEN),
        false => (bytes, length),
    };
    put!(line, "OSPFv{version}, ");
    line.name(&KINDS, kind, format_args!("unknown LS-type {kind}"));
    put!(line, ", length {length}");
    if named_kind(kind).is_none() || !line.is_verbose() {
        return Ok(());
    }
    let claimed = usize::from(u16_at(bytes, 2)?);
    if claimed != length {
        put!(line, " [len {claimed}]");
    }
    put!(line, "\n\tRouter-ID {}", v4_at(bytes, 4)?);
    let area = v4_at(bytes, 8)?;
    match area.is_unspecified() {
        true => put!(line, ", Backbone Area"),
        false => put!(line, ", Area {area}"),
    }
    super::text::slice_at(bytes, 0, LEN)?;
    let auth = u16_at(bytes, 14)?;
    put!(line, ", Authentication Type: ");
    line.name(&[(0, "none"), (1, "simple"), (MD5, "MD5")], auth, format_args!("unknown"));
    put!(line, " ({auth})");
    if version != 2 {
        put!(line, " ospf [version {version}]");
        return Ok(());
    }
    authenticated(line, bytes, auth)?;
    body(line, kind, auth, bytes, claimed)
}

fn named_kind(kind: u8) -> Option<&'static str> {
    super::text::name_of(&KINDS, kind)
}

fn authenticated(line: &mut SummaryLine<'_>, bytes: &[u8], auth: u16) -> DecodeResult {
    match auth {
        1 => {
            let password = super::text::slice_at(bytes, 16, 8)?;
            let end = password.iter().position(|&byte| byte == 0).unwrap_or(password.len());
            put!(line, "\n\tSimple text password: {}", PrintableText(&password[..end]));
        }
        MD5 => {
            let (key, len, seq) = (u8_at(bytes, 18)?, u8_at(bytes, 19)?, u32_at(bytes, 20)?);
            put!(line, "\n\tKey-ID: {key}, Auth-Length: {len}");
            put!(line, ", Crypto Sequence Number: 0x{seq:08x}");
        }
        _ => {}
    }
    Ok(())
}

fn body(
    line: &mut SummaryLine<'_>,
    kind: u8,
    auth: u16,
    packet: &[u8],
    claimed: usize,
) -> DecodeResult {
    if auth > MD5 {
        return Ok(());
    }
    let bytes = bytes_from(upto(packet, claimed), LEN);
    match kind {
        1 => hello(line, bytes_from(packet, LEN), bytes.len()),
        2 => database(line, bytes),
        3 => requests(line, bytes),
        4 => updates(line, bytes),
        _ => {
            headers(line, bytes)?;
            // tcpdump tries to read one more header than the packet has. So its line ends as if the
            // packet was truncated.
            Err(super::text::TruncatedHeader)
        }
    }
}

/// Writes a hello packet. Its list of neighbours ends at offset `end`.
fn hello(line: &mut SummaryLine<'_>, bytes: &[u8], end: usize) -> DecodeResult {
    put!(line, "\n\tOptions [");
    line.bits(&lsa::OPTIONS, u32::from(u8_at(bytes, 6)?), ", ");
    let (interval, dead) = (u16_at(bytes, 4)?, u32_at(bytes, 8)?);
    let (mask, priority) = (v4_at(bytes, 0)?, u8_at(bytes, 7)?);
    put!(
        line,
        "]\n\t  Hello Timer {interval}s, Dead Timer {dead}s, Mask {mask}, Priority {priority}"
    );
    let designated = v4_at(bytes, 12)?;
    if !designated.is_unspecified() {
        put!(line, "\n\t  Designated Router {designated}");
    }
    let backup = v4_at(bytes, 16)?;
    if !backup.is_unspecified() {
        put!(line, ", Backup Designated Router {backup}");
    }
    if end > 20 {
        put!(line, "\n\t  Neighbor List:");
        for at in (20..end).step_by(4) {
            put!(line, "\n\t    {}", v4_at(bytes, at)?);
        }
    }
    Ok(())
}

fn database(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    put!(line, "\n\tOptions [");
    line.bits(&lsa::OPTIONS, u32::from(u8_at(bytes, 2)?), ", ");
    put!(line, "], DD Flags [");
    line.bits(&DATABASE_FLAGS, u32::from(u8_at(bytes, 3)?), ", ");
    put!(line, "]");
    let (mtu, seq) = (u16_at(bytes, 0)?, u32_at(bytes, 4)?);
    if mtu > 0 {
        put!(line, ", MTU: {mtu}");
    }
    put!(line, ", Sequence: 0x{seq:08x}");
    headers(line, bytes_from(bytes, 8))
}

fn requests(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    for request in bytes.chunks_exact(12) {
        let kind = u32_at(request, 0)?;
        put!(line, "\n\t  Advertising Router: {}, ", v4_at(request, 8)?);
        let byte = u8::try_from(kind).unwrap_or(0);
        line.name(&lsa::KINDS, byte, format_args!("unknown"));
        put!(line, " LSA ({kind})");
        lsa::id(line, byte, request, 4, ": ")?;
    }
    Ok(())
}

fn updates(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let count = u32_at(bytes, 0)?;
    put!(line, ", {count} LSA{}", if count == 1 { "" } else { "s" });
    let mut left = bytes_from(bytes, 4);
    for nth in 1..=count {
        if left.is_empty() {
            return Err(super::text::TruncatedHeader);
        }
        put!(line, "\n\t  LSA #{nth}");
        let len = lsa::header(line, left)?;
        lsa::body(line, left, len)?;
        left = bytes_from(left, len.max(lsa::HEADER_LEN));
    }
    Ok(())
}

/// Writes LSA headers up to the end of `bytes`.
fn headers(line: &mut SummaryLine<'_>, mut bytes: &[u8]) -> DecodeResult {
    while !bytes.is_empty() {
        lsa::header(line, bytes)?;
        bytes = bytes_from(bytes, lsa::HEADER_LEN);
    }
    Ok(())
}
