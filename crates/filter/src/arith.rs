//! Arithmetic: relations between expressions of numbers, `len` and fields such as `ip[0]`.
//!
//! Operators have the same precedence as in C, except `%` and `^`. The second operand of these two
//! is the entire rest of the expression. This is not documented, but libpcap's grammar works like
//! this.

use alloc::boxed::Box;

use crate::ast::{
    Arith, BinaryOp, Expr, FieldSize, Primitive, Relation, UNARY_POWER, is_indexable,
};
use crate::error::FilterError;
use crate::lex::{FilterKeyword, FilterToken, Lexeme};
use crate::names::FilterProtocol;
use crate::parse::{Parser, refused};

type ArithParseResult<T> = Result<T, FilterError>;

impl Parser<'_> {
    pub(crate) fn relation(&mut self) -> ArithParseResult<Expr> {
        let left = self.arith(0)?;
        let FilterToken::Relation(op) = self.peek() else {
            return Err(self.unexpected("an operator or a comparison such as `=`"));
        };
        self.bump();
        let right = self.arith(0)?;
        let relation = Relation { op, left, right };
        Ok(Expr::Test(Primitive::Relation(relation)))
    }

    /// Parses an expression by precedence climbing. Stops before an operator that binds less
    /// tightly than `min_power`.
    fn arith(&mut self, min_power: u8) -> ArithParseResult<Arith> {
        let depth = self.depth;
        self.enter()?;
        let mut left = self.arith_operand()?;
        while let FilterToken::Binary(op) = self.peek() {
            let (power, right_power) = op.binding_power();
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

    fn arith_operand(&mut self) -> ArithParseResult<Arith> {
        match self.peek() {
            FilterToken::Number(number) => {
                self.bump();
                Ok(Arith::Number(number))
            }
            FilterToken::Keyword(FilterKeyword::Len) => {
                self.bump();
                Ok(Arith::Len)
            }
            FilterToken::Binary(BinaryOp::Sub) => {
                self.bump();
                Ok(Arith::Neg(Box::new(self.arith(UNARY_POWER)?)))
            }
            FilterToken::OpenParen => self.parenthesised(|parser| parser.arith(0)),
            FilterToken::Protocol(protocol) => self.load(protocol),
            _ => Err(self.unexpected("a number, `len` or a field such as `ip[0]`")),
        }
    }

    /// Parses `protocol[index]` or `protocol[index:size]`.
    fn load(&mut self, base: FilterProtocol) -> ArithParseResult<Arith> {
        let start = self.bump();
        self.expect(FilterToken::OpenBracket, "`[`")?;
        if !is_indexable(base) {
            return Err(refused(start, "has no fields that can be indexed"));
        }
        if let FilterProtocol::Ether(kind) = base {
            self.ether_proto(kind.into(), start)?;
        }
        let index = Box::new(self.arith(0)?);
        let size = self.field_size()?;
        self.expect(FilterToken::CloseBracket, "an operator, `:` or `]`")?;
        Ok(Arith::Load { base, index, size })
    }

    fn field_size(&mut self) -> ArithParseResult<FieldSize> {
        if self.peek() != FilterToken::Colon {
            return Ok(FieldSize::Byte);
        }
        self.bump();
        let size = match self.peek() {
            FilterToken::Number(1) => FieldSize::Byte,
            FilterToken::Number(2) => FieldSize::Half,
            FilterToken::Number(4) => FieldSize::Word,
            _ => return Err(self.unexpected("a field size of 1, 2 or 4 bytes")),
        };
        self.bump();
        Ok(size)
    }

    /// Returns whether an arithmetic expression starts here. If a parenthesis opens here, the token
    /// after its closing parenthesis decides.
    pub(crate) fn arithmetic_starts_here(&self) -> bool {
        match self.peek() {
            FilterToken::Number(_) | FilterToken::OpenParen => self.operator_follows(),
            FilterToken::Keyword(FilterKeyword::Len) | FilterToken::Binary(BinaryOp::Sub) => true,
            FilterToken::Protocol(_) => self.peek_at(1).token == FilterToken::OpenBracket,
            _ => false,
        }
    }

    /// Returns whether an operator follows the current token. If a parenthesis opens here, returns
    /// whether an operator follows its closing parenthesis.
    fn operator_follows(&self) -> bool {
        let (mut ahead, mut open) = (0, 0usize);
        loop {
            match self.peek_at(ahead).token {
                FilterToken::OpenParen => open += 1,
                FilterToken::CloseParen => open = open.saturating_sub(1),
                FilterToken::End => return false,
                _ => {}
            }
            ahead += 1;
            if open == 0 {
                return self.operator_at(ahead);
            }
        }
    }

    pub(crate) fn operator_at(&self, ahead: usize) -> bool {
        matches!(self.peek_at(ahead).token, FilterToken::Binary(_) | FilterToken::Relation(_))
    }
}

/// Returns an error if no kernel accepts this constant as a second operand.
fn check_constant(op: BinaryOp, right: &Arith, start: Lexeme<'_>) -> ArithParseResult<()> {
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
