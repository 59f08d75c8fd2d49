use proptest::prelude::*;

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;
use std::thread;

use super::*;
use crate::trie::{TrieKey, prefix};

/// Prefixes in a map, searched one by one.
#[derive(Clone, Default)]
struct PrefixModel(BTreeMap<(u32, u8), u16>);

impl PrefixModel {
    fn number(&self, address: u32) -> u16 {
        let around = self.0.iter().filter(|one| prefix(address, one.0.1.into()) == one.0.0);
        around.max_by_key(|one| one.0.1).map_or(0, |one| *one.1)
    }

    /// Returns the numbers that the addresses from `start` to `end` have in the model, as ranges.
    fn ranges(&self, start: u32, end: u32) -> Vec<(u32, u16)> {
        let ends = self.0.keys().filter_map(|one| one.0.last_of(one.1.into()).after());
        let mut starts: Vec<_> = self.0.keys().map(|one| one.0).chain(ends).collect();
        starts.retain(|at| (start..=end).contains(at));
        starts.push(start);
        starts.sort_unstable();
        starts.dedup();
        starts.into_iter().map(|at| (at, self.number(at))).collect()
    }

    /// Addresses in and around each prefix.
    fn probes(&self) -> Vec<u32> {
        let bounds = self.0.keys().flat_map(|one| [one.0, one.0.last_of(one.1.into())]);
        bounds.flat_map(|one| [one.wrapping_sub(1), one, one.wrapping_add(1)]).collect()
    }
}

type HeapTable = Dir24<HeapCells>;

fn table(blocks: usize) -> (HeapTable, Dir24Writer) {
    let table = Dir24::new(HeapCells::new(ROOT_CELLS), HeapCells::new(blocks * BLOCK_CELLS));
    let writer = Dir24Writer::new(&table);
    (table, writer)
}

/// Changes a prefix in the model, then in the table. Number 0 removes the prefix.
fn change(
    (model, table, writer): (&mut PrefixModel, &HeapTable, &mut Dir24Writer),
    (address, len, number): (u32, u8, u16),
) -> Result<(), NoBlocks> {
    let start = prefix(address, len.into());
    match number {
        0 => model.0.remove(&(start, len)),
        _ => model.0.insert((start, len), number),
    };
    let end = start.last_of(len.into());
    writer.set(table, start, end, &model.ranges(start, end))
}

fn agree(table: &HeapTable, model: &PrefixModel, probes: &[u32]) {
    let mut all = vec![7; probes.len()];
    table.lookup_all(probes, &mut all);
    for (&probe, all) in probes.iter().zip(all) {
        assert_eq!(table.lookup(probe), model.number(probe), "{probe:#x}");
        assert_eq!(all, table.lookup(probe), "{probe:#x}");
    }
}

/// Returns how many of the root's slots for the addresses `probes` name a block.
fn named_blocks(table: &HeapTable, probes: &[u32]) -> usize {
    let mut slots: Vec<_> = probes.iter().map(|&probe| slot_of(probe)).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into_iter().filter(|&slot| block_of(table.root.get(slot)).is_some()).count()
}

/// Generates prefixes that nest, adjoin and repeat, at both ends of the address space and in
/// between.
fn prefixes() -> impl Strategy<Value = (u32, u8, u16)> {
    let stem = prop::sample::select(vec![0, u32::MAX, 0x0a00_0000, 0xc633_64ff]);
    let shift = prop::sample::select(vec![0, 6, 8, 10]);
    let len = prop_oneof![12..=32_u8, 22..=32_u8, Just(24)];
    (stem, 0..16_u32, shift, len, 0..4_u16)
        .prop_map(|(stem, bits, shift, len, number)| (stem ^ bits << shift, len, number))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_table_finds_what_a_search_through_all_prefixes_finds(
        changes in prop::collection::vec(prefixes(), 0..80),
        at_once in 0..40_usize,
    ) {
        let ((table, mut writer), mut model) = (table(64), PrefixModel::default());
        let mut probes = vec![];
        // The first prefixes are set by one change of all addresses, the others one by one.
        for &(address, len, number) in changes.iter().take(at_once) {
            model.0.insert((prefix(address, len.into()), len), number);
        }
        writer.set(&table, 0, u32::MAX, &model.ranges(0, u32::MAX)).unwrap();
        for &changed in changes.iter().skip(at_once) {
            probes.extend([changed.0, changed.0.last_of(changed.1.into())]);
            change((&mut model, &table, &mut writer), changed).unwrap();
            prop_assert_eq!(table.lookup(changed.0), model.number(changed.0));
            writer.reclaim();
        }
        probes.extend(model.probes());
        agree(&table, &model, &probes);
        prop_assert_eq!(writer.free_blocks() + named_blocks(&table, &probes), 64);
        // Without prefixes, every slot has one number again.
        for &(address, len, _) in &changes {
            change((&mut model, &table, &mut writer), (address, len, 0)).unwrap();
        }
        writer.reclaim();
        agree(&table, &model, &probes);
        prop_assert_eq!(writer.free_blocks(), 64);
    }
}

