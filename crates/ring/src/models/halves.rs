//! Models of ring halves that a program syncs in its own process, as C programs do: ownership of a
//! half, and sleepers that only the host can wake.

use super::*;
use crate::doorbell::must_kick;
use crate::hosted::ownership::{acquire, release};
use crate::sync_words::HOST_OWNER;

const PROGRAM: u32 = 7;

/// No mistake: the word behaves as `AtomicU32` does.
const CORRECT: u8 = 0;
/// The mistake: claims and loads have relaxed ordering.
const WEAK_CLAIM: u8 = 1;
/// The mistake: releases have relaxed ordering.
const WEAK_RELEASE: u8 = 2;
/// The mistake: a claim succeeds even if another party owns the word.
const NO_CLAIM: u8 = 3;

/// A control word of a half, correct or with one mistake.
#[derive(Default)]
struct Word<const MISTAKE: u8>(AtomicU32);

impl<const MISTAKE: u8> SharedWord for Word<MISTAKE> {
    fn acquire(&self) -> u32 {
        self.0.load(if MISTAKE == WEAK_CLAIM { Relaxed } else { Acquire })
    }
    fn release(&self, value: u32) {
        self.0.store(value, if MISTAKE == WEAK_RELEASE { Relaxed } else { Release });
    }
    fn take(&self) -> u32 {
        unreachable!("control words are not taken")
    }
    fn claim(&self, client_id: u32) -> bool {
        let order = if MISTAKE == WEAK_CLAIM { Relaxed } else { Acquire };
        MISTAKE == NO_CLAIM || self.0.compare_exchange(0, client_id, order, Relaxed).is_ok()
    }
    fn full_fence() {
        unreachable!("control words need no fence")
    }
}

/// The control words of a half, and the state that a sync changes.
#[derive(Default)]
struct OwnedHalf<const MISTAKE: u8> {
    owner: Word<MISTAKE>,
    by_host: Word<MISTAKE>,
    position: AtomicU32,
    /// Not 0 once only the host may sync the half.
    host_only: AtomicU32,
}

impl<const MISTAKE: u8> OwnedHalf<MISTAKE> {
    /// Syncs once; returns whether the half could be acquired.
    fn sync(&self, client_id: u32) -> bool {
        if acquire(&self.owner, &self.by_host, client_id).is_err() {
            return false;
        }
        assert!(client_id == HOST_OWNER || self.host_only.load(Relaxed) == 0, "only the host may");
        // This increment is neither atomic nor ordered, so it is correct only for an exclusive
        // owner.
        self.position.store(self.position.load(Relaxed) + 1, Relaxed);
        release(&self.owner);
        true
    }
}

/// Host and program sync one half, each twice.
fn sync_in_turn<const MISTAKE: u8>() -> impl Fn() + Send + Sync + 'static {
    || {
        let half = Arc::new(OwnedHalf::<MISTAKE>::default());
        let twice = |half: &OwnedHalf<MISTAKE>, client_id| {
            u32::from(half.sync(client_id)) + u32::from(half.sync(client_id))
        };
        let program = thread::spawn({
            let half = half.clone();
            move || twice(&half, PROGRAM)
        });
        let syncs = twice(&half, HOST_OWNER) + program.join().unwrap();
        assert_eq!(half.position.load(Relaxed), syncs, "each goes on where the other left off");
    }
}

#[test]
fn host_and_program_sync_a_half_one_at_a_time() {
    explore(sync_in_turn::<CORRECT>());
}

#[test]
fn without_claims_or_their_orderings_host_and_program_race_for_a_half() {
    assert!(fails(sync_in_turn::<NO_CLAIM>()), "nothing claimed");
    assert!(fails(sync_in_turn::<WEAK_CLAIM>()), "claims that acquire nothing");
    assert!(fails(sync_in_turn::<WEAK_RELEASE>()), "releases that release nothing");
}

/// The host takes the half back from the program, because a monitor was attached, and then syncs
/// the half once. At the same time, the program calls `sync`.
fn keep_half(sync: fn(&OwnedHalf<CORRECT>)) -> impl Fn() + Send + Sync + 'static {
    move || {
        let half = Arc::new(OwnedHalf::<CORRECT>::default());
        let program = thread::spawn({
            let half = half.clone();
            move || sync(&half)
        });
        half.by_host.release(1);
        if acquire(&half.owner, &half.by_host, HOST_OWNER).is_ok() {
            half.host_only.store(1, Relaxed);
            release(&half.owner);
        }
        program.join().unwrap();
    }
}

