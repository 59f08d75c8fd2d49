//! The engine inside the kernel: XDP programs that forward by the tables that this process writes.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use slipring_bpf::BpfError;
use slipring_cli::codes::{SR0104, SR0107, SR0108, SR0199};
use slipring_cli::{Diagnostic, Failure};
use slipring_fib::{FibPort, ForwardingTables, Ipv4Table, PortIndex, VlanTags, VrfIndex};
use slipring_port::iface::{Feature, FeatureGuard, Iface};
use slipring_route_bpf::{
    AttachOptions, BpfLimits, BpfRouter, ResidentAttachment, ResidentCounters, ResidentError,
    ResidentHash, ResidentHeartbeat, ResidentMode,
    ResidentOptions,
};
use slipring_wire::mac::MacAddr;

use crate::flags::XdpChoice;

/// Drivers of interfaces whose frames may come from senders on this machine, with checksums that
/// are not complete.
const SOFTWARE_DRIVERS: [&str; 5] = ["veth", "tun", "bridge", "macvlan", "virtio_net"];

/// The programs, attached; they are detached when this is dropped, or when the process ends.
pub(crate) struct ResidentEngine {
    router: BpfRouter,
    attachments: Vec<AttachedInterface>,
    /// The newest snapshot whose indices programs may still use beside newer ones.
    unsettled: Option<u64>,
}

/// An interface with its program.
pub(crate) struct AttachedInterface {
    pub(crate) iface: Iface,
    pub(crate) mode: ResidentMode,
    /// Whether redirected frames leave by it.
    pub(crate) sends: bool,
    _link: ResidentAttachment,
    /// Restores the interface's settings when it is dropped.
    _settings: FeatureGuard,
}

impl ResidentEngine {
    /// Loads the programs and attaches them. They forward nothing yet.
    ///
    /// # Errors
    /// If a privilege is missing, another program is attached, or no mode works.
    pub(crate) fn open(ifaces: &[Iface], choice: XdpChoice) -> Result<Self, Failure> {
        let queues = ifaces.iter().map(|iface| iface.rx_queues).max().unwrap_or(1);
        let queues = u16::try_from(queues).unwrap_or(u16::MAX);
        let limits = BpfLimits { queues, ..BpfLimits::default() };
        let hash = ResidentHash { seed: random_seed()?, ..ResidentHash::default() };
        let router = BpfRouter::create(limits, hash).map_err(|error| refused(&error, None))?;
        let attach = |(at, iface)| attach(&router, PortIndex(at as u16), iface, choice);
        let attachments = ifaces.iter().enumerate().map(attach).collect::<Result<_, _>>()?;
        let mut engine = Self { router, attachments, unsettled: None };
        engine.probe()?;
        Ok(engine)
    }

    /// Finds interfaces from which redirected frames do not leave, and leaves packets for them to the
    /// kernel.
    fn probe(&mut self) -> Result<(), Failure> {
        let ports: Vec<_> = self.attachments.iter().map(|of| port(&of.iface)).collect();
        self.router.apply(&without_routes(ports)).map_err(|error| refused(&error, None))?;
        for (at, attached) in self.attachments.iter_mut().enumerate() {
            if attached.mode != ResidentMode::Native || !attached.iface.carrier {
                continue;
            }
            let (port, name) = (PortIndex(at as u16), &attached.iface.name);
            let sends = self.router.probe_egress(port, name);
            attached.sends = sends.map_err(|error| refused(&error, Some(name)))?;
            self.router.set_options(port, ResidentOptions { ingress: true, egress: attached.sends });
        }
        Ok(())
    }

    pub(crate) fn interfaces(&self) -> &[AttachedInterface] {
        &self.attachments
    }

    /// The IPv4 table of the main VRF, in the memory that the programs read.
    ///
    /// # Errors
    /// If the kernel has no memory for it.
    pub(crate) fn ipv4_table(&mut self) -> Result<Box<dyn Ipv4Table>, Failure> {
        Ok(self.router.ipv4_table(VrfIndex(0)).map_err(|error| refused(&error, None))?)
    }

