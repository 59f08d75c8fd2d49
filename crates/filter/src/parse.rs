//! The grammar: how primitives are joined, and primitives that do not name an id.
//!
//! `and` and `or` bind alike, from left to right. An id without qualifiers takes those of the
//! primitive before it. In arithmetic, `%` and `^` take everything to their right as second
//! operand, which is how libpcap's grammar reads them; the other operators bind as in C.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ast::{
    Arith, BinaryOp, Direction, Expr, Filter, Join, Primitive, Relation, RelationOp, Size,
    is_indexable,
};
use crate::error::FilterError;
use crate::id::{Kind, Qualifiers};
use crate::lex::{Keyword, Lexeme, Token, lex};
use crate::names::{self, Protocol};

/// Levels of nesting allowed; it bounds the stack that parsing and compiling need.
const MAX_DEPTH: usize = 200;

const UNARY_POWER: u8 = 11;

type Parsed<T> = Result<T, FilterError>;

impl Filter {
    /// Parses a filter expression; an empty one accepts every frame.
    ///
    /// # Errors
    /// [`FilterError::Syntax`], [`FilterError::Refused`] or [`FilterError::TooDeep`], each with
    /// the column at fault.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser::new(lex(text)?);
        if parser.peek() == Token::End {
            return Ok(Self { expr: None });
        }
        let (expr, _) = parser.expression()?;
        parser.expect(Token::End, "`and`, `or` or the end of the filter")?;
        Ok(Self { expr: Some(expr) })
    }
}

/// What the headers are that the current place of the expression looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Ethernet,
    Pppoe,
    Mpls,
}

pub(crate) struct Parser<'t> {
    lexemes: Vec<Lexeme<'t>>,
    at: usize,
    depth: usize,
    link: Link,
}

impl<'t> Parser<'t> {
    fn new(lexemes: Vec<Lexeme<'t>>) -> Self {
        Self { lexemes, at: 0, depth: 0, link: Link::Ethernet }
    }

