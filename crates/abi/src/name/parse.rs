//! From a string to a [`PortName`]: kind, name, suffixes, left to right.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::cursor::Cursor;
use super::error::{NameError, Reason};
use super::{Flags, Kind, PipeEnd, PortName, Rings, Role, options};
use crate::request::NETMAP_REQ_IFNAMSIZ;
use crate::ring::IFNAMSIZ;

/// Characters that start a suffix and so end a name; written twice, they do not.
pub(super) const NAME_ENDS: &str = "-*^{}@/";

/// Bytes that the name of an interface can have.
const MAX_INTERFACE: usize = IFNAMSIZ - 1;
/// Bytes that the name in a request can have.
const MAX_PORT: usize = NETMAP_REQ_IFNAMSIZ - 1;

/// What a name without a kind means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nothing, if it is no pipe.
    Outright,
    /// What the classic programs take it for.
    Classic,
}

pub(super) fn port(input: &str, dialect: Dialect) -> Result<PortName, NameError> {
    let mut at = Cursor::new(input);
    match kind(&mut at, dialect)? {
        Kind::Pcap => file(&at),
        kind @ Kind::Vhost { .. } => socket(at, kind),
        kind => rings_of(at, kind),
    }
}

/// Takes the kind and its colon, if they are there, or finds out what goes without saying.
fn kind(at: &mut Cursor<'_>, dialect: Dialect) -> Result<Kind, NameError> {
    let start = *at;
    if at.is_at_end() {
        return at.expected("the name of a port");
    }
    let word = at.identifier();
    let after_word = *at;
    if at.eat(':') {
        return Kind::from_word(word)
            .map_or_else(|| start.fail(Reason::UnknownKind(word.to_owned())), Ok);
    }
    *at = start;
    if is_pipe(start) {
        return Ok(Kind::Netmap);
    }
    if word.starts_with("vale") {
        let found = after_word.peek();
        return after_word.fail(Reason::MissingSwitchPort { found });
    }
    match dialect {
        Dialect::Outright => start.fail(Reason::MissingKind),
        Dialect::Classic if start.rest() == "null" => {
            at.identifier();
            Ok(Kind::Null)
        }
        Dialect::Classic if word.starts_with("tap") => Ok(Kind::Tap),
        Dialect::Classic => Ok(Kind::Netmap),
    }
}

/// Whether a name stands here, and the sign of a pipe after it.
fn is_pipe(mut at: Cursor<'_>) -> bool {
    while at.literal(NAME_ENDS).is_some() {}
    at.peek().is_some_and(is_pipe_sign)
}

fn file(at: &Cursor<'_>) -> Result<PortName, NameError> {
    if at.is_at_end() {
        return at.expected("the name of a file");
    }
    Ok(PortName::new(Kind::Pcap, at.rest().to_owned()))
}

/// Takes the path of a socket, and options.
fn socket(mut at: Cursor<'_>, kind: Kind) -> Result<PortName, NameError> {
    let mut path = String::new();
    while let Some(c) = at.literal("@") {
        path.push(c);
    }
    if path.is_empty() {
        return at.expected("the path of a socket");
    }
    let mut port = PortName::new(kind, path);
    while !at.is_at_end() {
        options::option(&mut at, &mut port)?;
    }
    Ok(port)
}

fn rings_of(mut at: Cursor<'_>, kind: Kind) -> Result<PortName, NameError> {
    let name = match &kind {
        Kind::Null => String::new(),
        Kind::Vfio => pci_address(&mut at)?,
        Kind::Kernel => kernel_name(&mut at)?,
        kind => name(&mut at, kind)?,
    };
    let mut port = PortName::new(kind, name);
    port.pipe = pipe(&mut at, &port)?;
    port.rings = rings(&mut at)?;
    while let Some(c) = at.peek() {
        match c {
            '/' => port.flags = port.flags.with(flags(&mut at)?),
            '@' => options::option(&mut at, &mut port)?,
            found => return at.fail(Reason::ExpectedSuffix { found }),
        }
    }
    Ok(port)
}

/// Takes what a netmap device calls a port: an interface, or `vale0:a` with its switch.
fn kernel_name(at: &mut Cursor<'_>) -> Result<String, NameError> {
    let start = *at;
    let word = at.identifier().to_owned();
    if !(word.starts_with("vale") && at.eat(':')) {
        *at = start;
        return name(at, &Kind::Kernel);
    }
    let switch = Kind::Vale { switch: word["vale".len()..].to_owned() };
    Ok(word + ":" + &name(at, &switch)?)
}

