//! `nat …`: instances that translate IPv4 addresses.

use alloc::format;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_nat::{
    NatConfig, NatEndpoint, NatMode, OutsideAddress, Redirect, RedirectKind, RedirectRemote,
};
use slipring_wire::assigned::IpProto;

use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::number::{self, proto_value, service_value};
use super::rule_number::{NumberRange, range};
use super::words::SourceWord;
use crate::rule::DEFAULT_RULE;

/// A command about instances of `nat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatCommand {
    /// Creates or changes an instance.
    Config {
        /// The instance's number.
        number: u16,
        /// The configuration.
        settings: NatConfig,
    },
    /// Removes instances.
    Delete(Vec<NumberRange>),
    /// Shows some instances, or all if none is given.
    Show {
        /// What to show of the instances.
        what: NatShow,
        /// The numbers of the instances; empty means all.
        ranges: Vec<NumberRange>,
    },
}

/// The output of `nat show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatShow {
    /// `log`, or no word: the number of flows of each kind.
    Flows,
    /// `config`: the command that creates each instance.
    Config,
    /// `stats`: packets by outcome. FreeBSD only shows this for `nptv6`.
    Stats,
}

const EXPECTED: &str = "a number and `config`, or `show` or `delete`";
const EXPECTED_PARAMETER: &str = "a parameter: ip, if, log, deny_in, same_ports, unreg_only, \
                                  unreg_cgn, reset, reverse, proxy_only, skip_global, \
                                  port_range, redirect_addr, redirect_port, redirect_proto";
const EXPECTED_TARGETS: &str = "IP:PORT[-PORT], or a pool IP:PORT,IP:PORT,…";
const EXPECTED_ALIAS: &str = "[IP:]PORT[-PORT], as many ports as the target has";

pub(super) fn parse(cursor: &mut WordCursor<'_>) -> Result<NatCommand, RuleTextError> {
    let word = cursor.next(EXPECTED)?;
    if number::decimal(&word.text).is_some() || range(&word.text).is_some() {
        let verb = cursor.next("config, show or delete")?;
        return command(cursor, verb, Some(word));
    }
    command(cursor, word, None)
}

/// Parses a command; the number comes before or after the verb.
fn command(
    cursor: &mut WordCursor<'_>,
    verb: &SourceWord,
    before: Option<&SourceWord>,
) -> Result<NatCommand, RuleTextError> {
    match verb.text.as_str() {
        "config" => {
            let word = before.map_or_else(|| cursor.next("the number of an instance"), Ok)?;
            let number = number::within(word, 1, u64::from(DEFAULT_RULE) - 1, "nat instance")?;
            Ok(NatCommand::Config { number: number as u16, settings: settings(cursor)? })
        }
        "delete" => {
            let ranges = ranges(cursor, before)?;
            let missing = || cursor.too_short("numbers of instances");
            if ranges.is_empty() { Err(missing()) } else { Ok(NatCommand::Delete(ranges)) }
        }
        "show" | "list" => {
            let what =
                [("config", NatShow::Config), ("log", NatShow::Flows), ("stats", NatShow::Stats)];
            let found = what.into_iter().find(|(keyword, _)| cursor.eat(keyword));
            let what = found.map_or(NatShow::Flows, |(_, what)| what);
            Ok(NatCommand::Show { what, ranges: ranges(cursor, before)? })
        }
        _ => Err(RuleTextError::unexpected(verb, EXPECTED)),
    }
}

fn ranges(
    cursor: &mut WordCursor<'_>,
    before: Option<&SourceWord>,
) -> Result<Vec<NumberRange>, RuleTextError> {
    let mut words = Vec::from_iter(before);
    while let Some(word) = cursor.peek() {
        cursor.skip();
        words.push(word);
    }
    let read = |word: &SourceWord| {
        range(&word.text)
            .ok_or_else(|| RuleTextError::unexpected(word, "numbers, or ranges of them"))
    };
    words.into_iter().map(read).collect()
}

