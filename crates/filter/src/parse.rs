//! The grammar: combinations of primitives, and primitives that have no id.
//!
//! `and` and `or` have equal precedence and associate to the left. An id without qualifiers gets
//! the qualifiers of the primitive before it.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use crate::ast::{AddressDirection, Arith, BoolOp, Expr, Filter, Primitive, Relation, RelationOp};
use crate::error::FilterError;
use crate::id::{IdKind, Qualifiers};
use crate::lex::{FilterKeyword, FilterToken, Lexeme, lex};
use crate::names::{self, FilterProtocol};

/// Maximum nesting depth. It limits the stack that parsing and compiling need.
const MAX_DEPTH: usize = 200;

const PRIMITIVE: &str = "a primitive such as `tcp`, `host` or `ip[0] = 1`";

type ParseResult<T> = Result<T, FilterError>;

impl Filter {
    /// Parses a filter expression. An empty expression accepts every frame.
    ///
    /// # Errors
    /// [`FilterError::Syntax`], [`FilterError::Refused`] or [`FilterError::TooDeep`], each with the
    /// column of the mistake.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser::new(lex(text)?);
        if parser.peek() == FilterToken::End {
            return Ok(Self { expr: None });
        }
        let (expr, _) = parser.expression()?;
        parser.expect(FilterToken::End, "`and`, `or` or the end of the filter")?;
        Ok(Self { expr: Some(expr) })
    }
}

pub(crate) struct Parser<'t> {
    lexemes: Vec<Lexeme<'t>>,
    at: usize,
    pub(crate) depth: usize,
    /// Whether `pppoes` occurs before this position of the expression.
    inside_pppoe: bool,
    /// Whether `mpls` occurs before this position of the expression.
    pub(crate) inside_mpls: bool,
}

impl<'t> Parser<'t> {
    fn new(lexemes: Vec<Lexeme<'t>>) -> Self {
        Self { lexemes, at: 0, depth: 0, inside_pppoe: false, inside_mpls: false }
    }

    /// Parses operands that are joined by `and` and `or`. Also returns the qualifiers that a later
    /// id without qualifiers inherits.
    fn expression(&mut self) -> ParseResult<(Expr, Option<Qualifiers>)> {
        let depth = self.depth;
        let (mut expr, mut qualifiers) = self.operand(None)?;
        let mut previous = None;
        while let Some(join) = self.eat_join() {
            // If the operator changes, the operands before it are nested one level deeper.
            if previous.replace(join) != Some(join) {
                self.enter()?;
            }
            let (right, inherited) = self.operand(qualifiers)?;
            expr = Expr::join(join, expr, right);
            qualifiers = inherited;
        }
        self.depth = depth;
        Ok((expr, qualifiers))
    }

    /// Parses one operand of `and` or `or`. Also returns the qualifiers that a later id without
    /// qualifiers inherits.
    fn operand(
        &mut self,
        inherited: Option<Qualifiers>,
    ) -> ParseResult<(Expr, Option<Qualifiers>)> {
        if self.peek() == FilterToken::Not {
            self.bump();
            self.enter()?;
            let (expr, qualifiers) = self.operand(inherited)?;
            self.leave();
            return Ok((Expr::Not(Box::new(expr)), qualifiers));
        }
        if let Some(qualifiers) = inherited
            && self.id_starts_here()
        {
            return Ok((self.id(qualifiers)?, inherited));
        }
        if self.peek() == FilterToken::OpenParen && !self.arithmetic_starts_here() {
            let group = self.parenthesised(|parser| parser.expression())?;
            return Ok((group.0, inherited));
        }
        self.primitive()
    }

    fn primitive(&mut self) -> ParseResult<(Expr, Option<Qualifiers>)> {
        if self.arithmetic_starts_here() {
            return Ok((self.relation()?, None));
        }
        let start = self.here();
        let protocol = self.eat_protocol();
        if let Some(qualifiers) = self.qualifiers(protocol)? {
            return Ok((self.id(qualifiers)?, Some(qualifiers)));
        }
        let primitive = match (protocol, self.peek()) {
            (_, FilterToken::Keyword(FilterKeyword::Broadcast)) => {
                self.broadcast(protocol, start)?
            }
            (_, FilterToken::Keyword(FilterKeyword::Multicast)) => {
                self.multicast(protocol, start)?
            }
            (Some(protocol), _) => self.protocol(protocol, start)?,
            (None, FilterToken::Keyword(_)) => self.keyword()?,
            _ => return Err(self.unexpected(PRIMITIVE)),
        };
        Ok((Expr::Test(primitive), None))
    }

