//! `xdp:IF`: AF_XDP sockets of an interface's queues.
//!
//! ```text
//!   device queue --> XDP program --> socket's RX ring --> rx slots  (copied, or zero-copy)
//!                                        fill ring   <-- slots that were read
//!   device queue <-- socket's TX ring <-- tx slots
//!                    completion ring  --> free tx slots
//! ```
//!
//! The region's buffer area is the sockets' memory (UMEM). So a frame arrives in the buffer of a
//! slot, and is sent from the buffer in which a program, or the rx ring of another port, left it.
//!
//! # Modes
//! Modes are tried in this order: zero-copy, native with a copy, generic (in the stack). With an
//! option other than [`XdpMode::Best`](crate::XdpMode), only some of them are tried. All queues of
//! a port are in one mode, which [`PortInfo`] names.
//!
//! # What may be lost on receive
//! The mode line says `vlan=inband-only` if a tag that the device keeps outside the frame would be
//! lost. This is the case if the device is a software device or will not stop stripping tags, and
//! the XDP program does not put tags back; in generic mode, it never does. In generic mode on a
//! software device, a UDP super-frame (USO) does not say how long its datagrams are: it is dropped
//! and counted, or passed on as one datagram if it fits the MTU.
//!
//! # Lifetime
//! The XDP program, promiscuous mode and the host's detachment are bound to descriptors, so the
//! kernel undoes them when the process ends. Offloads that were switched off for the port are only
//! restored by dropping it.

mod bound;
mod delegated;
mod device_key;
mod ends;
mod layout;
mod own_queues;
mod owner;
mod processes;
mod program;
mod queue;
mod ring;
mod sender;
mod setup;
mod socket;
mod sys;
mod umem;

pub use bound::{BoundQueue, bound_sockets};
pub use delegated::{ClientSync, DelegatedRx, DelegatedTx, DelegatedXdpQueue};
pub use processes::{HeldObject, Process, ProcessTable};
pub(crate) use sender::{UnusedSender, XdpSender, senders};

use std::any::Any;
use std::sync::Arc;

use slipring_bpf::BpfMap;
use slipring_ring::Region;

use crate::bpf::host;
use crate::error::{OpenCause, OpenError};
use crate::iface::{self, Feature, FeatureGuard, Iface};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::link_watch::LinkWatch;
use crate::netns::Netns;
use crate::nic::{MAX_PACKET_DESCRIPTORS, OffloadFixup, TxLimits};
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use layout::{HEADROOM, UmemLayout};
use program::{VlanHandling, XdpAttachMode, XdpHook};
use queue::{XdpDevice, XdpQueue};
use setup::BoundSockets;

/// How many bytes longer than the MTU a frame may be: Ethernet header and two VLAN tags.
pub(crate) const MAX_LINK_HEADER_LEN: u32 = 22;
/// Maximum number of buffers that a queue keeps in reserve, for the segments of super-frames.
const RESERVE_BUFS: u32 = 64;

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
    let refused = |cause: OpenCause| OpenError::new(name, cause);
    let iface = Iface::find(ifname).map_err(refused)?;
    let queues = chosen_queues(&iface, queue).map_err(refused)?.len() as u32;
    Ok(RegionNeeds::pairs(queues, options.slots))
}

/// Refuses an interface whose MTU is too large in every mode, in a region with buffers of
/// `buf_size` bytes. [`open`] makes this check, too.
///
/// # Errors
/// [`OpenError`] when there is no such interface, or when a frame of its MTU does not fit into the
/// longest chain of buffers.
pub fn check(name: &str, ifname: &str, buf_size: u32) -> Result<(), OpenError> {
    let checked = Iface::find(ifname).and_then(|iface| check_mtu(&iface, true, buf_size));
    checked.map_err(|cause| OpenError::new(name, cause))
}

/// Opens queue `queue` of an interface, or all its queues if `queue` is `None`.
///
/// # Errors
/// [`OpenError`], whose help says what to try next.
pub fn open(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    open_interface(name, ifname, queue, region, options, XdpHost::default())
        .map_err(|cause| OpenError::new(name, cause))
}

