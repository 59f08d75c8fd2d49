//! The options of a rule.

use alloc::format;
use alloc::vec::Vec;

use super::address::{self, AcceptedVersions};
use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::names::{self, NameTable};
use super::words::SourceWord;
use super::{body, header, number, unsupported};
use crate::rule::{
    BitTest, Clause, Condition, ConditionPattern, HeaderField, InterfacePattern, KeepState,
    LimitFields, LookupKey, LookupMask, Rule, StateLimit,
};

/// Options that compare a header field with ranges: keyword, field, maximum value, and names of
/// values.
const NUMBERS: &[(&str, HeaderField, u16, &NameTable<u16>)] = &[
    ("src-port", HeaderField::SrcPort, u16::MAX, names::SERVICES),
    ("dst-port", HeaderField::DstPort, u16::MAX, names::SERVICES),
    ("mac-type", HeaderField::MacType, u16::MAX, names::ETHERTYPES),
    ("vlan", HeaderField::Vlan, 4095, &[]),
    ("inner-vlan", HeaderField::InnerVlan, 4095, &[]),
    ("iplen", HeaderField::IpLen, u16::MAX, &[]),
    ("ipid", HeaderField::IpId, u16::MAX, &[]),
    ("ipttl", HeaderField::IpTtl, 255, &[]),
    ("tcpwin", HeaderField::TcpWin, u16::MAX, &[]),
    ("tcpdatalen", HeaderField::TcpDataLen, u16::MAX, &[]),
    ("tcpmss", HeaderField::TcpMss, u16::MAX, &[]),
];

/// The keywords of all other supported options.
const KEYWORDS: &[&str] = &[
    "in",
    "out",
    "layer2",
    "bridged",
    "recv",
    "xmit",
    "via",
    "MAC",
    "mac",
    "src-mac",
    "dst-mac",
    "established",
    "estab",
    "setup",
    "tcpflags",
    "tcpflgs",
    "tcpoptions",
    "tcpopts",
    "tcpseq",
    "tcpack",
    "iptos",
    "ipprecedence",
    "ipprec",
    "dscp",
    "ipversion",
    "ipver",
    "ipoptions",
    "ipopts",
    "frag",
    "fragment",
    "icmptypes",
    "icmptype",
    "icmp6types",
    "icmp6type",
    "ext6hdr",
    "flow-id",
    "tagged",
    "mark",
    "lookup",
    "flow",
    "src-ip",
    "dst-ip",
    "src-ip6",
    "dst-ip6",
    "src-ipv6",
    "dst-ipv6",
    "proto",
    "keep-state",
    "limit",
    "record-state",
    "set-limit",
    "defer-action",
    "defer-immediate-action",
];

const EXPECTED: &str = "an option: in, out, recv, via, dst-port, established, keep-state, …";

/// Returns the option name of a numeric field.
pub(super) fn field_name(field: HeaderField) -> &'static str {
    NUMBERS.iter().find(|entry| entry.1 == field).map_or("", |entry| entry.0)
}

pub(super) fn is_keyword(text: &str) -> bool {
    KEYWORDS.contains(&text)
        || NUMBERS.iter().any(|entry| entry.0 == text)
        || names::value(unsupported::OPTIONS, text).is_some()
}

/// Parses an option, or several in brackets.
pub(super) fn clause(cursor: &mut WordCursor<'_>) -> Result<Clause, RuleTextError> {
    let word = cursor.peek();
    let mut patterns = body::block(cursor, condition)?;
    body::can_hold(word, &patterns)?;
    patterns.iter_mut().filter(|pattern| pattern.not).for_each(invert_direction);
    Ok(Clause(patterns))
}

/// Consumes `src-port any` or `dst-port any`, which are no condition. Returns whether one of them
/// was next.
pub(super) fn any_port(cursor: &mut WordCursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    let is_any = (ahead.eat("src-port") || ahead.eat("dst-port")) && ahead.eat("any");
    if is_any {
        *cursor = ahead;
    }
    is_any
}

/// Replaces `not in` by `out`, and `not out` by `in`. Only for patterns with `not`.
fn invert_direction(pattern: &mut ConditionPattern) {
    pattern.condition = match pattern.condition {
        Condition::In => Condition::Out,
        Condition::Out => Condition::In,
        _ => return,
    };
    pattern.not = false;
}

