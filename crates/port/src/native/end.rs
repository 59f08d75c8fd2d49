//! One ring pair of a pipe's end: its halves, and whom to wake.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_proto::{Client, LentRing};
use slipring_ring::{
    Doorbell, HostedRx, HostedTx, KernRing, Moved, NotSynced, Pair, Region, RegionError, RingView,
    Rx, RxRing, SlotIdx, SyncFault, Tx, TxRing,
};

use crate::error::RunCause;

/// Syncs in vain after which it is worth a call to ask whether the daemon is still there; who sleeps
/// is told.
const PATIENCE: u32 = 64;

/// An end of a pipe whose other end may be anywhere. Its rings belong to it: `tx` and `rx` are not
/// to be exchanged for others.
#[derive(Debug)]
pub struct NativeEnd {
    /// Frames to send.
    pub tx: TxRing,
    /// Frames received.
    pub rx: RxRing,
    tx_half: Option<Half<HostedTx>>,
    rx_half: Option<Half<HostedRx>>,
    kick: Doorbell,
    /// Readable when a bell rings, and when the daemon is gone.
    wakes: OwnedFd,
    /// Where the time of each rx sync is written to.
    stamped: Option<RingView>,
    idle: u32,
    /// Last: with it everything goes back.
    client: Client,
}

/// A half, and the bells that go with it.
#[derive(Debug)]
struct Half<T> {
    half: T,
    bell: Doorbell,
    peer: Doorbell,
}

impl NativeEnd {
    /// Takes up the first ring each way, in a mapping of the user's memory; a direction that there
    /// is none of gets a ring of one slot in `none`.
    pub(super) fn new(
        client: Client,
        [region, none]: [&Arc<Region>; 2],
        (who, stamps, kick): (u32, bool, OwnedFd),
        rings: Vec<LentRing>,
    ) -> Result<Self, RegionError> {
        let wakes = waiting_for(&client).map_err(no_epoll)?;
        let (mut tx_half, mut rx_half) = (None, None);
        for LentRing { receives, place, bell, peer, .. } in rings {
            let bells = (Doorbell::from_fd(bell), Doorbell::from_fd(peer));
            let wait = || add(&wakes, &bells.0).map_err(no_epoll);
            if receives && rx_half.is_none() {
                wait()?;
                let half = HostedRx::attach(region, place, who)?;
                rx_half = Some((place, Half { half, bell: bells.0, peer: bells.1 }));
            } else if !receives && tx_half.is_none() {
                wait()?;
                let half = HostedTx::attach(region, place, who)?;
                tx_half = Some((place, Half { half, bell: bells.0, peer: bells.1 }));
            }
        }
        let tx = match &tx_half {
            Some((place, _)) => TxRing::attach(region, place.tx, place.num_slots)?,
            None => Pair::<Tx>::absent(none, 0)?.app,
        };
        let rx = match &rx_half {
            Some((place, _)) => RxRing::attach(region, place.rx, place.num_slots)?,
            None => Pair::<Rx>::absent(none, 0)?.app,
        };
        let stamped = stamps.then(|| rx.view());
        Ok(Self {
            tx,
            rx,
            tx_half: tx_half.map(|(_, half)| half),
            rx_half: rx_half.map(|(_, half)| half),
            kick: Doorbell::from_fd(kick),
            wakes,
            stamped,
            idle: 0,
            client,
        })
    }

    /// Sends the whole packets that the program queued and takes back the slots that the peer is
    /// done with.
    ///
    /// # Errors
    /// [`RunCause`]: indices or words make no sense, or the daemon is gone.
    #[inline]
    pub fn tx_sync(&mut self) -> Result<(), RunCause> {
        self.tx_sync_shown(|_, _, _| {})
    }

