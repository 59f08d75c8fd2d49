//! One ring pair of a pipe's end: its halves, and the doorbells of the end and of its peers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_native_proto::{DelegatedRing, NativeClient};
use slipring_ring::{
    Doorbell, HostedRx, HostedSyncError, HostedTx, KernRing, Region, RegionError, RingHalves,
    RingView, Rx, RxRing, SlotIdx, SyncFault, SyncReport, Tx, TxRing,
};

use crate::error::RunCause;

/// Number of idle syncs in a row after which a system call checks whether the daemon still exists.
/// An end that sleeps is woken when the daemon ends.
const PROBE_AFTER_IDLE_SYNCS: u32 = 64;

/// One ring pair of a pipe's end. The other end may be in any process. `tx` and `rx` belong to this
/// value and must not be exchanged for other rings.
#[derive(Debug)]
pub struct NativeEnd {
    /// The ring on which the end sends.
    pub tx: TxRing,
    /// The ring on which the end receives.
    pub rx: RxRing,
    tx_half: Option<NativeHalf<HostedTx>>,
    rx_half: Option<NativeHalf<HostedRx>>,
    kick: Doorbell,
    /// A descriptor that is readable when a doorbell rings, or when the daemon has ended.
    wakes: OwnedFd,
    /// The ring whose timestamp is set by each rx sync of this process that brings frames; `None`
    /// if the daemon does not request that.
    timestamped: Option<RingView>,
    idle_syncs: u32,
    /// The connection to the daemon. Must be dropped last, because closing it returns the rings and
    /// the memory to the daemon.
    client: NativeClient,
}

/// The ring half of one direction, its own doorbell, and that of its peer.
#[derive(Debug)]
struct NativeHalf<T> {
    half: T,
    doorbell: Doorbell,
    peer_doorbell: Doorbell,
}

impl NativeEnd {
    /// Takes over the first ring of each direction, in a mapping of the user's memory. A direction
    /// without a ring gets a ring of one slot in the region `none`.
    pub(super) fn new(
        client: NativeClient,
        [region, none]: [&Arc<Region>; 2],
        (client_id, stamps, kick): (u32, bool, OwnedFd),
        rings: Vec<DelegatedRing>,
    ) -> Result<Self, RegionError> {
        let wakes = epoll_for(&client).map_err(epoll_error)?;
        let (mut tx_half, mut rx_half) = (None, None);
        for DelegatedRing { receives, layout, doorbell: bell, peer_doorbell: peer, .. } in rings {
            let bells = (Doorbell::from_fd(bell), Doorbell::from_fd(peer));
            let wait = || add_doorbell(&wakes, &bells.0).map_err(epoll_error);
            if receives && rx_half.is_none() {
                wait()?;
                let half = HostedRx::attach(region, layout, client_id)?;
                rx_half =
                    Some((layout, NativeHalf { half, doorbell: bells.0, peer_doorbell: bells.1 }));
            } else if !receives && tx_half.is_none() {
                wait()?;
                let half = HostedTx::attach(region, layout, client_id)?;
                tx_half =
                    Some((layout, NativeHalf { half, doorbell: bells.0, peer_doorbell: bells.1 }));
            }
        }
        let tx = match &tx_half {
            Some((layout, _)) => TxRing::attach(region, layout.tx, layout.num_slots)?,
            None => RingHalves::<Tx>::absent(none, 0)?.app,
        };
        let rx = match &rx_half {
            Some((layout, _)) => RxRing::attach(region, layout.rx, layout.num_slots)?,
            None => RingHalves::<Rx>::absent(none, 0)?.app,
        };
        let stamped = stamps.then(|| rx.view());
        Ok(Self {
            tx,
            rx,
            tx_half: tx_half.map(|(_, half)| half),
            rx_half: rx_half.map(|(_, half)| half),
            kick: Doorbell::from_fd(kick),
            wakes,
            timestamped: stamped,
            idle_syncs: 0,
            client,
        })
    }

    /// Sends the whole packets that the program queued, and takes back the slots that the peer has
    /// released.
    ///
    /// # Errors
    /// [`RunCause`] if indices or words are impossible, or the daemon has ended.
    #[inline]
    pub fn tx_sync(&mut self) -> Result<(), RunCause> {
        self.tx_sync_observed(|_, _, _| {})
    }

