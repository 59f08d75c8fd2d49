//! Tests of the emulator between pipes, with a clock that only the test advances.

use std::cell::Cell;

use slipring_link::{
    DelayModel, DelaySpec, LinkDropCause, LinkSource, LinkSpec, LinkTarget, LossModel,
    LossPosition, LossSpec, NetworkLink, NetworkSpec, OrderPolicy, RateSpec,
};
use slipring_port::{Nanos, OpenOptions, Port};
use slipring_test_support::frames::pattern as frame;

use super::emulator::TurnResult;
use super::*;
use crate::account::EmulationAccount;
use crate::flags::BurstLimit;
use crate::report::measurement::LinkMeasurement;

const DELAY: Nanos = 20_000_000;
const START: Nanos = 1_000_000_000;

/// Two hosts, each with one end of a pipe, and the emulator between the other ends.
struct Bench {
    left: Port,
    right: Port,
    emulator: Emulator<()>,
    clock: Cell<Nanos>,
}

fn delayed(name: &str) -> LinkSpec {
    LinkSpec { delay: DelaySpec::constant(DELAY), ..LinkSpec::wire(name) }
}

impl Bench {
    fn new(up: LinkSpec) -> Self {
        Self::with(up, &RealtimeOptions::default(), 256)
    }

    fn with(up: LinkSpec, options: &RealtimeOptions, slots: u32) -> Self {
        let plan = NetworkSpec::between("left", "right", up, delayed("down"));
        Self::of(&plan, options, slots)
    }

    fn of(plan: &NetworkSpec, realtime: &RealtimeOptions, slots: u32) -> Self {
        let names = ["netmap:l{0", "netmap:l}0", "netmap:r{0", "netmap:r}0"];
        let names = names.map(|name| slipring_core::parse(name).unwrap());
        let options = OpenOptions { slots, ..OpenOptions::default() };
        let ports = slipring_core::Host::new().open_all(&names, &options).unwrap();
        let [left, near, far, right] = <[Port; 4]>::try_from(ports).unwrap();
        let clock = Cell::new(START);
        let emulator = Emulator::between(vec![near, far], plan, realtime, (), START).unwrap();
        Self { left, right, emulator, clock }
    }

    /// Puts a frame on the left pipe.
    fn send(&mut self, frame: &[u8]) {
        let queue = &mut self.left.queues[0];
        assert!(queue.rings().tx.push(frame));
        queue.tx_sync().unwrap();
    }

    /// Runs one turn of the emulator with the clock at `at_ns`.
    fn turn(&mut self, at_ns: Nanos) -> TurnResult {
        self.clock.set(at_ns);
        self.emulator.turn(|| self.clock.get()).unwrap()
    }

    /// Returns the frames that have arrived on the right.
    fn received(&mut self) -> Vec<Vec<u8>> {
        received(&mut self.right)
    }

    fn account(&self) -> EmulationAccount {
        let account = self.emulator.account(self.clock.get());
        assert!(account.is_balanced(), "{account:?}");
        account
    }
}

fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let queue = &mut port.queues[0];
    queue.rx_sync().unwrap();
    let mut scratch = Vec::new();
    std::iter::from_fn(|| queue.rings().rx.packet(&mut scratch, |bytes| bytes.to_vec())).collect()
}

#[test]
fn a_frame_leaves_when_it_is_due_and_not_a_nanosecond_before() {
    let mut bench = Bench::new(delayed("up"));
    bench.send(&frame(1, 60));
    bench.turn(START);
    assert_eq!(bench.emulator.next_ns(), Some(START + DELAY));
    bench.turn(START + DELAY - 1);
    assert_eq!(bench.received(), Vec::<Vec<u8>>::new());
    assert_eq!(bench.account().in_flight().packets, 1);
    bench.turn(START + DELAY);
    assert_eq!(bench.received(), [frame(1, 60)]);
    assert_eq!(bench.account().in_flight().packets, 0);
}

#[test]
fn lateness_is_measured_against_the_ideal_release() {
    let mut bench = Bench::new(delayed("up"));
    bench.send(&frame(1, 60));
    bench.turn(START);
    bench.turn(START + DELAY + 1_234);
    let LinkMeasurement { error, delay, .. } = &bench.emulator.state(START).measured[0];
    assert_eq!((error.min(), error.max()), (1_234, 1_234));
    assert_eq!((delay.min(), delay.max()), (DELAY + 1_234, DELAY + 1_234));
}

