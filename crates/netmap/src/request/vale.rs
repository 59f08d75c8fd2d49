//! Requests about switches: attach and detach, list, create and remove ports, poll.

use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::*;

use crate::open::attachment_cleanup::AttachmentCleanup;
use crate::open::handle::{Netmap, OpenHandle};
use crate::open::provider::AdapterRequest;
use crate::open::switch_control::PolledNic;
use crate::open::vale_ports::memory_of;
use crate::port::adapter::Adapter;
use crate::port::monitor::is_monitor_request;
use crate::port::vale::attach::{AttachmentOwner, NicAttachment, PollingPlan};
use crate::port::vale::switches::BridgeTable;
use crate::request::message::NetmapRequest;
use crate::types::lock::lock;
use crate::types::port_name::PortKind;
use crate::types::port_name::{MAX_NAME_LEN, is_vale, split};

/// The maximum number of persistent ports of one user: as many as a switch can have.
const MAX_PERSISTENT_PORTS: usize = 1024;
/// The port index in lists for a port that does not exist. It is netmap's value, which programs
/// compare with, although the 256th port of a switch has the same index.
const NO_PORT_INDEX: u32 = 255;

impl Netmap {
    /// Handles `VALE_ATTACH`: an interface or a persistent port becomes a port of a switch.
    pub(crate) fn vale_attach(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqValeAttach = request.read()?;
        if is_monitor_request(&wish.reg) {
            return Err(Errno::INVAL);
        }
        let (switch, port) = split(&request.name)?;
        let netns = open.opener.netns;
        let key = (netns, request.name.clone());
        let (domain, opener) = (&open.domain, &open.opener);
        for name in [&request.name, port] {
            let wanted = AdapterRequest { domain, opener, name, register: &wish.reg, memory: None };
            self.provider.admit(&wanted, wanted.kind())?;
        }
        let mut names = lock(&open.domain.names);
        if names.port(&key).is_some() || names.switches.attached.contains_key(&key) {
            return Err(Errno::BUSY);
        }
        let persistent = names.switches.persistent.get(&(netns, port.to_owned())).cloned();
        let hub = names.switches.get_or_create(netns, switch);
        if let Some(port) = &persistent {
            names.switches.check_loop(port, &hub)?;
        }
        let index = match persistent {
            Some(port) if port.attachment().is_none() => port.attach(&hub, &request.name)?,
            persistent => {
                let register = checked_register(&wish.reg)?;
                let memory = memory_of(&open.domain, register.nr_mem_id)?;
                let memory = memory.as_ref();
                let wanted =
                    AdapterRequest { domain, opener, name: port, register: &register, memory };
                let nic = match persistent {
                    Some(port) => Ok(port as Arc<dyn Adapter>),
                    None => wanted.interface(&mut names, &*self.provider),
                };
                // An interface that does not exist is an invalid argument here.
                let nic =
                    nic.map_err(|error| if error == Errno::NXIO { Errno::INVAL } else { error })?;
                let handler = AttachmentCleanup::new(&open.domain, &self.provider);
                let owner = AttachmentOwner { key: key.clone(), handler };
                let attachment = NicAttachment::new(&hub, owner, nic, &register, &self.ticker)?;
                let id = attachment.id();
                names.switches.attached.insert(key, Arc::new(attachment));
                id
            }
        };
        request.reply(&NmreqValeAttach { port_index: index.0, ..wish });
        Ok(())
    }

    /// Handles `VALE_DETACH`: removes an interface or a persistent port from its switch.
    pub(crate) fn vale_detach(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqValeDetach = request.read()?;
        let key = (open.opener.netns, request.name.clone());
        let index = open.domain.detach_port(&key, PolledNic::Refuse)?;
        request.reply(&NmreqValeDetach { port_index: index.0, ..wish });
        Ok(())
    }

