//! Prints VRRP, versions 2 and 3.

use super::ip_carrier::{IpCarrier, checked};
use super::text::{
    DecodeResult, PrintableText, SummaryLine, put, slice_at, u8_at, u16_at, v4_at, v6_at,
};
use crate::assigned::IpProto;
use crate::checksum::Sum;

const PROTO: IpProto = IpProto(112);
const SIMPLE: u8 = 1;

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "vrrp";
    let first = u8_at(bytes, 0)?;
    let (version, kind) = (first >> 4, first & 15);
    put!(line, "VRRPv{version}, ");
    match kind {
        1 => put!(line, "Advertisement"),
        _ => put!(line, "unknown type ({kind})"),
    }
    if carrier.ttl != 255 {
        put!(line, ", (ttl {})", carrier.ttl);
    }
    if kind != 1 || !matches!(version, 2 | 3) {
        return Ok(());
    }
    let (vrid, prio) = (u8_at(bytes, 1)?, u8_at(bytes, 2)?);
    put!(line, ", vrid {vrid}, prio {prio}");
    let auth = u8_at(bytes, 4)?;
    if version == 2 {
        put!(line, ", authtype ");
        let names = [(0, "none"), (SIMPLE, "simple"), (2, "ah")];
        line.name(&names, auth, format_args!("unknown type{auth:?}"));
        put!(line, ", intvl {}s, length {length}", u8_at(bytes, 5)?);
    } else {
        put!(line, ", intvl {}cs, length {length}", u16_at(bytes, 4)? & 0x0fff);
    }
    if line.is_verbose() { addresses(line, bytes, length, version, carrier) } else { Ok(()) }
}

fn addresses(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    version: u8,
    carrier: &IpCarrier,
) -> DecodeResult {
    let sum = if version == 3 { carrier.pseudo(PROTO, length) } else { Sum::new() };
    if let Some((found, right)) = checked(sum, bytes, length, 6)
        && found != right
    {
        put!(line, ", (bad vrrp cksum {found:x})");
    }
    let count = usize::from(u8_at(bytes, 3)?);
    put!(line, ", addrs");
    if count != 1 {
        put!(line, "({count})");
    }
    put!(line, ":");
    let size = if version == 3 && carrier.is_v6() { 16 } else { 4 };
    for nth in 0..count {
        let (at, between) = (8 + size * nth, if nth == 0 { ' ' } else { ',' });
        match size {
            16 => put!(line, "{between}{}", v6_at(bytes, at)?),
            _ => put!(line, "{between}{}", v4_at(bytes, at)?),
        }
    }
    if version == 2 && u8_at(bytes, 4)? == SIMPLE {
        let data = slice_at(bytes, 8 + 4 * count, 8)?;
        let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
        put!(line, " auth \"{}\"", PrintableText(&data[..end]));
    }
    Ok(())
}
