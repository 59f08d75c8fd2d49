//! Rules that one firewall reads and makes ready, and others check packets by.
//!
//! ```text
//!   commands --> Firewall (plain, sees no packet) --ruleset--> Ruleset
//!                     ^ count                                     | adopt: whole, between packets
//!                     '--------------- counters ---- Firewall <---'
//! ```
//!
//! Making ten thousand rules ready takes long; adopting them takes no longer than finding each
//! rule's counters once. So who checks packets never waits for who reads commands.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::compiled::CompiledRules;
use super::config::IpfwConfig;
use super::engine::Firewall;
use super::list::RuleCounters;
use super::translate::Translators;
use crate::rule::DEFAULT_RULE;
use crate::state::{StateLifetimes, StateSnapshot, StateTable};

/// All that commands change, made ready.
#[derive(Clone, Debug)]
pub struct Ruleset {
    config: IpfwConfig,
    program: Option<Arc<CompiledRules>>,
    lifetimes: StateLifetimes,
    max: u32,
    keepalive: bool,
}

/// States and translated flows: what becomes of a packet hangs on them as on the rules.
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

    /// A firewall of its own that has all this, to try things on.
    #[must_use]
    pub fn into_firewall(self) -> Firewall {
        let mut firewall = Firewall::new(0);
        firewall.set_plain(true);
        firewall.undo(self);
        firewall
    }

    /// The same for one of several firewalls among which the flows are dealt out: each may have
    /// its share of the states.
    #[must_use]
    pub fn shared_among(mut self, firewalls: u32) -> Self {
        self.max = self.max.div_ceil(firewalls.max(1));
        self
    }
}

impl Firewall {
    /// What commands have made of this firewall, ready for others.
    #[must_use]
    pub fn ruleset(&self) -> Ruleset {
        let program = Some(Arc::new(CompiledRules::compile(&self.config)));
        Ruleset { program, ..self.before() }
    }

    /// The same without the rules made ready: for a change to be undone, and for others that have
    /// the same rules and shall have other tables.
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

    /// Takes over rules that were made ready elsewhere; rules that stay keep their counters, states
    /// of rules that went go too. What was is left in `ruleset`, to be dropped where it harms
    /// nobody.
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

    /// States of rules that were in `old` and are gone go too, or hang off the default rule.
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

    /// Goes back to what there was [before](Self::before).
    pub fn undo(&mut self, before: Ruleset) {
        let Ruleset { config, lifetimes, max, keepalive, .. } = before;
        self.config = config;
        self.translators.settle(&self.config);
        self.compile();
        (self.states.lifetimes, self.states.max, self.states.keepalive) =
            (lifetimes, max, keepalive);
    }

    /// A time of its clock in nanoseconds since 1970.
    #[must_use]
    pub const fn unix_ns(&self, ns: u64) -> u64 {
        self.epoch_ns.saturating_add(ns)
    }

    /// What its rules have counted, in the order of the list.
    #[must_use]
    pub fn counters(&self) -> &[RuleCounters] {
        &self.config.list.counters
    }

    /// Shows, for the same list, what others have counted instead of its own.
    pub fn show_counters(&mut self, of_all: &[Vec<RuleCounters>]) {
        for (at, shown) in self.config.list.counters.iter_mut().enumerate() {
            *shown = RuleCounters::default();
            of_all.iter().filter_map(|counters| counters.get(at)).for_each(|of| shown.add(of));
        }
    }

    /// A copy of what it knows of flows.
    #[must_use]
    pub fn flow_snapshot(&self) -> FlowSnapshot {
        FlowSnapshot { states: self.states.clone(), translators: self.translators.clone() }
    }

    /// Knows these flows instead of its own.
    pub fn take_flows(&mut self, known: FlowSnapshot) {
        (self.states, self.translators) = (known.states, known.translators);
    }

    /// Shows the states of others instead of its own.
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
