//! Tests with frames of all lengths, in both directions.

use std::collections::BTreeSet;

use slipring_ring::SlotFlags;
use slipring_rtl_model::{Chip, locked};

use crate::rig::{MAC, Rig, SLOTS, frame};

#[test]
fn each_chip_is_known_by_its_identity_and_has_its_own_address() {
    let names = ["RTL8168g/8111g", "RTL8168h/8111h", "RTL8125A", "RTL8125B"];
    for (chip, name) in Chip::ALL.into_iter().zip(names) {
        let rig = Rig::new(chip);
        assert_eq!(rig.port.info.mac, Some(MAC));
        let mode = rig.port.info.mode.to_string();
        let mbit = if chip.is_8125() { "mbit=2500" } else { "mbit=1000" };
        assert!(mode.contains(name) && mode.contains(mbit), "{mode}");
        assert!(mode.contains("irq=msix"), "{mode}");
        rig.check();
    }
}

#[test]
fn frames_pass_in_both_directions_and_short_ones_are_padded_with_zeros() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        for len in [14, 42, 59, 60, 61, 64, 590, 1514, 2047, 2048] {
            let out = frame(len, 7);
            rig.send(&out);
            let mut padded = out.clone();
            padded.resize(len.max(60), 0);
            assert_eq!(rig.sent(), Some(padded), "{len}");
        }
        for len in [60, 61, 64, 1514, 2043, 2044] {
            rig.deliver(&frame(len, 9));
            assert_eq!(rig.received(), Some((frame(len, 9), 1)), "{len}");
        }
        rig.check();
    }
}

/// The chip writes the frame's CRC into the buffers after the frame. So for some lengths, the last
/// buffer contains only bytes of the CRC, and is not part of the frame.
#[test]
fn long_frames_take_several_slots_and_none_of_them_is_empty() {
    for chip in [Chip::Rtl8168h, Chip::Rtl8125b] {
        let mut rig = Rig::new(chip);
        for len in [2045, 2046, 2047, 2048, 2049, 4092, 4093, 4096, 4097, 9000, 9014] {
            for _ in 0..3 {
                rig.deliver(&frame(len, 3));
                let slots = len.div_ceil(2048) as u32;
                let is_whole = rig.received() == Some((frame(len, 3), slots));
                assert!(is_whole, "{len}");
            }
        }
        for parts in
            [vec![2048, 2048, 2048, 2048, 808], vec![1, 2048], vec![10, 10, 10], vec![59, 1]]
        {
            let out = frame(parts.iter().sum(), 5);
            rig.put(&out, &parts);
            rig.queue().tx_sync().unwrap();
            let mut padded = out.clone();
            padded.resize(out.len().max(60), 0);
            assert_eq!(rig.sent(), Some(padded), "{parts:?}");
        }
        rig.check();
    }
}

/// Many rounds through both rings, with batches of every size.
#[test]
fn no_frame_is_lost_doubled_or_reordered_over_many_rounds() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        let (mut count, mut seed, mut batches) = (0u32, 1u32, BTreeSet::new());
        for round in 0..400u32 {
            // 8 and SLOTS - 1 have no common factor.
            let batch = 1 + round * 8 % (SLOTS - 1);
            batches.insert(batch);
            assert!(rig.queue().rings().tx.avail() >= batch);
            for i in 0..batch {
                // An arbitrary sequence of lengths.
                seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                let len = 60 + seed as usize / 65_536 % 600;
                let tx = rig.queue().rings().tx;
                tx.set(i, len, SlotFlags::default());
                tx.bytes(i).unwrap().copy_in(&frame(len, (count + i) as u8));
            }
            rig.queue().rings().tx.advance(batch);
            rig.queue().tx_sync().unwrap();
            rig.queue().tx_sync().unwrap();
            assert_eq!(rig.queue().rings().tx.avail(), SLOTS - 1, "all have been sent");
            for i in 0..batch {
                let out = rig.sent().unwrap();
                assert_eq!(out, frame(out.len(), (count + i) as u8));
                rig.deliver(&out);
            }
            for i in 0..batch {
                let (back, _) = rig.received().unwrap();
                assert_eq!(back, frame(back.len(), (count + i) as u8));
            }
            count += batch;
        }
        assert_eq!(batches.len() as u32, SLOTS - 1);
        let snapshot = rig.queue().counters().snapshot();
        assert_eq!((snapshot.tx.packets, snapshot.rx.packets), (count.into(), count.into()));
        let tally = locked(&rig.model).tally();
        assert_eq!((tally.tx_frames, tally.rx_frames), (count.into(), count.into()));
        rig.check();
    }
}

#[test]
fn a_batch_costs_one_register_write_to_send_and_none_to_receive() {
    for chip in Chip::ALL {
        let mut rig = Rig::with_slots(chip, 128);
        // The first sync reads the state of the link.
        rig.queue().tx_sync().unwrap();
        let before = locked(&rig.model).accesses();
        for _ in 0..100 {
            assert!(rig.queue().rings().tx.avail() >= 32);
            for i in 0..32 {
                let tx = rig.queue().rings().tx;
                tx.set(i, 60, SlotFlags::default());
                tx.bytes(i).unwrap().copy_in(&frame(60, 0));
            }
            rig.queue().rings().tx.advance(32);
            rig.queue().tx_sync().unwrap();
            while let Some(out) = rig.sent() {
                rig.deliver(&out);
            }
            while rig.received().is_some() {}
        }
        let after = locked(&rig.model).accesses();
        assert_eq!(after.writes - before.writes, 100);
        assert_eq!(after.doorbells - before.doorbells, 100);
        assert_eq!(locked(&rig.model).tally().rx_frames, 3200);
        // The link is read, but not for each batch.
        assert!(after.reads - before.reads < 10, "{after:?} {before:?}");
        rig.check();
    }
}

/// The chips of 2.5 Gbit/s stop at a short PTP message, so the driver lengthens the frame. The
/// length in the IP header stays as it was.
#[test]
fn a_short_message_of_ptp_is_lengthened_where_the_chip_would_stop() {
    for chip in Chip::ALL {
        let mut rig = Rig::new(chip);
        for payload in [0, 10, 38, 39] {
            let mut message = frame(42 + payload, 5);
            message[12..15].copy_from_slice(&[8, 0, 0x45]);
            message[23] = 17;
            message[36..38].copy_from_slice(&319u16.to_be_bytes());
            let parts = [20, 16, message.len() - 36];
            rig.put(&message, &parts);
            rig.send(&message);
            // The UDP header begins at byte 34. A chip of 2.5 Gbit/s reads 47 bytes from there on.
            let least = if chip.is_8125() { 34 + 47 } else { 60 };
            for _ in 0..2 {
                let sent = rig.sent().unwrap();
                assert_eq!(sent.len(), message.len().max(least), "{chip:?}, {payload} bytes");
                assert_eq!(sent[..message.len()], message);
                assert!(sent[message.len()..].iter().all(|&byte| byte == 0));
            }
            assert_eq!(rig.sent(), None);
        }
        rig.check();
    }
}
