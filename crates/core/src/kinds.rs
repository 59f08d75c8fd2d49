//! Which kind of port a name means, and what to do when it can be several.

use std::path::Path;
use std::sync::Arc;

use slipring_abi::name::{MemorySource, PortName, PortNameKind, RingSelection};
use slipring_port::iface::Iface;
use slipring_port::{
    OpenCause, OpenError, OpenOptions, Port, RegionNeeds, XdpMode, host, kernel, native, null,
    packet, pcap, pipe, tap, xdp,
};
use slipring_ring::Region;
use slipring_vhost::VhostRole;

use crate::Host;

/// Slots that a ring may have: what AF_XDP's rings and the longest chain of slots take.
const SLOTS_RANGE: std::ops::RangeInclusive<u32> = 64..=65_536;
/// Most ring pairs of a port whose number is ours to choose; the kernel's limit for TAP devices.
const MAX_RING_PAIRS: u32 = 256;

/// A name, the region its port goes to, and the options: what every kind is told.
struct PortRequest<'w> {
    display_name: String,
    name: &'w PortName,
    options: OpenOptions,
}

/// Whether a netmap device has the port, as it has all ports of switches.
fn is_device_port(name: &PortName) -> bool {
    matches!(name.kind, PortNameKind::Kernel | PortNameKind::Vale { .. })
}

/// What opening `name` will take from a region.
pub(crate) fn needs(
    host: &Host,
    name: &PortName,
    options: &OpenOptions,
) -> Result<RegionNeeds, OpenError> {
    let wanted = PortRequest::of(name, options)?;
    if is_device_port(name) {
        // Its memory is the device's.
        return Ok(RegionNeeds::default());
    }
    if name.pipe.is_some() {
        // Those of the daemon lie in its memory.
        return Ok(
            if host.pipes.has_waiting_peer(name) || daemon_of(host, name, options).is_some() {
                RegionNeeds::default()
            } else {
                pipe::needs(wanted.pairs(), options.slots)
            },
        );
    }
    let mut needs = RegionNeeds::default();
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
    let wanted = PortRequest::of(name, options)?;
    if is_device_port(name) {
        wanted.protect_default_route()?;
        let run_dir = options.daemon.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        return kernel::open(&wanted.display_name, name, &kernel::default_device(run_dir));
    }
    if name.pipe.is_some() {
        return match daemon_of(host, name, options) {
            Some(door) => native::open(&wanted.display_name, name, door)
                .map_err(|cause| OpenError::new(&wanted.display_name, cause)),
            None => host.pipes.open(name, region, options),
        };
    }
    wanted.protect_default_route()?;
    match (wanted.wants_nic(), wanted.wants_host()) {
        (true, false) => wanted.open_nic(region),
        (false, _) => host::open(&wanted.display_name, &name.name, region, options),
        (true, true) => {
            let mut port = wanted.open_nic(region)?;
            port.queues
                .extend(host::open(&wanted.display_name, &name.name, region, options)?.queues);
            Ok(port)
        }
    }
}

/// The daemon that a pipe belongs to, unless it is one of this process.
fn daemon_of<'o>(host: &Host, name: &PortName, options: &'o OpenOptions) -> Option<&'o Path> {
    let door = options.daemon.as_deref().filter(|_| !host.pipes.has_waiting_end(name))?;
    native::is_served(door).then_some(door)
}

impl<'w> PortRequest<'w> {
    fn of(name: &'w PortName, options: &OpenOptions) -> Result<Self, OpenError> {
        let wanted = Self { display_name: name.to_string(), name, options: options.clone() };
        if is_device_port(name) {
            return wanted.check_device_options().map(|()| wanted);
        }
        let host_rings = matches!(
            name.rings,
            RingSelection::NicAndHost | RingSelection::Host | RingSelection::OneHost(_)
        );
        if host_rings
            && !matches!(name.kind, PortNameKind::Netmap | PortNameKind::Xdp | PortNameKind::Packet)
        {
            return Err(wanted.refused(
                "only netmap:, xdp: and packet: have host rings",
                "name a second port, or take one of these kinds",
            ));
        }
        wanted.check_supported()?;
        if matches!(name.rings, RingSelection::OneHost(1..)) {
            let help = "leave the number behind the ^ out for all: netmap:IF^@conf:host-rings=N";
            return Err(wanted.refused("of the host's rings one alone can be the first only", help));
        }
        Ok(wanted)
    }

    /// A netmap device judges names itself; these options would have to travel beside them.
    fn check_device_options(&self) -> Result<(), OpenError> {
        let foreign = !matches!(self.name.memory, None | Some(MemorySource::Region(_)));
        if foreign || self.name.offsets.is_some() {
            let needs = "external memory, shared memory and offsets are not part of this version";
            return Err(self.unsupported("this option behind @", needs));
        }
        Ok(())
    }

