//! The router's counters, for reports, the control socket and metrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use slipring_cli::metrics::{MetricsText, NO_LABELS};
use slipring_fib::{DumpKind, FibPortIndex};
use slipring_route::{PuntClass, PuntReason, RouteDropCause};
use slipring_route_bpf::ResidentCounters;
use slipring_rtnetlink::RouteFamily;

use crate::resident::AttachedInterface;
use crate::router_figures::{
    DRIVER_DROP, FibFigures, InterfaceFigures, OWN_MODE, OWN_PASSES, QUEUE_FULL, RouterFigures,
    RuleFigures, UNREAD, UNSENT_OF_KERNEL, WorkerSummary,
};
use crate::routing::{Routing, RoutingHandle};
use crate::subinterface::SubinterfaceFigures;
use crate::traffic::ForwardedTraffic;
use crate::worker::{WorkerFigures, WorkerLink};

/// Number of tables that are read at the start.
const FIRST_DUMPS: u64 = DumpKind::ALL.len() as u64;

impl RoutingHandle {
    /// Returns the counters of the workers. For a worker that has ended, these are its last
    /// counters.
    pub(crate) fn worker_figures(&self) -> Vec<WorkerFigures> {
        let workers = self.ask(|routing| routing.workers.clone()).unwrap_or_default();
        workers.iter().filter_map(WorkerLink::figures).collect()
    }
}

impl RouterFigures {
    /// Returns the current figures; `None` if the routing thread has ended. The calling thread
    /// waits for the workers, because the routing thread must not miss a heartbeat.
    pub(crate) fn ask(handle: &RoutingHandle) -> Option<Self> {
        let workers = handle.worker_figures();
        handle.ask(move |routing| Self::of(routing, &workers))
    }

    /// Like [`Self::ask`], with the result of [`RoutingHandle::worker_figures`].
    pub(crate) fn of(routing: &Routing, workers: &[WorkerFigures]) -> Self {
        let counters = routing.engine.counters().unwrap_or_default();
        let attached = routing.engine.interfaces().iter().zip(&counters);
        let mut interfaces: Vec<_> = attached
            .enumerate()
            .map(|(at, (attached, counters))| {
                let mut figures =
                    InterfaceFigures::of(attached, interface_state(routing, at), counters);
                let dropped = routing.engine.driver_drops(FibPortIndex(at as u16));
                add(&mut figures.dropped, std::iter::once((DRIVER_DROP, dropped)));
                figures
            })
            .collect();
        if !workers.is_empty() {
            for ((port, figures), counters) in interfaces.iter_mut().enumerate().zip(&counters) {
                figures.forwarded = ForwardedTraffic {
                    packets: counters.direct_packets,
                    bytes: counters.direct_bytes,
                };
                figures.add_user_space(port, workers);
            }
        }
        interfaces.extend(own_interfaces(routing, workers));
        let mirror = routing.mirror.counters();
        let routes = |family| routing.mirror.route_count(family) as u64;
        let fib = FibFigures {
            v4: routes(RouteFamily::V4),
            v6: routes(RouteFamily::V6),
            neighbours: neighbour_count(routing),
            generation: routing.counters.published,
            resyncs: routing.counters.dumps.saturating_sub(FIRST_DUMPS),
            overruns: mirror.overruns,
            refused: mirror.unplaced(),
            failed: routing.counters.failed,
            dropped_requests: routing.dropped_requests(),
        };
        let workers = workers.iter().map(WorkerSummary::of).collect();
        let mut figures = Self { state: state(routing), fib, interfaces, workers };
        routing.inherited.add_to(&mut figures);
        figures
    }

    /// Returns one line of text for users.
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