    /// Operands joined by `and` and `or`, with the qualifiers that an id after them takes.
    fn expression(&mut self) -> Parsed<(Expr, Option<Qualifiers>)> {
        let depth = self.depth;
        let (mut expr, mut qualifiers) = self.operand(None)?;
        let mut previous = None;
        while let Some(join) = self.eat_join() {
            // A change of operator nests what came before it one level deeper.
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

    /// One operand of `and` and `or`, with the qualifiers that an id after it takes.
    fn operand(&mut self, inherited: Option<Qualifiers>) -> Parsed<(Expr, Option<Qualifiers>)> {
        if self.peek() == Token::Not {
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
        if self.peek() == Token::OpenParen && !self.arithmetic_starts_here() {
            let group = self.parenthesised(|parser| parser.expression())?;
            return Ok((group.0, inherited));
        }
        self.primitive()
    }

    fn primitive(&mut self) -> Parsed<(Expr, Option<Qualifiers>)> {
        if self.arithmetic_starts_here() {
            return Ok((self.relation()?, None));
        }
        let start = self.here();
        let protocol = self.eat_protocol();
        if let Some(qualifiers) = self.qualifiers(protocol)? {
            return Ok((self.id(qualifiers)?, Some(qualifiers)));
        }
        let primitive = match (protocol, self.peek()) {
            (_, Token::Keyword(Keyword::Broadcast)) => self.broadcast(protocol, start)?,
            (_, Token::Keyword(Keyword::Multicast)) => self.multicast(protocol, start)?,
            (Some(protocol), _) => self.protocol(protocol, start)?,
            (None, Token::Keyword(keyword)) => self.keyword(keyword)?,
            _ => return Err(self.unexpected("a primitive such as `tcp`, `host` or `ip[0] = 1`")),
        };
        Ok((Expr::Test(primitive), None))
    }

    /// The qualifiers before an id: protocol, direction, kind. `None` if there are none.
    fn qualifiers(&mut self, protocol: Option<Protocol>) -> Parsed<Option<Qualifiers>> {
        let direction = self.direction()?;
        let kind = match self.peek() {
            Token::Keyword(Keyword::Host) => Some(Kind::Host),
            Token::Keyword(Keyword::Net) => Some(Kind::Net),
            Token::Keyword(Keyword::Port) => Some(Kind::Port),
            Token::Keyword(Keyword::PortRange) => Some(Kind::PortRange),
            Token::Keyword(Keyword::Proto) if direction.is_none() => Some(Kind::Proto),
            _ => None,
        };
        if kind.is_some() {
            self.bump();
        } else if direction.is_none() {
            return Ok(None);
        }
        Ok(Some(Qualifiers {
            protocol,
            direction: direction.unwrap_or(Direction::Either),
            kind: kind.unwrap_or(Kind::Host),
        }))
    }

    fn direction(&mut self) -> Parsed<Option<Direction>> {
        let (one, other) = match self.peek() {
            Token::Keyword(Keyword::Src) => (Direction::Src, Keyword::Dst),
            Token::Keyword(Keyword::Dst) => (Direction::Dst, Keyword::Src),
            _ => return Ok(None),
        };
        self.bump();
        let Some(join) = self.eat_join() else {
            return Ok(Some(one));
        };
        self.expect(Token::Keyword(other), "the other one of `src` and `dst`")?;
        Ok(Some(match join {
            Join::And => Direction::Both,
            Join::Or => Direction::Either,
        }))
    }

    fn broadcast(&mut self, protocol: Option<Protocol>, start: Lexeme<'t>) -> Parsed<Primitive> {
        self.bump();
        match protocol {
            None | Some(Protocol::Link) => {
                self.ethernet_only(start)?;
                Ok(Primitive::EtherBroadcast)
            }
            Some(Protocol::Ether(names::IP)) => Err(refused(
                start,
                "a broadcast address needs the netmask; write `dst host ADDRESS`",
            )),
            Some(_) => Err(refused(start, "only `ether` has broadcast addresses here")),
        }
    }

    fn multicast(&mut self, protocol: Option<Protocol>, start: Lexeme<'t>) -> Parsed<Primitive> {
        self.bump();
        match protocol {
            None | Some(Protocol::Link) => {
                self.ethernet_only(start)?;
                Ok(Primitive::EtherMulticast)
            }
            Some(Protocol::Ether(names::IP)) => Ok(Primitive::IpMulticast),
            Some(Protocol::Ether(names::IP6)) => Ok(Primitive::Ip6Multicast),
            Some(_) => Err(refused(start, "only `ether`, `ip` and `ip6` have multicast addresses")),
        }
    }

    /// A protocol keyword that stands alone.
    fn protocol(&mut self, protocol: Protocol, start: Lexeme<'t>) -> Parsed<Primitive> {
        match protocol {
            Protocol::Link => Err(self.unexpected("`host`, `src`, `dst`, `proto` or `[`")),
            Protocol::Ether(kind) => self.ether_proto(kind.into(), start),
            Protocol::Transport { layer, number } => {
                Ok(Primitive::IpProto { layer, number: number.into() })
            }
        }
    }

    /// An Ethernet type, where the headers at this place have one.
    pub(crate) fn ether_proto(&self, kind: u32, start: Lexeme<'t>) -> Parsed<Primitive> {
        if self.link == Link::Mpls && kind != names::IP.into() && kind != names::IP6.into() {
            return Err(refused(start, "MPLS labels say nothing but `ip` and `ip6`"));
        }
        Ok(Primitive::EtherProto(kind))
    }

    fn keyword(&mut self, keyword: Keyword) -> Parsed<Primitive> {
        let start = self.bump();
        match keyword {
            Keyword::Less => self.length(RelationOp::Le),
            Keyword::Greater => self.length(RelationOp::Ge),
            Keyword::Pppoed => self.ether_proto(0x8863, start),
            Keyword::Vlan => self.vlan(start),
            Keyword::Mpls => self.mpls(start),
            Keyword::Pppoes => self.pppoes(start),
            _ => Err(FilterError::Syntax {
                column: start.column,
                expected: "a primitive such as `tcp`, `host` or `ip[0] = 1`",
                found: found(start),
            }),
        }
    }

    fn length(&mut self, op: RelationOp) -> Parsed<Primitive> {
        let Token::Number(length) = self.peek() else {
            return Err(self.unexpected("a length in bytes"));
        };
        self.bump();
        Ok(Primitive::Relation(Relation { op, left: Arith::Len, right: Arith::Number(length) }))
    }

    fn vlan(&mut self, start: Lexeme<'t>) -> Parsed<Primitive> {
        match self.link {
            Link::Ethernet => {}
            Link::Pppoe => return Err(refused(start, "no VLAN tag follows a PPPoE header")),
            Link::Mpls => return Err(refused(start, "no VLAN tag follows an MPLS label")),
        }
        let id = self.tag(4095, "is above 4095, the highest VLAN id")?;
        Ok(Primitive::Vlan(id.map(|id| id as u16)))
    }

    fn mpls(&mut self, _start: Lexeme<'t>) -> Parsed<Primitive> {
        let label = self.tag(0xf_ffff, "is above 1048575, the highest MPLS label")?;
        self.link = Link::Mpls;
        Ok(Primitive::Mpls(label))
    }

    fn pppoes(&mut self, start: Lexeme<'t>) -> Parsed<Primitive> {
        if self.link == Link::Mpls {
            return Err(refused(start, "no PPPoE header follows an MPLS label"));
        }
        let session = self.tag(0xffff, "is above 65535, the highest PPPoE session")?;
        self.link = Link::Pppoe;
        Ok(Primitive::Pppoes(session.map(|session| session as u16)))
    }

    /// The optional number after `vlan`, `mpls` and `pppoes`, perhaps in parentheses.
    fn tag(&mut self, max: u32, reason: &'static str) -> Parsed<Option<u32>> {
        let parens = self.count_ahead(Token::OpenParen);
        let number = self.peek_at(parens);
        let Token::Number(value) = number.token else {
            return Ok(None);
        };
        self.at += parens + 1;
        for _ in 0..parens {
            self.expect(Token::CloseParen, "`)`")?;
        }
        if value > max {
            return Err(refused(number, reason));
        }
        Ok(Some(value))
    }

    fn relation(&mut self) -> Parsed<Expr> {
        let left = self.arith(0)?;
        let Token::Relation(op) = self.peek() else {
            return Err(self.unexpected("an operator or a comparison such as `=`"));
        };
        self.bump();
        let right = self.arith(0)?;
        let relation = Relation { op, left, right };
        Ok(Expr::Test(Primitive::Relation(relation)))
    }

    /// Precedence climbing: takes operators that bind at least as tightly as `min_power`.
    fn arith(&mut self, min_power: u8) -> Parsed<Arith> {
        let depth = self.depth;
        self.enter()?;
        let mut left = self.arith_operand()?;
        while let Token::Binary(op) = self.peek() {
            let (power, right_power) = binding_power(op);
            if power < min_power {
                break;
            }
            self.bump();
            self.enter()?;
            let start = self.here();
            let right = self.arith(right_power)?;
            check_constant(op, &right, start)?;
            left = Arith::Binary(op, Box::new(left), Box::new(right));
        }
        self.depth = depth;
        Ok(left)
    }

    fn arith_operand(&mut self) -> Parsed<Arith> {
        match self.peek() {
            Token::Number(number) => {
                self.bump();
                Ok(Arith::Number(number))
            }
            Token::Keyword(Keyword::Len) => {
                self.bump();
                Ok(Arith::Len)
            }
            Token::Binary(BinaryOp::Sub) => {
                self.bump();
                Ok(Arith::Neg(Box::new(self.arith(UNARY_POWER)?)))
            }
            Token::OpenParen => self.parenthesised(|parser| parser.arith(0)),
            Token::Protocol(protocol) => self.load(protocol),
            _ => Err(self.unexpected("a number, `len` or a field such as `ip[0]`")),
        }
    }

    /// `protocol[index]` or `protocol[index:size]`.
    fn load(&mut self, base: Protocol) -> Parsed<Arith> {
        let start = self.bump();
        self.expect(Token::OpenBracket, "`[`")?;
        if !is_indexable(base) {
            return Err(refused(start, "has no fields that can be indexed"));
        }
        if let Protocol::Ether(kind) = base {
            self.ether_proto(kind.into(), start)?;
        }
        let index = Box::new(self.arith(0)?);
        let size = self.field_size()?;
        self.expect(Token::CloseBracket, "an operator, `:` or `]`")?;
        Ok(Arith::Load { base, index, size })
    }

    fn field_size(&mut self) -> Parsed<Size> {
        if self.peek() != Token::Colon {
            return Ok(Size::Byte);
        }
        self.bump();
        let size = match self.peek() {
            Token::Number(1) => Size::Byte,
            Token::Number(2) => Size::Half,
            Token::Number(4) => Size::Word,
            _ => return Err(self.unexpected("a field size of 1, 2 or 4 bytes")),
        };
        self.bump();
        Ok(size)
    }

    pub(crate) fn parenthesised<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        self.bump();
        self.enter()?;
        let value = inner(self)?;
        self.leave();
        self.expect(Token::CloseParen, "`and`, `or`, an operator or `)`")?;
        Ok(value)
    }

    /// Whether what follows is arithmetic; for a parenthesis, what stands after its end tells.
    fn arithmetic_starts_here(&self) -> bool {
        match self.peek() {
            Token::Number(_) | Token::OpenParen => self.operator_follows(),
            Token::Keyword(Keyword::Len) | Token::Binary(BinaryOp::Sub) => true,
            Token::Protocol(_) => self.peek_at(1).token == Token::OpenBracket,
            _ => false,
        }
    }

    /// Whether an operator stands after the token here, or after the parenthesis that opens here.
    fn operator_follows(&self) -> bool {
        let mut open = 0usize;
        for (i, lexeme) in self.lexemes[self.at..].iter().enumerate() {
            match lexeme.token {
                Token::OpenParen => open += 1,
                Token::CloseParen => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                let next = self.peek_at(i + 1).token;
                return matches!(next, Token::Binary(_) | Token::Relation(_));
            }
        }
        false
    }

    /// Whether an id, or a group or negation of ids, starts here.
    fn id_starts_here(&self) -> bool {
        let mut skipped = 0;
        while matches!(self.peek_at(skipped).token, Token::OpenParen | Token::Not) {
            skipped += 1;
        }
        match self.peek_at(skipped).token {
            Token::Ipv4 { .. } | Token::Ipv6(_) | Token::Mac(_) | Token::Name(_) => true,
            Token::Number(_) => {
                let mut after = skipped + 1;
                while after < skipped + 1 + skipped
                    && self.peek_at(after).token == Token::CloseParen
                {
                    after += 1;
                }
                let next = self.peek_at(after).token;
                !matches!(next, Token::Binary(_) | Token::Relation(_))
            }
            _ => false,
        }
    }

    /// Refuses what needs Ethernet addresses once a PPPoE header has been passed.
    pub(crate) fn ethernet_only(&self, start: Lexeme<'t>) -> Parsed<()> {
        if self.link == Link::Pppoe {
            return Err(refused(start, "a PPPoE session has no Ethernet addresses"));
        }
        Ok(())
    }

    pub(crate) fn inside_mpls(&self) -> bool {
        self.link == Link::Mpls
    }

    pub(crate) fn here(&self) -> Lexeme<'t> {
        self.peek_at(0)
    }

    pub(crate) fn peek(&self) -> Token<'t> {
        self.here().token
    }

