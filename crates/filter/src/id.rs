//! Parses ids. An id is the address, network, port or protocol to which qualifiers apply.

use alloc::boxed::Box;
use core::net::Ipv6Addr;

use crate::ast::{AddressCarrier, AddressDirection, Expr, Primitive, Transport};
use crate::error::FilterError;
use crate::lex::{FilterKeyword, FilterToken, Lexeme};
use crate::names::{self, FilterProtocol, IpLayer, RegisteredTransport};
use crate::parse::{Parser, refused};

/// The qualifiers before an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Qualifiers {
    pub(crate) protocol: Option<FilterProtocol>,
    pub(crate) direction: AddressDirection,
    pub(crate) kind: IdKind,
}

/// The kind of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdKind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

const NO_NAMES: &str = "names of hosts and networks are not looked up; give the address";
const NOT_A_CARRIER: &str = "only `ip`, `arp` and `rarp` carry IPv4 addresses";

type IdParseResult<T> = Result<T, FilterError>;

impl<'t> Parser<'t> {
    /// Parses an id, its negation, or a list of ids in parentheses.
    pub(crate) fn id(&mut self, qualifiers: Qualifiers) -> IdParseResult<Expr> {
        match self.peek() {
            FilterToken::Not => {
                self.bump();
                self.enter()?;
                let expr = self.id(qualifiers)?;
                self.leave();
                Ok(Expr::Not(Box::new(expr)))
            }
            FilterToken::OpenParen => self.parenthesised(|parser| parser.id_list(qualifiers)),
            _ => self.single_id(qualifiers).map(Expr::Test),
        }
    }

    fn id_list(&mut self, qualifiers: Qualifiers) -> IdParseResult<Expr> {
        let mut expr = self.id(qualifiers)?;
        let mut entered = 0;
        let mut previous = None;
        while let Some(join) = self.eat_join() {
            if previous.replace(join) != Some(join) {
                self.enter()?;
                entered += 1;
            }
            expr = Expr::join(join, expr, self.id(qualifiers)?);
        }
        for _ in 0..entered {
            self.leave();
        }
        Ok(expr)
    }