    /// Returns the counters by interface and reason, and those of rules, as text for the end of a
    /// run.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for InterfaceFigures { name, forwarded, passed, dropped, .. } in &self.interfaces {
            let _ = writeln!(
                text,
                "{name}: forwarded {} packets, {} bytes",
                forwarded.packets, forwarded.bytes
            );
            for (reason, count) in passed {
                let _ = writeln!(text, "{name}: to the kernel {count} {reason}");
            }
            for (cause, count) in dropped {
                let _ = writeln!(text, "{name}: dropped {count} {cause}");
            }
        }
        for RuleFigures { dropped, delayed, waiting, made, unsent } in self.rules() {
            let _ = writeln!(
                text,
                "rules: {dropped} dropped, {delayed} delayed ({waiting} wait), {made} made ({unsent} not sent)"
            );
        }
        text.trim_end().to_owned()
    }

    /// Returns the rule counters of each thread.
    fn rules(&self) -> impl Iterator<Item = RuleFigures> + '_ {
        self.workers.iter().filter_map(|worker| worker.rules)
    }

    /// Returns the sums of the rule counters; `None` without rules.
    pub(crate) fn rule_sums(&self) -> Option<RuleFigures> {
        self.rules().reduce(|sums, of| RuleFigures {
            dropped: sums.dropped + of.dropped,
            delayed: sums.delayed + of.delayed,
            waiting: sums.waiting + of.waiting,
            made: sums.made + of.made,
            unsent: sums.unsent + of.unsent,
        })
    }

    fn rule_metrics(&self, text: &mut MetricsText) {
        let Some(sums) = self.rule_sums() else { return };
        for (name, help, value) in [
            ("slipring_route_rule_dropped", "Packets dropped by rules or pipes", sums.dropped),
            (
                "slipring_route_rule_delayed",
                "Packets put into pipes, or kept for reass",
                sums.delayed,
            ),
            ("slipring_route_rule_made", "Packets that the rules have made", sums.made),
            ("slipring_route_rule_unsent", "Packets of the rules without a route", sums.unsent),
        ] {
            text.counter(name, help, [(NO_LABELS, value)]);
        }
        let waiting = [(NO_LABELS, sums.waiting)];
        text.gauge("slipring_route_rule_waiting", "Packets in pipes", waiting);
    }

    /// The metrics as OpenMetrics text.
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
        let dropped = self.interfaces.iter().flat_map(|of| {
            let labels = |cause: &str| [("if", of.name.clone()), ("cause", cause.to_owned())];
            of.dropped.iter().map(move |(cause, count)| (labels(cause), *count))
        });
        text.counter(
            "slipring_route_dropped_packets",
            "Packets dropped, by ingress; causes driver, ring-full-from-kernel and tx_*: by egress",
            dropped,
        );
        let punted = self.interfaces.iter().flat_map(|of| {
            let labels = |class: &str| [("if", of.name.clone()), ("class", class.to_owned())];
            of.punted.iter().map(move |(class, count)| (labels(class), *count))
        });
        text.counter("slipring_route_punted_packets", "Packets for the kernel, by class", punted);
        let marked = by_interface(|of| of.marked);
        text.counter("slipring_route_marked_packets", "Packets that a policer has marked", marked);
        let by_worker = |value: fn(&WorkerSummary) -> u64| {
            let rows = self.workers.iter();
            rows.map(move |of| ([("worker", of.id.to_string())], value(of))).collect::<Vec<_>>()
        };
        let frames = by_worker(|of| of.frames);
        text.counter("slipring_route_worker_frames", "Frames received by each thread", frames);
        let busy = by_worker(|of| of.busy_ns);
        text.counter("slipring_route_worker_busy_ns", "Time in which a thread moved frames", busy);
        let routes = [("ipv4", self.fib.v4), ("ipv6", self.fib.v6)];
        let routes = routes.map(|(family, count)| ([("family", family)], count));
        text.gauge("slipring_route_fib_routes", "Routes in the tables", routes);
        let neighbours = [(NO_LABELS, self.fib.neighbours)];
        text.gauge("slipring_route_neighbours", "Neighbours on the interfaces", neighbours);
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
        self.rule_metrics(&mut text);
        text.finish()
    }
}

impl InterfaceFigures {
    fn of(attached: &AttachedInterface, state: &'static str, counters: &ResidentCounters) -> Self {
        let named = |drops: bool| {
            let reasons = counters.reasons().filter(|(reason, _)| reason.is_drop() == drops);
            reasons.map(|(reason, count)| (reason.name(), count)).collect()
        };
        Self {
            name: attached.iface.name.clone(),
            mode: attached.mode,
            state,
            forwarded: ForwardedTraffic { packets: counters.packets, bytes: counters.bytes },
            passed: named(false),
            dropped: named(true),
            punted: BTreeMap::new(),
            marked: 0,
        }
    }

    fn of_own(name: &str, state: &'static str, figures: &SubinterfaceFigures) -> Self {
        let SubinterfaceFigures { counters, routed, lost, .. } = figures;
        let passed = PuntReason::ALL.into_iter().zip(routed.reasons);
        let passed = passed.map(|(reason, count)| (reason.name(), count));
        // `unresolved`: after the lookup, the thread found that it could not send these packets,
        // because their next hop was not resolved or their egress was left to the kernel.
        // `left-to-kernel`: these packets reached no stage of the engine, because there were no
        // current tables or a subinterface of their batch was left to the kernel.
        let by_class: u64 = routed.kernel.iter().sum();
        let by_reason: u64 = routed.reasons.iter().sum();
        let given = counters.to_kernel + counters.resolution_from_wire;
        let rest = OWN_PASSES
            .into_iter()
            .zip([by_class.saturating_sub(by_reason), given.saturating_sub(by_class)]);
        let punted = PuntClass::ALL.iter().zip(routed.kernel);
        let punted = punted.map(|(class, count)| (class.name(), count));
        let dropped = RouteDropCause::ALL.iter().zip(routed.dropped);
        let dropped = dropped.map(|(cause, count)| (cause.name(), count));
        let full = [(QUEUE_FULL, counters.full), (UNSENT_OF_KERNEL, counters.unsent)];
        let lost = lost.iter().map(|(cause, count)| (cause.name(), *count));
        let mut drops = BTreeMap::new();
        add(&mut drops, dropped.chain(full).chain(lost));
        Self {
            name: name.to_owned(),
            mode: OWN_MODE,
            state,
            forwarded: ForwardedTraffic {
                packets: counters.forwarded,
                bytes: counters.forwarded_bytes,
            },
            passed: passed.chain(rest).filter(|(_, count)| *count > 0).collect(),
            dropped: drops,
            punted: punted.filter(|(_, count)| *count > 0).collect(),
            marked: 0,
        }
    }

