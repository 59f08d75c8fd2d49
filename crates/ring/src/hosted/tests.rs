use super::*;
use crate::doorbell::SleepAnnouncement;
use crate::mem::{Slot, SlotFlags};
use crate::region::{DeviceMapping, Geometry, HugePages};

fn slots(done: Result<SyncReport, HostedSyncError>) -> Result<u32, HostedSyncError> {
    done.map(|moved| moved.slots)
}

fn region() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 64, buf_size: 2048 };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

/// Returns a region for the private words of a host.
fn host() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 4096, bufs: 2, buf_size: 2048 };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

/// Acts as a program that sends: fills a slot for each of `flags` from head on and publishes them.
fn send(tx: &HostedTx, flags: &[u16]) {
    let mem = &tx.direction.0.tx;
    let mut at = mem.head().load(std::sync::atomic::Ordering::Relaxed);
    for &flags in flags {
        let slot = mem.slot(at).get();
        mem.slot(at).set(Slot { len: 60, flags: SlotFlags(flags), ..slot });
        at = tx.kern.next(at);
    }
    mem.cur().store(at, std::sync::atomic::Ordering::Relaxed);
    mem.head().store(at, std::sync::atomic::Ordering::Release);
}

#[test]
fn slots_under_way_come_back_only_when_the_receiver_releases_them() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    send(&tx, &[0; 7]);
    assert_eq!(slots(tx.sync()), Ok(7));
    assert_eq!(slots(rx.sync()), Ok(0));
    assert_eq!(rx.kern.hwtail(), 7);
    assert_eq!(slots(tx.sync()), Ok(0));
    assert!(!tx.kern.view().is_ready(), "the ring is full until the receiver lets go");
    let mem = &rx.direction.0.rx;
    mem.cur().store(3, std::sync::atomic::Ordering::Relaxed);
    mem.head().store(3, std::sync::atomic::Ordering::Release);
    assert_eq!(slots(rx.sync()), Ok(3));
    assert_eq!(slots(tx.sync()), Ok(0));
    assert_eq!(tx.kern.hwtail(), 2);
}

#[test]
fn a_packet_is_published_when_its_last_fragment_is_there() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let more = SlotFlags::MOREFRAG.0;
    send(&tx, &[0, more, more]);
    assert_eq!(slots(tx.sync()), Ok(1));
    assert_eq!(rx.sync().map(|_| rx.kern.hwtail()), Ok(1));
    send(&tx, &[0]);
    assert_eq!(slots(tx.sync()), Ok(3));
    assert_eq!(rx.sync().map(|_| rx.kern.hwtail()), Ok(4));
}

#[test]
fn buffers_come_back_when_both_halves_are_gone_also_those_the_receiver_exchanged() {
    let region = region();
    let free = region.free_bufs();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let own = region.alloc_bufs(1).unwrap()[0];
    send(&tx, &[0; 2]);
    tx.sync().unwrap();
    rx.sync().unwrap();
    let cell = rx.direction.0.rx.slot(0);
    let sent = cell.get();
    cell.set(Slot { buf: own, flags: SlotFlags::BUF_CHANGED, ..sent });
    drop((tx, rx));
    region.release_bufs([sent.buf]);
    assert_eq!(region.free_bufs(), free);
}

/// Returns the halves of the direction as created by a program that has mapped the same memory.
fn guest(region: &Arc<Region>, layout: DirectionLayout) -> (HostedTx, HostedRx) {
    let fd = region.fd().try_clone_to_owned().unwrap();
    let mapping = DeviceMapping::new(fd, region.size()).unwrap();
    let foreign = mapping.into_region(region.data_start(), region.buf_size()).unwrap();
    let tx = HostedTx::attach(&foreign, layout, 2).unwrap();
    (tx, HostedRx::attach(&foreign, layout, 3).unwrap())
}

/// Acts as a program that has read the frames up to slot `to` and releases the slots.
fn release(rx: &HostedRx, to: u32) {
    rx.kern.view().advance_to(to);
}

#[test]
fn halves_that_are_shared_go_on_in_another_process_and_come_back() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    send(&tx, &[0; 3]);
    assert_eq!(slots(tx.sync()), Ok(3));
    let layout = share(&mut tx, &mut rx).unwrap();
    assert_eq!(share(&mut tx, &mut rx).unwrap(), layout);
    let (mut guest_tx, mut guest_rx) = guest(&region, layout);
    assert_eq!(slots(guest_rx.sync()), Ok(0));
    assert_eq!(guest_rx.kern.hwtail(), 3, "what was sent before has arrived");
    send(&tx, &[0; 4]);
    assert_eq!(slots(guest_tx.sync()), Ok(4));
    assert_eq!(slots(tx.sync()), Ok(0), "the guest has sent it");
    release(&guest_rx, 5);
    assert!(matches!(rx.sync(), Err(HostedSyncError::Reinit(_))), "five were not yet received");
    release(&guest_rx, 0);
    assert_eq!(slots(rx.sync()), Ok(0));
    release(&guest_rx, 5);
    assert_eq!(slots(guest_rx.sync()), Ok(5));
    assert_eq!((rx.kern.hwcur(), guest_rx.kern.hwcur()), (0, 5));
    assert_eq!(slots(rx.sync()), Ok(0), "the guest has given them back");
    assert_eq!((slots(tx.sync()), tx.kern.hwtail()), (Ok(0), 4));
}

