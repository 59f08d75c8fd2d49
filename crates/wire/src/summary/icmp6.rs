//! Prints ICMPv6: errors, echo and multicast listeners. Neighbour discovery is in `nd`.

use super::ip_carrier::{IpCarrier, checked};
use super::nd;
use super::text::{DecodeResult, SummaryLine, hex, put, slice_at, u8_at, u16_at, u32_at, v6_at};
use crate::assigned::IpProto;

const LEN: usize = 8;
const RECORDS: [(u8, &str); 6] =
    [(1, "is_in"), (2, "is_ex"), (3, "to_in"), (4, "to_ex"), (5, "allow"), (6, "block")];

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "icmp6";
    // tcpdump verifies this checksum even if -K was given.
    if line.is_verbose() && !carrier.is_fragment {
        checksum(line, bytes, length, carrier);
    }
    slice_at(bytes, 0, 4)?;
    put!(line, "ICMP6, ");
    let kind = u8_at(bytes, 0)?;
    if (133..=137).contains(&kind) {
        return nd::line(line, kind, bytes, length);
    }
    if !message(line, kind, bytes, length)? {
        return Ok(());
    }
    if !line.is_verbose() {
        put!(line, ", length {length}");
    }
    Ok(())
}

fn checksum(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize, carrier: &IpCarrier) {
    match checked(carrier.pseudo(IpProto::ICMPV6, length), bytes, length, 2) {
        Some((found, right)) if found == right => put!(line, "[icmp6 sum ok] "),
        Some((found, right)) => {
            put!(line, "[bad icmp6 cksum 0x{found:04x} -> 0x{right:04x}!] ");
        }
        None => {}
    }
}