/// Parses one option about the states that the rule creates; `not` and brackets are invalid for
/// these options. Returns `false` if no such option is next.
pub(super) fn state(cursor: &mut WordCursor<'_>, rule: &mut Rule) -> Result<bool, RuleTextError> {
    let Some(word) = cursor.peek() else { return Ok(false) };
    let (probe, limited) = match word.text.as_str() {
        "keep-state" => (true, false),
        "limit" => (true, true),
        "record-state" => (false, false),
        "set-limit" => (false, true),
        "defer-action" | "defer-immediate-action" => {
            cursor.skip();
            rule.defer = true;
            return Ok(true);
        }
        _ => return Ok(false),
    };
    cursor.skip();
    if rule.keep.is_some() {
        let message = format!("`{}` comes after another option that keeps states", word.text);
        return Err(RuleTextError::at(word, message, "one such option in a rule"));
    }
    let limit = if limited { Some(limit(cursor)?) } else { None };
    rule.keep = Some(KeepState { probe, limit, name: header::state_name(cursor)? });
    Ok(true)
}

const EXPECTED_FIELDS: &str = "some of src-addr, src-port, dst-addr, dst-port, or all";

/// Parses the fields that a limit counts by, from one word.
pub(super) fn limit_fields(cursor: &mut WordCursor<'_>) -> Result<LimitFields, RuleTextError> {
    let word = cursor.next(EXPECTED_FIELDS)?;
    let mut fields = LimitFields::default();
    let known = word.text.split(',').try_for_each(|item| limit_field(&mut fields, item));
    known.map(|()| fields).ok_or_else(|| RuleTextError::unexpected(word, EXPECTED_FIELDS))
}

fn limit(cursor: &mut WordCursor<'_>) -> Result<StateLimit, RuleTextError> {
    let expected = EXPECTED_FIELDS;
    let mut fields = LimitFields::default();
    let mut seen = false;
    while let Some(word) =
        cursor.peek().filter(|word| word.text.as_bytes()[0].is_ascii_alphabetic())
    {
        if word.text == "tablearg" && seen {
            break;
        }
        cursor.skip();
        for item in word.text.split(',') {
            limit_field(&mut fields, item)
                .ok_or_else(|| RuleTextError::unexpected(word, expected))?;
        }
        seen = true;
    }
    if !seen {
        return Err(cursor.peek().map_or_else(
            || cursor.too_short(expected),
            |word| RuleTextError::unexpected(word, expected),
        ));
    }
    Ok(StateLimit { fields, max: number::arg(cursor, 65534, "number of states")? })
}

fn limit_field(fields: &mut LimitFields, item: &str) -> Option<()> {
    match item {
        "src-addr" => fields.src_addr = true,
        "src-port" => fields.src_port = true,
        "dst-addr" => fields.dst_addr = true,
        "dst-port" => fields.dst_port = true,
        "all" => {
            *fields =
                LimitFields { src_addr: true, src_port: true, dst_addr: true, dst_port: true };
        }
        _ => return None,
    }
    Some(())
}

fn condition(cursor: &mut WordCursor<'_>) -> Result<Condition, RuleTextError> {
    let word = cursor.next(EXPECTED)?;
    let text = word.text.as_str();
    if let Some(&(_, field, high, names)) = NUMBERS.iter().find(|entry| entry.0 == text) {
        let list = cursor.next("a list of numbers and ranges")?;
        return Ok(Condition::Number(field, number::ranges(list, high, names, text)?));
    }
    match text {
        "in" | "layer2" | "bridged" | "established" | "estab" | "setup" | "out" => Ok(plain(text)),
        "recv" | "xmit" | "via" => interface(cursor, text),
        "MAC" | "mac" | "src-mac" | "dst-mac" | "lookup" | "flow" => tables(cursor, text),
        "proto" | "src-ip" | "dst-ip" | "src-ip6" | "dst-ip6" | "src-ipv6" | "dst-ipv6" => {
            addresses(cursor, text)
        }
        "tcpflags" | "tcpflgs" | "tcpoptions" | "tcpopts" | "iptos" | "ipoptions" | "ipopts"
        | "frag" | "fragment" => bits(cursor, text),
        "icmptypes" | "icmptype" | "icmp6types" | "icmp6type" | "ext6hdr" | "flow-id" | "dscp" => {
            lists(cursor, text)
        }
        "tcpseq" | "tcpack" | "ipprecedence" | "ipprec" | "ipversion" | "ipver" | "tagged"
        | "mark" => numbers(cursor, text),
        _ => Err(unknown(word)),
    }
}

