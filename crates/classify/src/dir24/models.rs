//! The writer and a reader of a table under loom, which explores every interleaving with up to
//! three preemptions and every value that the memory model allows. The code is that of the product;
//! only the cells are loom's. Each model also runs with one ordering weakened or one step left out,
//! and must then fail.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU16;
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::thread;
use slipring_test_support::models::{explore, fails};

use super::*;

/// The distance between two cells of the tail that the model stores as loom atomics.
const TAIL_STEP: usize = BLOCK_CELLS / 2;

/// Cells with configurable orderings. The cells in `words` are loom's atomics. The others exist
/// only because the writer loads and stores all cells of a block.
#[derive(Debug)]
struct ModelCells {
    words: [AtomicU16; 4],
    step: usize,
    load: Ordering,
    store: Ordering,
    others: Option<HeapCells>,
}

impl ModelCells {
    fn root([load, store]: [Ordering; 2]) -> Self {
        Self { words: [0; 4].map(AtomicU16::new), step: 1, load, store, others: None }
    }

    /// Makes a tail of two blocks. Its cells need no ordering.
    fn tail() -> Self {
        let others = Some(HeapCells::new(2 * BLOCK_CELLS));
        Self { step: TAIL_STEP, others, ..Self::root([Relaxed; 2]) }
    }

    /// Returns where the cell with index `at` is stored: `Ok` with one of the loom atomics, or
    /// `Err` with the cells in `others`, which is no failure.
    fn word(&self, at: usize) -> Result<&AtomicU16, &HeapCells> {
        let other = self.others.as_ref().filter(|_| !at.is_multiple_of(self.step));
        other.map_or_else(|| Ok(&self.words[at / self.step]), Err)
    }
}

impl Cells for ModelCells {
    fn len(&self) -> usize {
        self.others.as_ref().map_or(ROOT_CELLS, Cells::len)
    }
    fn get(&self, at: usize) -> u16 {
        self.word(at).map_or_else(|other| other.get(at), |word| word.load(self.load))
    }
    fn set(&self, at: usize, value: u16) {
        match self.word(at) {
            Ok(word) => word.store(value, self.store),
            Err(other) => other.set(at, value),
        }
    }
}

/// The orderings of the root's loads and stores in the product.
const RIGHT: [Ordering; 2] = [Acquire, Release];

fn model_table(root: [Ordering; 2]) -> (Arc<Dir24<ModelCells>>, Dir24Writer) {
    let table = Dir24::new(ModelCells::root(root), ModelCells::tail());
    let writer = Dir24Writer::new(&table);
    (Arc::new(table), writer)
}

/// All addresses of slot 0 have the number 7. One thread gives the lower half number 1 and the
/// upper half number 2, while the other thread looks up an address of the upper half twice.
fn split_a_slot(root: [Ordering; 2]) {
    let (table, mut writer) = model_table(root);
    writer.set(&table, 0, 255, &[(0, 7)]).unwrap();
    let reader = thread::spawn({
        let table = table.clone();
        move || [table.lookup(128), table.lookup(128)]
    });
    writer.set(&table, 0, 255, &[(0, 1), (128, 2)]).unwrap();
    let found = reader.join().unwrap();
    assert!([[7, 7], [7, 2], [2, 2]].contains(&found), "{found:?}");
}

#[test]
fn a_reader_that_finds_a_block_finds_its_contents() {
    explore(|| split_a_slot(RIGHT));
}

#[test]
fn without_acquire_or_release_a_reader_finds_old_contents_of_a_block() {
    assert!(fails(|| split_a_slot([Relaxed, Release])), "load");
    assert!(fails(|| split_a_slot([Acquire, Relaxed])), "store");
}

/// One thread looks up an address of slot 0. The other thread gives all addresses of slot 0 one
/// number, and then needs a block for slot 1. With `EARLY`, it wrongly reclaims the block of slot 0
/// before the lookup has ended.
fn reuse_a_block<const EARLY: bool>() {
    let (table, mut writer) = model_table(RIGHT);
    writer.set(&table, 0, 255, &[(0, 1), (128, 2)]).unwrap();
    let ended = Arc::new(AtomicU16::new(0));
    let reader = thread::spawn({
        let (table, ended) = (table.clone(), ended.clone());
        move || {
            let found = table.lookup(128);
            ended.store(1, Release);
            found
        }
    });
    writer.set(&table, 0, 255, &[(0, 3)]).unwrap();
    if EARLY || ended.load(Acquire) == 1 {
        writer.reclaim();
    }
    writer.set(&table, 256, 511, &[(256, 8), (384, 9)]).unwrap();
    let found = reader.join().unwrap();
    assert!([2, 3].contains(&found), "{found}");
    assert_eq!([table.lookup(128), table.lookup(256), table.lookup(384)], [3, 8, 9]);
}

#[test]
fn a_reader_of_a_retired_block_finds_what_the_block_had() {
    explore(reuse_a_block::<false>);
}

#[test]
fn a_block_reclaimed_under_a_reader_gives_it_numbers_of_other_addresses() {
    assert!(fails(reuse_a_block::<true>));
}