    /// The lexeme `ahead` places on; the end of the filter repeats for ever.
    fn peek_at(&self, ahead: usize) -> Lexeme<'t> {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.at + ahead).min(last)]
    }

    fn count_ahead(&self, token: Token<'t>) -> usize {
        (0..).take_while(|&ahead| self.peek_at(ahead).token == token).count()
    }

    pub(crate) fn bump(&mut self) -> Lexeme<'t> {
        let lexeme = self.here();
        self.at += 1;
        lexeme
    }

    pub(crate) fn eat_join(&mut self) -> Option<Join> {
        let join = match self.peek() {
            Token::And => Join::And,
            Token::Or => Join::Or,
            _ => return None,
        };
        self.bump();
        Some(join)
    }

    fn eat_protocol(&mut self) -> Option<Protocol> {
        let Token::Protocol(protocol) = self.peek() else {
            return None;
        };
        self.bump();
        Some(protocol)
    }

    fn expect(&mut self, token: Token<'t>, expected: &'static str) -> Parsed<()> {
        if self.peek() != token {
            return Err(self.unexpected(expected));
        }
        self.bump();
        Ok(())
    }

    pub(crate) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterError::TooDeep { column: self.here().column, limit: MAX_DEPTH });
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The error for a token that does not belong here.
    pub(crate) fn unexpected(&self, expected: &'static str) -> FilterError {
        let here = self.here();
        if let Token::Refused(reason) = here.token {
            return refused(here, reason);
        }
        FilterError::Syntax { column: here.column, expected, found: found(here) }
    }
}