/// A map of an interface's sockets, by queue number. An XDP program of the map's owner redirects
/// frames to these sockets.
#[derive(Clone, Debug)]
pub struct XdpSocketMap {
    /// The map, with an entry for each queue.
    pub map: Arc<BpfMap>,
    /// Whether the XDP program runs in the driver; otherwise in the stack.
    pub is_native: bool,
}

/// Opens all queues of an interface for the frames that an XDP program of the caller redirects to
/// `sockets`. The port attaches no program, and does not take the interface from the host, whatever
/// the options say.
///
/// # Errors
/// [`OpenError`], as for [`open`]. [`OpenCause::Busy`] with [`crate::QueueOwner::Nobody`] means
/// that the kernel keeps the queue until the device has sent the frames of a socket that was
/// closed. Another attempt may then use the same region.
pub fn open_into(
    name: &str,
    ifname: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
    sockets: XdpSocketMap,
) -> Result<Port, OpenError> {
    let mode = if sockets.is_native { XdpAttachMode::Native } else { XdpAttachMode::Generic };
    let host = XdpHost { beyond: None, hook: Some(XdpHook::of_owner(sockets.map, mode)) };
    let options =
        OpenOptions { shared: true, take_over: true, promiscuous: false, ..options.clone() };
    open_interface(name, ifname, None, region, &options, host)
        .map_err(|cause| OpenError::new(name, cause))
}

/// What a port may get from its opener in addition to its interface.
#[derive(Default)]
struct XdpHost {
    /// The interface whose frames are redirected to the sockets' interface; `None` without a
    /// redirection.
    beyond: Option<RedirectPeer>,
    /// The XDP program that the caller has attached; `None` if this port attaches its own.
    hook: Option<Arc<XdpHook>>,
}

/// A value that must live as long as any queue of a port.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// The interface whose frames are redirected to the sockets' interface.
pub(crate) struct RedirectPeer {
    /// A value that must live as long as any queue of the port.
    pub(crate) keep_alive: KeepAlive,
    /// The interface whose link state decides whether frames can be sent.
    pub(crate) iface: Iface,
    /// The network namespace of that interface; `None` if it is the calling thread's.
    pub(crate) netns: Option<Netns>,
}

impl RedirectPeer {
    /// Watches the link of the interface, in its namespace. If `ends` is true, an interface that is
    /// down is an error.
    fn link(&self, ends: bool) -> Result<LinkWatch, OpenCause> {
        let listen = || LinkWatch::watch(&self.iface, ends);
        let Some(home) = &self.netns else { return listen() };
        let failed = |source| OpenCause::System { what: "enter the interface's namespace", source };
        home.run(|| Ok(listen())).map_err(failed)?
    }
}

/// Like [`open`], but the frames of the interface `beyond` are redirected to this interface.
///
/// # Errors
/// Same as for [`open`].
pub(crate) fn open_redirected(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
    beyond: RedirectPeer,
) -> Result<Port, OpenError> {
    let host = XdpHost { beyond: Some(beyond), hook: None };
    open_interface(name, ifname, queue, region, options, host)
        .map_err(|cause| OpenError::new(name, cause))
}