/// Takes a name of at least one character.
fn name(at: &mut Cursor<'_>, kind: &Kind) -> Result<String, NameError> {
    let start = *at;
    let room = room(kind, at)?;
    let mut beyond_interface = None;
    let mut name = String::new();
    loop {
        let here = *at;
        let Some(c) = at.literal(NAME_ENDS) else { break };
        if is_never_in_a_name(c) {
            return here.fail(Reason::BadChar { found: c });
        }
        name.push(c);
        if name.len() > room {
            return here.fail(Reason::PortTooLong { max: MAX_PORT });
        }
        if name.len() > MAX_INTERFACE && beyond_interface.is_none() {
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

/// How many bytes of a request's name are left beside the switch.
fn room(kind: &Kind, at: &Cursor<'_>) -> Result<usize, NameError> {
    match MAX_PORT.checked_sub(kind.request_prefix_len()) {
        Some(room) => Ok(room),
        None => at.fail_at(MAX_PORT + 1, Reason::PortTooLong { max: MAX_PORT }),
    }
}

/// Refuses what Linux refuses; `beyond` is the first character that is too many.
fn check_interface(
    start: Cursor<'_>,
    name: &str,
    beyond: Option<Cursor<'_>>,
) -> Result<(), NameError> {
    match beyond {
        Some(here) => here.fail(Reason::InterfaceTooLong { max: MAX_INTERFACE }),
        None if matches!(name, "." | "..") => start.fail(Reason::ReservedName),
        None => Ok(()),
    }
}

/// Takes `[DDDD:]BB:DD.F`; a domain has four to eight digits.
fn pci_address(at: &mut Cursor<'_>) -> Result<String, NameError> {
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
        return function.fail(Reason::PciAddress);
    }
    Ok(start[..start.len() - at.rest().len()].to_owned())
}

fn hex<'a>(at: &mut Cursor<'a>) -> &'a str {
    at.take_while(|c| c.is_ascii_hexdigit())
}

fn hex_pair(at: &mut Cursor<'_>, max: u8) -> Result<(), NameError> {
    let start = *at;
    let digits = hex(at);
    match u8::from_str_radix(digits, 16) {
        Ok(number) if digits.len() == 2 && number <= max => Ok(()),
        _ => start.fail(Reason::PciAddress),
    }
}

fn separator(at: &mut Cursor<'_>, wanted: char) -> Result<(), NameError> {
    if at.eat(wanted) { Ok(()) } else { at.fail(Reason::PciAddress) }
}

fn is_pipe_sign(c: char) -> bool {
    Role::from_sign(c).is_some()
}

fn pipe(at: &mut Cursor<'_>, port: &PortName) -> Result<Option<PipeEnd>, NameError> {
    let start = *at;
    let Some(role) = at.peek().and_then(Role::from_sign) else {
        return Ok(None);
    };
    if !port.kind.has_pipes() {
        return at.fail(Reason::PipeOfKind);
    }
    at.bump();
    let id = at.identifier();
    if id.is_empty() {
        return at.expected("the identifier of a pipe");
    }
    let room = MAX_PORT - port.kind.request_prefix_len() - port.name.len();
    if id.len() + 1 > room {
        return start.fail_at(start.column() + room, Reason::PortTooLong { max: MAX_PORT });
    }
    let id = id.to_owned();
    Ok(Some(PipeEnd { role, id }))
}

fn rings(at: &mut Cursor<'_>) -> Result<Rings, NameError> {
    if at.eat('*') {
        return Ok(Rings::NicAndHost);
    }
    if at.eat('-') {
        return match at.peek() {
            Some(c) if c.is_ascii_digit() => Ok(Rings::One(ring(at)?)),
            found => at.fail(Reason::ExpectedRing { found }),
        };
    }
    if at.eat('^') {
        return match at.peek() {
            Some(c) if c.is_ascii_digit() => Ok(Rings::OneHost(ring(at)?)),
            _ => Ok(Rings::Host),
        };
    }
    Ok(Rings::All)
}

fn ring(at: &mut Cursor<'_>) -> Result<u16, NameError> {
    at.number("the number of a ring", u16::MAX)
}

fn flags(at: &mut Cursor<'_>) -> Result<Flags, NameError> {
    at.bump();
    let mut flags = Flags::NONE;
    while let Some(c) = at.peek().filter(|c| !matches!(c, '/' | '@')) {
        match Flags::from_letter(c) {
            Some(flag) => flags = flags.with(flag),
            None => return at.fail(Reason::UnknownFlag(c)),
        }
        at.bump();
    }
    if flags == Flags::NONE {
        return at.expected("the letter of a flag");
    }
    Ok(flags.whole())
}
