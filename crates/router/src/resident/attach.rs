//! The programs of an interface, attached in the mode that the engine's choice and the driver
//! permit.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_cli::codes::SR0108;
use slipring_cli::{Diagnostic, Failure};
use slipring_fib::FibPortIndex;
use slipring_port::InheritedSocket;
use slipring_port::iface::{Feature, FeatureGuard, Iface};
use slipring_port::xdp::XdpSocketMap;
use slipring_route_bpf::{
    AttachOptions, BpfRouter, EgressProbe, PacketInterception, ResidentAttachment, ResidentError,
    ResidentMode,
};
use slipring_wire::mac::MacAddr;

use super::refusal::{errno_of, refuse_joined, refused};
use crate::io_choice::IoChoice;

/// Drivers whose frames may come from senders on this machine, with incomplete checksums.
const SOFTWARE_DRIVERS: [&str; 5] = ["veth", "tun", "bridge", "macvlan", "virtio_net"];

/// The sockets that get the frames of an interface for its port in user space.
pub(crate) enum InterfaceSockets {
    /// The map of AF_XDP sockets to which a program redirects the frames.
    Xdp(XdpSocketMap),
    /// The filters of packet sockets, one for each queue.
    Packet(Vec<Arc<OwnedFd>>),
    /// The packet sockets of another router. It reads them until this router takes over.
    Inherited(Vec<InheritedSocket>),
}

impl InterfaceSockets {
    /// Whether another router still reads the sockets.
    pub(crate) const fn are_inherited(&self) -> bool {
        matches!(self, Self::Inherited(_))
    }
}

/// The programs attached to an interface.
pub(super) enum InterfacePrograms {
    Xdp { link: ResidentAttachment },
    Packet(PacketInterception),
}

/// An interface with its program.
pub(crate) struct AttachedInterface {
    pub(crate) iface: Iface,
    /// How packets that arrive on the interface are forwarded, as printed.
    pub(crate) mode: &'static str,
    /// Tests whether redirected frames leave by the interface. `None` with sockets, which send the
    /// frames, and in generic mode, in which redirected frames of other generic programs always
    /// leave.
    pub(crate) probe: Option<Arc<EgressProbe>>,
    /// Whether redirected frames leave by the interface. With a probe, false until this is known.
    pub(crate) sends: bool,
    /// The number of frames that the driver had refused at the last check.
    pub(super) refused: u64,
    /// Number of frames that the driver had already dropped for the previous router.
    pub(super) dropped_before: u64,
    /// Whether packets from and for the interface are left to the kernel.
    pub(crate) is_left: bool,
    /// Whether packets that arrive on the interface are left to the kernel's routing rules.
    pub(super) is_ruled: bool,
    /// Whether a policer limits packets that arrive on the interface.
    pub(super) is_policed: bool,
    /// The sockets that get the interface's frames for the engine in user space, until the port is
    /// open.
    pub(super) sockets: Option<InterfaceSockets>,
    pub(super) link: InterfacePrograms,
    /// Restores the interface's settings when it is dropped.
    pub(super) settings: Option<FeatureGuard>,
    /// Whether a predecessor switched off VLAN tag removal in the driver. After a takeover, this
    /// engine switches it on again at its end.
    pub(super) inherits_rx_vlan: bool,
}

/// All interfaces with their programs.
pub(super) struct Attachments {
    pub(super) interfaces: Vec<AttachedInterface>,
    /// Why packet sockets are used although XDP was preferred, as text.
    pub(super) fallback: Option<String>,
}

/// Why no XDP program could be attached to an interface.
pub(super) struct NotAttached {
    pub(super) failure: Failure,
    /// The reason as text, if no mode works. Packet sockets may then be used instead.
    no_mode: Option<String>,
}

