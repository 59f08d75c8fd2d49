//! Tests of programs that sleep at one end of a pipe while the rings of the other end are lent to a
//! program. The sleep or the loan may begin first.

use std::os::fd::OwnedFd;

use slipring_ring::{DeviceMapping, HostedRx, HostedTx, RingView, SyncReport};

use super::*;

const SLEEPER: u64 = 9;

/// A program that syncs its rings itself and kicks through the device, as C programs do.
struct Guest<'w> {
    client: Client<'w>,
    tx: HostedTx,
    rx: HostedRx,
    /// An eventfd that is written when there are frames, for a program that sleeps without the
    /// device.
    doorbell: OwnedFd,
}

impl<'w> Guest<'w> {
    /// Takes over, in its own mapping, the rings that `client` has bound.
    fn new(client: Client<'w>) -> Self {
        let kicks = client.world.netmap.kicks().unwrap();
        let PipeDelegation { client_id, halves, .. } = client.open.lend(&kicks).unwrap();
        let (file, _) = client.open.memory().unwrap();
        let end = client.open.bound.get().unwrap().port.memory().map_len();
        let layout = |dir: TxRx| halves.iter().find(|half| half.dir == dir).unwrap().layout;
        let ring: NetmapRing = client.peek(layout(TxRx::Tx).tx);
        let data = layout(TxRx::Tx).tx.strict_add_signed(ring.buf_ofs);
        let region = DeviceMapping::new(file, end).unwrap().into_region(data, BUF as u32).unwrap();
        let tx = HostedTx::attach(&region, layout(TxRx::Tx), client_id).unwrap();
        let rx = HostedRx::attach(&region, layout(TxRx::Rx), client_id).unwrap();
        let doorbell = halves.into_iter().find(|half| half.dir == TxRx::Rx).unwrap().doorbell;
        Self { client, tx, rx, doorbell }
    }

    /// Sends the requested number of slots without a kick.
    fn send(&mut self, slots: u32) -> SyncReport {
        let view = self.tx.kern().view();
        view.advance_to(after(&view, view.head(), slots));
        self.tx.sync_or_leave().unwrap()
    }

    /// Receives all frames and gives their slots back; returns the report of the last sync.
    fn read(&mut self) -> SyncReport {
        self.rx.sync_or_leave().unwrap();
        let view = self.rx.kern().view();
        view.advance_to(view.tail());
        self.rx.sync_or_leave().unwrap()
    }

    /// Kicks the host through the device if the sync report `moved` asks for it.
    fn tell(&mut self, moved: SyncReport) {
        if moved.wake_host {
            self.client.ioctl(NIOCKICK).unwrap();
        }
    }
}

fn after(view: &RingView, at: u32, slots: u32) -> u32 {
    (at + slots) % view.num_slots()
}

fn view(client: &Client<'_>, dir: TxRx) -> RingView {
    client.open.bound.get().unwrap().port.ring(dir, 0).unwrap().clone()
}

fn sleep(client: &Client<'_>, wish: PollEvents, handle: u64) {
    let seen = client.open.poll(wish, Some(handle), Duration::ZERO);
    assert_eq!(seen, PollEvents::default(), "there is nothing to sleep for");
}

fn notified(world: &World) -> Vec<u64> {
    std::mem::take(&mut lock(&world.notified.0))
}

/// Makes `client` fill its tx ring and sleep until a slot is free.
fn full(client: &mut Client<'_>) {
    let view = view(client, TxRx::Tx);
    view.advance_to(view.tail());
    client.ioctl(NIOCTXSYNC).unwrap();
    sleep(client, PollEvents::OUT, SLEEPER);
}

#[test]
fn who_sleeps_for_frames_is_told_by_a_sender_that_is_lent_its_rings_later() {
    let world = World::new();
    let (b, a) = (world.bound("x}1"), world.bound("x{1"));
    sleep(&b, PollEvents::IN, SLEEPER);
    let mut a = Guest::new(a);
    assert!(notified(&world).is_empty(), "nothing was sent");
    let moved = a.send(500);
    a.tell(moved);
    assert_eq!(notified(&world), [SLEEPER]);
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
}

#[test]
fn who_sleeps_for_room_is_told_by_a_reader_that_is_lent_its_rings_later() {
    let world = World::new();
    let (mut b, a) = (world.bound("x}1"), world.bound("x{1"));
    full(&mut b);
    let mut a = Guest::new(a);
    let moved = a.read();
    a.tell(moved);
    assert_eq!(notified(&world), [SLEEPER]);
}

#[test]
fn a_program_that_sleeps_on_its_doorbell_is_rung_for_when_the_other_end_kicks() {
    let world = World::new();
    let (mut a, b) = (Guest::new(world.bound("x{1")), Guest::new(world.bound("x}1")));
    let rings = || rustix::io::read(&b.doorbell, &mut [0; 8]).is_ok();
    for _ in 0..3 {
        b.rx.signs().announce_guest_sleep();
        assert!(!rings(), "nothing was sent");
        let moved = a.send(1);
        a.tell(moved);
        assert!(rings());
    }
}

