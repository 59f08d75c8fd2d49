//! The queue of a card: syncs, sleeps, and monitors the device.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use slipring_pci::InterruptKind;
use slipring_port::nic::{RxSide, TxSide};
use slipring_port::{
    Interest, Nanos, Queue, QueueCounters, QueueRings, RunCause, RunError, TxWait, WaitFds, now,
};
use slipring_ring::{RxRing, TxRing};

use crate::change::{CardDefaults, execute};
use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip, set_drops};
use crate::control::{CardControl, CardStatus};
use crate::settings::{CardSettings, SettingRefusal, SettingsRequest};

/// Time between two probes of the device. Only a probe may show that the device was removed or has
/// lost its link: it may raise no interrupt, and may still complete frames.
const PROBE_AFTER: Nanos = 1_000_000_000;
/// Number of syncs between two reads of the clock while the program does not sleep.
const SYNCS_PER_LOOK: u32 = 64;
/// How long a device with a link may take to send a frame before it counts as stuck.
const STUCK_AFTER: Nanos = 10_000_000_000;
/// Time between two probes while the link is settling.
const SETTLE_PROBE_AFTER: Nanos = 100_000_000;

/// A queue on a chip. Fields are dropped in order: the chip is stopped before `tx_side` and
/// `rx_side` free the buffers that it had.
pub struct CardQueue<C: NicChip> {
    chip: StoppedAtDrop<C>,
    tx_side: TxSide,
    rx_side: RxSide,
    tx: TxRing,
    rx: RxRing,
    name: String,
    /// A second descriptor of the interrupt's event. Every wait includes it, so a change of the
    /// link ends every wait.
    link_event: OwnedFd,
    link: LinkState,
    ends_when_down: bool,
    /// Whether a probe has found a link since the port was opened. Before that, the card is still
    /// negotiating, so a link that is down has not gone down.
    had_link: bool,
    /// When the device is next probed if nothing else requests a probe.
    probe_at: Nanos,
    /// Number of syncs until the clock is compared with `probe_at`.
    syncs_to_look: u32,
    wants_probe: bool,
    /// The events for which the interrupt is unmasked; `None` while all its causes are masked.
    armed_for: Option<Interest>,
    /// Time since which frames are pending and none has been completed; `None` if no frame is
    /// pending, if the last tx sync has found a completed one, or if there is no link.
    tx_progress: Option<Nanos>,
    /// When the device is next probed because of frames that are pending.
    tx_probe_at: Nanos,
    settings: CardSettings,
    defaults: CardDefaults,
    control: Arc<CardControl>,
    counters: Arc<QueueCounters>,
}

/// The parts of a queue besides its chip.
pub(crate) struct CardQueueParts {
    pub(crate) name: String,
    pub(crate) tx_side: TxSide,
    pub(crate) rx_side: RxSide,
    pub(crate) tx: TxRing,
    pub(crate) rx: RxRing,
    pub(crate) link_event: OwnedFd,
    pub(crate) link: LinkState,
    pub(crate) settings: CardSettings,
    pub(crate) defaults: CardDefaults,
    pub(crate) control: Arc<CardControl>,
    pub(crate) ends_when_down: bool,
    pub(crate) counters: Arc<QueueCounters>,
}

/// A chip that is stopped when this value is dropped.
pub(crate) struct StoppedAtDrop<C: NicChip>(pub(crate) C);

impl<C: NicChip> Drop for StoppedAtDrop<C> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl<C: NicChip> CardQueue<C> {
    pub(crate) fn new(chip: StoppedAtDrop<C>, parts: CardQueueParts) -> Self {
        let CardQueueParts {
            name,
            tx_side,
            rx_side,
            tx,
            rx,
            link_event,
            link,
            settings,
            defaults,
            control,
            ends_when_down,
            counters,
        } = parts;
        Self {
            chip,
            tx_side,
            rx_side,
            tx,
            rx,
            name,
            link_event,
            link,
            ends_when_down,
            had_link: false,
            probe_at: 0,
            syncs_to_look: SYNCS_PER_LOOK,
            wants_probe: true,
            armed_for: None,
            tx_progress: None,
            tx_probe_at: 0,
            settings,
            defaults,
            control,
            counters,
        }
    }

    /// Returns the state of the link at the last probe.
    #[must_use]
    pub fn link(&self) -> LinkState {
        self.link
    }

    fn fail(&self, cause: impl Into<RunCause>) -> RunError {
        RunError::new(&self.name, cause)
    }

    /// Serves a request to change settings, and probes the device if a probe is due.
    #[inline(always)]
    fn watch(&mut self) -> Result<(), RunCause> {
        if self.control.has_request() {
            self.serve_request();
        }
        self.syncs_to_look -= 1;
        if self.syncs_to_look == 0 {
            self.look_at_clock();
        }
        if self.wants_probe { self.probe() } else { Ok(()) }
    }

    /// Requests a probe if one is due.
    #[cold]
    fn look_at_clock(&mut self) {
        self.syncs_to_look = SYNCS_PER_LOOK;
        self.wants_probe |= now() >= self.probe_at;
    }

    /// Reads the link. Returns the error that ends the port if the device was removed, is wanted by
    /// the kernel or was reset by something else, or if the link went down and the options say that
    /// this ends the port.
    #[cold]
    fn probe(&mut self) -> Result<(), RunCause> {
        if self.control.is_revoked() {
            return Err(RunCause::CardRevoked);
        }
        self.wants_probe = false;
        self.link = self.chip.0.probe().map_err(|fault| match fault {
            ChipFault::Gone => RunCause::CardGone,
            ChipFault::Reset => RunCause::CardReset,
        })?;
        let is_settling = self.chip.0.is_settling();
        self.probe_at = now() + if is_settling { SETTLE_PROBE_AFTER } else { PROBE_AFTER };
        if !self.link.is_up {
            // Without a link, frames wait in the device, so it does not count as stuck.
            self.tx_progress = None;
            let ends = self.ends_when_down && self.had_link;
            return if ends { Err(RunCause::WentDown) } else { Ok(()) };
        }
        self.had_link = true;
        Ok(())
    }

