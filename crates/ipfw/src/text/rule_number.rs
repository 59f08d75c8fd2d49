//! Numbers of rules and of `nat` instances in commands, and ranges of them.

use super::number;
use crate::rule::{Rule, RuleNumber};

/// A rule to add, and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct AddRule {
    /// The rule's number; `None` appends the rule at the end, before the default rule.
    pub number: Option<RuleNumber>,
    /// The rule.
    pub rule: Rule,
}

/// A range of numbers of rules or `nat` instances, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The lowest number.
    pub first: RuleNumber,
    /// The highest number.
    pub last: RuleNumber,
}

/// Parses a number, or two with a `-` between them; `None` if `item` is neither.
pub(super) fn range(item: &str) -> Option<NumberRange> {
    let read = |text| number::decimal(text).and_then(|number| RuleNumber::try_from(number).ok());
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (first, last) = (read(first)?, read(last)?);
    (first <= last).then_some(NumberRange { first, last })
}
