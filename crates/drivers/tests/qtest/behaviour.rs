//! Tests of the behaviour that all drivers share.

use slipring_drivers::drivers;
use slipring_port::{DropCause, Interest, OpenOptions, RunCause};
use slipring_ring::SlotFlags;

use crate::card::{BROADCAST, Card, MAC, OTHER_MAC, SLOTS, frames};

/// A device model of QEMU, and its driver.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) device: &'static str,
    pub(crate) driver: &'static str,
}

impl Model {
    /// Whether the driver can set a speed.
    fn has_phy(self) -> bool {
        let driver = drivers().find(|driver| driver.name() == self.driver).unwrap();
        driver.chips().iter().any(|chip| !driver.abilities(chip).speeds.is_empty())
    }
}

/// Several times as many frames as a ring has slots.
const MANY: usize = 5 * SLOTS as usize;

pub(crate) fn frames_leave_whole_and_in_order_and_are_counted(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let sent = frames(MANY, OTHER_MAC);
    let seen = card.send_and_watch(&sent);
    assert_eq!(seen, sent);
    let stats = card.port.stats();
    let bytes: usize = sent.iter().map(Vec::len).sum();
    assert_eq!((stats.tx.packets, stats.tx.bytes), (MANY as u64, bytes as u64));
    assert_eq!((stats.drops().count(), stats.strays), (0, 0));
    assert_eq!(card.port.info.mac, Some(MAC));
    assert_eq!(card.port.info.mode.get("driver"), Some(model.driver));
}

pub(crate) fn frames_arrive_whole_and_in_order_while_the_program_sleeps(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let sent = frames(MANY, MAC);
    assert_eq!(card.receive(&sent), sent);
    let stats = card.port.stats();
    assert_eq!((stats.rx.packets, stats.drops().count()), (MANY as u64, 0));
}

pub(crate) fn frames_for_other_hosts_arrive_only_if_asked_for(model: Model) {
    for promiscuous in [true, false] {
        let options = OpenOptions { slots: SLOTS, promiscuous, ..OpenOptions::default() };
        let Some(mut card) = Card::open_with(model.device, options) else { return };
        let mut sent = frames(4, OTHER_MAC);
        sent.extend(frames(1, [0x33, 0x33, 0, 0, 0, 1]));
        sent.extend(frames(1, BROADCAST));
        // When the last frame arrives, all earlier frames have been accepted or dropped.
        sent.extend(frames(1, MAC));
        let expected = if promiscuous { &sent[..] } else { &sent[4..] };
        assert_eq!(card.receive_some(&sent, expected.len()), expected);
    }
}

pub(crate) fn a_pulled_cable_is_reported_and_frames_flow_when_it_is_back(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    card.wait_for_link(true);
    card.set_link(false);
    card.wait_for_link(false);
    card.set_link(true);
    card.wait_for_link(true);
    let sent = frames(8, OTHER_MAC);
    assert_eq!(card.send_and_watch(&sent), sent);
    let sent = frames(8, MAC);
    assert_eq!(card.receive(&sent), sent);
}

pub(crate) fn a_port_that_ends_with_its_link_outlives_the_negotiation_and_ends_at_a_pulled_cable(
    model: Model,
) {
    let options = OpenOptions { slots: SLOTS, exit_on_link_down: true, ..OpenOptions::default() };
    let Some(mut card) = Card::open_with(model.device, options) else { return };
    card.sync(Interest::BOTH).unwrap();
    card.wait_for_link(true);
    card.set_link(false);
    let error = card.wait_for_end();
    assert!(matches!(error.cause, RunCause::WentDown), "{error}");
}

