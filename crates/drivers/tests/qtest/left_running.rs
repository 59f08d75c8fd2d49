//! Tests opening a card that still runs, because the process that used it was killed.

use slipring_drivers::{NicSetup, open_port};
use slipring_pci::qtest::QtestMachine;
use slipring_pci::{PciDevice, config};
use slipring_port::OpenOptions;
use slipring_ring::Geometry;

use crate::card::{SLOT, SLOTS, qemu};
use crate::watched::Watched;

/// The command register of the configuration space, and the bit that makes the device bus master.
const COMMAND: u16 = 4;
const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// Control of the receiver and of the transmitter of Intel's chips, and the bit that enables each.
const CONTROLS: [u64; 2] = [0x100, 0x400];
const ENABLED: u32 = 1 << 1;

/// Panics if the device is about to become bus master while its receiver or transmitter is enabled.
fn check_command(device: &dyn PciDevice, at: u16, value: u32) {
    if at == COMMAND && value & COMMAND_BUS_MASTER != 0 {
        let bar = device.bar(0).unwrap();
        let running = CONTROLS.map(|control| bar.read32(control) & ENABLED != 0);
        assert_eq!(running, [false; 2], "receiver, transmitter");
    }
}

#[test]
fn a_card_that_still_runs_is_stopped_before_it_becomes_bus_master() {
    for model in ["e1000-82545em", "e1000e", "igb"] {
        let Some(qemu) = qemu() else { return };
        let words = ["-device".to_owned(), format!("{model},addr={SLOT}")];
        let machine = QtestMachine::start(&qemu, &words).unwrap();
        let device = machine.device(SLOT).unwrap();
        config::enable(&device).unwrap();
        let bar = device.bar(0).unwrap();
        for control in CONTROLS {
            bar.write32(control, ENABLED);
        }
        let geometry = Geometry { ring_bytes: 1 << 20, bufs: 1024, buf_size: 2048 };
        let region = machine.region(geometry).unwrap();
        let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
        let setup = NicSetup::new("vfio:00:04.0", &region, &options);
        open_port(Box::new(Watched::new(device, check_command)), &setup).unwrap();
    }
}