#[test]
fn a_half_that_a_killed_program_held_is_free_again_and_nothing_is_lost() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let layout = share(&mut tx, &mut rx).unwrap();
    let (mut guest_tx, mut guest_rx) = guest(&region, layout);
    send(&tx, &[0; 2]);
    let side = tx.direction.0.shared_half(RingDir::Tx).unwrap();
    assert!(side.owner.claim(2), "it was killed here");
    assert_eq!(guest_tx.sync(), Err(HostedSyncError::Busy));
    assert_eq!(tx.sync(), Err(HostedSyncError::Busy));
    tx.signs().release_owner(3);
    assert!(tx.signs().is_held_by_guest(), "another program's death is no reason");
    tx.signs().release_owner(2);
    assert_eq!(slots(tx.sync()), Ok(2));
    assert_eq!(slots(guest_rx.sync()).map(|_| guest_rx.kern.hwtail()), Ok(2));
}

#[test]
fn sleepers_are_told_of_to_one_syncer_of_the_other_half() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let layout = share(&mut tx, &mut rx).unwrap();
    let (mut guest_tx, guest_rx) = guest(&region, layout);
    guest_rx.signs().announce_guest_sleep();
    let mut announced = SleepAnnouncement::already_announced();
    assert!(!rx.signs().announce_host_sleep(&mut announced));
    assert_eq!(guest_tx.sync(), Ok(SyncReport::default()), "nothing to wake anybody for");
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync(), Ok(SyncReport { slots: 1, wake_guest: true, wake_host: true }));
    assert!(rx.signs().take_host_wakeup(&mut announced));
    assert!(!rx.signs().take_host_wakeup(&mut announced), "once");
    send(&tx, &[0]);
    assert_eq!(tx.sync(), Ok(SyncReport::from(1)));
}

#[test]
fn halves_that_are_shared_say_that_somebody_may_sleep_for_whom_the_host_syncs() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let layout = share(&mut tx, &mut rx).unwrap();
    let (mut guest_tx, mut guest_rx) = guest(&region, layout);
    send(&tx, &[0; 2]);
    assert_eq!(guest_tx.sync(), Ok(SyncReport { slots: 2, wake_guest: false, wake_host: true }));
    assert_eq!(slots(guest_rx.sync()), Ok(0));
    release(&guest_rx, 2);
    assert_eq!(guest_rx.sync(), Ok(SyncReport { slots: 2, wake_guest: false, wake_host: true }));
}

#[test]
fn a_host_leaves_its_own_announcement_to_programs() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let layout = share(&mut tx, &mut rx).unwrap();
    let (mut guest_tx, _) = guest(&region, layout);
    send(&tx, &[0]);
    assert_eq!(tx.sync(), Ok(SyncReport::from(1)));
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync(), Ok(SyncReport { slots: 1, wake_guest: false, wake_host: true }));
}

#[test]
fn a_half_that_is_kept_to_its_host_is_not_synced_by_a_guest() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let layout = share(&mut tx, &mut rx).unwrap();
    let (mut guest_tx, _) = guest(&region, layout);
    tx.signs().set_host_only(true);
    assert_eq!(guest_tx.sync(), Err(HostedSyncError::HostOnly));
    assert!(!tx.signs().is_held_by_guest());
    assert!(tx.sync().is_ok());
    tx.signs().set_host_only(false);
    assert!(guest_tx.sync().is_ok());
}

#[test]
fn spoiled_words_are_told_and_hurt_nobody() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    share(&mut tx, &mut rx).unwrap();
    for bad in [8, u32::MAX] {
        for spoil in [RingDir::Tx, RingDir::Rx] {
            let direction = tx.direction.clone();
            let words = direction.0.shared_half(spoil).unwrap();
            let right = (words.at.acquire(), words.tail.acquire());
            for spoil in [0, 1] {
                if spoil == 0 {
                    words.at.release(bad)
                } else {
                    words.tail.release(bad)
                }
                send(&tx, &[0]);
                let _ = (tx.sync(), rx.sync());
            }
            words.at.release(right.0);
            words.tail.release(right.1);
        }
        assert!(tx.kern.hwtail() < 8 && rx.kern.hwtail() < 8);
    }
    tx.direction.0.position(RingDir::Rx).release(u32::MAX);
    drop((tx, rx));
}

#[test]
fn words_go_back_to_their_region_with_the_direction() {
    let region = region();
    let room = region.alloc_ring_bytes(128).unwrap();
    for _ in 0..100 {
        let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 32).unwrap();
        share(&mut tx, &mut rx).unwrap();
    }
    assert!(region.alloc_ring_bytes((64 << 10) - 8192).is_ok());
    region.release_ring_bytes(room, 128);
}

