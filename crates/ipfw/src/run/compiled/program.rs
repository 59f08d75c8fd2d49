use alloc::vec::Vec;

use slipring_classify::matcher::{DENSE, MAX_FIELDS, Matcher};
use slipring_classify::partition::Partition;

use super::super::config::Config;
use super::super::crossing::Crossing;
use super::bytes::ByteFields;
use super::check::Check;
use super::field::{Field, Lookup};
use super::lookups::Lookups;
use super::memo::Key;
use super::near::Near;
use super::plan::{Plan, Wants};
use crate::packet::Packet;

/// Lists up to this long are walked rule by rule: looking fields up costs about as much as two
/// rules.
const SHORT: usize = 3;

/// A list made ready.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) plans: Vec<Plan>,
    pub(super) checks: Vec<Check>,
    /// What is searched, in longer lists.
    pub(super) index: Option<Index>,
    pub(super) lookups: Lookups,
    /// What addresses are looked up in.
    near: Near,
}

/// Finds the rules of a list that a packet's fields leave.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) lookups: Vec<Lookup>,
    pub(super) matcher: Matcher,
    /// All fields are those of flows.
    pub(super) is_of_flows: bool,
    /// Where in a [`Key`] the class of each field stands; empty where candidates are found as fast
    /// as they are remembered, and where a key cannot hold the classes.
    packing: Vec<(u8, u8)>,
}

/// The class of a packet in each field of an [`Index`].
pub(in super::super) type Classes = [u32; MAX_FIELDS];

impl Program {
    /// Makes the rules of a firewall ready.
    #[must_use]
    pub fn compile(config: &Config) -> Self {
        Self::with_limits(config, SHORT, DENSE)
    }

    /// The same, with lists up to `short` walked rule by rule, and up to `plain` in plain rows.
    pub(super) fn with_limits(config: &Config, short: usize, plain: usize) -> Self {
        let (mut plans, mut checks) = (Vec::new(), Vec::new());
        let entries = &config.list.entries;
        let mut near = Near::default();
        let lookups = Lookups::of(config);
        if entries.len() <= short {
            let plan = |entry| Plan::of(entry, config, (&mut checks, &mut near), None);
            plans.extend(entries.iter().map(plan));
            return Self { plans, checks, index: None, lookups, near };
        }
        let bytes = ByteFields::of(config);
        let mut wants: Vec<Wants> = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut mine = Wants::default();
            let wants_of = Some((&mut mine, &bytes));
            plans.push(Plan::of(entry, config, (&mut checks, &mut near), wants_of));
            wants.push(mine);
        }
        Self { plans, checks, index: Some(Index::new(wants, &bytes, plain)), lookups, near }
    }

    /// Whether some rule looks for states.
    pub(in super::super) const fn asks_states(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// What is looked up for packets that come together.
    pub(in super::super) const fn near(&self) -> &Near {
        &self.near
    }

    /// Bytes that searching takes, counters apart.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.plans.len() * size_of::<Plan>()
            + self.checks.len() * size_of::<Check>()
            + self.index.as_ref().map_or(0, Index::size_bytes)
    }
}

impl Index {
    fn new(mut wants: Vec<Wants>, bytes: &ByteFields, plain: usize) -> Self {
        let is_used = |&field: &Field| wants.iter().any(|rule| rule.contains_key(&field));
        let mut fields: Vec<_> =
            Field::ALL.into_iter().chain(bytes.iter()).filter(is_used).collect();
        if fields.is_empty() {
            fields.push(Field::Pass);
        }
        let mut column =
            |&field: &Field| wants.iter_mut().map(|rule| rule.remove(&field)).collect::<Vec<_>>();
        let columns: Vec<_> = fields.iter().map(&mut column).collect();
        let (matcher, partitions) = Matcher::with_plain(&columns, plain);
        let lookups =
            fields.iter().zip(&partitions).map(|(&field, part)| Lookup::new(field, part)).collect();
        let packing = if matcher.is_short() { Vec::new() } else { packing(&partitions) };
        let is_of_flows = fields.iter().all(|field| field.is_of_flow());
        Self { lookups, matcher, is_of_flows, packing }
    }

    /// The classes of a packet in all fields.
    pub(super) fn classes(&self, packet: &Packet, crossing: &Crossing, classes: &mut Classes) {
        for (class, lookup) in classes.iter_mut().zip(&self.lookups) {
            *class = lookup.class(packet, crossing);
        }
    }

    /// What candidates are remembered by, if they are.
    #[inline]
    pub(super) fn key(&self, classes: &Classes) -> Option<Key> {
        let mut key = [0; 2];
        for (&class, &(word, shift)) in classes.iter().zip(&self.packing) {
            key[usize::from(word & 1)] |= u64::from(class) << shift;
        }
        (!self.packing.is_empty()).then_some(key)
    }

    fn size_bytes(&self) -> usize {
        let lookups: usize = self.lookups.iter().map(Lookup::size_bytes).sum();
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
