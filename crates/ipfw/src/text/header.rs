//! The part of a rule before its body: number, set, probability, action, log, tags.

use alloc::format;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::body;
use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::rule_number::AddRule;
use super::words::SourceWord;
use super::{names, number, unsupported};
use crate::rule::{
    Arg, NatRef, NextHop, ObjectName, Probability, ReturnTo, Rule, RuleAction, RuleLog, TagChange,
    TagOp, Unreach,
};

/// Largest number of a rule or a tag.
const MAX_ARG: u64 = 65534;
const EXPECTED_ACTION: &str = "an action: allow, deny, count, skipto, pipe, …";

/// Parses everything after `add`.
pub(super) fn add(cursor: &mut WordCursor<'_>) -> Result<AddRule, RuleTextError> {
    let number = rule_number(cursor)?;
    let set = if cursor.eat("set") { set_number(cursor)? } else { 0 };
    let chance = if cursor.eat("prob") { probability(cursor)? } else { None };
    let first = cursor.peek();
    let lone_comment = cursor.peek_text().starts_with("//");
    let action = if lone_comment { RuleAction::Count } else { action(cursor)? };
    let mut rule = Rule {
        set,
        chance,
        action,
        log: None,
        tags: alloc::vec::Vec::new(),
        body: Default::default(),
        keep: None,
        defer: false,
        comment: None,
    };
    modifiers(cursor, &mut rule)?;
    body::read(cursor, &mut rule)?;
    first.map_or(Ok(()), |word| body::require_body(&rule, word))?;
    Ok(AddRule { number, rule })
}

fn rule_number(cursor: &mut WordCursor<'_>) -> Result<Option<u16>, RuleTextError> {
    let Some(word) = cursor.peek().filter(|word| word.text.as_bytes()[0].is_ascii_digit()) else {
        return Ok(None);
    };
    cursor.skip();
    let found = number::decimal(&word.text).filter(|&number| u64::from(number) <= MAX_ARG);
    let number = found.ok_or_else(|| number::out_of(word, 1, MAX_ARG, "rule number"))?;
    Ok(u16::try_from(number).ok().filter(|&number| number != 0))
}

pub(super) fn set_number(cursor: &mut WordCursor<'_>) -> Result<u8, RuleTextError> {
    let word = cursor.next("a set, 0 to 31")?;
    number::within(word, 0, 31, "set").map(|set| set as u8)
}

fn probability(cursor: &mut WordCursor<'_>) -> Result<Option<Probability>, RuleTextError> {
    let expected = "a probability above 0, up to 1";
    let word = cursor.next(expected)?;
    let p = f64::from_str(&word.text).ok().filter(|p| (0.0..=1.0).contains(p));
    let p = p.ok_or_else(|| RuleTextError::unexpected(word, expected))?;
    let chance = Probability::from_f64(p);
    if chance.is_some_and(Probability::is_never) {
        let message = format!("`prob {}` never matches", word.text);
        return Err(RuleTextError::at(word, message, expected));
    }
    Ok(chance)
}

fn action(cursor: &mut WordCursor<'_>) -> Result<RuleAction, RuleTextError> {
    let word = cursor.next(EXPECTED_ACTION)?;
    Ok(match word.text.as_str() {
        "allow" | "accept" | "pass" | "permit" => RuleAction::Allow,
        "deny" | "drop" => RuleAction::Deny,
        "count" => RuleAction::Count,
        "reject" => RuleAction::Unreach(Unreach::HOST),
        "reset" => RuleAction::Reset,
        "reset6" => RuleAction::Reset6,
        "abort" => RuleAction::Abort,
        "abort6" => RuleAction::Abort6,
        "unreach" => RuleAction::Unreach(unreach(cursor)?),
        "unreach6" => RuleAction::Unreach6(unreach6(cursor)?),
        "check-state" => RuleAction::CheckState(check_state_name(cursor)?),
        "skipto" => RuleAction::SkipTo(number::arg(cursor, MAX_ARG, "rule number")?),
        "call" => RuleAction::Call(number::arg(cursor, MAX_ARG, "rule number")?),
        "return" => RuleAction::Return(return_to(cursor)),
        "pipe" => RuleAction::Pipe(number::arg(cursor, 65535, "pipe")?),
        "queue" => RuleAction::Queue(number::arg(cursor, 65535, "queue")?),
        "fwd" | "forward" => RuleAction::Forward(hop(cursor)?),
        "setdscp" => RuleAction::SetDscp(dscp(cursor)?),
        "setmark" => RuleAction::SetMark(mark(cursor)?),
        "tcp-setmss" => {
            let word = cursor.next("an MSS in bytes")?;
            RuleAction::TcpSetMss(number::within(word, 1, 65535, "MSS")? as u16)
        }
        "reass" => RuleAction::Reass,
        "nat" => nat(cursor)?,
        "nptv6" => RuleAction::Nptv6(name(cursor, "the name of an nptv6 instance")?),
        text => return Err(unknown_action(word, text)),
    })
}