fn found(lexeme: Lexeme<'_>) -> String {
    match lexeme.token {
        Token::End => "the end of the filter".to_owned(),
        _ => format!("`{}`", lexeme.text),
    }
}

pub(crate) fn refused(lexeme: Lexeme<'_>, reason: &'static str) -> FilterError {
    FilterError::Refused { column: lexeme.column, text: lexeme.text.to_owned(), reason }
}

/// How tightly an operator binds to its left, and what its right operand may contain.
fn binding_power(op: BinaryOp) -> (u8, u8) {
    match op {
        BinaryOp::Or => (1, 2),
        BinaryOp::And => (3, 4),
        BinaryOp::Shl | BinaryOp::Shr => (5, 6),
        BinaryOp::Add | BinaryOp::Sub => (7, 8),
        BinaryOp::Mul | BinaryOp::Div => (9, 10),
        BinaryOp::Mod | BinaryOp::Xor => (UNARY_POWER + 1, 0),
    }
}

/// Refuses constants that no kernel takes as a second operand.
fn check_constant(op: BinaryOp, right: &Arith, start: Lexeme<'_>) -> Parsed<()> {
    match (op, right) {
        (BinaryOp::Div | BinaryOp::Mod, Arith::Number(0)) => {
            Err(refused(start, "division by zero"))
        }
        (BinaryOp::Shl | BinaryOp::Shr, Arith::Number(32..)) => {
            Err(refused(start, "shifts by more than 31 bits"))
        }
        _ => Ok(()),
    }
}
