//! Which kind of port a name means, and what to do when it can be several.

use std::sync::Arc;

use slipring_abi::name::{Kind, PortName, Rings};
use slipring_port::iface::Iface;
use slipring_port::{
    Needs, OpenCause, OpenError, OpenOptions, Port, XdpMode, host, null, packet, pcap, pipe, tap,
    xdp,
};
use slipring_ring::Region;

use crate::Host;

/// A name, the region its port goes to, and the options: what every kind is told.
struct Wanted<'w> {
    shown: String,
    name: &'w PortName,
    options: OpenOptions,
}

/// What opening `name` will take from a region.
pub(crate) fn needs(
    host: &Host,
    name: &PortName,
    options: &OpenOptions,
) -> Result<Needs, OpenError> {
    let wanted = Wanted::of(name, options)?;
    if name.pipe.is_some() {
        let waiting = host.pipes.is_waiting(name);
        return Ok(if waiting {
            Needs::default()
        } else {
            pipe::needs(wanted.pairs(), options.slots)
        });
    }
    let mut needs = Needs::default();
    if wanted.wants_nic() {
        needs += wanted.nic_needs()?;
    }
    if wanted.wants_host() {
        needs += host::needs(options);
    }
    Ok(needs)
}

/// Opens `name` in `region`.
pub(crate) fn open(
    host: &Host,
    name: &PortName,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let wanted = Wanted::of(name, options)?;
    if name.pipe.is_some() {
        return host.pipes.open(name, region, options);
    }
    wanted.keep_default_route()?;
    match (wanted.wants_nic(), wanted.wants_host()) {
        (true, false) => wanted.open_nic(region),
        (false, _) => host::open(&wanted.shown, &name.name, region, options),
        (true, true) => {
            let mut port = wanted.open_nic(region)?;
            port.queues.extend(host::open(&wanted.shown, &name.name, region, options)?.queues);
            Ok(port)
        }
    }
}

impl<'w> Wanted<'w> {
    fn of(name: &'w PortName, options: &OpenOptions) -> Result<Self, OpenError> {
        let wanted = Self { shown: name.to_string(), name, options: options.clone() };
        let host_rings = matches!(name.rings, Rings::NicAndHost | Rings::Host | Rings::OneHost(_));
        if host_rings && !matches!(name.kind, Kind::Netmap | Kind::Xdp | Kind::Packet) {
            return Err(wanted.refused("only netmap:, xdp: and packet: have host rings"));
        }
        if matches!(name.rings, Rings::OneHost(1..)) {
            return Err(wanted.refused("an interface has one pair of host rings"));
        }
        Ok(wanted)
    }

    fn wants_nic(&self) -> bool {
        !matches!(self.name.rings, Rings::Host | Rings::OneHost(_))
    }

    fn wants_host(&self) -> bool {
        matches!(self.name.rings, Rings::NicAndHost | Rings::Host | Rings::OneHost(_))
    }

    fn queue(&self) -> Option<u32> {
        match self.name.rings {
            Rings::One(queue) => Some(queue.into()),
            _ => None,
        }
    }

    /// Ring pairs that the name's `@conf:` asks for.
    fn pairs(&self) -> u32 {
        let conf = &self.name.conf;
        conf.tx_rings.max(conf.rx_rings).map_or(1, |rings| rings.get().into())
    }

    fn nic_needs(&self) -> Result<Needs, OpenError> {
        let Self { shown, name, options } = self;
        let ifname = name.name.as_str();
        match &name.kind {
            Kind::Netmap => {
                let xdp = xdp::needs(shown, ifname, self.queue(), options)?;
                let packet = packet::needs(shown, ifname, self.queue(), options)?;
                Ok(Needs {
                    ring_bytes: xdp.ring_bytes.max(packet.ring_bytes),
                    bufs: xdp.bufs.max(packet.bufs),
                })
            }
            Kind::Xdp => xdp::needs(shown, ifname, self.queue(), options),
            Kind::Packet => packet::needs(shown, ifname, self.queue(), options),
            Kind::Tap => Ok(tap::needs(self.pairs(), options)),
            Kind::Pcap => Ok(pcap::needs(options)),
            Kind::Null => Ok(null::needs(self.pairs(), options)),
            _ => Err(self.no_such_kind()),
        }
    }

    fn open_nic(&self, region: &Arc<Region>) -> Result<Port, OpenError> {
        let Self { shown, name, options } = self;
        let ifname = name.name.as_str();
        match &name.kind {
            Kind::Netmap => self.open_best(region),
            Kind::Xdp => xdp::open(shown, ifname, self.queue(), region, options),
            Kind::Packet => packet::open(shown, ifname, self.queue(), region, options),
            Kind::Tap => tap::open(shown, ifname, self.pairs(), region, options),
            Kind::Pcap => pcap::open(shown, ifname, region, options),
            Kind::Null => null::open(shown, self.pairs(), region, options),
            _ => Err(self.no_such_kind()),
        }
    }

    /// `netmap:IF`: AF_XDP in the driver, else in the stack, else AF_PACKET. Beside host rings
    /// not in the stack, where frames for the host would be caught again.
    fn open_best(&self, region: &Arc<Region>) -> Result<Port, OpenError> {
        let Self { shown, name, options } = self;
        let ifname = name.name.as_str();
        let beside_host = options.beside_host || self.wants_host();
        let in_driver = OpenOptions { xdp: XdpMode::Native, ..options.clone() };
        let options =
            if beside_host && options.xdp == XdpMode::Best { &in_driver } else { options };
        match xdp::open(shown, ifname, self.queue(), region, options) {
            Err(error) if self.may_fall_back(&error) => {
                packet::open(shown, ifname, self.queue(), region, options)
            }
            result => result,
        }
    }

    /// Whether AF_PACKET may do what AF_XDP cannot. Never when a mode was demanded, nor when the
    /// interface itself is the trouble.
    fn may_fall_back(&self, error: &OpenError) -> bool {
        let cannot = matches!(
            *error.cause,
            OpenCause::ModeRefused { .. }
                | OpenCause::Unsupported { .. }
                | OpenCause::Privilege { .. }
                | OpenCause::LockedMemory { .. }
                | OpenCause::Mtu { .. }
        );
        cannot && self.options.xdp == XdpMode::Best
    }

    /// Refuses the interface that carries the default route, unless that is wanted.
    fn keep_default_route(&self) -> Result<(), OpenError> {
        let takes = matches!(self.name.kind, Kind::Netmap | Kind::Xdp | Kind::Packet)
            && self.wants_nic()
            && !self.options.shared
            && !self.options.take_over;
        let ifname = &self.name.name;
        if takes && Iface::find(ifname).is_ok_and(|iface| iface.default_route()) {
            let cause = OpenCause::DefaultRoute { ifname: ifname.clone() };
            return Err(OpenError::new(&self.shown, cause));
        }
        Ok(())
    }

    fn no_such_kind(&self) -> OpenError {
        let (what, needs) = match self.name.kind {
            Kind::Vale { .. } => ("a switch port", "switches are not part of this version"),
            Kind::Kernel => {
                ("a kernel netmap port", "netmap in the kernel is not part of this version")
            }
            _ => ("a native driver", "native drivers are not part of this version"),
        };
        self.unsupported(what, needs)
    }

    fn refused(&self, reason: &str) -> OpenError {
        OpenError::new(&self.shown, OpenCause::Setting { reason: reason.to_owned() })
    }

    fn unsupported(&self, what: &str, needs: &'static str) -> OpenError {
        OpenError::new(&self.shown, OpenCause::Unsupported { what: what.to_owned(), needs })
    }
}
