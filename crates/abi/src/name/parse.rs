//! Parses a [`PortName`] from left to right: kind, name, suffixes.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::cursor::NameCursor;
use super::error::{PortNameError, PortNameFault};
use super::{
    NameForm, PipeEndName, PipeRole, PortName, PortNameFlags, PortNameKind, RingSelection, options,
};
use crate::request::NETMAP_REQ_IFNAMSIZ;
use crate::ring::IFNAMSIZ;

/// The characters that start a suffix, and therefore end a name. A doubled character is part of the
/// name, in which `{`, `}` and `/` are refused.
pub(super) const NAME_ENDS: &str = "-*^{}@/";

/// Maximum length of an interface name, in bytes.
const MAX_INTERFACE_LEN: usize = IFNAMSIZ - 1;
/// Maximum length of a name in a request, in bytes.
const MAX_PORT: usize = NETMAP_REQ_IFNAMSIZ - 1;

/// The meaning of a name without a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A name without a kind is an error, unless it is the name of a pipe.
    Outright,
    /// A name without a kind means the same as in netmap's own programs.
    Classic,
}

pub(super) fn port(input: &str, dialect: Dialect) -> Result<PortName, PortNameError> {
    let mut at = NameCursor::new(input);
    let kind = kind(&mut at, dialect)?;
    match kind.grammar().form {
        NameForm::Rest(what) => rest(&at, kind, what),
        NameForm::Text(what) => text(at, kind, what),
        _ => rings_of(at, kind),
    }
}

/// Parses the kind and its colon. If there is none, determines the kind by the rules of `dialect`.
fn kind(at: &mut NameCursor<'_>, dialect: Dialect) -> Result<PortNameKind, PortNameError> {
    let start = *at;
    if at.is_at_end() {
        return at.expected("the name of a port");
    }
    let word = at.identifier();
    let after_word = *at;
    if at.eat(':') {
        return PortNameKind::from_word(word)
            .map_or_else(|| start.fail(PortNameFault::UnknownKind(word.to_owned())), Ok);
    }
    *at = start;
    if is_pipe(start) {
        return Ok(PortNameKind::Netmap);
    }
    if word.starts_with("vale") {
        let found = after_word.peek();
        return after_word.fail(PortNameFault::MissingSwitchPort { found });
    }
    match dialect {
        Dialect::Outright => start.fail(PortNameFault::MissingKind),
        Dialect::Classic if start.rest() == "null" => {
            at.identifier();
            Ok(PortNameKind::Null)
        }
        Dialect::Classic if word.starts_with("tap") => Ok(PortNameKind::Tap),
        Dialect::Classic => Ok(PortNameKind::Netmap),
    }
}

/// Returns whether a name and the sign of a pipe (`{` or `}`) follow.
fn is_pipe(mut at: NameCursor<'_>) -> bool {
    while at.literal(NAME_ENDS).is_some() {}
    at.peek().is_some_and(is_pipe_sign)
}

/// Parses a name that consists of the rest of the string. `what` describes the name in errors.
fn rest(
    at: &NameCursor<'_>,
    kind: PortNameKind,
    what: &'static str,
) -> Result<PortName, PortNameError> {
    if at.is_at_end() {
        return at.expected(what);
    }
    Ok(PortName::new(kind, at.rest().to_owned()))
}

/// Parses a name that may be any text, and the options after it. `what` describes the name in
/// errors.
fn text(
    mut at: NameCursor<'_>,
    kind: PortNameKind,
    what: &'static str,
) -> Result<PortName, PortNameError> {
    let mut name = String::new();
    while let Some(c) = at.literal("@") {
        name.push(c);
    }
    if name.is_empty() {
        return at.expected(what);
    }
    let mut port = PortName::new(kind, name);
    while !at.is_at_end() {
        options::option(&mut at, &mut port)?;
    }
    Ok(port)
}

fn rings_of(mut at: NameCursor<'_>, kind: PortNameKind) -> Result<PortName, PortNameError> {
    let name = match kind.grammar().form {
        NameForm::Nothing => String::new(),
        NameForm::PciAddress => pci_address(&mut at)?,
        NameForm::DevicePort => device_port(&mut at, &kind)?,
        _ => name(&mut at, &kind)?,
    };
    let mut port = PortName::new(kind, name);
    port.pipe = pipe(&mut at, &port)?;
    port.rings = rings(&mut at)?;
    while let Some(c) = at.peek() {
        match c {
            '/' => port.flags = port.flags.with(flags(&mut at)?),
            '@' => options::option(&mut at, &mut port)?,
            found => return at.fail(PortNameFault::ExpectedSuffix { found }),
        }
    }
    Ok(port)
}

/// Parses the name of a port on a netmap device, which is an interface or a switch port with its
/// switch, such as `vale0:a`.
fn device_port(at: &mut NameCursor<'_>, kind: &PortNameKind) -> Result<String, PortNameError> {
    let start = *at;
    let word = at.identifier().to_owned();
    if !(word.starts_with("vale") && at.eat(':')) {
        *at = start;
        return name(at, kind);
    }
    let switch = PortNameKind::Vale { switch: word["vale".len()..].to_owned() };
    Ok(word + ":" + &name(at, &switch)?)
}

