//! Programs that end, and programs that are killed.

use slipring_rtl_model::{Chip, MemoryWire};

use crate::model::locked;
use crate::rig::{Rig, SLOTS, frame, model, open};

#[test]
fn a_closed_port_leaves_a_card_that_accesses_no_memory() {
    for chip in Chip::ALL {
        let Rig { model, cable: _cable, port } = Rig::new(chip);
        drop(port);
        let mut model = locked(&model);
        assert!(model.dma().is_empty());
        assert_eq!(model.violations().list(), []);
    }
}

/// The killed program's engines still run when the next one comes: it stops them before it lets the
/// card access memory again.
#[test]
fn the_next_program_takes_over_a_card_whose_program_was_killed_in_mid_traffic() {
    for chip in Chip::ALL {
        let (near, cable) = MemoryWire::pair();
        let model = model(chip, Box::new(near));
        for _ in 0..3 {
            let port = open(&model, SLOTS).unwrap();
            let mut rig = Rig { model: model.clone(), cable: cable.clone(), port };
            for i in 0..10 {
                rig.send(&frame(60, i));
                rig.deliver(&frame(60, i));
            }
            assert!(rig.received().is_some());
            while rig.sent().is_some() {}
            // A killed program runs no destructors. The kernel closes the device.
            std::mem::forget(std::mem::take(&mut rig.port.queues));
            locked(&model).detach();
            rig.deliver(&frame(60, 0));
            rig.check();
        }
    }
}