    /// Nothing that a name asks for is ignored in silence.
    fn check_supported(&self) -> Result<(), OpenError> {
        let Self { name, options, .. } = self;
        if name.flags.is_monitor() {
            let help = format!("name it as that device does: kernel:{}", self.device_port_name());
            return Err(self.refused("a monitor watches a port of a netmap device", &help));
        }
        if name.memory.is_some() || name.offsets.is_some() {
            let needs =
                "regions by number, external memory and offsets are not part of this version";
            return Err(self.unsupported("this option behind @", needs));
        }
        if !SLOTS_RANGE.contains(&options.slots) {
            let (least, most) = SLOTS_RANGE.into_inner();
            let reason = format!("a ring has {least} to {most} slots, not {}", options.slots);
            return Err(self.refused(&reason, "ask for @conf:slots=1024, or leave slots out"));
        }
        let free = matches!(
            name.kind,
            PortNameKind::Tap | PortNameKind::Null | PortNameKind::Vhost { .. }
        );
        let fixed = name.pipe.is_none() && !free;
        if self.pairs() > MAX_RING_PAIRS || self.pairs() > 1 && fixed {
            if fixed {
                let reason = "an interface has as many rings as its driver gives it";
                let help = "leave rings out; ethtool -L IF combined N changes the driver's number";
                return Err(self.refused(reason, help));
            }
            let reason =
                format!("a port has at most {MAX_RING_PAIRS} ring pairs, not {}", self.pairs());
            return Err(self.refused(&reason, "ask for fewer, or leave rings out"));
        }
        Ok(())
    }

    /// The name without its kind.
    fn device_port_name(&self) -> &str {
        self.display_name.split_once(':').map_or(&self.display_name, |(_, rest)| rest)
    }

    fn wants_nic(&self) -> bool {
        !matches!(self.name.rings, RingSelection::Host | RingSelection::OneHost(_))
    }

    fn wants_host(&self) -> bool {
        matches!(
            self.name.rings,
            RingSelection::NicAndHost | RingSelection::Host | RingSelection::OneHost(_)
        )
    }

    fn queue(&self) -> Option<u32> {
        match self.name.rings {
            RingSelection::One(queue) => Some(queue.into()),
            _ => None,
        }
    }

    /// Ring pairs that the name's `@conf:` asks for.
    fn pairs(&self) -> u32 {
        let conf = &self.name.conf;
        conf.tx_rings.max(conf.rx_rings).map_or(1, |rings| rings.get().into())
    }

    fn nic_needs(&self) -> Result<RegionNeeds, OpenError> {
        let Self { display_name: shown, name, options } = self;
        let ifname = name.name.as_str();
        match &name.kind {
            PortNameKind::Netmap => {
                let xdp = xdp::needs(shown, ifname, self.queue(), options)?;
                let packet = packet::needs(shown, ifname, self.queue(), options)?;
                Ok(RegionNeeds {
                    ring_bytes: xdp.ring_bytes.max(packet.ring_bytes),
                    bufs: xdp.bufs.max(packet.bufs),
                })
            }
            PortNameKind::Xdp => xdp::needs(shown, ifname, self.queue(), options),
            PortNameKind::Packet => packet::needs(shown, ifname, self.queue(), options),
            PortNameKind::Tap => Ok(tap::needs(self.pairs(), options)),
            PortNameKind::Pcap => Ok(pcap::needs(options)),
            PortNameKind::Null => Ok(null::needs(self.pairs(), options)),
            PortNameKind::Vhost { .. } => Ok(slipring_vhost::needs(self.pairs(), options)),
            _ => Err(self.unknown_kind_error()),
        }
    }

    fn open_nic(&self, region: &Arc<Region>) -> Result<Port, OpenError> {
        let Self { display_name: shown, name, options } = self;
        let ifname = name.name.as_str();
        match &name.kind {
            PortNameKind::Netmap => self.open_best(region),
            PortNameKind::Xdp => {
                xdp::open(shown, ifname, self.queue(), region, &self.xdp_options()?)
            }
            PortNameKind::Packet => packet::open(shown, ifname, self.queue(), region, options),
            PortNameKind::Tap => tap::open(shown, ifname, self.pairs(), region, options),
            PortNameKind::Pcap => pcap::open(shown, ifname, region, options),
            PortNameKind::Null => null::open(shown, self.pairs(), region, options),
            PortNameKind::Vhost { client } => {
                let role = if *client { VhostRole::Client } else { VhostRole::Server };
                slipring_vhost::open(shown, name.name.as_ref(), role, self.pairs(), region, options)
            }
            _ => Err(self.unknown_kind_error()),
        }
    }

