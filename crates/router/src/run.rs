//! A run of `slipring route`.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slipring_cli::codes::SR0499;
use slipring_cli::report::ReportSample;
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals, metrics};
use slipring_control::{ControlError, ControlServer, Reservation};
use slipring_datapath::confine::Confinement;
use slipring_fib::{FibLimits, Mirror, MirrorConfig, PortConfig, VlanTags, VrfConfig, VrfIndex};
use slipring_port::iface::{Iface, set_settings_keeper};
use slipring_privileged::{HelperOperation, HelperPolicy, PrivilegedHelper};
use slipring_ring::Doorbell;

use crate::checks::{Obstacle, ObstacleKind};
use crate::feed::KernelFeed;
use crate::figures::{RouterFigures, mode_name};
use crate::flags::RoutePlan;
use crate::neighbours::NeighbourRequests;
use crate::resident::ResidentEngine;
use crate::routing::{Routing, RoutingHandle};
use crate::routing_thread::RoutingThread;
use crate::service::RouterService;
use crate::start;
use crate::supervision::Supervision;
use crate::watch::BypassWatch;

impl RoutePlan {
    /// Forwards until a signal, `quit`, or the end of `--duration`.
    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let ifaces = start::interfaces(&self)?;
        let found = start::check(&self, &ifaces)?;
        let reservation = Reservation::new(&session.run_dir, self.name.as_deref());
        let reservation = reservation.map_err(|error| Diagnostic::of(&error))?;
        let signals = Signals::install()?;
        let mut engine = ResidentEngine::open(&ifaces, self.io)?;
        let mirror = Mirror::new(self.mirror_config(&ifaces), vec![engine.ipv4_table()?]);
        let feed = KernelFeed::open()?;
        let changed = Arc::new(Doorbell::new()?);
        let watch = BypassWatch::start(start::checked(&ifaces), found.clone(), changed.clone())?;
        let watch = Arc::new(watch);
        session.reporter.start(None, "monotonic", &[])?;
        self.announce(session, &engine, &found)?;
        let helper = start_helper(&ifaces, session)?;
        Confinement::drop_all().updating_maps().begin(session)?;
        if let Some(helper) = &helper {
            helper.end_with_it()?;
        }
        let neighbours =
            NeighbourRequests::new(helper, ifaces.iter().map(|it| it.index).collect())?;
        let handle = RoutingHandle::new()?;
        let routing = Routing::new(mirror, engine, feed, neighbours, changed.clone());
        let thread = RoutingThread::start(routing, handle.clone())?;
        let started = Instant::now();
        let _control = self.serve(reservation, &handle, &watch, started)?;
        let asked = handle.clone();
        let _metrics = metrics::serve(session, move || {
            let figures = asked.ask(|routing| RouterFigures::of(routing));
            figures.map(|figures| figures.metrics()).ok_or_else(|| "the router ends".to_owned())
        })?;
        let supervision = Supervision {
            plan: &self,
            handle: &handle,
            thread: &thread,
            watch: &watch,
            changed: &changed,
            interfaces: ifaces.iter().map(|iface| iface.name.clone()).collect(),
        };
        let watched = supervision.run(session, &signals, started);
        let figures = handle.ask(|routing| RouterFigures::of(routing));
        let ended = thread.finish();
        if let Some(figures) = figures {
            session.reporter.end(&sample(&figures, started.elapsed()), figures.summary())?;
        }
        watched?;
        ended.map_err(|error| lost(&error))?;
        Ok(Exit::Done)
    }

    fn mirror_config(&self, ifaces: &[Iface]) -> MirrorConfig {
        let port = |iface: &Iface| PortConfig {
            ifindex: iface.index,
            parent: None,
            name: iface.name.clone(),
            vrf: VrfIndex(0),
            tags: VlanTags::default(),
            ignores_routes_with_linkdown: start::ignores_routes_with_linkdown(&iface.name),
        };
        MirrorConfig {
            ports: ifaces.iter().map(port).collect(),
            vrfs: vec![VrfConfig::default()],
            limits: FibLimits { routes: self.max_routes as usize, ..FibLimits::default() },
            has_external_readers: true,
        }
    }

    /// Says which interfaces are used, how, and what packets will bypass.
    fn announce(
        &self,
        session: &mut Session<'_>,
        engine: &ResidentEngine,
        found: &[Obstacle],
    ) -> Result<(), Failure> {
        for attached in engine.interfaces() {
            let Iface { name, mac, mtu, rx_queues, .. } = &attached.iface;
            let mac = slipring_wire::mac::MacAddr(*mac);
            let mode = mode_name(attached.mode);
            session
                .reporter
                .say(format_args!("{name}: {mode}, mac {mac}, mtu {mtu}, {rx_queues} rx queues"))?;
        }
        for obstacle in found.iter().filter(|of| of.kind == ObstacleKind::Bypass) {
            session.reporter.warn(format_args!("bypassed: {}", obstacle.what))?;
        }
        Ok(())
    }

    fn serve(
        &self,
        reservation: Reservation,
        handle: &RoutingHandle,
        watch: &Arc<BypassWatch>,
        started: Instant,
    ) -> Result<ControlServer, Failure> {
        let service = RouterService {
            name: self.name.clone(),
            routing: handle.clone(),
            started,
            watch: watch.clone(),
        };
        let failed = |error: ControlError| Diagnostic::of(&error).into();
        reservation.serve(Box::new(service)).map_err(failed)
    }
}

/// Starts the process that has the kernel resolve neighbours, and restores the interfaces' settings
/// at the end, so that this process needs no capability.
fn start_helper(
    ifaces: &[Iface],
    session: &mut Session<'_>,
) -> Result<Option<Arc<PrivilegedHelper>>, Failure> {
    let helper = PrivilegedHelper::start(&HelperPolicy {
        program: std::process::id(),
        operations: vec![HelperOperation::SetFeature, HelperOperation::UseNeighbour],
        interfaces: ifaces.iter().map(|iface| iface.index).collect(),
    });
    match helper.map(Arc::new) {
        Ok(helper) => {
            set_settings_keeper(Box::new(helper.clone()));
            Ok(Some(helper))
        }
        Err(error) => {
            let message =
                format!("neighbours are not refreshed, because there is no helper: {error}");
            session.reporter.warn(message)?;
            Ok(None)
        }
    }
}

/// The report of a moment.
pub(crate) fn sample(figures: &RouterFigures, elapsed: Duration) -> ReportSample<&RouterFigures> {
    ReportSample { elapsed, ports: Vec::new(), in_flight: 0, copies: 0, extra: figures }
}

fn lost(error: &io::Error) -> Failure {
    Diagnostic::new(SR0499, "the kernel's routes cannot be followed any more")
        .with_cause(error.to_string())
        .with_help("the kernel forwards; start the router again")
        .into()
}