    /// Whether something other than the card may decide that it sends nothing: its host, or pause
    /// frames of the link's other end.
    fn may_be_held_up(&self) -> bool {
        self.chip.0.is_paced_by_host() || self.settings.pause == Some(true)
    }

    /// Changes the settings as another thread has requested. The request has raised the interrupt's
    /// event, so a sleep ends, and this function is called before the next sleep at the latest.
    #[cold]
    fn serve_request(&mut self) {
        // Requests a probe, because the link may have changed, or the device may be gone or
        // revoked.
        self.wants_probe = true;
        let Some((number, request)) = self.control.take() else { return };
        let answer = self.change(&request);
        self.control.answer(number, answer);
    }

    fn change(&mut self, request: &SettingsRequest) -> Result<CardStatus, SettingRefusal> {
        let tx_side = &mut self.tx_side;
        let limit_tx = |bytes| tx_side.set_max_packet(bytes);
        let chip = &mut self.chip.0;
        let settings = execute(chip, &self.defaults, self.settings, request, limit_tx)?;
        self.settings = settings;
        self.link = chip.probe().unwrap_or(LinkState::DOWN);
        Ok(CardStatus { settings, link: self.link })
    }

    /// Probes the device if it has had frames for too long without completing one. Reads the clock
    /// only when the device has frames and completes none.
    #[inline(always)]
    fn watch_pending(&mut self, moved: bool) -> Result<(), RunCause> {
        if moved || self.tx_side.packets_out() == 0 {
            self.tx_progress = None;
            return Ok(());
        }
        self.watch_stalled()
    }

    #[cold]
    fn watch_stalled(&mut self) -> Result<(), RunCause> {
        if !self.link.is_up {
            return Ok(());
        }
        let time = now();
        if self.tx_progress.is_none() {
            self.tx_progress = Some(time);
            self.tx_probe_at = time + self.chip.0.tx_probe_after();
        }
        if time < self.tx_probe_at {
            return Ok(());
        }
        self.tx_probe_at = time + self.chip.0.tx_probe_after();
        self.probe()?;
        // A card can count as stuck only here, right after a tx sync that found nothing completed.
        // A program that only receives does not look for completed frames.
        let is_late = |since: Nanos| time.saturating_sub(since) >= STUCK_AFTER;
        if !self.tx_progress.is_some_and(is_late) || self.may_be_held_up() {
            return Ok(());
        }
        Err(RunCause::CardStuck { seconds: STUCK_AFTER / 1_000_000_000 })
    }

    fn send(&mut self) -> Result<(), RunCause> {
        let before = self.tx_side.packets_done();
        self.tx_side.sync(self.chip.0.tx(), |_, _| Ok(()))?;
        let moved = self.tx_side.packets_done() != before;
        self.watch_pending(moved)?;
        self.watch()
    }

    fn receive(&mut self) -> Result<(), RunCause> {
        self.rx_side.sync(self.chip.0.rx())?;
        self.watch()
    }

    fn take(&mut self, events: ChipEvents) {
        self.wants_probe |= events.wants_probe;
    }
}

impl<C: NicChip> Queue for CardQueue<C> {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    #[inline]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.send().map_err(|cause| self.fail(cause))
    }

    #[inline]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.receive().map_err(|cause| self.fail(cause))
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        use std::os::fd::AsFd;
        let event = self.chip.0.interrupt().event();
        WaitFds {
            rx: Some(event),
            tx: Some(TxWait::Readable(event)),
            link: Some(self.link_event.as_fd()),
        }
    }

    /// Returns the time of the next probe, at which a wait must end. A device that is gone or
    /// completes nothing raises no interrupt, nor does a link that is settling.
    fn deadline(&self) -> Option<Nanos> {
        let tx = self.tx_progress.map_or(Nanos::MAX, |_| self.tx_probe_at);
        Some(tx.min(self.probe_at))
    }

    fn is_link_down(&self) -> bool {
        !self.link.is_up
    }

    fn before_sleep(&mut self, interest: Interest) {
        // A thread of the daemon sleeps here for its clients. A long time may pass before they
        // sync, so a request is served before the sleep.
        if self.control.has_request() {
            self.serve_request();
        }
        self.look_at_clock();
        // Unmasking also acknowledges all causes. If the device is armed already, unmasking again
        // could discard a cause for which it has not yet raised the interrupt.
        if self.armed_for == Some(interest) {
            return;
        }
        let events = self.chip.0.unmask(interest);
        self.take(events);
        self.armed_for = Some(interest);
    }

    fn after_sleep(&mut self) {
        if self.armed_for.take().is_none() {
            return;
        }
        let events = self.chip.0.mask();
        self.take(events);
        let interrupt = self.chip.0.interrupt();
        // The causes are acknowledged, so the device no longer asserts the line.
        if interrupt.clear() && interrupt.kind() == InterruptKind::IntX {
            self.wants_probe |= interrupt.rearm(self.chip.0.device()).is_err();
        }
    }

    fn update_stats(&mut self) {
        self.chip.0.count_drops(&mut set_drops(&self.counters));
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

impl<C: NicChip> Drop for CardQueue<C> {
    fn drop(&mut self) {
        self.control.close();
    }
}

impl<C: NicChip> std::fmt::Debug for CardQueue<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CardQueue({}, {:?})", self.name, self.link)
    }
}

#[cfg(test)]
mod tests;
