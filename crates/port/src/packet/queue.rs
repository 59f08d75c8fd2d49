//! The driver of one ring pair of a `packet:` port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use slipring_ring::{KernRing, Region, Rx, RxRing, SyncFault, Tx, TxRing};

use super::rx_filler::{RawPacket, RxFiller};
use super::sys::ring::{RxFrame, RxSocket};
use super::sys::{self, VNET_LEN};
use crate::bpf::host::HostDetached;
use crate::clock::Nanos;
use crate::error::{OpenCause, RunCause, RunError};
use crate::gather::{GatherList, transmit};
use crate::link_watch::LinkWatch;
use crate::options::OpenOptions;
use crate::queue::{Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{DropCause, QueueCounters};
use crate::succession::SocketRing;
use crate::xdp::{UnusedSender, XdpSender};

/// Length of the longest super-frame of the kernel, with its offload header, in bytes. Longer
/// frames (BIG TCP) are dropped.
const COPY_BUFFER_LEN: usize = VNET_LEN + (64 << 10) + 256;
/// Number of idle syncs between two checks of the socket's error.
const PROBE_AFTER_IDLE_SYNCS: u32 = 1024;
/// Maximum frame length in bytes. This driver has no limit; the kernel refuses frames that are too
/// long.
const MAX_FRAME_LEN: u32 = u32::MAX;

/// The sockets of a queue.
pub(super) struct PacketSockets {
    pub(super) receiver: RxSocket,
    pub(super) sender: SenderSocket,
    pub(super) link: LinkWatch,
}

/// The socket that sends.
pub(super) enum SenderSocket {
    Packet(OwnedFd),
    Xdp(Box<UnusedSender>),
}

/// A socket that sends the frames of a ring.
enum RingSender {
    Packet { socket: OwnedFd, ring: KernRing, gather: GatherList },
    Xdp(Box<XdpSender>),
}

/// A queue. The sender is dropped first, so that the kernel has released all buffers when the rings
/// are dropped.
pub(super) struct PacketQueue {
    sender: RingSender,
    name: String,
    tx: TxRing,
    rx: RxRing,
    rx_kern: KernRing,
    counters: Arc<QueueCounters>,
    receiver: RxSocket,
    /// Memory for a frame that was too long for the socket's ring.
    copy_buffer: Vec<u8>,
    /// Number of consecutive rx syncs in which no frame arrived.
    idle_syncs: u32,
    /// The receiver's error that was not reported yet, or 0.
    error: i32,
    /// Number of frames that the kernel has dropped so far.
    kernel_drops: u64,
    link: LinkWatch,
    /// Keeps the interface detached from the host as long as any queue of the port exists.
    _host: Option<Arc<HostDetached>>,
}

impl PacketQueue {
    pub(super) fn new(
        name: &str,
        ringid: u16,
        region: &Arc<Region>,
        options: &OpenOptions,
        sockets: PacketSockets,
    ) -> Result<Self, OpenCause> {
        let PacketSockets { receiver, sender, link } = sockets;
        let tx = options.ring::<Tx>(region, ringid.into(), ringid)?;
        let rx = options.ring::<Rx>(region, ringid.into(), ringid)?;
        let counters = Arc::<QueueCounters>::default();
        let sender = match sender {
            SenderSocket::Packet(socket) => {
                let gather = GatherList::new(region, options.slots);
                RingSender::Packet { socket, ring: tx.kern, gather }
            }
            SenderSocket::Xdp(sender) => {
                RingSender::Xdp(Box::new(sender.with_ring(tx.kern, counters.clone())))
            }
        };
        Ok(Self {
            name: name.to_owned(),
            tx: tx.app,
            rx: rx.app,
            rx_kern: rx.kern,
            counters,
            receiver,
            copy_buffer: vec![0; COPY_BUFFER_LEN],
            idle_syncs: 0,
            error: 0,
            kernel_drops: 0,
            sender,
            link,
            _host: None,
        })
    }

    /// Keeps the interface detached from the host as long as the queue exists.
    pub(super) fn with_host_detached(self, host: Option<Arc<HostDetached>>) -> Self {
        Self { _host: host, ..self }
    }

    fn fail(&self, cause: impl Into<RunCause>) -> RunError {
        RunError::new(&self.name, cause)
    }

    /// Moves arrived frames to free slots; returns the number of frames.
    #[inline]
    fn receive(&mut self) -> u64 {
        let mut inlet = RxFiller::new(&mut self.rx_kern, &self.counters);
        while let Some(frame) = self.receiver.peek() {
            let slots = inlet.slots_for(frame.len, &frame.vnet);
            if slots > inlet.room() && slots <= inlet.capacity() {
                break;
            }
            let queued = frame.queued;
            accept(&mut inlet, frame, slots);
            if queued {
                accept_queued(&mut inlet, self.receiver.as_fd(), &mut self.copy_buffer, slots);
            }
            self.receiver.release();
        }
        inlet.publish()
    }

    /// Checks that the interface still exists, and sends frames that waited for it to come up.
    #[cold]
    fn check_health(&mut self) -> Result<(), RunError> {
        self.idle_syncs = 0;
        let risen = self.query_link().map_err(|cause| self.fail(cause))?;
        if risen { self.tx_sync() } else { Ok(()) }
    }

    fn take_error(&mut self) {
        let code = sys::take_error(self.receiver.as_fd());
        self.error = if code == 0 { self.error } else { code };
    }

    /// Returns whether the interface has come up since it was last known to be down. The caller
    /// only has to resume sending, because the kernel resumes the receiver by itself.
    fn query_link(&mut self) -> Result<bool, RunCause> {
        self.take_error();
        let code = std::mem::take(&mut self.error);
        if code != 0 {
            let error = io::Error::from_raw_os_error(code);
            match lost(self.receiver.as_fd(), "receive", error) {
                RunCause::WentDown => self.link.mark_down()?,
                cause => return Err(cause),
            }
        }
        self.link.read_events();
        if self.link.take_changed() || self.link.is_down() { self.link.query() } else { Ok(false) }
    }
}

/// Delivers a frame that is in the socket's ring.
#[inline(always)]
fn accept(inlet: &mut RxFiller<'_>, frame: RxFrame<'_>, slots: u32) {
    let RxFrame { bytes, vnet, tag, len, queued, outgoing } = frame;
    if outgoing {
        // Frames that this machine sends are not received. The sockets are configured to omit them,
        // so the ring rarely has one.
    } else if slots > inlet.capacity() {
        inlet.drop_one(DropCause::RxTooLong);
    } else if bytes.len() == len as usize {
        inlet.deliver(RawPacket { bytes, vnet: &vnet, tag });
    } else if !queued {
        // The frame was too long for the socket's ring, and its bytes were lost because the
        // socket's queue was full.
        inlet.drop_one(DropCause::RxNoBuffer);
    }
}

/// Delivers a frame that waits in the socket's queue, because the socket's ring has only the
/// beginning of the frame.
#[cold]
fn accept_queued(inlet: &mut RxFiller<'_>, socket: BorrowedFd<'_>, stash: &mut [u8], slots: u32) {
    let received = sys::receive(socket, stash);
    if slots > inlet.capacity() {
        return;
    }
    let received = match received {
        Ok(received) => received,
        Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
            return inlet.drop_one(DropCause::RxTooLong);
        }
        Err(_) => return inlet.drop_one(DropCause::RxNoBuffer),
    };
    match stash[..received.len].split_at_mut_checked(VNET_LEN) {
        Some((vnet, bytes)) => inlet.deliver(RawPacket { bytes, vnet, tag: received.tag }),
        None => inlet.drop_one(DropCause::RxMalformed),
    }
}

