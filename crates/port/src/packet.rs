//! `packet:IF`: a raw AF_PACKET socket with a memory-mapped receive ring. Works on every interface.
//!
//! ```text
//!   kernel --> ring of the socket --copy--> rx slots --> program --> tx slots --sendmmsg--> kernel
//!                                 finish                             (in place, 64 per call)
//! ```
//!
//! With [`OpenOptions::sends_by_xdp`], AF_XDP sockets send in place of `sendmmsg`
//! (`xdp/sender.rs`).
//!
//! Received frames are completed first: local senders leave checksums and segmentation to hardware
//! that a forwarded frame never passes, and the kernel removes VLAN tags. Frames longer than a
//! buffer take several slots.
//!
//! Each queue has two sockets: one receives, and the other only sends, so arriving frames cost it
//! nothing. Frames that this machine sends are not received.
//!
//! Unless the port is shared, the host's stack neither receives from nor sends on the interface:
//! see [`crate::bpf::host`].
//!
//! When its interface goes down, the kernel reports this to the receiving socket. Once the
//! interface is up again, receiving goes on by itself. In between, frames to send wait in the ring.
//!
//! Not for speed: `xdp:` receives four times as much.

mod inherit;
mod queue;
mod rx_filler;
mod sys;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use slipring_ring::Region;