    /// Parses the qualifiers before an id, which are protocol, direction and kind; `None` if there
    /// are none.
    fn qualifiers(&mut self, protocol: Option<FilterProtocol>) -> ParseResult<Option<Qualifiers>> {
        let direction = self.direction()?;
        let kind = match self.peek() {
            FilterToken::Keyword(FilterKeyword::Host) => Some(IdKind::Host),
            FilterToken::Keyword(FilterKeyword::Net) => Some(IdKind::Net),
            FilterToken::Keyword(FilterKeyword::Port) => Some(IdKind::Port),
            FilterToken::Keyword(FilterKeyword::PortRange) => Some(IdKind::PortRange),
            FilterToken::Keyword(FilterKeyword::Proto) if direction.is_none() => {
                Some(IdKind::Proto)
            }
            _ => None,
        };
        if kind.is_some() {
            self.bump();
        } else if direction.is_none() {
            return Ok(None);
        }
        Ok(Some(Qualifiers {
            protocol,
            direction: direction.unwrap_or(AddressDirection::Either),
            kind: kind.unwrap_or(IdKind::Host),
        }))
    }

    fn direction(&mut self) -> ParseResult<Option<AddressDirection>> {
        let (one, other) = match self.peek() {
            FilterToken::Keyword(FilterKeyword::Src) => (AddressDirection::Src, FilterKeyword::Dst),
            FilterToken::Keyword(FilterKeyword::Dst) => (AddressDirection::Dst, FilterKeyword::Src),
            _ => return Ok(None),
        };
        self.bump();
        let Some(join) = self.eat_join() else {
            return Ok(Some(one));
        };
        self.expect(FilterToken::Keyword(other), "the other one of `src` and `dst`")?;
        Ok(Some(match join {
            BoolOp::And => AddressDirection::Both,
            BoolOp::Or => AddressDirection::Either,
        }))
    }

    fn broadcast(
        &mut self,
        protocol: Option<FilterProtocol>,
        start: Lexeme<'t>,
    ) -> ParseResult<Primitive> {
        self.bump();
        match protocol {
            None | Some(FilterProtocol::Link) => {
                self.ethernet_only(start)?;
                Ok(Primitive::EtherBroadcast)
            }
            Some(FilterProtocol::Ether(names::IP)) => Err(refused(
                start,
                "a broadcast address needs the netmask; write `dst host ADDRESS`",
            )),
            Some(_) => Err(refused(start, "only `ether` has broadcast addresses here")),
        }
    }

    fn multicast(
        &mut self,
        protocol: Option<FilterProtocol>,
        start: Lexeme<'t>,
    ) -> ParseResult<Primitive> {
        self.bump();
        match protocol {
            None | Some(FilterProtocol::Link) => {
                self.ethernet_only(start)?;
                Ok(Primitive::EtherMulticast)
            }
            Some(FilterProtocol::Ether(names::IP)) => Ok(Primitive::IpMulticast),
            Some(FilterProtocol::Ether(names::IP6)) => Ok(Primitive::Ip6Multicast),
            Some(_) => Err(refused(start, "only `ether`, `ip` and `ip6` have multicast addresses")),
        }
    }

    /// Parses the keyword of a protocol that is not followed by an id.
    fn protocol(&mut self, protocol: FilterProtocol, start: Lexeme<'t>) -> ParseResult<Primitive> {
        match protocol {
            FilterProtocol::Link => Err(self.unexpected("`host`, `src`, `dst`, `proto` or `[`")),
            FilterProtocol::Ether(kind) => self.ether_proto(kind.into(), start),
            FilterProtocol::Transport { layer, number } => {
                Ok(Primitive::IpProto { layer, number: number.into() })
            }
        }
    }

    /// Returns the test for an Ethernet type. After `mpls`, only `ip` and `ip6` are possible.
    pub(crate) fn ether_proto(&self, kind: u32, start: Lexeme<'t>) -> ParseResult<Primitive> {
        if self.inside_mpls && kind != names::IP.into() && kind != names::IP6.into() {
            return Err(refused(start, "MPLS labels say nothing but `ip` and `ip6`"));
        }
        Ok(Primitive::EtherProto(kind))
    }

    fn keyword(&mut self) -> ParseResult<Primitive> {
        let unexpected = self.unexpected(PRIMITIVE);
        let start = self.bump();
        match start.token {
            FilterToken::Keyword(FilterKeyword::Less) => self.length(RelationOp::Le),
            FilterToken::Keyword(FilterKeyword::Greater) => self.length(RelationOp::Ge),
            FilterToken::Keyword(FilterKeyword::Pppoed) => self.ether_proto(0x8863, start),
            FilterToken::Keyword(FilterKeyword::Vlan) => self.vlan(start),
            FilterToken::Keyword(FilterKeyword::Mpls) => self.mpls(),
            FilterToken::Keyword(FilterKeyword::Pppoes) => self.pppoes(start),
            _ => Err(unexpected),
        }
    }

    fn length(&mut self, op: RelationOp) -> ParseResult<Primitive> {
        let FilterToken::Number(length) = self.peek() else {
            return Err(self.unexpected("a length in bytes"));
        };
        self.bump();
        Ok(Primitive::Relation(Relation { op, left: Arith::Len, right: Arith::Number(length) }))
    }

    fn vlan(&mut self, start: Lexeme<'t>) -> ParseResult<Primitive> {
        if self.inside_mpls {
            return Err(refused(start, "no VLAN tag follows an MPLS label"));
        }
        if self.inside_pppoe {
            return Err(refused(start, "no VLAN tag follows a PPPoE header"));
        }
        let id = self.tag(4095, "is above 4095, the highest VLAN id")?;
        Ok(Primitive::Vlan(id.map(|id| id as u16)))
    }

