//! A port on a model, and the other end of the model's cable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipring_drivers::{CardControl, CardSettings, NicSetup, open_port};
use slipring_port::{
    DropCause, Interest, OpenCause, OpenOptions, Port, Queue, RunError, WaitStrategy, Waiter,
};
use slipring_ring::{Geometry, HugePages, Region, SlotFlags};
use slipring_rtl_model::{
    Chip, Device, MemoryWire, ModelDevice, SharedModel, Wire, WireEnd, locked,
};

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0x16, 0x81, 0x68];
pub(crate) const SLOTS: u32 = 64;

/// A port, its model and the cable.
pub(crate) struct Rig {
    pub(crate) model: SharedModel,
    pub(crate) cable: WireEnd,
    pub(crate) port: Port,
}

pub(crate) fn model(chip: Chip, wire: Box<dyn Wire>) -> SharedModel {
    Arc::new(Mutex::new(Device::new(chip, MAC, wire)))
}

pub(crate) fn open(model: &SharedModel, slots: u32) -> Result<Port, OpenCause> {
    open_on(Box::new(ModelDevice::new(model)), slots)
}

pub(crate) fn open_on(
    device: Box<dyn slipring_pci::PciDevice>,
    slots: u32,
) -> Result<Port, OpenCause> {
    let region = Region::create_shared(geometry(slots), HugePages::Never).unwrap();
    let options = OpenOptions { slots, ..OpenOptions::default() };
    open_port(device, &NicSetup::new("vfio:03:00.0", &region, &options))
}

/// Opens a port with these settings. `control` can change them while the port is in use.
pub(crate) fn open_set(
    model: &SharedModel,
    settings: CardSettings,
    control: &Arc<CardControl>,
) -> Result<Port, OpenCause> {
    let region = Region::create_shared(geometry(SLOTS), HugePages::Never).unwrap();
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let setup = NicSetup::new("vfio:03:00.0", &region, &options);
    let setup = NicSetup { settings, control: Some(control), ..setup };
    open_port(Box::new(ModelDevice::new(model)), &setup)
}

pub(crate) fn geometry(slots: u32) -> Geometry {
    Geometry { ring_bytes: 1 << 18, bufs: 4 * slots, buf_size: 2048 }
}

impl Rig {
    pub(crate) fn new(chip: Chip) -> Self {
        Self::with_slots(chip, SLOTS)
    }

    pub(crate) fn with_slots(chip: Chip, slots: u32) -> Self {
        let (near, cable) = MemoryWire::pair();
        let model = model(chip, Box::new(near));
        let port = open(&model, slots).unwrap();
        Self { model, cable, port }
    }

    pub(crate) fn queue(&mut self) -> &mut dyn Queue {
        self.port.queues[0].as_mut()
    }

    /// Sleeps as a program that only receives, until the port ends; returns the error. The model
    /// raises no interrupt meanwhile.
    pub(crate) fn sleep_until_it_ends(&mut self) -> RunError {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        let limit = Some(Duration::from_secs(120));
        waiter.wait_ports(&mut [&mut self.port], Interest::RX, limit).unwrap_err()
    }

    /// Puts a frame into tx slots, in parts of these lengths. Does not sync.
    pub(crate) fn put(&mut self, frame: &[u8], parts: &[usize]) {
        let tx = self.queue().rings().tx;
        assert!(tx.avail() >= parts.len() as u32);
        let mut rest = frame;
        for (i, &len) in (0..).zip(parts) {
            let (part, after) = rest.split_at(len);
            let more = if after.is_empty() { SlotFlags::default() } else { SlotFlags::MOREFRAG };
            tx.set(i, len, more);
            tx.bytes(i).unwrap().copy_in(part);
            rest = after;
        }
        assert!(rest.is_empty(), "the parts are the frame");
        tx.advance(parts.len() as u32);
    }

    /// Sends a frame in one slot.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.put(frame, &[frame.len()]);
        self.queue().tx_sync().unwrap();
    }

    /// Returns the next frame from the other end of the cable.
    pub(crate) fn sent(&mut self) -> Option<Vec<u8>> {
        let mut frame = Vec::new();
        self.cable.receive(&mut frame).then_some(frame)
    }

    /// Puts a frame into the other end of the cable, and makes the model receive it.
    pub(crate) fn deliver(&mut self, frame: &[u8]) {
        assert!(self.cable.send(frame));
        locked(&self.model).poll();
    }

    /// The next frame in the rx ring, and the number of its slots.
    pub(crate) fn received(&mut self) -> Option<(Vec<u8>, u32)> {
        self.queue().rx_sync().unwrap();
        let rx = self.queue().rings().rx;
        // Loads the driver's `tail`, so that the new slots can be read.
        rx.avail();
        let (mut frame, mut slots) = (Vec::new(), 0);
        loop {
            let slot = rx.slot(slots)?;
            let bytes = rx.bytes(slots)?;
            let at = frame.len();
            frame.resize(at + usize::from(slot.len), 0);
            bytes.copy_out(&mut frame[at..]);
            slots += 1;
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                rx.advance(slots);
                return Some((frame, slots));
            }
        }
    }

    /// Returns how many frames were dropped for this cause by the port, including its card.
    pub(crate) fn drops(&mut self, cause: DropCause) -> u64 {
        self.queue().update_stats();
        let snapshot = self.queue().counters().snapshot();
        snapshot.drops().find(|(dropped, _)| *dropped == cause).map_or(0, |(_, count)| count)
    }

    /// Checks that the driver kept to the chip's rules.
    pub(crate) fn check(&self) {
        let violations = locked(&self.model).violations().clone();
        assert_eq!(violations.list(), [], "{} violations", violations.count());
    }
}

/// A frame to the card's own address. A pattern fills its payload.
pub(crate) fn frame(len: usize, seed: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
    frame[..6].copy_from_slice(&MAC);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}
