//! Answers requests to a running router.
//!
//! Routes come in pages. An answer with `next` is incomplete: the client sends another request
//! whose `after` has the value of `next`, which is the place of the last route. So no table of
//! routes is too long for an answer, and no page takes longer than the first one.

use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use slipring_cli::{Diagnose, Failure};
use slipring_control::{ControlRefusal, ControlReply, ControlRequest, ControlService};
use slipring_fib::{InterfaceEntry, NeighbourInfo, RouteEntry};
use slipring_ipfw::run::IpfwSettings;
use slipring_port::now;
use slipring_rtnetlink::{RouteFamily, TABLE_LOCAL};

use crate::drops;
use crate::events;
use crate::kernel_words::state_name;
use crate::names::{ANSWER_VERSION, InterfaceNames, ask, port_of};
use crate::pages::{self, RoutePlace};
use crate::punt_answer;
use crate::reasons;
use crate::reload::{ReloadReport, RouterReload};
use crate::route_get;
use crate::router_figures::RouterFigures;
use crate::routing::{Routing, RoutingHandle};
use crate::rules::RunningRules;
use crate::takeover::TakeoverService;
use crate::trace::{self, PacketTraces};
use crate::verification;
use crate::watch::BypassWatch;
use crate::why;
use crate::worker::WorkerFigures;

/// Value of `program` in the answer to `hello`, by which clients recognise a router.
pub(crate) const PROGRAM_NAME: &str = "route";
/// Maximum length of a request in bytes. It is large because a request may contain a whole file of
/// rules.
const MAX_REQUEST_BYTES: usize = 1 << 28;

/// The control service of a run.
pub(crate) struct RouterService {
    pub(crate) name: Option<String>,
    pub(crate) routing: RoutingHandle,
    pub(crate) started: Instant,
    pub(crate) watch: Arc<BypassWatch>,
    pub(crate) rules: Option<Arc<RunningRules>>,
    pub(crate) reload: Arc<RouterReload>,
    pub(crate) traces: PacketTraces,
    pub(crate) takeover: Arc<TakeoverService>,
}

impl ControlService for RouterService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        let args = &request.args;
        let bypass = |_: &IpfwSettings, frame: &[u8]| why::bypass(&self.routing, args, frame);
        let rules = self.rules.as_ref().map(|rules| rules.service(&bypass));
        if let Some(answer) = rules.and_then(|rules| rules.answer(request, now())) {
            return answer.map(ControlReply::Once);
        }
        Ok(ControlReply::Once(match request.what.as_str() {
            "hello" => self.hello(),
            "status" => self.status()?,
            "interface" => {
                let name = args.get("name").and_then(Value::as_str).map(str::to_owned);
                let workers = self.routing.worker_figures();
                self.ask(move |routing| interfaces(routing, &workers, name.as_deref()))??
            }
            "route.show" => {
                let page = PageRequest::of(args)?;
                self.ask(move |routing| page.routes(routing))?
            }
            "route.get" => {
                let destination = address_of(args)?;
                self.ask(move |routing| route_get::answer(routing, destination))?
            }
            "why" => why::answer(&self.routing, self.rules.as_deref(), args)?,
            "monitor" => events::answer(&self.routing, args)?,
            "drop" => drops::answer(&self.routing, args.get("reset") == Some(&Value::Bool(true)))?,
            "punt" => punt_answer::answer(&self.routing)?,
            "trace" => trace::answer(&self.routing, &self.traces, args)?,
            "neighbour" => {
                let is_v6 = args.get("family").and_then(Value::as_u64) == Some(6);
                self.ask(move |routing| neighbours(routing, is_v6))?
            }
            "fib.verify" => verification::verify(&self.routing)
                .map_err(|cause| ControlRefusal::malformed(format!("cannot compare: {cause}")))?,
            "metrics" => {
                let workers = self.routing.worker_figures();
                json!(self.ask(move |routing| RouterFigures::of(routing, &workers).metrics())?)
            }
            "reload" => self.reload()?,
            "takeover.query" => self.takeover.query(),
            "takeover" => return Ok(ControlReply::Upgrade(self.takeover.check(args)?)),
            "quit" => return Ok(ControlReply::Then(json!({}), terminate)),
            other => {
                return Err(ControlRefusal::malformed(format!(
                    "unknown request `{other}`: there are hello, status, interface, route.show, \
                     route.get, why, trace, monitor, drop, punt, neighbour, fib.verify, metrics, reload, takeover, quit; with --rules: ipfw, \
                      explain, events, save"
                )));
            }
        }))
    }

    fn serve_stream(&self, stream: &UnixStream) {
        self.takeover.serve(stream);
    }

    fn max_request_bytes(&self) -> usize {
        MAX_REQUEST_BYTES
    }
}