fn unknown_action(word: &SourceWord, text: &str) -> RuleTextError {
    match names::value(unsupported::ACTIONS, text) {
        Some(why) => RuleTextError::refused(word, why),
        None => RuleTextError::unexpected(word, EXPECTED_ACTION),
    }
}

fn name(cursor: &mut WordCursor<'_>, expected: &str) -> Result<ObjectName, RuleTextError> {
    let word = cursor.next(expected)?;
    word.text.parse().map_err(|_| RuleTextError::unexpected(word, expected))
}

fn nat(cursor: &mut WordCursor<'_>) -> Result<RuleAction, RuleTextError> {
    let instance = if cursor.eat("global") {
        NatRef::Global
    } else {
        NatRef::Instance(number::arg(cursor, 65535, "nat instance")?)
    };
    Ok(RuleAction::Nat(instance))
}

fn unreach(cursor: &mut WordCursor<'_>) -> Result<Unreach, RuleTextError> {
    let word = cursor.next("an ICMP code")?;
    let code = match names::value(names::UNREACH, &word.text) {
        Some(code) => code,
        None => number::within(word, 0, 254, "ICMP code")? as u8,
    };
    let mtu = cursor.peek().filter(|_| code == 4).and_then(|word| number::decimal(&word.text));
    let mtu = mtu.and_then(|mtu| u16::try_from(mtu).ok());
    if mtu.is_some() {
        cursor.skip();
    }
    Ok(Unreach { code, mtu: mtu.unwrap_or(0) })
}

fn unreach6(cursor: &mut WordCursor<'_>) -> Result<u8, RuleTextError> {
    let word = cursor.next("an ICMPv6 code")?;
    match names::value(names::UNREACH6, &word.text) {
        Some(code) => Ok(code),
        None => Ok(number::within(word, 0, 254, "ICMPv6 code")? as u8),
    }
}

/// Parses `:name`; `default` if there is none; `None` for `:any`.
fn check_state_name(cursor: &mut WordCursor<'_>) -> Result<Option<ObjectName>, RuleTextError> {
    match cursor.peek_text() {
        ":any" => {
            cursor.skip();
            Ok(None)
        }
        _ => state_name(cursor).map(Some),
    }
}

/// Parses `:name`; `default` if there is none.
pub(super) fn state_name(cursor: &mut WordCursor<'_>) -> Result<ObjectName, RuleTextError> {
    let Some(word) = cursor.peek().filter(|word| word.text.starts_with(':')) else {
        return Ok(ObjectName::default_state());
    };
    cursor.skip();
    let name = word.text[1..].parse().ok().filter(|_| word.text != ":any");
    name.ok_or_else(|| RuleTextError::unexpected(word, "`:` and a name of states other than `any`"))
}

fn return_to(cursor: &mut WordCursor<'_>) -> ReturnTo {
    if cursor.eat("next-rule") {
        return ReturnTo::NextRule;
    }
    cursor.eat("next-rulenum");
    ReturnTo::NextNumber
}

