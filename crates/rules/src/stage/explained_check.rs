//! One check of a packet that is explained.

use slipring_ipfw::run::{
    CheckOutputs, CheckPass, Firewall, PacketMetadata, RuleTrace, RuleVerdict,
};

/// What the rules have decided about a packet in one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedCheck {
    /// Whether this is the check on input or on output.
    pub pass: CheckPass,
    /// The rules that the packet has met, in order.
    pub rules: Vec<RuleTrace>,
    /// The verdict.
    pub verdict: RuleVerdict,
}

/// Checks a packet rule by rule, records the rules that it meets, and returns the verdict.
pub(super) fn check(
    firewall: &mut Firewall,
    checks: &mut Vec<ExplainedCheck>,
    frame: &mut [u8],
    crossing: &mut PacketMetadata,
    now_ns: u64,
    outputs: &mut CheckOutputs,
) -> RuleVerdict {
    let pass = crossing.pass;
    let (rules, verdict) = firewall.explain(frame, crossing, now_ns, outputs);
    checks.push(ExplainedCheck { pass, rules, verdict: verdict.clone() });
    verdict
}
