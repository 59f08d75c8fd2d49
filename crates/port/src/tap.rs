//! `tap:NAME`: a TAP device, with the host's stack at the other end.
//!
//! ```text
//!   program --> tx slots --write, 64 per system call--> | TAP | --> host's stack
//!   program <-- rx slots <--------read, one each------- | NAME| <-- host's stack
//! ```
//!
//! If no device has that name, it is created, and removed with the port. An existing device is
//! used, and stays. Each queue of the port is a queue of the device.
//!
//! By default frames are plain: the kernel completes checksums and segmentation before this port
//! reads them. With `options.vnet_hdr`, each frame begins with a virtio-net header of that many
//! bytes. Such a frame may lack its checksum, and may be a super-frame of up to 64 KiB, which takes
//! several slots.
//!
//! Reading costs a system call per frame: the driver has no other way, and io_uring is no faster.
//! Writing is batched by io_uring where the kernel permits.

mod drops;
mod queue;
mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::fstat;
use slipring_ring::Region;

use crate::error::{OpenCause, OpenError, QueueOwner};
use crate::iface::Iface;
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::link_watch::LinkWatch;
use crate::netlink::Netlink;
use crate::netns::Netns;
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::Queue;

use drops::HostDrops;
use queue::{TapLimits, TapQueue};
use sys::TapAttach;

/// Maximum length of an interface name, in bytes.
const MAX_NAME_LEN: usize = 15;
/// Maximum length of a frame in bytes, without a virtio-net header.
const MAX_FRAME_LEN: u32 = 65_535;
/// Maximum number of retries while the device of a killed program still exists, with a pause of a
/// millisecond before each retry. This is a number of retries and not a time, because a single
/// retry may wait long for the kernel while other processes change links.
const REATTACH_RETRIES: u32 = 500;
/// Advice for when another interface already has the name.
const FREE_NAME_HELP: &str = "take a name that is not in use: slipring ports lists them";
/// Bytes of an Ethernet header with two VLAN tags.
const TAGGED_HEADER_LEN: u32 = 22;

/// The memory that the port needs from a region.
///
/// # Errors
/// [`OpenError`] for a name or option that no TAP device can have; also the errors of [`existing`].
pub fn needs(
    name: &str,
    ifname: &str,
    queues: u32,
    options: &OpenOptions,
) -> Result<RegionNeeds, OpenError> {
    check(ifname, options).map_err(|cause| OpenError::new(name, cause))?;
    existing(name, ifname)?;
    Ok(RegionNeeds::pairs(queues.max(1), options.slots))
}

/// Finds the TAP device `ifname`; `None` if there is no interface with that name.
///
/// # Errors
/// [`OpenError`] if the interface is not a TAP device.
pub fn existing(name: &str, ifname: &str) -> Result<Option<Iface>, OpenError> {
    existing_device(ifname).map_err(|cause| OpenError::new(name, cause))
}

fn existing_device(ifname: &str) -> Result<Option<Iface>, OpenCause> {
    match Iface::find(ifname) {
        Err(_) => Ok(None),
        // The driver `tun` makes both kinds of devices; only TAP devices have Ethernet frames.
        Ok(iface) if iface.driver == "tun" && iface.ethernet => Ok(Some(iface)),
        // The device was found, but vanished before its driver was read: the kernel removes the
        // devices of a killed program a moment after the program ends.
        Ok(iface) if iface.driver.is_empty() && Iface::find(ifname).is_err() => Ok(None),
        Ok(iface) => {
            let what = if iface.driver == "tun" { "a TUN device" } else { "an interface" };
            Err(OpenCause::Name {
                reason: format!("`{ifname}` is {what}, and no TAP device"),
                help: Some(FREE_NAME_HELP.into()),
            })
        }
    }
}

/// Creates a TAP device that stays until it is deleted, also without a program at its other end. It
/// is down. Returns its index.
///
/// # Errors
/// [`OpenError`] if CAP_NET_ADMIN or the driver is missing, or the name is taken.
pub fn create_persistent(ifname: &str) -> Result<u32, OpenError> {
    let create = || {
        check(ifname, &OpenOptions::default())?;
        if Iface::find(ifname).is_ok() {
            let reason = format!("there is an interface `{ifname}` already");
            return Err(OpenCause::Name { reason, help: Some(FREE_NAME_HELP.into()) });
        }
        let (descriptors, ifname) = attach(ifname, 1, 0)?;
        sys::make_persistent(descriptors[0].as_fd())
            .map_err(|error| refused("keep the TAP device", error))?;
        Ok(Iface::find(&ifname)?.index)
    };
    create().map_err(|cause| OpenError::new(format!("tap:{ifname}"), cause))
}

/// Opens a port of `queues` ring pairs on the TAP device `ifname`. If `ifname` is empty, the kernel
/// chooses a name, which the mode line shows.
///
/// # Errors
/// [`OpenError`] if CAP_NET_ADMIN or the driver is missing, the name is that of another kind of
/// interface, the device is in use, or the region is too small.
pub fn open(
    name: &str,
    ifname: &str,
    queues: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    open_device(name, ifname, queues.max(1), region, options)
        .map_err(|cause| OpenError::new(name, cause))
}