pub(crate) fn a_frame_in_several_slots_leaves_as_one(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let whole = &frames(16, OTHER_MAC)[15];
    let tx = card.port.queues[0].rings().tx;
    let parts = [&whole[..20], &whole[20..21], &whole[21..]];
    for (i, part) in (0..).zip(parts) {
        tx.bytes(i).unwrap().copy_in(part);
        let flags = if i < 2 { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        tx.set(i, part.len(), flags);
    }
    tx.advance(3);
    card.port.tx_sync().unwrap();
    assert_eq!(&card.on_wire(1)[0], whole);
    card.drain_tx();
    assert_eq!(card.port.stats().tx.packets, 1);
}

pub(crate) fn a_long_frame_in_full_slots_leaves_as_one(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let mut whole = frames(1, OTHER_MAC).remove(0);
    let len = card.port.info.caps.max_packet.min(16_200);
    whole.extend((whole.len() as u32..len).map(|at| at as u8));
    let max_slot = card.port.info.caps.max_slot as usize;
    let tx = card.port.queues[0].rings().tx;
    let parts = whole.chunks(max_slot);
    let count = parts.len() as u32;
    for (i, part) in (0..).zip(parts) {
        tx.bytes(i).unwrap().copy_in(part);
        let flags = if i + 1 < count { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        tx.set(i, part.len(), flags);
    }
    tx.advance(count);
    card.port.tx_sync().unwrap();
    assert_eq!(card.on_wire(1)[0], whole);
    card.drain_tx();
    assert_eq!((card.port.stats().tx.packets, card.port.stats().strays), (1, 0));
}

pub(crate) fn tags_of_vlans_stay_in_the_frames(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let tagged = |destination| -> Vec<Vec<u8>> {
        let tag = [0x81, 0, 0x20, 100];
        let frames = frames(16, destination);
        frames.into_iter().map(|f| [&f[..12], &tag, &f[12..]].concat()).collect()
    };
    let out = tagged(OTHER_MAC);
    assert_eq!(card.send_and_watch(&out), out);
    let back = tagged(MAC);
    assert_eq!(card.receive(&back), back);
}

pub(crate) fn a_long_frame_arrives_in_several_slots(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let mut long = frames(3, MAC);
    long[1].resize(9014, 7);
    assert_eq!(card.receive(&long), long);
    let stats = card.port.stats();
    assert_eq!((stats.rx.packets, stats.drops().count()), (3, 0));
}

pub(crate) fn a_batch_costs_at_most_one_register_write(model: Model) {
    const BATCH: usize = 32;
    let Some(mut card) = Card::open(model.device) else { return };
    card.wait_for_link(true);
    for round in 0..10 {
        let out = frames(BATCH, OTHER_MAC);
        let tx = card.port.queues[0].rings().tx;
        assert!(out.iter().all(|frame| tx.push(frame)));
        let before = card.register_writes();
        card.port.tx_sync().unwrap();
        assert_eq!(card.on_wire(BATCH), out);
        card.drain_tx();
        assert_eq!(card.register_writes() - before, 1, "sending, round {round}");
        let back = frames(BATCH, MAC);
        card.put(&back);
        card.wait_until(Interest::RX, |port| port.queues[0].rings().rx.avail() as usize == BATCH);
        let before = card.register_writes();
        assert_eq!(card.take(), back);
        card.port.rx_sync().unwrap();
        assert!(card.register_writes() - before <= 1, "receiving, round {round}");
    }
}

/// The card completes what is sent, although it has no link, and the program never sleeps.
pub(crate) fn a_pulled_cable_is_noticed_by_a_program_that_only_sends(model: Model) {
    let options = OpenOptions { slots: SLOTS, exit_on_link_down: true, ..OpenOptions::default() };
    let Some(mut card) = Card::open_with(model.device, options) else { return };
    card.wait_for_link(true);
    // The first sync probes the card.
    card.sync(Interest::BOTH).unwrap();
    let frame = &frames(1, OTHER_MAC)[0];
    card.set_link(false);
    let error = card.sync_until_it_ends(|tx| {
        tx.push(frame);
    });
    assert!(matches!(error.cause, RunCause::WentDown), "{error}");
}

pub(crate) fn a_card_that_something_else_has_reset_ends_the_port_by_name(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    card.wait_for_link(true);
    match model.driver {
        // The device status of the common configuration.
        "virtio" => card.bar(4).write8(20, 0),
        // The bit for a reset in the control register. QEMU's e1000 resets nothing, so the receive
        // control register gets the value that a reset leaves.
        _ => {
            card.bar(0).write32(0, 1 << 26);
            card.bar(0).write32(0x100, 0);
        }
    }
    let error = card.wait_for_end();
    assert!(matches!(error.cause, RunCause::CardReset), "{error}");
}

pub(crate) fn a_card_that_is_gone_ends_the_port_by_name(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    card.remove();
    let error = card.wait_for_end();
    assert!(matches!(error.cause, RunCause::CardGone), "{error}");
    assert_eq!(error.code(), "SR0401");
}

pub(crate) fn a_closed_port_gives_all_buffers_back_and_the_card_opens_again(model: Model) {
    let Some(mut card) = Card::open(model.device) else { return };
    let sent = frames(MANY, MAC);
    assert_eq!(card.receive(&sent), sent);
    assert!(card.port.queues[0].rings().tx.push(&sent[0]));
    card.sync(Interest::BOTH).unwrap();
    card.reopen();
    let sent = frames(MANY, OTHER_MAC);
    // The frame that was sent before the port was opened again may have left, or not.
    let seen = card.send_and_watch_until(&sent, sent.last().unwrap());
    assert!(seen.ends_with(&sent), "{} frames", seen.len());
}

pub(crate) fn a_card_in_use_is_set_to_100_mbit_without_negotiation_or_refuses_by_name(
    model: Model,
) {
    let Some(mut card) = Card::open(model.device) else { return };
    card.wait_for_link(true);
    let result = card.set("speed=100 autoneg=off");
    if model.has_phy() {
        let status = result.unwrap();
        assert_eq!(status.settings.to_string(), "speed=100 autoneg=off");
        // QEMU's e1000 always reports a speed of 1000 Mbit/s.
        let said = if model.device.starts_with("e1000-") { 1000 } else { 100 };
        assert_eq!((status.link.mbit_per_s, status.link.is_full_duplex), (said, true));
        card.wait_for_link(true);
    } else {
        let reason = result.unwrap_err().reason;
        assert!(reason.ends_with(" has no PHY, so no speed, autonegotiation"), "{reason}");
    }
    let out = frames(8, OTHER_MAC);
    assert_eq!(card.send_and_watch(&out), out);
    if model.has_phy() {
        card.set("autoneg=on").unwrap();
    }
    let back = frames(8, MAC);
    assert_eq!(card.receive(&back), back);
}

pub(crate) fn a_card_in_use_receives_for_other_hosts_when_it_is_told_to(model: Model) {
    let options = OpenOptions { slots: SLOTS, promiscuous: false, ..OpenOptions::default() };
    let Some(mut card) = Card::open_with(model.device, options) else { return };
    let mut sent = frames(1, OTHER_MAC);
    sent.extend(frames(1, MAC));
    assert_eq!(card.receive_some(&sent, 1), sent[1..]);
    card.set("promisc=on").unwrap();
    assert_eq!(card.receive_some(&sent, 2), sent);
    card.set("promisc=off mtu=1000").unwrap();
    assert_eq!(card.receive_some(&sent, 1), sent[1..]);
    let mut long = frames(1, OTHER_MAC);
    long[0].resize(1019, 1);
    let short = frames(2, OTHER_MAC);
    let all = [&long[..], &short[..]].concat();
    assert_eq!(card.send_and_watch(&all), short);
    assert_eq!(card.port.stats().dropped(DropCause::TxTooLong), 1);
}
