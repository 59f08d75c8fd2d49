//! Prints DNS and multicast DNS.

use super::text::{
    DecodeResult, PrintableText, SummaryLine, TruncatedHeader, bytes_from, put, slice_at, u8_at,
    u16_at, u32_at, v4_at, v6_at,
};

const HEADER_LEN: usize = 12;
/// Maximum number of compression pointers that are followed in one name. Without a limit, a short
/// name could become very long, because each pointer may repeat most of the message.
const MAX_POINTERS: u32 = 64;
const RESPONSE: u16 = 0x8000;
const INTERNET: u16 = 1;
const OPT: u16 = 41;

const OPERATIONS: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];
const ANSWERS: [&str; 16] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " Resp15",
];
const TYPES: [(u16, &str); 62] = [
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAP_PTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (31, "EID"),
    (32, "NIMLOC"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (40, "SINK"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (99, "SPF"),
    (100, "UINFO"),
    (101, "UID"),
    (102, "GID"),
    (103, "UNSPEC"),
    (104, "UNSPECA"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "ANY"),
    (256, "URI"),
];
const CLASSES: [(u16, &str); 3] = [(3, "CHAOS"), (4, "HS"), (255, "ANY")];

/// A DNS message, and whether it is multicast DNS.
struct DnsMessage<'m> {
    bytes: &'m [u8],
    is_multicast: bool,
}

/// Writes a message. Over UDP, the message is the whole payload.
pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    is_multicast: bool,
) -> DecodeResult {
    line.protocol = "domain";
    if length < HEADER_LEN {
        put!(line, "domain [length {length} < {HEADER_LEN}] (invalid)");
        return Ok(());
    }
    slice_at(bytes, 0, HEADER_LEN)?;
    let message = DnsMessage { bytes, is_multicast };
    let flags = u16_at(bytes, 2)?;
    put!(line, "{}{}", u16_at(bytes, 0)?, OPERATIONS[usize::from(flags >> 11 & 15)]);
    match flags & RESPONSE {
        0 => query(line, &message, flags)?,
        _ => response(line, &message, flags)?,
    }
    put!(line, " ({length})");
    Ok(())
}

/// Writes a message that arrived over TCP. There, a 16-bit length precedes the message.
pub(super) fn over_tcp(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "domain";
    if length < 2 {
        put!(line, " [DNS over TCP: length {length} < 2] (invalid)");
        return Ok(());
    }
    let claimed = usize::from(u16_at(bytes, 0)?);
    if claimed != length - 2 {
        put!(line, " [prefix length({claimed}) != length({})] (invalid)", length - 2);
        return Ok(());
    }
    put!(line, " ");
    self::line(line, bytes_from(bytes, 2), claimed, false)
}

/// Returns the numbers of questions, answers, authorities and additional records.
fn counts(bytes: &[u8]) -> Result<[u16; 4], TruncatedHeader> {
    Ok([u16_at(bytes, 4)?, u16_at(bytes, 6)?, u16_at(bytes, 8)?, u16_at(bytes, 10)?])
}

fn response(line: &mut SummaryLine<'_>, message: &DnsMessage<'_>, flags: u16) -> DecodeResult {
    put!(line, "{}", ANSWERS[usize::from(flags & 15)]);
    put!(line, "{}", if flags & 0x0400 == 0 { "" } else { "*" });
    put!(line, "{}", if flags & 0x0080 == 0 { "-" } else { "" });
    put!(line, "{}", if flags & 0x0200 == 0 { "" } else { "|" });
    put!(line, "{}", if flags & 0x0020 == 0 { "" } else { "$" });
    let [questions, answers, authorities, additional] = counts(message.bytes)?;
    if questions != 1 {
        put!(line, " [{questions}q]");
    }
    let mut at = HEADER_LEN;
    for nth in 0..questions {
        put!(line, "{}", if nth == 0 { "" } else { "," });
        if line.detail.verbose > 1 {
            put!(line, " q:");
            at = question(line, message, at)?;
        } else {
            at = skip_name(message.bytes, at)? + 4;
        }
    }
    put!(line, " {answers}/{authorities}/{additional}");
    at = records(line, message, at, answers, "")?;
    if line.detail.verbose > 1 {
        at = records(line, message, at, authorities, " ns:")?;
        records(line, message, at, additional, " ar:")?;
    }
    Ok(())
}

