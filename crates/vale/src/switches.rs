//! The daemon's side of `slipring vale`: answers requests about switches on the control socket.

use std::sync::Arc;

use serde_json::{Value, json};
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_netmap::switch::{MacEntry, Switch, SwitchPortId};
use slipring_netmap::{
    AdapterCounters, BoundPort, Domain, MonitorInfo, PortKind, SwitchInfo, SwitchPortInfo,
};

use crate::settings::{self, SettingChange};

/// Answers requests about switches and bound ports: those of all users in all network namespaces,
/// unless a request selects a user by `uid` or a namespace by `netns`.
pub struct SwitchService<F>(F);

impl<F: Fn() -> Vec<Arc<Domain>> + Send + Sync> SwitchService<F> {
    /// Creates a service for the domains that `domains` returns. `domains` is called again for each
    /// request.
    #[must_use]
    pub fn new(domains: F) -> Self {
        Self(domains)
    }

    /// The domains of the users that a request selects.
    fn domains(&self, request: &ControlRequest) -> impl Iterator<Item = Arc<Domain>> {
        let uid = number(request, "uid");
        let domains = (self.0)().into_iter();
        domains.filter(move |one| uid.is_none_or(|uid| uid == u64::from(one.uid())))
    }

    /// The bound ports that a request selects.
    fn bound(&self, request: &ControlRequest) -> Vec<Value> {
        let netns = number(request, "netns");
        let ports = self.domains(request).flat_map(|one| {
            let uid = one.uid();
            one.bound_ports().into_iter().map(move |port| (uid, port))
        });
        let meant = ports.filter(|(_, port)| netns.is_none_or(|netns| netns == port.netns));
        meant.map(|(uid, port)| bound_json(uid, &port)).collect()
    }

    /// The switches that a request selects, with their users' domains.
    fn selected(&self, request: &ControlRequest) -> Vec<(Arc<Domain>, SwitchInfo)> {
        let text = |key: &str| request.args.get(key).and_then(Value::as_str);
        let (netns, name) = (number(request, "netns"), text("switch"));
        let all = self.domains(request).flat_map(|one| {
            one.switches().into_iter().map(move |info| (one.clone(), info)).collect::<Vec<_>>()
        });
        all.filter(|(_, info)| {
            netns.is_none_or(|netns| netns == info.netns) && name.is_none_or(|n| n == info.name)
        })
        .collect()
    }

    /// Calls `visit` with the one switch that a request selects, and with its port if the request
    /// names one. Returns the result of `visit`; an error if the request does not select exactly
    /// one switch.
    fn one<T>(
        &self,
        request: &ControlRequest,
        visit: impl FnOnce(&mut Switch, u64, Option<SwitchPortId>) -> Result<T, ControlRefusal>,
    ) -> Result<T, ControlRefusal> {
        let meant = self.selected(request);
        let [(domain, info)] = &meant[..] else {
            return Err(refused(match meant.len() {
                0 => "there is no such switch".to_owned(),
                many => format!("{many} switches are meant, not one"),
            }));
        };
        let port = request.args.get("port").and_then(Value::as_str);
        let gone = |_| refused(format!("the switch {} is no more", info.name));
        let visited = domain.with_switch(info.netns, &info.name, |switch, now_ns, ports| {
            let find = |name: &str| {
                let full = format!("{}:{name}", info.name);
                let found = ports.iter().find(|(_, port)| *port == full);
                found.map(|(id, _)| *id).ok_or_else(|| refused(format!("there is no port {full}")))
            };
            visit(switch, now_ns, port.map(find).transpose()?)
        });
        visited.map_err(gone)?
    }

    fn flush(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let flushed = self.one(request, |switch, now_ns, port| {
            Ok(switch.flush(now_ns, |entry| port.is_none_or(|port| port == entry.port)))
        })?;
        Ok(json!({ "flushed": flushed }))
    }

    fn set(&self, request: &ControlRequest) -> Result<Value, ControlRefusal> {
        let words = request.args.get("changes").and_then(Value::as_array);
        let words = words.ok_or_else(|| ControlRefusal::malformed("`changes` is no list"))?;
        let changes =
            words.iter().map(|word| SettingChange::parse(word.as_str().unwrap_or_default()));
        let changes = changes.collect::<Result<Vec<_>, _>>().map_err(refused)?;
        self.one(request, |switch, _, port| change(switch, port, &changes).map_err(refused))?;
        Ok(json!({ "changed": changes.len() }))
    }
}

