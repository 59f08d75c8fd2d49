//! One rule: what it matches, what it does.
//!
//! These types are what the grammar reads and the printer writes; `parse(print(rule)) == rule`.
//! They hold names, not indexes, so that a rule means the same in every engine.
//!
//! Not for: counters and identity of a rule in a list (see [`crate::run`]).

mod action;
mod address;
mod condition;
mod name;

use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::decimal;

pub use action::{
    Arg, LogDestination, NatRef, NextHop, ReturnTo, RuleAction, RuleLog, TagChange, TagOp, Unreach,
};
pub use address::{AddressPattern, HostSet, TableTest, V4Mask, V6Mask, ValueTest};
pub use condition::{
    BitTest, Condition, HeaderField, InterfacePattern, Ipv6Extension, LookupKey, LookupMask,
    MacMask, Ranges,
};
pub use name::{ObjectName, ObjectNameError};

/// Number of a rule; many rules may share one.
pub type RuleNumber = u16;

/// The number of the rule that ends every list.
pub const DEFAULT_RULE: RuleNumber = 65535;
/// The set of the default rule, which `flush` spares.
pub const RESERVED_SET: u8 = 31;
/// How many sets there are.
pub const NUM_SETS: u8 = 32;

/// A rule without its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The set it belongs to, 0..=31.
    pub set: u8,
    /// Drawn before anything else; `None` is always.
    pub chance: Option<Probability>,
    /// What happens on a match.
    pub action: RuleAction,
    /// Whether and how much a match is logged.
    pub log: Option<RuleLog>,
    /// Tags set and removed on a match, in order.
    pub tags: Vec<TagChange>,
    /// What a packet must look like.
    pub body: RuleBody,
    /// The state that a match makes.
    pub keep: Option<KeepState>,
    /// A match that makes a state does not run the action.
    pub defer: bool,
    /// The text behind `//`.
    pub comment: Option<String>,
}

/// A probability in the 31 bits that ipfw keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u32);

impl Probability {
    const SCALE: u32 = 0x7fff_ffff;

    /// The probability `p`; `None` unless `0 <= p < 1`.
    #[must_use]
    pub fn from_f64(p: f64) -> Option<Self> {
        (0.0..1.0).contains(&p).then_some(Self((p * f64::from(Self::SCALE)) as u32))
    }

    /// Whether no draw is a yes.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }

    /// The probability as it is kept.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::SCALE)
    }

    /// The shortest decimal that is read as this probability.
    #[must_use]
    pub fn to_decimal(self) -> String {
        decimal::shortest(self.to_f64(), |p| Self::from_f64(p) == Some(self))
    }

    /// Whether a draw of 64 random bits is a yes.
    #[inline]
    #[must_use]
    pub const fn admits(self, draw: u64) -> bool {
        ((draw >> 33) as u32) < self.0
    }
}

/// What a packet must look like: every clause must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBody {
    /// `PROTO from SRC to DST`, or `None` for a body of options only.
    pub head: Option<RuleHead>,
    /// The options, in order.
    pub options: Vec<Clause>,
}

/// The part of a body before its options. Ports behind the destination are the first option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleHead {
    /// Protocols, any of them; empty is `ip`.
    pub protocols: Vec<ConditionPattern>,
    /// Source addresses, any of them; empty is `any`.
    pub src: Vec<ConditionPattern>,
    /// Source ports, if they stand there and matter.
    pub src_ports: Option<ConditionPattern>,
    /// Destination addresses, any of them; empty is `any`.
    pub dst: Vec<ConditionPattern>,
}

/// Patterns of which one must hold: `{ a or b }`, or a single one.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause(pub Vec<ConditionPattern>);

/// A condition or its opposite.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionPattern {
    /// `not` stood before it.
    pub not: bool,
    /// What is asked.
    pub condition: Condition,
}

impl From<Condition> for ConditionPattern {
    fn from(condition: Condition) -> Self {
        Self { not: false, condition }
    }
}

impl RuleBody {
    /// All clauses in the order in which they are asked.
    pub fn clauses(&self) -> impl Iterator<Item = &[ConditionPattern]> {
        let head = self.head.iter().flat_map(RuleHead::clauses);
        let options = self.options.iter().map(|clause| clause.0.as_slice());
        head.filter(|clause| !clause.is_empty()).chain(options)
    }

    /// Whether `holds` says yes to every clause; the same as `clauses().all(holds)`, and faster.
    #[inline]
    pub fn all_clauses(&self, mut holds: impl FnMut(&[ConditionPattern]) -> bool) -> bool {
        if let Some(head) = &self.head {
            for clause in head.clauses() {
                if !clause.is_empty() && !holds(clause) {
                    return false;
                }
            }
        }
        self.options.iter().all(|clause| holds(&clause.0))
    }
}

impl RuleHead {
    fn clauses(&self) -> [&[ConditionPattern]; 4] {
        [&self.protocols, &self.src, self.src_ports.as_slice(), &self.dst]
    }
}

/// The state that a rule makes for the flow of a packet that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepState {
    /// `keep-state` and `limit` look for a state first; `record-state` and `set-limit` do not.
    pub probe: bool,
    /// `limit`: which fields tell the flows apart that are counted together, and how many.
    pub limit: Option<StateLimit>,
    /// The name of the states.
    pub name: ObjectName,
}

/// How many states may exist at once for packets that agree in some fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLimit {
    /// The fields that must agree.
    pub fields: LimitFields,
    /// How many.
    pub max: Arg,
}

/// Fields of a flow that `limit` counts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitFields {
    /// Source address.
    pub src_addr: bool,
    /// Source port.
    pub src_port: bool,
    /// Destination address.
    pub dst_addr: bool,
    /// Destination port.
    pub dst_port: bool,
}
