//! Table lookups of addresses, done for a whole batch.

use alloc::vec::Vec;

use super::super::config::IpfwConfig;
use super::super::matches::is_wanted;
use crate::packet::PacketHeaders;
use crate::rule::{AddressPattern, Condition, ObjectName, ValueTest};
use crate::table::FoundValues;

/// Maximum number of tables that are prefetched. A table counts once for sources and once for
/// destinations.
const MAX_TABLES: usize = 4;
/// Maximum number of tests, which is the number of bits in [`TableAnswers`].
const MAX_TESTS: usize = 32;

/// One bit per test of a [`TablePrefetch`]: whether the test holds for a packet.
pub(in super::super) type TableAnswers = u32;

/// The table tests in address clauses whose results are prefetched.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct TablePrefetch {
    tables: Vec<PrefetchedTable>,
    tests: Vec<(usize, Option<ValueTest>)>,
}

/// A table in which rules of a set look up addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PrefetchedTable {
    set: u8,
    name: ObjectName,
    /// Whether destinations are looked up; otherwise sources.
    of_dst: bool,
}

impl TablePrefetch {
    /// Returns the bit of a condition of a rule in `set`; `None` if the condition is not a table
    /// lookup of an address, or if there is no space.
    pub(super) fn bit(&mut self, set: u8, condition: &Condition) -> Option<u8> {
        let (test, of_dst) = match condition {
            Condition::Src(AddressPattern::Table(test)) => (test, false),
            Condition::Dst(AddressPattern::Table(test)) => (test, true),
            _ => return None,
        };
        let table = PrefetchedTable { set, name: test.table.clone(), of_dst };
        let at = position_or_push(&mut self.tables, table, MAX_TABLES)?;
        let bit = position_or_push(&mut self.tests, (at, test.value), MAX_TESTS)?;
        Some(bit as u8)
    }

    /// Returns whether there are no tests.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// Computes the results for each packet, in their order.
    pub(in super::super) fn look_up_all<'p>(
        &self,
        config: &IpfwConfig,
        packets: impl Iterator<Item = &'p PacketHeaders> + Clone,
        answers: &mut [TableAnswers],
    ) {
        answers.fill(0);
        for (at, near) in self.tables.iter().enumerate() {
            let Some(table) = config.table(near.set, near.name.as_str()) else { continue };
            let address =
                |packet: &PacketHeaders| if near.of_dst { packet.dst } else { packet.src };
            let mut found = FoundValues::default();
            table.find_all(
                packets.clone().map(|packet| (packet.version, address(packet))),
                &mut found,
            );
            let tests = self.tests.iter().enumerate().filter(|(_, (table, _))| *table == at);
            for (bit, &(_, wanted)) in tests {
                for (answer, value) in answers.iter_mut().zip(table.values_of(&found)) {
                    let holds = value.is_some_and(|value| is_wanted(table, value, wanted));
                    *answer |= TableAnswers::from(holds) << bit;
                }
            }
        }
    }
}

/// Returns the position of an item in a list; appends it if there is space.
fn position_or_push<T: PartialEq>(all: &mut Vec<T>, one: T, most: usize) -> Option<usize> {
    if let Some(at) = all.iter().position(|known| *known == one) {
        return Some(at);
    }
    (all.len() < most).then(|| {
        all.push(one);
        all.len() - 1
    })
}
