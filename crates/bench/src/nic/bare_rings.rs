//! The descriptor rings of an RTL8168h without a driver, as a floor: a loop hands over descriptors,
//! rings the doorbell, and takes the descriptors back. There are no slots, and buffers stay where
//! they are.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use slipring_pci::{Bar, DescriptorMemory, DeviceMemory, PciDevice, PciError, config};
use slipring_rtl_model::ModelDevice;

use super::{BenchError, FRAME_LEN, SLOTS};

const BUF_BYTES: usize = 2048;
const DESCRIPTOR_BYTES: usize = 16;
const OWN: u64 = 1 << 31;
const END_OF_RING: u64 = 1 << 30;
const WHOLE_FRAME: u64 = 1 << 29 | 1 << 28;

/// The BAR with the registers.
const REGISTERS_BAR: u8 = 2;
const TX_RING: u64 = 0x20;
const COMMAND: u64 = 0x37;
const COMMAND_RX_TX: u8 = 0x0c;
const DOORBELL: u64 = 0x38;
const DOORBELL_NORMAL: u8 = 0x40;
const RX_CONFIG: u64 = 0x44;
/// Receives frames to every address.
const RX_CONFIG_ALL: u32 = 0x0f;
const PHY_OCP: u64 = 0xb8;
/// Writes 0x1000 to PHY register 0: powered up, negotiates.
const PHY_POWER_UP: u32 = 1 << 31 | 0xa400 << 15 | 0x1000;
const MCU: u64 = 0xd3;
const RX_MAX_SIZE: u64 = 0xda;
const RX_RING: u64 = 0xe4;

/// A started card, and its rings. The receive ring belongs to the card, except while a step runs.
pub(super) struct BareRings {
    // Dropped first: the device unmaps the memory.
    _device: ModelDevice,
    bar: Bar,
    tx: DescriptorRing,
    rx: DescriptorRing,
}

/// A ring whose descriptors all have a buffer.
struct DescriptorRing {
    memory: DescriptorMemory,
    _buffers: DescriptorMemory,
    /// The first word of a descriptor that is handed to the card.
    word: u64,
    next: usize,
}

impl DescriptorRing {
    fn new(memory: &mut DeviceMemory, word: u64) -> std::io::Result<Self> {
        let buffers = memory.alloc(SLOTS as usize * BUF_BYTES)?;
        let memory = memory.alloc(SLOTS as usize * DESCRIPTOR_BYTES)?;
        for (i, descriptor) in (0..).zip(memory.words64().chunks_exact(2)) {
            descriptor[1].store(buffers.address() + i * BUF_BYTES as u64, Relaxed);
        }
        Ok(Self { memory, _buffers: buffers, word, next: 0 })
    }

    /// The first word of the descriptor at `index`, and its value when the card has it.
    #[inline(always)]
    fn descriptor(&self, index: usize) -> (&AtomicU64, u64) {
        let end = if index + 1 == SLOTS as usize { END_OF_RING } else { 0 };
        (&self.memory.words64()[2 * index], OWN | self.word | end)
    }

    /// Hands the next `count` descriptors to the card. Their position stays the same.
    #[inline(always)]
    fn hand_over(&self, count: usize) {
        for i in 0..count {
            let (word, value) = self.descriptor((self.next + i) % SLOTS as usize);
            word.store(value, Release);
        }
    }

    /// Counts how many of the next `count` descriptors the card has returned.
    #[inline(always)]
    fn returned(&self, count: usize) -> usize {
        let is_ours = |i: &usize| {
            self.descriptor((self.next + i) % SLOTS as usize).0.load(Acquire) & OWN == 0
        };
        (0..count).take_while(is_ours).count()
    }
}

impl BareRings {
    /// Starts the card.
    pub(super) fn start(device: ModelDevice) -> Result<Self, BenchError> {
        let failed = |cause: PciError| BenchError::Failed(cause.to_string());
        config::enable(&device).map_err(failed)?;
        let bar = device.bar(REGISTERS_BAR).map_err(failed)?;
        let mut memory = DeviceMemory::new(device.dma());
        let tx = DescriptorRing::new(&mut memory, WHOLE_FRAME | FRAME_LEN as u64)?;
        let rx = DescriptorRing::new(&mut memory, BUF_BYTES as u64)?;
        rx.hand_over(SLOTS as usize);
        bar.write32(PHY_OCP, PHY_POWER_UP);
        bar.write8(MCU, 0);
        bar.write16(RX_MAX_SIZE, BUF_BYTES as u16);
        for (register, ring) in [(TX_RING, &tx), (RX_RING, &rx)] {
            bar.write32(register + 4, (ring.memory.address() >> 32) as u32);
            bar.write32(register, ring.memory.address() as u32);
        }
        bar.write8(COMMAND, COMMAND_RX_TX);
        bar.write32(RX_CONFIG, RX_CONFIG_ALL);
        Ok(Self { _device: device, bar, tx, rx })
    }

    /// Sends and receives a batch. Returns its size.
    #[inline(always)]
    pub(super) fn step(&mut self, batch: u32) -> Result<u64, BenchError> {
        let count = batch as usize;
        self.tx.hand_over(count);
        self.bar.write8(DOORBELL, DOORBELL_NORMAL);
        if self.tx.returned(count) != count || self.rx.returned(count) != count {
            return Err(BenchError::Failed("a frame is lost".into()));
        }
        self.rx.hand_over(count);
        for ring in [&mut self.tx, &mut self.rx] {
            ring.next = (ring.next + count) % SLOTS as usize;
        }
        Ok(batch.into())
    }
}
