//! Models of host and program that take turns. Loom explores every interleaving with up to three
//! preemptions. Each model also runs with one step or ordering wrong, and must then fail.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use slipring_test_support::models::{explore, fails};

use super::words::{
    ClientClaim, OwnershipCell, OwnershipStorage, OwnershipWord, SyncDirection, claim_for_client,
    claim_for_host, release_by_client, release_by_host, set_by_host,
};

/// The correct cell, which behaves like `AtomicU64`.
const RIGHT: u8 = 0;
/// Claims have no ordering.
const WEAK_CLAIM: u8 = 1;
/// Releases have no ordering.
const WEAK_RELEASE: u8 = 2;
/// A claim succeeds even if another party owns the word.
const NO_CLAIM: u8 = 3;

/// A word, correct or with one mistake.
#[derive(Default)]
struct ModelCell<const KIND: u8>(AtomicU64);

impl<const KIND: u8> OwnershipCell for ModelCell<KIND> {
    fn acquire(&self) -> u64 {
        self.0.load(if KIND == WEAK_CLAIM { Relaxed } else { Acquire })
    }
    fn release(&self, value: u64) {
        self.0.store(value, if KIND == WEAK_RELEASE { Relaxed } else { Release });
    }
    fn load_relaxed(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn store_relaxed(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    fn claim(&self, owner: u64) -> Result<(), u64> {
        if KIND == NO_CLAIM {
            return Ok(());
        }
        let (success, failure) = match KIND {
            WEAK_CLAIM => (Relaxed, Relaxed),
            WEAK_RELEASE => (Acquire, Acquire),
            _ => (AcqRel, Acquire),
        };
        self.0.compare_exchange(0, owner, success, failure).map(|_| ())
    }
}

const WAY: SyncDirection = SyncDirection::Tx;
const PROGRAM: u32 = 1 << 31;

/// The words of one direction, and the state that a sync changes.
struct Queue<const KIND: u8> {
    words: [ModelCell<KIND>; 8],
    /// Slots passed to the kernel so far.
    slots: AtomicU32,
}

impl<const KIND: u8> OwnershipStorage for Queue<KIND> {
    type Cell = ModelCell<KIND>;

    fn cell(&self, _: SyncDirection, word: OwnershipWord) -> &ModelCell<KIND> {
        &self.words[word as usize]
    }
}

impl<const KIND: u8> Queue<KIND> {
    /// A queue that is lent to the program and that neither party is syncing.
    fn lent() -> Arc<Self> {
        let words = std::array::from_fn(|_| ModelCell::default());
        let queue = Self { words, slots: AtomicU32::new(0) };
        queue.cell(WAY, OwnershipWord::Holder).store_relaxed(PROGRAM.into());
        Arc::new(queue)
    }

    /// Moves one more slot, and asserts that the shared position agrees with the number of slots
    /// moved.
    fn sync(&self) {
        // The increment is neither atomic nor ordered, so it is correct only for an exclusive
        // owner.
        let slots = self.slots.load(Relaxed) + 1;
        self.slots.store(slots, Relaxed);
        let anchor = self.cell(WAY, OwnershipWord::In);
        assert_eq!(
            anchor.load_relaxed(),
            u64::from(slots - 1),
            "it goes on where the other left off"
        );
        anchor.store_relaxed(slots.into());
    }

    fn host_turn(&self, only: bool) -> bool {
        if !claim_for_host(self, WAY) {
            return false;
        }
        self.sync();
        let stands = self.cell(WAY, OwnershipWord::In).load_relaxed() as u32;
        release_by_host(self, WAY, [stands, 0], only);
        true
    }

    fn program_turn(&self) -> bool {
        let claimed = claim_for_client(self, WAY, PROGRAM) == ClientClaim::Claimed;
        if claimed {
            self.sync();
            release_by_client(self, WAY);
        }
        claimed
    }
}

/// Host and program sync one queue, each twice.
fn take_turns<const KIND: u8>() -> impl Fn() + Send + Sync + 'static {
    || {
        let queue = Queue::<KIND>::lent();
        let program = thread::spawn({
            let queue = queue.clone();
            move || u64::from(queue.program_turn()) + u64::from(queue.program_turn())
        });
        let host = u64::from(queue.host_turn(false)) + u64::from(queue.host_turn(false));
        let turns = host + program.join().unwrap();
        assert_eq!(queue.cell(WAY, OwnershipWord::In).acquire(), turns);
    }
}

#[test]
fn a_queue_is_synced_by_one_process_at_a_time_that_goes_on_where_the_other_left_off() {
    explore(take_turns::<RIGHT>());
}

#[test]
fn without_claims_or_their_orderings_two_processes_race_for_a_queue() {
    assert!(fails(take_turns::<NO_CLAIM>()), "nothing claimed");
    assert!(fails(take_turns::<WEAK_CLAIM>()), "claims that acquire nothing");
    assert!(fails(take_turns::<WEAK_RELEASE>()), "releases that release nothing");
}

/// A wrong claim: the program checks whether it may sync, and claims the direction only after that.
fn asks_before_it_claims<const KIND: u8>(queue: &Queue<KIND>) -> bool {
    let may = queue.cell(WAY, OwnershipWord::ByHost).acquire() == 0;
    may && queue.cell(WAY, OwnershipWord::Owner).claim(PROGRAM.into()).is_ok()
}

/// The host makes the queue host-only and syncs once. From then on no program may sync, because
/// only the host can handle some of the slots. If `keeps` is false, the host makes the mistake not
/// to make the queue host-only. `claims` is the function by which the program claims the queue.
fn kept_to_host(
    claims: fn(&Queue<RIGHT>) -> bool,
    keeps: bool,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let queue = Queue::<RIGHT>::lent();
        // Set during the host's sync; after that, the program may not sync.
        let special = Arc::new(AtomicU64::new(0));
        let program = thread::spawn({
            let (queue, special) = (queue.clone(), special.clone());
            move || {
                if claims(&queue) {
                    assert_eq!(special.load(Relaxed), 0, "it syncs what only the host can");
                    release_by_client(&*queue, WAY);
                }
            }
        });
        if keeps {
            set_by_host(&*queue, WAY, true);
        }
        if claim_for_host(&*queue, WAY) {
            special.store(1, Relaxed);
            release_by_host(&*queue, WAY, [0, 0], keeps);
        }
        program.join().unwrap();
    }
}