/// Returns a shared direction that is lent to a program: the host's halves, and the program's.
fn lent(region: &Arc<Region>) -> ((HostedTx, HostedRx), (HostedTx, HostedRx)) {
    let (mut tx, mut rx) = hosted_direction(region, &host(), 0, 8).unwrap();
    let place = share(&mut tx, &mut rx).unwrap();
    tx.signs().set_holder(2);
    rx.signs().set_holder(3);
    ((tx, rx), guest(region, place))
}

const KICK: SyncReport = SyncReport { slots: 1, wake_guest: false, wake_host: true };

#[test]
fn a_program_without_doorbells_kicks_the_host_for_sleepers_of_either_kind() {
    let region = region();
    let ((tx, rx), (mut guest_tx, mut guest_rx)) = lent(&region);
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync_or_leave(), Ok(KICK), "somebody may sleep for whom the host syncs");
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync_or_leave(), Ok(SyncReport::from(1)), "nobody has slept since");
    guest_rx.signs().announce_guest_sleep();
    assert_eq!(guest_tx.sync_or_leave(), Ok(SyncReport::default()), "nothing was sent");
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync_or_leave(), Ok(KICK));
    assert!(rx.signs().take_guest_sleep(), "the host rings for the program");
    assert!(!rx.signs().take_guest_sleep(), "once");
    guest_rx.signs().announce_guest_sleep();
    guest_rx.signs().clear_guest_sleep();
    assert!(!rx.signs().take_guest_sleep());
    assert_eq!(slots(guest_rx.sync_or_leave()), Ok(0));
    release(&guest_rx, 2);
    assert_eq!(slots(guest_rx.sync_or_leave()), Ok(2));
}

#[test]
fn a_program_leaves_a_half_that_it_has_lost_and_impossible_indices_to_the_host() {
    let region = region();
    let ((tx, rx), (mut guest_tx, mut guest_rx)) = lent(&region);
    assert!(guest_tx.is_lent() && guest_rx.is_lent());
    release(&guest_rx, 5);
    assert_eq!(guest_rx.sync_or_leave(), Err(HostedSyncError::HostOnly), "nothing was received");
    tx.signs().set_holder(9);
    rx.signs().release_owner(3);
    assert!(!guest_tx.is_lent() && !guest_rx.is_lent());
    send(&tx, &[0]);
    assert_eq!(guest_tx.sync_or_leave(), Err(HostedSyncError::HostOnly));
}

#[test]
fn the_host_sees_the_released_slots_before_the_sender_gets_them() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    send(&tx, &[0; 3]);
    tx.sync().unwrap();
    rx.sync().unwrap();
    release(&rx, 2);
    let mut seen = None;
    let moved = rx.sync_released(|kern, from, to| seen = Some((kern.hwcur(), from, to)));
    assert_eq!((slots(moved), seen), (Ok(2), Some((0, 0, 2))));
}

#[test]
fn a_buffer_that_the_receiver_exchanged_is_in_the_senders_slot_when_it_comes_back() {
    let region = region();
    let (mut tx, mut rx) = hosted_direction(&region, &host(), 0, 8).unwrap();
    let other = region.alloc_bufs(1).unwrap()[0];
    send(&tx, &[0; 2]);
    tx.sync().unwrap();
    rx.sync().unwrap();
    let kept = tx.kern.slot(1).buf;
    let cell = rx.direction.0.rx.slot(0);
    cell.set(Slot { buf: other, flags: SlotFlags::BUF_CHANGED, ..cell.get() });
    release(&rx, 2);
    rx.sync().unwrap();
    assert_eq!([tx.kern.slot(0).buf, tx.kern.slot(1).buf], [other, kept]);
}

#[test]
fn a_half_that_the_host_is_syncing_is_busy_for_programs_and_not_for_the_host() {
    let region = region();
    let ((mut tx, _rx), (mut guest_tx, _)) = lent(&region);
    assert!(tx.direction.0.shared_half(RingDir::Tx).unwrap().owner.claim(HOST_OWNER));
    assert_eq!(guest_tx.sync(), Err(HostedSyncError::Busy));
    assert!(tx.sync().is_ok() && guest_tx.sync().is_ok());
}

#[test]
fn sleepers_whose_announcement_was_consumed_unseen_are_woken_by_the_next_announcement() {
    let region = region();
    let ((tx, rx), (mut guest_tx, _)) = lent(&region);
    let mut announced = SleepAnnouncement::already_announced();
    assert!(!rx.signs().announce_host_sleep(&mut announced));
    send(&tx, &[0]);
    assert!(guest_tx.sync().unwrap().wake_host);
    assert!(rx.signs().announce_host_sleep(&mut announced), "the earlier sleepers");
    assert!(!rx.signs().announce_host_sleep(&mut announced), "once");
}
