//! Prints IPv6 headers and extension headers, and passes the payload on to its decoder.

use super::ip_carrier::{IpCarrier, PROTOCOLS, endpoints_v6, has_ports};
use super::text::{
    DecodeResult, Ipv6Text, SummaryLine, TruncatedHeader, bytes_from, put, slice_at, u8_at, u16_at,
    u32_at, upto, v6_at,
};
use super::upper_layer;
use crate::assigned::IpProto;

const LEN: usize = 40;
/// Maximum number of extension headers that are decoded. It limits the time that a malicious packet
/// can take.
const MAX_EXTENSIONS: u32 = 32;

/// Writes an IPv6 packet that had `length` bytes on the wire. These may include padding.
pub(super) fn packet(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "ip6";
    if !line.enter() {
        put!(line, "[too many headers]");
        return Ok(());
    }
    slice_at(packet, 0, LEN)?;
    if length < LEN {
        put!(line, "truncated-ip6 {length}");
        return Ok(());
    }
    if !line.link {
        put!(line, "IP6 ");
    }
    let version = packet[0] >> 4;
    if version != 6 {
        put!(line, "version error: {version} != 6");
        return Ok(());
    }
    let payload = usize::from(u16_at(packet, 4)?);
    let mut length = length;
    if payload > 0 {
        let total = LEN + payload;
        if length < total {
            put!(line, "truncated-ip6 - {} bytes missing!", total - length);
        }
        length = total;
    } else if packet[6] != IpProto::HOP_BY_HOP.0 {
        length = LEN;
    }
    if line.is_verbose() {
        in_parentheses(line, packet)?;
    }
    headers(line, upto(packet, length), length)
}

fn in_parentheses(line: &mut SummaryLine<'_>, packet: &[u8]) -> DecodeResult {
    let word = u32_at(packet, 0)?;
    put!(line, "(");
    if word & 0x0ff0_0000 != 0 {
        put!(line, "class 0x{:02x}, ", word >> 20 & 0xff);
    }
    if word & 0xf_ffff != 0 {
        put!(line, "flowlabel 0x{:05x}, ", word & 0xf_ffff);
    }
    let (next, hops) = (u8_at(packet, 6)?, u8_at(packet, 7)?);
    put!(line, "hlim {hops}, next-header ");
    line.name(&PROTOCOLS, next, format_args!("unknown"));
    put!(line, " ({next}) payload length: {}) ", u16_at(packet, 4)?);
    Ok(())
}

/// What decoders need to know from the headers between the fixed header and the protocol above.
#[derive(Default)]
struct ExtensionHeaders {
    is_fragment: bool,
    end: Option<Ipv6Text>,
}

fn headers(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    let mut walk = ExtensionHeaders::default();
    let (mut next, mut at) = (packet[6], LEN);
    if !has_ports(next) {
        put!(line, "{} > {}: ", v6_at(packet, 8)?, v6_at(packet, 24)?);
    }
    for _ in 0..MAX_EXTENSIONS {
        let bytes = bytes_from(packet, at);
        let len = match IpProto(next) {
            IpProto::HOP_BY_HOP => options(line, bytes, "HBH", "hbhopt")?,
            IpProto::DESTINATION => options(line, bytes, "DSTOPT", "dstopt")?,
            IpProto::FRAGMENT => {
                if !fragment(line, bytes, packet, at)? {
                    return Ok(());
                }
                walk.is_fragment = true;
                8
            }
            IpProto::ROUTING => match routing(line, bytes, &mut walk)? {
                Some(len) => len,
                None => return Ok(()),
            },
            _ => {
                let ends = endpoints_v6(packet, walk.end)?;
                let carrier = IpCarrier {
                    ends,
                    next: packet[6],
                    is_fragment: walk.is_fragment,
                    ttl: packet[7],
                };
                return upper_layer::payload(
                    line,
                    next,
                    bytes,
                    length.saturating_sub(at),
                    &carrier,
                );
            }
        };
        next = u8_at(bytes, 0)?;
        at += len;
    }
    put!(line, "[too many headers]");
    Ok(())
}

/// Writes hop-by-hop or destination options. Returns their length.
fn options(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    name: &str,
    protocol: &'static str,
) -> Result<usize, TruncatedHeader> {
    line.protocol = protocol;
    let len = (usize::from(u8_at(bytes, 1)?) + 1) * 8;
    let all = slice_at(bytes, 0, len)?;
    put!(line, "{name} ");
    if line.is_verbose() {
        each_option(line, &all[2..], protocol == "hbhopt")?;
    }
    Ok(len)
}