    /// Returns the figures of subinterface `number`, whose port is `first + number`, as the workers
    /// have counted them.
    fn of_own_in_workers(
        (name, state): (&str, &'static str),
        first: usize,
        number: usize,
        workers: &[WorkerFigures],
    ) -> Self {
        let mut figures = Self {
            name: name.to_owned(),
            mode: OWN_MODE,
            state,
            forwarded: ForwardedTraffic::default(),
            passed: BTreeMap::new(),
            dropped: BTreeMap::new(),
            punted: BTreeMap::new(),
            marked: 0,
        };
        figures.add_user_space(first + number, workers);
        for counters in workers.iter().filter_map(|worker| worker.subinterfaces.get(number)) {
            add(&mut figures.passed, std::iter::once(("left-to-kernel", counters.left)));
            let full = [(QUEUE_FULL, counters.full), (UNSENT_OF_KERNEL, counters.unsent)];
            add(&mut figures.dropped, full.into_iter());
        }
        figures
    }

    /// Adds the counts of what the workers did with packets that arrived on the port.
    fn add_user_space(&mut self, port: usize, workers: &[WorkerFigures]) {
        for worker in workers {
            if let Some(forwarded) = worker.totals.forwarded.get(port) {
                self.forwarded.packets += forwarded.packets;
                self.forwarded.bytes += forwarded.bytes;
            }
            let Some(counters) = worker.route.ports.get(port) else { continue };
            let reasons = PuntReason::ALL.iter().map(|reason| reason.name());
            add(&mut self.passed, reasons.zip(counters.reasons));
            let classes = PuntClass::ALL.iter().map(|class| class.name());
            add(&mut self.punted, classes.zip(counters.kernel));
            let causes = RouteDropCause::ALL.iter().map(|cause| cause.name());
            add(&mut self.dropped, causes.zip(counters.dropped));
            self.marked += counters.marked;
            let lost = worker.lost.iter().filter(|(of, ..)| usize::from(of.0) == port);
            add(&mut self.dropped, lost.map(|(_, cause, count)| (cause.name(), *count)));
        }
        add(&mut self.dropped, std::iter::once((UNREAD, unread(port, workers))));
    }
}

/// Packets of a port that the workers left unread, in sockets and pipes, when they ended. Those in
/// pipes are counted only when all workers have ended, because until then a worker may still take
/// them.
fn unread(port: usize, workers: &[WorkerFigures]) -> u64 {
    let totals = || workers.iter().map(|worker| &worker.totals);
    let in_sockets: u64 = totals().filter_map(|of| of.unread.get(port)).sum();
    let in_pipes: i64 = totals().filter_map(|of| of.in_pipes.get(port)).sum();
    let have_ended = workers.iter().all(|worker| worker.is_final);
    in_sockets + if have_ended { u64::try_from(in_pipes).unwrap_or_default() } else { 0 }
}

impl WorkerSummary {
    fn of(worker: &WorkerFigures) -> Self {
        let classes = PuntClass::ALL.iter().map(|class| class.name());
        let mut limited = BTreeMap::new();
        add(&mut limited, classes.zip(worker.punts.limited));
        Self {
            id: worker.id,
            queues: worker.queues.clone(),
            frames: worker.totals.frames,
            handed: worker.handed,
            busy_ns: worker.totals.busy_ns,
            held: worker.route.held,
            generated: worker.route.generated,
            limited,
            failed: worker.punts.failed,
            rules: worker.rules.map(|rules| RuleFigures {
                dropped: rules.dropped,
                delayed: rules.delayed,
                waiting: worker.route.delayed,
                made: rules.made,
                unsent: rules.unsent,
            }),
        }
    }
}

/// Adds counters to the counters of the same names, except those that are 0.
fn add(sums: &mut BTreeMap<&'static str, u64>, counts: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in counts.filter(|(_, count)| *count > 0) {
        *sums.entry(name).or_default() += count;
    }
}

