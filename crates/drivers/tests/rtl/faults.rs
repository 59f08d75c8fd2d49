//! Tests of faults of a card.

use std::time::Duration;

use slipring_pci::PciDevice;
use slipring_port::{DropCause, Interest, OpenCause, RunCause, now};
use slipring_rtl_model::{Chip, ModelDevice, RxFault, Speed, locked};

use crate::rig::{Rig, SLOTS, frame, model, open};

#[test]
fn a_damaged_frame_is_counted_and_its_buffer_receives_the_next_one() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        let faults = [RxFault::Crc, RxFault::Runt, RxFault::Other, RxFault::TooLong];
        for round in 0..3 * SLOTS {
            let fault = faults[round as usize % faults.len()];
            locked(&rig.model).fail_receive(fault);
            let len = if round % 3 == 0 { 5000 } else { 100 };
            rig.deliver(&frame(len, 1));
            assert_eq!(rig.received(), None, "{fault:?}");
            rig.deliver(&frame(200, 2));
            assert_eq!(rig.received(), Some((frame(200, 2), 1)));
        }
        let (all, long) = (u64::from(3 * SLOTS), u64::from(3 * SLOTS / 4));
        assert_eq!(rig.drops(DropCause::RxTooLong), long);
        assert_eq!(rig.drops(DropCause::RxMalformed), all - long);
        rig.check();
    }
}

#[test]
fn frames_that_find_no_slot_or_no_space_in_the_fifo_are_counted() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        for i in 0..SLOTS + 10 {
            rig.deliver(&frame(60, i as u8));
        }
        let mut received = 0;
        while rig.received().is_some() {
            received += 1;
        }
        assert_eq!(rig.drops(DropCause::RxRingFull), u64::from(SLOTS + 10 - received));
        locked(&rig.model).overflow_fifo(3);
        for _ in 0..5 {
            rig.deliver(&frame(60, 0));
        }
        assert_eq!(rig.drops(DropCause::RxRingFull), u64::from(SLOTS + 13 - received));
        assert!(rig.received().is_some() && rig.received().is_some() && rig.received().is_none());
        rig.check();
    }
}

/// The chip's counter of missed frames has 16 bits.
#[test]
fn more_missed_frames_than_the_chip_can_count_are_counted_if_they_are_fetched_in_time() {
    let mut rig = Rig::new(Chip::Rtl8168h);
    for round in 1..=3 {
        locked(&rig.model).overflow_fifo(40_000);
        for _ in 0..40_000 {
            rig.deliver(&frame(60, 0));
        }
        assert_eq!(rig.drops(DropCause::RxRingFull), 40_000 * round);
    }
    rig.check();
}

#[test]
fn a_frame_that_the_card_fails_to_send_is_counted() {
    let mut rig = Rig::new(Chip::Rtl8125b);
    locked(&rig.model).fail_sends(2);
    for _ in 0..5 {
        rig.send(&frame(60, 0));
    }
    assert_eq!(rig.drops(DropCause::TxRefused), 2);
    assert_eq!((0..5).filter_map(|_| rig.sent()).count(), 3);
    rig.check();
}

/// Only a repeated doorbell makes the chip send the frame. The queue's deadline is the time at
/// which the next sync can repeat it.
#[test]
fn a_lost_doorbell_is_rung_again() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        locked(&rig.model).lose_doorbells(2);
        rig.send(&frame(60, 4));
        assert_eq!(rig.sent(), None);
        // Each iteration probes the card at most once, and the second probe succeeds.
        while rig.sent().is_none() {
            rig.queue().tx_sync().unwrap();
            if let Some(deadline) = rig.queue().deadline() {
                while now() < deadline {
                    std::thread::yield_now();
                }
            }
        }
        rig.queue().tx_sync().unwrap();
        assert_eq!(rig.queue().rings().tx.avail(), SLOTS - 1);
        rig.check();
    }
}