fn settings(cursor: &mut WordCursor<'_>) -> Result<NatConfig, RuleTextError> {
    let mut settings = NatConfig::default();
    if cursor.peek().is_none() {
        return Err(cursor.too_short(EXPECTED_PARAMETER));
    }
    while let Some(word) = cursor.peek() {
        cursor.skip();
        parameter(cursor, word, &mut settings)?;
    }
    if settings.outside == OutsideAddress::None && settings.redirects.is_empty() {
        return Err(cursor.too_short("an address outside: `ip ADDRESS` or `if PORT`"));
    }
    Ok(settings)
}

fn parameter(
    cursor: &mut WordCursor<'_>,
    word: &SourceWord,
    settings: &mut NatConfig,
) -> Result<(), RuleTextError> {
    if let Some((_, mode)) = NatMode::ALL.into_iter().find(|(keyword, _)| *keyword == word.text) {
        settings.modes = settings.modes.with(mode);
        return Ok(());
    }
    match word.text.as_str() {
        "ip" => {
            settings.outside = OutsideAddress::Address(address(cursor.next("an IPv4 address")?)?)
        }
        "if" => settings.outside = OutsideAddress::Interface(cursor.next("a port")?.text.clone()),
        "port_range" => settings.ports = Some(port_range(cursor)?),
        "redirect_addr" => settings.redirects.push(redirect_addr(cursor)?),
        "redirect_port" => settings.redirects.push(redirect_port(cursor)?),
        "redirect_proto" => settings.redirects.push(redirect_proto(cursor)?),
        "udp_eim" | "punch_fw" | "proxy_rule" => {
            let why = "the other parameters of `nat config`: this one is not offered";
            return Err(RuleTextError::refused(word, why));
        }
        _ => return Err(RuleTextError::unexpected(word, EXPECTED_PARAMETER)),
    }
    Ok(())
}

fn address(word: &SourceWord) -> Result<Ipv4Addr, RuleTextError> {
    word.text.parse().map_err(|_| RuleTextError::unexpected(word, "an IPv4 address"))
}

fn port_range(cursor: &mut WordCursor<'_>) -> Result<(u16, u16), RuleTextError> {
    let expected = "LOWER-UPPER, ports of 1 to 65535 with the upper one greater";
    let word = cursor.next(expected)?;
    let found = word.text.split_once('-').and_then(|(first, last)| {
        let read = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
        read(first).zip(read(last))
    });
    let found = found.filter(|(first, last)| first < last);
    found.ok_or_else(|| RuleTextError::unexpected(word, expected))
}

/// Parses `redirect_addr LOCAL[,LOCAL…] PUBLIC`.
fn redirect_addr(cursor: &mut WordCursor<'_>) -> Result<Redirect, RuleTextError> {
    let targets = addresses(cursor.next("local addresses")?)?;
    let alias = address(cursor.next("the public address; 0.0.0.0 is that of the instance")?)?;
    Ok(Redirect { kind: RedirectKind::Address, targets, alias, remote: RedirectRemote::ANY })
}

fn addresses(word: &SourceWord) -> Result<Vec<NatEndpoint>, RuleTextError> {
    let read = |text: &str| text.parse().ok().map(|address| NatEndpoint::new(address, 0));
    let all: Option<Vec<_>> = word.text.split(',').map(read).collect();
    all.ok_or_else(|| RuleTextError::unexpected(word, "IPv4 addresses, separated by commas"))
}

/// Parses `redirect_proto PROTO LOCAL [PUBLIC [REMOTE]]`.
fn redirect_proto(cursor: &mut WordCursor<'_>) -> Result<Redirect, RuleTextError> {
    let kind = RedirectKind::Protocol(proto(cursor)?);
    let target = address(cursor.next("a local address")?)?;
    let mut more = [Ipv4Addr::UNSPECIFIED; 2];
    for slot in &mut more {
        let Some(word) = cursor.peek().filter(|word| begins_with_digit(word)) else { break };
        cursor.skip();
        *slot = address(word)?;
    }
    let [alias, remote] = more;
    let remote = RedirectRemote { address: remote, ..RedirectRemote::ANY };
    Ok(Redirect { kind, targets: [NatEndpoint::new(target, 0)].into(), alias, remote })
}

fn proto(cursor: &mut WordCursor<'_>) -> Result<IpProto, RuleTextError> {
    let word = cursor.next("a protocol")?;
    let found = proto_value(&word.text).map(IpProto);
    found.ok_or_else(|| RuleTextError::unexpected(word, "a protocol by name or number"))
}