#[test]
fn a_default_route_fills_all_addresses_but_those_of_longer_prefixes() {
    let ((table, mut writer), mut model) = (table(4), PrefixModel::default());
    let mut set = |changed| change((&mut model, &table, &mut writer), changed).unwrap();
    set((0x0a00_0001, 32, 5));
    set((0x0a01_0000, 16, 6));
    set((0, 0, 7));
    let found = [0, 0x0a00_0000, 0x0a00_0001, 0x0a00_0002, 0x0a01_ffff, 0x0a02_0000, u32::MAX];
    assert_eq!(found.map(|address| table.lookup(address)), [7, 7, 5, 7, 6, 7, 7]);
    set((0, 0, 0));
    assert_eq!(found.map(|address| table.lookup(address)), [0, 0, 5, 0, 6, 0, 0]);
}

#[test]
fn a_slot_has_a_block_only_while_its_numbers_differ() {
    let (table, mut writer) = table(2);
    let root = |slot: usize| table.root().get(slot);
    writer.set(&table, 0x100, 0x1ff, &[(0x100, 3), (0x180, 3)]).unwrap();
    assert_eq!((root(1), writer.free_blocks()), (3, 2), "ranges of one number");
    writer.set(&table, 0x110, 0x11f, &[(0x110, 3)]).unwrap();
    assert_eq!((root(1), writer.free_blocks()), (3, 2), "the number that they had");
    writer.set(&table, 0x110, 0x11f, &[(0x110, 4)]).unwrap();
    assert_eq!((root(1), writer.free_blocks()), (BLOCK_FLAG, 1));
    writer.set(&table, 0x120, 0x1ff, &[(0x120, 4)]).unwrap();
    assert_eq!((root(1), writer.free_blocks()), (BLOCK_FLAG, 1), "the same block");
    writer.set(&table, 0x100, 0x10f, &[(0x100, 4)]).unwrap();
    assert_eq!((root(1), writer.free_blocks(), writer.retired_blocks()), (4, 1, 1));
    writer.reclaim();
    assert_eq!((writer.free_blocks(), writer.retired_blocks()), (2, 0));
}

#[test]
fn a_retired_block_keeps_its_numbers_until_it_is_reclaimed() {
    let (table, mut writer) = table(2);
    let cell = |at: usize| table.tail().get(at);
    writer.set(&table, 0, 0, &[(0, 3)]).unwrap();
    writer.set(&table, 0, 255, &[(0, 4)]).unwrap();
    assert_eq!([cell(0), cell(1)], [3, 0]);
    writer.set(&table, 7, 7, &[(7, 5)]).unwrap();
    assert_eq!([cell(0), cell(1), cell(256), cell(263)], [3, 0, 4, 5], "another block");
    writer.set(&table, 0, 511, &[(0, 6)]).unwrap();
    assert_eq!([cell(0), cell(256), cell(263)], [3, 4, 5]);
    assert_eq!((writer.free_blocks(), writer.retired_blocks()), (0, 2));
    assert_eq!(writer.set(&table, 7, 7, &[(7, 5)]), Err(NoBlocks));
    writer.reclaim();
    writer.set(&table, 7, 7, &[(7, 5)]).unwrap();
    assert_eq!([6, 7].map(|address| table.lookup(address)), [6, 5]);
}