impl RouterService {
    fn hello(&self) -> Value {
        let command: Vec<_> =
            std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        json!({
            "v": ANSWER_VERSION,
            "program": PROGRAM_NAME,
            "name": self.name,
            "command": command.join(" "),
            "rules": self.rules.is_some(),
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Routing) -> T + Send + 'static,
    ) -> Result<T, ControlRefusal> {
        ask(&self.routing, question)
    }

    fn reload(&self) -> Result<Value, ControlRefusal> {
        let ReloadReport { files, warnings } = self.reload.run().map_err(refusal)?;
        Ok(json!({ "v": ANSWER_VERSION, "files": files, "warnings": warnings }))
    }

    fn status(&self) -> Result<Value, ControlRefusal> {
        let started = self.started;
        let workers = self.routing.worker_figures();
        let (figures, elapsed, ruled) = self.ask(move |routing| {
            let figures = RouterFigures::of(routing, &workers);
            let elapsed = started.elapsed();
            let ruled = figures.interfaces.iter().zip(&routing.ruled);
            let ruled = ruled
                .filter(|(_, ruled)| **ruled)
                .map(|(of, _)| format!("routing rules (ip rule) for packets from {}", of.name));
            let ruled: Vec<_> = ruled.chain(reasons::of_silent(routing)).collect();
            (figures, elapsed, ruled)
        })?;
        let left: Vec<_> =
            self.watch.latest().into_iter().map(|found| found.what).chain(ruled).collect();
        let mut io: Vec<_> = figures.interfaces.iter().map(|of| of.mode).collect();
        io.dedup();
        Ok(json!({
            "v": ANSWER_VERSION,
            "state": figures.state,
            "uptime_s": elapsed.as_secs(),
            "elapsed_ns": u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            "io": io.join(", "),
            "fib": figures.fib,
            "interfaces": figures.interfaces,
            "workers": figures.workers,
            "left_to_kernel": left,
        }))
    }
}

/// Ends this process as the signal TERM does.
pub(crate) fn terminate() {
    // This cannot fail, because a process may always signal itself.
    let _ = kill_process(getpid(), Signal::TERM);
}

/// Converts a failure to the answer to a client.
fn refusal(failure: Failure) -> ControlRefusal {
    match failure {
        Failure::Error(error) => ControlRefusal {
            code: error.code().to_string(),
            summary: error.summary(),
            cause: error.cause(),
            help: error.help(),
        },
        Failure::ReaderLeft => ControlRefusal::malformed("the output is closed"),
    }
}

fn address_of(args: &serde_json::Map<String, Value>) -> Result<IpAddr, ControlRefusal> {
    let text = args.get("destination").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| ControlRefusal::malformed(format!("`{text}` is no address")))
}

fn interfaces(
    routing: &Routing,
    workers: &[WorkerFigures],
    only: Option<&str>,
) -> Result<Value, ControlRefusal> {
    if let Some(name) = only {
        port_of(routing, name)?;
    }
    let figures = RouterFigures::of(routing, workers).interfaces;
    let known: Vec<_> = routing.mirror.interfaces().collect();
    let shown = routing
        .ifindexes()
        .zip(figures)
        .enumerate()
        .filter(|(_, (_, figures))| only.is_none_or(|name| figures.name == name));
    let vrf = |port: usize| Some(&routing.named_vrfs.get(port)?.as_ref()?.name);
    let rows = shown.map(|(port, (ifindex, figures))| {
        let is_there =
            |entry: &&InterfaceEntry| entry.ifindex == ifindex && figures.state != "deleted";
        let entry = known.iter().find(is_there);
        json!({
            "name": figures.name,
            "ifindex": ifindex,
            "mac": entry.map(|entry| entry.mac.to_string()),
            "mtu": entry.map(|entry| entry.mtu),
            "up": entry.is_some_and(|entry| entry.flags.has(slipring_rtnetlink::LinkFlags::UP)),
            "mode": figures.mode,
            "addresses": entry.map(|entry| addresses(&entry.addresses)),
            "forwarded": figures.forwarded,
            "passed": figures.passed,
            "dropped": figures.dropped,
            "punted": figures.punted,
            "marked": figures.marked,
            "state": figures.state,
            "vrf": vrf(port),
        })
    });
    Ok(json!({ "v": ANSWER_VERSION, "interfaces": rows.collect::<Vec<_>>() }))
}