    /// Handles `VALE_LIST`: finds the index of a name, or the first name at or after an index.
    pub(crate) fn vale_list(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqValeList = request.read()?;
        let names = lock(&open.domain.names);
        let netns = open.opener.netns;
        let found = match request.name.as_str() {
            "" => {
                let (name, found) = next(&names.switches, netns, &wish).ok_or(Errno::NOENT)?;
                request.name = name;
                found
            }
            name => owner(&names.switches, netns, name, &wish)?,
        };
        request.reply(&found);
        Ok(())
    }

    /// Handles `VALE_NEWIF`: creates a persistent port.
    pub(crate) fn vale_new(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqValeNewif = request.read()?;
        let name = request.name.as_str();
        if !can_be_interface(name) {
            return Err(Errno::INVAL);
        }
        let register = NmreqRegister {
            nr_mode: NR_REG_ALL_NIC,
            nr_tx_slots: wish.nr_tx_slots,
            nr_rx_slots: wish.nr_rx_slots,
            nr_tx_rings: wish.nr_tx_rings,
            nr_rx_rings: wish.nr_rx_rings,
            nr_mem_id: wish.nr_mem_id,
            ..NmreqRegister::default()
        };
        let memory = memory_of(&open.domain, wish.nr_mem_id)?;
        let (domain, opener) = (&open.domain, &open.opener);
        let wanted =
            AdapterRequest { domain, opener, name, register: &register, memory: memory.as_ref() };
        self.provider.admit(&wanted, PortKind::Switch)?;
        let mut names = lock(&open.domain.names);
        if names.switches.persistent.len() >= MAX_PERSISTENT_PORTS {
            return Err(Errno::NOMEM);
        }
        match wanted.interface(&mut names, &*self.provider) {
            Err(Errno::NXIO) => {}
            _ => return Err(Errno::EXIST),
        }
        let port = wanted.vale_port(name, None)?;
        let nr_mem_id = port.base().memory().id();
        names.switches.persistent.insert((opener.netns, name.to_owned()), port);
        request.reply(&NmreqValeNewif { nr_mem_id, ..wish });
        Ok(())
    }

    /// Handles `VALE_DELIF`: removes a persistent port.
    pub(crate) fn vale_remove(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
    ) -> Result<(), Errno> {
        let key = (open.opener.netns, request.name.clone());
        let removed = lock(&open.domain.names).switches.remove_persistent(&key);
        match removed {
            // A port with this name that is not persistent is an invalid argument.
            Err(Errno::NOENT) => Err(self.find(open, request).err().unwrap_or(Errno::INVAL)),
            done => done,
        }
    }

    /// Handles `VALE_POLLING_ENABLE`: dedicates processors to an attached interface.
    pub(crate) fn polling_on(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqValePolling = request.read()?;
        let attached = self.attachment(open, request)?;
        if attached.is_polled() {
            return Err(Errno::FAULT);
        }
        let polling = polling(&wish, attached.rx_rings())?;
        attached.poll(&polling, &self.ticker)
    }

    /// Handles `VALE_POLLING_DISABLE`: the interface's worker sleeps again while nothing arrives.
    pub(crate) fn polling_off(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
    ) -> Result<(), Errno> {
        let attached = self.attachment(open, request)?;
        if !attached.is_polled() {
            return Err(Errno::FAULT);
        }
        attached.stop_polling(&self.ticker)
    }

    /// Finds the attached interface that a polling request names.
    fn attachment(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
    ) -> Result<Arc<NicAttachment>, Errno> {
        let (switch, port) = split(&request.name)?;
        let key = (open.opener.netns, request.name.clone());
        let names = lock(&open.domain.names);
        if let Some(attached) = names.switches.attached.get(&key) {
            return Ok(attached.clone());
        }
        let persistent = names.switches.persistent.get(&(key.0, port.to_owned()));
        let seated = persistent.and_then(|port| port.attachment());
        let in_switch = seated.is_some_and(|(hub, _)| hub.name() == switch);
        let exists = in_switch || names.port(&key).is_some();
        Err(if exists { Errno::OPNOTSUPP } else { Errno::NXIO })
    }
}

