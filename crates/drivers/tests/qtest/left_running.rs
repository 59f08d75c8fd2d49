//! Tests opening a card that still runs, because the process that used it was killed.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_drivers::{NicSetup, open_port};
use slipring_pci::qtest::QtestMachine;
use slipring_pci::{
    Bar, DmaMapper, InterruptKind, PciDevice, PciError, ResetResult, Width, config,
};
use slipring_port::OpenOptions;
use slipring_ring::Geometry;

use crate::card::{SLOT, SLOTS, qemu};

/// The command register of the configuration space, and the bit that makes the device bus master.
const COMMAND: u16 = 4;
const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// Control of the receiver and of the transmitter of Intel's chips, and the bit that enables each.
const CONTROLS: [u64; 2] = [0x100, 0x400];
const ENABLED: u32 = 1 << 1;

/// A device that panics if it becomes bus master while its receiver or transmitter is enabled.
struct Watched<D>(D);

impl<D: PciDevice> PciDevice for Watched<D> {
    fn address(&self) -> &str {
        self.0.address()
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        self.0.config_read(at, width)
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        if at == COMMAND && value & COMMAND_BUS_MASTER != 0 {
            let bar = self.0.bar(0)?;
            let running = CONTROLS.map(|control| bar.read32(control) & ENABLED != 0);
            assert_eq!(running, [false; 2], "receiver, transmitter");
        }
        self.0.config_write(at, width, value)
    }

    fn bar(&self, index: u8) -> Result<Bar, PciError> {
        self.0.bar(index)
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        self.0.dma()
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        self.0.interrupts(kind)
    }

    fn set_interrupts(&self, kind: InterruptKind, to: &[BorrowedFd<'_>]) -> Result<(), PciError> {
        self.0.set_interrupts(kind, to)
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        self.0.unmask_intx()
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        self.0.reset()
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
        open_port(Box::new(Watched(device)), &setup).unwrap();
    }
}
