//! Prints ICMP. With `-v`, also prints the packets that ICMP errors quote.

use super::ip_carrier::{IpCarrier, checked};
use super::text::{
    DecodeResult, Encapsulated, SummaryLine, TruncatedHeader, bytes_from, put, u8_at, u16_at,
    u32_at, v4_at,
};
use crate::checksum::Sum;

const LEN: usize = 8;
const IPV4_LEN: usize = 20;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "icmp";
    let before = line.text.len();
    let (kind, code) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    put!(line, "ICMP ");
    if message(line, bytes, kind, code).is_err() {
        line.text.truncate(before);
        line.cut();
        return Ok(());
    }
    put!(line, ", length {length}");
    // tcpdump verifies this checksum even if -K was given.
    if line.is_verbose()
        && !carrier.is_fragment
        && let Some((found, right)) = checked(Sum::new(), bytes, length, 2)
        && found != right
    {
        put!(line, " (wrong icmp cksum {found:x} (->{right:x})!)");
    }
    let is_error =
        matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM);
    if line.is_verbose() && is_error {
        put!(line, "\n\t");
        let total = u16_at(bytes, LEN + 2)?;
        return line.inner(Encapsulated::Ipv4, bytes_from(bytes, LEN), usize::from(total));
    }
    Ok(())
}

fn message(line: &mut SummaryLine<'_>, bytes: &[u8], kind: u8, code: u8) -> DecodeResult {
    match kind {
        0 | 8 => {
            let (id, seq) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
            let name = if kind == 0 { "reply" } else { "request" };
            put!(line, "echo {name}, id {id}, seq {seq}");
        }
        UNREACHABLE => return unreachable(line, bytes, code),
        SOURCE_QUENCH => put!(line, "source quench"),
        REDIRECT => {
            let (dst, to) = (v4_at(bytes, LEN + 16)?, v4_at(bytes, 4)?);
            match code {
                0 => put!(line, "redirect {dst} to net {to}"),
                1 => put!(line, "redirect {dst} to host {to}"),
                2 => put!(line, "redirect-tos {dst} to net {to}"),
                3 => put!(line, "redirect-tos {dst} to host {to}"),
                _ => put!(line, "redirect-#{code} {dst} to {to}"),
            }
        }
        9 => return router_advertisement(line, bytes),
        10 => put!(line, "router solicitation"),
        TIME_EXCEEDED if bytes.len() < LEN + IPV4_LEN => return Err(TruncatedHeader),
        TIME_EXCEEDED => match code {
            0 => put!(line, "time exceeded in-transit"),
            1 => put!(line, "ip reassembly time exceeded"),
            _ => put!(line, "time exceeded-#{code}"),
        },
        PARAMETER_PROBLEM if code > 0 => put!(line, "parameter problem - code {code}"),
        PARAMETER_PROBLEM => put!(line, "parameter problem - octet {}", u8_at(bytes, 4)?),
        13 => {
            let (id, seq) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
            put!(line, "time stamp query id {id} seq {seq}");
        }
        14 => return time_stamps(line, bytes),
        15 => put!(line, "information request"),
        16 => put!(line, "information reply"),
        17 => put!(line, "address mask request"),
        18 => put!(line, "address mask is 0x{:08x}", u32_at(bytes, LEN)?),
        other => put!(line, "type-#{other}"),
    }
    Ok(())
}

/// Writes a "destination unreachable" message. The quoted packet follows the ICMP header. Its
/// destination address is at offset 16.
fn unreachable(line: &mut SummaryLine<'_>, bytes: &[u8], code: u8) -> DecodeResult {
    let dst = v4_at(bytes, LEN + 16)?;
    match code {
        0 => put!(line, "net {dst} unreachable"),
        1 => put!(line, "host {dst} unreachable"),
        2 => put!(line, "{dst} protocol {} unreachable", u8_at(bytes, LEN + 9)?),
        3 => {
            let (first, proto) = (u8_at(bytes, LEN)?, u8_at(bytes, LEN + 9)?);
            let port = u16_at(bytes, LEN + usize::from(first & 15) * 4 + 2)?;
            match proto {
                6 => put!(line, "{dst} tcp port {port} unreachable"),
                17 => put!(line, "{dst} udp port {port} unreachable"),
                _ => put!(line, "{dst} protocol {proto} port {port} unreachable"),
            }
        }
        4 => {
            let mtu = u16_at(bytes, 6)?;
            put!(line, "{dst} unreachable - need to frag");
            if mtu > 0 {
                put!(line, " (mtu {mtu})");
            }
        }
        5 => put!(line, "{dst} unreachable - source route failed"),
        6 => put!(line, "net {dst} unreachable - unknown"),
        7 => put!(line, "host {dst} unreachable - unknown"),
        8 => put!(line, "{dst} unreachable - source host isolated"),
        9 => put!(line, "net {dst} unreachable - admin prohibited"),
        10 => put!(line, "host {dst} unreachable - admin prohibited"),
        11 => put!(line, "net {dst} unreachable - tos prohibited"),
        12 => put!(line, "host {dst} unreachable - tos prohibited"),
        13 => put!(line, "host {dst} unreachable - admin prohibited filter"),
        14 => put!(line, "host {dst} unreachable - host precedence violation"),
        15 => put!(line, "host {dst} unreachable - precedence cutoff"),
        _ => put!(line, "{dst} unreachable - #{code}"),
    }
    Ok(())
}

fn router_advertisement(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let (count, words, lifetime) = (u8_at(bytes, 4)?, u8_at(bytes, 5)?, u16_at(bytes, 6)?);
    put!(line, "router advertisement lifetime ");
    let (hours, minutes, seconds) = (lifetime / 3600, lifetime / 60 % 60, lifetime % 60);
    match lifetime {
        0..60 => put!(line, "{lifetime}"),
        60..3600 => put!(line, "{minutes}:{seconds:02}"),
        _ => put!(line, "{hours}:{minutes:02}:{seconds:02}"),
    }
    put!(line, " {count}:");
    if words != 2 {
        put!(line, " [size {words}]");
        return Ok(());
    }
    for nth in 0..usize::from(count) {
        let at = LEN + 8 * nth;
        put!(line, " {{{} {}}}", v4_at(bytes, at)?, u32_at(bytes, at + 4)?);
    }
    Ok(())
}

fn time_stamps(line: &mut SummaryLine<'_>, bytes: &[u8]) -> Result<(), TruncatedHeader> {
    let (id, seq) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
    let [org, recv, xmit] = [u32_at(bytes, 8)?, u32_at(bytes, 12)?, u32_at(bytes, 16)?];
    put!(line, "time stamp reply id {id} seq {seq}: org ");
    day_time(line, org);
    put!(line, ", recv ");
    day_time(line, recv);
    put!(line, ", xmit ");
    day_time(line, xmit);
    Ok(())
}

/// Writes a number of milliseconds since midnight as a time of day.
fn day_time(line: &mut SummaryLine<'_>, ms: u32) {
    let seconds = ms / 1000;
    put!(
        line,
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1000
    );
}
