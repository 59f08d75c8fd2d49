//! One rule: what it matches and what it does.
//!
//! The parser produces these types and the printer writes them; `parse(print(rule)) == rule`. They
//! hold names, not indexes, so that a rule means the same in every engine.
//!
//! Not for the counters and the identity of a rule in a list (see [`crate::run`]).

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

/// Number of a rule; several rules may share one.
pub type RuleNumber = u16;

/// The number of the rule that ends every list.
pub const DEFAULT_RULE: RuleNumber = 65535;
/// The set of the default rule. A `flush` without a set spares all rules of this set.
pub const RESERVED_SET: u8 = 31;
/// Number of sets.
pub const NUM_SETS: u8 = 32;

/// A rule without its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The set that the rule belongs to, 0..=31.
    pub set: u8,
    /// `prob`: the probability that the rule is tested at all; `None` means always.
    pub chance: Option<Probability>,
    /// The action on a match.
    pub action: RuleAction,
    /// Whether and how often a match is logged; `None` means never.
    pub log: Option<RuleLog>,
    /// Tags set and removed on a match, in order.
    pub tags: Vec<TagChange>,
    /// The conditions on the packet.
    pub body: RuleBody,
    /// The state that a match creates; `None` if it creates none.
    pub keep: Option<KeepState>,
    /// Whether a match creates the state of `keep` without running the action; has no effect if
    /// `keep` is `None`.
    pub defer: bool,
    /// The text after `//`; `None` if there is no comment.
    pub comment: Option<String>,
}

/// A probability with the 31 bits of precision that ipfw has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u32);

impl Probability {
    const SCALE: u32 = 0x7fff_ffff;

    /// The probability `p`; `None` unless `0 <= p < 1`.
    #[must_use]
    pub fn from_f64(p: f64) -> Option<Self> {
        (0.0..1.0).contains(&p).then_some(Self((p * f64::from(Self::SCALE)) as u32))
    }

    /// Returns whether the probability is 0, so that no draw succeeds.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }

    /// The probability as a floating-point number, from 0 to 1.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::SCALE)
    }

    /// The shortest decimal that parses to this probability.
    #[must_use]
    pub fn to_decimal(self) -> String {
        decimal::shortest(self.to_f64(), |p| Self::from_f64(p) == Some(self))
    }

    /// Returns whether a draw of 64 random bits succeeds.
    #[inline]
    #[must_use]
    pub const fn admits(self, draw: u64) -> bool {
        ((draw >> 33) as u32) < self.0
    }
}

/// The conditions on a packet: every clause must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBody {
    /// `PROTO from SRC to DST`; `None` if the body has only options.
    pub head: Option<RuleHead>,
    /// The options, in order.
    pub options: Vec<Clause>,
}

/// The part of a body before its options. Ports after the destination become the first option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleHead {
    /// Protocols, of which one must match; empty means `ip`.
    pub protocols: Vec<ConditionPattern>,
    /// Source addresses, of which one must match; empty means `any`.
    pub src: Vec<ConditionPattern>,
    /// The source ports; `None` if they are not restricted.
    pub src_ports: Option<ConditionPattern>,
    /// Destination addresses, of which one must match; empty means `any`.
    pub dst: Vec<ConditionPattern>,
}

/// Patterns of which at least one must hold: `{ a or b }`, or a single pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause(pub Vec<ConditionPattern>);

/// A condition or its negation.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionPattern {
    /// Whether the pattern is preceded by `not`.
    pub not: bool,
    /// The condition.
    pub condition: Condition,
}

impl From<Condition> for ConditionPattern {
    fn from(condition: Condition) -> Self {
        Self { not: false, condition }
    }
}

impl RuleBody {
    /// Iterates over all clauses in the order in which they are tested.
    pub fn clauses(&self) -> impl Iterator<Item = &[ConditionPattern]> {
        let head = self.head.iter().flat_map(RuleHead::clauses);
        let options = self.options.iter().map(|clause| clause.0.as_slice());
        head.filter(|clause| !clause.is_empty()).chain(options)
    }

    /// Returns whether `holds` returns `true` for every clause: the same as `clauses().all(holds)`,
    /// but faster.
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

/// The state that a rule creates for the flow of a matching packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepState {
    /// Whether to look for an existing state first: true for `keep-state` and `limit`, false for
    /// `record-state` and `set-limit`.
    pub probe: bool,
    /// `limit`: the fields by which states are counted, and the maximum count; `None` if there is
    /// no limit.
    pub limit: Option<StateLimit>,
    /// The name of the states.
    pub name: ObjectName,
}

/// The maximum number of states at the same time for packets with equal values in some fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLimit {
    /// The fields that must be equal.
    pub fields: LimitFields,
    /// Maximum number of states.
    pub max: Arg,
}

/// The fields of a flow by which `limit` counts states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitFields {
    /// Whether flows are counted separately for each source address.
    pub src_addr: bool,
    /// Whether flows are counted separately for each source port.
    pub src_port: bool,
    /// Whether flows are counted separately for each destination address.
    pub dst_addr: bool,
    /// Whether flows are counted separately for each destination port.
    pub dst_port: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ipfw compares 31 random bits with the probability in units of 2^-31. Exactly as many of the
    /// random values succeed as there are units: those from 0 on.
    #[test]
    fn exactly_as_many_draws_succeed_as_a_probability_has_units() {
        let draw = |value: u64| value << 33 | 0x1_ffff_ffff;
        for units in [1_u32, 2, 1 << 20, Probability::SCALE - 1] {
            let p = f64::from(units) / f64::from(Probability::SCALE);
            let chance = Probability::from_f64(p).unwrap();
            let units = u64::from(chance.0);
            assert!(chance.admits(0) && chance.admits(draw(units - 1)), "{p}");
            assert!(!chance.admits(units << 33) && !chance.admits(u64::MAX), "{p}");
            assert!(!chance.is_never(), "{p}");
        }
        let never = Probability::from_f64(0.0).unwrap();
        assert!(never.is_never() && !never.admits(0));
        assert_eq!((Probability::from_f64(1.0), Probability::from_f64(-0.1)), (None, None));
    }
}
