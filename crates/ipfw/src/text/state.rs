//! `state …`: one state in the form in which `save --states` writes it.
//!
//! ```text
//! state 00100 tcp 10.0.0.1 1024 10.1.0.1 80 :default left 299.5 at 1767225600.25
//!       mac 02:00:00:00:00:01 02:00:00:00:00:02 in em0 seen syn/syn acks 17/99 counted 3 120
//! ```
//!
//! The command is one line. Words after the name of the state come in any order. `left` is
//! required, and without `at` the state counts as saved now. Other omitted words mean none: no
//! tags, no limit, no flags seen, no packets counted.

use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};
use core::net::IpAddr;

use slipring_wire::MacAddr;
use slipring_wire::assigned::VlanTag;

use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::number::proto_value;
use super::words::SourceWord;
use super::{header, number, option, proto_name};
use crate::rule::{LimitFields, ObjectName, RuleNumber};
use crate::state::{FlowEthernet, TcpStateInfo};
use crate::table::IpfwFlowKey;

/// A state to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCommand {
    /// The line of the command, from 1.
    pub line: u32,
    /// The rule whose action runs on a hit.
    pub rule: RuleNumber,
    /// Position of the rule among the rules with the same number, counted from 1.
    pub nth: u32,
    /// The flow in the direction of its first packet.
    pub flow: IpfwFlowKey,
    /// The name of the state.
    pub name: ObjectName,
    /// Remaining lifetime, in nanoseconds.
    pub left_ns: u64,
    /// When the state was saved, in nanoseconds since 1970; `None` means now.
    pub at_unix_ns: Option<u64>,
    /// Ethernet addresses and tags of the flow's first packet.
    pub link: FlowEthernet,
    /// The port where the flow's first packet came in; `None` if unknown.
    pub port: Option<String>,
    /// The fields by which a limit counts the state; `None` if there is no limit.
    pub limit: Option<LimitFields>,
    /// The TCP part of the state.
    pub tcp: TcpStateInfo,
    /// Number of packets after the first one.
    pub packets: u64,
    /// Total bytes of the packets that `packets` counts.
    pub bytes: u64,
}

const EXPECTED_RULE: &str = "the number of a rule, or NUMBER.N for the N-th rule of that number";
const EXPECTED_TIME: &str = "seconds, with up to nine digits behind the point";
const EXPECTED: &str = "left, at, mac, tag, in, limit, seen, acks, acked or counted";
const EXPECTED_FLAGS: &str = "flags of both directions, some of fin, syn and rst or none, as in \
                              syn+fin/syn or syn/none";
const NS_PER_SEC: u64 = 1_000_000_000;
/// TCP flags that states record.
const FLAGS: [(u8, &str); 3] = [(1, "fin"), (2, "syn"), (4, "rst")];
/// The sides that have sent an up-to-date acknowledgement since the lifetime was last renewed.
const ACKED: [(u8, &str); 3] = [(1, "forward"), (2, "reverse"), (3, "both")];

pub(super) fn parse(
    cursor: &mut WordCursor<'_>,
    at: &SourceWord,
) -> Result<StateCommand, RuleTextError> {
    let (rule, nth) = rule(cursor.next(EXPECTED_RULE)?)?;
    let flow = flow(cursor)?;
    let name = header::state_name(cursor)?;
    let link = FlowEthernet { src_mac: MacAddr::ZERO, dst_mac: MacAddr::ZERO, tags: [None; 2] };
    let mut state = StateCommand {
        line: at.line,
        rule,
        nth,
        flow,
        name,
        left_ns: 0,
        at_unix_ns: None,
        link,
        port: None,
        limit: None,
        tcp: TcpStateInfo::default(),
        packets: 0,
        bytes: 0,
    };
    while let Some(word) = cursor.peek() {
        cursor.skip();
        state.more(word, cursor)?;
    }
    if state.left_ns == 0 {
        return Err(cursor.too_short("`left` and the seconds that the state has to live"));
    }
    Ok(state)
}

fn rule(word: &SourceWord) -> Result<(RuleNumber, u32), RuleTextError> {
    let (rule, nth) = word.text.split_once('.').unwrap_or((&word.text, "1"));
    let rule = number::decimal(rule).and_then(|rule| RuleNumber::try_from(rule).ok());
    let nth = number::decimal(nth);
    match (rule, nth) {
        (Some(rule @ 1..), Some(nth @ 1..)) => Ok((rule, nth)),
        _ => Err(RuleTextError::unexpected(word, EXPECTED_RULE)),
    }
}