/// Parses a name of at least one character.
fn name(at: &mut NameCursor<'_>, kind: &PortNameKind) -> Result<String, PortNameError> {
    let start = *at;
    let room = max_name_len(kind, at)?;
    let mut beyond_interface = None;
    let mut name = String::new();
    loop {
        let here = *at;
        let Some(c) = at.literal(NAME_ENDS) else { break };
        if is_never_in_a_name(c) {
            return here.fail(PortNameFault::BadChar { found: c });
        }
        name.push(c);
        if name.len() > room {
            return here.fail(PortNameFault::PortTooLong { max: MAX_PORT });
        }
        if name.len() > MAX_INTERFACE_LEN && beyond_interface.is_none() {
            beyond_interface = Some(here);
        }
    }
    if name.is_empty() {
        return at.expected("a name");
    }
    if kind.names_interface() && !at.peek().is_some_and(is_pipe_sign) {
        check_interface(start, &name, beyond_interface)?;
    }
    Ok(name)
}

fn is_never_in_a_name(c: char) -> bool {
    matches!(c, ':' | '/' | '{' | '}') || c.is_whitespace() || c.is_control()
}

/// Returns how many bytes remain for the port in the name of a request, after the name of the
/// switch.
fn max_name_len(kind: &PortNameKind, at: &NameCursor<'_>) -> Result<usize, PortNameError> {
    match MAX_PORT.checked_sub(kind.request_prefix_len()) {
        Some(room) => Ok(room),
        None => at.fail_at(MAX_PORT + 1, PortNameFault::PortTooLong { max: MAX_PORT }),
    }
}

/// Returns an error if Linux refuses the name for an interface. `beyond` is a cursor at the first
/// character after the maximum length.
fn check_interface(
    start: NameCursor<'_>,
    name: &str,
    beyond: Option<NameCursor<'_>>,
) -> Result<(), PortNameError> {
    match beyond {
        Some(here) => here.fail(PortNameFault::InterfaceTooLong { max: MAX_INTERFACE_LEN }),
        None if matches!(name, "." | "..") => start.fail(PortNameFault::ReservedName),
        None => Ok(()),
    }
}

/// Parses `[DDDD:]BB:DD.F`. The domain (`DDDD`) has at least four digits.
fn pci_address(at: &mut NameCursor<'_>) -> Result<String, PortNameError> {
    let start = at.rest();
    let before_bus = *at;
    if hex(at).len() >= 4 && at.peek() == Some(':') {
        at.bump();
    } else {
        *at = before_bus;
    }
    hex_pair(at, 0xff)?;
    separator(at, ':')?;
    hex_pair(at, 0x1f)?;
    separator(at, '.')?;
    let function = *at;
    if !matches!(hex(at).as_bytes(), [b'0'..=b'7']) {
        return function.fail(PortNameFault::PciAddress);
    }
    Ok(start[..start.len() - at.rest().len()].to_owned())
}

fn hex<'a>(at: &mut NameCursor<'a>) -> &'a str {
    at.take_while(|c| c.is_ascii_hexdigit())
}

fn hex_pair(at: &mut NameCursor<'_>, max: u8) -> Result<(), PortNameError> {
    let start = *at;
    let digits = hex(at);
    match u8::from_str_radix(digits, 16) {
        Ok(number) if digits.len() == 2 && number <= max => Ok(()),
        _ => start.fail(PortNameFault::PciAddress),
    }
}

fn separator(at: &mut NameCursor<'_>, wanted: char) -> Result<(), PortNameError> {
    if at.eat(wanted) { Ok(()) } else { at.fail(PortNameFault::PciAddress) }
}

fn is_pipe_sign(c: char) -> bool {
    PipeRole::from_sign(c).is_some()
}

fn pipe(at: &mut NameCursor<'_>, port: &PortName) -> Result<Option<PipeEndName>, PortNameError> {
    let start = *at;
    let Some(role) = at.peek().and_then(PipeRole::from_sign) else {
        return Ok(None);
    };
    if !port.kind.has_pipes() {
        return at.fail(PortNameFault::PipeOfKind);
    }
    at.bump();
    let id = at.identifier();
    if id.is_empty() {
        return at.expected("the identifier of a pipe");
    }
    let room = MAX_PORT - port.kind.request_prefix_len() - port.name.len();
    if id.len() + 1 > room {
        return start.fail_at(start.column() + room, PortNameFault::PortTooLong { max: MAX_PORT });
    }
    let id = id.to_owned();
    Ok(Some(PipeEndName { role, id }))
}

fn rings(at: &mut NameCursor<'_>) -> Result<RingSelection, PortNameError> {
    if at.eat('*') {
        return Ok(RingSelection::NicAndHost);
    }
    if at.eat('-') {
        return match at.peek() {
            Some(c) if c.is_ascii_digit() => Ok(RingSelection::One(ring(at)?)),
            found => at.fail(PortNameFault::ExpectedRing { found }),
        };
    }
    if at.eat('^') {
        return match at.peek() {
            Some(c) if c.is_ascii_digit() => Ok(RingSelection::OneHost(ring(at)?)),
            _ => Ok(RingSelection::Host),
        };
    }
    Ok(RingSelection::All)
}

fn ring(at: &mut NameCursor<'_>) -> Result<u16, PortNameError> {
    at.number("the number of a ring", u16::MAX)
}

fn flags(at: &mut NameCursor<'_>) -> Result<PortNameFlags, PortNameError> {
    at.bump();
    let mut flags = PortNameFlags::NONE;
    while let Some(c) = at.peek().filter(|c| !matches!(c, '/' | '@')) {
        match PortNameFlags::from_letter(c) {
            Some(flag) => flags = flags.with(flag),
            None => return at.fail(PortNameFault::UnknownFlag(c)),
        }
        at.bump();
    }
    if flags == PortNameFlags::NONE {
        return at.expected("the letter of a flag");
    }
    Ok(flags.whole())
}
