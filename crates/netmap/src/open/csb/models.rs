//! Models of the control-block protocol of program and sync loop. Loom explores every interleaving
//! with up to three preemptions. Each model also runs with one step or ordering wrong, and must
//! then fail.
//!
//! The program's half follows `nm_sync_kloop_appl_write` and related functions of
//! `include/net/netmap.h`.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;
use rustix::io::Errno;
use slipring_test_support::models::{explore, fails};

use super::words::{
    ATOK_CUR_OFFSET, ATOK_HEAD_OFFSET, CsbStorage, KTOA_HWCUR_OFFSET, KTOA_HWTAIL_OFFSET,
    KTOA_KERN_NEED_KICK_OFFSET, publish_indices, read_app_state, set_need_kick,
};

const RIGHT: u8 = 0;
/// The mistake: the loop's reads have relaxed ordering.
const WEAK_READ: u8 = 1;
/// The mistake: the loop's writes have relaxed ordering.
const WEAK_WRITE: u8 = 2;
/// The mistake: the loop's fence has no effect.
const NO_FENCE: u8 = 3;
/// The mistake: the loop's fence is acquire and release, not sequentially consistent.
const WEAK_FENCE: u8 = 4;

/// The blocks of one ring.
#[derive(Default)]
struct ModelBlocks {
    atok: [AtomicU32; 4],
    ktoa: [AtomicU32; 3],
}

/// The loop's access to the blocks. `KIND` selects the correct code or one of the mistakes.
struct LoopBlocks<'b, const KIND: u8>(&'b ModelBlocks);

impl<const KIND: u8> CsbStorage for LoopBlocks<'_, KIND> {
    fn read_atok(&mut self, offset: usize) -> Result<u32, Errno> {
        Ok(self.0.atok[offset / 4].load(if KIND == WEAK_READ { Relaxed } else { Acquire }))
    }
    fn write_ktoa(&mut self, offset: usize, value: u32) -> Result<(), Errno> {
        let order = if KIND == WEAK_WRITE { Relaxed } else { Release };
        self.0.ktoa[offset / 4].store(value, order);
        Ok(())
    }
    fn full_fence() {
        match KIND {
            NO_FENCE => {}
            WEAK_FENCE => fence(AcqRel),
            _ => fence(SeqCst),
        }
    }
}

impl ModelBlocks {
    /// Writes the program's indices, as `nm_sync_kloop_appl_write` does: `cur` first, then `head`.
    fn app_write(&self, cur: u32, head: u32) {
        self.atok[ATOK_CUR_OFFSET / 4].store(cur, Release);
        self.atok[ATOK_HEAD_OFFSET / 4].store(head, Release);
    }

    /// Reads the loop's indices, as `nm_sync_kloop_appl_read` does: `hwtail` first, then `hwcur`.
    fn app_read(&self) -> [u32; 2] {
        [KTOA_HWTAIL_OFFSET, KTOA_HWCUR_OFFSET].map(|at| self.ktoa[at / 4].load(Acquire))
    }

    /// Returns whether the program has to signal the loop that it has written new indices.
    fn app_kicks(&self) -> bool {
        fence(SeqCst);
        self.ktoa[KTOA_KERN_NEED_KICK_OFFSET / 4].load(Acquire) != 0
    }
}

/// The program advances both indices twice, and the loop reads them with `read`.
fn program_writes(read: fn(&ModelBlocks) -> [u32; 2]) -> impl Fn() + Send + Sync + 'static {
    move || {
        let blocks = Arc::new(ModelBlocks::default());
        let program = thread::spawn({
            let blocks = blocks.clone();
            move || (1..=2).for_each(|index| blocks.app_write(index, index))
        });
        let [head, cur] = read(&blocks);
        assert!(cur >= head, "cur is never older than head");
        program.join().unwrap();
    }
}

fn read_right<const KIND: u8>(blocks: &ModelBlocks) -> [u32; 2] {
    let state = read_app_state(&mut LoopBlocks::<KIND>(blocks)).unwrap();
    [state.head, state.cur]
}

