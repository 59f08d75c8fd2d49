//! Where frames come from, by the kind of port.

use slipring_abi::name::{Kind, PortName, Rings};
use slipring_cli::{Failure, Signals};
use slipring_core::Host;
use slipring_dump::source::Source;
use slipring_port::{Interest, OpenOptions};

use crate::ports;

/// Listens to a kernel interface, reads a capture, takes from any other port.
pub(super) fn open(name: &PortName, signals: &Signals) -> Result<Source, Failure> {
    let shown = name.to_string();
    let plain = name.pipe.is_none() && name.rings == Rings::All;
    match name.kind {
        Kind::Netmap | Kind::Packet if plain => Source::listen(&shown, &name.name, false),
        Kind::Pcap => Source::read(&shown, &name.name),
        _ => {
            let options =
                OpenOptions { shared: true, direction: Interest::RX, ..OpenOptions::default() };
            let mut ports = Host::global().open_all(std::slice::from_ref(name), &options)?;
            let port = ports.pop().expect("one port per name");
            Source::take_from(port, name.flags.is_monitor(), signals)
        }
    }
}

/// What the reader of the trace must know to understand it.
pub(super) fn notes(source: &Source) -> Vec<String> {
    if source.takes() {
        let name = source.report().name;
        return vec![format!("# {name} is taken for this trace: its frames go no further")];
    }
    source.listens_on().map(hidden_from).unwrap_or_default()
}

/// Programs that take frames before they can be heard.
fn hidden_from(interface: &str) -> Vec<String> {
    let rows = ports::list().unwrap_or_default();
    let row = rows.into_iter().find(|row| row.interface == interface);
    let owners = row.into_iter().flat_map(|row| row.owners);
    let note = |owner: ports::Owner| {
        let ports::Owner { process, pid, .. } = owner;
        format!("# frames that {process} ({pid}) takes by XDP are not seen here")
    };
    owners.map(note).collect()
}
