//! Whether frames are to be checked on their way out as well.

use slipring_ipfw::rule::{Condition, RuleAction};
use slipring_ipfw::run::IpfwConfig;

/// Whether some rule that is run tells directions apart. Translators do: one way the source is
/// translated, the other way the destination.
pub(super) fn asks_directions(config: &IpfwConfig) -> bool {
    let rules = config.list.iter().map(|(entry, _)| &entry.rule);
    let mut run = rules.filter(|rule| config.is_enabled(rule.set));
    run.any(|rule| {
        use Condition::{In, Out, Via, Xmit};
        let mut patterns = rule.body.clauses().flatten();
        matches!(rule.action, RuleAction::Nat(_) | RuleAction::Nptv6(_))
            || patterns.any(|pattern| matches!(pattern.condition, In | Out | Via(_) | Xmit(_)))
    })
}