#[test]
fn the_loop_never_sees_a_head_beyond_cur() {
    explore(program_writes(read_right::<RIGHT>));
}

#[test]
fn reads_in_another_order_or_that_order_nothing_show_a_head_beyond_cur() {
    assert!(fails(program_writes(read_right::<WEAK_READ>)), "reads that acquire nothing");
    let reversed = |blocks: &ModelBlocks| {
        let mut blocks = LoopBlocks::<RIGHT>(blocks);
        let cur = blocks.read_atok(ATOK_CUR_OFFSET).unwrap();
        [blocks.read_atok(ATOK_HEAD_OFFSET).unwrap(), cur]
    };
    assert!(fails(program_writes(reversed)), "cur before head");
}

/// The loop advances both indices twice with `publish`, and the program reads them.
fn loop_publishes(publish: fn(&ModelBlocks, u32)) -> impl Fn() + Send + Sync + 'static {
    move || {
        let blocks = Arc::new(ModelBlocks::default());
        let publisher = thread::spawn({
            let (blocks, publish) = (blocks.clone(), publish);
            move || (1..=2).for_each(|index| publish(&blocks, index))
        });
        let [hwtail, hwcur] = blocks.app_read();
        assert!(hwcur >= hwtail, "hwcur is never older than hwtail");
        publisher.join().unwrap();
    }
}

fn publish_right<const KIND: u8>(blocks: &ModelBlocks, index: u32) {
    publish_indices(&mut LoopBlocks::<KIND>(blocks), index, index).unwrap();
}

#[test]
fn the_program_never_sees_a_tail_that_is_newer_than_hwcur() {
    explore(loop_publishes(publish_right::<RIGHT>));
}

#[test]
fn writes_in_another_order_or_that_order_nothing_show_such_a_tail() {
    assert!(fails(loop_publishes(publish_right::<WEAK_WRITE>)), "writes that release nothing");
    let reversed = |blocks: &ModelBlocks, index| {
        let mut blocks = LoopBlocks::<RIGHT>(blocks);
        blocks.write_ktoa(KTOA_HWTAIL_OFFSET, index).unwrap();
        blocks.write_ktoa(KTOA_HWCUR_OFFSET, index).unwrap();
    };
    assert!(fails(loop_publishes(reversed)), "hwtail before hwcur");
}

/// The loop goes to sleep with `prepare`, which returns the last head that it saw, while the
/// program sends.
fn loop_sleeps(prepare: fn(&ModelBlocks) -> u32) -> impl Fn() + Send + Sync + 'static {
    move || {
        let blocks = Arc::new(ModelBlocks::default());
        let program = thread::spawn({
            let blocks = blocks.clone();
            move || {
                blocks.app_write(1, 1);
                blocks.app_kicks()
            }
        });
        let seen = prepare(&blocks);
        assert!(program.join().unwrap() || seen == 1, "asleep for ever");
    }
}

fn prepare_right<const KIND: u8>(blocks: &ModelBlocks) -> u32 {
    let mut blocks = LoopBlocks::<KIND>(blocks);
    set_need_kick(&mut blocks, true).unwrap();
    read_app_state(&mut blocks).unwrap().head
}

#[test]
fn a_loop_that_sleeps_has_seen_what_was_sent_or_is_kicked() {
    explore(loop_sleeps(prepare_right::<RIGHT>));
}

#[test]
fn without_the_fence_or_with_a_look_before_it_a_loop_may_sleep_for_ever() {
    assert!(fails(loop_sleeps(prepare_right::<NO_FENCE>)), "no fence");
    assert!(fails(loop_sleeps(prepare_right::<WEAK_FENCE>)), "a weaker one");
    let looks_first = |blocks: &ModelBlocks| {
        let mut blocks = LoopBlocks::<RIGHT>(blocks);
        let head = read_app_state(&mut blocks).unwrap().head;
        set_need_kick(&mut blocks, true).unwrap();
        head
    };
    assert!(fails(loop_sleeps(looks_first)), "a look before");
}
