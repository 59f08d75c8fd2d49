//! Prints link state advertisements (LSAs) of OSPF.

use super::text::{
    DecodeResult, SummaryLine, TruncatedHeader, bytes_from, hex, put, slice_at, u8_at, u16_at,
    u24_at, u32_at, v4_at,
};

pub(super) const HEADER_LEN: usize = 20;
pub(super) const OPTIONS: [(u32, &str); 8] = [
    (0x01, "MultiTopology"),
    (0x02, "External"),
    (0x04, "Multicast"),
    (0x08, "NSSA"),
    (0x10, "LLS"),
    (0x20, "Demand Circuit"),
    (0x40, "Opaque"),
    (0x80, "Up/Down"),
];
pub(super) const KINDS: [(u8, &str); 10] = [
    (1, "Router"),
    (2, "Network"),
    (3, "Summary"),
    (4, "ASBR Summary"),
    (5, "External"),
    (6, "Multicast"),
    (7, "NSSA"),
    (9, "Link Local Opaque"),
    (10, "Area Local Opaque"),
    (11, "Autonomous System Opaque"),
];
const OPAQUE_KINDS: [(u8, &str); 3] =
    [(1, "Traffic Engineering"), (3, "Graceful restart"), (4, "Router Information")];
const ROUTER_FLAGS: [(u32, &str); 6] =
    [(0x01, "ABR"), (0x02, "ASBR"), (0x04, "Virtual"), (0x08, "W"), (0x10, "NSSA"), (0x20, "NSSA")];
const TOPOLOGIES: [(u8, &str); 3] = [(0, "default"), (1, "multicast"), (2, "management")];
const ROUTER: u8 = 1;
const EXTERNAL: u8 = 5;
const NSSA: u8 = 7;

/// Writes the id of an LSA, such as `, LSA-ID: 10.0.0.0`, or the type of an opaque LSA.
pub(super) fn id(
    line: &mut SummaryLine<'_>,
    kind: u8,
    bytes: &[u8],
    at: usize,
    colon: &str,
) -> DecodeResult {
    if !matches!(kind, 9..=11) {
        put!(line, ", LSA-ID: {}", v4_at(bytes, at)?);
        return Ok(());
    }
    let (opaque, number) = (u8_at(bytes, at)?, u24_at(bytes, at + 1)?);
    put!(line, ", Opaque-Type{colon}");
    line.name(&OPAQUE_KINDS, opaque, format_args!("unknown"));
    put!(line, " LSA ({opaque}), Opaque-ID{colon}{number}");
    Ok(())
}

/// Writes the header of an LSA. Returns its length field.
pub(super) fn header(line: &mut SummaryLine<'_>, bytes: &[u8]) -> Result<usize, TruncatedHeader> {
    let header = slice_at(bytes, 0, HEADER_LEN)?;
    let (age, kind, len) = (u16_at(header, 0)?, u8_at(header, 3)?, u16_at(header, 18)?);
    let (router, seq) = (v4_at(header, 8)?, u32_at(header, 12)?);
    let own = usize::from(len).wrapping_sub(HEADER_LEN) as u32;
    put!(line, "\n\t  Advertising Router {router}, seq 0x{seq:08x}, age {age}s, length {own}");
    put!(line, "\n\t    ");
    line.name(&KINDS, kind, format_args!("unknown"));
    put!(line, " LSA ({kind})");
    id(line, kind, header, 4, " ")?;
    put!(line, "\n\t    Options: [");
    line.bits(&OPTIONS, u32::from(u8_at(header, 2)?), ", ");
    put!(line, "]");
    Ok(usize::from(len))
}

