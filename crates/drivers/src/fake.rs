//! What unit tests have in place of a device: memory at made-up addresses, registers, and a chip
//! whose rings stay empty.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use slipring_pci::{
    Bar, DeviceMemory, DmaMapper, Interrupt, InterruptKind, MemoryRange, PciDevice, PciError,
    RegisterAccess, ResetResult, Width,
};
use slipring_port::nic::dma::{DeviceAddress, DmaMemory};
use slipring_port::{DropCause, Interest, OpenCause};
use slipring_ring::{Geometry, HugePages, Region};

use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip};
use crate::descriptors::{RingParts, RxDescriptors, TxDescriptors};
use crate::intel::rings::{LegacyRx, LegacyTx};
use crate::settings::{LinkAbilities, LinkPlan};

/// Maps each range at the next multiple of 16 MiB.
#[derive(Default)]
pub(crate) struct Mapper(AtomicU64);

impl DmaMapper for Mapper {
    fn map(&self, _range: &MemoryRange<'_>) -> io::Result<DeviceAddress> {
        Ok((self.0.fetch_add(1, Ordering::Relaxed) + 1) << 24)
    }

    fn unmap(&self, _at: DeviceAddress, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The values that were written to the doorbell.
#[derive(Clone, Default)]
pub(crate) struct Doorbell(pub(crate) Arc<Mutex<Vec<u32>>>);

impl RegisterAccess for Doorbell {
    fn read(&self, _at: u64, width: Width) -> u32 {
        width.all_ones()
    }

    fn write(&self, _at: u64, _width: Width, value: u32) {
        self.0.lock().unwrap().push(value);
    }
}

/// Memory for the buffers of a region.
pub(crate) fn memory(region: &Region) -> DeviceMemory {
    let mut memory = DeviceMemory::new(Arc::<Mapper>::default());
    memory.map_buffers(region).unwrap();
    memory
}

pub(crate) fn region(bufs: u32) -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 1 << 16, bufs, buf_size: 2048 };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

/// A device with one interrupt of each kind. No interrupt ever comes.
struct FakeDevice;

impl PciDevice for FakeDevice {
    fn address(&self) -> &str {
        "0000:03:00.0"
    }

    fn config_read(&self, _at: u16, _width: Width) -> Result<u32, PciError> {
        Ok(0)
    }

    fn config_write(&self, _at: u16, _width: Width, _value: u32) -> Result<(), PciError> {
        Ok(())
    }

    fn bar(&self, _index: u8) -> Result<Bar, PciError> {
        Ok(Bar::new(64, Vec::new(), Box::new(Doorbell::default())))
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        Arc::<Mapper>::default()
    }

    fn interrupts(&self, _kind: InterruptKind) -> u32 {
        1
    }

    fn set_interrupts(
        &self,
        _kind: InterruptKind,
        _events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        Ok(())
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        Ok(())
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        Ok(ResetResult::Unsupported)
    }
}

/// A chip that records its settings.
pub(crate) struct FakeChip {
    device: FakeDevice,
    interrupt: Interrupt,
    rx: RxDescriptors<LegacyRx>,
    tx: TxDescriptors<LegacyTx>,
    pub(crate) link: Option<LinkPlan>,
    pub(crate) accepts_all: bool,
    pub(crate) max_packet: u32,
    /// Whether the PHY answers: the last element is for the next call, the element before it for
    /// the call after that. The PHY answers all calls after those.
    pub(crate) answers: Vec<bool>,
    /// Number of probes so far.
    pub(crate) probes: Arc<AtomicU64>,
    /// Number of probes after which the link is no longer settling.
    pub(crate) settles_after: u64,
}

/// What the chip can be set to.
pub(crate) const ABILITIES: LinkAbilities = LinkAbilities::copper("82574L", &[10, 100, 1000], 9230);
/// Number of descriptors of each ring.
pub(crate) const DESCRIPTORS: u32 = 32;

impl FakeChip {
    pub(crate) fn new(region: &Region) -> Self {
        let mut memory = memory(region);
        let mut parts = || RingParts {
            memory: memory.alloc(4096).unwrap(),
            addresses: memory.addresses(),
            size: DESCRIPTORS,
            usable: DESCRIPTORS - 1,
            part: 2048,
            bar: FakeDevice.bar(0).unwrap(),
            doorbell: 0,
        };
        Self {
            device: FakeDevice,
            interrupt: Interrupt::open(&FakeDevice).unwrap(),
            rx: RxDescriptors::new(parts()),
            tx: TxDescriptors::new(parts()),
            link: None,
            accepts_all: false,
            max_packet: 0,
            answers: Vec::new(),
            probes: Arc::default(),
            settles_after: 0,
        }
    }
}

impl NicChip for FakeChip {
    type Rx = RxDescriptors<LegacyRx>;
    type Tx = TxDescriptors<LegacyTx>;

    fn device(&self) -> &dyn PciDevice {
        &self.device
    }

    fn rx(&mut self) -> &mut Self::Rx {
        &mut self.rx
    }

    fn tx(&mut self) -> &mut Self::Tx {
        &mut self.tx
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn start(&mut self, accepts_all: bool) -> Result<(), OpenCause> {
        self.accepts_all = accepts_all;
        Ok(())
    }

    fn unmask(&mut self, _interest: Interest) -> ChipEvents {
        ChipEvents::default()
    }

    fn mask(&mut self) -> ChipEvents {
        ChipEvents::default()
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Ok(LinkState { is_up: true, mbit_per_s: 1000, is_full_duplex: true })
    }

    fn is_settling(&self) -> bool {
        self.probes.load(Ordering::Relaxed) < self.settles_after
    }

    fn count_drops(&mut self, _set: &mut dyn FnMut(DropCause, u64)) {}

    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause> {
        self.accepts_all = all;
        Ok(())
    }

    fn abilities(&self) -> LinkAbilities {
        ABILITIES
    }

    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause> {
        if !self.answers.pop().unwrap_or(true) {
            return Err(ChipFault::Gone.into());
        }
        self.link = Some(*plan);
        Ok(())
    }

    fn set_max_packet(&mut self, bytes: u32) {
        self.max_packet = bytes;
    }

    fn stop(&mut self) {}
}
