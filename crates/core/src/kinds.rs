//! Which kind of port a name means, and what to do when it can be several.

use std::sync::Arc;

use slipring_abi::name::{Kind, PortName, Rings};
use slipring_port::{
    Needs, OpenCause, OpenError, OpenOptions, Port, XdpMode, iface, null, packet, pcap, pipe, tap,
    xdp,
};
use slipring_ring::Region;

use crate::Host;

/// What opening `name` will take from a region.
pub(crate) fn needs(
    host: &Host,
    name: &PortName,
    options: &OpenOptions,
) -> Result<Needs, OpenError> {
    let shown = name.to_string();
    let (ifname, queue) = (name.name.as_str(), queue(name)?);
    if name.pipe.is_some() {
        return Ok(if host.pipes.is_waiting(name) {
            Needs::default()
        } else {
            pipe::needs(queues(name), options.slots)
        });
    }
    match &name.kind {
        Kind::Netmap if interface_wanted(name) => best_needs(&shown, ifname, queue, options),
        Kind::Xdp => xdp::needs(&shown, ifname, queue, options),
        Kind::Packet => packet::needs(&shown, ifname, queue, options),
        Kind::Tap => Ok(tap::needs(queues(name), options)),
        Kind::Pcap => Ok(pcap::needs(options)),
        Kind::Null => Ok(null::needs(queues(name), options)),
        _ => Err(not_yet(name)),
    }
}

/// Opens `name` in `region`.
pub(crate) fn open(
    host: &Host,
    name: &PortName,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let shown = name.to_string();
    let (ifname, queue) = (name.name.as_str(), queue(name)?);
    if name.pipe.is_some() {
        return host.pipes.open(name, region, options);
    }
    if name.kind.names_interface() && name.kind != Kind::Tap {
        keep_default_route(&shown, ifname, options)?;
    }
    match &name.kind {
        Kind::Netmap if interface_wanted(name) => best(&shown, ifname, queue, region, options),
        Kind::Xdp => xdp::open(&shown, ifname, queue, region, options),
        Kind::Packet => packet::open(&shown, ifname, queue, region, options),
        Kind::Tap => tap::open(&shown, ifname, queues(name), region, options),
        Kind::Pcap => pcap::open(&shown, ifname, region, options),
        Kind::Null => null::open(&shown, queues(name), region, options),
        _ => Err(not_yet(name)),
    }
}

/// Whether a `netmap:` name means the rings of a NIC.
fn interface_wanted(name: &PortName) -> bool {
    matches!(name.rings, Rings::All | Rings::One(_))
}

fn queue(name: &PortName) -> Result<Option<u32>, OpenError> {
    match name.rings {
        Rings::One(queue) => Ok(Some(queue.into())),
        _ => Ok(None),
    }
}

/// Ring pairs that the name's `@conf:` asks for.
fn queues(name: &PortName) -> u32 {
    name.conf.tx_rings.max(name.conf.rx_rings).map_or(1, |rings| rings.get().into())
}

/// `netmap:IF`: AF_XDP in the driver, else AF_XDP in the stack, else AF_PACKET.
fn best(
    shown: &str,
    ifname: &str,
    queue: Option<u32>,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    match xdp::open(shown, ifname, queue, region, options) {
        Err(error) if may_fall_back(&error, options) => {
            packet::open(shown, ifname, queue, region, options)
        }
        result => result,
    }
}

fn best_needs(
    shown: &str,
    ifname: &str,
    queue: Option<u32>,
    options: &OpenOptions,
) -> Result<Needs, OpenError> {
    let xdp = xdp::needs(shown, ifname, queue, options)?;
    let packet = packet::needs(shown, ifname, queue, options)?;
    Ok(Needs { ring_bytes: xdp.ring_bytes.max(packet.ring_bytes), bufs: xdp.bufs.max(packet.bufs) })
}

/// Whether AF_PACKET may do what AF_XDP cannot. Never when a mode was demanded, nor when the
/// interface itself is the trouble.
fn may_fall_back(error: &OpenError, options: &OpenOptions) -> bool {
    let cannot = matches!(
        *error.cause,
        OpenCause::ModeRefused { .. }
            | OpenCause::Unsupported { .. }
            | OpenCause::Privilege { .. }
            | OpenCause::LockedMemory { .. }
            | OpenCause::Mtu { .. }
    );
    cannot && options.xdp == XdpMode::Best
}

/// Refuses the interface that carries the default route, unless that is wanted.
fn keep_default_route(shown: &str, ifname: &str, options: &OpenOptions) -> Result<(), OpenError> {
    if options.take_over || options.shared || !iface::has_default_route(ifname) {
        return Ok(());
    }
    Err(OpenError::new(shown, OpenCause::DefaultRoute { ifname: ifname.to_owned() }))
}

fn not_yet(name: &PortName) -> OpenError {
    let what = format!("`{name}`");
    OpenError::new(name, OpenCause::Unsupported { what, needs: "this build has no such port" })
}
