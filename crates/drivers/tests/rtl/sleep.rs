//! Tests of interrupts: none while the port is polled, and one per sleep.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_pci::InterruptKind;
use slipring_port::Interest;
use slipring_rtl_model::{Chip, MemoryWire, ModelDevice, locked};

use crate::rig::{Rig, SLOTS, frame, model, open_on};

/// Returns whether the interrupt's event is set, without waiting.
fn has_event(rig: &mut Rig) -> bool {
    let event = rig.queue().wait_fds().rx.unwrap();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn a_polled_port_takes_no_interrupt_and_a_sleeping_one_takes_one() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        for _ in 0..100 {
            rig.deliver(&frame(60, 1));
            rig.send(&frame(60, 2));
            assert!(rig.received().is_some() && rig.sent().is_some());
        }
        assert_eq!(locked(&rig.model).interrupts().fired(), 0);
        for sleep in 1..=20 {
            rig.queue().before_sleep(Interest::RX);
            assert!(rig.received().is_none() && !has_event(&mut rig));
            for _ in 0..5 {
                rig.deliver(&frame(60, 3));
            }
            assert!(has_event(&mut rig), "the sleep ends");
            rig.queue().after_sleep();
            assert!(!has_event(&mut rig));
            for _ in 0..5 {
                assert!(rig.received().is_some());
            }
            assert_eq!(locked(&rig.model).interrupts().fired(), sleep);
        }
        rig.check();
    }
}

#[test]
fn a_frame_that_comes_before_the_sleep_is_seen_by_the_last_look_or_by_the_event() {
    let mut rig = Rig::new(Chip::Rtl8168g);
    rig.deliver(&frame(60, 1));
    rig.queue().before_sleep(Interest::RX);
    assert!(rig.received().is_some(), "the caller looks once more");
    rig.deliver(&frame(60, 2));
    assert!(has_event(&mut rig));
    rig.queue().after_sleep();
    assert!(rig.received().is_some());
    rig.check();
}

/// A card that moderates its interrupts may have causes that it has not signalled yet.
#[test]
fn a_second_call_before_a_sleep_acknowledges_no_cause() {
    const INTERRUPT_STATUS: u64 = 0x3e;
    let mut rig = Rig::new(Chip::Rtl8168g);
    let causes = |rig: &Rig| locked(&rig.model).read_register(INTERRUPT_STATUS, 2);
    rig.queue().before_sleep(Interest::BOTH);
    assert_eq!(causes(&rig), 0);
    rig.deliver(&frame(60, 1));
    let pending = causes(&rig);
    assert_ne!(pending, 0);
    rig.queue().before_sleep(Interest::BOTH);
    assert_eq!(causes(&rig), pending);
    rig.queue().after_sleep();
    assert!(rig.received().is_some());
    rig.check();
}

#[test]
fn a_sleep_for_free_slots_ends_when_frames_are_sent() {
    let mut rig = Rig::new(Chip::Rtl8125a);
    rig.put(&frame(60, 1), &[60]);
    rig.queue().before_sleep(Interest::TX);
    rig.queue().tx_sync().unwrap();
    assert!(has_event(&mut rig));
    rig.queue().after_sleep();
    rig.check();
}

/// An interrupt line is masked once it has fired, and does not fire again until the driver unmasks
/// it.
#[test]
fn a_port_with_a_line_or_msi_sleeps_as_often_as_it_likes() {
    for kind in [InterruptKind::IntX, InterruptKind::Msi] {
        for chip in Chip::ALL {
            let (near, cable) = MemoryWire::pair();
            let model = model(chip, Box::new(near));
            let port = open_on(Box::new(ModelDevice::with_only(&model, kind)), SLOTS).unwrap();
            assert_eq!(port.info.mode.get("irq"), Some(kind.name()));
            let mut rig = Rig { model, cable, port };
            for sleep in 1..=20 {
                rig.queue().before_sleep(Interest::BOTH);
                assert!(rig.received().is_none() && !has_event(&mut rig));
                rig.deliver(&frame(60, 3));
                assert!(has_event(&mut rig), "sleep {sleep} ends, by {kind:?}");
                rig.queue().after_sleep();
                assert!(rig.received().is_some() && !has_event(&mut rig));
                assert_eq!(locked(&rig.model).interrupts().fired(), sleep);
            }
            rig.check();
        }
    }
}