/// Writes the body of an LSA. `len` is the length of header and body together.
pub(super) fn body(line: &mut SummaryLine<'_>, bytes: &[u8], len: usize) -> DecodeResult {
    let kind = u8_at(bytes, 3)?;
    let own = len.saturating_sub(HEADER_LEN);
    let body = bytes_from(bytes, HEADER_LEN);
    let body = if body.len() < own { body } else { &body[..own] };
    match kind {
        ROUTER => router(line, body)?,
        2 => {
            put!(line, "\n\t    Mask {}\n\t    Connected Routers:", v4_at(body, 0)?);
            for at in (4..own).step_by(4) {
                put!(line, "\n\t      {}", v4_at(body, at)?);
            }
        }
        3 => {
            put!(line, "\n\t    Mask {}", v4_at(body, 0)?);
            metrics(line, bytes_from(body, 4), own.saturating_sub(4))?;
        }
        4 => metrics(line, bytes_from(body, 4), own.saturating_sub(4))?,
        EXTERNAL | NSSA => external(line, body, own)?,
        9..=11 => return Ok(()),
        _ => {}
    }
    if line.detail.verbose > 1 {
        hex(line, slice_at(body, 0, own)?, "\n\t    ");
    }
    Ok(())
}

fn router(line: &mut SummaryLine<'_>, body: &[u8]) -> DecodeResult {
    put!(line, "\n\t    Router LSA Options: [");
    line.bits(&ROUTER_FLAGS, u32::from(u8_at(body, 0)?), ", ");
    put!(line, "]");
    let mut at = 4;
    for _ in 0..u16_at(body, 2)? {
        let (id, data) = (v4_at(body, at)?, v4_at(body, at + 4)?);
        match u8_at(body, at + 8)? {
            1 => put!(line, "\n\t      Neighbor Router-ID: {id}, Interface Address: {data}"),
            2 => put!(line, "\n\t      Neighbor Network-ID: {id}, Interface Address: {data}"),
            3 => put!(line, "\n\t      Stub Network: {id}, Mask: {data}"),
            4 => put!(
                line,
                "\n\t      Virtual Link: Neighbor Router-ID: {id}, Interface Address: {data}"
            ),
            other => {
                put!(line, "\n\t      Unknown Router Link Type ({other})");
                return Ok(());
            }
        }
        let count = usize::from(u8_at(body, at + 9)?);
        put!(line, "\n\t\ttopology default (0), metric {}", u16_at(body, at + 10)?);
        for nth in 0..count {
            let at = at + 12 + 4 * nth;
            let (topology, metric) = (u8_at(body, at)?, u16_at(body, at + 2)?);
            put!(line, "\n\t\ttopology ");
            line.name(&TOPOLOGIES, topology, format_args!("Unknown"));
            put!(line, " ({topology}), metric {metric}");
        }
        at += 12 + 4 * count;
    }
    Ok(())
}

fn metrics(line: &mut SummaryLine<'_>, bytes: &[u8], own: usize) -> DecodeResult {
    for at in (0..own).step_by(4) {
        let word = u32_at(bytes, at)?;
        let topology = (word >> 24) as u8 & 0x7f;
        put!(line, "\n\t\ttopology ");
        line.name(&TOPOLOGIES, topology, format_args!("Unknown"));
        put!(line, " ({topology}) metric {}", word & 0xff_ffff);
    }
    Ok(())
}

fn external(line: &mut SummaryLine<'_>, body: &[u8], own: usize) -> DecodeResult {
    put!(line, "\n\t    Mask {}", v4_at(body, 0)?);
    for at in (4..own).step_by(12) {
        let word = u32_at(body, at)?;
        let topology = (word >> 24) as u8 & 0x7f;
        put!(line, "\n\t\ttopology ");
        line.name(&TOPOLOGIES, topology, format_args!("Unknown"));
        let kind = if word >> 31 == 0 { 1 } else { 2 };
        put!(line, " ({topology}), type {kind}, metric");
        match word & 0xff_ffff {
            0xff_ffff => put!(line, " infinite"),
            metric => put!(line, " {metric}"),
        }
        let (forward, tag) = (v4_at(body, at + 4)?, v4_at(body, at + 8)?);
        if !forward.is_unspecified() {
            put!(line, ", forward {forward}");
        }
        if !tag.is_unspecified() {
            put!(line, ", tag {tag}");
        }
    }
    Ok(())
}