/// Writes a message. Returns `false` if nothing may follow it in the line.
fn message(
    line: &mut SummaryLine<'_>,
    kind: u8,
    bytes: &[u8],
    length: usize,
) -> Result<bool, super::text::TruncatedHeader> {
    let code = u8_at(bytes, 1)?;
    match kind {
        1 => return unreachable(line, code, bytes),
        2 => {
            put!(line, "packet too big");
            put!(line, ", mtu {}", u32_at(bytes, 4)?);
        }
        3 => match code {
            0 => {
                put!(line, "time exceeded in-transit");
                put!(line, " for {}", v6_at(bytes, LEN + 24)?);
            }
            1 => put!(line, "time exceeded in-transit (reassembly)"),
            _ => put!(line, "time exceeded in-transit, unknown code ({code})"),
        },
        4 => {
            put!(line, "parameter problem");
            let octet = u32_at(bytes, 4)?;
            let names = ["erroneous", "next header", "option", "incomplete header chain"];
            match names.get(usize::from(code)) {
                Some(name) => put!(line, ", {name} - octet {octet}"),
                None => put!(line, ", code-#{code}"),
            }
        }
        128 | 129 => {
            put!(line, "echo {}", if kind == 128 { "request" } else { "reply" });
            put!(line, ", id {}, seq {}", u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        }
        130..=132 | 143 => listener(line, kind, bytes, length)?,
        other => {
            put!(line, "unknown icmp6 type ({other}), length {length}");
            if line.detail.verbose < 2 {
                hex(line, bytes, "\n\t");
            }
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a message of multicast listener discovery.
fn listener(line: &mut SummaryLine<'_>, kind: u8, bytes: &[u8], length: usize) -> DecodeResult {
    match kind {
        130 if length >= 28 => {
            put!(line, "multicast listener query v2");
            query(line, bytes, length)
        }
        143 => {
            put!(line, "multicast listener report v2");
            report(line, bytes, length)
        }
        _ => {
            let name = ["query", "report", "done"][usize::from(kind - 130)];
            put!(line, "multicast listener {name}");
            put!(line, "max resp delay: {} addr: {}", u16_at(bytes, 4)?, v6_at(bytes, 8)?);
            Ok(())
        }
    }
}

/// Writes a "destination unreachable" message. It quotes a packet, whose destination address is at
/// offset 24. Returns `false` if nothing may follow the message in the line.
fn unreachable(
    line: &mut SummaryLine<'_>,
    code: u8,
    bytes: &[u8],
) -> Result<bool, super::text::TruncatedHeader> {
    put!(line, "destination unreachable, ");
    let dst = || v6_at(bytes, LEN + 24);
    match code {
        0 => {
            put!(line, "unreachable route");
            put!(line, " {}", dst()?);
        }
        1 => {
            put!(line, " unreachable prohibited");
            put!(line, " {}", dst()?);
        }
        2 => {
            put!(line, "beyond scope");
            put!(line, " {}, source address {}", dst()?, v6_at(bytes, LEN + 8)?);
        }
        3 => {
            put!(line, "unreachable address");
            put!(line, " {}", dst()?);
        }
        4 => {
            put!(line, "unreachable port");
            let (dst, port) = (dst()?, u16_at(bytes, LEN + 42)?);
            match u8_at(bytes, LEN + 6)? {
                6 => put!(line, ", {dst} tcp port {port}"),
                17 => put!(line, ", {dst} udp port {port}"),
                other => put!(line, ", {dst} protocol {other} port {port} unreachable"),
            }
        }
        _ => {
            put!(line, "unknown unreach code ({code})");
            if line.detail.verbose < 2 {
                hex(line, bytes, "\n\t");
            }
            return Ok(false);
        }
    }
    Ok(true)
}

fn query(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    let code = u32::from(u16_at(bytes, 4)?);
    let delay = match code {
        0..0x8000 => code,
        _ => (code & 0x0fff | 0x1000) << ((code >> 12 & 7) + 3),
    };
    if line.is_verbose() {
        put!(line, " [max resp delay={delay}]");
    }
    put!(line, " [gaddr {}", v6_at(bytes, 8)?);
    let (flags, interval) = (u8_at(bytes, 24)?, u8_at(bytes, 25)?);
    if line.is_verbose() {
        if flags & 8 != 0 {
            put!(line, " sflag");
        }
        if flags & 7 != 0 {
            put!(line, " robustness={}", flags & 7);
        }
        let interval = u32::from(interval);
        let interval = match interval {
            0..128 => interval,
            _ => (interval & 15 | 16) << ((interval >> 4 & 7) + 3),
        };
        put!(line, " qqi={interval}");
    }
    let count = usize::from(u16_at(bytes, 26)?);
    if count > 0 {
        if length < 28 + 16 * count {
            put!(line, " [invalid number of sources]");
        } else if line.detail.verbose > 1 {
            put!(line, " {{");
            for nth in 0..count {
                put!(line, " {}", v6_at(bytes, 28 + 16 * nth)?);
            }
            put!(line, " }}");
        } else {
            put!(line, ", {count} source(s)");
        }
    }
    put!(line, "]");
    Ok(())
}

fn report(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    let groups = u16_at(bytes, 6)?;
    put!(line, ", {groups} group record(s)");
    if !line.is_verbose() {
        return Ok(());
    }
    let mut at = 8;
    for _ in 0..groups {
        if length < at + 20 {
            put!(line, " [invalid number of groups]");
            return Ok(());
        }
        let (kind, sources) = (u8_at(bytes, at)?, usize::from(u16_at(bytes, at + 2)?));
        put!(line, " [gaddr {} ", v6_at(bytes, at + 4)?);
        line.name(&RECORDS, kind, format_args!(" [v2-report-#{kind}]"));
        if length < at + 20 + 16 * sources {
            put!(line, " [invalid number of sources {sources}]");
            return Ok(());
        }
        if line.detail.verbose > 1 {
            put!(line, " {{");
            for nth in 0..sources {
                put!(line, " {}", v6_at(bytes, at + 20 + 16 * nth)?);
            }
            put!(line, " }}]");
        } else {
            put!(line, ", {sources} source(s)]");
        }
        at += 20 + 16 * sources;
    }
    Ok(())
}