fn addresses(addresses: &[(IpAddr, u8)]) -> Vec<String> {
    addresses.iter().map(|(address, len)| format!("{address}/{len}")).collect()
}

/// A page of the routes within a prefix.
struct PageRequest {
    within: Option<(IpAddr, u8)>,
    family: RouteFamily,
    /// The table and the prefix of the last route of the previous page.
    after: Option<RoutePlace>,
}

impl PageRequest {
    fn of(args: &serde_json::Map<String, Value>) -> Result<Self, ControlRefusal> {
        let within = args.get("prefix").and_then(Value::as_str).map(parse_prefix).transpose()?;
        let starts_v6 = within.is_some_and(|(address, _)| address.is_ipv6());
        let first = Self { within, family: family_of(starts_v6), after: None };
        match args.get("after") {
            None | Some(Value::Null) => Ok(first),
            Some(place) => first.after(place).ok_or_else(|| {
                ControlRefusal::malformed(format!("`{place}` is no `next` of an answer"))
            }),
        }
    }

    /// Returns the request for the page at a place that [`Self::next`] has written; `None` if the
    /// place is not valid.
    fn after(self, place: &Value) -> Option<Self> {
        let family = family_of(place.get("family")?.as_u64()? == 6);
        let after = match place.get("prefix").and_then(Value::as_str) {
            Some(prefix) => {
                let table = u32::try_from(place.get("table")?.as_u64()?).ok()?;
                Some((table, parse_prefix(prefix).ok()?))
            }
            None => None,
        };
        Some(Self { family, after, ..self })
    }

    fn routes(&self, routing: &Routing) -> Value {
        let names = InterfaceNames::of(routing);
        let (page, next) = pages::routes(&routing.mirror, self.family, self.after);
        let rows: Vec<_> = page
            .iter()
            .filter(|entry| entry.table != TABLE_LOCAL && self.covers(entry))
            .map(|entry| names.route(routing, entry))
            .collect();
        json!({ "v": ANSWER_VERSION, "routes": rows, "next": self.next(next) })
    }

    /// Returns the place of the next page; null after the last page.
    fn next(&self, place: Option<RoutePlace>) -> Value {
        match place {
            Some((table, (address, len))) => json!({
                "family": if self.family == RouteFamily::V6 { 6 } else { 4 },
                "table": table,
                "prefix": format!("{address}/{len}"),
            }),
            None if self.family == RouteFamily::V6 || self.within.is_some() => Value::Null,
            None => json!({ "family": 6 }),
        }
    }

    fn covers(&self, entry: &RouteEntry) -> bool {
        self.within.is_none_or(|(address, len)| {
            entry.prefix.1 >= len && masked(entry.prefix.0, len) == address
        })
    }
}

const fn family_of(is_v6: bool) -> RouteFamily {
    if is_v6 { RouteFamily::V6 } else { RouteFamily::V4 }
}

fn parse_prefix(text: &str) -> Result<(IpAddr, u8), ControlRefusal> {
    let parsed = text.split_once('/').and_then(|(address, len)| {
        let (address, len): (IpAddr, u8) = (address.parse().ok()?, len.parse().ok()?);
        (len <= if address.is_ipv4() { 32 } else { 128 }).then(|| (masked(address, len), len))
    });
    parsed.ok_or_else(|| ControlRefusal::malformed(format!("`{text}` is no prefix")))
}

/// Returns the first `len` bits of an address.
pub(crate) fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or_default();
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or_default();
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn neighbours(routing: &Routing, is_v6: bool) -> Value {
    let names = InterfaceNames::of(routing);
    let ours: Vec<_> = routing.ifindexes().collect();
    let shown = routing
        .mirror
        .neighbours()
        .filter(|of| of.address.is_ipv6() == is_v6 && ours.contains(&of.ifindex));
    let row = |of: NeighbourInfo| {
        json!({
            "address": of.address,
            "dev": names.get(of.ifindex),
            "mac": of.mac.map(|mac| mac.to_string()),
            "state": state_name(of.state),
        })
    };
    json!({ "v": ANSWER_VERSION, "neighbours": shown.map(row).collect::<Vec<_>>() })
}
