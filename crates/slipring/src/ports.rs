//! `slipring ports`: lists the ports that can be opened in this network namespace, the best mode
//! for each, and the processes that use it.
//!
//! The command only queries the system: nothing is attached, opened or changed.

mod features;
mod native;
mod owners;

use std::io;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use slipring_cli::codes::SR0199;
use slipring_cli::{Diagnostic, Exit, Failure, Job, Session, Verb, flags};
use slipring_core::kinds;
use slipring_port::iface::Iface;
use slipring_port::netlink::{Netlink, NetlinkLink, XdpFeatures, xdp_features};

pub(crate) use features::InterfaceMode;
pub(crate) use native::NativeOption;
pub(crate) use owners::InterfaceOwner;

pub(crate) const VERB: Verb =
    Verb { name: "ports", classic: &[], command, plan, no_metrics: Some("looks once") };

const EXAMPLES: &str = "\
Examples:
  slipring ports
  slipring ports --json
  slipring ports --names";

fn command() -> Command {
    let names = Arg::new("names")
        .long("names")
        .action(ArgAction::SetTrue)
        .help("Print port names only, one a line");
    let command = Command::new("ports")
        .about("List what can be opened here, how well, and who holds it")
        .after_help(kinds::help() + "\n" + EXAMPLES)
        .arg(names);
    flags::reporting(command)
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let names_only = matches.get_flag("names");
    Ok(Box::new(move |session| run(names_only, session)))
}

fn run(names_only: bool, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let mut rows = list().map_err(|error| {
        Diagnostic::new(SR0199, "cannot list the interfaces")
            .with_cause(error.to_string())
            .with_help("see what the kernel answers: ip link")
    })?;
    if slipring_port::in_user_namespace() {
        // All modes other than `packet` need BPF, which is not available in a user namespace even
        // if drivers support XDP. So they are not listed.
        let packet = |mode: &InterfaceMode| *mode == InterfaceMode::Packet;
        rows.iter_mut().for_each(|row| row.modes.retain(packet));
    }
    let text = match names_only {
        true => rows.iter().map(|row| row.port.clone()).collect::<Vec<_>>().join("\n"),
        false => table(&rows),
    };
    // An empty list prints nothing, not even an empty line.
    if !(text.is_empty() && session.reporter.format() == slipring_cli::ReportFormat::Text) {
        session.reporter.document(&serde_json::json!({ "interfaces": rows }), text)?;
    }
    Ok(Exit::Done)
}

/// One interface of this network namespace, as the command lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InterfaceRow {
    /// The name by which the port is opened.
    pub(crate) port: String,
    /// The name of the interface.
    pub(crate) interface: String,
    /// Kind of the link, such as `veth` or `tun`; empty for hardware.
    pub(crate) link_kind: String,
    /// Name of the interface's driver; empty if the kernel does not report it.
    pub(crate) driver: String,
    /// Whether the interface is up.
    pub(crate) up: bool,
    /// MTU in bytes.
    pub(crate) mtu: u32,
    /// Number of receive queues.
    pub(crate) rx_queues: u32,
    /// Number of transmit queues.
    pub(crate) tx_queues: u32,
    /// Modes in which the interface can be opened, best first; empty if it has no Ethernet frames.
    pub(crate) modes: Vec<InterfaceMode>,
    /// Whether the driver can receive multi-buffer frames; `null` if the kernel does not report it.
    pub(crate) multi_buffer: Option<bool>,
    /// The native driver that could drive the card, if the interface has no zero-copy mode.
    pub(crate) native: Option<NativeOption>,
    /// Whether a default route uses the interface.
    pub(crate) default_route: bool,
    /// Processes that use the interface, by an XDP program or by AF_XDP sockets.
    pub(crate) owners: Vec<InterfaceOwner>,
}

/// Returns every interface of this network namespace, in its present state.
pub(crate) fn list() -> io::Result<Vec<InterfaceRow>> {
    let links = Netlink::open()?.links()?;
    let features = xdp_features().unwrap_or_default();
    let owners = owners::all();
    let row = |link: &NetlinkLink| {
        // An interface that has vanished since it was listed is left out.
        let iface = Iface::find(&link.name).ok()?;
        let features = features.get(&link.index).copied();
        let modes = InterfaceMode::possible(&iface, features);
        Some(InterfaceRow {
            port: port_name(&link.name),
            interface: link.name.clone(),
            link_kind: link.kind.clone(),
            up: iface.up,
            mtu: iface.mtu,
            rx_queues: iface.rx_queues,
            tx_queues: iface.tx_queues,
            native: NativeOption::of(&iface, &modes),
            modes,
            multi_buffer: features.map(XdpFeatures::multi_buffer),
            default_route: iface.default_route(),
            owners: owners.get(&link.index).into_iter().flatten().cloned().collect(),
            driver: iface.driver,
        })
    };
    Ok(links.iter().filter_map(row).collect())
}

