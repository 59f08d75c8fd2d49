//! Prints neighbour discovery: routers, neighbours, redirects, and with `-v` their options.

use super::dns;
use super::text::{
    DecodeResult, HwText, SummaryLine, bytes_from, hex, put, slice_at, u8_at, u16_at, u32_at, v6_at,
};

const ROUTER_FLAGS: [(u32, &str); 4] =
    [(0x80, "managed"), (0x40, "other stateful"), (0x20, "home agent"), (0x04, "proxy")];
const NEIGHBOR_FLAGS: [(u32, &str); 3] =
    [(0x80, "router"), (0x40, "solicited"), (0x20, "override")];
const PREFIX_FLAGS: [(u32, &str); 3] = [(0x80, "onlink"), (0x40, "auto"), (0x20, "router")];
const OPTIONS: [(u8, &str); 14] = [
    (1, "source link-address"),
    (2, "destination link-address"),
    (3, "prefix info"),
    (4, "redirected header"),
    (5, "mtu"),
    (7, "advertisement interval"),
    (8, "homeagent information"),
    (9, "source addr list"),
    (10, "target addr list"),
    (24, "route info"),
    (25, "rdnss"),
    (26, "ra flags extension"),
    (31, "dnssl"),
    (37, "captive portal"),
];
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    kind: u8,
    bytes: &[u8],
    length: usize,
) -> DecodeResult {
    let names = [
        "router solicitation",
        "router advertisement",
        "neighbor solicitation",
        "neighbor advertisement",
        "redirect",
    ];
    put!(line, "{}", names[usize::from(kind - 133)]);
    if line.is_verbose() {
        put!(line, ", length {length}");
    }
    let options_at = match kind {
        133 => 8,
        134 => {
            if line.is_verbose() {
                advertisement(line, bytes)?;
            }
            16
        }
        135 => {
            put!(line, ", who has {}", v6_at(bytes, 8)?);
            24
        }
        136 => {
            put!(line, ", tgt is {}", v6_at(bytes, 8)?);
            if line.is_verbose() {
                put!(line, ", Flags [");
                line.bits(&NEIGHBOR_FLAGS, u32::from(u8_at(bytes, 4)?), ", ");
                put!(line, "]");
            }
            24
        }
        _ => {
            put!(line, ", {} to {}", v6_at(bytes, 24)?, v6_at(bytes, 8)?);
            40
        }
    };
    if line.is_verbose() {
        return options(line, bytes_from(bytes, options_at), length.saturating_sub(options_at));
    }
    put!(line, ", length {length}");
    Ok(())
}

fn advertisement(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    slice_at(bytes, 0, 16)?;
    let flags = u8_at(bytes, 5)?;
    put!(line, "\n\thop limit {}, Flags [", u8_at(bytes, 4)?);
    line.bits(&ROUTER_FLAGS, u32::from(flags), ", ");
    put!(line, "], pref ");
    preference(line, flags);
    let lifetime = u16_at(bytes, 6)?;
    let (reachable, retransmit) = (u32_at(bytes, 8)?, u32_at(bytes, 12)?);
    put!(line, ", router lifetime {lifetime}s, reachable time {reachable}ms");
    put!(line, ", retrans timer {retransmit}ms");
    Ok(())
}

fn preference(line: &mut SummaryLine<'_>, flags: u8) {
    put!(line, "{}", ["medium", "high", "*reserved*", "low"][usize::from(flags >> 3 & 3)]);
}

fn options(line: &mut SummaryLine<'_>, all: &[u8], mut left: usize) -> DecodeResult {
    let mut bytes = all;
    while left > 0 {
        let (kind, words) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
        let len = usize::from(words) * 8;
        if len == 0 {
            return Err(super::text::TruncatedHeader);
        }
        let option = slice_at(bytes, 0, len)?;
        put!(line, "\n\t  ");
        line.name(&OPTIONS, kind, format_args!("unknown"));
        put!(line, " option ({kind}), length {len} ({words}): ");
        one(line, kind, option, all)?;
        if line.detail.verbose > 1 {
            hex(line, &option[2..], "\n\t    ");
        }
        bytes = bytes_from(bytes, len);
        left = left.saturating_sub(len);
    }
    Ok(())
}

/// Writes one option. `all` are the bytes of the message from its first option on. For a redirected
/// header, tcpdump prints the first bytes of `all` instead of those of the option.
fn one(line: &mut SummaryLine<'_>, kind: u8, option: &[u8], all: &[u8]) -> DecodeResult {
    match kind {
        SOURCE_LINK | TARGET_LINK => put!(line, "{}", HwText(&option[2..])),
        3 => {
            slice_at(option, 0, 32)?;
            put!(line, "{}/{}, Flags [", v6_at(option, 16)?, option[2]);
            line.bits(&PREFIX_FLAGS, u32::from(option[3]), ", ");
            put!(line, "], valid time ");
            lifetime(line, u32_at(option, 4)?);
            put!(line, ", pref. time ");
            lifetime(line, u32_at(option, 8)?);
        }
        4 => hex(line, slice_at(all, 0, option.len())?, "\n\t    "),
        5 => put!(line, " {}", u32_at(option, 4)?),
        7 => put!(line, " {}ms", u32_at(option, 4)?),
        8 => put!(line, " preference {}, lifetime {}", u16_at(option, 4)?, u16_at(option, 6)?),
        24 => route(line, option)?,
        25 => {
            put!(line, " lifetime ");
            lifetime(line, u32_at(option, 4)?);
            put!(line, ",");
            for nth in 0..(option.len() - 8) / 16 {
                put!(line, " addr: {}", v6_at(option, 8 + 16 * nth)?);
            }
        }
        31 => search_list(line, option)?,
        _ if line.detail.verbose < 2 => hex(line, &option[2..], "\n\t  "),
        _ => {}
    }
    Ok(())
}

fn route(line: &mut SummaryLine<'_>, option: &[u8]) -> DecodeResult {
    let mut prefix = [0; 16];
    let given = bytes_from(option, 8);
    let len = given.len().min(16);
    prefix[..len].copy_from_slice(&given[..len]);
    put!(line, " {}/{}, pref=", v6_at(&prefix, 0)?, option[2]);
    preference(line, option[3]);
    put!(line, ", lifetime=");
    lifetime(line, u32_at(option, 4)?);
    Ok(())
}

fn search_list(line: &mut SummaryLine<'_>, option: &[u8]) -> DecodeResult {
    put!(line, " lifetime ");
    lifetime(line, u32_at(option, 4)?);
    put!(line, ", domain(s):");
    let mut at = 8;
    while option.get(at).is_some_and(|&len| len != 0) {
        put!(line, " ");
        at = dns::name(line, option, at)?;
    }
    Ok(())
}

fn lifetime(line: &mut SummaryLine<'_>, seconds: u32) {
    match seconds {
        u32::MAX => put!(line, "infinity"),
        _ => put!(line, "{seconds}s"),
    }
}
