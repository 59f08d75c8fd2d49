//! Distributes flows among packet threads that have rules.

use slipring_balance::OutputSpread;
use slipring_ipfw::rule::{KeepState, Rule, RuleAction};
use slipring_ipfw::run::IpfwConfig;
use slipring_wire::assigned::{EtherType, IpProto};
use slipring_wire::flow::{FlowEndpoint, FlowKind};
use slipring_wire::{FlowHasher, FlowKey};

/// Offset of the EtherType in a frame without tags, in bytes.
const ETHERTYPE_AT: usize = 12;
const TAG_LEN: usize = 4;
/// Maximum number of VLAN tags before an IP packet: two, and a priority tag.
const MAX_TAGS: usize = 3;

/// Maps each pair of hosts to the thread that checks the frames between them.
#[derive(Clone)]
pub struct FlowDistribution {
    hasher: FlowHasher,
    spread: OutputSpread,
}

impl FlowDistribution {
    /// Creates a distribution over `threads` threads. `secret` prevents senders from predicting the
    /// thread of a frame.
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

/// Returns a key that is the same for all frames from one host to another. For IP, the key depends
/// only on the addresses. Other headers, which may be malformed or unsupported, have no effect.
fn host_pair_key(frame: &[u8]) -> FlowKey {
    let key = ip_addresses(frame).unwrap_or_else(|| FlowKey::of(frame));
    let host = |end: FlowEndpoint| FlowEndpoint { port: 0, ..end };
    let any = IpProto(0);
    let kind = match key.kind {
        FlowKind::V4(_) => FlowKind::V4(any),
        FlowKind::V6(_) => FlowKind::V6(any),
        link @ FlowKind::Link(_) => link,
    };
    FlowKey { kind, vlans: 0, src: host(key.src), dst: host(key.dst) }
}

/// Returns the addresses of an IP packet as a key; `None` if the frame has none.
fn ip_addresses(frame: &[u8]) -> Option<FlowKey> {
    let mut at = ETHERTYPE_AT;
    let mut ethertype = EtherType(u16::from_be_bytes(field(frame, at)?));
    for _ in 0..MAX_TAGS {
        if ethertype.is_vlan() {
            at += TAG_LEN;
            ethertype = EtherType(u16::from_be_bytes(field(frame, at)?));
        }
    }
    let packet = at + 2;
    let end = |address| FlowEndpoint { address, port: 0 };
    let (kind, src, dst) = match ethertype {
        EtherType::IPV4 => {
            let address = |at| field(frame, packet + at).map(u32::from_be_bytes).map(u128::from);
            (FlowKind::V4(IpProto(0)), address(12)?, address(16)?)
        }
        EtherType::IPV6 => {
            let address = |at| field(frame, packet + at).map(u128::from_be_bytes);
            (FlowKind::V6(IpProto(0)), address(8)?, address(24)?)
        }
        _ => return None,
    };
    Some(FlowKey { kind, vlans: 0, src: end(src), dst: end(dst) })
}

fn field<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

/// Which thread of a router must check a frame. Frames that share a state, a count, a translation
/// or a pipe must all be checked by the same thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// The thread that has received a frame checks it, because no packet depends on an earlier one.
    #[default]
    Anywhere,
    /// A frame's two addresses determine the thread that checks it. This suffices because states
    /// and fragments concern only these two hosts.
    ByHosts,
    /// The first thread checks all frames, because all hosts share the translations, pipes and
    /// limits.
    First,
}

impl Steering {
    /// Returns the steering that these rules need. Rules of disabled sets count, because their
    /// states can still be hit.
    #[must_use]
    pub fn of(config: &IpfwConfig) -> Self {
        let needs = config.list.iter().map(|(entry, _)| Self::of_rule(&entry.rule));
        needs.max_by_key(|steering| *steering as u8).unwrap_or_default()
    }

    fn of_rule(rule: &Rule) -> Self {
        use RuleAction::{CheckState, Nat, Nptv6, Pipe, Queue, Reass};
        match (&rule.action, &rule.keep) {
            (Nat(_) | Nptv6(_) | Pipe(_) | Queue(_), _) => Self::First,
            (_, Some(keep)) if counts_across_flows(keep) => Self::First,
            (CheckState(_) | Reass, _) | (_, Some(_)) => Self::ByHosts,
            _ => Self::Anywhere,
        }
    }

    /// Returns the index of the thread that must check a frame; `None` if any thread may check it.
    /// This includes frames that are not IP, because a router does not check them by rules.
    #[must_use]
    pub fn thread_of(self, frame: &[u8], distribution: &FlowDistribution) -> Option<usize> {
        if self == Self::Anywhere {
            return None;
        }
        let hosts = ip_addresses(frame)?;
        match self {
            Self::ByHosts => Some(distribution.thread_by(distribution.hasher.hash(&hosts))),
            Self::First | Self::Anywhere => Some(0),
        }
    }
}

/// Returns why flows cannot be distributed over several threads with these rules; `None` if they
/// can. A rule needs a single thread if flows between different hosts share its translations or the
/// count of its `limit`.
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

#[cfg(test)]
mod tests;
