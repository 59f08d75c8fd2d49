use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

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
    // The loop learns one address more than a bucket holds. The last address is in the next bucket
    // until there is space in its own bucket.
    for mac in neighbours(&table, SLOTS_PER_BUCKET + 1) {
        learn(&mut table, mac, 1, 0);
    }
    table.sweep(usize::MAX, 101);
    assert!(table.is_empty());
}

#[test]
fn a_clock_may_be_behind_by_half_of_its_range() {
    const HALF: u32 = u32::MAX / 2;
    let mut table = table(100);
    learn(&mut table, 7, 1, 0);
    assert_eq!(
        [HALF, HALF + 1, u32::MAX].map(|tick| find(&table, 7, tick)),
        [None, Some(1), Some(1)]
    );
    table.set_ageing(None);
    let age = |tick: u32| table.entries(u64::from(tick) * TICK).next().unwrap().age_ns;
    assert_eq!([1, HALF, HALF + 1].map(age), [TICK, u64::from(HALF) * TICK, 0]);
}

#[test]
fn an_entry_tells_all_about_its_address() {
    let mut table = table(100);
    let mac = 0x0a0b_0c0d_0e0f;
    table.learn(table.locate(key_of(mac, 0xffe)), 5, 10);
    table.pin(key_of(mac, 1), 6, 13);
    let mut entries: Vec<_> = table.entries(13 * TICK).collect();
    entries.sort_by_key(|entry| entry.vlan);
    let entry = |vlan, port, age_ns, is_pinned| MacEntry {
        mac: MacAddr::from_u64(mac),
        vlan,
        port: SwitchPortId(port),
        age_ns,
        is_pinned,
    };
    assert_eq!(entries, [entry(1, 6, 0, true), entry(0xffe, 5, 3 * TICK, false)]);
    assert!(!table.is_empty());
}

#[test]
fn an_old_address_is_replaced_only_within_the_bounded_number_of_probes() {
    // With this secret, the low bits of an address select its bucket.
    let mut table = MacTable::new(1000, Some(100 * TICK), [0, 0]);
    let in_bucket = |bucket: usize, number: usize| (bucket + number * MIN_BUCKETS) as u64;
    for bucket in 0..=MAX_PROBES {
        for number in 0..SLOTS_PER_BUCKET {
            let tick = if bucket == MAX_PROBES { 0 } else { 101 };
            learn(&mut table, in_bucket(bucket, number), 1, tick);
        }
    }
    let fresh = in_bucket(0, SLOTS_PER_BUCKET);
    assert_eq!(learn(&mut table, fresh, 1, 101), LearnOutcome::New);
    let found = table.position(table.locate(key_of(fresh, 0))).unwrap();
    let distance = found.bucket.wrapping_sub(table.home(key_of(fresh, 0))) & table.mask();
    assert!(distance < MAX_PROBES, "{distance}");
}

#[test]
fn an_address_moves_to_port_0_at_once() {
    let mut table = table(100);
    learn(&mut table, 7, 3, 0);
    assert_eq!(learn(&mut table, 7, 0, 0), LearnOutcome::Moved);
    assert_eq!(find(&table, 7, 0), Some(0));
}

#[test]
fn a_static_address_needs_a_free_place() {
    let mut table = table(1);
    assert!(table.pin(key_of(7, 0), 1, 0) && table.pin(key_of(7, 0), 2, 0));
    assert!(!table.pin(key_of(8, 0), 1, 0));
    assert_eq!([7, 8].map(|mac| find(&table, mac, 0)), [Some(2), None]);
}

/// Returns addresses whose hashes select the same bucket.
fn neighbours(table: &MacTable, count: usize) -> Vec<u64> {
    let home = table.home(key_of(0, 0));
    (0..).filter(|&mac| table.home(key_of(mac, 0)) == home).take(count).collect()
}

#[test]
fn an_old_address_gives_way_to_a_new_one_on_the_same_path() {
    for old in 0..7 {
        let mut table = table(7);
        let macs = neighbours(&table, 8);
        for (at, &mac) in macs[..7].iter().enumerate() {
            learn(&mut table, mac, 1, if at == old { 0 } else { 50 });
        }
        assert_eq!(learn(&mut table, macs[7], 1, 100), LearnOutcome::Full);
        assert_eq!(learn(&mut table, macs[7], 1, 101), LearnOutcome::New);
        let found: Vec<_> = macs.iter().map(|&mac| find(&table, mac, 101).is_some()).collect();
        assert_eq!(found, (0..8).map(|at| at != old).collect::<Vec<_>>());
        assert_eq!(table.len(), 7);
    }
}

#[test]
fn the_array_doubles_when_five_eighths_are_taken() {
    let mut table = table(1 << 20);
    let mut sizes = (0..=640).map(|mac| {
        learn(&mut table, mac, 1, 0);
        table.buckets.len()
    });
    assert!(sizes.by_ref().take(640).all(|size| size == 256));
    assert_eq!(sizes.next(), Some(512));
}

#[test]
fn addresses_in_any_row_are_spread_over_the_buckets() {
    let secrets = [[3, 0x9e37_79b9_7f4a_7c15], [0x5157_6e69_7463_6830, 0x7661_6c65_3a78_3179]];
    let homes = |secret, shift: usize| {
        let table = MacTable::new(1000, None, secret);
        let homes = (0..256).map(|number| table.home(key_of(number << shift, 0)));
        homes.collect::<BTreeSet<_>>().len()
    };
    for shift in (0..=40).step_by(8) {
        // With random hashes, 256 addresses select about 162 of 256 buckets.
        assert!(secrets.map(|secret| homes(secret, shift)).into_iter().all(|homes| homes > 110));
    }
    assert!([[0, 0], [0, 1]].map(|secret| homes(secret, 0)).into_iter().all(|homes| homes > 110));
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
    // There are 4000 addresses but initially 256 buckets, so addresses share buckets.
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