/// Returns `netmap:IF`, with characters that would start a suffix doubled.
pub(crate) fn port_name(interface: &str) -> String {
    let mut name = String::from("netmap:");
    for c in interface.chars() {
        name.extend(std::iter::repeat_n(c, if "-*^@".contains(c) { 2 } else { 1 }));
    }
    name
}

const TABLE_HEADINGS: [&str; 7] = ["PORT", "DRIVER", "STATE", "MTU", "QUEUES", "BEST MODE", "NOTE"];

/// Formats the table. Each column is as wide as its widest cell, except for the last one, which is
/// not padded.
fn table(rows: &[InterfaceRow]) -> String {
    let mut lines = vec![TABLE_HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..TABLE_HEADINGS.len()).map(width).collect();
    let line = |cells: &[String; 7]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn cells(row: &InterfaceRow) -> [String; 7] {
    let named = [&row.driver, &row.link_kind].into_iter().find(|name| !name.is_empty());
    let queues = match (row.rx_queues, row.tx_queues) {
        (rx, tx) if rx == tx => rx.to_string(),
        (rx, tx) => format!("{rx} rx, {tx} tx"),
    };
    [
        row.port.clone(),
        named.map_or_else(|| "-".to_owned(), Clone::clone),
        if row.up { "up" } else { "down" }.to_owned(),
        row.mtu.to_string(),
        queues,
        row.modes.first().map_or("none", |mode| mode.name()).to_owned(),
        notes(row).join("; "),
    ]
}

fn notes(row: &InterfaceRow) -> Vec<String> {
    let mut notes = Vec::new();
    if row.default_route {
        notes.push("default route: needs --take-over".to_owned());
    }
    notes.extend(row.owners.iter().map(|InterfaceOwner { queue, pid, process }| match queue {
        Some(queue) => format!("queue {queue} held by {process} ({pid})"),
        None => format!("held by {process} ({pid})"),
    }));
    notes.extend(row.native.as_ref().map(NativeOption::note));
    match row.modes[..] {
        [] => notes.push("no Ethernet frames".to_owned()),
        [InterfaceMode::Packet] => {
            notes.push("in a user namespace: as packet: with --shared only".to_owned());
        }
        _ => {}
    }
    notes
}

#[cfg(test)]
mod tests {
    use slipring_abi::name::PortName;

    use super::*;

    fn row() -> InterfaceRow {
        InterfaceRow {
            port: "netmap:eth0".into(),
            interface: "eth0".into(),
            link_kind: String::new(),
            driver: "ice".into(),
            up: true,
            mtu: 1500,
            rx_queues: 8,
            tx_queues: 8,
            modes: vec![InterfaceMode::ZeroCopy, InterfaceMode::Generic],
            native: None,
            multi_buffer: Some(true),
            default_route: true,
            owners: vec![InterfaceOwner { queue: Some(3), pid: 41, process: "suricata".into() }],
        }
    }

    #[test]
    fn names_that_are_listed_can_be_opened() {
        for interface in ["eth0", "br-lan", "a--b", "x@y", "v^1*"] {
            let port = PortName::parse(&port_name(interface)).unwrap();
            assert_eq!(port.name, interface);
        }
    }

    #[test]
    fn the_table_is_aligned_and_says_who_holds_what() {
        let other = InterfaceRow {
            port: "netmap:l3".into(),
            modes: vec![],
            up: false,
            owners: vec![],
            default_route: false,
            tx_queues: 1,
            ..row()
        };
        assert_eq!(
            table(&[row(), other]),
            "PORT         DRIVER  STATE  MTU   QUEUES      BEST MODE  NOTE\n\
             netmap:eth0  ice     up     1500  8           zero-copy  default route: needs --take-over; queue 3 held by suricata (41)\n\
             netmap:l3    ice     down   1500  8 rx, 1 tx  none       no Ethernet frames"
        );
    }
}
