//! What the router has counted, for reports, the control socket and metrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use slipring_cli::metrics::{MetricsText, NO_LABELS};
use slipring_route_bpf::{ResidentCounters, ResidentMode};
use slipring_rtnetlink::RouteFamily;

use crate::routing::Routing;

/// Packets and their bytes, with Ethernet headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ForwardedTraffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// The counters of an interface: what arrived on it was forwarded, or left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InterfaceFigures {
    pub(crate) name: String,
    pub(crate) mode: &'static str,
    pub(crate) forwarded: ForwardedTraffic,
    /// Packets left to the kernel, by reason.
    pub(crate) passed: BTreeMap<&'static str, u64>,
}

/// The sizes and events of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FibFigures {
    pub(crate) v4: u64,
    pub(crate) v6: u64,
    /// Snapshots that the programs were given.
    pub(crate) generation: u64,
    /// Tables of the kernel that were read again after the first time.
    pub(crate) resyncs: u64,
    pub(crate) overruns: u64,
    /// Routes and neighbours for which there was no space, so that the kernel forwards.
    pub(crate) refused: u64,
    /// Snapshots that the kernel did not take at the first attempt.
    pub(crate) failed: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RouterFigures {
    pub(crate) state: &'static str,
    pub(crate) fib: FibFigures,
    pub(crate) interfaces: Vec<InterfaceFigures>,
}

/// The number of tables that a start reads.
const FIRST_DUMPS: u64 = 7;

impl RouterFigures {
    pub(crate) fn of(routing: &Routing) -> Self {
        let counters = routing.engine.counters().unwrap_or_default();
        let attached = routing.engine.interfaces().iter().zip(&counters);
        let interfaces = attached.map(|(attached, counters)| {
            InterfaceFigures::of(&attached.iface.name, attached.mode, counters)
        });
        let mirror = routing.mirror.counters();
        let routes = |family| routing.mirror.route_count(family) as u64;
        let fib = FibFigures {
            v4: routes(RouteFamily::V4),
            v6: routes(RouteFamily::V6),
            generation: routing.counters.published,
            resyncs: routing.counters.dumps.saturating_sub(FIRST_DUMPS),
            overruns: mirror.overruns,
            refused: mirror.refused_routes
                + mirror.refused_neighbours
                + mirror.refused_next_hops
                + mirror.exhausted
                + mirror.exhausted_blocks,
            failed: routing.counters.failed,
        };
        Self { state: state(routing), fib, interfaces: interfaces.collect() }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{}: ", self.state);
        for figures in &self.interfaces {
            let passed: u64 = figures.passed.values().sum();
            let forwarded = figures.forwarded.packets;
            let _ =
                write!(line, "{} {forwarded} forwarded, {passed} to the kernel; ", figures.name);
        }
        let _ = write!(line, "{} + {} routes", self.fib.v4, self.fib.v6);
        line
    }

    /// The counters by interface and reason, at the end of a run.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for InterfaceFigures { name, forwarded, passed, .. } in &self.interfaces {
            let _ = writeln!(
                text,
                "{name}: forwarded {} packets, {} bytes",
                forwarded.packets, forwarded.bytes
            );
            for (reason, count) in passed {
                let _ = writeln!(text, "{name}: to the kernel {count} {reason}");
            }
        }
        text.trim_end().to_owned()
    }

    /// All counters as OpenMetrics.
    pub(crate) fn metrics(&self) -> String {
        let mut text = MetricsText::default();
        let by_interface = |value: fn(&InterfaceFigures) -> u64| {
            let rows = self.interfaces.iter();
            rows.map(move |of| ([("if", of.name.clone())], value(of))).collect::<Vec<_>>()
        };
        let packets = by_interface(|of| of.forwarded.packets);
        text.counter("slipring_route_forwarded_packets", "Packets forwarded, by ingress", packets);
        let bytes = by_interface(|of| of.forwarded.bytes);
        text.counter("slipring_route_forwarded_bytes", "Bytes forwarded, by ingress", bytes);
        let passed = self.interfaces.iter().flat_map(|of| {
            let labels = |reason: &str| [("if", of.name.clone()), ("reason", reason.to_owned())];
            of.passed.iter().map(move |(reason, count)| (labels(reason), *count))
        });
        text.counter("slipring_route_passed_packets", "Packets left to the kernel", passed);
        let routes = [("ipv4", self.fib.v4), ("ipv6", self.fib.v6)];
        let routes = routes.map(|(family, count)| ([("family", family)], count));
        text.gauge("slipring_route_fib_routes", "Routes in the tables", routes);
        for (name, help, value) in [
            ("slipring_route_resyncs", "Tables of the kernel read again", self.fib.resyncs),
            (
                "slipring_route_netlink_overruns",
                "Times that the kernel dropped notifications",
                self.fib.overruns,
            ),
            ("slipring_route_fib_refused", "Routes and neighbours without space", self.fib.refused),
        ] {
            text.counter(name, help, [(NO_LABELS, value)]);
        }
        text.finish()
    }
}

impl InterfaceFigures {
    fn of(name: &str, mode: ResidentMode, counters: &ResidentCounters) -> Self {
        Self {
            name: name.to_owned(),
            mode: mode_name(mode),
            forwarded: ForwardedTraffic { packets: counters.packets, bytes: counters.bytes },
            passed: counters.reasons().map(|(reason, count)| (reason.name(), count)).collect(),
        }
    }
}

/// The name of a mode in outputs.
pub(crate) const fn mode_name(mode: ResidentMode) -> &'static str {
    match mode {
        ResidentMode::Native => "xdp native",
        ResidentMode::Generic => "xdp generic",
    }
}

/// What the router does: `loading` until all tables have been read, then `forwarding`, or `kernel`
/// if all interfaces are left to the kernel.
fn state(routing: &Routing) -> &'static str {
    if !routing.mirror.is_complete() || routing.counters.published == 0 {
        "loading"
    } else if routing.engine.interfaces().iter().all(|of| of.is_left) {
        "kernel"
    } else {
        "forwarding"
    }
}
