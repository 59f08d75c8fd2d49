//! A ruleset that one firewall parses and compiles, and other firewalls use to check packets.
//!
//! ```text
//!   commands --> Firewall (plain, sees no packet) --ruleset--> Ruleset
//!                     ^ show_counters                             | adopt: whole, between packets
//!                     '--------------- counters ---- Firewall <---'
//! ```
//!
//! Compiling ten thousand rules takes long. Adopting compiled rules is fast: it only copies the
//! counters of each rule, and updates the translators and the states of removed rules. So packet
//! checks never wait for the parsing and compiling of commands.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::compiled::CompiledRules;
use super::config::IpfwConfig;
use super::engine::Firewall;
use super::list::RuleCounters;
use super::translate::Translators;
use crate::rule::DEFAULT_RULE;
use crate::state::{StateLifetimes, StateSnapshot, StateTable};

/// What commands change in a firewall, apart from states and translated flows. The rules are
/// compiled, unless the value is from [`Firewall::before`].
#[derive(Clone, Debug)]
pub struct Ruleset {
    config: IpfwConfig,
    program: Option<Arc<CompiledRules>>,
    lifetimes: StateLifetimes,
    max: u32,
    keepalive: bool,
}

/// States and translated flows: the verdict on a packet depends on them as much as on the rules.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    states: StateTable,
    translators: Translators,
}

impl Ruleset {
    /// Rules, tables, sets and settings.
    #[must_use]
    pub const fn config(&self) -> &IpfwConfig {
        &self.config
    }

    /// Builds a separate firewall from the ruleset, to try changes on.
    #[must_use]
    pub fn into_firewall(self) -> Firewall {
        let mut firewall = Firewall::new(0, [0; 2]);
        firewall.set_plain(true);
        firewall.undo(self);
        firewall
    }

    /// Returns the ruleset for one of `firewalls` firewalls among which the flows are distributed.
    /// The maximum number of states is divided among them.
    #[must_use]
    pub fn shared_among(mut self, firewalls: u32) -> Self {
        self.max = self.max.div_ceil(firewalls.max(1));
        self
    }
}

impl Firewall {
    /// Returns the ruleset after the commands so far, compiled for other firewalls to adopt.
    #[must_use]
    pub fn ruleset(&self) -> Ruleset {
        let program = Some(Arc::new(CompiledRules::compile(&self.config)));
        Ruleset { program, ..self.before() }
    }

    /// Returns the ruleset without compiled rules. It serves to undo a change, or to give new
    /// tables and translators to firewalls that have the same rules.
    #[must_use]
    pub fn before(&self) -> Ruleset {
        Ruleset {
            config: self.config.clone(),
            program: None,
            lifetimes: self.states.lifetimes,
            max: self.states.max,
            keepalive: self.states.keepalive,
        }
    }

    /// Takes over rules that were compiled elsewhere. Rules that exist in both rulesets keep their
    /// counters; the states of removed rules are removed, or moved to the default rule. If
    /// `ruleset` has no compiled rules, the present ones stay. `ruleset` receives the old
    /// configuration and rules, so that the caller can drop them outside the packet path.
    pub fn adopt(&mut self, ruleset: &mut Ruleset) {
        let old = &self.config.list;
        let counters =
            |id| old.position(id).map_or_else(RuleCounters::default, |at| old.counters[at]);
        let counters: Vec<_> =
            ruleset.config.list.entries.iter().map(|entry| counters(entry.id)).collect();
        ruleset.config.list.counters = counters;
        core::mem::swap(&mut self.config, &mut ruleset.config);
        if ruleset.program.is_some() {
            core::mem::swap(&mut self.program, &mut ruleset.program);
            self.buffers.finders.clear();
        }
        (self.states.lifetimes, self.states.max, self.states.keepalive) =
            (ruleset.lifetimes, ruleset.max, ruleset.keepalive);
        self.translators.settle(&self.config);
        self.forget_states_of(&ruleset.config);
    }

    /// Removes the states of rules that only `old` has, or moves them to the default rule.
    fn forget_states_of(&mut self, old: &IpfwConfig) {
        let list = &self.config.list;
        let went = old.list.entries.iter().any(|entry| list.position(entry.id).is_none());
        if !went || self.states.is_empty() {
            return;
        }
        if self.config.settings.dyn_keep_states {
            self.states.adopt(|state| list.position(state.rule).is_none(), 0, DEFAULT_RULE);
        } else {
            self.states.remove_where(|state| list.position(state.rule).is_none());
        }
    }

    /// Restores the configuration that [`Self::before`] returned as `before`, and compiles its
    /// rules.
    pub fn undo(&mut self, before: Ruleset) {
        let Ruleset { config, lifetimes, max, keepalive, .. } = before;
        self.config = config;
        self.translators.settle(&self.config);
        self.compile();
        (self.states.lifetimes, self.states.max, self.states.keepalive) =
            (lifetimes, max, keepalive);
    }

    /// Converts a time of the engine's clock to nanoseconds since 1970.
    #[must_use]
    pub const fn unix_ns(&self, ns: u64) -> u64 {
        self.epoch_ns.saturating_add(ns)
    }

    /// The counters of the rules, in the order of the list.
    #[must_use]
    pub fn counters(&self) -> &[RuleCounters] {
        &self.config.list.counters
    }

    /// Replaces the counters by the sum of the counters of other firewalls, which have the same
    /// list.
    pub fn show_counters(&mut self, of_all: &[Vec<RuleCounters>]) {
        for (at, shown) in self.config.list.counters.iter_mut().enumerate() {
            *shown = RuleCounters::default();
            of_all.iter().filter_map(|counters| counters.get(at)).for_each(|of| shown.add(of));
        }
    }

    /// Copies the states and translated flows.
    #[must_use]
    pub fn flow_snapshot(&self) -> FlowSnapshot {
        FlowSnapshot { states: self.states.clone(), translators: self.translators.clone() }
    }

    /// Replaces the states and translated flows by those of firewalls among which the flows are
    /// distributed. Only the first of these firewalls has translated flows.
    pub fn take_flows(&mut self, known: impl IntoIterator<Item = FlowSnapshot>) {
        let mut known = known.into_iter();
        let Some(first) = known.next() else { return };
        (self.states, self.translators) = (first.states, first.translators);
        for FlowSnapshot { mut states, .. } in known {
            // Each firewall has a part of the maximum number of states, so the parts are added.
            self.states.max = self.states.max.saturating_add(states.max);
            for state in states.take(0) {
                // The maxima have been added, so there is enough space for the states of all
                // firewalls, unless `dyn_max` was lowered below the number of states.
                let _ = self.states.restore(state, 0);
            }
        }
    }

    /// Replaces the states by the states of other firewalls, for listings.
    pub fn show_states(&mut self, of_all: Vec<StateSnapshot>) {
        self.states.show(of_all);
    }
}

impl RuleCounters {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.logged += other.logged;
        self.last_match_ns = self.last_match_ns.max(other.last_match_ns);
    }
}