/// Sends as many of the frames in `run` as the kernel takes. Returns how many of them were sent or
/// dropped.
#[inline]
fn send(
    socket: BorrowedFd<'_>,
    counters: &QueueCounters,
    link: &mut LinkWatch,
    run: &GatherList,
) -> Result<usize, RunCause> {
    let mut done = 0;
    while done < run.len() {
        match sys::send(socket, run, done) {
            Ok(sent) => {
                counters.sent(run.traffic(done..done + sent));
                link.mark_up();
                done += sent;
            }
            Err(error) => match refusal(socket, error)? {
                SendRefusal::Retry => break,
                SendRefusal::LinkDown => {
                    link.mark_down()?;
                    break;
                }
                SendRefusal::Drop(cause) => {
                    counters.dropped(cause, 1);
                    done += 1;
                }
            },
        }
    }
    Ok(done)
}

/// Sends the frames of a ring. While the interface is down, the frames wait.
#[inline]
fn send_by_xdp(sender: &mut XdpSender, link: &mut LinkWatch) -> Result<(), RunCause> {
    match sender.sync() {
        Ok(is_moving) => {
            if is_moving {
                link.mark_up();
            }
            Ok(())
        }
        Err(RunCause::WentDown) => link.mark_down(),
        Err(cause) => Err(cause),
    }
}