/// Returns whether Linux accepts this name for an interface and netmap does not give it another
/// meaning. A `%` is refused, because Linux would replace it by a number.
fn can_be_interface(name: &str) -> bool {
    let forbidden = |byte: u8| byte.is_ascii_whitespace() || b"/:%{}\x0b".contains(&byte);
    let dots = name == "." || name == "..";
    let fits = (1..=MAX_NAME_LEN).contains(&name.len());
    fits && !dots && !is_vale(name) && !name.bytes().any(forbidden)
}

/// Returns the bind request with which an interface is attached. `wish` may select only the NIC's
/// rings, or these and the host's; other modes are an error. Flags and extra buffers are ignored.
fn checked_register(wish: &NmreqRegister) -> Result<NmreqRegister, Errno> {
    let nr_mode = match wish.nr_mode {
        NR_REG_DEFAULT => NR_REG_ALL_NIC,
        mode @ (NR_REG_ALL_NIC | NR_REG_NIC_SW) => mode,
        _ => return Err(Errno::INVAL),
    };
    Ok(NmreqRegister { nr_mode, nr_flags: 0, nr_extra_bufs: 0, ..*wish })
}

/// Returns the first port at or after a pair of switch index and port index.
fn next(
    switches: &BridgeTable,
    netns: u64,
    from: &NmreqValeList,
) -> Option<(String, NmreqValeList)> {
    let mut hubs: Vec<_> = switches.in_netns(netns).collect();
    hubs.sort_unstable_by_key(|hub| hub.number());
    for hub in hubs.iter().filter(|hub| hub.number() >= from.nr_bridge_idx) {
        // Later switches are listed from their first port.
        let first = if hub.number() == from.nr_bridge_idx { from.nr_port_idx } else { 0 };
        if let Some((id, name)) = hub.ports().into_iter().find(|(id, _)| id.0 >= first) {
            let nr_bridge_idx = hub.number();
            return Some((name, NmreqValeList { nr_bridge_idx, nr_port_idx: id.0, ..*from }));
        }
    }
    None
}

/// Returns the switch index and the port index of the port with this name.
fn owner(
    switches: &BridgeTable,
    netns: u64,
    name: &str,
    wish: &NmreqValeList,
) -> Result<NmreqValeList, Errno> {
    if !is_vale(name) {
        return Err(Errno::INVAL);
    }
    let switch = name.split_once(':').map_or(name, |(switch, _)| switch);
    let hub = switches.find(netns, switch).filter(|hub| !hub.ports().is_empty());
    let hub = hub.ok_or(Errno::NOENT)?;
    let nr_port_idx = hub.number_of(name).map_or(NO_PORT_INDEX, |id| id.0);
    Ok(NmreqValeList { nr_bridge_idx: hub.number(), nr_port_idx, ..*wish })
}

/// Assigns rings to polling workers.
fn polling(wish: &NmreqValePolling, rings: usize) -> Result<PollingPlan, Errno> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, count) = (wish.nr_first_cpu_id as usize, wish.nr_num_polling_cpus as usize);
    let last = first.checked_add(count).ok_or(Errno::INVAL)?;
    if count == 0 || last > cpus {
        return Err(Errno::INVAL);
    }
    let workers = match wish.nr_mode {
        NETMAP_POLLING_MODE_SINGLE_CPU if count == 1 => vec![(first, 0..rings)],
        // Multi-CPU mode: each worker polls the ring that has the number of its processor.
        NETMAP_POLLING_MODE_MULTI_CPU if last <= rings => {
            (first..last).map(|cpu| (cpu, cpu..cpu + 1)).collect()
        }
        _ => return Err(Errno::INVAL),
    };
    Ok(PollingPlan { workers })
}