    fn mpls(&mut self) -> ParseResult<Primitive> {
        let label = self.tag(0xf_ffff, "is above 1048575, the highest MPLS label")?;
        self.inside_mpls = true;
        Ok(Primitive::Mpls(label))
    }

    fn pppoes(&mut self, start: Lexeme<'t>) -> ParseResult<Primitive> {
        if self.inside_mpls {
            return Err(refused(start, "no PPPoE header follows an MPLS label"));
        }
        let session = self.tag(0xffff, "is above 65535, the highest PPPoE session")?;
        self.inside_pppoe = true;
        Ok(Primitive::Pppoes(session.map(|session| session as u16)))
    }

    /// Parses the optional number after `vlan`, `mpls` and `pppoes`. It may be in parentheses.
    fn tag(&mut self, max: u32, reason: &'static str) -> ParseResult<Option<u32>> {
        let parens = self.count_ahead(FilterToken::OpenParen);
        let number = self.peek_at(parens);
        let FilterToken::Number(value) = number.token else {
            return Ok(None);
        };
        self.at += parens + 1;
        for _ in 0..parens {
            self.expect(FilterToken::CloseParen, "`)`")?;
        }
        if value > max {
            return Err(refused(number, reason));
        }
        Ok(Some(value))
    }

    pub(crate) fn parenthesised<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        self.bump();
        self.enter()?;
        let value = inner(self)?;
        self.leave();
        self.expect(FilterToken::CloseParen, "`and`, `or`, an operator or `)`")?;
        Ok(value)
    }

    /// Returns whether an id, a group of ids or a negated id starts here.
    fn id_starts_here(&self) -> bool {
        let mut ahead = 0;
        while matches!(self.peek_at(ahead).token, FilterToken::OpenParen | FilterToken::Not) {
            ahead += 1;
        }
        match self.peek_at(ahead).token {
            FilterToken::Ipv4 { .. }
            | FilterToken::Ipv6(_)
            | FilterToken::Mac(_)
            | FilterToken::Name(_) => true,
            FilterToken::Number(_) => {
                ahead += 1;
                while self.peek_at(ahead).token == FilterToken::CloseParen {
                    ahead += 1;
                }
                !self.operator_at(ahead)
            }
            _ => false,
        }
    }

    /// Returns an error if the expression is inside a PPPoE session, where Ethernet addresses
    /// cannot be tested.
    pub(crate) fn ethernet_only(&self, start: Lexeme<'t>) -> ParseResult<()> {
        if self.inside_pppoe {
            return Err(refused(start, "a PPPoE session has no Ethernet addresses"));
        }
        Ok(())
    }

    pub(crate) fn here(&self) -> Lexeme<'t> {
        self.peek_at(0)
    }

    pub(crate) fn peek(&self) -> FilterToken<'t> {
        self.here().token
    }

    /// Returns the lexeme that is `ahead` tokens after the current one. After the last token,
    /// returns the end lexeme.
    pub(crate) fn peek_at(&self, ahead: usize) -> Lexeme<'t> {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.at + ahead).min(last)]
    }

    fn count_ahead(&self, token: FilterToken<'t>) -> usize {
        (0..).take_while(|&ahead| self.peek_at(ahead).token == token).count()
    }

    pub(crate) fn bump(&mut self) -> Lexeme<'t> {
        let lexeme = self.here();
        if lexeme.token != FilterToken::End {
            self.at += 1;
        }
        lexeme
    }

    pub(crate) fn eat_join(&mut self) -> Option<BoolOp> {
        let join = match self.peek() {
            FilterToken::And => BoolOp::And,
            FilterToken::Or => BoolOp::Or,
            _ => return None,
        };
        self.bump();
        Some(join)
    }

    fn eat_protocol(&mut self) -> Option<FilterProtocol> {
        let FilterToken::Protocol(protocol) = self.peek() else {
            return None;
        };
        self.bump();
        Some(protocol)
    }

    pub(crate) fn expect(
        &mut self,
        token: FilterToken<'t>,
        expected: &'static str,
    ) -> ParseResult<()> {
        if self.peek() != token {
            return Err(self.unexpected(expected));
        }
        self.bump();
        Ok(())
    }

    pub(crate) fn enter(&mut self) -> ParseResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterError::TooDeep { column: self.here().column, limit: MAX_DEPTH });
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Returns the error for a token that is not allowed here.
    pub(crate) fn unexpected(&self, expected: &'static str) -> FilterError {
        let here = self.here();
        if let FilterToken::Refused(reason) = here.token {
            return refused(here, reason);
        }
        let found = match here.token {
            FilterToken::End => "the end of the filter".to_owned(),
            _ => format!("`{}`", here.text),
        };
        FilterError::Syntax { column: here.column, expected, found }
    }
}

pub(crate) fn refused(lexeme: Lexeme<'_>, reason: &'static str) -> FilterError {
    FilterError::Refused { column: lexeme.column, text: lexeme.text.to_owned(), reason }
}