fn dscp(cursor: &mut WordCursor<'_>) -> Result<Arg, RuleTextError> {
    let word = cursor.next("a DSCP or `tablearg`")?;
    if word.text == "tablearg" {
        return Ok(Arg::Tablearg);
    }
    number::dscp_value(&word.text).map(|dscp| Arg::Number(dscp.into())).ok_or_else(|| {
        RuleTextError::unexpected(word, "a DSCP: 0 to 63, af11, cs1, ef, …, or `tablearg`")
    })
}

fn mark(cursor: &mut WordCursor<'_>) -> Result<Arg, RuleTextError> {
    let word = cursor.next("a mark or `tablearg`")?;
    if word.text == "tablearg" {
        return Ok(Arg::Tablearg);
    }
    number::within(word, 0, u32::MAX.into(), "mark").map(|mark| Arg::Number(mark as u32))
}

/// Parses `a`, `a,port`, `[a]:port`, `tablearg`, `tablearg,port` or `port:NAME`.
fn hop(cursor: &mut WordCursor<'_>) -> Result<NextHop, RuleTextError> {
    let expected = "an address with or without `,PORT`, `tablearg`, or `port:NAME`";
    let word = cursor.next(expected)?;
    if let Some(name) = word.text.strip_prefix("port:").filter(|name| !name.is_empty()) {
        return Ok(NextHop::Port(name.into()));
    }
    hop_address(&word.text).ok_or_else(|| RuleTextError::unexpected(word, expected))
}

fn hop_address(text: &str) -> Option<NextHop> {
    let (address, port) = match text.split_once(',') {
        Some((address, port)) => (address, u16::try_from(number::decimal(port)?).ok()?),
        None => match text.rsplit_once("]:") {
            Some((address, port)) => (address, u16::try_from(number::decimal(port)?).ok()?),
            None => (text.trim_end_matches(']'), 0),
        },
    };
    let address = address.trim_matches(['[', ']']);
    if address == "tablearg" {
        return Some(NextHop::Tablearg(port));
    }
    let v4 = Ipv4Addr::from_str(address).ok().map(|address| NextHop::V4(address, port));
    v4.or_else(|| Ipv6Addr::from_str(address).ok().map(|address| NextHop::V6(address, port)))
}

fn modifiers(cursor: &mut WordCursor<'_>, rule: &mut Rule) -> Result<(), RuleTextError> {
    while let Some(word) = cursor.peek() {
        match word.text.as_str() {
            "log" if rule.log.is_none() => {
                cursor.skip();
                rule.log = Some(log(cursor)?);
            }
            fix @ ("tag" | "untag") => {
                cursor.skip();
                let fix = if fix == "tag" { TagOp::Add } else { TagOp::Remove };
                let tag = number::arg(cursor, MAX_ARG, "tag")?;
                rule.tags.push(TagChange { op: fix, tag });
            }
            text => {
                let why = names::value(unsupported::MODIFIERS, text);
                return why.map_or(Ok(()), |why| Err(RuleTextError::refused(word, why)));
            }
        }
    }
    Ok(())
}

fn log(cursor: &mut WordCursor<'_>) -> Result<RuleLog, RuleTextError> {
    let mut log = RuleLog::default();
    loop {
        if cursor.eat("logamount") {
            let word = cursor.next("how many lines")?;
            log.amount = Some(number::within(word, 0, u32::MAX.into(), "number of lines")? as u32);
        } else if cursor.eat("logdst") {
            log_destinations(cursor, &mut log)?;
        } else {
            return Ok(log);
        }
    }
}

fn log_destinations(cursor: &mut WordCursor<'_>, log: &mut RuleLog) -> Result<(), RuleTextError> {
    let expected = "some of syslog, ipfw0, rtsock, separated by commas";
    let word = cursor.next(expected)?;
    for item in word.text.split(',') {
        match item {
            "syslog" => log.to.syslog = true,
            "ipfw0" => log.to.ipfw0 = true,
            "rtsock" => log.to.rtsock = true,
            _ => {
                let message = format!("`{item}` is no destination of a log");
                return Err(RuleTextError::at(word, message, expected));
            }
        }
    }
    Ok(())
}