#[test]
fn the_blocks_that_were_retired_first_can_be_used_before_the_others() {
    let (table, mut writer) = table(2);
    for slot in [0, 0x100] {
        writer.set(&table, slot, slot, &[(slot, 3)]).unwrap();
        writer.set(&table, slot, slot, &[(slot, 0)]).unwrap();
    }
    writer.reclaim_first(1);
    assert_eq!((writer.free_blocks(), writer.retired_blocks()), (1, 1));
    writer.set(&table, 0x205, 0x205, &[(0x205, 7)]).unwrap();
    assert_eq!([0, 256].map(|at| table.tail().get(at + 5)), [7, 0], "the block of slot 0");
    writer.reclaim_first(5);
    assert_eq!((writer.free_blocks(), writer.retired_blocks()), (1, 0));
}

#[test]
fn a_change_that_needs_more_blocks_than_are_free_changes_nothing() {
    let (table, mut writer) = table(2);
    writer.set(&table, 0x180, 0x1ff, &[(0x180, 1)]).unwrap();
    let ranges = [(0x100, 2), (0x210, 3), (0x310, 4), (0x400, 5)];
    let numbers = || (0..0x500).map(|address| table.lookup(address)).collect::<Vec<_>>();
    let before = numbers();
    // Slots 2 and 3 would get two numbers each, so they would need two blocks, but only one is
    // free. Slot 1, which has a block, would get a single number.
    assert_eq!(writer.set(&table, 0x100, 0x4ff, &ranges), Err(NoBlocks));
    assert_eq!((numbers(), writer.free_blocks(), writer.retired_blocks()), (before, 1, 0));
    // A slot that already has a block does not need another block.
    writer.set(&table, 0x140, 0x310, &[(0x140, 2), (0x210, 3), (0x300, 0)]).unwrap();
    let found = [0x13f, 0x140, 0x1ff, 0x20f, 0x210, 0x2ff, 0x300, 0x311];
    assert_eq!(found.map(|address| table.lookup(address)), [0, 2, 2, 2, 3, 3, 0, 0]);
    assert_eq!(writer.free_blocks(), 0);
}

#[test]
fn a_tail_without_blocks_serves_prefixes_up_to_24() {
    let (table, mut writer) = table(0);
    writer.set(&table, 0, u32::MAX, &[(0, 1), (0x100, MAX_NUMBER), (0x200, 2)]).unwrap();
    assert_eq!([0xff, 0x1ff, 0x200].map(|address| table.lookup(address)), [1, MAX_NUMBER, 2]);
    assert_eq!(writer.set(&table, 1, 1, &[(1, 0)]), Err(NoBlocks));
    assert_eq!(NoBlocks.to_string(), "no free block for prefixes longer than /24");
    writer.set(&table, 1, 1, &[(1, 1)]).unwrap();
}

#[test]
fn the_greatest_block_has_the_greatest_number_of_15_bits() {
    let (table, mut writer) = table(MAX_BLOCKS);
    assert_eq!(writer.free_blocks(), MAX_BLOCKS);
    // In each slot, the first address has a different number than the others.
    let slots = 0..MAX_BLOCKS as u32;
    let ranges: Vec<_> = slots.flat_map(|at| [(at << 8, 9), (at << 8 | 1, 8)]).collect();
    writer.set(&table, 0, (MAX_BLOCKS as u32) << 8, &ranges).unwrap_err();
    writer.set(&table, 0, ((MAX_BLOCKS as u32) << 8) - 1, &ranges).unwrap();
    let last = (MAX_BLOCKS as u32 - 1) << 8;
    assert_eq!([0, 1, 255, last, last + 1].map(|at| table.lookup(at)), [9, 8, 8, 9, 8]);
    assert_eq!(table.root().get(MAX_BLOCKS - 1), u16::MAX);
}