impl AttachedInterface {
    /// Returns the entry of an interface with packet sockets.
    pub(super) fn of_packet(
        iface: &Iface,
        sockets: InterfaceSockets,
        interception: PacketInterception,
    ) -> Self {
        Self {
            iface: iface.clone(),
            mode: "packet",
            sends: true,
            refused: 0,
            dropped_before: 0,
            probe: None,
            sockets: Some(sockets),
            is_left: false,
            is_ruled: false,
            is_policed: false,
            link: InterfacePrograms::Packet(interception),
            settings: None,
            inherits_rx_vlan: false,
        }
    }

    /// Returns the number of the router's programs at tcx ingress of this interface.
    pub(super) const fn tcx_programs(&self) -> u32 {
        matches!(self.link, InterfacePrograms::Packet(_)) as u32
    }
}

impl NotAttached {
    /// Describes why no program could be attached to the interface `name`. `error` is `None` if the
    /// reason is that the driver removes VLAN tags from frames.
    fn new(error: Option<&ResidentError>, name: &str) -> Self {
        let Some(error) = error else {
            let no_mode = format!("no XDP on {name}, whose driver takes VLAN tags out of frames");
            return Self { failure: hides_tags(name).into(), no_mode: Some(no_mode) };
        };
        let is_mode = !matches!(
            errno_of(error),
            Some(Errno::PERM | Errno::ACCESS | Errno::BUSY | Errno::EXIST)
        );
        let no_mode = is_mode.then(|| format!("no XDP on {name} ({error})"));
        Self { failure: refused(error, Some(name)).into(), no_mode }
    }
}

/// Attaches XDP programs to all interfaces, or prepares all of them for packet sockets. With rules,
/// workers with AF_XDP sockets also get packets with IP options.
///
/// # Errors
/// If a privilege is missing, another program is attached, or neither XDP nor packet sockets work.
pub(super) fn attach_all(
    router: &BpfRouter,
    ifaces: &[Iface],
    (choice, has_rules): (IoChoice, bool),
) -> Result<Attachments, Failure> {
    if choice == IoChoice::Packet {
        refuse_any_joined(ifaces)?;
        return intercept_all(router, ifaces, None);
    }
    // If one interface fails, the programs of the earlier interfaces are detached before packet
    // sockets are tried.
    let attached =
        ports(ifaces).map(|(iface, port)| attach(router, port, iface, (choice, has_rules)));
    match attached.collect() {
        Ok(interfaces) => Ok(Attachments { interfaces, fallback: None }),
        Err(NotAttached { failure, no_mode: Some(why) }) if choice == IoChoice::Auto => {
            refuse_any_joined(ifaces)?;
            intercept_all(router, ifaces, Some(why)).map_err(|_| failure)
        }
        Err(NotAttached { failure, .. }) => Err(failure),
    }
}

/// Refuses packet sockets on interfaces whose device joins received packets. A device with XDP does
/// not join them, and the kernel makes all devices stop joining while its own forwarding is on.
fn refuse_any_joined(ifaces: &[Iface]) -> Result<(), Diagnostic> {
    ifaces.iter().try_for_each(|iface| refuse_joined(&iface.name, iface.feature(Feature::Lro)))
}

fn intercept_all(
    router: &BpfRouter,
    ifaces: &[Iface],
    fallback: Option<String>,
) -> Result<Attachments, Failure> {
    let interfaces = ports(ifaces).map(|(iface, port)| intercept(router, port, iface));
    Ok(Attachments { interfaces: interfaces.collect::<Result<_, _>>()?, fallback })
}

/// The interfaces with their port indices.
fn ports(ifaces: &[Iface]) -> impl Iterator<Item = (&Iface, FibPortIndex)> {
    ifaces.iter().zip((0..).map(FibPortIndex))
}