/// Parses `PROTO ADDRESS PORT ADDRESS PORT`.
fn flow(cursor: &mut WordCursor<'_>) -> Result<IpfwFlowKey, RuleTextError> {
    let word = cursor.next("a protocol")?;
    let proto =
        proto_value(&word.text).ok_or_else(|| RuleTextError::unexpected(word, "a protocol"))?;
    let (src, src_port) = end(cursor)?;
    let ahead = cursor.clone();
    let (dst, dst_port) = end(cursor)?;
    if src.is_ipv6() != dst.is_ipv6() {
        let expected = "an address of the same version of IP";
        let unexpected = |word| RuleTextError::unexpected(word, expected);
        return Err(ahead.peek().map_or_else(|| ahead.too_short(expected), unexpected));
    }
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let is_v6 = src.is_ipv6();
    Ok(IpfwFlowKey { is_v6, src: bits(src), proto, src_port, dst: bits(dst), dst_port })
}

fn end(cursor: &mut WordCursor<'_>) -> Result<(IpAddr, u16), RuleTextError> {
    let word = cursor.next("an address")?;
    let address =
        word.text.parse().map_err(|_| RuleTextError::unexpected(word, "an IP address"))?;
    let port = number::within(cursor.next("a port")?, 0, 65535, "port")?;
    Ok((address, port as u16))
}

impl StateCommand {
    fn more(
        &mut self,
        word: &SourceWord,
        cursor: &mut WordCursor<'_>,
    ) -> Result<(), RuleTextError> {
        match word.text.as_str() {
            "left" => self.left_ns = time(cursor)?,
            "at" => self.at_unix_ns = Some(time(cursor)?),
            "mac" => (self.link.src_mac, self.link.dst_mac) = (mac(cursor)?, mac(cursor)?),
            "tag" => self.link.tags = tags(cursor)?,
            "in" => self.port = Some(cursor.next("a port")?.text.clone()),
            "limit" => self.limit = Some(option::limit_fields(cursor)?),
            "seen" => self.tcp.flags = pair(cursor, EXPECTED_FLAGS, flags)?,
            "acks" => self.tcp.acks = pair(cursor, "two numbers, as in 17/99", read_u32)?,
            "acked" => {
                let expected = "forward, reverse or both";
                let word = cursor.next(expected)?;
                let known = ACKED.iter().find(|(_, name)| *name == word.text);
                let known = known.ok_or_else(|| RuleTextError::unexpected(word, expected))?;
                self.tcp.acked = known.0;
            }
            "counted" => (self.packets, self.bytes) = (count(cursor)?, count(cursor)?),
            _ => return Err(RuleTextError::unexpected(word, EXPECTED)),
        }
        Ok(())
    }
}

fn time(cursor: &mut WordCursor<'_>) -> Result<u64, RuleTextError> {
    let word = cursor.next(EXPECTED_TIME)?;
    read_time(&word.text).ok_or_else(|| RuleTextError::unexpected(word, EXPECTED_TIME))
}

/// Parses seconds with a fraction exactly, in nanoseconds.
fn read_time(text: &str) -> Option<u64> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(rest) || rest.len() > 9 {
        return None;
    }
    let rest: u64 = format!("{rest:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(NS_PER_SEC)?.checked_add(rest)
}

fn mac(cursor: &mut WordCursor<'_>) -> Result<MacAddr, RuleTextError> {
    let word = cursor.next("an Ethernet address")?;
    word.text.parse().map_err(|_| RuleTextError::unexpected(word, "an Ethernet address"))
}

/// Parses tags as in the frame, outermost first: `0x0005` or `0x0005,0x0007`.
fn tags(cursor: &mut WordCursor<'_>) -> Result<[Option<VlanTag>; 2], RuleTextError> {
    let expected = "one or two VLAN tags of 16 bits, as in 0x0005,0x0007";
    let word = cursor.next(expected)?;
    let mut tags = [None; 2];
    for (at, text) in word.text.split(',').enumerate() {
        let tag = number::parse(text).and_then(|tag| u16::try_from(tag).ok());
        match (tags.get_mut(at), tag) {
            (Some(field), Some(tag)) => *field = Some(VlanTag(tag)),
            _ => return Err(RuleTextError::unexpected(word, expected)),
        }
    }
    Ok(tags)
}

