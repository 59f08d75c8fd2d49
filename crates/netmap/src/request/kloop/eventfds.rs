//! The eventfds of a sync loop: a pair for each ring, with which the two sides wake each other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
use slipring_abi::*;

use crate::memory::caller::CallerMemory;
use crate::open::csb::Csb;
use crate::request::message::NetmapRequest;
use crate::types::shape::TxRx;

/// The bit of the option's mode that selects direct mode, for each direction.
const DIRECT_MODE_BITS: [u32; 2] = [NM_OPT_SYNC_KLOOP_DIRECT_TX, NM_OPT_SYNC_KLOOP_DIRECT_RX];

/// The two eventfds of one ring.
#[derive(Debug, Default)]
struct RingEventfds {
    /// The program signals it to wake the loop.
    io: Option<OwnedFd>,
    /// The loop signals it to wake the program.
    irq: Option<OwnedFd>,
}

/// The eventfds of all rings; empty if the start request did not pass any.
#[derive(Debug)]
pub(super) struct KloopKicks {
    pairs: Vec<RingEventfds>,
    /// Direct mode, by direction: whether a kick makes the loop sync the ring of the kicked eventfd
    /// before the others.
    direct: [bool; 2],
}

impl KloopKicks {
    /// Reads the options of a start request.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if the number of pairs is not the number of rings, the mode is invalid, or
    /// direct mode lacks an eventfd that it needs; [`Errno::BADF`] and other errors if an eventfd
    /// cannot be opened.
    pub(super) fn from_request(
        request: &mut NetmapRequest,
        csb: &Csb,
        caller: &mut dyn CallerMemory,
    ) -> Result<Self, Errno> {
        const OPTION_KIND: u32 = NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS;
        let listed = request.options.take_bytes(OPTION_KIND);
        let pairs = match &listed {
            Some((head, body)) => pairs(head, body, csb.rings.len(), caller),
            None => Ok(Vec::new()),
        };
        let pairs = request.options.record_result(OPTION_KIND, pairs)?;
        let mode = request.options.take(NETMAP_REQ_OPT_SYNC_KLOOP_MODE);
        let direct = mode.map_or(Ok([false; 2]), |mode| direct(&mode, &pairs, &csb.rings));
        let direct = request.options.record_result(NETMAP_REQ_OPT_SYNC_KLOOP_MODE, direct)?;
        Ok(Self { pairs, direct })
    }

    /// Returns whether every ring has an eventfd with which the program wakes the loop.
    pub(super) fn covers_all_rings(&self) -> bool {
        !self.pairs.is_empty() && self.pairs.iter().all(|pair| pair.io.is_some())
    }

    /// Sleeps until the program or the bell wakes the loop; returns which rings to sync first.
    pub(super) fn wait(&self, bell: BorrowedFd<'_>, rings: &RingDirs) -> Result<Vec<bool>, Errno> {
        let kicks = self.pairs.iter().filter_map(|pair| pair.io.as_ref().map(AsFd::as_fd));
        let fds: Vec<_> = std::iter::once(bell).chain(kicks).collect();
        let ready = wait_for(&fds, None);
        for (fd, _) in fds[1..].iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            clear(*fd);
        }
        let own_only = |dir: TxRx| self.direct[dir as usize];
        let others =
            ready[1..].iter().zip(rings).any(|(&ready, &(dir, _))| ready && !own_only(dir));
        let all = ready[0] || others;
        Ok(ready[1..].iter().map(|&ready| all || ready).collect())
    }

    /// Wakes the program for ring `k`.
    pub(super) fn wake(&self, k: usize) {
        let Some(irq) = self.pairs.get(k).and_then(|pair| pair.irq.as_ref()) else { return };
        // If the program never reads the eventfd, its counter becomes full, and a write would
        // block. So the write is done only if there is space.
        let mut room = [PollFd::new(irq, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut room, Some(&now)) == Ok(1) {
            let _ = rustix::io::write(irq, &1u64.to_ne_bytes());
        }
    }
}

fn pairs(
    head: &NmreqOption,
    body: &[u8],
    rings: usize,
    caller: &mut dyn CallerMemory,
) -> Result<Vec<RingEventfds>, Errno> {
    if head.nro_size != (NmreqOption::SIZE + rings * KloopEventfds::SIZE) as u64 {
        return Err(Errno::INVAL);
    }
    let numbers = body.chunks_exact(KloopEventfds::SIZE).filter_map(KloopEventfds::read_from);
    let mut own = |number: i32| match number {
        0.. => caller.eventfd(number).map(Some),
        _ => Ok(None),
    };
    numbers.map(|it| Ok(RingEventfds { io: own(it.ioeventfd)?, irq: own(it.irqfd)? })).collect()
}

fn direct(
    mode: &NmreqOptSyncKloopMode,
    pairs: &[RingEventfds],
    rings: &RingDirs,
) -> Result<[bool; 2], Errno> {
    let direct = DIRECT_MODE_BITS.map(|bit| mode.mode & bit != 0);
    let lacks = |(k, &(dir, _)): (usize, &(TxRx, usize))| {
        let whole = pairs.get(k).is_some_and(|pair| pair.io.is_some() && pair.irq.is_some());
        direct[dir as usize] && !whole
    };
    let known = mode.mode & !(DIRECT_MODE_BITS[0] | DIRECT_MODE_BITS[1]) == 0;
    if known && !rings.iter().enumerate().any(lacks) { Ok(direct) } else { Err(Errno::INVAL) }
}

/// Resets an eventfd without blocking: the program may already have read it.
fn clear(fd: BorrowedFd<'_>) {
    let mut count = [0; 8];
    let _ = preadv2(fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// Waits until a descriptor is readable or the time is over; returns which are readable.
pub(super) fn wait_for(fds: &[BorrowedFd<'_>], time: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let time = time.map(|time| Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    });
    // A signal to this process ends the wait early, as if nothing were readable.
    let _ = poll(&mut polled, time.as_ref());
    polled.iter().map(|one| !one.revents().is_empty()).collect()
}

/// The direction of each ring, and its number in that direction.
type RingDirs = [(TxRx, usize)];
