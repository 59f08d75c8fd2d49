//! Prints the options in an IPv4 header.

use super::text::{
    DecodeResult, SummaryLine, TruncatedHeader, put, slice_at, u8_at, u32_at, v4_at,
};

const NAMES: [(u8, &str); 9] = [
    (0, "EOL"),
    (1, "NOP"),
    (7, "RR"),
    (68, "timestamp"),
    (82, "traceroute"),
    (130, "security"),
    (131, "LSRR"),
    (137, "SSRR"),
    (148, "RA"),
];

/// Writes the options, separated by commas. Returns `false` if they are truncated.
pub(super) fn list(line: &mut SummaryLine<'_>, options: &[u8], length: usize) -> bool {
    each(line, options, length).is_ok()
}

fn each(line: &mut SummaryLine<'_>, mut options: &[u8], mut length: usize) -> DecodeResult {
    let mut between = "";
    while length > 0 {
        put!(line, "{between}");
        between = ",";
        let kind = u8_at(options, 0)?;
        line.name(&NAMES, kind, format_args!("unknown {kind}"));
        let len = match kind {
            0 => return Ok(()),
            1 => 1,
            _ => usize::from(u8_at(options, 1)?),
        };
        if kind != 1 && (len < 2 || len > length) {
            put!(line, " [bad length {len}]");
            return Ok(());
        }
        one(line, kind, slice_at(options, 0, len)?)?;
        options = &options[len..];
        length -= len;
    }
    Ok(())
}

fn one(line: &mut SummaryLine<'_>, kind: u8, option: &[u8]) -> DecodeResult {
    match kind {
        7 | 131 | 137 => route(line, option),
        68 => timestamps(line, option),
        148 if option.len() < 4 => {
            line.cut();
            Ok(())
        }
        148 => {
            let value = u16::from_be_bytes([option[2], option[3]]);
            if value != 0 {
                put!(line, " value {value}");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Writes the addresses of a route option. These are routers on the path: already visited ones and,
/// in a source route, also those still to be visited.
fn route(line: &mut SummaryLine<'_>, option: &[u8]) -> DecodeResult {
    if option.len() < 3 {
        put!(line, " [bad length {}]", option.len());
        return Ok(());
    }
    if !(option.len() + 1).is_multiple_of(4) {
        put!(line, " [bad length {}]", option.len());
    }
    let pointer = usize::from(u8_at(option, 2)?);
    if pointer < 4 || pointer % 4 != 0 {
        put!(line, " [bad ptr {pointer}]");
    }
    let mut at = 3;
    while at + 4 <= option.len() {
        put!(line, "{} {}", if at + 1 == pointer && at > 3 { "," } else { "" }, v4_at(option, at)?);
        at += 4;
    }
    Ok(())
}

fn timestamps(line: &mut SummaryLine<'_>, option: &[u8]) -> Result<(), TruncatedHeader> {
    if option.len() < 4 {
        put!(line, "[bad length {}]", option.len());
        return Ok(());
    }
    put!(line, " TS{{");
    let (pointer, flags) = (usize::from(option[2]), option[3]);
    let hop_len = if flags & 15 == 0 { 4 } else { 8 };
    put!(
        line,
        "{}",
        match flags & 15 {
            0 => "TSONLY",
            1 => "TS+ADDR",
            3 => "PRESPEC",
            _ => "[bad ts type]",
        }
    );
    if !matches!(flags & 15, 0 | 1 | 3) {
        put!(line, "}}");
        return Ok(());
    }
    let mut kind = " ^ ";
    let mut at = 4;
    while at + hop_len <= option.len() {
        put!(line, "{}", if at + 1 == pointer { kind } else { " " });
        if at + 1 == pointer {
            kind = "";
        }
        let time = u32_at(option, at + hop_len - 4)?;
        put!(line, "{time}@");
        if hop_len == 8 {
            put!(line, "{}", v4_at(option, at)?);
        }
        at += hop_len;
    }
    put!(line, "{kind}");
    if flags >> 4 > 0 {
        put!(line, " [{} hops not recorded]}} ", flags >> 4);
    }
    put!(line, "}}");
    Ok(())
}