    /// Like [`Self::tx_sync`], but calls `see` with the slots of the sent frames.
    ///
    /// # Errors
    /// Same as [`Self::tx_sync`].
    #[inline]
    pub fn tx_sync_observed(
        &mut self,
        mut see: impl FnMut(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<(), RunCause> {
        let Some(NativeHalf { half, peer_doorbell: peer, .. }) = &mut self.tx_half else {
            return Ok(());
        };
        match half.sync_shown(&mut see) {
            Ok(moved) => {
                wake(moved, peer, &self.kick);
                self.handle_report(moved)
            }
            Err(HostedSyncError::HostOnly | HostedSyncError::Busy) => {
                self.client.tx_sync().map_err(host_sync_error)?;
                half.synced_by_host(see).map_err(corrupt_error)
            }
            Err(why) => self.handle_sync_error(why),
        }
    }

    /// Returns to the peer the slots that the program has released, and takes over new frames.
    ///
    /// # Errors
    /// Same as [`Self::tx_sync`].
    #[inline]
    pub fn rx_sync(&mut self) -> Result<(), RunCause> {
        self.rx_sync_observed(|_, _, _| {})
    }

    /// Like [`Self::rx_sync`], but calls `see` with the slots of the new frames.
    ///
    /// # Errors
    /// Same as [`Self::tx_sync`].
    #[inline]
    pub fn rx_sync_observed(
        &mut self,
        mut see: impl FnMut(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<(), RunCause> {
        let Some(NativeHalf { half, peer_doorbell: peer, .. }) = &mut self.rx_half else {
            return Ok(());
        };
        let mut new = false;
        let synced = half.sync_shown(|ring, from, to| {
            new = from != to;
            see(ring, from, to);
        });
        match synced {
            Ok(moved) => {
                wake(moved, peer, &self.kick);
                if let Some(ring) = self.timestamped.as_ref().filter(|_| new) {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    ring.set_timestamp(now.as_secs() as i64, now.subsec_micros().into());
                }
                self.handle_report(if new { SyncReport::from(1) } else { moved })
            }
            Err(HostedSyncError::HostOnly | HostedSyncError::Busy) => {
                self.client.rx_sync().map_err(host_sync_error)?;
                half.synced_by_host(see).map_err(corrupt_error)
            }
            Err(why) => self.handle_sync_error(why),
        }
    }

    #[inline(always)]
    fn handle_report(&mut self, moved: SyncReport) -> Result<(), RunCause> {
        self.idle_syncs = if moved.slots > 0 { 0 } else { self.idle_syncs + 1 };
        if self.idle_syncs == PROBE_AFTER_IDLE_SYNCS { self.check_daemon() } else { Ok(()) }
    }

    #[cold]
    fn check_daemon(&mut self) -> Result<(), RunCause> {
        self.idle_syncs = 0;
        let mut fds = [PollFd::new(&self.client, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(1..) if fds[0].revents().intersects(gone) => Err(daemon_gone_error()),
            _ => Ok(()),
        }
    }

    #[cold]
    fn handle_sync_error(&mut self, why: HostedSyncError) -> Result<(), RunCause> {
        match why {
            HostedSyncError::Reinit(reinit) => Err(SyncFault::from(reinit).into()),
            HostedSyncError::HostOnly | HostedSyncError::Busy | HostedSyncError::Corrupt => {
                Err(corrupt_error(why))
            }
        }
    }

    /// Returns a descriptor to sleep on after [`Self::announce_sleep`]. It is readable when a sync
    /// is worthwhile, or when the daemon has ended.
    #[must_use]
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Announces that this end is about to sleep for frames, free slots, or both. The caller must
    /// sync and check once more before it sleeps on [`Self::wake_fd`].
    pub fn announce_sleep(&self, for_frames: bool, for_slots: bool) {
        if let Some(rx) = self.rx_half.as_ref().filter(|_| for_frames) {
            rx.half.signs().announce_guest_sleep();
        }
        if let Some(tx) = self.tx_half.as_ref().filter(|_| for_slots) {
            tx.half.signs().announce_guest_sleep();
        }
    }

    /// Announces that this end is awake, and clears its doorbells.
    pub fn wake(&mut self) {
        if let Some(rx) = &self.rx_half {
            rx.half.signs().clear_guest_sleep();
            rx.doorbell.clear();
        }
        if let Some(tx) = &self.tx_half {
            tx.half.signs().clear_guest_sleep();
            tx.doorbell.clear();
        }
        // The end of the daemon may have caused the wakeup, so the next idle sync checks whether
        // the daemon still exists.
        self.idle_syncs = PROBE_AFTER_IDLE_SYNCS - 1;
    }
}

#[inline(always)]
fn wake(moved: SyncReport, peer: &Doorbell, kick: &Doorbell) {
    if moved.wake_guest {
        peer.ring();
    }
    if moved.wake_host {
        kick.ring();
    }
}

#[cold]
fn corrupt_error(why: HostedSyncError) -> RunCause {
    let source = io::Error::new(io::ErrorKind::InvalidData, why.to_string());
    RunCause::System { what: "sync", source }
}

#[cold]
fn host_sync_error(source: io::Error) -> RunCause {
    match source.kind() {
        io::ErrorKind::BrokenPipe => daemon_gone_error(),
        _ => RunCause::System { what: "sync", source },
    }
}

#[cold]
fn daemon_gone_error() -> RunCause {
    let source = io::Error::new(io::ErrorKind::BrokenPipe, "it has ended");
    RunCause::System { what: "reach the daemon", source }
}

/// Creates an epoll that becomes readable when the daemon hangs up.
fn epoll_for(client: &NativeClient) -> io::Result<OwnedFd> {
    let wakes = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&wakes, client, EventData::new_u64(0), EventFlags::RDHUP)?;
    Ok(wakes)
}

fn add_doorbell(wakes: &OwnedFd, bell: &Doorbell) -> io::Result<()> {
    Ok(epoll::add(wakes, bell, EventData::new_u64(0), EventFlags::IN)?)
}

fn epoll_error(source: io::Error) -> RegionError {
    RegionError::Memory { step: "wait for bells beside", bytes: 0, source }
}
