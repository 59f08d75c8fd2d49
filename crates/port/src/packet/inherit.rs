//! Ports whose receiving sockets another process has opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use slipring_ring::Region;

use super::queue::SenderSocket;
use super::sys::ring::RxSocket;
use super::sys::{self, SocketFilter, SocketSetting};
use super::{assemble, check_vlan_ids, refused, sender};
use crate::error::{OpenCause, OpenError};
use crate::iface::Iface;
use crate::options::{MAX_VLAN_IDS, OpenOptions};
use crate::port::Port;
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
/// As [`open`](super::open); also if a socket does not have the ring that is described for it.
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
    check_vlan_ids(options)?;
    // The port sends by packet sockets: the other process may still have AF_XDP sockets on the
    // queues, and a queue has one such socket at most.
    let pair = |InheritedSocket { socket, ring }| {
        let sender = SenderSocket::Packet(sender(&iface, options)?);
        Ok((RxSocket::inherit(socket, ring)?, sender))
    };
    let sockets: Vec<_> =
        sockets.into_iter().map(pair).collect::<io::Result<_>>().map_err(refused)?;
    assemble((name, &iface), region, options, sockets.into_iter(), None)
}

/// Replaces the filter of a packet socket by an eBPF program, between two frames. Needs no
/// capability.
///
/// # Errors
/// The kernel's error: `EINVAL` if the descriptor is no program for sockets.
pub fn set_filter(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    SocketSetting::FilterProgram.set(socket, program.as_fd().as_raw_fd() as u32)
}

/// Makes a receiving socket get the frames of these VLANs and no others, between two frames.
/// `queue` is the socket's number among the `of` sockets of its port. Needs no capability.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_VLAN_IDS`] identifiers; the kernel's error.
pub fn set_vlan_ids(
    socket: BorrowedFd<'_>,
    (queue, of): (u32, u32),
    ids: &[u16],
) -> io::Result<()> {
    if ids.len() > MAX_VLAN_IDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Without a fanout group, each socket has a filter for its queue.
    let filter = match of > 1 && !sys::is_in_fanout(socket)? {
        true => SocketFilter::Queue { queue, of },
        false => SocketFilter::Everything,
    };
    sys::filter(socket, &filter, Some(ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_vlans_than_a_filter_has_space_for_are_refused() {
        let ids: Vec<u16> = (1..=1 + MAX_VLAN_IDS as u16).collect();
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = set_vlan_ids(file.as_fd(), (0, 1), &ids).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let options = OpenOptions { vlan_ids: Some(ids), ..OpenOptions::default() };
        assert!(matches!(check_vlan_ids(&options), Err(OpenCause::Setting { .. })));
    }
}
