//! The engine inside the kernel: XDP programs that forward by the tables that this process writes.

use std::io;

use slipring_bpf::BpfError;
use slipring_cli::codes::{SR0104, SR0108, SR0199};
use slipring_cli::{Diagnostic, Failure};
use slipring_fib::{ForwardingTables, Ipv4Table, Mirror, PortIndex, VrfIndex, dir24_table};
use slipring_port::iface::{Feature, FeatureGuard, Iface};
use slipring_route_bpf::{
    AttachOptions, BpfLimits, BpfRouter, ResidentAttachment, ResidentCounters, ResidentError,
    ResidentMode, ResidentOptions,
};

use crate::flags::XdpChoice;

/// Drivers of interfaces whose frames may come from senders on this machine, with checksums that
/// are not complete.
const SOFTWARE_DRIVERS: [&str; 5] = ["veth", "tun", "bridge", "macvlan", "virtio_net"];

/// The programs, attached; they are detached when this is dropped, or when the process ends.
pub(crate) struct ResidentEngine {
    pub(crate) router: BpfRouter,
    attachments: Vec<AttachedInterface>,
}

/// An interface with its program.
pub(crate) struct AttachedInterface {
    pub(crate) iface: Iface,
    pub(crate) mode: ResidentMode,
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
        let limits = BpfLimits { queues: u16::try_from(queues).unwrap_or(u16::MAX), ..BpfLimits::default() };
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let router = BpfRouter::create(limits, u64::from_ne_bytes(seed)).map_err(|error| failed(error, ""))?;
        let attach = |(at, iface): (usize, &Iface)| attach(&router, PortIndex(at as u16), iface, choice);
        let attachments = ifaces.iter().enumerate().map(attach).collect::<Result<_, _>>()?;
        Ok(Self { router, attachments })
    }

    pub(crate) fn interfaces(&self) -> &[AttachedInterface] {
        &self.attachments
    }

    /// The IPv4 table of the main VRF, in the memory that the programs read.
    ///
    /// # Errors
    /// If the kernel has no memory for it.
    pub(crate) fn ipv4_table(&mut self) -> Result<Box<dyn Ipv4Table>, Failure> {
        let (root, tail) = self.router.cells(VrfIndex(0)).map_err(|error| failed(error, ""))?;
        Ok(dir24_table(root, tail))
    }

    /// Makes the programs forward by a snapshot.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn apply(&mut self, tables: &ForwardingTables) -> io::Result<()> {
        self.router.apply(tables)?;
        for (at, vrf) in tables.vrfs.iter().enumerate() {
            if let Some(tree) = vrf.v6.intervals() {
                self.router.set_v6(VrfIndex(at as u16), tree.into()).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    /// Leaves an interface's packets to the kernel, or forwards them again.
    pub(crate) fn set_forwarding(&mut self, port: PortIndex, forwards: bool) {
        self.router.set_options(port, ResidentOptions { ingress: forwards, egress: forwards });
    }

    /// What the programs have counted, by port.
    pub(crate) fn counters(&self) -> Vec<ResidentCounters> {
        let ports = 0..self.attachments.len();
        ports.map(|at| self.router.counters(PortIndex(at as u16)).unwrap_or_default()).collect()
    }
}