fn unknown(word: &SourceWord) -> RuleTextError {
    let in_block = ["keep-state", "limit", "record-state", "set-limit", "defer-action"];
    match names::value(unsupported::OPTIONS, &word.text) {
        Some(why) => RuleTextError::refused(word, why),
        None if in_block.contains(&word.text.as_str()) => {
            RuleTextError::unexpected(word, "it outside of brackets and without `not`")
        }
        None => RuleTextError::unexpected(word, EXPECTED),
    }
}

fn plain(text: &str) -> Condition {
    match text {
        "in" => Condition::In,
        "out" => Condition::Out,
        "layer2" | "bridged" => Condition::Layer2,
        "setup" => Condition::TcpFlags(BitTest { set: 0x02, clear: 0x10 }),
        _ => Condition::Established,
    }
}

fn interface(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    let word = cursor.next("a port name, a pattern, an address, `any` or `table(NAME)`")?;
    let interface = match word.text.as_str() {
        "any" => InterfacePattern::Any,
        name if name.starts_with("table(") => InterfacePattern::Table(address::table(word)?),
        name => name
            .parse()
            .map_or_else(|_| InterfacePattern::Glob(name.into()), InterfacePattern::Address),
    };
    Ok(match text {
        "recv" => Condition::Recv(interface),
        "xmit" => Condition::Xmit(interface),
        _ => Condition::Via(interface),
    })
}

fn addresses(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    if text == "proto" {
        return body::protocol(cursor);
    }
    let word = cursor.next("addresses")?;
    let versions = if text.contains("ip6") || text.contains("ipv6") {
        AcceptedVersions::V6
    } else {
        AcceptedVersions::V4
    };
    let found = address::addresses(word, versions)?;
    Ok(if text.starts_with("src") { Condition::Src(found) } else { Condition::Dst(found) })
}

fn tables(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    match text {
        "MAC" | "mac" => {
            let dst = address::mac(cursor.next("the destination address")?)?;
            let src = address::mac(cursor.next("the source address")?)?;
            Ok(Condition::Mac { dst, src })
        }
        "lookup" => lookup(cursor),
        _ => {
            let table = address::table(cursor.next("`table(NAME)`")?)?;
            Ok(match text {
                "src-mac" => Condition::SrcMac(table),
                "dst-mac" => Condition::DstMac(table),
                _ => Condition::Flow(table),
            })
        }
    }
}

fn lookup(cursor: &mut WordCursor<'_>) -> Result<Condition, RuleTextError> {
    let expected = "a key: dst-ip, src-ip, dst-port, src-port, dscp, dst-mac, src-mac, mark, \
                    rulenum, with or without `:BITMASK`";
    let word = cursor.next(expected)?;
    let (key, mask) = match word.text.split_once(':') {
        Some((key, mask)) => (key, Some(mask)),
        None => (word.text.as_str(), None),
    };
    if matches!(key, "uid" | "jail") {
        return Err(RuleTextError::refused(
            word,
            "another key: there are no sockets between two ports",
        ));
    }
    let key = names::value(names::LOOKUP_KEYS, key)
        .ok_or_else(|| RuleTextError::unexpected(word, expected))?;
    let mask = mask.map(|text| lookup_mask(word, key, text)).transpose()?;
    let name = cursor.next("the name of a table")?;
    let table = address::table_name(&name.text)
        .ok_or_else(|| RuleTextError::unexpected(name, "the name of a table"))?;
    Ok(Condition::Lookup { key, mask, table })
}

fn lookup_mask(word: &SourceWord, key: LookupKey, text: &str) -> Result<LookupMask, RuleTextError> {
    use LookupKey as K;
    let v4 = || text.parse().ok().map(|mask: core::net::Ipv4Addr| LookupMask::V4(mask.to_bits()));
    let v6 = || {
        let mask: core::net::Ipv6Addr = text.parse().ok()?;
        Some(LookupMask::V6(mask.to_bits().into()))
    };
    let mask = match key {
        K::DstIp | K::SrcIp => v4().or_else(v6),
        K::DstIp4 | K::SrcIp4 => v4(),
        K::DstIp6 | K::SrcIp6 => v6(),
        K::DstMac | K::SrcMac => text.parse().ok().map(LookupMask::Mac),
        _ => number::parse(text).and_then(|mask| Some(LookupMask::Number(mask.try_into().ok()?))),
    };
    mask.ok_or_else(|| RuleTextError::unexpected(word, "a bitmask written like the key"))
}