    fn single_id(&mut self, qualifiers: Qualifiers) -> IdParseResult<Primitive> {
        let id = self.here();
        let expected = match qualifiers.kind {
            IdKind::Host => "an address",
            IdKind::Net => "a network such as `10.0.0.0/8`",
            IdKind::Port => "a port",
            IdKind::PortRange => "a range of ports such as `6000-6008`",
            IdKind::Proto => "a protocol number, or a name with `\\` before a keyword",
        };
        match (id.token, qualifiers.kind) {
            (FilterToken::Number(number), kind) => {
                self.bump();
                self.number(qualifiers, kind, number, id)
            }
            (FilterToken::Name(name), kind) => {
                self.bump();
                self.name(qualifiers, kind, name, id)
            }
            (FilterToken::Ipv4 { leading, bits }, IdKind::Host | IdKind::Net) => {
                self.bump();
                let (address, mask) = self.ipv4(qualifiers.kind, leading, bits, id)?;
                self.net4(qualifiers, address, mask, id)
            }
            (FilterToken::Ipv6(address), IdKind::Host | IdKind::Net) => {
                self.bump();
                self.net6(qualifiers, address, id)
            }
            (FilterToken::Mac(address), IdKind::Host) => {
                self.bump();
                self.mac(qualifiers, address, id)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn number(
        &self,
        qualifiers: Qualifiers,
        kind: IdKind,
        number: u32,
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        match kind {
            IdKind::Host => self.net4(qualifiers, number, u32::MAX, id),
            IdKind::Net => {
                // `net 10` gives only the leading bytes of a network (10.0.0.0/8). `net 0` is
                // special: all 32 bits are compared.
                let unused = if number == 0 { 0 } else { number.leading_zeros() / 8 * 8 };
                self.net4(qualifiers, number << unused, u32::MAX << unused, id)
            }
            IdKind::Port | IdKind::PortRange => match u16::try_from(number) {
                Ok(port) => ports(qualifiers, port, port, id),
                Err(_) => Err(refused(id, "is above 65535, the highest port")),
            },
            IdKind::Proto => self.proto(qualifiers, number, id),
        }
    }

    fn name(
        &self,
        qualifiers: Qualifiers,
        kind: IdKind,
        name: &str,
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        match kind {
            IdKind::Host | IdKind::Net => Err(refused(id, NO_NAMES)),
            IdKind::Port => named_port(qualifiers, name, id),
            IdKind::PortRange => named_range(qualifiers, name, id),
            IdKind::Proto => {
                let table = match qualifiers.protocol {
                    Some(FilterProtocol::Link) => names::ETHER_TYPES,
                    _ => names::IP_PROTOCOLS,
                };
                match names::find(table, name) {
                    Some(number) => self.proto(qualifiers, number, id),
                    None => Err(refused(id, "unknown protocol; give its number")),
                }
            }
        }
    }

    /// Returns the address and the mask of `A.B`, `A.B.C` or `A.B.C.D`. These texts give the first
    /// `bits` bits of an address, which are the value `leading`. The mask covers these bits, unless
    /// `/LEN` or `mask M` follows, which is only allowed for a network.
    fn ipv4(
        &mut self,
        kind: IdKind,
        leading: u32,
        bits: u32,
        id: Lexeme<'t>,
    ) -> IdParseResult<(u32, u32)> {
        let address = leading << (32 - bits);
        let mask = match self.peek() {
            FilterToken::Binary(crate::ast::BinaryOp::Div) => self.prefix_mask()?,
            FilterToken::Keyword(FilterKeyword::Mask) => self.mask()?,
            _ => return Ok((address, u32::MAX << (32 - bits))),
        };
        if address & !mask != 0 {
            return Err(refused(id, "has bits set outside its mask"));
        }
        if kind != IdKind::Net {
            return Err(refused(id, "only `net` takes a mask"));
        }
        Ok((address, mask))
    }

    fn prefix_mask(&mut self) -> IdParseResult<u32> {
        let len = self.prefix_len(32, "is above 32, the length of an IPv4 address in bits")?;
        Ok(u32::MAX.checked_shl(32 - len).unwrap_or(0))
    }

    fn prefix_len(&mut self, max: u32, reason: &'static str) -> IdParseResult<u32> {
        self.bump();
        let FilterToken::Number(len) = self.peek() else {
            return Err(self.unexpected("a prefix length in bits"));
        };
        if len > max {
            return Err(refused(self.here(), reason));
        }
        self.bump();
        Ok(len)
    }

    fn mask(&mut self) -> IdParseResult<u32> {
        self.bump();
        let FilterToken::Ipv4 { leading, bits } = self.peek() else {
            return Err(self.unexpected("a mask such as `255.255.0.0`"));
        };
        self.bump();
        Ok(leading << (32 - bits))
    }

    fn net4(
        &self,
        qualifiers: Qualifiers,
        address: u32,
        mask: u32,
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        let carrier = match qualifiers.protocol {
            None => AddressCarrier::Any,
            Some(FilterProtocol::Ether(names::IP)) => AddressCarrier::Ip,
            Some(FilterProtocol::Ether(names::ARP)) => AddressCarrier::Arp,
            Some(FilterProtocol::Ether(names::RARP)) => AddressCarrier::Rarp,
            Some(_) => return Err(refused(id, NOT_A_CARRIER)),
        };
        if self.inside_mpls && matches!(carrier, AddressCarrier::Arp | AddressCarrier::Rarp) {
            return Err(refused(id, "MPLS labels say nothing but `ip` and `ip6`"));
        }
        Ok(Primitive::Net4 { ip_carrier: carrier, direction: qualifiers.direction, address, mask })
    }

    fn net6(
        &mut self,
        qualifiers: Qualifiers,
        address: Ipv6Addr,
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        let prefix_len = match self.peek() {
            FilterToken::Binary(crate::ast::BinaryOp::Div) => {
                self.prefix_len(128, "is above 128, the length of an IPv6 address in bits")?
            }
            _ => 128,
        };
        let mask = u128::MAX.checked_shl(128 - prefix_len).unwrap_or(0);
        if address.to_bits() & !mask != 0 {
            return Err(refused(id, "has bits set outside its mask"));
        }
        if prefix_len != 128 && qualifiers.kind != IdKind::Net {
            return Err(refused(id, "only `net` takes a mask"));
        }
        if !matches!(qualifiers.protocol, None | Some(FilterProtocol::Ether(names::IP6))) {
            return Err(refused(id, "only `ip6` carries IPv6 addresses"));
        }
        Ok(Primitive::Net6 {
            direction: qualifiers.direction,
            address,
            prefix_len: prefix_len as u8,
        })
    }

    fn mac(
        &self,
        qualifiers: Qualifiers,
        address: [u8; 6],
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        if qualifiers.protocol != Some(FilterProtocol::Link) {
            return Err(refused(id, "write `ether` before an Ethernet address"));
        }
        self.ethernet_only(id)?;
        Ok(Primitive::Mac { direction: qualifiers.direction, address })
    }

    fn proto(
        &self,
        qualifiers: Qualifiers,
        number: u32,
        id: Lexeme<'t>,
    ) -> IdParseResult<Primitive> {
        let layer = match qualifiers.protocol {
            None => IpLayer::Any,
            Some(FilterProtocol::Ether(names::IP)) => IpLayer::Ip,
            Some(FilterProtocol::Ether(names::IP6)) => IpLayer::Ip6,
            Some(FilterProtocol::Link) => return self.ether_proto(number, id),
            Some(_) => {
                return Err(refused(
                    id,
                    "only `ether proto`, `ip proto` and `ip6 proto` carry protocols",
                ));
            }
        };
        Ok(Primitive::IpProto { layer, number })
    }
}

fn transport(qualifiers: Qualifiers, id: Lexeme<'_>) -> IdParseResult<Transport> {
    match qualifiers.protocol {
        None => Ok(Transport::Any),
        Some(FilterProtocol::Transport { number, .. }) if number == names::TCP => {
            Ok(Transport::Tcp)
        }
        Some(FilterProtocol::Transport { number, .. }) if number == names::UDP => {
            Ok(Transport::Udp)
        }
        Some(FilterProtocol::Transport { number, .. }) if number == names::SCTP => {
            Ok(Transport::Sctp)
        }
        Some(_) => Err(refused(id, "only `tcp`, `udp` and `sctp` have ports")),
    }
}

fn ports(qualifiers: Qualifiers, low: u16, high: u16, id: Lexeme<'_>) -> IdParseResult<Primitive> {
    Ok(Primitive::Ports {
        transport: transport(qualifiers, id)?,
        direction: qualifiers.direction,
        low: low.min(high),
        high: low.max(high),
    })
}

/// Returns the test for a port that is given by name. If the name is registered for one transport
/// only, the test is restricted to this transport.
fn named_port(mut qualifiers: Qualifiers, name: &str, id: Lexeme<'_>) -> IdParseResult<Primitive> {
    let Some((port, registered)) = names::service(name) else {
        return Err(refused(id, "unknown port name; give its number"));
    };
    restrict(&mut qualifiers, registered, id)?;
    ports(qualifiers, port, port, id)
}

/// Parses `LOW-HIGH`, where `LOW` and `HIGH` are numbers or names. The first dash separates them,
/// so `LOW` cannot be a name that contains a dash.
fn named_range(mut qualifiers: Qualifiers, name: &str, id: Lexeme<'_>) -> IdParseResult<Primitive> {
    let Some((low, high)) = name.split_once('-') else {
        return Err(refused(id, "is no range; write `LOW-HIGH`"));
    };
    let (low, low_at) = range_end(low, id)?;
    let (high, high_at) = range_end(high, id)?;
    if low_at == high_at {
        restrict(&mut qualifiers, low_at, id)?;
    }
    ports(qualifiers, low, high, id)
}

fn range_end(end: &str, id: Lexeme<'_>) -> IdParseResult<(u16, RegisteredTransport)> {
    match end.parse() {
        Ok(port) => Ok((port, RegisteredTransport::Both)),
        Err(_) => names::service(end)
            .ok_or_else(|| refused(id, "is no range of two ports from 0 to 65535 or their names")),
    }
}

/// Restricts a test to the transport for which a port name is registered.
fn restrict(
    qualifiers: &mut Qualifiers,
    registered: RegisteredTransport,
    id: Lexeme<'_>,
) -> IdParseResult<()> {
    let (wanted, reason) = match registered {
        RegisteredTransport::Both => return Ok(()),
        RegisteredTransport::Tcp => (names::TCP, "is a TCP port"),
        RegisteredTransport::Udp => (names::UDP, "is a UDP port"),
    };
    let wanted = FilterProtocol::Transport { layer: IpLayer::Any, number: wanted };
    match qualifiers.protocol {
        None => qualifiers.protocol = Some(wanted),
        Some(protocol) if protocol == wanted => {}
        Some(_) => return Err(refused(id, reason)),
    }
    Ok(())
}