/// Parses `FORWARD/REVERSE`.
fn pair<T>(
    cursor: &mut WordCursor<'_>,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<[T; 2], RuleTextError> {
    let word = cursor.next(expected)?;
    let both = word.text.split_once('/').and_then(|(one, two)| Some([read(one)?, read(two)?]));
    both.ok_or_else(|| RuleTextError::unexpected(word, expected))
}

fn flags(text: &str) -> Option<u8> {
    if text == "none" {
        return Some(0);
    }
    let bit = |item: &str| FLAGS.iter().find(|(_, name)| *name == item).map(|(bit, _)| *bit);
    text.split('+').try_fold(0, |bits, item| Some(bits | bit(item)?))
}

fn read_u32(text: &str) -> Option<u32> {
    number::decimal(text)
}

fn count(cursor: &mut WordCursor<'_>) -> Result<u64, RuleTextError> {
    let word = cursor.next("a number")?;
    let found = number::parse(&word.text);
    found.ok_or_else(|| RuleTextError::unexpected(word, "packets and bytes"))
}

/// The description of a state in messages.
impl StateCommand {
    /// A short description for people: `tcp 10.0.0.1 1024 <-> 10.1.0.1 80 :default`.
    #[must_use]
    pub fn title(&self) -> String {
        let IpfwFlowKey { src_port, dst_port, .. } = self.flow;
        let (proto, [src, dst]) = (ProtoDisplay(self.flow.proto), addresses(&self.flow));
        format!("{proto} {src} {src_port} <-> {dst} {dst_port} :{}", self.name)
    }
}

fn addresses(flow: &IpfwFlowKey) -> [IpAddr; 2] {
    [flow.src, flow.dst].map(|bits| match flow.is_v6 {
        true => IpAddr::V6(bits.into()),
        false => IpAddr::V4((bits as u32).into()),
    })
}

struct ProtoDisplay(u8);

impl Display for ProtoDisplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match proto_name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Displays nanoseconds as seconds.
struct SecondsDisplay(u64);

impl Display for SecondsDisplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:09}", self.0 / NS_PER_SEC, self.0 % NS_PER_SEC);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

struct TcpFlagsDisplay(u8);

impl Display for TcpFlagsDisplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut names = FLAGS.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("none"))?;
        names.try_for_each(|name| write!(f, "+{name}"))
    }
}

/// Displays the command.
impl Display for StateCommand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "state {:05}", self.rule)?;
        if self.nth > 1 {
            write!(f, ".{}", self.nth)?;
        }
        let ([src, dst], flow) = (addresses(&self.flow), &self.flow);
        write!(f, " {} {src} {} {dst} {}", ProtoDisplay(flow.proto), flow.src_port, flow.dst_port)?;
        write!(f, " :{} left {}", self.name, SecondsDisplay(self.left_ns))?;
        if let Some(at) = self.at_unix_ns {
            write!(f, " at {}", SecondsDisplay(at))?;
        }
        write!(f, " mac {} {}", self.link.src_mac, self.link.dst_mac)?;
        for (at, tag) in self.link.tags.iter().flatten().enumerate() {
            write!(f, "{}{:#06x}", if at == 0 { " tag " } else { "," }, tag.0)?;
        }
        if let Some(port) = &self.port {
            write!(f, " in {port}")?;
        }
        if let Some(fields) = &self.limit {
            write!(f, " limit {fields}")?;
        }
        let TcpStateInfo { flags: [forward, reverse], acks, acked } = self.tcp;
        if [forward, reverse] != [0; 2] {
            write!(f, " seen {}/{}", TcpFlagsDisplay(forward), TcpFlagsDisplay(reverse))?;
        }
        if acks != [0; 2] {
            write!(f, " acks {}/{}", acks[0], acks[1])?;
        }
        if let Some((_, name)) = ACKED.iter().find(|(bits, _)| *bits == acked) {
            write!(f, " acked {name}")?;
        }
        if (self.packets, self.bytes) != (0, 0) {
            write!(f, " counted {} {}", self.packets, self.bytes)?;
        }
        Ok(())
    }
}
