use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TICK: u64 = 1 << TICK_SHIFT;

fn table(limit: usize) -> MacTable {
    MacTable::new(limit, Some(100 * TICK), [3, 0x9e37_79b9_7f4a_7c15])
}

fn learn(table: &mut MacTable, mac: u64, port: u32, tick: u32) -> LearnOutcome {
    table.learn(table.locate(key_of(mac, 0)), port, tick)
}

fn find(table: &MacTable, mac: u64, tick: u32) -> Option<u32> {
    table.find(table.locate(key_of(mac, 0)), tick)
}

#[test]
fn an_address_is_known_until_it_was_silent_for_too_long() {
    let mut table = table(100);
    assert_eq!(learn(&mut table, 7, 1, 0), LearnOutcome::New);
    assert_eq!(learn(&mut table, 7, 1, 60), LearnOutcome::Known);
    assert_eq!(find(&table, 7, 160), Some(1));
    assert_eq!(find(&table, 7, 161), None);
    assert_eq!(table.entries(160 * TICK).count(), 1);
    assert_eq!(table.entries(161 * TICK).count(), 0);
    assert_eq!(learn(&mut table, 7, 1, 161), LearnOutcome::New);
}

#[test]
fn an_address_moves_with_its_station() {
    let mut table = table(100);
    learn(&mut table, 7, 1, 0);
    assert_eq!(learn(&mut table, 7, 2, 0), LearnOutcome::Moved);
    assert_eq!(find(&table, 7, 0), Some(2));
}

#[test]
fn a_pinned_address_neither_ages_nor_moves() {
    let mut table = table(100);
    assert!(table.pin(key_of(7, 0), 1, 0));
    assert_eq!(learn(&mut table, 7, 2, 5), LearnOutcome::Known);
    assert_eq!(find(&table, 7, 1_000_000), Some(1));
    table.sweep(usize::MAX, 1_000_000);
    assert_eq!(find(&table, 7, 1_000_000), Some(1));
    assert!(table.entries(0).all(|entry| entry.is_pinned));
}

#[test]
fn a_full_table_learns_no_more_until_something_ages() {
    let mut table = table(3);
    for mac in 0..3 {
        assert_eq!(learn(&mut table, mac, 1, mac as u32), LearnOutcome::New);
    }
    assert_eq!(learn(&mut table, 9, 1, 3), LearnOutcome::Full);
    table.sweep(usize::MAX, 101);
    assert_eq!(table.len(), 2);
    assert_eq!(learn(&mut table, 9, 1, 101), LearnOutcome::New);
}

#[test]
fn a_hundred_thousand_addresses_are_all_found() {
    let mut table = table(200_000);
    for mac in 0..100_000 {
        assert_eq!(learn(&mut table, mac, mac as u32 % 50, 0), LearnOutcome::New);
    }
    assert!((0..100_000).all(|mac| find(&table, mac, 0) == Some(mac as u32 % 50)));
    assert_eq!(table.flush(0, |entry| entry.port == SwitchPortId(7)), 2000);
    assert_eq!(table.len(), 98_000);
    assert!((0..100_000).all(|mac| find(&table, mac, 0).is_some() == (mac % 50 != 7)));
}

#[test]
fn the_same_address_in_two_vlans_is_two_entries() {
    let mut table = table(100);
    for vlan in [1, 2] {
        table.learn(table.locate(key_of(7, vlan)), u32::from(vlan), 0);
    }
    assert_eq!(table.find(table.locate(key_of(7, 2)), 0), Some(2));
    assert_eq!(table.len(), 2);
}

#[test]
fn an_older_clock_takes_nothing_away() {
    let mut table = table(100);
    learn(&mut table, 7, 1, 50);
    assert_eq!(find(&table, 7, 49), Some(1));
    table.sweep(usize::MAX, 0);
    assert_eq!(find(&table, 7, 49), Some(1));
}

#[test]
fn a_sweep_frees_old_addresses_that_move_to_the_bucket_which_it_sweeps() {
    let mut table = table(100);
    // One more than a bucket holds: the last is in the next bucket until there is room.
    let home = table.home(key_of(0, 0));
    let same_home = (0..).filter(|&mac| table.home(key_of(mac, 0)) == home);
    for mac in same_home.take(SLOTS_PER_BUCKET + 1).collect::<Vec<_>>() {
        learn(&mut table, mac, 1, 0);
    }
    table.sweep(usize::MAX, 101);
    assert!(table.is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Learn(u64, u32),
    Remove(u64),
    Flush(u32),
    Wait(u32),
    Sweep(usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Addresses that share buckets: 4000 of them in initially 256 buckets.
    prop_oneof![
        20 => (0u64..4000, 0u32..5).prop_map(|(mac, port)| Step::Learn(mac, port)),
        3 => (0u64..4000).prop_map(Step::Remove),
        1 => (0u32..5).prop_map(Step::Flush),
        2 => (0u32..30).prop_map(Step::Wait),
        2 => (0usize..300).prop_map(Step::Sweep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_table_is_a_map_whose_entries_age(steps in prop::collection::vec(step(), 1..3000)) {
        let mut table = table(1 << 20);
        let mut model: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        let mut tick = 0;
        for step in steps {
            match step {
                Step::Learn(mac, port) => {
                    learn(&mut table, mac, port, tick);
                    model.insert(mac, (port, tick));
                }
                Step::Remove(mac) => {
                    table.remove(key_of(mac, 0));
                    model.remove(&mac);
                }
                Step::Flush(port) => {
                    table.flush(u64::from(tick) * TICK, |entry| entry.port == SwitchPortId(port));
                    model.retain(|_, (at, _)| *at != port);
                }
                Step::Wait(ticks) => tick += ticks,
                Step::Sweep(buckets) => table.sweep(buckets, tick),
            }
        }
        model.retain(|_, (_, seen)| tick - *seen <= 100);
        for mac in 0..4000 {
            prop_assert_eq!(find(&table, mac, tick), model.get(&mac).map(|(port, _)| *port));
        }
        prop_assert_eq!(table.entries(u64::from(tick) * TICK).count(), model.len());
        table.sweep(usize::MAX, tick);
        prop_assert_eq!(table.len(), model.len());
    }
}
