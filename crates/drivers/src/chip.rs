//! The interface between a driver and its queue.

use slipring_port::nic::{RxDescriptorRings, TxDescriptorRings};
use slipring_port::{DropCause, Interest, Nanos, OpenCause, QueueCounters};

use slipring_pci::{Interrupt, PciDevice};

use crate::settings::{LinkAbilities, LinkPlan};

/// A running chip with one queue.
///
/// The rings write to the doorbell in `publish`, once per batch. All other registers are only
/// accessed before and after a sleep, in probes, for statistics, and to change settings. So a busy
/// queue costs one register write per batch and direction.
pub trait NicChip: Send + 'static {
    /// The receive descriptors.
    type Rx: RxDescriptorRings + Send;
    /// The transmit descriptors.
    type Tx: TxDescriptorRings + Send;

    /// The device.
    fn device(&self) -> &dyn PciDevice;

    /// The receive descriptors.
    fn rx(&mut self) -> &mut Self::Rx;

    /// The transmit descriptors.
    fn tx(&mut self) -> &mut Self::Tx;

    /// Returns the interrupt. Its causes are masked while the queue is polled.
    fn interrupt(&self) -> &Interrupt;

    /// Lets the device receive and send. Its rings are still empty. `accepts_all`: see
    /// [`Self::set_promiscuous`].
    ///
    /// # Errors
    /// [`OpenCause`] for a device that refuses to receive these frames.
    fn start(&mut self, accepts_all: bool) -> Result<(), OpenCause>;

    /// First acknowledges all causes, then unmasks those of `interest` and of changes of the link.
    /// The caller checks the rings again afterwards, so no event is lost. Returns what the
    /// acknowledged causes signalled.
    fn unmask(&mut self, interest: Interest) -> ChipEvents;

    /// Masks all causes and acknowledges them. Returns what they signalled.
    fn mask(&mut self) -> ChipEvents;

    /// Reads the state of the link. Also checks that the device still exists and runs, and recovers
    /// from known faults of the chip, such as lost doorbells. Called after
    /// [`ChipEvents::wants_probe`], after changes of settings, and once a second.
    ///
    /// # Errors
    /// [`ChipFault`], which ends the port.
    fn probe(&mut self) -> Result<LinkState, ChipFault>;

    /// Whether [`Self::probe`] must be called again soon, although nothing will signal it: the link
    /// is up, but its settings are not complete.
    fn is_settling(&self) -> bool {
        false
    }

    /// Calls `set` with each cause of loss, and the number of frames that the device has lost for
    /// this cause since [`Self::start`].
    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64));

    /// Sets whether the device receives all frames, or only frames to its own address, multicasts
    /// and broadcasts. Called while the chip runs.
    ///
    /// # Errors
    /// [`OpenCause`] for a device that refuses it.
    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause>;

    /// Returns the link settings that the chip supports.
    fn abilities(&self) -> LinkAbilities;

    /// Sets PHY and MAC. The link goes down, and comes up again with the new settings. Called
    /// before [`Self::start`], and while the chip runs; never for a chip without a PHY.
    ///
    /// # Errors
    /// [`OpenCause`] for a PHY that does not answer.
    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause>;

    /// Sets the length of the longest frame to receive, in bytes without CRC. A chip with few
    /// possible limits uses the closest one. Called while the chip runs. Without a call, the limit
    /// is the longest frame of the chip.
    fn set_max_packet(&mut self, bytes: u32);

    /// How long frames to send may wait without any completion, in ns, before [`Self::probe`] is
    /// called.
    fn tx_probe_after(&self) -> Nanos {
        TX_PROBE_AFTER
    }

    /// Whether the device may keep frames to send for any length of time, although it has a link
    /// and is not stuck. A virtual card may, because its host decides when to take frames.
    fn is_paced_by_host(&self) -> bool {
        false
    }

    /// Stops the device, so that it accesses no memory. Must not wait for long.
    fn stop(&mut self);
}

/// Default of [`NicChip::tx_probe_after`], in ns.
const TX_PROBE_AFTER: Nanos = 1_000_000_000;

/// The events that a chip has signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChipEvents {
    /// Whether [`NicChip::probe`] must be called, because the link may have changed.
    pub wants_probe: bool,
}

/// The state of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether the link is up.
    pub is_up: bool,
    /// The speed of the link in Mbit/s; 0 if it is unknown.
    pub mbit_per_s: u32,
    /// Whether the link is full duplex.
    pub is_full_duplex: bool,
}

impl LinkState {
    /// A link that is down.
    pub const DOWN: Self = Self { is_up: false, mbit_per_s: 0, is_full_duplex: false };
}

/// Why a chip cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChipFault {
    /// All registers read as ones: the device was removed.
    Gone,
    /// The chip neither receives nor sends, although the driver has started it: something else has
    /// reset it.
    Reset,
}

/// Returns a function that sets the total number of drops for a cause in `counters`.
pub(crate) fn set_drops(counters: &QueueCounters) -> impl FnMut(DropCause, u64) + '_ {
    |cause, total| counters.set_dropped(cause, total)
}