fn open_interface(
    name: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
    XdpHost { beyond, hook }: XdpHost,
) -> Result<Port, OpenCause> {
    let iface = Iface::find(ifname)?;
    if options.exit_on_link_down {
        beyond.as_ref().map_or(&iface, |beyond| &beyond.iface).require_up()?;
    }
    // The interface of the default route is also refused in shared mode, because there, too, this
    // port gets the frames that are meant for the host.
    if iface.default_route() && !options.take_over {
        return Err(OpenCause::DefaultRoute { ifname: iface.name });
    }
    check_mtu(&iface, true, region.buf_size())?;
    let numbers = chosen_queues(&iface, queue)?;
    let all = numbers.len() as u32 == queue_count(&iface);
    let opened = setup::open_queues(&iface, &numbers, region, options, hook)?;
    check_mtu(&iface, opened.mode.chains, region.buf_size())?;
    let kept = beyond.as_ref().map(|beyond| beyond.keep_alive.clone());
    let device = XdpDevice { _kept: kept, ..configure_interface(&iface, &opened, all, options)? };
    let device = Arc::new(device);
    let info = info(name, &iface, &opened, &device, region, options);
    let beyond = beyond.as_ref();
    let make = XdpQueueMaker {
        name,
        iface: &iface,
        far: beyond,
        region,
        options,
        device,
        mode: opened.mode,
    };
    let queues = numbers.into_iter().zip(opened.sockets).enumerate();
    let queues = queues.map(|(i, (number, socket))| make.queue(i, number, socket));
    let queues = queues.collect::<Result<_, _>>()?;
    Ok(Port { info, queues })
}

/// Returns the number of queues of a device, including those that only send or only receive.
fn queue_count(iface: &Iface) -> u32 {
    iface.rx_queues.max(iface.tx_queues)
}

fn chosen_queues(iface: &Iface, queue: Option<u32>) -> Result<Vec<u32>, OpenCause> {
    let queues = queue_count(iface);
    match queue {
        None => Ok((0..queues).collect()),
        Some(queue) if queue < queues => Ok(vec![queue]),
        Some(queue) => Err(OpenCause::QueueRange { ifname: iface.name.clone(), queue, queues }),
    }
}

/// Returns how many buffers of its rx ring each queue keeps in reserve; 0 if no super-frames can
/// arrive.
fn reserve(iface: &Iface, mode: XdpAttachMode, slots: u32) -> u32 {
    if mode == XdpAttachMode::Generic && iface.is_software() {
        RESERVE_BUFS.min(slots / 8)
    } else {
        0
    }
}

/// Returns an error if a frame of the MTU's length does not fit into one buffer or, if `chains` is
/// true, into the longest possible chain of buffers.
pub(crate) fn check_mtu(iface: &Iface, chains: bool, buf_size: u32) -> Result<(), OpenCause> {
    let parts = if chains { MAX_PACKET_DESCRIPTORS } else { 1 };
    let limit = (layout::part(buf_size) * parts).saturating_sub(MAX_LINK_HEADER_LEN);
    if iface.mtu <= limit {
        return Ok(());
    }
    Err(OpenCause::Mtu { ifname: iface.name.clone(), mtu: iface.mtu, limit, kind: "AF_XDP" })
}

/// Changes the interface's settings, such as promiscuous mode, after its queues are bound and
/// before frames are redirected to them.
fn configure_interface(
    iface: &Iface,
    opened: &BoundSockets,
    all: bool,
    options: &OpenOptions,
) -> Result<XdpDevice, OpenCause> {
    let promisc = options.promiscuous.then(|| iface::promiscuous(iface.index)).transpose()?;
    let detached = match (all && !options.shared).then(|| host::detach(iface.index)).transpose() {
        // If the kernel does not support tcx, the interface stays attached to the host. The mode
        // line shows this.
        Err(OpenCause::Unsupported { .. }) => None,
        detached => detached?,
    };
    let features = disable_offloads(iface, opened.hook.attach_mode);
    Ok(XdpDevice { detached, promisc, features, hook: opened.hook.clone(), _kept: None })
}

/// Switches off offloads of real devices that would change frames before this port sees them.
/// Frames of software devices have the offloads of their sender, which must not be changed here.
fn disable_offloads(iface: &Iface, mode: XdpAttachMode) -> FeatureGuard {
    let hiding: &[(Feature, bool)] = match mode {
        _ if iface.is_software() => &[],
        XdpAttachMode::Native => &[(Feature::RxVlan, false)],
        XdpAttachMode::Generic => {
            &[(Feature::RxVlan, false), (Feature::Gro, false), (Feature::Lro, false)]
        }
    };
    iface.with_features(hiding)
}

