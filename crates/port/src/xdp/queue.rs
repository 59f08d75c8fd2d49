//! One queue of an `xdp:` port: an AF_XDP socket, its rings, and the ring pair of the program.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_ring::{RingHalves, Rx, RxRing, Tx, TxRing};

use super::KeepAlive;
use super::ends::kick;
use super::program::XdpHook;
use super::socket::{XdpSocket, fault};
use super::sys;
use crate::bpf::host::HostDetached;
use crate::error::{OpenCause, RunCause, RunError};
use crate::iface::{FeatureGuard, Promisc};
use crate::lender::{DelegatedQueue, QueueLender};
use crate::link_watch::LinkWatch;
use crate::nic::ownership::{SyncDirection, SyncOwnership};
use crate::nic::{OffloadFixup, RxSide, TxLimits, TxSide};
use crate::queue::{Interest, Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{DropCause, QueueCounters};

/// Number of idle syncs between two checks that the interface still exists.
const PROBE_AFTER_IDLE_SYNCS: u32 = 1024;

/// State that the queues of a port share. It is dropped with the last queue.
#[derive(Debug)]
pub(super) struct XdpDevice {
    pub(super) detached: Option<HostDetached>,
    pub(super) promisc: Option<Promisc>,
    pub(super) features: FeatureGuard,
    pub(super) hook: Arc<XdpHook>,
    /// A value of the caller that must live as long as any queue of the port.
    pub(super) _kept: Option<KeepAlive>,
}

/// The parts of a queue besides its socket.
pub(super) struct XdpQueueParts {
    pub(super) tx: RingHalves<Tx>,
    pub(super) rx: RingHalves<Rx>,
    /// Number of buffers that the rx side keeps in reserve.
    pub(super) reserve: u32,
    pub(super) fixup: OffloadFixup,
    pub(super) limits: TxLimits,
    /// Whether frames come from the kernel itself, not from hardware.
    pub(super) software: bool,
    pub(super) link: LinkWatch,
    /// Whether `link` watches another interface, to which sent frames are redirected. While that
    /// interface is down, the kernel would accept frames and lose them.
    pub(super) gated: bool,
    pub(super) device: Arc<XdpDevice>,
}

/// A queue. Its fields are dropped in order: first the socket, so that the kernel releases the
/// buffers; then the two halves, which put the buffers into slots; then the slots.
#[derive(Debug)]
pub(super) struct XdpQueue {
    socket: XdpSocket,
    tx_side: TxSide,
    rx_side: RxSide,
    tx: TxRing,
    rx: RxRing,
    name: String,
    idle_syncs: u32,
    /// Whether the next sync checks the interface, because the queue may have been woken for
    /// another reason than a frame, or the last sync failed.
    needs_probe: bool,
    busy_poll: bool,
    chains: bool,
    software: bool,
    link: LinkWatch,
    gated: bool,
    max_slot_len: u32,
    /// The ownership words and counts of a queue that can be lent; `None` before the first loan.
    ownership: Option<SyncOwnership>,
    counters: Arc<QueueCounters>,
    device: Arc<XdpDevice>,
}

impl XdpQueue {
    /// Posts the rx buffers to the kernel, and only then redirects the frames of device queue
    /// `number` to this socket. So no frame arrives before there is a buffer for it.
    pub(super) fn start(
        name: &str,
        number: u32,
        mut socket: XdpSocket,
        parts: XdpQueueParts,
        busy_poll: bool,
    ) -> Result<Self, OpenCause> {
        let XdpQueueParts {
            tx,
            rx,
            reserve,
            fixup: finisher,
            limits,
            software,
            link,
            gated,
            device,
        } = parts;
        let counters = Arc::<QueueCounters>::default();
        let rx_side = RxSide::start(rx.kern, &mut socket.rx, reserve, finisher, counters.clone());
        let queue = Self {
            tx_side: TxSide::new(tx.kern, limits, counters.clone()),
            rx_side,
            socket,
            tx: tx.app,
            rx: rx.app,
            name: name.to_owned(),
            idle_syncs: 0,
            needs_probe: false,
            busy_poll,
            chains: limits.chains,
            software,
            link,
            gated,
            max_slot_len: limits.packet,
            ownership: None,
            counters,
            device,
        };
        let led = queue.device.hook.redirect_queue(number, queue.socket.fd());
        led.map_err(|source| OpenCause::System { what: "lead frames to the socket", source })?;
        Ok(queue)
    }

    #[inline(always)]
    fn receive(&mut self) -> Result<(), RunCause> {
        let arrived = self.rx_side.sync(&mut self.socket.rx)?;
        if self.socket.rx.fill.needs_wakeup() || (self.busy_poll && !arrived) {
            sys::kick_rx(self.socket.fd()).or_else(|error| fault("receive", error))?;
        }
        self.check(arrived, SyncDirection::Rx)
    }

    #[inline(always)]
    fn send(&mut self) -> Result<(), RunCause> {
        if self.gated && self.is_gated_down()? {
            self.tx_side.complete_without_sending(&mut self.socket.tx)?;
            return self.check(false, SyncDirection::Tx);
        }
        let before = self.tx_side.packets_out();
        self.sync_tx()?;
        let after = self.tx_side.packets_out();
        self.check(after == 0 || after != before, SyncDirection::Tx)
    }

    /// Returns whether the interface to which the kernel would redirect the frames is down. This is
    /// checked before each batch, because the kernel does not report the frames that it loses then.
    fn is_gated_down(&mut self) -> Result<bool, RunCause> {
        self.link.read_events();
        self.refresh_link()?;
        Ok(self.link.is_down())
    }

    /// Checks whether the interface still exists: after a wakeup, and from time to time while no
    /// frames move. This is necessary because the socket reports no error when the interface has
    /// disappeared.
    #[inline(always)]
    fn check(&mut self, moved: bool, syncing: SyncDirection) -> Result<(), RunCause> {
        if moved {
            self.idle_syncs = 0;
        } else {
            self.idle_syncs += 1;
        }
        if self.needs_probe || self.idle_syncs >= PROBE_AFTER_IDLE_SYNCS {
            return self.probe(Some(syncing));
        }
        Ok(())
    }

    /// Asks the kernel for the state of the interface, and sends waiting frames if the interface
    /// has come up. If the queue is lent, also passes the state on to the borrowing program.
    /// `syncing` is the direction that the caller has acquired.
    #[cold]
    fn probe(&mut self, syncing: Option<SyncDirection>) -> Result<(), RunCause> {
        self.idle_syncs = 0;
        self.needs_probe = false;
        self.link.read_events();
        let health = self.socket.probe().and_then(|()| self.refresh_link());
        self.set_down(health.as_ref().err().is_some_and(is_down));
        if health? { self.resume(syncing) } else { Ok(()) }
    }

    /// Returns whether the interface that `link` watches has come up. The socket reports only the
    /// state of its own interface, which may be another one.
    fn refresh_link(&mut self) -> Result<bool, RunCause> {
        let news = self.link.take_changed();
        match self.gated {
            true if news || self.link.is_down() => self.link.query(),
            true => Ok(false),
            false => Ok(self.link.mark_up()),
        }
    }

    /// Sends the frames that waited while the interface was down. It is uncertain whether the
    /// borrower of a lent queue ever syncs the tx ring again, so this process does it.
    #[cold]
    fn resume(&mut self, syncing: Option<SyncDirection>) -> Result<(), RunCause> {
        let send = if self.gated { Self::sync_tx } else { Self::kick_pending };
        match syncing {
            Some(SyncDirection::Tx) => send(self),
            _ => self.with_ownership(SyncDirection::Tx, send),
        }
    }

    /// Makes the kernel send frames that it was given while the interface was down.
    fn kick_pending(&mut self) -> Result<(), RunCause> {
        let socket = &mut self.socket;
        let (fd, zero_copy) = (socket.fd.as_fd(), socket.zero_copy);
        self.tx_side.kick_pending(&mut socket.tx, |side, ends| kick(side, ends, fd, zero_copy))
    }

    #[inline]
    fn sync_tx(&mut self) -> Result<(), RunCause> {
        let socket = &mut self.socket;
        let (fd, zero_copy) = (socket.fd.as_fd(), socket.zero_copy);
        self.tx_side.sync(&mut socket.tx, |side, ends| kick(side, ends, fd, zero_copy))
    }

    fn set_down(&mut self, down: bool) {
        if let Some(turns) = &mut self.ownership {
            turns.set_down(down);
        }
    }

    /// Handles a failed sync. If the interface is down and the port waits for it, the failure is
    /// ignored, and the next sync of either direction checks again: one direction must not assume
    /// that the interface is up while the other one has found it down.
    #[cold]
    fn handle_failure(&mut self, cause: RunCause) -> Result<(), RunError> {
        self.needs_probe = true;
        if is_down(&cause) {
            self.set_down(true);
        }
        let waits = match cause {
            RunCause::WentDown => self.link.mark_down(),
            cause => Err(cause),
        };
        waits.map_err(|cause| RunError::new(&self.name, cause))
    }
}

/// Returns whether the error means that the interface is down or gone. A program that syncs the
/// queue itself would not notice this.
fn is_down(cause: &RunCause) -> bool {
    matches!(cause, RunCause::Vanished | RunCause::WentDown)
}

/// Syncing in turn with a program to which the queue is lent.
impl XdpQueue {
    /// Syncs a direction, unless the borrowing program is syncing it.
    #[inline(always)]
    fn with_ownership(
        &mut self,
        direction: SyncDirection,
        sync: impl FnOnce(&mut Self) -> Result<(), RunCause>,
    ) -> Result<(), RunCause> {
        let Some(turns) = &self.ownership else { return sync(self) };
        if !turns.try_acquire(direction) {
            return Ok(());
        }
        let done = self.resync(direction).and_then(|()| sync(self));
        self.release_ownership(direction);
        done
    }

    /// Adopts the ring positions and counts of the program that has synced the direction.
    fn resync(&mut self, direction: SyncDirection) -> Result<(), RunCause> {
        let Some(turns) = &mut self.ownership else { return Ok(()) };
        let rejoined = match direction {
            SyncDirection::Tx => self.tx_side.resync(&mut self.socket.tx, turns),
            SyncDirection::Rx => self.rx_side.resync(&mut self.socket.rx, turns),
        };
        rejoined.map_err(|_| RunCause::System {
            what: "go on with the kernel's rings, which a program has spoiled",
            source: io::ErrorKind::InvalidData.into(),
        })
    }

    fn release_ownership(&self, direction: SyncDirection) {
        let Some(turns) = &self.ownership else { return };
        match direction {
            SyncDirection::Tx => {
                let anchors = self.tx_side.ring_anchors(&self.socket.tx);
                turns.release(direction, anchors, self.tx_side.is_special());
            }
            SyncDirection::Rx => {
                turns.release(direction, self.rx_side.ring_anchors(&self.socket.rx), false)
            }
        }
    }
}

impl QueueLender for XdpQueue {
    fn lend(&mut self, client_id: u32) -> Option<DelegatedQueue> {
        if !self.tx_side.is_lendable() || !self.rx_side.is_lendable() {
            return None;
        }
        let socket = self.socket.fd().try_clone_to_owned().ok()?;
        if self.ownership.is_none() {
            self.ownership = Some(SyncOwnership::new(self.rx.region())?);
        }
        let _ = self.set_host_only(false);
        let turns = self.ownership.as_mut()?;
        turns.begin_loan(client_id);
        Some(DelegatedQueue {
            socket,
            words: turns.offset(),
            cells: self.socket.rx.fill.size(),
            max_slot_len: self.max_slot_len,
            software: self.software,
            zero_copy: self.socket.zero_copy,
        })
    }

    fn revoke(&mut self) {
        if let Some(turns) = &self.ownership {
            turns.revoke_holder();
        }
        let _ = self.set_host_only(true);
        for direction in [SyncDirection::Tx, SyncDirection::Rx] {
            let Some(turns) = self.ownership.as_ref().filter(|turns| turns.is_claimed(direction))
            else {
                continue;
            };
            turns.force_acquire(direction);
            // The program may have ended in the middle of a sync. What it had not published is
            // ignored. If the indices of the kernel's rings are impossible, the set of the kernel's
            // buffers is not rebuilt from the slots, and the next sync reports the error.
            if self.resync(direction).is_ok() {
                match direction {
                    SyncDirection::Tx => self.tx_side.rebuild_in_flight(&mut self.socket.tx),
                    SyncDirection::Rx => self.rx_side.rebuild_posted(&mut self.socket.rx),
                }
            }
            self.release_ownership(direction);
        }
        if let Some(turns) = &mut self.ownership {
            turns.end_loan();
        }
    }

    fn set_host_only(&mut self, keep: bool) -> bool {
        if let Some(turns) = &mut self.ownership {
            turns.set_host_only(keep);
        }
        // This publishes the ring positions, and whether the program may go on to sync from these
        // positions.
        self.catch_up();
        self.ownership.as_ref().is_none_or(SyncOwnership::is_free)
    }
}

impl Queue for XdpQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    #[inline(always)]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.with_ownership(SyncDirection::Tx, Self::send)
            .or_else(|cause| self.handle_failure(cause))
    }

    #[inline(always)]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.with_ownership(SyncDirection::Rx, Self::receive)
            .or_else(|cause| self.handle_failure(cause))
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds {
            rx: Some(self.socket.wait_rx()),
            tx: Some(TxWait::WritableEdge(self.socket.wait_tx())),
            link: Some(self.link.events()),
        }
    }

    fn is_link_down(&self) -> bool {
        self.link.is_down()
    }

    fn before_sleep(&mut self, _interest: Interest) {
        self.socket.before_sleep();
    }

    fn after_sleep(&mut self) {
        self.socket.after_sleep();
        // A program that syncs in its own process does not watch the interface, so this process
        // does it.
        if self.link.read_events() && self.ownership.as_ref().is_some_and(SyncOwnership::is_lent) {
            // An error is ignored, because the next sync reports it again.
            let _ = self.probe(None);
        }
        self.needs_probe = true;
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn unsent(&mut self) -> u64 {
        self.socket.unsent(&self.tx_side)
    }

    fn lender(&mut self) -> Option<&mut dyn QueueLender> {
        Some(self)
    }

    /// Adopts what a borrower has done in both directions. Errors are ignored, because the next
    /// sync reports an error that cannot be recovered from.
    fn catch_up(&mut self) {
        for direction in [SyncDirection::Tx, SyncDirection::Rx] {
            let _ = self.with_ownership(direction, |_| Ok(()));
        }
    }

    fn update_stats(&mut self) {
        self.catch_up();
        let Ok(kernel) = sys::statistics(self.socket.fd()) else { return };
        // The kernel counts two causes in `rx_dropped`: no buffer, and a frame that is too long.
        // With chains, no frame is too long, so all counted frames lacked a buffer. Without chains,
        // the number of frames that lacked a buffer is at most the number of failed buffer lookups;
        // the remaining frames were too long.
        let looks = if self.chains { u64::MAX } else { kernel.rx_fill_ring_empty_descs };
        let no_buffer = looks.min(kernel.rx_dropped);
        self.counters.set_dropped(DropCause::RxNoBuffer, no_buffer);
        self.counters.set_dropped(DropCause::RxKernel, kernel.rx_dropped - no_buffer);
        self.counters.set_dropped(DropCause::RxRingFull, kernel.rx_ring_full);
    }
}
