//! Prints a rule as `ipfw list` does, without its number.
//!
//! If the style is neither compact nor brief, the output parses to the same rule, except for two
//! things: the set is not printed, and probabilities are rounded unless the style is `exact`. Ports
//! after the destination are printed as the option `dst-port`, TCP flags `syn,!ack` as `setup`,
//! `unreach host` as `reject`.

mod parts;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter, Write};

use super::names::{self, NameTable};
use super::option::field_name;
use crate::rule::{
    AddressPattern, BitTest, Clause, Condition, ConditionPattern, HeaderField, Ranges, Rule,
    RuleHead, TagOp,
};
use parts::CommaSeparated;

/// How a rule is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStyle {
    /// `-c`: omits `from any to any` if the body has no options.
    pub compact: bool,
    /// `-b`: omits the body, and prints `// ...` if there is no comment.
    pub brief: bool,
    /// `-N`: prints service names for ports.
    pub names: bool,
    /// Prints all digits of probabilities instead of six, for text that will be parsed again.
    pub exact: bool,
}

/// A rule and the style to print it in.
#[derive(Clone, Copy, Debug)]
pub struct StyledRule<'r>(pub &'r Rule, pub RuleStyle);

/// Alternative patterns, printed as an option of a rule.
#[derive(Clone, Copy, Debug)]
pub struct ClauseText<'p>(pub &'p [ConditionPattern]);

impl Display for ClauseText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        block(f, self.0, |f, pattern| option(f, pattern, RuleStyle::default()))
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        StyledRule(self, RuleStyle::default()).fmt(f)
    }
}

impl Display for StyledRule<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(rule, style) = self;
        if let Some(chance) = rule.chance {
            match style.exact {
                true => write!(f, "prob {} ", chance.to_decimal())?,
                false => write!(f, "prob {:.6} ", chance.to_f64())?,
            }
        }
        rule.action.fmt(f)?;
        rule.log.iter().try_for_each(|log| log.fmt(f))?;
        for change in &rule.tags {
            let word = if change.op == TagOp::Add { "tag" } else { "untag" };
            write!(f, " {word} {}", change.tag)?;
        }
        if !style.brief {
            body(f, rule, *style)?;
        }
        match &rule.comment {
            Some(comment) if comment.is_empty() => f.write_str(" //"),
            Some(comment) => write!(f, " // {comment}"),
            None if style.brief => f.write_str(" // ..."),
            None => Ok(()),
        }
    }
}

fn body(f: &mut Formatter<'_>, rule: &Rule, style: RuleStyle) -> fmt::Result {
    if let Some(head) = &rule.body.head {
        write_head(f, head, style, rule.body.options.is_empty())?;
    }
    for Clause(patterns) in &rule.body.options {
        block(f, patterns, |f, pattern| option(f, pattern, style))?;
    }
    rule.keep.iter().try_for_each(|keep| keep.fmt(f))?;
    if rule.defer { f.write_str(" defer-immediate-action") } else { Ok(()) }
}

fn write_head(f: &mut Formatter<'_>, head: &RuleHead, style: RuleStyle, bare: bool) -> fmt::Result {
    match head.protocols.as_slice() {
        [] => f.write_str(" ip")?,
        protocols => block(f, protocols, |f, pattern| {
            f.write_char(' ')?;
            protocol(f, &pattern.condition)
        })?,
    }
    let any = head.src.is_empty() && head.src_ports.is_none() && head.dst.is_empty();
    if style.compact && any && bare {
        return Ok(());
    }
    f.write_str(" from")?;
    side(f, &head.src)?;
    if let Some(ConditionPattern { not, condition: Condition::Number(_, ranges) }) = &head.src_ports
    {
        f.write_str(if *not { " not " } else { " " })?;
        write_ranges(f, ranges, HeaderField::SrcPort, style)?;
    }
    f.write_str(" to")?;
    side(f, &head.dst)
}

