//! Ports whose receiving sockets another process has opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use slipring_ring::Region;

use super::queue::{PacketQueue, PacketSockets};
use super::sys::SocketSetting;
use super::sys::ring::RxSocket;
use super::{info, refused, senders};
use crate::error::{OpenCause, OpenError};
use crate::iface::Iface;
use crate::link_watch::LinkWatch;
use crate::options::OpenOptions;
use crate::port::Port;
use crate::queue::Queue;
use crate::succession::InheritedSocket;

/// Opens a shared port that receives through these sockets, one for each queue. It also receives
/// the frames that are already in their rings. The sockets keep their filters and their group. The
/// port creates the sockets that send.
///
/// Only one process may read a socket's ring: before the first sync,
/// [`resume_ring`](crate::Queue::resume_ring) must be called with the position at which the other
/// process has stopped.
///
/// # Errors
/// As [`open`](super::open); also if a socket has no such ring.
pub fn open_inherited(
    name: &str,
    ifname: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
    sockets: Vec<InheritedSocket>,
) -> Result<Port, OpenError> {
    open_queues(name, ifname, region, options, sockets).map_err(|cause| OpenError::new(name, cause))
}

fn open_queues(
    name: &str,
    ifname: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
    sockets: Vec<InheritedSocket>,
) -> Result<Port, OpenCause> {
    let iface = Iface::find(ifname)?;
    let mut queues: Vec<Box<dyn Queue>> = Vec::new();
    // The other process may still have AF_XDP sockets on the queues; then no other AF_XDP socket
    // can use them. In that case, this port sends by `sendmmsg`, and continues to do so after the
    // other process has ended.
    let senders = senders(&iface, None, region, options, sockets.len()).map_err(refused)?;
    for (inherited, sender) in sockets.into_iter().zip(senders) {
        let receiver = RxSocket::inherit(inherited.socket, inherited.ring).map_err(refused)?;
        let link = LinkWatch::watch(&iface, options.exit_on_link_down)?;
        let sockets = PacketSockets { receiver, sender, link };
        queues.push(Box::new(PacketQueue::new(
            name,
            queues.len() as u16,
            region,
            options,
            sockets,
        )?));
    }
    Ok(Port { info: info(name, &iface, queues.len(), region, options), queues })
}

/// Replaces the filter of a packet socket by an eBPF program, between two frames. Needs no capability.
///
/// # Errors
/// The kernel's error: `EINVAL` if the descriptor is no program for sockets.
pub fn set_filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    SocketSetting::FilterProgram.set(socket, program.as_fd().as_raw_fd() as u32)
}