#[test]
fn after_a_sync_of_a_host_that_keeps_the_half_no_program_syncs_it() {
    explore(keep_half(|half| {
        half.sync(PROGRAM);
    }));
}

#[test]
fn a_program_that_asks_before_it_claims_breaks_that() {
    assert!(fails(keep_half(|half| {
        if half.by_host.acquire() == 0 && half.owner.claim(PROGRAM) {
            assert_eq!(half.host_only.load(Relaxed), 0, "only the host may");
            release(&half.owner);
        }
    })));
}

/// Decides whether a waker kicks the host, from the announcements of the program at the other end
/// and of the host's sleepers.
type Kick<const FENCE: u8> = fn(&Flag<FENCE>, &Flag<FENCE>) -> bool;

/// A program with a doorbell sleeps at the other end. The waker can only kick the host, which then
/// rings the doorbell.
fn wake_by_kick<const FENCE: u8>(must_kick: Kick<FENCE>) -> impl Fn() + Send + Sync + 'static {
    move || {
        let shared =
            Arc::new((AtomicU32::new(0), Flag::<FENCE>::default(), Flag::<FENCE>::default()));
        let waker = thread::spawn({
            let shared = shared.clone();
            move || {
                let (sent, guest, host) = &*shared;
                sent.store(1, Release);
                must_kick(guest, host) && must_ring(guest)
            }
        });
        announce(&shared.1);
        let seen = shared.0.load(Acquire) == 1;
        let rung = waker.join().unwrap();
        assert!(seen || rung, "asleep for ever");
    }
}

#[test]
fn a_program_that_sleeps_is_rung_for_by_the_host_that_another_program_kicks() {
    explore(wake_by_kick::<FULL>(must_kick));
}

#[test]
fn a_waker_that_takes_the_announcement_itself_or_has_no_fence_leaves_it_asleep() {
    let takes: Kick<FULL> = |guest, _| must_ring(guest);
    assert!(fails(wake_by_kick::<FULL>(takes)), "nothing is left for the host to see");
    let hasty: Kick<FULL> = |guest, _| guest.acquire() != 0;
    assert!(fails(wake_by_kick::<FULL>(hasty)), "no fence of the waker");
    assert!(fails(wake_by_kick::<ACQ_REL>(must_kick)), "weaker fences");
}

/// A program with a doorbell sleeps at the other end, and other programs sleep in the host. One
/// kick wakes all of them.
fn wake_both(must_kick: Kick<FULL>) -> impl Fn() + Send + Sync + 'static {
    move || {
        let half = Arc::new((Half::default(), Flag::<FULL>::default()));
        // The model starts with the word set, because `share` sets it.
        half.0.sleeps.release(1);
        let waker = thread::spawn({
            let half = half.clone();
            move || {
                let (half, guest) = &*half;
                half.sent.store(1, Release);
                let kicked = must_kick(guest, &half.sleeps);
                if kicked {
                    half.kicked();
                }
                kicked && must_ring(guest)
            }
        });
        let (host, guest) = &*half;
        announce(guest);
        let seen_by_guest = host.sent.load(Acquire) == 1;
        host.marks[0].swap(1, AcqRel);
        fence(SeqCst);
        host.add();
        let seen = host.sent.load(Acquire);
        let rung = waker.join().unwrap();
        assert!(seen_by_guest || rung, "the program is asleep for ever");
        assert!(host.knows(0, seen, 1), "the host's sleeper is asleep for ever");
    }
}

#[test]
fn one_kick_wakes_the_program_and_the_sleepers_of_the_host() {
    explore(wake_both(must_kick));
}

#[test]
fn a_waker_that_looks_at_one_kind_of_sleepers_only_leaves_the_other_asleep() {
    assert!(fails(wake_both(|guest, _| {
        fence(SeqCst);
        guest.acquire() != 0
    })));
    assert!(fails(wake_by_kick::<FULL>(|_, host| must_ring(host))));
}