fn query(line: &mut SummaryLine<'_>, message: &DnsMessage<'_>, flags: u16) -> DecodeResult {
    put!(line, "{}", if flags & 0x0100 == 0 { "" } else { "+" });
    put!(line, "{}", if flags & 0x0010 == 0 { "" } else { "%" });
    if flags & 0x06cf != 0 {
        put!(line, " [b2&3=0x{flags:x}]");
    }
    let [questions, answers, authorities, additional] = counts(message.bytes)?;
    // An inverse query has answers instead of questions.
    let is_inverse = flags & 0x7800 == 0x0800;
    let [first, second] = match is_inverse {
        true => [(questions, 0, "q"), (answers, 1, "a")],
        false => [(answers, 0, "a"), (questions, 1, "q")],
    };
    for (count, usual, name) in [first, second, (authorities, 0, "n"), (additional, 0, "au")] {
        if count != usual {
            put!(line, " [{count}{name}]");
        }
    }
    let mut at = HEADER_LEN;
    for _ in 0..questions {
        at = question(line, message, at)?;
    }
    if line.detail.verbose > 1 {
        at = records(line, message, at, answers, "")?;
        at = records(line, message, at, authorities, " ns:")?;
        records(line, message, at, additional, " ar:")?;
    }
    Ok(())
}

/// Writes records, separated by commas. Returns the offset of the byte after them.
fn records(
    line: &mut SummaryLine<'_>,
    message: &DnsMessage<'_>,
    mut at: usize,
    count: u16,
    head: &str,
) -> Result<usize, TruncatedHeader> {
    for nth in 0..count {
        if nth > 0 && at >= message.bytes.len() {
            return Err(TruncatedHeader);
        }
        put!(line, "{}", if nth == 0 { head } else { "," });
        at = record(line, message, at)?;
    }
    Ok(at)
}

/// Writes a question such as ` A? example.com.`. Returns the offset of the byte after it.
fn question(
    line: &mut SummaryLine<'_>,
    message: &DnsMessage<'_>,
    at: usize,
) -> Result<usize, TruncatedHeader> {
    let end = skip_name(message.bytes, at)?;
    let (kind, class) = (u16_at(message.bytes, end)?, u16_at(message.bytes, end + 2)?);
    put!(line, " ");
    line.name(&TYPES, kind, format_args!("Type{kind}"));
    let wanted = if message.is_multicast { class & 0x7fff } else { class };
    if wanted != INTERNET {
        put!(line, " ");
        line.name(&CLASSES, wanted, format_args!("(Class {wanted})"));
    }
    if message.is_multicast {
        put!(line, "{}", if class & 0x8000 == 0 { " (QM)" } else { " (QU)" });
    }
    put!(line, "? ");
    name(line, message.bytes, at)?;
    Ok(end + 4)
}

fn record(
    line: &mut SummaryLine<'_>,
    message: &DnsMessage<'_>,
    at: usize,
) -> Result<usize, TruncatedHeader> {
    let bytes = message.bytes;
    if line.is_verbose() {
        put!(line, " ");
        name(line, bytes, at)?;
    }
    let at = skip_name(bytes, at)?;
    let (kind, class) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
    let (ttl, len) = (u32_at(bytes, at + 4)?, usize::from(u16_at(bytes, at + 8)?));
    let flushes = message.is_multicast && class & 0x8000 != 0;
    let shown = if message.is_multicast { class & 0x7fff } else { class };
    if shown != INTERNET && kind != OPT {
        put!(line, " ");
        line.name(&CLASSES, shown, format_args!("(Class {shown})"));
    }
    if flushes {
        put!(line, " (Cache flush)");
    }
    if line.detail.verbose > 2 && kind != OPT {
        put!(line, " [");
        time(line, ttl);
        put!(line, "]");
    }
    put!(line, " ");
    line.name(&TYPES, kind, format_args!("Type{kind}"));
    let (data_at, end) = (at + 10, at + 10 + len);
    data(line, bytes, data_at, len, (kind, class, ttl))?;
    if end > bytes.len() { Err(TruncatedHeader) } else { Ok(end) }
}

