//! The syntax tree of a filter, and its text form.
//!
//! A tree is in normal form. Abbreviated lists are expanded, keywords such as `tcp` are replaced by
//! their tests, and a chain of equal operators is one node. A tree is printed as an expression that
//! is parsed to the same tree.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::names::{self, FilterProtocol, IpLayer};

/// A parsed filter expression. It is printed in a normal form that is parsed to the same filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The expression; `None` if it is empty, which accepts every frame.
    pub(crate) expr: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Test(Primitive),
    Not(Box<Expr>),
    /// Two or more expressions, none of them an `And`.
    And(Vec<Expr>),
    /// Two or more expressions, none of them an `Or`.
    Or(Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Primitive {
    /// If above 1500, an Ethernet type; otherwise the service access point of an LLC frame.
    EtherProto(u32),
    IpProto {
        layer: IpLayer,
        number: u32,
    },
    Mac {
        direction: AddressDirection,
        address: [u8; 6],
    },
    Net4 {
        ip_carrier: AddressCarrier,
        direction: AddressDirection,
        address: u32,
        mask: u32,
    },
    Net6 {
        direction: AddressDirection,
        address: Ipv6Addr,
        prefix_len: u8,
    },
    Ports {
        transport: Transport,
        direction: AddressDirection,
        low: u16,
        high: u16,
    },
    EtherBroadcast,
    EtherMulticast,
    IpMulticast,
    Ip6Multicast,
    Vlan(Option<u16>),
    Mpls(Option<u32>),
    Pppoes(Option<u16>),
    Relation(Relation),
}

/// Which end of a packet an address or port is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressDirection {
    Either,
    Both,
    Src,
    Dst,
}

/// The protocols whose headers may contain the IPv4 address that a filter tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressCarrier {
    Any,
    Ip,
    Arp,
    Rarp,
}

/// The transport protocols whose headers may contain the port that a filter tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Any,
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Relation {
    pub(crate) op: RelationOp,
    pub(crate) left: Arith,
    pub(crate) right: Arith,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelationOp {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

/// An arithmetic expression. Its values are unsigned 32-bit numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arith {
    Number(u32),
    /// The frame's length on the wire, in bytes.
    Len,
    Load {
        /// A protocol for which [`is_indexable`] is true.
        base: FilterProtocol,
        index: Box<Arith>,
        size: FieldSize,
    },
    Neg(Box<Arith>),
    Binary(BinaryOp, Box<Arith>, Box<Arith>),
}

/// The size of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldSize {
    Byte,
    Half,
    Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// How tightly a sign binds its operand.
pub(crate) const UNARY_POWER: u8 = 11;

impl BinaryOp {
    /// Returns two numbers: how tightly the operator binds its left operand, and the minimum for the
    /// operators in its right operand.
    pub(crate) const fn binding_power(self) -> (u8, u8) {
        match self {
            Self::Or => (1, 2),
            Self::And => (3, 4),
            Self::Shl | Self::Shr => (5, 6),
            Self::Add | Self::Sub => (7, 8),
            Self::Mul | Self::Div => (9, 10),
            Self::Mod | Self::Xor => (UNARY_POWER + 1, 0),
        }
    }
}

/// Returns whether `protocol[...]` is valid. It is valid if the position of the protocol's header
/// is known.
pub(crate) fn is_indexable(protocol: FilterProtocol) -> bool {
    match protocol {
        FilterProtocol::Link => true,
        // LLC protocols and AARP have several encapsulations, so the position of their headers is
        // not known.
        FilterProtocol::Ether(kind) => kind > 1500 && kind != names::AARP,
        // AH and ESP may be anywhere in a chain of headers.
        FilterProtocol::Transport { number, .. } => !matches!(number, names::AH | names::ESP),
    }
}

impl Expr {
    /// Joins two expressions. A chain of equal operators becomes one node. The order of the parts
    /// stays the same, because `vlan`, `mpls` and `pppoes` change the offsets of the tests after
    /// them.
    pub(crate) fn join(op: BoolOp, left: Self, right: Self) -> Self {
        let mut parts = left.into_parts(op);
        parts.extend(right.into_parts(op));
        match op {
            BoolOp::And => Self::And(parts),
            BoolOp::Or => Self::Or(parts),
        }
    }

    fn into_parts(self, op: BoolOp) -> Vec<Self> {
        match (op, self) {
            (BoolOp::And, Self::And(parts)) | (BoolOp::Or, Self::Or(parts)) => parts,
            (_, other) => vec![other],
        }
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.expr.as_ref().map_or(Ok(()), |expr| expr.fmt(f))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(primitive) => primitive.fmt(f),
            Self::Not(inner) => {
                f.write_str("not ")?;
                inner.fmt_part(f)
            }
            Self::And(parts) => fmt_chain(f, parts, " and "),
            Self::Or(parts) => fmt_chain(f, parts, " or "),
        }
    }
}