#[test]
fn each_link_of_a_path_is_charged_with_its_own_delay_only() {
    let mut plan = NetworkSpec::between("left", "right", delayed("up"), delayed("down"));
    plan.nodes = vec!["middle".to_owned()];
    plan.links[0].to = LinkTarget::Node(0);
    let spec = LinkSpec { delay: DelaySpec::constant(3 * DELAY), ..LinkSpec::wire("on") };
    plan.links.push(NetworkLink { spec, from: LinkSource::Node(0), to: LinkTarget::Exit(1) });
    let mut bench = Bench::of(&plan, &RealtimeOptions::default(), 256);
    bench.send(&frame(1, 60));
    bench.turn(START);
    bench.turn(START + DELAY);
    bench.turn(START + 4 * DELAY + 5);
    assert_eq!(bench.received(), [frame(1, 60)]);
    let measured = bench.emulator.state(START).measured;
    let delays = [0, 2].map(|link| (measured[link].delay.count(), measured[link].delay.max()));
    assert_eq!(delays, [(1, DELAY), (1, 3 * DELAY + 5)]);
    assert_eq!((measured[0].error.count(), measured[2].error.max()), (0, 5));
    assert!(measured[0].rates().mean_bps > 0.0);
}

#[test]
fn both_directions_pass_at_once() {
    let mut bench = Bench::new(delayed("up"));
    bench.send(&frame(1, 60));
    let queue = &mut bench.right.queues[0];
    assert!(queue.rings().tx.push(&frame(2, 100)));
    queue.tx_sync().unwrap();
    bench.turn(START);
    bench.turn(START + DELAY);
    assert_eq!(bench.received(), [frame(1, 60)]);
    assert_eq!(received(&mut bench.left), [frame(2, 100)]);
}

#[test]
fn jumbo_frames_and_chains_cross_whole() {
    let mut bench = Bench::new(delayed("up"));
    for len in [2048, 2049, 9014, 65_535] {
        bench.send(&frame(3, len));
        let now = bench.clock.get();
        bench.turn(now);
        bench.turn(now + DELAY);
        let frames = bench.received();
        assert!(frames == [frame(3, len)], "{len}: {:?}", frames.first().map(Vec::len));
    }
}

#[test]
fn a_chain_that_is_too_long_is_malformed_and_counted() {
    let mut bench = Bench::new(delayed("up"));
    bench.send(&frame(0, 70_000));
    bench.turn(START);
    let refused = bench.account().entries[0].refused;
    assert_eq!(refused[LinkDropCause::Malformed].packets, 1);
}

#[test]
fn a_port_that_takes_nothing_keeps_frames_for_a_while_and_loses_them_by_name() {
    let mut bench = Bench::with(delayed("up"), &RealtimeOptions::default(), 64);
    for round in 0..4u8 {
        (0..40).for_each(|i| bench.send(&frame(round * 40 + i, 60)));
        bench.turn(START);
        // This turn returns the slots of the frames that were read.
        bench.turn(START);
    }
    // The pipe holds 63 frames, and no program has read frames from it yet.
    bench.turn(START + DELAY);
    bench.turn(START + DELAY + 10_000_000);
    assert_eq!(bench.account().exits[1].waiting.packets, 160 - 63);
    assert_eq!([bench.received().len(), bench.received().len()], [63, 0]);
    bench.turn(START + DELAY + 10_000_000);
    assert_eq!(bench.received().len(), 63, "there was room again in time");
    assert_eq!(bench.account().exits[1].waiting.packets, 160 - 2 * 63);
    // The pipe is not read any more, and the waiting frames were refused more than 10 ms ago.
    bench.turn(START + DELAY + 10_000_001);
    let account = bench.account();
    assert_eq!(account.exits[1].waiting.packets, 0);
    assert_eq!(account.links[0].drops[LinkDropCause::TxFull].packets, 160 - 2 * 63);
    assert_eq!(account.links[0].output.packets, 2 * 63);
    assert_eq!(account.received().packets, 160);
}

#[test]
fn frames_that_only_the_loop_was_late_for_are_sent_all_the_same() {
    let mut bench = Bench::with(delayed("up"), &RealtimeOptions::default(), 64);
    for i in 0..160 {
        bench.send(&frame(i, 60));
        bench.turn(START);
    }
    let mut received = 0;
    for _ in 0..10 {
        bench.turn(START + 1_000_000_000);
        received += bench.received().len();
    }
    assert_eq!(received, 160);
}

#[test]
fn late_frames_are_only_counted_unless_dropping_is_asked_for() {
    for (late_drop, dropped) in [(None, 0), (Some(1_000), 1)] {
        let options = RealtimeOptions { late_drop, ..RealtimeOptions::default() };
        let mut bench = Bench::with(delayed("up"), &options, 256);
        bench.send(&frame(1, 60));
        bench.turn(START);
        bench.turn(START + DELAY + 1_001);
        assert_eq!(bench.received().len(), 1 - dropped);
        assert_eq!(bench.account().links[0].drops[LinkDropCause::Late].packets, dropped as u64);
    }
}

#[test]
fn a_link_whose_frames_all_leave_too_late_has_lost_them_all() {
    let options = RealtimeOptions { late_drop: Some(1_000), ..RealtimeOptions::default() };
    let mut bench = Bench::with(delayed("up"), &options, 256);
    (0..100).for_each(|i| bench.send(&frame(i, 60)));
    bench.turn(START);
    bench.turn(START + DELAY + 1_001);
    let (account, link) = (bench.account(), bench.account().links[0]);
    assert_eq!((link.input.packets, link.output.packets), (100, 0));
    assert_eq!(link.drops[LinkDropCause::Late], link.input);
    assert!(link.is_balanced(), "{link:?}");
    assert_eq!((account.lost().packets, account.sent().packets), (100, 0));
}

