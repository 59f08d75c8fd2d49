//! The kernel's interfaces, their addresses, and which interfaces belong to the router.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_rtnetlink::{AddressMessage, LinkFlags, LinkMessage};
use slipring_wire::mac::MacAddr;

use crate::config::PortConfig;
use crate::mirrored::{Mirrored, Origin};
use crate::settings::InterfaceSettings;
use crate::tables::{FibPort, FibPortIndex, ReversePathMode, VrfIndex};

/// An interface of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelLink {
    pub name: String,
    pub flags: LinkFlags,
    pub mtu: u32,
    pub mac: MacAddr,
    /// The index of the bridge, bond or VRF device of which the interface is a port; `None` if it
    /// is not a port.
    pub master: Option<u32>,
    /// The table of a VRF device; `None` for other interfaces.
    pub vrf_table: Option<u32>,
}

impl KernelLink {
    pub(crate) fn of(message: &LinkMessage<'_>) -> Self {
        Self {
            name: message.name.into(),
            flags: message.flags,
            mtu: message.mtu,
            mac: message.mac.map_or(MacAddr::ZERO, MacAddr),
            master: message.master,
            vrf_table: message.vrf_table,
        }
    }

    /// Whether the interface is administratively up. If it is not, next hops on it are dead.
    pub(crate) const fn is_up(&self) -> bool {
        self.flags.has(LinkFlags::UP)
    }
}

