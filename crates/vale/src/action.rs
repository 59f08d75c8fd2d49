//! Requests to the device, and the output of their answers.

use std::fmt::Write;
use std::path::Path;

use rustix::io::Errno;
use serde_json::{Value, json};
use slipring_abi::*;
use slipring_cli::codes::SR0199;
use slipring_cli::{Diagnostic, Failure};

use crate::device::NetmapDevice;

/// One request to the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValeAction {
    /// Lists all attached ports.
    ListAll,
    /// Shows the switch index and port index of a name.
    List(String),
    /// Shows slots, rings and memory of a port.
    Info(String),
    /// Attaches a port, with the host stack if `host`.
    Attach { name: String, host: bool, memory: ValeMemory },
    /// Detaches a port.
    Detach(String),
    /// Creates a persistent port.
    New { name: String, sizes: NmreqValeNewif, memory: ValeMemory },
    /// Removes a persistent port.
    Remove(String),
    /// Starts polling an interface on processors.
    Poll { name: String, polling: NmreqValePolling },
    /// Stops polling an interface.
    StopPolling(String),
}

/// The memory of a port that is created or attached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ValeMemory {
    /// New memory, for this port only.
    #[default]
    Own,
    /// The memory with this number.
    Number(u16),
    /// The memory of this port.
    Of(String),
}

/// Output as JSON and as text.
pub(crate) type ValeOutput = (Value, String);

pub(crate) fn perform(path: &Path, action: &ValeAction) -> Result<ValeOutput, Failure> {
    let device = NetmapDevice::open(path)?;
    match action {
        ValeAction::ListAll => list_all(&device),
        ValeAction::List(name) => list(&device, name),
        ValeAction::Info(name) => info(&device, name),
        ValeAction::Attach { name, host, memory } => attach(&device, name, *host, memory),
        ValeAction::Detach(name) => {
            let body = NmreqValeDetach::default();
            let got = device.request(NETMAP_REQ_VALE_DETACH, name, &body);
            let index = got.map_err(failed("detach", name))?.body.port_index;
            Ok(index_of(name, index))
        }
        ValeAction::New { name, sizes, memory } => new(&device, name, sizes, memory),
        ValeAction::Remove(name) => {
            let got = device.request(NETMAP_REQ_VALE_DELIF, name, &[0u8; 0]);
            got.map_err(failed("remove", name))?;
            Ok(done(name))
        }
        ValeAction::Poll { name, polling } => {
            let got = device.request(NETMAP_REQ_VALE_POLLING_ENABLE, name, polling);
            got.map_err(failed("start polling", name))?;
            Ok(done(name))
        }
        ValeAction::StopPolling(name) => {
            let body = NmreqValePolling::default();
            let got = device.request(NETMAP_REQ_VALE_POLLING_DISABLE, name, &body);
            got.map_err(failed("stop polling", name))?;
            Ok(done(name))
        }
    }
}

fn done(name: &str) -> ValeOutput {
    (json!({ "port": name }), String::new())
}

fn index_of(name: &str, index: u32) -> ValeOutput {
    (json!({ "port": name, "port_index": index }), format!("port_index: {index}\n"))
}

fn list_all(device: &NetmapDevice) -> Result<ValeOutput, Failure> {
    let (mut list, mut rows, mut text) = (NmreqValeList::default(), Vec::new(), String::new());
    loop {
        let got = match device.request(NETMAP_REQ_VALE_LIST, "", &list) {
            Ok(got) => got,
            Err(Errno::NOENT) => break,
            Err(error) => return Err(failed("list", "all ports")(error)),
        };
        let NmreqValeList { nr_bridge_idx: switch, nr_port_idx: port, .. } = got.body;
        let name = got.name;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} bridge_idx {switch} port_idx {port}");
        rows.push(json!({ "port": name, "bridge_index": switch, "port_index": port }));
        // An answer that did not advance the position would make the loop endless, so it ends the
        // list.
        let next = (switch, port.saturating_add(1));
        if next <= (list.nr_bridge_idx, list.nr_port_idx) {
            break;
        }
        (list.nr_bridge_idx, list.nr_port_idx) = next;
    }
    Ok((json!({ "switch_ports": rows }), text))
}