    /// As [`Self::tx_sync`], but shows the slots.
    ///
    /// # Errors
    /// As [`Self::tx_sync`].
    #[inline]
    pub fn tx_sync_shown(
        &mut self,
        mut see: impl FnMut(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<(), RunCause> {
        let Some(Half { half, peer, .. }) = &mut self.tx_half else { return Ok(()) };
        match half.sync_shown(&mut see) {
            Ok(moved) => {
                wake(moved, peer, &self.kick);
                self.moved(moved)
            }
            Err(NotSynced::ByHost) => {
                self.client.tx_sync().map_err(by_host)?;
                half.synced_by_host(see).map_err(spoiled)
            }
            Err(why) => self.not_synced(why),
        }
    }

    /// Gives the slots that the program is done with back to the peer and takes over new frames.
    ///
    /// # Errors
    /// As [`Self::tx_sync`].
    #[inline]
    pub fn rx_sync(&mut self) -> Result<(), RunCause> {
        self.rx_sync_shown(|_, _, _| {})
    }

    /// As [`Self::rx_sync`], but shows the new frames' slots.
    ///
    /// # Errors
    /// As [`Self::tx_sync`].
    #[inline]
    pub fn rx_sync_shown(
        &mut self,
        mut see: impl FnMut(&KernRing, SlotIdx, SlotIdx),
    ) -> Result<(), RunCause> {
        let Some(Half { half, peer, .. }) = &mut self.rx_half else { return Ok(()) };
        let mut new = false;
        let synced = half.sync_shown(|ring, from, to| {
            new = from != to;
            see(ring, from, to);
        });
        match synced {
            Ok(moved) => {
                wake(moved, peer, &self.kick);
                if let Some(ring) = self.stamped.as_ref().filter(|_| new) {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    ring.set_timestamp(now.as_secs() as i64, now.subsec_micros().into());
                }
                self.moved(if new { Moved::from(1) } else { moved })
            }
            Err(NotSynced::ByHost) => {
                self.client.rx_sync().map_err(by_host)?;
                half.synced_by_host(see).map_err(spoiled)
            }
            Err(why) => self.not_synced(why),
        }
    }

    #[inline(always)]
    fn moved(&mut self, moved: Moved) -> Result<(), RunCause> {
        self.idle = if moved.slots > 0 { 0 } else { self.idle + 1 };
        if self.idle == PATIENCE { self.see_daemon() } else { Ok(()) }
    }

    #[cold]
    fn see_daemon(&mut self) -> Result<(), RunCause> {
        self.idle = 0;
        let mut fds = [PollFd::new(&self.client, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(1..) if fds[0].revents().intersects(gone) => Err(no_daemon()),
            _ => Ok(()),
        }
    }

    #[cold]
    fn not_synced(&mut self, why: NotSynced) -> Result<(), RunCause> {
        match why {
            // Whoever it is will have moved what there was.
            NotSynced::Busy => self.moved(Moved::default()),
            NotSynced::Reinit(reinit) => Err(SyncFault::from(reinit).into()),
            NotSynced::ByHost | NotSynced::Spoiled => Err(spoiled(why)),
        }
    }

    /// Readable when a sync is worth while after [`Self::announce_sleep`], or the daemon is gone.
    #[must_use]
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Says that this end is about to sleep for frames, free slots, or both. The caller must sync
    /// and look once more before it sleeps on [`Self::wake_fd`].
    pub fn announce_sleep(&self, for_frames: bool, for_slots: bool) {
        if let Some(rx) = self.rx_half.as_ref().filter(|_| for_frames) {
            rx.half.signs().guest_sleeps();
        }
        if let Some(tx) = self.tx_half.as_ref().filter(|_| for_slots) {
            tx.half.signs().guest_sleeps();
        }
    }

    /// Says that this end is awake, and silences its bells.
    pub fn wake(&mut self) {
        if let Some(rx) = &self.rx_half {
            rx.half.signs().guest_is_awake();
            rx.bell.silence();
        }
        if let Some(tx) = &self.tx_half {
            tx.half.signs().guest_is_awake();
            tx.bell.silence();
        }
        // The next sync that finds nothing asks for the daemon, which may be why it was woken.
        self.idle = PATIENCE - 1;
    }
}

#[inline(always)]
fn wake(moved: Moved, peer: &Doorbell, kick: &Doorbell) {
    if moved.guest {
        peer.ring();
    }
    if moved.host {
        kick.ring();
    }
}

#[cold]
fn spoiled(why: NotSynced) -> RunCause {
    let source = io::Error::new(io::ErrorKind::InvalidData, why.to_string());
    RunCause::System { what: "sync", source }
}

#[cold]
fn by_host(source: io::Error) -> RunCause {
    match source.kind() {
        io::ErrorKind::BrokenPipe => no_daemon(),
        _ => RunCause::System { what: "sync", source },
    }
}

#[cold]
fn no_daemon() -> RunCause {
    let source = io::Error::new(io::ErrorKind::BrokenPipe, "it has ended");
    RunCause::System { what: "reach the daemon", source }
}

/// What becomes readable when the daemon hangs up.
fn waiting_for(client: &Client) -> io::Result<OwnedFd> {
    let wakes = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&wakes, client, EventData::new_u64(0), EventFlags::RDHUP)?;
    Ok(wakes)
}

fn add(wakes: &OwnedFd, bell: &Doorbell) -> io::Result<()> {
    Ok(epoll::add(wakes, bell, EventData::new_u64(0), EventFlags::IN)?)
}

fn no_epoll(source: io::Error) -> RegionError {
    RegionError::Memory { step: "wait for bells beside", bytes: 0, source }
}