/// Returns whether frames may lose their VLAN tags.
fn loses_vlan_tags(iface: &Iface, opened: &BoundSockets, device: &XdpDevice) -> bool {
    let beside = iface.is_software() || device.features.refused().contains(&Feature::RxVlan);
    beside && opened.hook.vlan == VlanHandling::InBand
}

fn info(
    name: &str,
    iface: &Iface,
    opened: &BoundSockets,
    device: &XdpDevice,
    region: &Region,
    options: &OpenOptions,
) -> PortInfo {
    let zero_copy = opened.mode.zero_copy;
    let mode = match opened.hook.attach_mode {
        _ if zero_copy => "zerocopy",
        XdpAttachMode::Native => "native",
        XdpAttachMode::Generic => "generic",
    };
    let mut words = PortMode::new()
        .with("mode", mode)
        .with("copy", if zero_copy { "no" } else { "yes" })
        .with("queues", opened.sockets.len())
        .with("slots", options.slots)
        .with("umem", format_args!("{}MiB", region.buf_area_len().div_ceil(1 << 20)))
        .with("pages", if region.is_huge() { "2M" } else { "4k" })
        .with("host", if device.detached.is_some() { "detached" } else { "shared" })
        .with("promisc", if device.promisc.is_some() { "on" } else { "off" });
    if loses_vlan_tags(iface, opened, device) {
        words = words.with("vlan", "inband-only");
    }
    words = words.with_link(iface.up);
    PortInfo {
        name: name.to_owned(),
        kind: "xdp",
        mode: words,
        caps: caps(iface, opened, region),
        mac: Some(iface.mac),
        mtu: Some(iface.mtu),
    }
}

fn caps(iface: &Iface, opened: &BoundSockets, region: &Region) -> PortCaps {
    let part = UmemLayout::new(region).part();
    let most = if opened.mode.chains { part * MAX_PACKET_DESCRIPTORS } else { part };
    let max_packet = most.min(iface.mtu.saturating_add(MAX_LINK_HEADER_LEN));
    PortCaps { rx: true, tx: true, max_packet, max_slot: part }
}

/// Creates the queues of one port.
struct XdpQueueMaker<'a> {
    name: &'a str,
    iface: &'a Iface,
    /// The interface whose link state counts; `None` if it is the interface of the sockets.
    far: Option<&'a RedirectPeer>,
    region: &'a Arc<Region>,
    options: &'a OpenOptions,
    device: Arc<XdpDevice>,
    mode: setup::SocketMode,
}

impl XdpQueueMaker<'_> {
    fn queue(
        &self,
        i: usize,
        number: u32,
        socket: socket::XdpSocket,
    ) -> Result<Box<dyn crate::Queue>, OpenCause> {
        let Self { name, iface, region, options, .. } = self;
        let tx = options.ring(region, i, number as u16)?;
        let rx = options.ring(region, i, number as u16)?;
        let reserve = reserve(iface, self.mode.attach_mode, options.slots);
        let generic = self.mode.attach_mode == XdpAttachMode::Generic;
        let finisher = OffloadFixup::new(iface.is_software(), generic, iface.mtu);
        let limits = TxLimits {
            packet: iface.mtu.saturating_add(MAX_LINK_HEADER_LEN),
            chains: self.mode.chains,
            enabled: number < iface.tx_queues,
        };
        let device = self.device.clone();
        let software = iface.is_software();
        let link = match self.far {
            Some(beyond) => beyond.link(options.exit_on_link_down)?,
            None => LinkWatch::watch(iface, options.exit_on_link_down)?,
        };
        let gated = self.far.is_some();
        let parts = queue::XdpQueueParts {
            tx,
            rx,
            reserve,
            fixup: finisher,
            limits,
            software,
            link,
            gated,
            device,
        };
        let busy_poll = options.busy_poll_us > 0;
        Ok(Box::new(XdpQueue::start(name, number, socket, parts, busy_poll)?))
    }
}

const _: () = assert!(HEADROOM == 256, "where regions put a buffer's data");
