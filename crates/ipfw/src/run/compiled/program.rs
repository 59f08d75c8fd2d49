use alloc::vec::Vec;

use slipring_classify::matcher::{MAX_DENSE_RULES, MAX_FIELDS, Matcher};
use slipring_classify::partition::Partition;

use super::super::config::IpfwConfig;
use super::super::metadata::PacketMetadata;
use super::bytes::ByteFields;
use super::check::RuleCheck;
use super::field::{FieldLookup, MatchField};
use super::flow_cache::FlowCacheKey;
use super::plan::{ClassEffect, CompiledRule, FieldConstraints};
use super::state_lookups::StateLookups;
use super::table_prefetch::TablePrefetch;
use crate::packet::{MatchHeaders, PacketHeaders};

/// Lists of up to this length are searched rule by rule: classifying a packet costs about as much
/// as testing two rules.
const MAX_LINEAR_RULES: usize = 3;

/// A compiled list.
#[derive(Clone, Debug)]
pub struct CompiledRules {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) checks: Vec<RuleCheck>,
    /// For each rule, its effect on packets that its classes select.
    pub(super) effects: Vec<ClassEffect>,
    /// The search index; `None` for short lists.
    pub(super) index: Option<RuleIndex>,
    pub(super) lookups: StateLookups,
    /// The table lookups that are prefetched.
    table_prefetch: TablePrefetch,
}

/// An index that finds the rules which a packet's fields do not exclude.
#[derive(Clone, Debug)]
pub(super) struct RuleIndex {
    pub(super) lookups: Vec<FieldLookup>,
    pub(super) matcher: Matcher,
    /// Whether all fields are determined by the flow and the receiving port.
    pub(super) is_of_flows: bool,
    /// Position of each field's class in a [`FlowCacheKey`]. Empty if candidates are not cached by
    /// classes, because a search is as fast or because the classes do not fit into a key.
    packing: Vec<ClassPosition>,
}

/// The position of a field's class in a [`FlowCacheKey`].
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassPosition {
    pub(super) word: u8,
    pub(super) shift: u8,
    bits: u8,
}

/// The class of a packet in each field of a [`RuleIndex`].
pub(in super::super) type FieldClasses = [u32; MAX_FIELDS];

impl CompiledRules {
    /// Compiles the rules of a firewall.
    #[must_use]
    pub fn compile(config: &IpfwConfig) -> Self {
        Self::with_limits(config, MAX_LINEAR_RULES, MAX_DENSE_RULES)
    }

    /// Like [`Self::compile`], with other limits: lists of up to `short` rules are searched rule by
    /// rule, and lists of up to `plain` rules use dense rows.
    pub(super) fn with_limits(config: &IpfwConfig, short: usize, plain: usize) -> Self {
        let (mut rules, mut checks) = (Vec::new(), Vec::new());
        let entries = &config.list.entries;
        let mut table_prefetch = TablePrefetch::default();
        let lookups = StateLookups::of(config);
        if entries.len() <= short {
            let plan =
                |entry| CompiledRule::of(entry, config, (&mut checks, &mut table_prefetch), None);
            rules.extend(entries.iter().map(plan));
            let effects = Vec::new();
            return Self { rules, checks, effects, index: None, lookups, table_prefetch };
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
            effects: rules.iter().map(ClassEffect::of).collect(),
            rules,
            checks,
            index: Some(RuleIndex::new(wants, &bytes, plain)),
            lookups,
            table_prefetch,
        }
    }

    /// Returns whether any rule of an enabled set looks up states.
    pub(in super::super) const fn asks_states(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// The table lookups that are prefetched for a batch.
    pub(in super::super) const fn table_prefetch(&self) -> &TablePrefetch {
        &self.table_prefetch
    }

    /// Memory of the compiled rules, their checks and the index, in bytes.
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

    /// Computes the classes of a packet in all fields.
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

    /// Returns the cache key of the classes; `None` if candidates are not cached by classes.
    #[inline]
    pub(super) fn key(&self, classes: &FieldClasses) -> Option<FlowCacheKey> {
        let mut key = [0; 2];
        for (&class, &ClassPosition { word, shift, .. }) in classes.iter().zip(&self.packing) {
            key[usize::from(word & 1)] |= u64::from(class) << shift;
        }
        self.has_keys().then_some(key)
    }

    /// Returns whether candidates are cached by classes.
    #[inline]
    pub(super) const fn has_keys(&self) -> bool {
        !self.packing.is_empty()
    }

    /// Computes the cache keys of many packets.
    pub(super) fn keys(
        &self,
        packets: &[MatchHeaders],
        crossing: &PacketMetadata,
        keys: &mut [FlowCacheKey],
    ) {
        keys.fill([0; 2]);
        for (lookup, &position) in self.lookups.iter().zip(&self.packing) {
            lookup.add_to_keys(packets, crossing, position, keys);
        }
    }

    /// Returns the classes of which a cache key consists.
    pub(super) fn classes_of(&self, key: FlowCacheKey) -> FieldClasses {
        let mut classes = FieldClasses::default();
        for (class, &ClassPosition { word, shift, bits }) in classes.iter_mut().zip(&self.packing) {
            *class = (key[usize::from(word & 1)] >> shift) as u32 & ((1 << bits) - 1);
        }
        classes
    }

    fn size_bytes(&self) -> usize {
        let lookups: usize = self.lookups.iter().map(FieldLookup::size_bytes).sum();
        lookups + self.matcher.size_bytes()
    }
}

/// Returns the position of each field's class in a cache key. Empty if the classes do not fit.
fn packing(partitions: &[Partition]) -> Vec<ClassPosition> {
    let mut used = [0; 2];
    let position = |part: &Partition| {
        let bits = part.classes().next_power_of_two().ilog2();
        let word = (0..2).find(|&word| used[word] + bits <= u64::BITS)?;
        // If the word is already full, the field has only one class, and so its class is always 0.
        // Then any shift is right, but one by all bits of the word is not possible.
        let shift = used[word].min(u64::BITS - 1);
        used[word] += bits;
        Some(ClassPosition { word: word as u8, shift: shift as u8, bits: bits as u8 })
    };
    partitions.iter().map(position).collect::<Option<_>>().unwrap_or_default()
}