/// Attaches the program to an interface, in the first of the choice's modes that works. Returns the
/// entry of the interface.
fn attach(
    router: &BpfRouter,
    port: FibPortIndex,
    iface: &Iface,
    (choice, takes_options): (IoChoice, bool),
) -> Result<AttachedInterface, NotAttached> {
    // XDP does not see a tag that the device has removed, so the device is asked to leave tags in
    // frames.
    let settings = iface.with_features(&[(Feature::RxVlan, false)]);
    let takes_tags_out = !settings.refused().is_empty();
    let is_software = is_software(iface);
    let queues = iface.rx_queues.max(iface.tx_queues);
    let socket_queues = if choice.sockets().is_some() { queues } else { 0 };
    let mut error = None;
    for &mode in choice.modes() {
        // A program in generic mode cannot see a tag that the driver removes: it would forward the
        // frame as if it had no tag.
        if takes_tags_out && mode == ResidentMode::Generic {
            continue;
        }
        let options = AttachOptions {
            mode,
            is_software,
            checks_stripped_tags: takes_tags_out,
            socket_queues,
            takes_options,
        };
        match router.attach(iface.index, port, options) {
            Ok(link) => return xdp_interface(router, (iface, port), mode, link, settings),
            // The driver may not support this mode. The next mode may work.
            Err(cause) => error = error.or(Some(cause)),
        }
    }
    Err(NotAttached::new(error.as_ref(), &iface.name))
}

/// Whether frames may come from senders on this machine.
pub(super) fn is_software(iface: &Iface) -> bool {
    SOFTWARE_DRIVERS.contains(&iface.driver.as_str())
}

/// Returns the entry of an interface with its XDP program.
pub(super) fn xdp_interface(
    router: &BpfRouter,
    (iface, port): (&Iface, FibPortIndex),
    mode: ResidentMode,
    mut link: ResidentAttachment,
    settings: FeatureGuard,
) -> Result<AttachedInterface, NotAttached> {
    let is_native = mode == ResidentMode::Native;
    let sockets = link.take_sockets();
    let sockets =
        sockets.map(|map| InterfaceSockets::Xdp(XdpSocketMap { map: Arc::new(map), is_native }));
    let has_sockets = sockets.is_some();
    Ok(AttachedInterface {
        iface: iface.clone(),
        mode: mode_name(mode, has_sockets),
        sends: has_sockets || mode == ResidentMode::Generic,
        refused: 0,
        dropped_before: 0,
        probe: if has_sockets { None } else { probe_of(router, port, iface, mode)? },
        sockets,
        is_left: false,
        is_ruled: false,
        is_policed: false,
        link: InterfacePrograms::Xdp { link },
        settings: Some(settings),
        inherits_rx_vlan: false,
    })
}

/// Prepares an interface for packet sockets. Returns its entry.
fn intercept(
    router: &BpfRouter,
    port: FibPortIndex,
    iface: &Iface,
) -> Result<AttachedInterface, Failure> {
    let queues = iface.rx_queues as u16;
    let failed = |error| refused(&error, Some(&iface.name));
    let interception = router.attach_packet(iface.index, port, queues).map_err(failed)?;
    let filters = interception.filters()?.into_iter().map(Arc::new).collect();
    Ok(AttachedInterface::of_packet(iface, InterfaceSockets::Packet(filters), interception))
}

fn probe_of(
    router: &BpfRouter,
    port: FibPortIndex,
    iface: &Iface,
    mode: ResidentMode,
) -> Result<Option<Arc<EgressProbe>>, NotAttached> {
    if mode == ResidentMode::Generic {
        return Ok(None);
    }
    let probe = router.egress_probe(port, MacAddr(iface.mac));
    Ok(Some(Arc::new(probe.map_err(|error| NotAttached::new(Some(&error), &iface.name))?)))
}

/// The name of a mode of XDP in outputs.
const fn mode_name(mode: ResidentMode, has_sockets: bool) -> &'static str {
    match mode {
        _ if has_sockets => "xsk",
        ResidentMode::Native => "xdp native",
        ResidentMode::Generic => "xdp generic",
    }
}

fn hides_tags(name: &str) -> Diagnostic {
    Diagnostic::new(SR0108, format!("packets cannot be forwarded in the stack on {name}"))
        .with_cause("its driver takes VLAN tags out of frames, and does not stop doing so")
        .with_help("let the driver run the program: --io xdp")
}
