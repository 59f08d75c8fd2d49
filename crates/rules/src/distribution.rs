//! Distributes flows among packet threads that have rules.

use slipring_balance::OutputSpread;
use slipring_ipfw::rule::{KeepState, RuleAction};
use slipring_ipfw::run::IpfwConfig;
use slipring_wire::assigned::IpProto;
use slipring_wire::flow::{FlowEndpoint, FlowKind};
use slipring_wire::{FlowHasher, FlowKey};

/// Maps each pair of hosts to the thread that checks the frames between them.
#[derive(Clone)]
pub struct FlowDistribution {
    hasher: FlowHasher,
    spread: OutputSpread,
}

impl FlowDistribution {
    /// Creates a distribution over `threads` threads. A sender that does not know `secret` cannot
    /// predict the thread of a frame.
    #[must_use]
    pub fn new(secret: [u64; 2], threads: u16) -> Self {
        let hasher = FlowHasher::new(secret).symmetric();
        Self { hasher, spread: OutputSpread::even(threads) }
    }

    /// Returns the index of the thread that must check a frame.
    #[must_use]
    pub fn thread_of(&self, frame: &[u8]) -> usize {
        self.thread_by(self.hasher.hash(&host_pair_key(frame)))
    }

    /// Returns the index of the thread for a hash of a frame's hosts.
    #[must_use]
    pub fn thread_by(&self, hash: u64) -> usize {
        self.spread.output(hash)
    }
}

/// Returns a key that is the same for all frames between two hosts.
fn host_pair_key(frame: &[u8]) -> FlowKey {
    let key = FlowKey::of(frame);
    let host = |end: FlowEndpoint| FlowEndpoint { port: 0, ..end };
    let any = IpProto(0);
    let kind = match key.kind {
        FlowKind::V4(_) => FlowKind::V4(any),
        FlowKind::V6(_) => FlowKind::V6(any),
        link @ FlowKind::Link(_) => link,
    };
    FlowKey { kind, vlans: 0, src: host(key.src), dst: host(key.dst) }
}

/// Returns why flows cannot be distributed over several threads with these rules; `None` if they
/// can. A rule needs a single thread if all flows must share its counts or translations.
#[must_use]
pub fn distribution_obstacle(config: &IpfwConfig) -> Option<String> {
    config.list.iter().find_map(|(entry, _)| {
        let rule = &entry.rule;
        let what = match (&rule.action, &rule.keep) {
            (RuleAction::Nat(_), _) => "nat",
            (RuleAction::Nptv6(_), _) => "nptv6",
            (_, Some(keep)) if counts_across_flows(keep) => "limit by less than both addresses",
            _ => return None,
        };
        Some(format!(
            "rule {}: {what} needs all frames in one thread: run slipring firewall without --threads",
            entry.number
        ))
    })
}

fn counts_across_flows(keep: &KeepState) -> bool {
    keep.limit.is_some_and(|limit| !(limit.fields.src_addr && limit.fields.dst_addr))
}
