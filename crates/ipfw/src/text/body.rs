//! The body of a rule: `PROTO from SRC to DST options`, or options only.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::address::{self, AcceptedVersions};
use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::words::SourceWord;
use super::{names, number, option};
use crate::rule::{
    AddressPattern, Clause, Condition, ConditionPattern, HeaderField, Rule, RuleAction, RuleBody,
    RuleHead,
};

const EXPECTED_PROTO: &str = "a protocol: ip, ip4, ip6, tcp, udp, icmp, … or a number";

pub(super) fn read(cursor: &mut WordCursor<'_>, rule: &mut Rule) -> Result<(), RuleTextError> {
    let mut body = RuleBody::default();
    if has_head(cursor) {
        body.head = Some(head(cursor, &mut body.options)?);
    }
    while let Some(word) = cursor.peek() {
        if word.text.starts_with("//") {
            break;
        }
        if !option::state(cursor, rule)? && !option::any_port(cursor) {
            body.options.push(option::clause(cursor)?);
        }
    }
    rule.body = body;
    rule.comment = cursor.comment();
    Ok(())
}

/// Refuses a rule without a condition, because the condition may have been forgotten. A rule for
/// every packet can say so: `ip from any to any`. `check-state` and `return` need no body; neither
/// does `count` with a comment.
pub(super) fn require_body(rule: &Rule, action: &SourceWord) -> Result<(), RuleTextError> {
    let needs_none = matches!(rule.action, RuleAction::CheckState(_) | RuleAction::Return(_))
        || matches!(rule.action, RuleAction::Count) && rule.comment.is_some();
    let is_there = rule.body.head.is_some() || !rule.body.options.is_empty() || rule.keep.is_some();
    if is_there || needs_none {
        return Ok(());
    }
    let message = format!("`{}` does not say for which packets", action.text);
    Err(RuleTextError::at(action, message, "a body; for every packet it is `ip from any to any`"))
}

/// Refuses patterns that can never hold, such as a lone `not any`.
pub(super) fn can_hold(
    word: Option<&SourceWord>,
    patterns: &[ConditionPattern],
) -> Result<(), RuleTextError> {
    let never = |pattern: &ConditionPattern| pattern.not && pattern.condition.is_always();
    match word {
        Some(word) if !patterns.is_empty() && patterns.iter().all(never) => Err(RuleTextError::at(
            word,
            "this is not any packet: the rule never matches".into(),
            "what the packet must be, or nothing",
        )),
        _ => Ok(()),
    }
}

/// Returns whether the body begins with protocols rather than with an option: with known protocols
/// before `from`, or with a word that cannot begin an option and is a known protocol or is followed
/// by `from`.
fn has_head(cursor: &WordCursor<'_>) -> bool {
    let (mut ahead, mut second) = (cursor.clone(), cursor.clone());
    let known = block(&mut ahead, protocol).is_ok();
    if known && ahead.peek_text() == "from" {
        return true;
    }
    second.skip();
    // A word before `from` that cannot begin an option counts as a protocol, even if no such
    // protocol exists.
    (known || second.peek_text() == "from") && !is_option_start(cursor)
}

fn is_option_start(cursor: &WordCursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    while matches!(ahead.peek_text(), "{" | "(" | "not") {
        ahead.skip();
    }
    option::is_keyword(ahead.peek_text())
}

fn head(cursor: &mut WordCursor<'_>, options: &mut Vec<Clause>) -> Result<RuleHead, RuleTextError> {
    let protocols = patterns(cursor, protocol)?;
    cursor.must_eat("from", "`from`")?;
    let src = patterns(cursor, |cursor| side(cursor, Condition::Src))?;
    let src_ports = ports(cursor, HeaderField::SrcPort)?;
    cursor.must_eat("to", "`to`, or source ports")?;
    let dst = patterns(cursor, |cursor| side(cursor, Condition::Dst))?;
    let dst_ports = ports(cursor, HeaderField::DstPort)?;
    options.extend(dst_ports.map(|ports| Clause(vec![ports])));
    Ok(RuleHead { protocols, src, src_ports, dst })
}