#[test]
fn batches_of_all_lengths_are_looked_up_whole() {
    let (table, mut writer) = table(1);
    writer.set(&table, 0, 0x4ff, &[(0, 1), (0x100, 2), (0x280, 3), (0x300, 4)]).unwrap();
    for count in [0, 1, 63, 64, 65, 200] {
        let addresses: Vec<u32> = (0..count).map(|at| at * 97 % 0x500).collect();
        let mut numbers = vec![u32::MAX; addresses.len()];
        table.lookup_with(&addresses, &mut numbers, |number| u32::from(number) + 10);
        let expected: Vec<_> =
            addresses.iter().map(|&at| u32::from(table.lookup(at)) + 10).collect();
        assert_eq!(numbers, expected);
    }
}

/// Cells that implement only the required methods of [`Cells`].
#[derive(Debug)]
struct PlainCells(HeapCells);

impl Cells for PlainCells {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, at: usize) -> u16 {
        self.0.get(at)
    }
    fn set(&self, at: usize, value: u16) {
        self.0.set(at, value);
    }
}

#[test]
fn cells_behind_a_shared_pointer_are_those_cells() {
    let shared: Arc<dyn Cells> = Arc::new(PlainCells(HeapCells::new(9)));
    for cells in [&shared, &(Arc::new(HeapCells::new(9)) as Arc<dyn Cells>)] {
        cells.fill(2..5, 7);
        cells.set(8, 3);
        assert_eq!([1, 2, 4, 5, 8].map(|at| cells.get(at)), [0, 7, 7, 0, 3]);
        assert_eq!((Cells::len(cells), cells.is_empty()), (9, false));
    }
    assert!(Arc::new(HeapCells::new(0)).is_empty());
}

#[test]
#[should_panic(expected = "ranges ascend")]
fn ranges_that_do_not_ascend_are_refused() {
    let (table, mut writer) = table(0);
    let _ = writer.set(&table, 0, 9, &[(0, 1), (7, 2), (7, 3)]);
}

#[test]
#[should_panic(expected = "the first range is at the start")]
fn ranges_that_begin_elsewhere_are_refused() {
    let (table, mut writer) = table(0);
    let _ = writer.set(&table, 0, 9, &[(1, 1)]);
}

#[test]
#[should_panic(expected = "ranges end at 9")]
fn ranges_beyond_the_end_are_refused() {
    let (table, mut writer) = table(0);
    let _ = writer.set(&table, 0, 9, &[(0, 1), (10, 1)]);
}

#[test]
#[should_panic(expected = "a number above 32767")]
fn a_number_that_would_name_a_block_is_refused() {
    let (table, mut writer) = table(0);
    let _ = writer.set(&table, 0, 9, &[(0, MAX_NUMBER + 1)]);
}

/// The layouts that the writer sets in turn, all for the same addresses. The first layout has one
/// number for all addresses; the others have several.
const LAYOUTS: [&[(u32, u16)]; 3] =
    [&[(0x100, 1)], &[(0x100, 2), (0x140, 3), (0x180, 2)], &[(0x100, 4), (0x17f, 5)]];
const WATCHED: [(u32, [u16; 3]); 4] =
    [(0x100, [1, 2, 4]), (0x140, [1, 3, 4]), (0x17f, [1, 3, 5]), (0x1ff, [1, 2, 5])];

#[test]
fn a_reader_finds_numbers_that_its_address_has_had() {
    let (table, mut writer) = table(2);
    writer.set(&table, 0x100, 0x1ff, LAYOUTS[0]).unwrap();
    // The number of finished lookups, and whether the writer has finished.
    let (lookups, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(SeqCst) == 0 {
                let mut found = [0; 4];
                table.lookup_all(&WATCHED.map(|one| one.0), &mut found);
                for (found, (address, numbers)) in found.into_iter().zip(WATCHED) {
                    assert!(numbers.contains(&found), "{address:#x}: {found}");
                }
                lookups.fetch_add(1, SeqCst);
                thread::yield_now();
            }
        });
        for round in 1..2000 {
            writer.set(&table, 0x100, 0x1ff, LAYOUTS[round % 3]).unwrap();
            if writer.retired_blocks() > 1 {
                // Waits until the current lookup and one more have finished.
                let ended = lookups.load(SeqCst) + 2;
                while lookups.load(SeqCst) < ended {
                    thread::yield_now();
                }
                writer.reclaim();
            }
        }
        done.store(1, SeqCst);
    });
}