fn each_option(
    line: &mut SummaryLine<'_>,
    mut options: &[u8],
    is_hop_by_hop: bool,
) -> DecodeResult {
    const PAD1: u8 = 0;
    while let [kind, more @ ..] = options {
        if *kind == PAD1 {
            put!(line, "(pad1)");
            options = more;
            continue;
        }
        let Some(option) = more.first().and_then(|&len| more.get(1..1 + usize::from(len))) else {
            return Err(TruncatedHeader);
        };
        one_option(line, *kind, option, is_hop_by_hop)?;
        options = &more[1 + option.len()..];
    }
    put!(line, " ");
    Ok(())
}

fn one_option(
    line: &mut SummaryLine<'_>,
    kind: u8,
    option: &[u8],
    is_hop_by_hop: bool,
) -> DecodeResult {
    const PADN: u8 = 1;
    const ROUTER_ALERT: u8 = 5;
    const JUMBO: u8 = 0xc2;
    match kind {
        PADN => put!(line, "(padn)"),
        ROUTER_ALERT if option.len() != 2 => {
            put!(line, "(rtalert: invalid len {})", option.len());
        }
        ROUTER_ALERT => put!(line, "(rtalert: 0x{:04x}) ", u16_at(option, 0)?),
        JUMBO if option.len() != 4 => put!(line, "(jumbo: invalid len {})", option.len()),
        JUMBO if is_hop_by_hop => put!(line, "(jumbo: {}) ", u32_at(option, 0)?),
        JUMBO => put!(line, "(jumbo: {} - not a hop-by-hop option) ", u32_at(option, 0)?),
        _ => put!(line, "(opt_type 0x{kind:02x}: len={})", option.len()),
    }
    Ok(())
}

/// Writes `frag (0|12) `. Returns `false` if this is not the first fragment, so that no header
/// follows.
fn fragment(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    packet: &[u8],
    at: usize,
) -> Result<bool, TruncatedHeader> {
    line.protocol = "frag6";
    let (bits, id) = (u16_at(bytes, 2)?, u32_at(bytes, 4)?);
    let payload = usize::from(u16_at(packet, 4)?);
    let len = (LEN + payload).saturating_sub(at + 8);
    let offset = bits & 0xfff8;
    match line.is_verbose() {
        true => put!(line, "frag (0x{id:08x}:{offset}|{len})"),
        false => put!(line, "frag ({offset}|{len})"),
    }
    if offset == 0 {
        put!(line, " ");
    }
    Ok(offset == 0)
}

/// Writes a routing header. Returns its length, or `None` if its kind is unknown.
fn routing(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    walk: &mut ExtensionHeaders,
) -> Result<Option<usize>, TruncatedHeader> {
    line.protocol = "rt6";
    let (len8, kind, left) = (u8_at(bytes, 1)?, u8_at(bytes, 2)?, u8_at(bytes, 3)?);
    put!(line, "RT6 (len={len8}, type={kind}, ");
    if kind == 0 {
        line.text.truncate(line.text.len() - 2);
        put!(line, " [Deprecated], ");
    }
    put!(line, "segleft={left}");
    let reserved = u32_at(bytes, 4)?;
    match kind {
        0 | 2 => {
            if line.is_verbose() {
                put!(line, ", rsv=0x{reserved:x}");
            }
        }
        4 => {
            put!(line, ", last-entry={}", reserved >> 24);
            if line.is_verbose() {
                put!(line, ", flags=0x{:x}", reserved >> 16 & 0xff);
            }
            put!(line, ", tag={:x}", reserved & 0xffff);
        }
        _ => {
            put!(line, " (unknown type) (invalid)");
            return Ok(None);
        }
    }
    let count = usize::from(len8) / 2;
    for nth in 0..count {
        let address = v6_at(bytes, 8 + 16 * nth)?;
        put!(line, ", [{nth}]{address}");
        // Segment routing lists its segments in reverse order, so the first one in the list is the
        // final destination.
        if left > 0 && (kind != 4 || nth == 0) {
            walk.end = Some(address);
        }
    }
    put!(line, ") ");
    Ok(Some((usize::from(len8) + 1) * 8))
}
