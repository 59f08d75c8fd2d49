//! Answers what happens to packets for a destination, according to the tables that the programs or
//! the workers use.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use slipring_fib::{Adjacency, AdjacencyIndex, FibPortIndex, RouteAnswer, TargetAction, VrfIndex};
use slipring_rtnetlink::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};

use crate::names::{ANSWER_VERSION, InterfaceNames};
use crate::reasons;
use crate::resident::AttachedInterface;
use crate::routing::Routing;

/// What happens to packets for a destination in general, and the exceptions.
struct Outcome {
    action: &'static str,
    /// Why the action differs from the action of the route; `None` if it does not.
    reason: Option<String>,
    /// Descriptions of packets for the destination that the kernel gets in spite of `action`.
    exceptions: Vec<String>,
}

impl Outcome {
    const fn new(action: &'static str) -> Self {
        Self { action, reason: None, exceptions: Vec::new() }
    }

    fn kernel(reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new("to the kernel") }
    }
}

/// The answer to `route.get`.
pub(crate) fn answer(routing: &Routing, destination: IpAddr) -> Value {
    let found = routing.mirror.route_get(VrfIndex(0), destination);
    let outcome = match &found {
        Some(found) => outcome(routing, found),
        None => Outcome::kernel("the tables are not complete".to_owned()),
    };
    let names = InterfaceNames::of(routing);
    let route = found.as_ref().and_then(|found| found.route.as_ref());
    let mtu = found.as_ref().map(|found| found.target.mtu).filter(|mtu| *mtu != 0);
    json!({
        "v": ANSWER_VERSION,
        "destination": destination,
        "action": outcome.action,
        "reason": outcome.reason,
        "exceptions": outcome.exceptions,
        "other_tables": other_tables(routing, destination),
        "prefix": route.map(|entry| format!("{}/{}", entry.prefix.0, entry.prefix.1)),
        "nexthops": route.map(|entry| names.route(routing, entry)["nexthops"].clone()),
        "mtu": mtu,
    })
}

fn outcome(routing: &Routing, found: &RouteAnswer) -> Outcome {
    let hops = match found.target.action {
        TargetAction::NoRoute => return Outcome::new("no route"),
        TargetAction::Blackhole => return Outcome::new("blackhole"),
        TargetAction::Unreachable => return Outcome::new("unreachable"),
        TargetAction::Prohibit => return Outcome::new("prohibit"),
        TargetAction::Kernel => {
            return Outcome::kernel(reasons::of_route(routing, found.route.as_ref()));
        }
        TargetAction::Forward(at) => adjacencies(routing, [at]),
        TargetAction::Balance(at) => {
            let buckets = routing.tables().and_then(|tables| tables.buckets.get(usize::from(at)));
            adjacencies(routing, buckets.into_iter().flatten().copied())
        }
    };
    if let Some(reason) = reasons::of_router(routing) {
        return Outcome::kernel(reason);
    }
    let mut exceptions: Vec<_> =
        hops.iter().filter_map(|hop| reasons::of_next_hop(routing, hop.port)).collect();
    let used: Vec<_> =
        hops.iter().filter(|hop| reasons::of_next_hop(routing, hop.port).is_none()).collect();
    if used.is_empty() {
        return Outcome::kernel(exceptions.into_iter().next().unwrap_or_default());
    }
    match refused_ingresses(routing, &used) {
        Ok(refused) => exceptions.extend(refused),
        Err(reason) => return Outcome::kernel(reason),
    }
    let is_resolved = used.iter().any(|hop| hop.mac.is_some());
    let action = match (is_resolved, hops.len()) {
        (true, 1) => "forwarded",
        (true, _) => "forwarded to one of several",
        (false, _) if routing.workers.is_empty() => "to the kernel, to resolve",
        (false, _) => "held, to resolve",
    };
    Outcome { action, reason: None, exceptions }
}

/// Lists the interfaces whose packets are looked up in other tables than those of the answer.
fn other_tables(routing: &Routing, destination: IpAddr) -> Vec<String> {
    let vrfs = routing.mirror.vrf_configs();
    let of = |port: &AttachedInterface, vrf: VrfIndex| {
        let config = vrfs.get(usize::from(vrf.0)).filter(|_| vrf.0 > 0)?;
        let tables = if destination.is_ipv4() { &config.v4 } else { &config.v6 };
        let names: Vec<_> = tables.iter().map(|table| table_name(*table)).collect();
        Some(format!("packets from {} are looked up in {}", port.iface.name, names.join(", ")))
    };
    let ports = routing.engine.interfaces().iter().zip(&routing.vrf_of);
    ports.filter_map(|(port, vrf)| of(port, (*vrf)?)).collect()
}

/// The name of a table, as ip(8) writes it.
fn table_name(table: u32) -> String {
    match table {
        TABLE_LOCAL => "local".to_owned(),
        TABLE_MAIN => "main".to_owned(),
        TABLE_DEFAULT => "default".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the distinct next hops with these indices.
fn adjacencies(
    routing: &Routing,
    indices: impl IntoIterator<Item = AdjacencyIndex>,
) -> Vec<Adjacency> {
    let indices: BTreeSet<_> = indices.into_iter().map(|index| index.0).collect();
    let Some(tables) = routing.tables() else { return Vec::new() };
    indices
        .iter()
        .filter_map(|index| tables.adjacencies.get(usize::from(*index)).copied())
        .collect()
}

/// Returns the reasons why packets from some interfaces to these next hops are left to the kernel.
///
/// # Errors
/// The reason, if packets from all interfaces are left to the kernel.
fn refused_ingresses(routing: &Routing, hops: &[&Adjacency]) -> Result<Vec<String>, String> {
    let ports = (0..routing.engine.interfaces().len()).map(|at| FibPortIndex(at as u16));
    // An interface on which all next hops are does not count as an ingress interface: this answer
    // is not about packets that would leave by the interface on which they arrive.
    let ports: Vec<_> = ports.filter(|port| hops.iter().any(|hop| hop.port != *port)).collect();
    let refused: Vec<_> =
        ports.iter().filter_map(|port| reasons::of_ingress(routing, *port)).collect();
    match refused.first() {
        Some(reason) if refused.len() == ports.len() => Err(reason.clone()),
        _ => Ok(refused),
    }
}
