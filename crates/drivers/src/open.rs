//! Opens a port on a chip that is set up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use slipring_pci::DeviceMemory;
use slipring_port::nic::dma::DmaMemory;
use slipring_port::nic::{OffloadFixup, RxSide, TxLimits, TxSide};
use slipring_port::{
    OpenCause, OpenOptions, Port, PortCaps, PortInfo, PortMode, Queue, QueueCounters, now,
};
use slipring_ring::{Region, RingHalves};

use crate::change::CardDefaults;
use crate::chip::{ChipFault, NicChip};
use crate::control::CardControl;
use crate::queue::{CardQueue, CardQueueParts, StoppedAtDrop};
use crate::settings::{CardSettings, SettingRefusal};

/// How long a device may take for a reset, or for an access to its PHY.
const RESPONSE_TIMEOUT_NS: u64 = 2_000_000_000;
/// Time between two reads of a register that is polled.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The arguments for opening a port.
#[derive(Debug, Clone, Copy)]
pub struct NicSetup<'s> {
    /// The name of the port, as the user wrote it.
    pub name: &'s str,
    /// The memory of rings and buffers.
    pub region: &'s Arc<Region>,
    /// The number of slots, rings of an earlier process to go on with, whether to be promiscuous,
    /// and what to do when the link is down. Other options are ignored.
    pub options: &'s OpenOptions,
    /// The settings that a user has made. All other settings are chosen by the options or the
    /// driver.
    pub settings: CardSettings,
    /// The object by which other threads change settings while the port is in use; `None` if they
    /// cannot.
    pub control: Option<&'s Arc<CardControl>>,
}

impl<'s> NicSetup<'s> {
    /// Returns the arguments for a port whose card has the default settings of its driver.
    #[must_use]
    pub fn new(name: &'s str, region: &'s Arc<Region>, options: &'s OpenOptions) -> Self {
        Self { name, region, options, settings: CardSettings::default(), control: None }
    }

    /// Returns the number of slots of a ring: the requested number, but at most `limit`. The port's
    /// field `mode` shows the result.
    #[must_use]
    pub fn slots(&self, limit: u32) -> u32 {
        self.options.slots.min(limit)
    }

    /// Gives the device access to the buffers.
    ///
    /// # Errors
    /// [`OpenCause::LockedMemory`] if the process may not lock that much memory.
    pub fn map_buffers(&self, memory: &mut DeviceMemory) -> Result<(), OpenCause> {
        memory.map_buffers(self.region).map_err(|error| memory_cause(error, self.region.size()))
    }
}

/// Returns the cause of an open that failed because a device could not be given access to `bytes`
/// bytes of memory.
#[must_use]
pub fn memory_cause(error: io::Error, bytes: u64) -> OpenCause {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return OpenCause::LockedMemory { bytes };
    }
    OpenCause::System { what: "give the card memory", source: error }
}

/// The properties of a port, reported by its driver.
#[derive(Debug, Clone, Copy)]
pub struct NicFacts {
    /// The name of the driver.
    pub driver: &'static str,
    /// The name of the chip.
    pub chip: &'static str,
    /// The hardware address.
    pub mac: [u8; 6],
    /// Slots per ring.
    pub slots: u32,
    /// Longest frame in bytes, without CRC.
    pub max_packet: u32,
    /// Whether a frame may take several buffers.
    pub chains: bool,
}

