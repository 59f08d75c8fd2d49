//! Decides whether frames are also checked on output.

use slipring_ipfw::rule::{Condition, RuleAction};
use slipring_ipfw::run::IpfwConfig;

/// Returns whether the result of any enabled rule depends on the packet's direction (in or out).
/// This includes translators, which translate the source in one direction and the destination in
/// the other.
#[must_use]
pub fn asks_directions(config: &IpfwConfig) -> bool {
    let rules = config.list.iter().map(|(entry, _)| &entry.rule);
    let mut run = rules.filter(|rule| config.is_enabled(rule.set));
    run.any(|rule| {
        use Condition::{In, Out, Via, Xmit};
        let mut patterns = rule.body.clauses().flatten();
        matches!(rule.action, RuleAction::Nat(_) | RuleAction::Nptv6(_))
            || patterns.any(|pattern| matches!(pattern.condition, In | Out | Via(_) | Xmit(_)))
    })
}