/// Writes a time in seconds as `1d2h3m4s`, without the parts that are 0.
fn time(line: &mut SummaryLine<'_>, seconds: u32) {
    if seconds == 0 {
        put!(line, "0s");
    }
    let mut left = seconds;
    for (unit, name) in [(604_800, "w"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s")] {
        if left >= unit {
            put!(line, "{}{name}", left / unit);
            left %= unit;
        }
    }
}

fn data(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    at: usize,
    len: usize,
    (kind, class, ttl): (u16, u16, u32),
) -> DecodeResult {
    match kind {
        1 => put!(line, " {}", v4_at(slice_at(bytes, at, len)?, 0)?),
        28 => put!(line, " {}", v6_at(slice_at(bytes, at, len)?, 0)?),
        2 | 5 | 12 | 39 => {
            put!(line, " ");
            name(line, bytes, at)?;
        }
        15 => {
            put!(line, " ");
            let preference = u16_at(bytes, at)?;
            name(line, bytes, at + 2)?;
            put!(line, " {preference}");
        }
        6 if line.is_verbose() => start_of_authority(line, bytes, at)?,
        16 => texts(line, slice_at(bytes, at, len)?)?,
        33 => {
            put!(line, " ");
            name(line, bytes, at + 6)?;
            let number = |nth: usize| u16_at(bytes, at + 2 * nth);
            put!(line, ":{} {} {}", number(2)?, number(0)?, number(1)?);
        }
        OPT => options(line, slice_at(bytes, at, len)?, class, ttl)?,
        _ => {}
    }
    Ok(())
}

fn start_of_authority(line: &mut SummaryLine<'_>, bytes: &[u8], at: usize) -> DecodeResult {
    put!(line, " ");
    let second = name(line, bytes, at)?;
    put!(line, " ");
    let numbers = name(line, bytes, second)?;
    for nth in 0..5 {
        put!(line, " {}", u32_at(bytes, numbers + 4 * nth)?);
    }
    Ok(())
}

fn texts(line: &mut SummaryLine<'_>, mut data: &[u8]) -> DecodeResult {
    while let [len, more @ ..] = data {
        let text = slice_at(more, 0, usize::from(*len))?;
        put!(line, " \"{}\"", PrintableText(text));
        data = &more[text.len()..];
    }
    Ok(())
}

fn options(line: &mut SummaryLine<'_>, mut data: &[u8], size: u16, ttl: u32) -> DecodeResult {
    const COOKIE: u16 = 10;
    put!(line, " UDPsize={size}");
    if ttl & 0x8000 != 0 {
        put!(line, " DO");
    }
    if data.is_empty() {
        return Ok(());
    }
    put!(line, " [");
    let mut between = "";
    while !data.is_empty() {
        let (kind, len) = (u16_at(data, 0)?, usize::from(u16_at(data, 2)?));
        let value = slice_at(data, 4, len)?;
        put!(line, "{between}");
        match kind {
            COOKIE => put!(line, "COOKIE "),
            other => put!(line, "Opt{other} "),
        }
        value.iter().for_each(|byte| put!(line, "{byte:02x}"));
        between = ",";
        data = &data[4 + len..];
    }
    put!(line, "]");
    Ok(())
}

/// Returns the offset of the byte after a name. Does not follow compression pointers.
fn skip_name(bytes: &[u8], mut at: usize) -> Result<usize, TruncatedHeader> {
    loop {
        let len = u8_at(bytes, at)?;
        match len {
            0 => return Ok(at + 1),
            0xc0.. => return u8_at(bytes, at + 1).map(|_| at + 2),
            1..0x40 => at += 1 + usize::from(len),
            _ => return Err(TruncatedHeader),
        }
    }
}

/// Writes a name, with a dot after each label. Returns the offset of the byte after it.
pub(super) fn name(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    start: usize,
) -> Result<usize, TruncatedHeader> {
    let end = skip_name(bytes, start)?;
    let (mut at, mut limit, mut pointers) = (start, start, 0);
    if u8_at(bytes, at)? == 0 {
        put!(line, ".");
        return Ok(end);
    }
    loop {
        let len = u8_at(bytes, at)?;
        match len {
            0 => return Ok(end),
            0xc0.. => {
                let target = usize::from(u16_at(bytes, at)? & 0x3fff);
                pointers += 1;
                // A compression pointer must lead to an offset before this name, and before the
                // targets of the pointers that were already followed. Any other pointer could cause
                // an endless loop.
                if target >= limit || pointers > MAX_POINTERS {
                    put!(line, "<BAD PTR>");
                    return Err(TruncatedHeader);
                }
                (at, limit) = (target, target);
            }
            1..0x40 => {
                let label = slice_at(bytes, at + 1, usize::from(len))?;
                put!(line, "{}.", PrintableText(label));
                at += 1 + usize::from(len);
            }
            _ => return Err(TruncatedHeader),
        }
    }
}
