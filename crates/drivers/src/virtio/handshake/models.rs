//! Models of the handshake, against a device as the specification describes it: virtio 1.2,
//! sections 2.7.7, 2.7.10, 2.7.13 and 2.7.14.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, fence};
use loom::thread;
use slipring_test_support::models::{explore, fails};

use super::{NO_INTERRUPT, NO_NOTIFY, QueueWords, publish, set_interrupts, used_index};

/// The driver's barriers, as bits of the const parameter that says which of them are left out.
const BEFORE_PUBLISHING: u8 = 1;
const AFTER_READING: u8 = 2;
const FULL: u8 = 4;

/// A queue with one chain, of one buffer.
struct Shared<const WITHOUT: u8> {
    flags: AtomicU16,
    index: AtomicU16,
    used: AtomicU32,
    buffer: AtomicU32,
    doorbell: AtomicBool,
    interrupt: AtomicBool,
}

impl<const WITHOUT: u8> Shared<WITHOUT> {
    /// Neither side wants to be woken yet.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flags: AtomicU16::new(NO_INTERRUPT),
            index: AtomicU16::new(0),
            used: AtomicU32::new(NO_NOTIFY),
            buffer: AtomicU32::new(0),
            doorbell: AtomicBool::new(false),
            interrupt: AtomicBool::new(false),
        })
    }
}

impl<const WITHOUT: u8> QueueWords for Shared<WITHOUT> {
    fn set_flags(&self, flags: u16) {
        self.flags.store(flags, Relaxed);
    }

    fn set_index(&self, index: u16) {
        self.index.store(index, Relaxed);
    }

    fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    fn before_publishing() {
        if WITHOUT & BEFORE_PUBLISHING == 0 {
            fence(Release);
        }
    }

    fn after_reading() {
        if WITHOUT & AFTER_READING == 0 {
            fence(Acquire);
        }
    }

    fn full_barrier() {
        fence(if WITHOUT & FULL == 0 { SeqCst } else { AcqRel });
    }
}

/// The driver publishes a chain while the device goes to sleep.
fn sending<const WITHOUT: u8>() {
    let queue = Shared::<WITHOUT>::new();
    let device = thread::spawn({
        let queue = queue.clone();
        move || {
            // The device has found nothing: it asks for a doorbell, and looks once more.
            queue.used.store(0, Relaxed);
            fence(SeqCst);
            let has_seen = queue.index.load(Acquire) == 1;
            if has_seen {
                assert_eq!(queue.buffer.load(Relaxed), 7, "the frame that was published");
            }
            has_seen
        }
    });
    queue.buffer.store(7, Relaxed);
    if publish(&*queue, 1) {
        queue.doorbell.store(true, Release);
    }
    let has_seen = device.join().unwrap();
    assert!(has_seen || queue.doorbell.load(Acquire), "a device that sleeps beside a chain");
}

/// The device uses a chain while the driver goes to sleep.
fn receiving<const WITHOUT: u8>() {
    let queue = Shared::<WITHOUT>::new();
    let device = thread::spawn({
        let queue = queue.clone();
        move || {
            queue.buffer.store(9, Relaxed);
            queue.used.store(NO_NOTIFY | 1 << 16, Release);
            fence(SeqCst);
            if queue.flags.load(Relaxed) & NO_INTERRUPT == 0 {
                queue.interrupt.store(true, Release);
            }
        }
    });
    set_interrupts(&*queue, true);
    let has_seen = used_index(&*queue) == 1;
    if has_seen {
        assert_eq!(queue.buffer.load(Relaxed), 9, "the frame that the device has written");
    }
    device.join().unwrap();
    assert!(has_seen || queue.interrupt.load(Acquire), "a driver that sleeps beside a frame");
}

#[test]
fn a_device_that_goes_to_sleep_sees_the_chain_or_gets_a_doorbell() {
    explore(sending::<0>);
}

#[test]
fn a_driver_that_goes_to_sleep_sees_the_frame_or_gets_an_interrupt() {
    explore(receiving::<0>);
}

#[test]
fn without_one_of_the_barriers_a_side_sleeps_for_ever_or_reads_too_early() {
    assert!(
        fails(sending::<BEFORE_PUBLISHING>),
        "frames that are published before they are written"
    );
    assert!(fails(sending::<FULL>), "a doorbell that nobody rings");
    assert!(fails(receiving::<AFTER_READING>), "a frame that is read before it has arrived");
    assert!(fails(receiving::<FULL>), "an interrupt that is never raised");
}