#[test]
fn who_sleeps_after_rings_were_lent_is_told_each_time() {
    let world = World::new();
    let mut a = Guest::new(world.bound("x{1"));
    let mut b = world.bound("x}1");
    for _ in 0..3 {
        sleep(&b, PollEvents::IN, SLEEPER);
        let moved = a.send(1);
        a.tell(moved);
        assert_eq!(notified(&world), [SLEEPER]);
        b.ioctl(NIOCRXSYNC).unwrap();
        view(&b, TxRx::Rx).advance_to(view(&b, TxRx::Rx).tail());
        b.ioctl(NIOCRXSYNC).unwrap();
    }
}

#[test]
fn what_was_sent_before_rings_are_lent_and_after_arrives_at_one_who_slept_all_along() {
    let world = World::new();
    let (b, mut a) = (world.bound("x}1"), world.bound("x{1"));
    sleep(&b, PollEvents::IN, SLEEPER);
    view(&a, TxRx::Tx).advance_to(3);
    a.ioctl(NIOCTXSYNC).unwrap();
    let mut a = Guest::new(a);
    let moved = a.send(4);
    a.tell(moved);
    assert!(!notified(&world).is_empty());
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
    assert_eq!(view(&b, TxRx::Rx).tail(), 7);
}

#[test]
fn an_edge_triggered_reader_is_told_by_a_sender_that_is_lent_its_rings_later() {
    let world = World::new();
    let (b, mut a) = (world.bound("x}1"), world.bound("x{1"));
    view(&a, TxRx::Tx).advance_to(1);
    a.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.open.poll(PollEvents::IN, Some(SLEEPER), Duration::ZERO), PollEvents::IN);
    // The program takes all frames, and then polls only once it is notified.
    view(&b, TxRx::Rx).advance_to(1);
    let mut a = Guest::new(a);
    let moved = a.send(1);
    a.tell(moved);
    assert_eq!(notified(&world), [SLEEPER]);
}

#[test]
fn rings_that_one_program_gave_back_and_another_has_wake_who_sleeps() {
    let world = World::new();
    let b = world.bound("x}1");
    drop(Guest::new(world.bound("x{1")));
    sleep(&b, PollEvents::IN, SLEEPER);
    let mut a = Guest::new(world.bound("x{1"));
    let moved = a.send(1);
    a.tell(moved);
    assert_eq!(notified(&world), [SLEEPER]);
}

#[test]
fn a_sender_that_is_killed_before_it_tells_leaves_nobody_asleep() {
    let world = World::new();
    let b = world.bound("x}1");
    let mut a = Guest::new(world.bound("x{1"));
    sleep(&b, PollEvents::IN, SLEEPER);
    assert!(a.send(1).wake_host);
    drop(a);
    assert_eq!(notified(&world), [SLEEPER]);
}

#[test]
fn a_reader_that_is_killed_before_it_tells_leaves_nobody_asleep() {
    let world = World::new();
    let mut a = Guest::new(world.bound("x{1"));
    let mut b = world.bound("x}1");
    full(&mut b);
    assert!(a.read().wake_host);
    drop(a);
    assert_eq!(notified(&world), [SLEEPER]);
}

#[test]
fn who_sleeps_is_told_though_another_reader_comes_before_the_word_of_the_sender_is_heard() {
    let world = World::new();
    let (first, second) = (world.bound("x}1"), world.bound("x}1"));
    let mut a = Guest::new(world.bound("x{1"));
    sleep(&first, PollEvents::IN, SLEEPER);
    let moved = a.send(1);
    second.open.poll(PollEvents::IN, Some(2), Duration::ZERO);
    a.tell(moved);
    assert!(notified(&world).contains(&SLEEPER));
}

#[test]
fn who_is_told_once_is_not_told_again_for_the_same_frames() {
    let world = World::new();
    let b = world.bound("x}1");
    let mut a = Guest::new(world.bound("x{1"));
    sleep(&b, PollEvents::IN, SLEEPER);
    let moved = a.send(1);
    a.tell(moved);
    assert_eq!(notified(&world), [SLEEPER]);
    assert_eq!(b.open.poll(PollEvents::IN, Some(SLEEPER), Duration::ZERO), PollEvents::IN);
    (0..3).for_each(|_| world.netmap.ticker.tick());
    assert!(notified(&world).is_empty());
}

#[test]
fn who_finds_another_at_the_ring_is_told_to_come_back() {
    let world = World::new();
    let (mut a, b) = (world.bound("x{1"), world.bound("x}1"));
    let port = b.open.bound.get().unwrap().port.clone();
    let end = port.as_delegating().unwrap();
    view(&a, TxRx::Tx).advance_to(1);
    // A frame that was sent before `b` sleeps causes no notification.
    a.ioctl(NIOCTXSYNC).unwrap();
    end.while_locked(TxRx::Rx, 0, &mut || sleep(&b, PollEvents::IN, SLEEPER));
    (0..2).for_each(|_| world.netmap.ticker.tick());
    assert_eq!(notified(&world), [SLEEPER]);
    assert_eq!(b.poll(PollEvents::IN), PollEvents::IN);
}