impl Expr {
    fn fmt_part(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(_) | Self::Not(_) => self.fmt(f),
            Self::And(_) | Self::Or(_) => write!(f, "({self})"),
        }
    }
}

fn fmt_chain(f: &mut Formatter<'_>, parts: &[Expr], separator: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        part.fmt_part(f)?;
    }
    Ok(())
}

impl Display for Primitive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::EtherProto(number) => write!(f, "ether proto {number:#x}"),
            Self::IpProto { layer, number } => write!(f, "{layer}proto {number}"),
            Self::Mac { direction, address } => {
                let [a, b, c, d, e, g] = address;
                write!(f, "ether {direction}host {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::Net4 { ip_carrier: carrier, direction, address, mask } => {
                let address = Ipv4Addr::from(*address);
                write!(f, "{carrier}{direction}")?;
                match *mask {
                    u32::MAX => write!(f, "host {address}"),
                    mask => write!(f, "net {address} mask {}", Ipv4Addr::from(mask)),
                }
            }
            Self::Net6 { direction, address, prefix_len } => {
                write!(f, "{direction}net {address}/{prefix_len}")
            }
            Self::Ports { transport, direction, low, high } => {
                write!(f, "{transport}{direction}portrange {low}-{high}")
            }
            Self::EtherBroadcast => f.write_str("ether broadcast"),
            Self::EtherMulticast => f.write_str("ether multicast"),
            Self::IpMulticast => f.write_str("ip multicast"),
            Self::Ip6Multicast => f.write_str("ip6 multicast"),
            Self::Vlan(id) => fmt_tag(f, "vlan", *id),
            Self::Mpls(label) => fmt_tag(f, "mpls", *label),
            Self::Pppoes(session) => fmt_tag(f, "pppoes", *session),
            Self::Relation(Relation { op, left, right }) => write!(f, "{left} {op} {right}"),
        }
    }
}

fn fmt_tag<N: Display>(f: &mut Formatter<'_>, keyword: &str, number: Option<N>) -> fmt::Result {
    match number {
        Some(number) => write!(f, "{keyword} {number}"),
        None => f.write_str(keyword),
    }
}

impl Display for Arith {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.fmt_operand(f, 0, true)
    }
}

impl Arith {
    /// Prints an operand that the parser reads with this minimum power, without parentheses unless
    /// it needs them: so the text is not nested deeper than the one that was parsed. `is_last` says
    /// whether the operand ends the expression. Otherwise, an operator whose right operand is the
    /// entire rest needs parentheses.
    fn fmt_operand(&self, f: &mut Formatter<'_>, min_power: u8, is_last: bool) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Len => f.write_str("len"),
            Self::Load { base, index, size } => {
                let bytes = size.bytes();
                write!(f, "{base}[{index}:{bytes}]")
            }
            Self::Neg(_) if min_power > UNARY_POWER => write!(f, "({self})"),
            Self::Neg(inner) => {
                f.write_str("-")?;
                inner.fmt_operand(f, UNARY_POWER, is_last)
            }
            Self::Binary(op, left, right) => {
                let (power, right_power) = op.binding_power();
                if power < min_power || right_power == 0 && !is_last {
                    return write!(f, "({self})");
                }
                left.fmt_operand(f, power, false)?;
                write!(f, " {op} ")?;
                right.fmt_operand(f, right_power, is_last)
            }
        }
    }
}

impl Display for FilterProtocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (names::keyword(*self), self) {
            (Some(name), _) => f.write_str(name),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

impl FieldSize {
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// Implements `Display` with these texts: for a qualifier, its keyword and a space, or nothing for
/// the default; for an operator, its sign.
macro_rules! prints_as {
    ($type:ty { $($variant:ident => $text:literal),* $(,)? }) => {
        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text),* })
            }
        }
    };
}

prints_as!(IpLayer { Any => "", Ip => "ip ", Ip6 => "ip6 " });
prints_as!(AddressDirection { Either => "", Both => "src and dst ", Src => "src ", Dst => "dst " });
prints_as!(AddressCarrier { Any => "", Ip => "ip ", Arp => "arp ", Rarp => "rarp " });
prints_as!(Transport { Any => "", Tcp => "tcp ", Udp => "udp ", Sctp => "sctp " });
prints_as!(RelationOp { Eq => "=", Ne => "!=", Gt => ">", Ge => ">=", Lt => "<", Le => "<=" });
prints_as!(BinaryOp {
    Add => "+", Sub => "-", Mul => "*", Div => "/", Mod => "%",
    And => "&", Or => "|", Xor => "^", Shl => "<<", Shr => ">>",
});
