//! Rings that the device has lent, and how the library borrows them.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use slipring_abi::{
    DELEGATED_QUEUES_SIZE, DELEGATION_SIZE, DELEGATION_VERSION, DelegatedRingLayout, NIOCLEND,
    NIOCLENDQ, NR_DO_RX_POLL, NR_NO_TX_POLL, NR_TIMESTAMP, NetmapRing, PlainData,
    decode_delegated_queues, decode_delegated_rings,
};
use slipring_native_proto::{NativeClient, SOCKET_NAME};
use slipring_port::xdp::{ClientSync, DelegatedRx, DelegatedTx, DelegatedXdpQueue};
use slipring_ring::{
    DeviceMapping, DirectionLayout, HostedRx, HostedSyncError, HostedTx, Region, RegionError,
    RingView, SyncReport,
};

use super::device::{borrowed, control, keeping_errno, kick, proc_path, time_of_day};
use super::{SyncOutcome, SyncedDirection};

/// Maximum time that the program waits for the native socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);

/// The program's settings for syncs of its port, from flags and an environment variable.
#[derive(Debug, Clone, Copy)]
pub(super) struct SyncPolicy {
    flags: u64,
}

impl SyncPolicy {
    pub(super) fn new(flags: u64) -> Self {
        Self { flags }
    }

    /// Returns whether this process may sync the rings at all.
    pub(super) fn allow_sync(self) -> bool {
        let wish = std::env::var_os("NETMAP_INPROCESS");
        let is_off = wish.is_some_and(|wish| wish.as_encoded_bytes().first() == Some(&b'0'));
        !is_off && self.flags & NR_DO_RX_POLL == 0
    }
}

/// One ring of a port.
#[derive(Debug)]
enum SyncedRing {
    PipeTx(HostedTx),
    PipeRx(HostedRx),
    QueueTx(DelegatedTx),
    QueueRx(DelegatedRx),
}

impl SyncedRing {
    /// Syncs the ring. Returns false if the device must do this sync.
    #[inline(always)]
    fn sync(&mut self, fd: c_int) -> bool {
        match self {
            Self::PipeTx(half) => after_pipe_sync(fd, half.sync_or_leave()),
            Self::PipeRx(half) => after_pipe_sync(fd, half.sync_or_leave()),
            Self::QueueTx(queue) => keeping_errno(|| queue.sync() == ClientSync::Done),
            Self::QueueRx(queue) => keeping_errno(|| queue.sync() == ClientSync::Done),
        }
    }

    fn is_lent(&self) -> bool {
        match self {
            Self::PipeTx(half) => half.is_lent(),
            Self::PipeRx(half) => half.is_lent(),
            Self::QueueTx(queue) => queue.is_lent(),
            Self::QueueRx(queue) => queue.is_lent(),
        }
    }

    fn view(&self) -> RingView {
        match self {
            Self::PipeTx(half) => half.kern().view(),
            Self::PipeRx(half) => half.kern().view(),
            Self::QueueTx(queue) => queue.ring().clone(),
            Self::QueueRx(queue) => queue.ring().clone(),
        }
    }
}

/// Wakes the other end of the pipe if this is necessary after the sync. Returns false if the device
/// must do this sync.
#[inline(always)]
fn after_pipe_sync(fd: c_int, synced: Result<SyncReport, HostedSyncError>) -> bool {
    match synced {
        Ok(report) => {
            if report.wake_host {
                keeping_errno(|| kick(fd));
            }
            true
        }
        // One of the errors means that another process syncs at this moment. Even then the device
        // must sync once more: the other process may have read `head` before the program released
        // its last slots.
        Err(_) => false,
    }
}

/// The rings of one direction of a port.
#[derive(Debug)]
pub(super) struct SyncedRings {
    rings: Vec<(SyncedRing, RingView)>,
    direction: SyncedDirection,
    syncs_in_poll: bool,
    /// Whether every rx sync writes its time to the ring, even if the ring does not request it.
    writes_times: bool,
    /// Whether a sync is in progress. If this is set before a sync, an earlier sync has panicked,
    /// and the device must do all syncs.
    is_syncing: bool,
}

impl SyncedRings {
    /// Returns whether these rings, which are tx rings, are also synced in a poll that only waits
    /// for frames to read.
    #[inline]
    pub(super) fn syncs_in_poll(&self) -> bool {
        self.syncs_in_poll
    }

    pub(super) fn are_lent(&self) -> bool {
        self.rings.iter().all(|(ring, _)| ring.is_lent())
    }

    /// Syncs all rings.
    #[inline]
    pub(super) fn sync(&mut self, fd: c_int) -> SyncOutcome {
        if std::mem::replace(&mut self.is_syncing, true) {
            return SyncOutcome::default();
        }
        let mut synced = SyncOutcome { done: true, ready: false };
        for (ring, view) in &mut self.rings {
            synced.done &= ring.sync(fd);
            let wants_time = self.writes_times || view.flags() & NR_TIMESTAMP != 0;
            if self.direction == SyncedDirection::Rx && wants_time {
                let (seconds, micros) = time_of_day();
                view.set_timestamp(seconds, micros);
            }
            synced.ready |= view.is_ready();
        }
        self.is_syncing = false;
        synced
    }
}

/// The AF_XDP sockets of a port's queues.
pub(super) type PortSockets = Vec<Arc<OwnedFd>>;