/// An address by interface and prefix.
type AddressKey = (u32, IpAddr, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AddressEntry {
    is_secondary: bool,
    /// Position in the order in which the kernel first reported the addresses.
    order: u64,
}

/// Interfaces, addresses and the router's ports.
#[derive(Debug)]
pub(crate) struct Links {
    pub links: Mirrored<u32, KernelLink>,
    pub settings: InterfaceSettings,
    addresses: Mirrored<AddressKey, AddressEntry>,
    addresses_seen: u64,
    ports: Vec<PortConfig>,
    /// How the administrator wants sources to be checked, by port. Ports beyond the end of the list
    /// have only the kernel's check.
    source_checks: Vec<ReversePathMode>,
    /// Indices of deleted interfaces of ports. A new interface may get the same index.
    deleted: BTreeSet<u32>,
    /// Whether the ports may have changed since the last [`Self::publish`].
    pub has_changed: bool,
    published: Arc<[FibPort]>,
}

impl Links {
    pub(crate) fn new(ports: Vec<PortConfig>) -> Self {
        Self {
            links: Mirrored::default(),
            settings: InterfaceSettings::default(),
            addresses: Mirrored::default(),
            addresses_seen: 0,
            ports,
            source_checks: Vec::new(),
            deleted: BTreeSet::new(),
            has_changed: true,
            published: Arc::new([]),
        }
    }

    pub(crate) fn set_ports(&mut self, ports: Vec<PortConfig>) {
        self.ports = ports;
        self.deleted.clear();
        self.has_changed = true;
    }

    /// Changes the tables in which packets of a port are looked up.
    pub(crate) fn set_vrf(&mut self, port: FibPortIndex, vrf: VrfIndex) {
        let Some(port) = self.ports.get_mut(usize::from(port.0)) else { return };
        self.has_changed |= port.vrf != vrf;
        port.vrf = vrf;
    }

    /// Sets how the sources of packets are checked, by port. Ports beyond the end have only the
    /// kernel's check.
    pub(crate) fn set_source_checks(&mut self, checks: Vec<ReversePathMode>) {
        self.has_changed |= self.source_checks != checks;
        self.source_checks = checks;
    }

    /// Records that an interface was deleted. Its port is no longer used from then on.
    pub(crate) fn note_deleted(&mut self, ifindex: u32) {
        let is_used = |port: &PortConfig| port.ifindex == ifindex || port.parent == Some(ifindex);
        if self.ports.iter().any(is_used) {
            self.deleted.insert(ifindex);
            self.has_changed = true;
        }
    }

    /// Whether the interface of a port, or its parent, was deleted.
    pub(crate) fn is_deleted(&self, port: &PortConfig) -> bool {
        [Some(port.ifindex), port.parent].into_iter().flatten().any(|of| self.deleted.contains(&of))
    }

    pub(crate) fn ports(&self) -> &[PortConfig] {
        &self.ports
    }

    /// Returns the router's port to which routes refer by this interface index.
    pub(crate) fn port(&self, ifindex: u32) -> Option<(FibPortIndex, &PortConfig)> {
        let at = self.ports.iter().position(|port| port.ifindex == ifindex)?;
        let port = &self.ports[at];
        (!self.is_deleted(port)).then_some((FibPortIndex(at as u16), port))
    }

    /// Returns the index by which routes refer to a port.
    pub(crate) fn ifindex(&self, port: FibPortIndex) -> Option<u32> {
        self.ports.get(usize::from(port.0)).map(|port| port.ifindex)
    }

    pub(crate) fn set_address(&mut self, message: &AddressMessage, origin: Origin) {
        let key = (message.ifindex, message.local, message.prefix_len);
        self.addresses_seen += 1;
        let is_secondary = message.flags & AddressMessage::SECONDARY != 0;
        let order = self.addresses.get(key).map_or(self.addresses_seen, |known| known.order);
        let changed = self.addresses.set(key, AddressEntry { is_secondary, order }, origin);
        self.has_changed |= changed.is_some();
    }

    pub(crate) fn remove_address(&mut self, message: &AddressMessage) {
        let removed = self.addresses.remove((message.ifindex, message.local, message.prefix_len));
        self.has_changed |= removed.is_some();
    }

    pub(crate) fn begin_address_dump(&mut self) {
        self.addresses.begin_dump();
    }

    pub(crate) fn end_address_dump(&mut self, is_complete: bool) {
        self.has_changed |= !self.addresses.end_dump(is_complete).is_empty();
    }

    /// The addresses of an interface, primary ones first.
    pub(crate) fn addresses_of(&self, ifindex: u32) -> Vec<(IpAddr, u8)> {
        let lowest = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        let entries = self.addresses.range((ifindex, lowest, 0)..);
        let mut found: Vec<_> = entries.take_while(|(key, _)| key.0 == ifindex).collect();
        found.sort_by_key(|(_, entry)| (entry.is_secondary, entry.order));
        found.into_iter().map(|((_, address, len), _)| (address, len)).collect()
    }

    /// Returns whether the ports have changed since the last call, and the ports.
    pub(crate) fn publish(&mut self) -> (bool, Arc<[FibPort]>) {
        let mut has_changed = core::mem::take(&mut self.has_changed);
        if has_changed {
            let ports: Vec<_> = self.ports.iter().enumerate().map(|of| self.fib_port(of)).collect();
            has_changed = *self.published != *ports;
            if has_changed {
                self.published = ports.into();
            }
        }
        (has_changed, self.published.clone())
    }

    fn fib_port(&self, (at, port): (usize, &PortConfig)) -> FibPort {
        let wanted = self.source_checks.get(at).copied().unwrap_or_default();
        let link = self.links.get(port.ifindex);
        let parent = port.parent.map(|parent| self.links.get(parent));
        let can_send =
            |link: Option<&KernelLink>| link.is_some_and(|it| it.is_up() && it.flags.has_carrier());
        let addresses = self.addresses_of(port.ifindex);
        FibPort {
            ifindex: port.parent.unwrap_or(port.ifindex),
            name: port.name.clone(),
            mac: link.map_or(MacAddr::ZERO, |link| link.mac),
            mtu: link.map_or(0, |link| link.mtu),
            is_up: !self.is_deleted(port) && can_send(link) && parent.is_none_or(can_send),
            vrf: port.vrf,
            reverse_path: self.reverse_path(port.ifindex, &addresses).max(wanted),
            reverse_path_v6: wanted,
            tags: port.tags,
            addresses,
        }
    }

    /// The kernel's check of sources on an interface. If the interface has no IPv4 address, the
    /// kernel's loose check behaves like the strict one.
    fn reverse_path(&self, ifindex: u32, addresses: &[(IpAddr, u8)]) -> ReversePathMode {
        match self.settings.reverse_path(ifindex) {
            ReversePathMode::Loose if !addresses.iter().any(|(address, _)| address.is_ipv4()) => {
                ReversePathMode::Strict
            }
            mode => mode,
        }
    }
}
