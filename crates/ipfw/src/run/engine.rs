use core::net::IpAddr;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::check_buffers::CheckBuffers;
use super::compiled::CompiledRules;
use super::config::{IpfwConfig, PortIndex};
use super::interpret::{DenyReason, RuleVerdict};
use super::list::RuleList;
use super::reassembly::{FragmentCounters, Reassembly};
use super::reply::{CheckOutputs, EmissionTarget, EmittedFrame, RunResources};
use super::restored_states::RestoredStates;
use super::settings::IpfwSettings;
use super::translate::Translators;
use super::translations::Translations;
use crate::packet::MalformedCounters;
use crate::rule::RuleAction;
use crate::state::StateTable;
use crate::table::Tables;
use crate::text::StateCommand;

/// A firewall: rules, tables, states and counters.
///
/// ```
/// use slipring_ipfw::run::{PacketMetadata, Firewall, CheckOutputs, RuleVerdict};
///
/// let mut firewall = Firewall::new(7, [1, 2]);
/// firewall.load("add 100 deny udp from any to any 53\nadd 200 allow ip from any to any", 0)?;
/// let mut frame = slipring_wire::FrameSpec::default().build(64)?.bytes.to_vec();
/// let (mut crossing, mut outputs) = (PacketMetadata::incoming(0), CheckOutputs::default());
/// assert_eq!(firewall.check(&mut frame, &mut crossing, 0, &mut outputs), RuleVerdict::Accept);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Firewall {
    pub(super) config: IpfwConfig,
    pub(super) states: StateTable,
    pub(super) resources: RunResources,
    pub(super) malformed: MalformedCounters,
    pub(super) drops: CheckCounters,
    pub(super) reassembly: Reassembly,
    pub(super) translators: Translators,
    pub(super) epoch_ns: u64,
    /// The ids of rules that commands have removed, whose states may still exist.
    pub(super) removed_rules: Vec<u64>,
    /// `state` commands that wait until all rules of their file are loaded.
    pub(super) pending_states: Vec<StateCommand>,
    pub(super) restored: RestoredStates,
    /// The compiled list; `None` for the plain interpreter.
    pub(super) program: Option<Arc<CompiledRules>>,
    plain: bool,
    pub(super) buffers: CheckBuffers,
}

/// Packets by outcome. `checked` is equal to the sum of all other counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounters {
    /// Packets checked.
    pub checked: u64,
    /// Accepted packets.
    pub accepted: u64,
    /// Packets sent to another next hop or port by `fwd`.
    pub forwarded: u64,
    /// Packets passed to pipes and queues, and fragments that the reassembly kept or discarded.
    pub handed_over: u64,
    /// Packets dropped by a rule.
    pub by_rule: u64,
    /// Packets dropped as malformed.
    pub malformed: u64,
    /// Packets dropped because the state table was full.
    pub states_full: u64,
    /// Packets dropped by the `limit` of a rule.
    pub state_limit: u64,
    /// Packets dropped because their calls were too deep or too many, or because their flow was
    /// changed too often.
    pub calls: u64,
    /// Packets dropped because a table had no number for a pipe or queue.
    pub no_number: u64,
    /// Packets dropped because `nat` or `nptv6` could not translate them or refused them.
    pub translation: u64,
}

impl Firewall {
    /// Builds a firewall with only the default rule, which denies.
    ///
    /// The decisions of `prob` derive from `seed`, which may be made public. Values that a remote
    /// sender must not predict derive from `secret`: the keys of all hashes, and the ports that
    /// `nat` chooses.
    #[must_use]
    pub fn new(seed: u64, secret: [u64; 2]) -> Self {
        let mut firewall = Self {
            config: IpfwConfig {
                list: RuleList::new(RuleAction::Deny),
                tables: Tables::new(secret),
                disabled_sets: 0,
                settings: IpfwSettings::default(),
                translations: Translations::default(),
                ports: Vec::new(),
                me: Vec::new(),
            },
            states: StateTable::new(secret),
            resources: RunResources::new(seed, secret[0]),
            malformed: MalformedCounters::default(),
            drops: CheckCounters::default(),
            reassembly: Reassembly::default(),
            translators: Translators::new(secret),
            epoch_ns: 0,
            removed_rules: Vec::new(),
            pending_states: Vec::new(),
            restored: RestoredStates::default(),
            program: None,
            plain: false,
            buffers: CheckBuffers::default(),
        };
        firewall.compile();
        firewall
    }

    /// Like [`Self::new`], but the default rule allows packets, as in netmap-ipfw.
    #[must_use]
    pub fn open(seed: u64, secret: [u64; 2]) -> Self {
        let mut firewall = Self::new(seed, secret);
        firewall.config.list = RuleList::new(RuleAction::Allow);
        firewall.compile();
        firewall
    }

    /// Names the ports; the index of a name is its [`PortIndex`].
    pub fn set_ports(&mut self, names: Vec<String>) {
        self.config.ports = names;
        self.translators.settle(&self.config);
        self.compile();
    }