fn claims_right(queue: &Queue<RIGHT>) -> bool {
    claim_for_client(queue, WAY, PROGRAM) == ClientClaim::Claimed
}

#[test]
fn after_a_turn_of_a_host_that_keeps_the_queue_no_program_syncs_it() {
    explore(kept_to_host(claims_right, true));
}

#[test]
fn a_program_that_asks_before_it_claims_or_a_host_that_says_nothing_breaks_that() {
    assert!(fails(kept_to_host(asks_before_it_claims, true)), "asks first");
    assert!(fails(kept_to_host(claims_right, false)), "says nothing");
}

/// The program releases a slot and syncs, while the host claims the direction without a sync, to
/// adopt the program's positions. `sync` is the program's sync; it returns whether the program must
/// ask the host for the sync.
fn release_a_slot(sync: fn(&Queue<RIGHT>) -> bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let queue = Queue::<RIGHT>::lent();
        let host = thread::spawn({
            let queue = queue.clone();
            move || {
                if claim_for_host(&*queue, WAY) {
                    release_by_host(&*queue, WAY, [queue.slots.load(Relaxed), 0], false);
                }
            }
        });
        let asks = sync(&queue);
        // The host handles one call after the other.
        host.join().unwrap();
        if asks {
            queue.host_turn(false);
        }
        assert_eq!(queue.cell(WAY, OwnershipWord::In).acquire(), 1, "the slot is synced");
    }
}

#[test]
fn a_sync_that_meets_a_host_that_only_adopts_positions_is_not_lost() {
    explore(release_a_slot(|queue| !queue.program_turn()));
}

#[test]
fn a_program_that_takes_a_claimed_direction_for_synced_loses_its_sync() {
    assert!(fails(release_a_slot(|queue| {
        queue.program_turn();
        false
    })));
}

#[test]
fn a_program_that_the_queue_is_no_longer_lent_to_does_not_claim_it() {
    explore(|| {
        let queue = Queue::<RIGHT>::lent();
        let program = thread::spawn({
            let queue = queue.clone();
            move || queue.program_turn()
        });
        queue.cell(WAY, OwnershipWord::Holder).release(0);
        let claimed_late = queue.program_turn();
        program.join().unwrap();
        assert!(!claimed_late);
    });
}