#[test]
fn frames_without_storage_are_lost_as_buffer() {
    let options = RealtimeOptions { storage_bytes: 1 << 20, ..RealtimeOptions::default() };
    let mut bench = Bench::with(delayed("up"), &options, 1024);
    for _ in 0..4 {
        (0..8).for_each(|i| bench.send(&frame(i, 60_000)));
        let now = bench.clock.get();
        bench.turn(now + 1_000);
    }
    let account = bench.account();
    assert_eq!(account.in_flight().packets, 16, "4 times 60,000 bytes are a chunk, of 4");
    assert_eq!(account.entries[0].refused[LinkDropCause::Buffer].packets, 16);
}

#[test]
fn frames_that_a_port_has_received_and_nobody_took_are_in_flight() {
    let options = RealtimeOptions {
        burst: BurstLimit { frames: 16, ..BurstLimit::default() },
        ..RealtimeOptions::default()
    };
    let mut bench = Bench::with(delayed("up"), &options, 256);
    (0..100).for_each(|i| bench.send(&frame(i, 60)));
    bench.turn(START);
    let account = bench.emulator.state(START).account;
    assert_eq!((account.received().packets, account.ring_backlog.packets), (16, 84));
    assert_eq!((account.in_flight().packets, account.in_flight().bytes), (100, 6000));
    assert!(account.is_balanced(), "{account:?}");
}

#[test]
fn a_burst_in_bytes_takes_what_fits_and_one_frame_in_any_case() {
    let taken = |bytes, lengths: &[usize]| {
        let options = RealtimeOptions {
            burst: BurstLimit { bytes, ..BurstLimit::default() },
            ..RealtimeOptions::default()
        };
        let mut bench = Bench::with(delayed("up"), &options, 256);
        (0u8..).zip(lengths).for_each(|(i, len)| bench.send(&frame(i, *len)));
        bench.turn(START);
        bench.emulator.state(START).account.received().packets
    };
    assert_eq!(taken(1000, &[60; 100]), 16);
    assert_eq!(taken(1000, &[1500, 60, 60]), 1);
    assert_eq!(taken(1000, &[60, 1500, 60]), 1);
    assert_eq!(taken(u64::MAX, &[60; 100]), 100);
}

#[test]
fn losses_of_the_links_are_part_of_the_account() {
    let loss = LossSpec { model: LossModel::Nth { every: 2, nth: 1 }, position: LossPosition::Pre };
    let mut bench = Bench::new(LinkSpec { loss: vec![loss], ..delayed("up") });
    (0..10).for_each(|i| bench.send(&frame(i, 60)));
    bench.turn(START);
    bench.turn(START + DELAY);
    assert_eq!(bench.received().len(), 5);
    assert_eq!(bench.account().links[0].drops[LinkDropCause::Loss].packets, 5);
}

#[test]
fn a_slow_line_spaces_what_came_in_one_batch() {
    let line = LinkSpec { rate: RateSpec::Constant { bps: 10_000_000 }, ..LinkSpec::wire("up") };
    let mut bench = Bench::new(line);
    (0..3).for_each(|i| bench.send(&frame(i, 1250)));
    bench.turn(START);
    let mut out = Vec::new();
    while let Some(next) = bench.emulator.next_ns() {
        bench.turn(next);
        out.push((next - START, bench.received().len()));
    }
    assert_eq!(out, [(1_000_000, 1), (2_000_000, 1), (3_000_000, 1)]);
}

#[test]
fn storage_is_as_empty_afterwards_as_before() {
    let mut bench = Bench::new(delayed("up"));
    for round in 0..200u64 {
        (0..100).for_each(|i| bench.send(&frame(i, 1000)));
        bench.turn(START + round * 1_000_000);
        bench.received();
    }
    for round in 200..240 {
        bench.turn(START + round * 1_000_000);
        bench.received();
    }
    let account = bench.account();
    assert_eq!((account.sent().packets, account.in_flight().packets), (20_000, 0));
    assert!(account.storage_bytes <= 24 << 20, "{}", account.storage_bytes);
}

#[test]
fn frames_that_overtake_others_are_told_as_reordered() {
    let delay = DelaySpec { model: DelayModel::InTurn(vec![3_000, 1_000]), half_life_ns: None };
    let free = LinkSpec { delay, order: OrderPolicy::Free, ..LinkSpec::wire("up") };
    let mut bench = Bench::new(free);
    for i in 0..2 {
        bench.send(&frame(i, 60));
        bench.turn(START + u64::from(i) * 100);
    }
    [1_100, 3_000].into_iter().for_each(|due| _ = bench.turn(START + due));
    assert_eq!(bench.received(), [frame(1, 60), frame(0, 60)]);
    assert_eq!(bench.emulator.state(START).measured[0].order.reordered(), 1);
}