fn bits(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    if text.starts_with("frag") {
        let given = number::try_flags(cursor.peek_text(), names::FRAG);
        if given.is_some() {
            cursor.skip();
        }
        return Ok(Condition::Frag(given.unwrap_or(BitTest { set: 0x08, clear: 0 })));
    }
    let word = cursor.next("flags, separated by commas")?;
    Ok(match text {
        "tcpflags" | "tcpflgs" => {
            Condition::TcpFlags(number::flags(word, names::TCP_FLAGS, "TCP flags")?)
        }
        "tcpoptions" | "tcpopts" => {
            Condition::TcpOptions(number::flags(word, names::TCP_OPTIONS, "TCP options")?)
        }
        "iptos" => Condition::IpTos(number::flags(word, names::IP_TOS, "type of service bits")?),
        _ => Condition::IpOptions(number::flags(word, names::IP_OPTIONS, "IP options")?),
    })
}

fn lists(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    let word = cursor.next("a list, separated by commas")?;
    Ok(match text {
        "icmptypes" | "icmptype" => {
            let types = number::list(word, 31, "ICMP types")?;
            Condition::IcmpTypes(types.iter().fold(0, |set, kind| set | 1 << kind))
        }
        "icmp6types" | "icmp6type" => {
            let mut set = [0; 4];
            for kind in number::list(word, 255, "ICMPv6 types")? {
                set[(kind >> 6) as usize] |= 1 << (kind & 63);
            }
            Condition::Icmp6Types(set)
        }
        "ext6hdr" => {
            let found = number::flags(word, names::EXTENSIONS, "extension headers")?;
            if found.clear != 0 {
                return Err(RuleTextError::unexpected(word, "extension headers without `!`"));
            }
            Condition::Ext6Hdr(found.set)
        }
        "flow-id" => {
            let labels = number::list(word, 0xf_ffff, "flow labels")?;
            Condition::FlowId(labels.into_iter().map(|label| label as u32).collect())
        }
        _ => Condition::Dscp(dscps(word)?),
    })
}

fn dscps(word: &SourceWord) -> Result<u64, RuleTextError> {
    let all: Option<Vec<_>> = word.text.split(',').map(number::dscp_value).collect();
    let all =
        all.ok_or_else(|| RuleTextError::unexpected(word, "DSCPs: 0 to 63, af11, cs1, ef, …"))?;
    Ok(all.iter().fold(0, |set, dscp| set | 1 << dscp))
}

fn numbers(cursor: &mut WordCursor<'_>, text: &str) -> Result<Condition, RuleTextError> {
    let word = cursor.next("a number")?;
    let within = |high| number::within(word, 0, high, text);
    Ok(match text {
        "tcpseq" => Condition::TcpSeq(within(u32::MAX.into())? as u32),
        "tcpack" => Condition::TcpAck(within(u32::MAX.into())? as u32),
        "ipprecedence" | "ipprec" => Condition::IpPrecedence(within(7)? as u8),
        "ipversion" | "ipver" => Condition::IpVersion(within(15)? as u8),
        "tagged" if word.text == "tablearg" => Condition::TaggedTablearg,
        "tagged" => Condition::Tagged(number::ranges(word, 65534, &[], "tag")?),
        _ => mark(word)?,
    })
}

fn mark(word: &SourceWord) -> Result<Condition, RuleTextError> {
    if word.text == "tablearg" {
        return Ok(Condition::MarkTablearg);
    }
    let (value, mask) = word.text.split_once(':').unwrap_or((&word.text, "0xffffffff"));
    let read = |text| number::parse(text).and_then(|number| u32::try_from(number).ok());
    let found = read(value).zip(read(mask));
    let (value, mask) = found
        .ok_or_else(|| RuleTextError::unexpected(word, "`MARK`, `MARK:MASK` or `tablearg`"))?;
    Ok(Condition::Mark { value: value & mask, mask })
}