use crate::bpf::host;
use crate::error::{OpenCause, OpenError};
use crate::iface::Iface;
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::link_watch::LinkWatch;
use crate::options::{MAX_VLAN_IDS, OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::Queue;
use crate::xdp;

pub use inherit::{open_inherited, set_filter, set_vlan_ids};
use queue::{PacketQueue, PacketSockets, SenderSocket};
use sys::ring::{PacketRingGeometry, RxSocket};
use sys::{SocketFilter, SocketSetting, SocketUse};

/// Bytes of an Ethernet header with one tag.
const TAGGED_HEADER_LEN: u32 = 18;
/// Bytes of a receiving socket's buffer, for frames that are too long for the ring, and of a
/// sending socket's buffer, for frames in flight.
const SOCKET_BUFFER_BYTES: u32 = 8 << 20;

/// The memory that the port needs from a region.
///
/// # Errors
/// [`OpenError`] if the interface or the queue does not exist.
pub fn needs(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    options: &OpenOptions,
) -> Result<RegionNeeds, OpenError> {
    let iface = Iface::find(ifname).and_then(|iface| check_queue(&iface, queue).map(|()| iface));
    let iface = iface.map_err(|cause| OpenError::new(name, cause))?;
    let queues = if queue.is_some() { 1 } else { iface.rx_queues };
    Ok(RegionNeeds::pairs(queues, options.slots))
}

fn check_queue(iface: &Iface, queue: Option<u32>) -> Result<(), OpenCause> {
    let queues = iface.rx_queues;
    match queue {
        Some(queue) if queue >= queues => {
            Err(OpenCause::QueueRange { ifname: iface.name.clone(), queue, queues })
        }
        _ => Ok(()),
    }
}

/// Opens a port on an interface: on receive queue `queue`, or with a ring pair for each receive
/// queue.
///
/// # Errors
/// [`OpenError`] if the interface or the queue does not exist, the interface is not Ethernet or,
/// with `options.exit_on_link_down`, down, CAP_NET_RAW is missing (without `options.shared` also
/// CAP_BPF and CAP_NET_ADMIN), or the region is too small.
pub fn open(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    open_queues(name, ifname, queue, region, options).map_err(|cause| OpenError::new(name, cause))
}

fn open_queues(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenCause> {
    let iface = Iface::find(ifname)?;
    let filters = filters(&iface, queue, options)?;
    let receivers = receivers(&iface, &filters, options).map_err(refused)?;
    let host = if options.shared { None } else { Some(Arc::new(host::detach(iface.index)?)) };
    let senders = senders(&iface, queue, region, options, receivers.len()).map_err(refused)?;
    assemble((name, &iface), region, options, receivers.into_iter().zip(senders), host)
}

/// Creates a port with a queue for each pair of sockets.
fn assemble(
    (name, iface): (&str, &Iface),
    region: &Arc<Region>,
    options: &OpenOptions,
    sockets: impl Iterator<Item = (RxSocket, SenderSocket)>,
    host: Option<Arc<host::HostDetached>>,
) -> Result<Port, OpenCause> {
    let (mut queues, mut by_xdp) = (Vec::<Box<dyn Queue>>::new(), false);
    for (receiver, sender) in sockets {
        by_xdp = matches!(sender, SenderSocket::Xdp(_));
        let link = LinkWatch::watch(iface, options.exit_on_link_down)?;
        let sockets = PacketSockets { receiver, sender, link };
        let queue = PacketQueue::new(name, queues.len() as u16, region, options, sockets)?;
        queues.push(Box::new(queue.with_host_detached(host.clone())));
    }
    let mut info = info(name, iface, queues.len(), region, options);
    if by_xdp {
        info.mode = info.mode.with("tx", "af_xdp");
    }
    Ok(Port { info, queues })
}

/// Chooses a filter for each ring pair; returns an error if the port cannot be opened.
fn filters(
    iface: &Iface,
    queue: Option<u32>,
    options: &OpenOptions,
) -> Result<Vec<SocketFilter>, OpenCause> {
    if options.exit_on_link_down {
        iface.require_up()?;
    }
    if !iface.ethernet {
        return Err(OpenCause::Unsupported {
            what: format!("`packet:` on `{}`", iface.name),
            needs: "an interface with Ethernet frames",
        });
    }
    check_vlan_ids(options)?;
    check_queue(iface, queue)?;
    let queues = iface.rx_queues;
    if !options.socket_filters.is_empty() {
        return given_filters(iface, queue, options);
    }
    match queue {
        Some(queue) if queues > 1 => Ok(vec![SocketFilter::Queue { queue, of: queues }]),
        Some(_) => Ok(vec![SocketFilter::Everything]),
        None => Ok(vec![SocketFilter::Everything; queues as usize]),
    }
}

/// Refuses more VLAN identifiers than a filter has space for.
fn check_vlan_ids(options: &OpenOptions) -> Result<(), OpenCause> {
    if options.vlan_ids.as_ref().is_none_or(|ids| ids.len() <= MAX_VLAN_IDS) {
        return Ok(());
    }
    Err(OpenCause::Setting {
        reason: format!("more than {MAX_VLAN_IDS} VLAN identifiers"),
        help: "use fewer VLANs on this interface".into(),
    })
}

/// Returns the filters that the options contain, one for each receive queue. The port must have all
/// receive queues of the interface.
fn given_filters(
    iface: &Iface,
    queue: Option<u32>,
    options: &OpenOptions,
) -> Result<Vec<SocketFilter>, OpenCause> {
    let queues = iface.rx_queues as usize;
    let all = queue.is_none() || queues == 1;
    if !all || !options.shared || options.socket_filters.len() != queues {
        return Err(OpenCause::Unsupported {
            what: format!("`packet:` on `{}` with socket filters", iface.name),
            needs: "a shared port with a filter for each receive queue",
        });
    }
    let filters = options.socket_filters.iter();
    Ok(filters.map(|filter| SocketFilter::Program(Arc::clone(filter))).collect())
}

fn info(
    name: &str,
    iface: &Iface,
    queues: usize,
    region: &Region,
    options: &OpenOptions,
) -> PortInfo {
    PortInfo {
        name: name.to_owned(),
        kind: "packet",
        mode: PortMode::new()
            .with("mode", "tpacket_v2")
            .with("copy", "yes")
            .with("queues", queues)
            .with("slots", options.slots)
            .with("host", if options.shared { "shared" } else { "detached" })
            .with_link(iface.up),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: iface.mtu + TAGGED_HEADER_LEN,
            max_slot: region.buf_size(),
        },
        mac: Some(iface.mac),
        mtu: Some(iface.mtu),
    }
}

fn refused(source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenCause::Privilege {
            what: "make an AF_PACKET socket",
            capabilities: "cap_net_raw",
            source,
        },
        _ => OpenCause::System { what: "make an AF_PACKET socket", source },
    }
}