/// A port whose rings the device has lent.
#[derive(Debug)]
pub(super) struct SyncedPort {
    /// The path of the port's file, according to the kernel.
    pub(super) file: PathBuf,
    pub(super) sockets: PortSockets,
    pub(super) tx: SyncedRings,
    pub(super) rx: SyncedRings,
}

/// Rings that the device has lent.
#[derive(Debug, Default)]
struct Loan {
    tx: Vec<SyncedRing>,
    rx: Vec<SyncedRing>,
    sockets: PortSockets,
    writes_times: bool,
}

impl SyncedPort {
    /// Borrows the rings of the port to which `fd` is bound; `None` if the device does not lend
    /// them, or the library cannot use them.
    pub(super) fn borrow(fd: c_int, memory_bytes: u64, wishes: SyncPolicy) -> Option<Self> {
        let file = fs::read_link(proc_path(fd)).ok()?;
        // If the library cannot use the borrowed rings, they stay lent until the descriptor is
        // closed. The device syncs them until then.
        let loan = borrow_pipe(fd, memory_bytes);
        let loan = loan.or_else(|| borrow_queues(fd, memory_bytes, &file))?;
        let rings = |rings: Vec<SyncedRing>, direction| SyncedRings {
            rings: rings.into_iter().map(with_view).collect(),
            direction,
            syncs_in_poll: wishes.flags & NR_NO_TX_POLL == 0,
            writes_times: loan.writes_times,
            is_syncing: false,
        };
        let (tx, rx) = (rings(loan.tx, SyncedDirection::Tx), rings(loan.rx, SyncedDirection::Rx));
        Some(Self { file, sockets: loan.sockets, tx, rx })
    }
}

fn with_view(ring: SyncedRing) -> (SyncedRing, RingView) {
    let view = ring.view();
    (ring, view)
}

/// Maps the memory of `fd` as a region with at most `max_bufs` buffers. The layout of the region is
/// read from the ring at `ring`.
fn region(fd: c_int, memory_bytes: u64, ring: u64, max_bufs: u32) -> io::Result<Arc<Region>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let refused = |_: RegionError| invalid();
    let device = borrowed(fd).ok_or_else(invalid)?;
    // The port ends when the program closes its descriptor. So the library must not have a
    // duplicate of it.
    let mapping = DeviceMapping::borrowing(device, memory_bytes).map_err(refused)?;
    let mut header = [0; size_of::<NetmapRing>()];
    let header = mapping.read(ring, &mut header).then(|| NetmapRing::read_from(&header)).flatten();
    let header = header.ok_or_else(invalid)?;
    let data_start = ring.checked_add_signed(header.buf_ofs).ok_or_else(invalid)?;
    mapping.into_region_of(data_start, header.nr_buf_size, max_bufs).map_err(refused)
}

/// Borrows the rings of a pipe's end.
fn borrow_pipe(fd: c_int, memory_bytes: u64) -> Option<Loan> {
    let mut answer = [0; DELEGATION_SIZE];
    answer[..4].copy_from_slice(&DELEGATION_VERSION.to_ne_bytes());
    control(fd, NIOCLEND, &mut answer).ok()?;
    let (client_id, writes_times, layouts) = decode_delegated_rings(&answer)?;
    let first = layouts.first()?;
    let ring = if first.receives { first.rx } else { first.tx };
    let region = region(fd, memory_bytes, ring, u32::MAX).ok()?;
    let mut loan = Loan { writes_times, ..Loan::default() };
    for &DelegatedRingLayout { words, tx, rx, num_slots, receives, .. } in &layouts {
        let layout = DirectionLayout { words, tx, rx, num_slots };
        if receives {
            loan.rx.push(SyncedRing::PipeRx(HostedRx::attach(&region, layout, client_id).ok()?));
        } else {
            loan.tx.push(SyncedRing::PipeTx(HostedTx::attach(&region, layout, client_id).ok()?));
        }
    }
    Some(loan)
}

/// Borrows the queues of an interface from the device whose file is `file`.
fn borrow_queues(fd: c_int, memory_bytes: u64, file: &Path) -> Option<Loan> {
    let mut answer = [0; DELEGATED_QUEUES_SIZE];
    answer[..4].copy_from_slice(&DELEGATION_VERSION.to_ne_bytes());
    control(fd, NIOCLENDQ, &mut answer).ok()?;
    let (client_id, writes_times, token, layouts) = decode_delegated_queues(&answer)?;
    // The native socket and the directory of the device file have the same parent directory.
    let path = file.parent()?.parent()?.join(SOCKET_NAME);
    let client = NativeClient::connect_within(&path, SOCKET_TIMEOUT).ok()?;
    let sockets = client.take_sockets(token).ok()?;
    let first = layouts.first().filter(|_| sockets.len() == layouts.len())?;
    let ring = if first.tx == 0 { first.rx } else { first.tx };
    let region = region(fd, memory_bytes, ring, first.bufs).ok()?;
    let mut loan = Loan { writes_times, ..Loan::default() };
    for (socket, layout) in sockets.into_iter().zip(&layouts) {
        let queue = DelegatedXdpQueue::attach(&region, socket, layout, client_id).ok()?;
        loan.sockets.push(queue.socket);
        loan.tx.extend(queue.tx.map(SyncedRing::QueueTx));
        loan.rx.extend(queue.rx.map(SyncedRing::QueueRx));
    }
    Some(loan)
}