    /// Sets the addresses of `me`, each with the port that has it, which `nat … if PORT` needs.
    pub fn set_me(&mut self, addresses: Vec<(IpAddr, Option<PortIndex>)>) {
        self.config.me = addresses;
        self.translators.settle(&self.config);
        self.compile();
    }

    /// Selects the plain interpreter if `plain` is true, otherwise [`CompiledRules`]. Both give the
    /// same results.
    pub fn set_plain(&mut self, plain: bool) {
        self.plain = plain;
        self.compile();
    }

    /// The compiled rules; `None` if the plain interpreter is used.
    #[must_use]
    pub fn program(&self) -> Option<&CompiledRules> {
        self.program.as_deref()
    }

    /// Compiles the rules, after a change on which the compiled rules depend.
    pub(super) fn compile(&mut self) {
        self.buffers.finders.clear();
        self.program = (!self.plain).then(|| Arc::new(CompiledRules::compile(&self.config)));
    }

    /// Sets the start of the engine's clock, in nanoseconds since 1970, for listings and
    /// for saved states.
    pub fn set_epoch_ns(&mut self, epoch_ns: u64) {
        self.epoch_ns = epoch_ns;
    }

    /// Rules, tables, sets and settings.
    #[must_use]
    pub const fn config(&self) -> &IpfwConfig {
        &self.config
    }

    /// Returns the table of states.
    #[must_use]
    pub const fn states(&self) -> &StateTable {
        &self.states
    }

    /// Returns the counts of malformed frames by reason.
    #[must_use]
    pub const fn malformed(&self) -> &MalformedCounters {
        &self.malformed
    }

    /// Returns the counts of fragments that reached a `reass` rule, by outcome.
    #[must_use]
    pub const fn fragments(&self) -> &FragmentCounters {
        self.reassembly.counters()
    }

    /// Number of ICMP errors that were not sent because of the rate limits.
    #[must_use]
    pub const fn suppressed_errors(&self) -> u64 {
        self.resources.errors.suppressed()
    }

    /// Number of fragments that wait for other fragments of their packet.
    #[must_use]
    pub fn fragments_held(&self) -> usize {
        self.reassembly.held()
    }

    /// Returns the counts of packets by outcome.
    #[must_use]
    pub const fn drops(&self) -> &CheckCounters {
        &self.drops
    }

    /// Returns whether a packet that leaves a pipe or queue must be checked again, with the
    /// metadata that it had on entry. The check continues after the rule that sent the packet
    /// there.
    #[must_use]
    pub const fn continues_after_shaper(&self) -> bool {
        !self.config.settings.one_pass
    }

    /// Removes expired states, expired `nat` flows and late fragments, and adds to `outputs` the
    /// keepalives that are due.
    pub fn tick(&mut self, now_ns: u64, outputs: &mut CheckOutputs) {
        self.reassembly.forget_late(now_ns);
        self.translators.tick(now_ns);
        self.states.tick(now_ns, &mut |keepalive, port, _| {
            let toward = match (port, keepalive.to_source) {
                (Some(port), true) => EmissionTarget::Port(port),
                (Some(port), false) => EmissionTarget::From(port),
                (None, _) => EmissionTarget::All,
            };
            outputs.frames.push(EmittedFrame { target: toward, frame: keepalive.frame });
        });
    }

    /// Time at which [`Self::tick`] must be called next, in ns; `None` if no state, no `nat` flow
    /// and no waiting fragment needs a call.
    #[must_use]
    pub fn next_tick_ns(&self) -> Option<u64> {
        let (states, flows) = (self.states.next_wake_ns(), self.translators.next_tick_ns());
        states.into_iter().chain(flows).chain(self.reassembly.next_expiry_ns()).min()
    }
}

impl CheckCounters {
    pub(super) fn count(&mut self, verdict: &RuleVerdict) {
        self.checked += 1;
        let counter = match verdict {
            RuleVerdict::Accept => &mut self.accepted,
            RuleVerdict::Forward(_) => &mut self.forwarded,
            RuleVerdict::Pipe(_)
            | RuleVerdict::Queue(_)
            | RuleVerdict::Nat(_)
            | RuleVerdict::Nptv6(_)
            | RuleVerdict::Held => &mut self.handed_over,
            RuleVerdict::Deny(DenyReason::Rule) | RuleVerdict::Reject(_) => &mut self.by_rule,
            RuleVerdict::Deny(DenyReason::Malformed(_)) => &mut self.malformed,
            RuleVerdict::Deny(DenyReason::StatesFull) => &mut self.states_full,
            RuleVerdict::Deny(DenyReason::StateLimit) => &mut self.state_limit,
            RuleVerdict::Deny(DenyReason::CallDepth | DenyReason::CallLoop) => &mut self.calls,
            RuleVerdict::Deny(DenyReason::NoNumber) => &mut self.no_number,
            RuleVerdict::Deny(DenyReason::Translation) => &mut self.translation,
        };
        *counter += 1;
    }
}
