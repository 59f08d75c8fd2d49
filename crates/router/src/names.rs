//! What answers to requests have in common: their version, and the form of interfaces and routes.

use serde_json::{Value, json};
use slipring_cli::codes::SR0102;
use slipring_control::ControlRefusal;
use slipring_fib::{FibPortIndex, RouteEntry, RouteLead};
use slipring_rtnetlink::TABLE_MAIN;
use slipring_wire::mac::MacAddr;

use crate::kernel_words::kind_name;
use crate::routing::{Routing, RoutingHandle};

/// Version of the format of answers.
pub(crate) const ANSWER_VERSION: u32 = 1;

/// Asks the routing thread a question and returns the answer.
///
/// # Errors
/// If the thread has ended.
pub(crate) fn ask<T: Send + 'static>(
    routing: &RoutingHandle,
    question: impl FnOnce(&mut Routing) -> T + Send + 'static,
) -> Result<T, ControlRefusal> {
    routing.ask(question).ok_or_else(ended)
}

/// The answer to requests for which the routing thread is needed, once it has ended.
pub(crate) fn ended() -> ControlRefusal {
    ControlRefusal::malformed("the router is about to end".to_owned())
}

/// Returns the port of an interface, by the name with which the router was started.
pub(crate) fn port_of(routing: &Routing, name: &str) -> Result<usize, ControlRefusal> {
    let names = || routing.port_names();
    names().position(|known| known == name).ok_or_else(|| ControlRefusal {
        code: SR0102.to_string(),
        summary: format!("{name} is not an interface of this router"),
        cause: Some(format!("it forwards between {}", names().collect::<Vec<_>>().join(", "))),
        help: Some("show all of them: slipring route ctl interface".to_owned()),
    })
}

/// The name of a port.
pub(crate) fn port_name(routing: &Routing, port: FibPortIndex) -> Option<String> {
    Some(routing.tables()?.ports.get(usize::from(port.0))?.name.clone())
}

/// Names of interfaces by index.
pub(crate) struct InterfaceNames(Vec<(u32, String)>);

impl InterfaceNames {
    pub(crate) fn of(routing: &Routing) -> Self {
        Self(routing.mirror.interfaces().map(|entry| (entry.ifindex, entry.name)).collect())
    }

    pub(crate) fn get(&self, ifindex: u32) -> String {
        let found = self.0.iter().find(|(index, _)| *index == ifindex);
        found.map_or_else(|| format!("if{ifindex}"), |(_, name)| name.clone())
    }

    pub(crate) fn route(&self, routing: &Routing, entry: &RouteEntry) -> Value {
        let several = entry.leads.len() > 1;
        // A next-hop entry of a blackhole route has no interface, so it is not listed.
        let leads = entry.leads.iter().filter(|lead| lead.ifindex != 0);
        let hops = leads.map(|lead| self.hop(routing, lead, several));
        json!({
            "prefix": format!("{}/{}", entry.prefix.0, entry.prefix.1),
            "table": (entry.table != TABLE_MAIN).then_some(entry.table),
            "kind": kind_name(entry.kind),
            "metric": (entry.metric != 0).then_some(entry.metric),
            "protocol": entry.protocol,
            "mtu": (entry.mtu != 0).then_some(entry.mtu),
            "left_to_kernel": entry.has_unknown,
            "nexthops": hops.collect::<Vec<_>>(),
        })
    }

    fn hop(&self, routing: &Routing, lead: &RouteLead, several: bool) -> Value {
        let known = |gateway| routing.mirror.neighbour_mac(lead.ifindex, gateway);
        let mac = lead.gateway.and_then(known);
        json!({
            "via": lead.gateway,
            "dev": self.get(lead.ifindex),
            "mac": mac.map(|mac: MacAddr| mac.to_string()),
            "weight": several.then_some(lead.weight),
        })
    }
}