/// Starts a chip, and creates a port for it.
///
/// # Errors
/// [`OpenCause`] if the chip does not have a saved setting, the region has no memory left, or the
/// device does not answer.
pub fn assemble<C: NicChip>(
    chip: C,
    facts: &NicFacts,
    setup: &NicSetup<'_>,
) -> Result<Port, OpenCause> {
    // Declared first, so that it is dropped last: the chip is stopped before its buffers are freed.
    let rx_side;
    let mut chip = StoppedAtDrop(chip);
    let options = OpenOptions { slots: facts.slots, ..setup.options.clone() };
    let settings = setup.settings;
    let plan = settings.plan(&chip.0.abilities()).map_err(unset)?;
    let defaults = CardDefaults { promiscuous: options.promiscuous, max_packet: facts.max_packet };
    let facts =
        &NicFacts { max_packet: settings.max_packet().unwrap_or(facts.max_packet), ..*facts };
    let tx = options.ring(setup.region, 0, 0)?;
    let rx = options.ring(setup.region, 0, 0)?;
    if let Some(plan) = &plan {
        chip.0.set_link(plan)?;
    }
    chip.0.start(settings.promiscuous.unwrap_or(defaults.promiscuous))?;
    if settings.mtu.is_some() {
        chip.0.set_max_packet(facts.max_packet);
    }
    let link = chip.0.probe()?;
    let event = || {
        let event = chip.0.interrupt().event().try_clone_to_owned();
        event.map_err(|source| OpenCause::System { what: "watch the card's interrupt", source })
    };
    let link_event = event()?;
    let control = setup.control.cloned().unwrap_or_default();
    control.wake_by(event()?);
    let counters = Arc::<QueueCounters>::default();
    let RingHalves { app: tx, kern: tx_kern } = tx;
    let RingHalves { app: rx, kern: rx_kern } = rx;
    let limits = TxLimits { packet: facts.max_packet, chains: facts.chains, enabled: true };
    rx_side = RxSide::start(rx_kern, chip.0.rx(), 0, OffloadFixup::none(), counters.clone());
    let info = info(&chip.0, facts, setup, link);
    let parts = CardQueueParts {
        name: setup.name.to_owned(),
        tx_side: TxSide::new(tx_kern, limits, counters.clone()),
        rx_side,
        tx,
        rx,
        link_event,
        link,
        settings,
        defaults,
        control,
        ends_when_down: options.exit_on_link_down,
        counters,
    };
    let queue: Box<dyn Queue> = Box::new(CardQueue::new(chip, parts));
    Ok(Port { info, queues: vec![queue] })
}

fn info<C: NicChip>(
    chip: &C,
    facts: &NicFacts,
    setup: &NicSetup<'_>,
    link: crate::LinkState,
) -> PortInfo {
    let mode = PortMode::new()
        .with("driver", facts.driver)
        .with("chip", facts.chip)
        .with("irq", chip.interrupt().kind().name())
        .with("slots", facts.slots);
    let mode = match link.is_up {
        true if link.mbit_per_s > 0 => mode.with("mbit", link.mbit_per_s),
        true => mode,
        false => mode.with("link", "down"),
    };
    PortInfo {
        name: setup.name.to_owned(),
        kind: "vfio",
        mode,
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: facts.max_packet,
            max_slot: setup.region.buf_size(),
        },
        mac: Some(facts.mac),
        mtu: Some(setup.settings.mtu.unwrap_or(facts.max_packet.min(1514) - 14)),
    }
}

/// Returns the cause of an open that failed because the chip does not have a setting that a user
/// has saved.
fn unset(SettingRefusal { reason, help }: SettingRefusal) -> OpenCause {
    let help = format!("{help}; or forget all settings: slipring nic set NIC --reset");
    OpenCause::Card { reason, help: Some(help) }
}

/// Waits until `is_done` returns true; returns an error if this takes too long. Checks once more at
/// the end, because this process may not have run meanwhile.
pub(crate) fn wait_for(what: &str, is_done: impl Fn() -> bool) -> Result<(), OpenCause> {
    let start = now();
    while !is_done() {
        if now() - start > RESPONSE_TIMEOUT_NS {
            return if is_done() { Ok(()) } else { Err(unresponsive(what)) };
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Returns the error for a chip that did not do `what` in time.
pub(crate) fn unresponsive(what: &str) -> OpenCause {
    let reason = format!("the card does not {what}");
    OpenCause::Card { reason, help: Some("reset or power-cycle it; see also: dmesg | tail".into()) }
}

impl From<ChipFault> for OpenCause {
    fn from(fault: ChipFault) -> Self {
        match fault {
            ChipFault::Gone => unresponsive("answer: its registers read as all ones"),
            ChipFault::Reset => unresponsive("keep running after its start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VFIO returns ENOMEM when the limit of locked memory is reached. The error for the user then
    /// contains the requested number of bytes.
    #[test]
    fn a_limit_of_locked_memory_is_told_from_other_failures() {
        let limit = memory_cause(io::Error::from_raw_os_error(12), 8 << 20);
        assert!(matches!(limit, OpenCause::LockedMemory { bytes: 0x80_0000 }), "{limit}");
        let other = memory_cause(io::Error::from_raw_os_error(22), 8 << 20);
        assert!(other.to_string().starts_with("give the card memory"), "{other}");
    }
}