/// Parses a part of the head; returns no patterns if they always hold.
fn patterns<'w>(
    cursor: &mut WordCursor<'w>,
    one: impl FnMut(&mut WordCursor<'w>) -> Result<Condition, RuleTextError>,
) -> Result<Vec<ConditionPattern>, RuleTextError> {
    let word = cursor.peek();
    let patterns = block(cursor, one)?;
    can_hold(word, &patterns)?;
    Ok(patterns.into_iter().flatten_any())
}

/// Parses one pattern, or several in brackets with `or` between them.
pub(super) fn block<'w>(
    cursor: &mut WordCursor<'w>,
    mut one: impl FnMut(&mut WordCursor<'w>) -> Result<Condition, RuleTextError>,
) -> Result<Vec<ConditionPattern>, RuleTextError> {
    let open = cursor.eat("{") || cursor.eat("(");
    let mut patterns = Vec::new();
    loop {
        let not = cursor.eat("not");
        patterns.push(ConditionPattern { not, condition: one(cursor)? });
        if !open {
            return Ok(patterns);
        }
        let word = cursor.next("`or` or the closing bracket")?;
        match word.text.as_str() {
            "or" => {}
            "}" | ")" => return Ok(patterns),
            _ => return Err(RuleTextError::unexpected(word, "`or` or the closing bracket")),
        }
    }
}

/// Replaces a list of patterns by an empty list if one of them always holds.
trait FlattenAny {
    fn flatten_any(self) -> Vec<ConditionPattern>;
}

impl<I: Iterator<Item = ConditionPattern>> FlattenAny for I {
    fn flatten_any(self) -> Vec<ConditionPattern> {
        let patterns: Vec<_> = self.collect();
        let any = |pattern: &ConditionPattern| !pattern.not && pattern.condition.is_always();
        if patterns.iter().any(any) { Vec::new() } else { patterns }
    }
}

pub(super) fn protocol(cursor: &mut WordCursor<'_>) -> Result<Condition, RuleTextError> {
    let word = cursor.next(EXPECTED_PROTO)?;
    protocol_word(&word.text).ok_or_else(|| RuleTextError::unexpected(word, EXPECTED_PROTO))
}

fn protocol_word(text: &str) -> Option<Condition> {
    Some(match text {
        "ip" | "all" | "0" => Condition::Src(AddressPattern::Any),
        "ip4" | "ipv4" => Condition::Ip4,
        "ip6" | "ipv6" => Condition::Ip6,
        "icmp6" | "icmpv6" => Condition::Proto(58),
        _ => {
            let by_number = || number::decimal(text).and_then(|proto| u8::try_from(proto).ok());
            // protocols(5) also has each name in upper case.
            let by_name = || names::value(names::PROTOCOLS, &text.to_ascii_lowercase());
            Condition::Proto(by_name().or_else(by_number)?)
        }
    })
}

fn side(
    cursor: &mut WordCursor<'_>,
    make: fn(AddressPattern) -> Condition,
) -> Result<Condition, RuleTextError> {
    let word = cursor.next("addresses")?;
    address::addresses(word, AcceptedVersions::Both).map(make)
}

/// Parses ports, if the next word is a list of ports and not an option.
fn ports(
    cursor: &mut WordCursor<'_>,
    field: HeaderField,
) -> Result<Option<ConditionPattern>, RuleTextError> {
    let mut ahead = cursor.clone();
    let not = ahead.eat("not");
    // `any` port is no condition.
    if !not && cursor.eat("any") {
        return Ok(None);
    }
    let Some(word) = ahead.peek().filter(|word| looks_like_ports(word)) else {
        return Ok(None);
    };
    ahead.skip();
    let ranges = number::ranges(word, u16::MAX, names::SERVICES, "port")?;
    *cursor = ahead;
    Ok(Some(ConditionPattern { not, condition: Condition::Number(field, ranges) }))
}

fn looks_like_ports(word: &SourceWord) -> bool {
    word.text.as_bytes()[0].is_ascii_digit()
        || (!option::is_keyword(&word.text)
            && number::ranges(word, u16::MAX, names::SERVICES, "port").is_ok())
}
