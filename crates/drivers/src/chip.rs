//! What a driver does for its queue.

use slipring_port::nic::{RxDescriptorRings, TxDescriptorRings};
use slipring_port::{DropCause, Interest, Nanos, OpenCause, QueueCounters};

use slipring_pci::{Interrupt, PciDevice};

use crate::settings::{LinkAbilities, LinkPlan};

/// A running chip with one queue.
///
/// The rings write to the doorbell in `publish`, once per batch. All other registers are accessed
/// before and after a sleep, and for statistics; so a busy queue costs one register write per batch
/// and direction.
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

    /// The interrupt, whose causes are masked while the queue is polled.
    fn interrupt(&self) -> &Interrupt;

    /// Lets the device receive and send. Its rings are still empty.
    fn start(&mut self);

    /// Unmasks the causes of `interest`, and changes of the link, in this order: acknowledge all
    /// causes, then unmask. The caller looks at the rings once more afterwards, so no event is
    /// lost.
    fn unmask(&mut self, interest: Interest) -> ChipEvents;

    /// Masks all causes and acknowledges them.
    fn mask(&mut self) -> ChipEvents;

    /// Reads the state of the link. This is also the check that the device is still there, and the
    /// time to repair what the chip is known to lose. Called after sleeps, and now and then while
    /// nothing moves.
    ///
    /// # Errors
    /// [`ChipFault`], which ends the port.
    fn probe(&mut self) -> Result<LinkState, ChipFault>;

    /// Sets the counts of frames that the device lost: totals since [`Self::start`].
    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64));

    /// Receives all frames, or only the device's own, multicasts and broadcasts. Called before
    /// [`Self::start`], and while the chip runs.
    fn set_promiscuous(&mut self, all: bool);

    /// What the chip can be set to.
    fn abilities(&self) -> LinkAbilities;

    /// Sets PHY and MAC. The link goes down, and comes up again as it was set. Called before
    /// [`Self::start`], and while the chip runs; never for a chip without a PHY.
    ///
    /// # Errors
    /// [`OpenCause`] for a PHY that does not answer.
    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause>;

    /// Sets the longest frame to receive, in bytes without CRC, as near as the chip can. Called
    /// before [`Self::start`], and while the chip runs.
    fn set_max_packet(&mut self, bytes: u32);

    /// How long frames to send may be without a completion before [`Self::probe`] is called.
    fn tx_probe_after(&self) -> Nanos {
        TX_PROBE_AFTER
    }

    /// Stops the device, so that it accesses no memory. Must not wait for long.
    fn stop(&mut self);
}

/// See [`NicChip::tx_probe_after`].
const TX_PROBE_AFTER: Nanos = 1_000_000_000;

/// What a chip has signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChipEvents {
    /// The link may have changed, or the chip wants to be looked at: [`NicChip::probe`].
    pub wants_probe: bool,
}

/// The state of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether there is a link.
    pub is_up: bool,
    /// Its speed in Mbit/s; 0 if it is unknown.
    pub mbit_per_s: u32,
    /// Whether both directions are used at the same time.
    pub is_full_duplex: bool,
}

impl LinkState {
    /// A link that is down.
    pub const DOWN: Self = Self { is_up: false, mbit_per_s: 0, is_full_duplex: false };
}

/// Why a chip cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChipFault {
    /// All registers read as ones.
    Gone,
}

/// Sets a total in the counters of a queue.
pub(crate) fn set_drops(counters: &QueueCounters) -> impl FnMut(DropCause, u64) + '_ {
    |cause, total| counters.set_dropped(cause, total)
}
