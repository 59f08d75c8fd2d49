use alloc::vec::Vec;

use slipring_classify::matcher::{MAX_DENSE_RULES, MAX_FIELDS, Matcher};
use slipring_classify::partition::Partition;

use super::super::config::IpfwConfig;
use super::super::metadata::PacketMetadata;
use super::bytes::ByteFields;
use super::check::RuleCheck;
use super::field::{FieldLookup, MatchField};
use super::flow_cache::FlowCacheKey;
use super::plan::{CompiledRule, FieldConstraints};
use super::state_lookups::StateLookups;
use super::table_prefetch::TablePrefetch;
use crate::packet::PacketHeaders;

/// Lists up to this long are walked rule by rule: looking fields up costs about as much as two
/// rules.
const MAX_LINEAR_RULES: usize = 3;

/// A list made ready.
#[derive(Clone, Debug)]
pub struct CompiledRules {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) checks: Vec<RuleCheck>,
    /// What is searched, in longer lists.
    pub(super) index: Option<RuleIndex>,
    pub(super) lookups: StateLookups,
    /// What addresses are looked up in.
    table_prefetch: TablePrefetch,
}

/// Finds the rules of a list that a packet's fields leave.
#[derive(Clone, Debug)]
pub(super) struct RuleIndex {
    pub(super) lookups: Vec<FieldLookup>,
    pub(super) matcher: Matcher,
    /// All fields are those of flows.
    pub(super) is_of_flows: bool,
    /// Where in a [`Key`] the class of each field stands; empty where candidates are found as fast
    /// as they are remembered, and where a key cannot hold the classes.
    packing: Vec<(u8, u8)>,
}

/// The class of a packet in each field of an [`Index`].
pub(in super::super) type FieldClasses = [u32; MAX_FIELDS];

impl CompiledRules {
    /// Makes the rules of a firewall ready.
    #[must_use]
    pub fn compile(config: &IpfwConfig) -> Self {
        Self::with_limits(config, MAX_LINEAR_RULES, MAX_DENSE_RULES)
    }

    /// The same, with lists up to `short` walked rule by rule, and up to `plain` in plain rows.
    pub(super) fn with_limits(config: &IpfwConfig, short: usize, plain: usize) -> Self {
        let (mut rules, mut checks) = (Vec::new(), Vec::new());
        let entries = &config.list.entries;
        let mut table_prefetch = TablePrefetch::default();
        let lookups = StateLookups::of(config);
        if entries.len() <= short {
            let plan =
                |entry| CompiledRule::of(entry, config, (&mut checks, &mut table_prefetch), None);
            rules.extend(entries.iter().map(plan));
            return Self { rules, checks, index: None, lookups, table_prefetch };
        }
        let bytes = ByteFields::of(config);
        let mut wants: Vec<FieldConstraints> = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut mine = FieldConstraints::default();
            let wants_of = Some((&mut mine, &bytes));
            rules.push(CompiledRule::of(
                entry,
                config,
                (&mut checks, &mut table_prefetch),
                wants_of,
            ));
            wants.push(mine);
        }
        Self {
            rules,
            checks,
            index: Some(RuleIndex::new(wants, &bytes, plain)),
            lookups,
            table_prefetch,
        }
    }

    /// Whether some rule looks for states.
    pub(in super::super) const fn asks_states(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// What is looked up for packets that come together.
    pub(in super::super) const fn table_prefetch(&self) -> &TablePrefetch {
        &self.table_prefetch
    }

    /// Bytes that searching takes, counters apart.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.rules.len() * size_of::<CompiledRule>()
            + self.checks.len() * size_of::<RuleCheck>()
            + self.index.as_ref().map_or(0, RuleIndex::size_bytes)
    }
}

impl RuleIndex {
    fn new(mut wants: Vec<FieldConstraints>, bytes: &ByteFields, plain: usize) -> Self {
        let is_used = |&field: &MatchField| wants.iter().any(|rule| rule.contains_key(&field));
        let mut fields: Vec<_> =
            MatchField::ALL.into_iter().chain(bytes.iter()).filter(is_used).collect();
        if fields.is_empty() {
            fields.push(MatchField::Pass);
        }
        let mut column = |&field: &MatchField| {
            wants.iter_mut().map(|rule| rule.remove(&field)).collect::<Vec<_>>()
        };
        let columns: Vec<_> = fields.iter().map(&mut column).collect();
        let (matcher, partitions) = Matcher::with_dense(&columns, plain);
        let lookups = fields
            .iter()
            .zip(&partitions)
            .map(|(&field, part)| FieldLookup::new(field, part))
            .collect();
        let packing = if matcher.is_short() { Vec::new() } else { packing(&partitions) };
        let is_of_flows = fields.iter().all(|field| field.is_of_flow());
        Self { lookups, matcher, is_of_flows, packing }
    }

    /// The classes of a packet in all fields.
    pub(super) fn classes(
        &self,
        packet: &PacketHeaders,
        crossing: &PacketMetadata,
        classes: &mut FieldClasses,
    ) {
        for (class, lookup) in classes.iter_mut().zip(&self.lookups) {
            *class = lookup.class(packet, crossing);
        }
    }

    /// What candidates are remembered by, if they are.
    #[inline]
    pub(super) fn key(&self, classes: &FieldClasses) -> Option<FlowCacheKey> {
        let mut key = [0; 2];
        for (&class, &(word, shift)) in classes.iter().zip(&self.packing) {
            key[usize::from(word & 1)] |= u64::from(class) << shift;
        }
        (!self.packing.is_empty()).then_some(key)
    }

    fn size_bytes(&self) -> usize {
        let lookups: usize = self.lookups.iter().map(FieldLookup::size_bytes).sum();
        lookups + self.matcher.size_bytes()
    }
}

/// Word and shift for each field, so that no two share a bit; none where they do not fit.
fn packing(partitions: &[Partition]) -> Vec<(u8, u8)> {
    let mut used = [0; 2];
    let place = |part: &Partition| {
        let bits = part.classes().next_power_of_two().ilog2();
        let word = (0..2).find(|&word| used[word] + bits <= u64::BITS)?;
        let shift = used[word];
        used[word] += bits;
        Some((word as u8, shift as u8))
    };
    partitions.iter().map(place).collect::<Option<_>>().unwrap_or_default()
}