/// Creates receiving sockets, one for each filter. Their drop counts start at 0, and each frame
/// arrives at only one of them.
fn receivers(
    iface: &Iface,
    filters: &[SocketFilter],
    options: &OpenOptions,
) -> io::Result<Vec<RxSocket>> {
    // The socket's ring has space for at least twice as many frames as the port's ring has slots,
    // for programs that are not scheduled in time.
    let shape = PacketRingGeometry::new(2 * options.slots, iface.mtu + TAGGED_HEADER_LEN);
    let rings = filters.iter().map(|_| receiver(iface, shape, options));
    let rings = rings.collect::<io::Result<Vec<_>>>()?;
    let mut filters = filters.to_vec();
    if let Err(error) = share(&rings) {
        if iface.up || matches!(filters[..], [SocketFilter::Program(_), ..]) {
            return Err(error);
        }
        // Before Linux 6.13, a fanout group accepts no socket whose interface is down. Then each
        // socket instead gets a filter for its queue.
        let of = rings.len() as u32;
        filters = (0..of).map(|queue| SocketFilter::Queue { queue, of }).collect();
    }
    for (ring, filter) in rings.iter().zip(&filters) {
        sys::filter(ring.as_fd(), filter, options.vlan_ids.as_deref())?;
    }
    Ok(rings)
}

/// Creates a bound socket that receives nothing yet.
fn receiver(
    iface: &Iface,
    shape: PacketRingGeometry,
    options: &OpenOptions,
) -> io::Result<RxSocket> {
    let ring = RxSocket::new(sys::socket()?, shape)?;
    let socket = ring.as_fd();
    SocketSetting::IgnoreOutgoing.set(socket, 1)?;
    SocketSetting::CopyThreshold.set(socket, 1)?;
    SocketSetting::AuxData.set(socket, 1)?;
    SocketSetting::ReceiveBuffer.set(socket, SOCKET_BUFFER_BYTES)?;
    if options.busy_poll_us > 0 {
        SocketSetting::BusyPoll.set(socket, options.busy_poll_us)?;
    }
    if options.promiscuous {
        sys::promiscuous(socket, iface.index)?;
    }
    sys::filter(socket, &SocketFilter::Nothing, None)?;
    sys::bind(socket, iface.index, SocketUse::Receive)?;
    Ok(ring)
}

/// Makes each ring receive the frames that arrive on the queue of the same number. The kernel gives
/// frames of queue `i` to member `i + 1` of the fanout group, modulo the number of members. So the
/// last ring must create the group, and thus be member 0.
fn share(rings: &[RxSocket]) -> io::Result<()> {
    let [others @ .., last] = rings else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    let group = sys::fanout_new(last.as_fd())?;
    others.iter().try_for_each(|ring| sys::fanout_join(ring.as_fd(), group))
}

/// Creates one sending socket for each queue.
fn senders(
    iface: &Iface,
    queue: Option<u32>,
    region: &Region,
    options: &OpenOptions,
    count: usize,
) -> io::Result<Vec<SenderSocket>> {
    if options.sends_by_xdp
        && options.qdisc_bypass
        && queue.is_none()
        && let Some(senders) = xdp::senders(iface, count as u32, region, options)
    {
        return Ok(senders.into_iter().map(Box::new).map(SenderSocket::Xdp).collect());
    }
    (0..count).map(|_| sender(iface, options).map(SenderSocket::Packet)).collect()
}

fn sender(iface: &Iface, options: &OpenOptions) -> io::Result<OwnedFd> {
    let socket = sys::socket()?;
    SocketSetting::SendBuffer.set(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
    if options.qdisc_bypass {
        SocketSetting::QdiscBypass.set(socket.as_fd(), 1)?;
    } else if !options.shared {
        SocketSetting::Mark.set(socket.as_fd(), host::TO_WIRE_MARK)?;
    }
    sys::bind(socket.as_fd(), iface.index, SocketUse::Send)?;
    Ok(socket)
}

/// Opens a packet socket that receives all frames of an interface from now on. For programs that
/// read the socket themselves.
///
/// # Errors
/// The kernel's error, such as EPERM without CAP_NET_RAW.
pub fn open_bound_socket(ifindex: u32) -> std::io::Result<std::os::fd::OwnedFd> {
    let socket = sys::socket()?;
    sys::bind(std::os::fd::AsFd::as_fd(&socket), ifindex, sys::SocketUse::Receive)?;
    Ok(socket)
}

/// Opens a packet socket that sends on an interface, past its queueing discipline, and receives
/// nothing. For programs that send by themselves.
///
/// # Errors
/// The kernel's error, such as EPERM without CAP_NET_RAW.
pub fn open_sending_socket(ifindex: u32) -> io::Result<OwnedFd> {
    let socket = sys::socket()?;
    SocketSetting::SendBuffer.set(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
    SocketSetting::QdiscBypass.set(socket.as_fd(), 1)?;
    sys::bind(socket.as_fd(), ifindex, SocketUse::Send)?;
    Ok(socket)
}
