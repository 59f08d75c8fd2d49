//! Prints IGMP, versions 1 to 3.

use super::ip_carrier::checked;
use super::text::{DecodeResult, SummaryLine, put, u8_at, u16_at, v4_at};
use crate::checksum::Sum;

/// Length of a message of version 1 or 2, in bytes.
const LEN: usize = 8;
/// The default maximum response time, in tenths of a second: 10 s.
const DEFAULT_RESPONSE_TIME: u8 = 100;
const RECORDS: [(u8, &str); 6] =
    [(1, "is_in"), (2, "is_ex"), (3, "to_in"), (4, "to_ex"), (5, "allow"), (6, "block")];

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "igmp";
    if line.detail.is_quick {
        put!(line, "igmp");
        return Ok(());
    }
    match u8_at(bytes, 0)? {
        0x11 if length >= 12 => query(line, bytes, length)?,
        0x11 => {
            let time = u8_at(bytes, 1)?;
            put!(line, "igmp query v{}", if time > 0 { 2 } else { 1 });
            if time > 0 && time != DEFAULT_RESPONSE_TIME {
                put!(line, " [max resp time {time}]");
            }
            group(line, bytes)?;
            if length != LEN {
                put!(line, " [len {length}]");
            }
        }
        0x12 => put!(line, "igmp v1 report {}", v4_at(bytes, 4)?),
        0x13 => put!(line, "igmp dvmrp [type {}]", u8_at(bytes, 1)?),
        0x16 => put!(line, "igmp v2 report {}", v4_at(bytes, 4)?),
        0x17 => put!(line, "igmp leave {}", v4_at(bytes, 4)?),
        0x22 => report(line, bytes, length)?,
        other => put!(line, "igmp-{other}"),
    }
    let sum = checked(Sum::new(), bytes, length, 2);
    // tcpdump verifies the checksum of IGMP even if -K was given.
    if line.is_verbose()
        && let Some((found, right)) = sum
        && found != right
    {
        put!(line, " bad igmp cksum {found:x}!");
    }
    Ok(())
}

/// Writes a response time, which is given in tenths of a second.
fn response_time(line: &mut SummaryLine<'_>, tenths: u32) {
    put!(line, " [max resp time ");
    match tenths {
        0..600 => put!(line, "{}.{}s", tenths / 10, tenths % 10),
        _ => {
            let seconds = tenths / 10;
            put!(line, "{}m{}s", seconds / 60, seconds % 60);
        }
    }
    put!(line, "]");
}

fn group(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let group = v4_at(bytes, 4)?;
    if !group.is_unspecified() {
        put!(line, " [gaddr {group}]");
    }
    Ok(())
}

fn query(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    put!(line, "igmp query v3");
    if !length.is_multiple_of(4) {
        put!(line, " [invalid len {length}]");
        return Ok(());
    }
    let code = u8_at(bytes, 1)?;
    let tenths = match code {
        0..128 => u32::from(code),
        _ => u32::from(code & 15 | 16) << ((code >> 4 & 7) + 3),
    };
    if code != DEFAULT_RESPONSE_TIME {
        response_time(line, tenths);
    }
    group_and_sources(line, bytes, length)
}

fn group_and_sources(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    let group = v4_at(bytes, 4)?;
    if group.is_unspecified() {
        return Ok(());
    }
    put!(line, " [gaddr {group}");
    let count = usize::from(u16_at(bytes, 10)?);
    if count > 0 {
        if length < 12 + 4 * count {
            put!(line, " [invalid number of sources]");
        } else if line.detail.verbose > 1 {
            put!(line, " {{");
            for nth in 0..count {
                put!(line, " {}", v4_at(bytes, 12 + 4 * nth)?);
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
    put!(line, "igmp v3 report");
    if length < 16 || !length.is_multiple_of(4) {
        put!(line, " [invalid len {length}]");
        return Ok(());
    }
    let groups = u16_at(bytes, 6)?;
    put!(line, ", {groups} group record(s)");
    if !line.is_verbose() {
        return Ok(());
    }
    let mut at = 8;
    for _ in 0..groups {
        if length < at + 8 {
            put!(line, " [invalid number of groups]");
            return Ok(());
        }
        let (kind, sources) = (u8_at(bytes, at)?, usize::from(u16_at(bytes, at + 2)?));
        put!(line, " [gaddr {} ", v4_at(bytes, at + 4)?);
        line.name(&RECORDS, kind, format_args!(" [v3-report-#{kind}]"));
        if length < at + 8 + 4 * sources {
            put!(line, " [invalid number of sources {sources}]");
            return Ok(());
        }
        if line.detail.verbose > 1 {
            put!(line, " {{");
            for nth in 0..sources {
                put!(line, " {}", v4_at(bytes, at + 8 + 4 * nth)?);
            }
            put!(line, " }}]");
        } else {
            put!(line, ", {sources} source(s)]");
        }
        at += 8 + 4 * sources;
    }
    Ok(())
}