    /// Makes the programs forward by a snapshot, from the first one on.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn apply(&mut self, tables: &ForwardingTables) -> io::Result<()> {
        self.router.apply(tables).map_err(io::Error::other)?;
        self.unsettled = Some(tables.generation);
        self.router.enable();
        Ok(())
    }

    /// Waits until no program uses indices of snapshots before the last one. Returns its generation,
    /// or `None` if that was so already.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn settle(&mut self) -> io::Result<Option<u64>> {
        let Some(generation) = self.unsettled.take() else { return Ok(None) };
        self.router.quiesce()?;
        Ok(Some(generation))
    }

    /// Returns the writer of heartbeats: without them, everything is left to the kernel.
    pub(crate) fn heartbeat(&self) -> ResidentHeartbeat {
        self.router.heartbeat()
    }

    /// Tells the programs this machine's addresses: packets from them are not forwarded.
    pub(crate) fn set_local(&mut self, addresses: &[(IpAddr, u8)]) {
        self.router.set_local(addresses);
    }

    /// Leaves an interface's packets to the kernel, or forwards them again.
    pub(crate) fn set_forwarding(&mut self, port: PortIndex, forwards: bool) {
        let sends = self.attachments.get(usize::from(port.0)).is_some_and(|of| of.sends);
        let options = ResidentOptions { ingress: forwards, egress: forwards && sends };
        self.router.set_options(port, options);
    }

    /// What the programs have counted, by port.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn counters(&self) -> io::Result<Vec<ResidentCounters>> {
        let ports = 0..self.attachments.len();
        ports.map(|at| self.router.counters(PortIndex(at as u16))).collect()
    }
}

/// An interface as a port of the tables.
fn port(iface: &Iface) -> FibPort {
    FibPort {
        ifindex: iface.index,
        name: iface.name.clone(),
        mac: MacAddr(iface.mac),
        mtu: iface.mtu,
        is_up: iface.up,
        vrf: VrfIndex(0),
        tags: VlanTags::default(),
        addresses: Vec::new(),
    }
}

/// Tables by which nothing is forwarded.
fn without_routes(ports: Vec<FibPort>) -> ForwardingTables {
    ForwardingTables {
        generation: 0,
        ports: ports.into(),
        vrfs: Vec::new().into(),
        targets: Vec::new().into(),
        adjacencies: Vec::new().into(),
        buckets: Vec::new().into(),
    }
}

fn random_seed() -> io::Result<u64> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(seed))
}

/// Attaches the program to an interface: in the driver if that is wanted and possible, else in the
/// stack.
fn attach(
    router: &BpfRouter,
    port: PortIndex,
    iface: &Iface,
    choice: XdpChoice,
) -> Result<AttachedInterface, Failure> {
    // XDP sees no tag that the device has taken out of the frame.
    let settings = iface.with_features(&[(Feature::RxVlan, false)]);
    let is_software = SOFTWARE_DRIVERS.contains(&iface.driver.as_str());
    let modes: &[ResidentMode] = match choice {
        XdpChoice::Auto => &[ResidentMode::Native, ResidentMode::Generic],
        XdpChoice::Native => &[ResidentMode::Native],
        XdpChoice::Generic => &[ResidentMode::Generic],
    };
    let mut error = None;
    for &mode in modes {
        match router.attach(iface.index, port, AttachOptions { mode, is_software }) {
            Ok(link) => {
                return Ok(AttachedInterface {
                    iface: iface.clone(),
                    mode,
                    sends: true,
                    _link: link,
                    _settings: settings,
                });
            }
            // A mode that the driver does not have may be replaced by the next one.
            Err(cause) => error = error.or(Some(cause)),
        }
    }
    let error = error.expect("there is at least one mode");
    Err(refused(&error, Some(&iface.name)).into())
}

fn refused(error: &ResidentError, interface: Option<&str>) -> Diagnostic {
    let on = interface.map_or_else(String::new, |name| format!(" on {name}"));
    let summary = format!("packets cannot be forwarded in XDP{on}");
    let name = interface.unwrap_or("IF");
    match (errno_of(error), error) {
        (Some(Errno::PERM | Errno::ACCESS), _) => Diagnostic::new(SR0104, summary)
            .with_cause(error.to_string())
            .with_help("run as root, or give the capabilities: sudo setcap cap_net_admin,cap_bpf,cap_net_raw+ep \"$(command -v slipring)\""),
        (Some(Errno::BUSY | Errno::EXIST), _) => Diagnostic::new(SR0107, summary)
            .with_cause("another XDP program is attached")
            .with_help(format!("see which one: ip -details link show dev {name}")),
        (Some(Errno::OPNOTSUPP), _) => Diagnostic::new(SR0108, summary)
            .with_cause("the driver has no XDP")
            .with_help("let the stack run the program: --io xdp-generic"),
        _ => Diagnostic::new(SR0199, summary)
            .with_cause(error.to_string())
            .with_help("see what this machine can do: slipring doctor"),
    }
}

fn errno_of(error: &ResidentError) -> Option<Errno> {
    let source = match error {
        ResidentError::Attach { source, .. }
        | ResidentError::Bpf(BpfError::System { source, .. }) => source,
        _ => return None,
    };
    Errno::from_io_error(source)
}