fn list(device: &NetmapDevice, name: &str) -> Result<ValeOutput, Failure> {
    let got = device.request(NETMAP_REQ_VALE_LIST, name, &NmreqValeList::default());
    let NmreqValeList { nr_bridge_idx: switch, nr_port_idx: port, .. } =
        got.map_err(failed("list", name))?.body;
    let json = json!({ "port": name, "bridge_index": switch, "port_index": port });
    Ok((json, format!("bridge_idx: {switch}\nport_idx: {port}\n")))
}

fn info(device: &NetmapDevice, name: &str) -> Result<ValeOutput, Failure> {
    let got = device.request(NETMAP_REQ_PORT_INFO_GET, name, &NmreqPortInfoGet::default());
    let got = got.map_err(failed("get info on", name))?.body;
    let fields = [
        ("memsize", got.nr_memsize),
        ("tx_slots", got.nr_tx_slots.into()),
        ("rx_slots", got.nr_rx_slots.into()),
        ("tx_rings", got.nr_tx_rings.into()),
        ("rx_rings", got.nr_rx_rings.into()),
        ("host_tx_rings", got.nr_host_tx_rings.into()),
        ("host_rx_rings", got.nr_host_rx_rings.into()),
        ("mem_id", got.nr_mem_id.into()),
    ];
    let mut json = json!({ "port": name });
    let mut text = String::new();
    for (field, value) in fields {
        json[field] = value.into();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{field}: {value}");
    }
    Ok((json, text))
}

fn attach(
    device: &NetmapDevice,
    name: &str,
    host: bool,
    memory: &ValeMemory,
) -> Result<ValeOutput, Failure> {
    let reg = NmreqRegister {
        nr_mode: if host { NR_REG_NIC_SW } else { NR_REG_ALL_NIC },
        nr_mem_id: memory.number(device)?,
        ..NmreqRegister::default()
    };
    let body = NmreqValeAttach { reg, ..NmreqValeAttach::default() };
    let got = device.request(NETMAP_REQ_VALE_ATTACH, name, &body);
    Ok(index_of(name, got.map_err(failed("attach", name))?.body.port_index))
}

fn new(
    device: &NetmapDevice,
    name: &str,
    sizes: &NmreqValeNewif,
    memory: &ValeMemory,
) -> Result<ValeOutput, Failure> {
    let body = NmreqValeNewif { nr_mem_id: memory.number(device)?, ..*sizes };
    device.request(NETMAP_REQ_VALE_NEWIF, name, &body).map_err(failed("create", name))?;
    Ok(done(name))
}

impl ValeMemory {
    fn number(&self, device: &NetmapDevice) -> Result<u16, Failure> {
        match self {
            Self::Own => Ok(0),
            Self::Number(number) => Ok(*number),
            Self::Of(port) => {
                let body = NmreqPortInfoGet::default();
                let got = device.request(NETMAP_REQ_PORT_INFO_GET, port, &body);
                Ok(got.map_err(failed("get the memory of", port))?.body.nr_mem_id)
            }
        }
    }
}

fn failed<'f>(what: &'f str, name: &'f str) -> impl Fn(Errno) -> Failure + 'f {
    move |error| {
        let help = match error {
            Errno::BUSY if what == "attach" => {
                "a program or a switch has it (slipring vale, slipring ports), or the default route \
                 leads out of it: that takes a daemon with --take-over"
            }
            Errno::BUSY => "somebody else has it: slipring vale lists what is plugged in",
            Errno::NXIO | Errno::NOENT if matches!(what, "remove" | "detach") => {
                "look up the name: slipring vale, slipring ports; another user's (slipring daemon ctl \
                 memory) with --owner USER, as root"
            }
            Errno::NXIO | Errno::NOENT => "look up the name: slipring vale, slipring ports",
            Errno::INVAL if what == "attach" => {
                "name a switch and what is there to plug in, as vale0:eth0: slipring ports"
            }
            Errno::INVAL if what == "create" => {
                "a name of 15 bytes at most, which does not begin with vale, and a memory that is \
                 there: slipring vale -g PORT shows a port's"
            }
            Errno::INVAL => "ports of switches are named vale0:eth0, persistent ones without vale",
            Errno::LOOP => "something joins the two switches already: detach that first",
            Errno::EXIST => "give it a name that nothing has",
            Errno::PERM => "interfaces are for root",
            _ => "see docs/netmap.md, Switches",
        };
        let error = std::io::Error::from(error);
        let diagnostic = Diagnostic::new(SR0199, format!("failed to {what} {name}: {error}"));
        diagnostic.with_cause("the device refused the request").with_help(help).into()
    }
}
