use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slipring_port::OpenOptions;

use super::*;
use crate::fake::{DESCRIPTORS, FakeChip, region};
use crate::open::{NicFacts, NicSetup, assemble};

const FACTS: NicFacts = NicFacts {
    driver: "fake",
    chip: "82574L",
    mac: [2, 0, 0, 0, 0, 1],
    slots: DESCRIPTORS / 2,
    max_packet: 9230,
    chains: true,
};

#[test]
fn a_link_that_is_settling_is_probed_again_without_an_event_until_it_has_settled() {
    let region = region(64);
    let mut chip = FakeChip::new(&region);
    chip.settles_after = 4;
    let probes = chip.probes.clone();
    let options = OpenOptions { slots: DESCRIPTORS / 2, ..OpenOptions::default() };
    let setup = NicSetup::new("vfio:03:00.0", &region, &options);
    let mut port = assemble(chip, &FACTS, &setup).unwrap();
    let queue = &mut port.queues[0];
    queue.rx_sync().unwrap();
    assert_eq!(probes.load(Ordering::Relaxed), 2, "when it was opened, and in the first sync");
    for probe in [3, 4] {
        let at = queue.deadline().expect("a sleep that ends by itself");
        while now() < at {
            std::thread::sleep(Duration::from_millis(1));
        }
        queue.before_sleep(Interest::RX);
        queue.rx_sync().unwrap();
        assert_eq!(probes.load(Ordering::Relaxed), probe);
    }
    // The next probe is a regular one, 1 s after the last.
    let before = now();
    let at = queue.deadline().expect("a sleep that ends by itself");
    assert!(at > before + 8 * SETTLE_PROBE_AFTER || now() > at);
}

#[test]
fn a_card_that_the_kernel_wants_ends_its_port_at_the_next_sync() {
    let region = region(64);
    let options = OpenOptions { slots: DESCRIPTORS / 2, ..OpenOptions::default() };
    let control = Arc::<CardControl>::default();
    let setup = NicSetup::new("vfio:03:00.0", &region, &options);
    let setup = NicSetup { control: Some(&control), ..setup };
    let mut port = assemble(FakeChip::new(&region), &FACTS, &setup).unwrap();
    let queue = &mut port.queues[0];
    queue.rx_sync().unwrap();
    control.revoke();
    // A sleep in between serves requests, too.
    queue.before_sleep(Interest::RX);
    queue.after_sleep();
    for _ in 0..2 {
        let error = queue.tx_sync().unwrap_err();
        assert!(matches!(error.cause, RunCause::CardRevoked), "{error}");
    }
}