/// Why the kernel refused a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendRefusal {
    /// The kernel has no space for the frame at this time.
    Retry,
    /// The interface is down: the frame can be sent once the interface is up.
    LinkDown,
    /// The frame is dropped: it can never be sent, or the device's queue is full and the device has
    /// no carrier.
    Drop(DropCause),
}

#[cold]
fn refusal(socket: BorrowedFd<'_>, error: io::Error) -> Result<SendRefusal, RunCause> {
    Ok(match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::ENOMEM) => SendRefusal::Retry,
        // The device's queue is full. Without a carrier, the queue stays full, so the frame is
        // dropped.
        Some(libc::ENOBUFS) if sys::has_carrier(socket) => SendRefusal::Retry,
        Some(libc::ENOBUFS | libc::EINVAL) => SendRefusal::Drop(DropCause::TxRefused),
        Some(libc::EMSGSIZE) => SendRefusal::Drop(DropCause::TxTooLong),
        _ => match lost(socket, "send", error) {
            RunCause::WentDown => SendRefusal::LinkDown,
            cause => return Err(cause),
        },
    })
}

/// Returns the [`RunCause`] for an error of a socket.
fn lost(socket: BorrowedFd<'_>, what: &'static str, source: io::Error) -> RunCause {
    match source.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => match sys::bound_index(socket) {
            Some(_) => RunCause::WentDown,
            None => RunCause::Vanished,
        },
        _ => RunCause::System { what, source },
    }
}

impl Queue for PacketQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let (counters, link) = (&*self.counters, &mut self.link);
        let sent = match &mut self.sender {
            RingSender::Packet { socket, ring, gather } => {
                transmit(ring, gather, MAX_FRAME_LEN, counters, |run| {
                    send(socket.as_fd(), counters, link, run)
                })
            }
            RingSender::Xdp(sender) => send_by_xdp(sender, link),
        };
        sent.map_err(|cause| RunError::new(&self.name, cause))
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| self.fail(SyncFault::from(fault)))?;
        self.rx_kern.complete_to(head);
        if self.receive() > 0 {
            self.idle_syncs = 0;
            return Ok(());
        }
        self.idle_syncs += 1;
        if self.idle_syncs >= PROBE_AFTER_IDLE_SYNCS { self.check_health() } else { Ok(()) }
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        let tx = match &self.sender {
            RingSender::Packet { socket, .. } => TxWait::Writable(socket.as_fd()),
            RingSender::Xdp(sender) => TxWait::WritableEdge(sender.writable()),
        };
        WaitFds { rx: Some(self.receiver.as_fd()), tx: Some(tx), link: Some(self.link.events()) }
    }

    fn deadline(&self) -> Option<Nanos> {
        match &self.sender {
            RingSender::Xdp(sender) if !self.link.is_down() => sender.retry_at(),
            _ => None,
        }
    }

    fn is_link_down(&self) -> bool {
        self.link.is_down()
    }

    fn after_sleep(&mut self) {
        self.link.read_events();
        // A socket error would end every sleep immediately, even if the caller waits only for
        // frames.
        // So the error is cleared here and kept for the next idle sync, which checks the interface.
        self.take_error();
        self.idle_syncs = PROBE_AFTER_IDLE_SYNCS;
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn unsent(&mut self) -> u64 {
        match &mut self.sender {
            RingSender::Packet { ring, .. } => ring.waiting_packets(),
            RingSender::Xdp(sender) => sender.unsent(),
        }
    }

    fn socket_ring(&self) -> Option<SocketRing> {
        Some(self.receiver.ring())
    }

    fn resume_ring(&mut self, position: u32) {
        self.receiver.resume(position);
    }

    fn update_stats(&mut self) {
        let drops = sys::take_drops(self.receiver.as_fd()).unwrap_or(0);
        self.kernel_drops += u64::from(drops);
        self.counters.set_dropped(DropCause::RxKernel, self.kernel_drops);
    }
}
