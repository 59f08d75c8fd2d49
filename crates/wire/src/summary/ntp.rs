//! Prints NTP and SNTP.

use super::text::{
    DecodeResult, PrintableText, SummaryLine, bytes_from, put, slice_at, u8_at, u16_at, u32_at,
    u64_at,
};

const LEN: usize = 48;
const MODES: [&str; 8] = [
    "unspecified",
    "symmetric active",
    "symmetric passive",
    "Client",
    "Server",
    "Broadcast",
    "Control Message",
    "Reserved",
];
const CONTROL: u8 = 6;
/// Mode 7. Each implementation defines its own format for it.
const PRIVATE: u8 = 7;
const CONTROL_LEN: usize = 12;
/// Seconds from 1900, where NTP's time starts, to 1970.
const UNIX_EPOCH: u32 = 2_208_988_800;

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "ntp";
    let first = u8_at(bytes, 0)?;
    let (leap, version, mode) = (first & 0xc0, first >> 3 & 7, first & 7);
    put!(line, "NTPv{version}, {}, length {length}", MODES[usize::from(mode)]);
    if !line.is_verbose() {
        return Ok(());
    }
    put!(line, "\n\tLeap indicator: ");
    let leaps = ["", "+1s", "-1s", "clock unsynchronized"];
    put!(line, "{} ({leap})", leaps[usize::from(leap >> 6)]);
    let least = if mode == CONTROL { CONTROL_LEN } else { LEN };
    if length < least {
        put!(line, " (invalid)");
        return slice_at(bytes, 0, length).map(|_| ());
    }
    match mode {
        CONTROL => control(line, bytes),
        PRIVATE => Ok(()),
        _ => time(line, bytes, length),
    }
}

fn control(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let bits = u8_at(bytes, 1)?;
    put!(line, ", {}", if bits & 0x80 == 0 { "Request" } else { "Response" });
    put!(line, ", {}", if bits & 0x40 == 0 { "OK" } else { "Error" });
    put!(line, ", {}", if bits & 0x20 == 0 { "Last" } else { "More" });
    put!(line, ", OpCode={}", bits & 0x1f);
    put!(line, "\n\tSequence={}", u16_at(bytes, 2)?);
    let status = u16_at(bytes, 4)?;
    put!(line, ", Status={}{status:x}", if status == 0 { "" } else { "0x" });
    put!(line, ", Assoc.={}", u16_at(bytes, 6)?);
    put!(line, ", Offset={}", u16_at(bytes, 8)?);
    put!(line, ", Count={}", u16_at(bytes, 10)?);
    Ok(())
}

fn time(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    let (stratum, poll, precision) =
        (u8_at(bytes, 1)?, u8_at(bytes, 2)? as i8, u8_at(bytes, 3)? as i8);
    put!(line, ", Stratum {stratum} (");
    put!(
        line,
        "{}",
        match stratum {
            0 => "unspecified",
            1 => "primary reference",
            2..16 => "secondary reference",
            _ => "reserved",
        }
    );
    put!(line, "), poll {poll}");
    match poll {
        0..32 => put!(line, " ({}s)", 1u64 << poll),
        -31..0 => put!(line, " (1/{}s)", 1u64 << -poll),
        _ => {}
    }
    put!(line, ", precision {precision}");
    put!(line, "\n\tRoot Delay: ");
    short(line, u32_at(bytes, 4)?);
    let dispersion = u32_at(bytes, 8)?;
    put!(line, ", Root dispersion: ");
    short(line, dispersion);
    put!(line, ", Reference-ID: ");
    let id = slice_at(bytes, 12, 4)?;
    match stratum {
        0 => put!(line, "(unspec)"),
        1 => put!(line, "{}", PrintableText(id)),
        _ => put!(line, "0x{:08x}", u32_at(bytes, 12)?),
    }
    stamps(line, bytes)?;
    authentication(line, bytes_from(bytes, LEN), length - LEN)
}

fn authentication(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    match length {
        0 => {}
        4 => put!(line, "\n\tKey id: {}", u32_at(bytes, 0)?),
        20 | 24 => {
            put!(line, "\n\tKey id: {}", u32_at(bytes, 0)?);
            put!(line, "\n\tAuthentication: ");
            slice_at(bytes, 4, length - 4)?.iter().for_each(|byte| put!(line, "{byte:02x}"));
        }
        _ => put!(line, "\n\t({length} more bytes after the header)"),
    }
    Ok(())
}

fn stamps(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    let names = [
        "Reference Timestamp:  ",
        "Originator Timestamp: ",
        "Receive Timestamp:    ",
        "Transmit Timestamp:   ",
    ];
    let mut times = [0; 4];
    for (at, (name, time)) in names.into_iter().zip(&mut times).enumerate() {
        *time = u64_at(bytes, 16 + 8 * at)?;
        put!(line, "\n\t  {name}");
        stamp(line, *time);
    }
    let [_, originate, receive, transmit] = times;
    put!(line, "\n\t    Originator - Receive Timestamp:  ");
    difference(line, originate, receive);
    put!(line, "\n\t    Originator - Transmit Timestamp: ");
    difference(line, originate, transmit);
    Ok(())
}

/// Writes a time that has 16 bits of seconds and 16 bits of fraction.
fn short(line: &mut SummaryLine<'_>, time: u32) {
    let fraction = f64::from(time & 0xffff) / 65_536.0;
    put!(line, "{}.{:06}", time >> 16, (fraction * 1e6) as u32);
}

/// Converts a fraction of a second from units of 2^-32 s to ns.
fn nanos(fraction: u32) -> u32 {
    (f64::from(fraction) / 4_294_967_296.0 * 1e9) as u32
}

fn stamp(line: &mut SummaryLine<'_>, time: u64) {
    let (seconds, fraction) = ((time >> 32) as u32, time as u32);
    put!(line, "{seconds}.{:09}", nanos(fraction));
    if seconds != 0 {
        let unix = i64::from(seconds) - i64::from(UNIX_EPOCH);
        put!(line, " (");
        date(line, unix);
        put!(line, ")");
    }
}

/// Writes the date and time of `unix`, a number of seconds since 1970, such as
/// `2013-08-24T21:18:42Z`.
fn date(line: &mut SummaryLine<'_>, unix: i64) {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Days since 1 March of the year 0. With this start, a leap day is the last day of a year. An
    // era has 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    put!(line, "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
}

/// Writes by how many seconds `other` is later than `first`, with a sign. If `first` is 0, writes
/// `other` as a time instead.
fn difference(line: &mut SummaryLine<'_>, first: u64, other: u64) {
    if first == 0 {
        stamp(line, other);
        return;
    }
    let (sign, apart) = match other.cmp(&first) {
        core::cmp::Ordering::Less | core::cmp::Ordering::Equal => ("-", first - other),
        core::cmp::Ordering::Greater => ("+", other - first),
    };
    put!(line, "{sign}{}.{:09}", apart >> 32, nanos(apart as u32));
}