/// Returns the state of a port, apart from the state of the router: `deleted`, `kernel` if packets
/// that arrive on it are left to the kernel, or `forwarding`.
fn interface_state(routing: &Routing, at: usize) -> &'static str {
    match at {
        _ if routing.deleted[at] => "deleted",
        _ if routing.is_left(at) => "kernel",
        _ => "forwarding",
    }
}

/// The subinterfaces that the kernel does not have; their ports come after all others.
fn own_interfaces(routing: &Routing, workers: &[WorkerFigures]) -> Vec<InterfaceFigures> {
    let first = routing.engine.interfaces().len();
    let Some(own) = &routing.subinterfaces else { return Vec::new() };
    let of_thread = own.figures();
    let figures = own.devices.iter().enumerate().map(|(number, device)| {
        let (name, state) = (&device.name, interface_state(routing, first + number));
        match of_thread.get(number) {
            Some(figures) => InterfaceFigures::of_own(name, state, figures),
            None => InterfaceFigures::of_own_in_workers((name, state), first, number, workers),
        }
    });
    figures.collect()
}

/// Returns the number of neighbours of both families on the router's interfaces.
fn neighbour_count(routing: &Routing) -> u64 {
    let ours: Vec<_> = routing.ifindexes().collect();
    routing.mirror.neighbours().filter(|of| ours.contains(&of.ifindex)).count() as u64
}

/// Returns the state of the router: `loading` until all tables have been read and a snapshot is in
/// use; then `forwarding`, or `kernel` if all interfaces, apart from the router's own
/// subinterfaces, are left to the kernel.
fn state(routing: &Routing) -> &'static str {
    if !routing.mirror.is_complete() || routing.counters.published == 0 {
        "loading"
    } else if routing.engine.interfaces().iter().all(|of| of.is_left) {
        "kernel"
    } else {
        "forwarding"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::WorkerTotals;

    fn figures(rules: Option<RuleFigures>) -> RouterFigures {
        let worker = WorkerSummary {
            id: 0,
            queues: vec![0],
            frames: 9,
            handed: 0,
            busy_ns: 1,
            held: 0,
            generated: 0,
            limited: BTreeMap::new(),
            failed: 0,
            rules,
        };
        let fib = FibFigures::default();
        RouterFigures { state: "forwarding", fib, interfaces: Vec::new(), workers: vec![worker] }
    }

    #[test]
    fn what_the_kernel_could_not_send_to_a_subinterface_is_apart_from_what_arrived_on_it() {
        let mut of_thread = SubinterfaceFigures::default();
        (of_thread.counters.full, of_thread.counters.unsent) = (3, 5);
        let figures = InterfaceFigures::of_own("e1.100", "forwarding", &of_thread);
        let expected = BTreeMap::from([(QUEUE_FULL, 3), (UNSENT_OF_KERNEL, 5)]);
        assert_eq!(figures.dropped, expected);
    }

    #[test]
    fn what_pipes_contain_counts_as_unread_when_all_workers_have_ended() {
        let worker = |in_pipes, is_final| {
            let (in_pipes, unread) = (vec![0, in_pipes], vec![0, 1]);
            let totals = WorkerTotals { in_pipes, unread, ..WorkerTotals::default() };
            WorkerFigures { is_final, totals, ..WorkerFigures::default() }
        };
        assert_eq!(unread(1, &[worker(5, true), worker(-3, false)]), 2, "they may be taken");
        assert_eq!(unread(1, &[worker(5, true), worker(-3, true)]), 4);
        assert_eq!(unread(0, &[worker(5, true), worker(-3, true)]), 0);
    }

    #[test]
    fn what_rules_have_done_is_in_reports_and_metrics_of_a_router_with_rules() {
        let rules = RuleFigures { dropped: 5, delayed: 4, waiting: 3, made: 2, unsent: 1 };
        let (with, without) = (figures(Some(rules)), figures(None));
        assert_eq!(with.summary(), "rules: 5 dropped, 4 delayed (3 wait), 2 made (1 not sent)");
        let metrics = with.metrics();
        for (name, value) in [
            ("dropped_total", 5),
            ("delayed_total", 4),
            ("waiting", 3),
            ("made_total", 2),
            ("unsent_total", 1),
        ] {
            let line = format!("slipring_route_rule_{name} {value}\n");
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
        assert_eq!(serde_json::to_value(&with).unwrap()["workers"][0]["rules"]["waiting"], 3);
        assert_eq!(without.summary(), "");
        assert!(!without.metrics().contains("_rule_"));
        assert!(serde_json::to_value(&without).unwrap()["workers"][0].get("rules").is_none());
    }
}
