//! `slipring dump`: tcpdump on any port. `slipring-dump` does the work; this module lists the
//! ports.

use std::path::Path;

use clap::ArgMatches;
use slipring_cli::{Failure, Job, Verb};
use slipring_dump::listing::DumpInterface;
use slipring_vale::BoundPortRow;

use crate::ports::{self, InterfaceOwner, InterfaceRow};

pub(crate) const VERB: Verb =
    Verb { name: "dump", classic: &[], command: slipring_dump::command, plan, no_metrics: None };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    slipring_dump::plan(matches, interfaces)
}

/// Returns the ports that can be captured here: interfaces, and ports that programs have bound at
/// the daemon of this run directory, each captured through a monitor port.
pub(crate) fn interfaces(run_dir: &Path) -> Vec<DumpInterface> {
    let rows = ports::list().unwrap_or_default();
    let interfaces = rows.iter().filter(|row| !row.modes.is_empty()).map(interface);
    interfaces.chain(slipring_vale::bound_ports(run_dir).iter().map(monitor)).collect()
}

fn monitor(BoundPortRow { port, kind }: &BoundPortRow) -> DumpInterface {
    let name = ports::port_name(port).replacen("netmap:", "kernel:", 1);
    DumpInterface {
        port: format!("{name}/tr"),
        taking: None,
        name: port.clone(),
        about: format!("{kind}, monitored"),
        up: true,
        holders: Vec::new(),
    }
}

fn interface(row: &InterfaceRow) -> DumpInterface {
    let named = [&row.driver, &row.link_kind].into_iter().find(|name| !name.is_empty());
    let best = row.modes.first().map(|mode| mode.name());
    let mut about: Vec<&str> = named.map(String::as_str).into_iter().chain(best).collect();
    if row.default_route {
        about.push("default route");
    }
    DumpInterface {
        port: row.port.replacen("netmap:", "packet:", 1),
        taking: Some(row.port.clone()),
        name: row.interface.clone(),
        about: about.join(", "),
        up: row.up,
        holders: row.owners.iter().map(holder_text).collect(),
    }
}

fn holder_text(InterfaceOwner { process, pid, .. }: &InterfaceOwner) -> String {
    format!("{process} ({pid})")
}