fn side(f: &mut Formatter<'_>, patterns: &[ConditionPattern]) -> fmt::Result {
    if patterns.is_empty() {
        return f.write_str(" any");
    }
    block(f, patterns, |f, pattern| match &pattern.condition {
        Condition::Src(addresses) | Condition::Dst(addresses) => write!(f, " {addresses}"),
        _ => Ok(()),
    })
}

/// Prints patterns with `not`, `or` and braces as needed.
fn block(
    f: &mut Formatter<'_>,
    patterns: &[ConditionPattern],
    one: impl Fn(&mut Formatter<'_>, &ConditionPattern) -> fmt::Result,
) -> fmt::Result {
    let many = patterns.len() > 1;
    for (index, pattern) in patterns.iter().enumerate() {
        f.write_str(if many && index == 0 { " {" } else { "" })?;
        f.write_str(if pattern.not { " not" } else { "" })?;
        one(f, pattern)?;
        f.write_str(match (many, index + 1 == patterns.len()) {
            (false, _) => "",
            (true, false) => " or",
            (true, true) => " }",
        })?;
    }
    Ok(())
}

fn protocol(f: &mut Formatter<'_>, condition: &Condition) -> fmt::Result {
    match condition {
        Condition::Ip4 => f.write_str("ip4"),
        Condition::Ip6 => f.write_str("ip6"),
        Condition::Proto(proto) => match names::proto_name(*proto) {
            Some(name) => f.write_str(name),
            None => write!(f, "{proto}"),
        },
        _ => f.write_str("ip"),
    }
}

fn option(f: &mut Formatter<'_>, pattern: &ConditionPattern, style: RuleStyle) -> fmt::Result {
    use Condition as C;
    match &pattern.condition {
        proto @ (C::Proto(_) | C::Ip4 | C::Ip6) => {
            f.write_str(" proto ")?;
            protocol(f, proto)
        }
        C::Src(AddressPattern::V6(_) | AddressPattern::Me6) => {
            address(f, " src-ip6", &pattern.condition)
        }
        C::Dst(AddressPattern::V6(_) | AddressPattern::Me6) => {
            address(f, " dst-ip6", &pattern.condition)
        }
        C::Src(_) => address(f, " src-ip", &pattern.condition),
        C::Dst(_) => address(f, " dst-ip", &pattern.condition),
        C::Number(field, ranges) => {
            write!(f, " {} ", field_name(*field))?;
            write_ranges(f, ranges, *field, style)
        }
        C::Mac { dst, src } => write!(f, " MAC {dst} {src}"),
        C::DstMac(table) => write!(f, " dst-mac {table}"),
        C::SrcMac(table) => write!(f, " src-mac {table}"),
        C::In => f.write_str(" in"),
        C::Out => f.write_str(" out"),
        C::Layer2 => f.write_str(" layer2"),
        C::Recv(interface) => write!(f, " recv {interface}"),
        C::Xmit(interface) => write!(f, " xmit {interface}"),
        C::Via(interface) => write!(f, " via {interface}"),
        C::IpTos(bits) => flags(f, " iptos ", *bits, names::IP_TOS),
        C::IpOptions(bits) => flags(f, " ipoptions ", *bits, names::IP_OPTIONS),
        C::TcpFlags(BitTest { set: 0x02, clear: 0x10 }) => f.write_str(" setup"),
        C::TcpFlags(bits) => flags(f, " tcpflags ", *bits, names::TCP_FLAGS),
        C::TcpOptions(bits) => flags(f, " tcpoptions ", *bits, names::TCP_OPTIONS),
        C::Frag(BitTest { set: 0x08, clear: 0 }) => f.write_str(" frag"),
        C::Frag(bits) => flags(f, " frag ", *bits, names::FRAG),
        other => other_condition(f, other),
    }
}

fn other_condition(f: &mut Formatter<'_>, condition: &Condition) -> fmt::Result {
    use Condition as C;
    match condition {
        C::Dscp(set) => {
            let dscps = (0..64).filter(|dscp| set >> dscp & 1 == 1);
            let name = |dscp: u8| match names::dscp_name(dscp) {
                Some(name) => String::from(name),
                None => alloc::format!("{dscp}"),
            };
            write!(f, " dscp {}", dscps.map(name).collect::<Vec<_>>().join(","))
        }
        C::IpPrecedence(value) => write!(f, " ipprecedence {value}"),
        C::IpVersion(value) => write!(f, " ipver {value}"),
        C::Established => f.write_str(" established"),
        C::TcpSeq(value) => write!(f, " tcpseq {value}"),
        C::TcpAck(value) => write!(f, " tcpack {value}"),
        C::IcmpTypes(set) => {
            write!(
                f,
                " icmptypes {}",
                CommaSeparated((0..32_u32).filter(|kind| set >> kind & 1 == 1))
            )
        }
        C::Icmp6Types(set) => {
            let member = |kind: &u32| set[(kind >> 6) as usize] >> (kind & 63) & 1 == 1;
            write!(f, " icmp6types {}", CommaSeparated((0..256).filter(member)))
        }
        C::Ext6Hdr(set) => {
            flags(f, " ext6hdr ", BitTest { set: *set, clear: 0 }, names::EXTENSIONS)
        }
        C::FlowId(labels) => write!(f, " flow-id {}", CommaSeparated(labels.iter())),
        C::Tagged(ranges) => {
            f.write_str(" tagged ")?;
            write_ranges(f, ranges, HeaderField::IpId, RuleStyle::default())
        }
        C::TaggedTablearg => f.write_str(" tagged tablearg"),
        C::Mark { value, mask: u32::MAX } => write!(f, " mark {value:#x}"),
        C::Mark { value, mask } => write!(f, " mark {value:#x}:{mask:#x}"),
        C::MarkTablearg => f.write_str(" mark tablearg"),
        C::Flow(table) => write!(f, " flow {table}"),
        C::Lookup { key, mask, table } => {
            let key = names::name(names::LOOKUP_KEYS, *key).unwrap_or("");
            write!(f, " lookup {key}")?;
            mask.iter().try_for_each(|mask| write!(f, ":{mask}"))?;
            write!(f, " {table}")
        }
        _ => Ok(()),
    }
}

fn address(f: &mut Formatter<'_>, word: &str, condition: &Condition) -> fmt::Result {
    match condition {
        Condition::Src(addresses) | Condition::Dst(addresses) => write!(f, "{word} {addresses}"),
        _ => Ok(()),
    }
}

/// Prints names in the order of the table: a name whose bits must all be set, and with `!` a name
/// whose bits must all be clear. Skips names that add no bit to those printed before.
fn flags(f: &mut Formatter<'_>, word: &str, bits: BitTest, table: &NameTable<u8>) -> fmt::Result {
    f.write_str(word)?;
    let (mut set, mut clear, mut comma) = (bits.set, bits.clear, "");
    for &(name, bit) in table {
        if set & bit != 0 && bits.set & bit == bit {
            set &= !bit;
            write!(f, "{comma}{name}")?;
            comma = ",";
        }
        if clear & bit != 0 && bits.clear & bit == bit {
            clear &= !bit;
            write!(f, "{comma}!{name}")?;
            comma = ",";
        }
    }
    Ok(())
}

fn write_ranges(
    f: &mut Formatter<'_>,
    ranges: &Ranges,
    field: HeaderField,
    style: RuleStyle,
) -> fmt::Result {
    let is_port = matches!(field, HeaderField::SrcPort | HeaderField::DstPort);
    let endpoint = |f: &mut Formatter<'_>, value: u16| {
        let service =
            if is_port && style.names { names::name(names::SERVICES, value) } else { None };
        match (service, field) {
            // In a range, an unescaped dash in a name would separate the ends.
            (Some(name), _) => f.write_str(&name.replace('-', "\\-")),
            (None, HeaderField::MacType) => write!(f, "{value:#06x}"),
            (None, _) => write!(f, "{value}"),
        }
    };
    for (index, &(low, high)) in ranges.0.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { "," })?;
        endpoint(f, low)?;
        if high != low {
            f.write_char('-')?;
            endpoint(f, high)?;
        }
    }
    Ok(())
}