/// Takes 10 s, the time after which a card counts as stuck.
#[test]
fn a_card_that_sends_nothing_although_it_has_a_link_ends_the_port_as_stuck() {
    let mut rig = Rig::new(Chip::Rtl8168h);
    locked(&rig.model).lose_doorbells(u32::MAX);
    rig.send(&frame(60, 4));
    let error = loop {
        if let Err(error) = rig.queue().tx_sync() {
            break error;
        }
        let deadline = rig.queue().deadline().expect("a wait for the frame has an end");
        std::thread::sleep(Duration::from_nanos(deadline.saturating_sub(now())));
    };
    assert!(matches!(error.cause, RunCause::CardStuck { seconds: 10 }), "{error}");
    assert_eq!(rig.sent(), None);
}

/// Takes 11 s, more than the time after which a card counts as stuck. Probes ring the doorbell
/// again, so the card sends the frame, but no tx sync sees it.
#[test]
fn a_card_is_not_stuck_if_the_program_only_receives_after_it_has_sent() {
    let mut rig = Rig::new(Chip::Rtl8168h);
    locked(&rig.model).lose_doorbells(1);
    rig.send(&frame(60, 4));
    let until = now() + 11_000_000_000;
    while now() < until {
        rig.queue().before_sleep(Interest::RX);
        rig.queue().rx_sync().unwrap();
        rig.queue().after_sleep();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(rig.sent(), Some(frame(60, 4)));
    rig.queue().tx_sync().unwrap();
    rig.check();
}

#[test]
fn frames_wait_while_the_cable_is_out_and_leave_when_it_is_back() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        rig.queue().before_sleep(Interest::BOTH);
        locked(&rig.model).set_cable(None);
        rig.queue().after_sleep();
        rig.queue().rx_sync().unwrap();
        assert!(rig.queue().is_link_down());
        rig.send(&frame(60, 1));
        assert_eq!(rig.sent(), None);
        rig.queue().before_sleep(Interest::BOTH);
        locked(&rig.model).set_cable(Some(Speed::M100));
        rig.queue().after_sleep();
        rig.queue().tx_sync().unwrap();
        assert!(!rig.queue().is_link_down());
        assert_eq!(rig.sent(), Some(frame(60, 1)));
        rig.check();
    }
}

#[test]
fn a_card_that_is_gone_ends_the_port_with_its_cause() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        rig.send(&frame(60, 1));
        rig.queue().rx_sync().unwrap();
        locked(&rig.model).set_gone(true);
        let error = rig.sleep_until_it_ends();
        assert!(matches!(error.cause, RunCause::CardGone), "{error}");
        let snapshot = rig.queue().counters().snapshot();
        assert_eq!(snapshot.tx.packets + snapshot.in_flight, 1);
        // Calls on a removed card have no effect.
        rig.queue().update_stats();
        rig.check();
    }
}

#[test]
fn a_card_that_something_else_has_reset_ends_the_port_with_its_cause() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        rig.queue().rx_sync().unwrap();
        let other = ModelDevice::new(&rig.model);
        // The command register, and its bit for a reset.
        other.bar(2).unwrap().write8(0x37, 0x10);
        let error = rig.sleep_until_it_ends();
        assert!(matches!(error.cause, RunCause::CardReset), "{error}");
        assert_eq!(error.code(), "SR0401");
    }
}

#[test]
fn a_chip_that_is_gone_or_unknown_is_refused_by_name() {
    let gone = model(Chip::Rtl8168h, Box::new(slipring_rtl_model::Loop::default()));
    locked(&gone).set_gone(true);
    let text = open(&gone, SLOTS).unwrap_err().to_string();
    assert!(text.contains("answer"), "{text}");
    for (xid, name) in [(0x480, "RTL8168f/8111f (XID 480)"), (0xf0f, "chip (XID f0f)")] {
        let other = model(Chip::Rtl8168h, Box::new(slipring_rtl_model::Loop::default()));
        locked(&other).pretend_xid(xid);
        let error = open(&other, SLOTS).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        let OpenCause::Card { help, .. } = error else { panic!("another cause") };
        assert!(help.unwrap().contains("RTL8168h (541)"));
        assert_eq!(locked(&other).accesses().writes, 0, "nothing is changed");
    }
}