/// Parses `redirect_port PROTO TARGETS ALIAS [REMOTE]`.
fn redirect_port(cursor: &mut WordCursor<'_>) -> Result<Redirect, RuleTextError> {
    let word = cursor.next("tcp, udp or sctp")?;
    let known = [("tcp", IpProto::TCP), ("udp", IpProto::UDP), ("sctp", IpProto::SCTP)];
    let found = known.into_iter().find(|(keyword, _)| *keyword == word.text);
    let (_, proto) = found.ok_or_else(|| RuleTextError::unexpected(word, "tcp, udp or sctp"))?;
    let word = cursor.next(EXPECTED_TARGETS)?;
    let (targets, count) = targets(word)?;
    let word = cursor.next(EXPECTED_ALIAS)?;
    let (alias, first, aliases) =
        alias(&word.text).ok_or_else(|| RuleTextError::unexpected(word, EXPECTED_ALIAS))?;
    if aliases != count {
        let message = format!("{aliases} ports are to go to {count}");
        return Err(RuleTextError::at(word, message, EXPECTED_ALIAS));
    }
    if proto == IpProto::SCTP && targets.iter().any(|target| target.port != first) {
        let message = "SCTP keeps its ports".into();
        return Err(RuleTextError::at(word, message, "the ports of the target"));
    }
    let kind = RedirectKind::Ports { proto, first, count };
    Ok(Redirect { kind, targets, alias, remote: remote(cursor, count)? })
}

fn begins_with_digit(word: &SourceWord) -> bool {
    word.text.starts_with(|first: char| first.is_ascii_digit())
}

fn targets(word: &SourceWord) -> Result<(Vec<NatEndpoint>, u16), RuleTextError> {
    let wrong = || RuleTextError::unexpected(word, EXPECTED_TARGETS);
    let read = |text: &str| {
        let (address, ports) = text.split_once(':')?;
        let (port, count) = ports_of(ports)?;
        Some((NatEndpoint::new(address.parse().ok()?, port), count))
    };
    let all: Option<Vec<_>> = word.text.split(',').map(read).collect();
    let all = all.ok_or_else(wrong)?;
    let count = all.first().map_or(1, |(_, count)| *count);
    if all.len() > 1 && all.iter().any(|(_, count)| *count != 1) {
        let message = "a pool of servers takes one port".into();
        return Err(RuleTextError::at(word, message, EXPECTED_TARGETS));
    }
    Ok((all.into_iter().map(|(end, _)| end).collect(), count))
}

fn alias(text: &str) -> Option<(Ipv4Addr, u16, u16)> {
    let (address, ports) = match text.split_once(':') {
        Some((address, ports)) => (address.parse().ok()?, ports),
        None => (Ipv4Addr::UNSPECIFIED, text),
    };
    let (first, count) = ports_of(ports)?;
    Some((address, first, count))
}

fn remote(cursor: &mut WordCursor<'_>, count: u16) -> Result<RedirectRemote, RuleTextError> {
    let expected = "IP[:PORT[-PORT]], one port or as many as are redirected";
    let Some(word) = cursor.peek().filter(|word| begins_with_digit(word)) else {
        return Ok(RedirectRemote::ANY);
    };
    cursor.skip();
    let read = || {
        let (address, ports) = word.text.split_once(':').unwrap_or((&word.text, "0"));
        let (port, count) = if ports == "0" { (0, 1) } else { ports_of(ports)? };
        Some(RedirectRemote { address: address.parse().ok()?, port, count })
    };
    let found = read().filter(|remote| remote.count == 1 || remote.count == count);
    found.ok_or_else(|| RuleTextError::unexpected(word, expected))
}

/// Parses a port by number or name, or a range of numbers; returns the first port and the number
/// of ports.
fn ports_of(text: &str) -> Option<(u16, u16)> {
    if let Some(port) = service_value(text).filter(|&port| port > 0) {
        return Some((port, 1));
    }
    let (first, last) = text.split_once('-')?;
    let read = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
    let (first, last) = (read(first)?, read(last)?);
    (first <= last).then(|| (first, last - first + 1))
}
