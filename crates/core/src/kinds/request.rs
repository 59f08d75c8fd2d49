//! The request that a driver gets for opening a port, and checks common to all drivers.

use slipring_abi::name::{MemorySource, PortName, PortNameKind, RingSelection, kind, listed};
use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError, OpenOptions, XdpMode};
use slipring_ring::BUF_SIZE_FOR_DEVICES;

use super::InterfaceUse;

/// Allowed numbers of slots per ring, as for the flag `--slots`.
const SLOTS_RANGE: std::ops::RangeInclusive<u32> = 64..=65_536;
/// Maximum number of ring pairs that a name's `@conf:` may request; the kernel's limit for TAP
/// devices.
const MAX_RING_PAIRS: u32 = 256;

/// A port name with its options, checked: the kind supports all features that it requests.
#[derive(Debug)]
pub struct PortRequest<'r> {
    display_name: String,
    name: &'r PortName,
    options: OpenOptions,
}

impl<'r> PortRequest<'r> {
    /// Checks that the kind supports all features that the name requests, and that the numbers of
    /// slots and ring pairs are allowed. A netmap device checks most of this itself.
    ///
    /// # Errors
    /// [`OpenError`] for features that the kind does not have, and for numbers that are not
    /// allowed: nothing in a name is silently ignored.
    pub(super) fn new(name: &'r PortName, options: &OpenOptions) -> Result<Self, OpenError> {
        let request = Self { display_name: name.to_string(), name, options: options.clone() };
        if name.kind.has(kind::ON_DEVICE) {
            return request.check_device_options().map(|()| request);
        }
        if request.wants_host() && !name.kind.has(kind::HOST_RINGS) {
            let have = listed("", |kind| kind.has(kind::HOST_RINGS));
            return Err(request.refused(
                &format!("only {have} have host rings"),
                "name a second port, or take one of these kinds",
            ));
        }
        request.check_supported()?;
        if matches!(name.rings, RingSelection::OneHost(1..)) {
            let help = "leave the number behind the ^ out for all: netmap:IF^@conf:host-rings=N";
            return Err(
                request.refused("of the host's rings one alone can be the first only", help)
            );
        }
        Ok(request)
    }

    /// The name as the user wrote it.
    #[must_use]
    pub fn display_name(&self) -> &str {
        &self.display_name
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &PortName {
        self.name
    }

    /// The part after the prefix: an interface, a path, a PCI address.
    #[must_use]
    pub fn bare_name(&self) -> &str {
        &self.name.name
    }

    /// The options, with the numbers of slots and of host rings from the name.
    #[must_use]
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Size in bytes of the buffers of the region that will be created for a port of an interface.
    #[must_use]
    pub fn buf_size(&self) -> u32 {
        self.options.buf_size.unwrap_or(BUF_SIZE_FOR_DEVICES)
    }

    /// The number of the requested ring pair; `None` unless the name selects a single ring pair,
    /// other than host rings.
    #[must_use]
    pub fn queue(&self) -> Option<u32> {
        match self.name.rings {
            RingSelection::One(queue) => Some(queue.into()),
            _ => None,
        }
    }

    /// Number of ring pairs in the name's `@conf:`; 1 by default.
    #[must_use]
    pub fn pairs(&self) -> u32 {
        let conf = &self.name.conf;
        conf.tx_rings.max(conf.rx_rings).map_or(1, |rings| rings.get().into())
    }

    /// Whether rings of the port itself are requested.
    #[must_use]
    pub fn wants_nic(&self) -> bool {
        !matches!(self.name.rings, RingSelection::Host | RingSelection::OneHost(_))
    }

    /// Whether rings of the interface's host side are requested.
    #[must_use]
    pub fn wants_host(&self) -> bool {
        matches!(
            self.name.rings,
            RingSelection::NicAndHost | RingSelection::Host | RingSelection::OneHost(_)
        )
    }

    /// Returns the options for AF_XDP. With host rings, generic mode is excluded, because XDP in
    /// the stack would see the frames that the port sends to the host, and would redirect them back
    /// to the port.
    ///
    /// # Errors
    /// [`OpenError`] if generic mode is requested with host rings.
    pub fn xdp_options(&self) -> Result<OpenOptions, OpenError> {
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

    /// An error for an impossible name or option, with a suggestion.
    #[must_use]
    pub fn refused(&self, reason: &str, help: &str) -> OpenError {
        let cause = OpenCause::Setting { reason: reason.to_owned(), help: help.to_owned() };
        OpenError::new(&self.display_name, cause)
    }

    /// An error for a feature that this machine or version does not have.
    #[must_use]
    pub fn unsupported(&self, what: &str, needs: &'static str) -> OpenError {
        OpenError::new(&self.display_name, OpenCause::Unsupported { what: what.to_owned(), needs })
    }

    /// Refuses to take the interface that carries the default route, unless the option `take_over`
    /// allows it. With the option `shared`, this check always passes; a kind that takes frames
    /// despite `shared` makes its own check.
    pub(super) fn protect_default_route(&self, interface: InterfaceUse) -> Result<(), OpenError> {
        let takes = interface != InterfaceUse::None
            && self.name.pipe.is_none()
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

    /// Refuses options that cannot be passed to a netmap device. The device itself checks the name.
    fn check_device_options(&self) -> Result<(), OpenError> {
        let foreign = !matches!(self.name.memory, None | Some(MemorySource::Region(_)));
        if foreign || self.name.offsets.is_some() {
            let needs = "external memory, shared memory and offsets are not part of this version";
            return Err(self.unsupported("this option behind @", needs));
        }
        Ok(())
    }

    fn check_supported(&self) -> Result<(), OpenError> {
        let Self { name, options, .. } = self;
        if name.flags.is_monitor() {
            let help = format!(
                "name it as that device does: {}{}",
                PortNameKind::Kernel,
                self.device_port_name()
            );
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
        self.check_ring_pairs()
    }

    fn check_ring_pairs(&self) -> Result<(), OpenError> {
        let is_fixed = self.name.pipe.is_none() && !self.name.kind.has(kind::RING_PAIRS);
        match self.pairs() {
            2.. if is_fixed && !self.name.kind.names_interface() => {
                let reason =
                    format!("a port of kind {} has one ring pair", self.name.kind.grammar().word);
                Err(self.refused(&reason, "leave rings out"))
            }
            2.. if is_fixed => {
                let reason = "an interface has as many rings as its driver gives it";
                let help = "leave rings out; ethtool -L IF combined N changes the driver's number";
                Err(self.refused(reason, help))
            }
            pairs if pairs > MAX_RING_PAIRS => {
                let reason = format!("a port has at most {MAX_RING_PAIRS} ring pairs, not {pairs}");
                Err(self.refused(&reason, "ask for fewer, or leave rings out"))
            }
            _ => Ok(()),
        }
    }

    /// The name without its kind.
    fn device_port_name(&self) -> &str {
        self.display_name.split_once(':').map_or(&self.display_name, |(_, rest)| rest)
    }
}
