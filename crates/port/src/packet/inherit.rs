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

/// Opens a shared port that receives by these sockets, one for each queue, with what is in their
/// rings. The sockets keep their filters and their group. Sending sockets are this port's own.
///
/// Only one process may read a socket's ring: before the first sync,
/// [`resume_ring`](crate::Queue::resume_ring) says where the other one has stopped.
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
    // The other process may still have AF_XDP sockets on the queues, which excludes others: these send by
    // `sendmmsg`, also after it has ended.
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