fn open_device(
    name: &str,
    ifname: &str,
    queues: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenCause> {
    check(ifname, options)?;
    let (exists, (descriptors, ifname)) = retry_while_busy(|| {
        let exists = existing_device(ifname)?.is_some();
        Ok((exists, attach(ifname, queues, options.vnet_hdr)?))
    })?;
    let mut iface = Iface::find(&ifname)?;
    if !exists {
        set_tx_queue_len(iface.index, options.slots);
        // Done before the device is up, because the kernel derives the device's link-local address
        // from the MAC address when the device comes up.
        shape(iface.index, options).map_err(|error| refused("set up the TAP device", error))?;
        sys::bring_up(&ifname).map_err(|error| refused("set the TAP device up", error))?;
        iface = Iface::find(&ifname)?;
    }
    let iface = Iface { up: iface.up || !exists, ..iface };
    assemble(name, &iface, descriptors, region, options)
}

/// Opens a port on the TAP device of these descriptors, which another process has opened. Each is a
/// queue of the device. The device keeps its settings. It ends when no process has a descriptor.
///
/// Before the first sync, [`resume_ring`](crate::Queue::resume_ring) must be called with the
/// position at which the other process has stopped.
///
/// # Errors
/// [`OpenError`] if the device was deleted, or is not in the network namespace of this thread, or
/// if the region is too small.
pub fn open_inherited(
    name: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
    descriptors: Vec<OwnedFd>,
) -> Result<Port, OpenError> {
    let open = || assemble(name, &device_of(&descriptors)?, descriptors, region, options);
    open().map_err(|cause| OpenError::new(name, cause))
}

/// Finds the device of these descriptors, which may have been renamed, in the network namespace of
/// this thread.
///
/// # Errors
/// [`OpenCause`] if the device was deleted or is in another namespace, where its name means nothing
/// here.
pub fn device_of(descriptors: &[OwnedFd]) -> Result<Iface, OpenCause> {
    let name = name_here(descriptors).map_err(|error| refused("find the TAP device", error))?;
    Iface::find(&name)
}

/// Returns the present name of a device of this thread's network namespace.
fn name_here(descriptors: &[OwnedFd]) -> io::Result<String> {
    let first = descriptors.first().ok_or(io::ErrorKind::InvalidInput)?.as_fd();
    let name = sys::current_name(first)?;
    if !is_same_file(sys::namespace(first)?.as_fd(), Netns::current()?.as_fd())? {
        return Err(io::Error::other("it is in another network namespace"));
    }
    Ok(name)
}

fn is_same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> io::Result<bool> {
    let (a, b) = (fstat(a)?, fstat(b)?);
    Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Creates a port with a queue for each descriptor.
fn assemble(
    name: &str,
    iface: &Iface,
    descriptors: Vec<OwnedFd>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenCause> {
    let send = MAX_FRAME_LEN + options.vnet_hdr;
    let receive = if options.vnet_hdr > 0 { send } else { iface.mtu + TAGGED_HEADER_LEN };
    let limits = TapLimits { send, receive };
    let open = |(i, tun)| {
        let link = LinkWatch::watch(iface, options.exit_on_link_down)?;
        TapQueue::new(name, i, region, options.slots, limits, link, tun)
    };
    let mut opened = (0..).zip(descriptors).map(open).collect::<Result<Vec<_>, _>>()?;
    opened[0].count_host_drops(HostDrops::new(iface.index, &iface.name));
    let info = info(name, iface, &opened, region, options);
    let queues = opened.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect();
    Ok(Port { info, queues })
}

/// Gives a new device the MAC address and MTU of the options.
fn shape(index: u32, options: &OpenOptions) -> io::Result<()> {
    if options.tap_mac.is_none() && options.tap_mtu.is_none() {
        return Ok(());
    }
    let netlink = Netlink::open()?;
    options.tap_mac.map_or(Ok(()), |mac| netlink.set_mac(index, mac))?;
    options.tap_mtu.map_or(Ok(()), |mtu| netlink.set_mtu(index, mtu))
}

/// Sets the length of the kernel's queue towards this port to four rings' worth of frames. Frames
/// that do not fit are dropped. Only reads by this port make space.
fn set_tx_queue_len(index: u32, slots: u32) {
    // An error is ignored, because the port also works with the kernel's default length.
    let _ = Netlink::open().and_then(|netlink| netlink.set_tx_queue_len(index, 4 * slots));
}

fn check(ifname: &str, options: &OpenOptions) -> Result<(), OpenCause> {
    if ifname.len() > MAX_NAME_LEN {
        let reason =
            format!("`{ifname}` is longer than the {MAX_NAME_LEN} bytes of an interface name");
        return Err(OpenCause::Name { reason, help: None });
    }
    match options.vnet_hdr {
        0 | 10 | 12 => Ok(()),
        len => Err(OpenCause::Setting {
            reason: format!("a virtio-net header has 10 or 12 bytes, not {len}"),
            help: "take 0 for bare frames, 10, or 12".into(),
        }),
    }
}

fn info(
    name: &str,
    iface: &Iface,
    queues: &[TapQueue],
    region: &Region,
    options: &OpenOptions,
) -> PortInfo {
    let batched = queues.iter().all(TapQueue::is_batched);
    PortInfo {
        name: name.to_owned(),
        kind: "tap",
        mode: PortMode::new()
            .with("if", &iface.name)
            .with("io", if batched { "io_uring" } else { "readwrite" })
            .with("offload", if options.vnet_hdr > 0 { "vnet" } else { "off" })
            .with("queues", queues.len())
            .with("slots", options.slots)
            .with_link(iface.up),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: MAX_FRAME_LEN + options.vnet_hdr,
            max_slot: region.buf_size(),
        },
        // The port has no MAC address: the TAP device's MAC address is that of the host, at the
        // other end.
        mac: None,
        mtu: Some(iface.mtu),
    }
}

/// Retries for a moment while the device is in use. The device of a killed program disappears later
/// than the program, when the kernel has freed the program's io_uring.
fn retry_while_busy<T>(mut attempt: impl FnMut() -> Result<T, OpenCause>) -> Result<T, OpenCause> {
    for _ in 0..REATTACH_RETRIES {
        match attempt() {
            Err(OpenCause::Busy { .. }) => thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    attempt()
}

/// Attaches `queues` queues to a device, which is created if it does not exist. Returns a
/// descriptor for each queue, and the device's name.
fn attach(ifname: &str, queues: u32, vnet_hdr: u32) -> Result<(Vec<OwnedFd>, String), OpenCause> {
    let multi_queue = queues > 1;
    let mut how = TapAttach { multi_queue, vnet_header: vnet_hdr > 0 };
    let first = open_node()?;
    let attached = match sys::attach(first.as_fd(), ifname, how) {
        // `EINVAL`: the device was created for several queues, and accepts only descriptors that
        // have the flag for several queues, too.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !multi_queue => {
            how.multi_queue = true;
            sys::attach(first.as_fd(), ifname, how)
        }
        result => result,
    };
    let name = attached.map_err(|error| not_attached(ifname, error))?;
    let mut descriptors = vec![first];
    for _ in 1..queues {
        let next = open_node()?;
        sys::attach(next.as_fd(), &name, how).map_err(|error| not_attached(&name, error))?;
        descriptors.push(next);
    }
    let prepared = descriptors.iter().try_for_each(|tun| prepare(tun, vnet_hdr));
    prepared.map_err(|error| refused("set the TAP device's offloads", error))?;
    Ok((descriptors, name))
}

/// Configures which offloads the kernel may leave to the reader of frames.
fn prepare(tun: &OwnedFd, vnet_hdr: u32) -> io::Result<()> {
    let tun = tun.as_fd();
    if vnet_hdr == 0 {
        return sys::set_offload(tun, 0);
    }
    sys::set_vnet_len(tun, vnet_hdr)?;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // Kernels before Linux 6.2 refuse the flags for UDP (USO). Then only TCP super-frames arrive
    // unsegmented.
    sys::set_offload(tun, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6)
        .or_else(|_| sys::set_offload(tun, tcp))
}

fn open_node() -> Result<OwnedFd, OpenCause> {
    sys::open().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => OpenCause::Unsupported {
            what: format!("a TAP device ({}: {error})", sys::NODE),
            needs: "the kernel's tun driver and its device node; try: modprobe tun",
        },
        Some(libc::EACCES | libc::EPERM) => {
            OpenCause::ClosedNode { path: sys::NODE, source: error }
        }
        _ => OpenCause::System { what: "open /dev/net/tun", source: error },
    })
}

/// Checks whether a TAP device could be created here, without creating one: only whether the
/// driver's node can be opened. Creating a device also requires CAP_NET_ADMIN.
///
/// # Errors
/// Same as for [`open`].
pub fn probe(name: &str) -> Result<(), OpenError> {
    open_node().map(drop).map_err(|cause| OpenError::new(name, cause))
}

fn not_attached(ifname: &str, error: io::Error) -> OpenCause {
    match error.raw_os_error() {
        Some(libc::EBUSY) => {
            OpenCause::Busy { ifname: ifname.to_owned(), queue: 0, by: QueueOwner::Unknown }
        }
        Some(libc::EINVAL) => OpenCause::Name {
            reason: format!(
                "`{ifname}` exists, and has fewer queues than requested or other settings"
            ),
            help: Some(FREE_NAME_HELP.into()),
        },
        _ => refused("make a TAP device", error),
    }
}

fn refused(what: &'static str, source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            OpenCause::Privilege { what, capabilities: "cap_net_admin", source }
        }
        _ => OpenCause::System { what, source },
    }
}