/// Applies changes. If one change to a port is invalid, none is applied. For a switch, the changes
/// before the first invalid one are applied.
fn change(
    switch: &mut Switch,
    port: Option<SwitchPortId>,
    changes: &[SettingChange],
) -> Result<(), String> {
    let Some(port) = port else {
        return changes.iter().try_for_each(|one| one.apply_to_switch(switch));
    };
    let config = switch.port(port).cloned();
    let mut config = config.ok_or("the port is no more")?;
    changes.iter().try_for_each(|one| one.apply_to_port(&mut config))?;
    switch.reconfigure(port, config).map_err(|error| error.to_string())
}

impl<F: Fn() -> Vec<Arc<Domain>> + Send + Sync> ControlService for SwitchService<F> {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        match request.what.as_str() {
            "hello" => Ok(ControlReply::Once(json!({
                "name": crate::DAEMON_NAME,
                "pid": std::process::id(),
                "version": env!("CARGO_PKG_VERSION"),
            }))),
            "switches" => {
                let meant = self.selected(request);
                let shown: Vec<_> =
                    meant.iter().map(|(domain, info)| switch_json(domain.uid(), info)).collect();
                Ok(ControlReply::Once(json!({ "switches": shown })))
            }
            "ports" => Ok(ControlReply::Once(json!({ "ports": self.bound(request) }))),
            "flush" => self.flush(request).map(ControlReply::Once),
            "set" => self.set(request).map(ControlReply::Once),
            other => Err(ControlRefusal::malformed(format!(
                "`{other}` is none of hello, switches, ports, flush and set"
            ))),
        }
    }
}

fn refused(cause: impl Into<String>) -> ControlRefusal {
    ControlRefusal {
        help: Some("name one that slipring vale --show lists".to_owned()),
        ..ControlRefusal::malformed(cause)
    }
}

fn number(request: &ControlRequest, key: &str) -> Option<u64> {
    request.args.get(key).and_then(Value::as_u64)
}

fn bound_json(uid: u32, port: &BoundPort) -> Value {
    let kind = match port.kind {
        PortKind::Interface => "interface",
        PortKind::Pipe => "pipe",
        PortKind::Switch => "switch port",
        PortKind::Null => "null",
    };
    let mut row = json!({ "port": port.name, "kind": kind, "uid": uid, "netns": port.netns });
    if let Some(AdapterCounters { received, sent, drops }) = &port.counters {
        let drops = drops.iter().map(|(cause, count)| ((*cause).to_owned(), json!(count)));
        row["rx"] = json!({ "packets": received });
        row["tx"] = json!({ "packets": sent });
        row["drops"] = drops.collect::<serde_json::Map<_, _>>().into();
    }
    row
}

fn switch_json(uid: u32, info: &SwitchInfo) -> Value {
    let name_of = |id: SwitchPortId| {
        let port = info.ports.iter().find(|port| port.id == id);
        port.map(|port| port.name.clone())
    };
    json!({
        "switch": info.name,
        "bridge_index": info.number,
        "uid": uid,
        "netns": info.netns,
        "vlans": info.config.is_vlan_aware,
        "ageing_s": info.config.ageing_ns.map(|ns| ns as f64 / 1e9),
        "ports": info.ports.iter().map(port_json).collect::<Vec<_>>(),
        "addresses": info.addresses.iter().map(|one| address_json(one, name_of(one.port))).collect::<Vec<_>>(),
    })
}

fn port_json(port: &SwitchPortInfo) -> Value {
    let counters = &port.counters;
    let drops: serde_json::Map<_, _> =
        counters.drops().map(|(reason, count)| (reason.name().to_owned(), count.into())).collect();
    json!({
        "port": port.name,
        "port_index": port.id.0,
        // Directions are seen from the program that has bound the port: its tx frames are the
        // frames that the switch received.
        "tx": { "packets": counters.rx.packets, "bytes": counters.rx.bytes },
        "rx": { "packets": counters.tx.packets, "bytes": counters.tx.bytes },
        "flooded": counters.flooded,
        "copies": counters.copies,
        "drops": drops,
        "learned": counters.learned,
        "moved": counters.moved,
        "monitors": port.monitors.iter().map(monitor_json).collect::<Vec<_>>(),
        "settings": settings::port_json(&port.config),
    })
}

fn monitor_json(monitor: &MonitorInfo) -> Value {
    let [sent, received] = monitor.wants;
    json!({
        "of_sent": sent, "of_received": received, "frames": monitor.frames, "lost": monitor.lost,
    })
}

fn address_json(entry: &MacEntry, port: Option<String>) -> Value {
    json!({
        "mac": entry.mac.to_string(),
        "vlan": entry.vlan,
        "port": port,
        "age_s": entry.age_ns as f64 / 1e9,
        "pinned": entry.is_pinned,
    })
}