    /// The options for AF_XDP: beside host rings not in the stack, where frames for the host
    /// would be caught again.
    fn xdp_options(&self) -> Result<OpenOptions, OpenError> {
        let options = self.options.clone();
        let beside_host = options.uses_host_rings || self.wants_host();
        match options.xdp {
            XdpMode::Best if beside_host => Ok(OpenOptions { xdp: XdpMode::Native, ..options }),
            XdpMode::Generic if beside_host => {
                let reason = "generic mode would catch what goes to the host once more: \
                              beside host rings take native mode, or packet:";
                Err(self.refused(reason, "leave --mode generic out, or take packet:"))
            }
            _ => Ok(options),
        }
    }

    /// `netmap:IF`: AF_XDP in the driver, else in the stack, else AF_PACKET.
    fn open_best(&self, region: &Arc<Region>) -> Result<Port, OpenError> {
        let Self { display_name: shown, name, options } = self;
        let ifname = name.name.as_str();
        match xdp::open(shown, ifname, self.queue(), region, &self.xdp_options()?) {
            Err(error) if self.may_fall_back(&error) => {
                packet::open(shown, ifname, self.queue(), region, options)
            }
            result => result,
        }
    }

    /// Whether AF_PACKET may do what AF_XDP cannot. Never when a mode was demanded, nor when the
    /// interface itself is the trouble. One that is down is no trouble, unless it is to end the port:
    /// AF_PACKET starts when it comes up.
    fn may_fall_back(&self, error: &OpenError) -> bool {
        let cannot = matches!(
            *error.cause,
            OpenCause::ModeRefused { .. }
                | OpenCause::Unsupported { .. }
                | OpenCause::Privilege { .. }
                | OpenCause::LockedMemory { .. }
                | OpenCause::Mtu { .. }
        );
        let waits =
            matches!(*error.cause, OpenCause::Down { .. }) && !self.options.exit_on_link_down;
        (cannot || waits) && self.options.xdp == XdpMode::Best
    }

    /// Refuses the interface that carries the default route, unless that is wanted.
    fn protect_default_route(&self) -> Result<(), OpenError> {
        let takes = matches!(
            self.name.kind,
            PortNameKind::Netmap | PortNameKind::Xdp | PortNameKind::Packet | PortNameKind::Kernel
        ) && self.name.pipe.is_none()
            && self.wants_nic()
            && !self.options.shared
            && !self.options.take_over;
        let ifname = &self.name.name;
        if takes && Iface::find(ifname).is_ok_and(|iface| iface.default_route()) {
            let cause = OpenCause::DefaultRoute { ifname: ifname.clone() };
            return Err(OpenError::new(&self.display_name, cause));
        }
        Ok(())
    }

    fn unknown_kind_error(&self) -> OpenError {
        self.unsupported("a native driver", "native drivers are not part of this version")
    }

    fn refused(&self, reason: &str, help: &str) -> OpenError {
        let cause = OpenCause::Setting { reason: reason.to_owned(), help: help.to_owned() };
        OpenError::new(&self.display_name, cause)
    }

    fn unsupported(&self, what: &str, needs: &'static str) -> OpenError {
        OpenError::new(&self.display_name, OpenCause::Unsupported { what: what.to_owned(), needs })
    }
}

#[cfg(test)]
mod tests {
    use slipring_port::{ErrorClass, OpenOptions, RegionNeeds};

    use crate::Host;

    #[test]
    fn ports_of_switches_and_their_pipes_are_in_memory_of_the_device() {
        for name in ["vale0:a", "vale0:a{1", "kernel:vale0:a"] {
            let name = name.parse().unwrap();
            let needs = super::needs(&Host::new(), &name, &OpenOptions::default()).unwrap();
            assert_eq!(needs, RegionNeeds::default(), "{name}");
        }
    }

    #[test]
    fn what_a_name_asks_for_and_does_not_get_is_refused_by_name() {
        for (name, class, words) in [
            ("null:@conf:slots=1", ErrorClass::Usage, "a ring has 64 to 65536 slots, not 1"),
            ("null:@conf:slots=4294967295", ErrorClass::Usage, "a ring has 64 to 65536 slots"),
            ("tap:x@conf:rings=4096", ErrorClass::Usage, "at most 256 ring pairs, not 4096"),
            ("netmap:lo@conf:rings=64", ErrorClass::Usage, "as many rings as its driver gives it"),
            ("netmap:lo/t", ErrorClass::Usage, "a monitor watches a port of a netmap device"),
            ("netmap:lo@7", ErrorClass::Machine, "not part of this version"),
            (
                "vhost:/nowhere/x.sock@conf:rings=17",
                ErrorClass::Usage,
                "at most 16 ring pairs, not 17",
            ),
            ("vhost:/nowhere/x.sock", ErrorClass::Usage, "cannot open `/nowhere/x.sock`"),
        ] {
            let error = crate::open(name).unwrap_err();
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
