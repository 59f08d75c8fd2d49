//! A run of `slipring route`.

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slipring_cli::codes::SR0499;
use slipring_cli::report::ReportSample;
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals, metrics};
use slipring_control::metrics::MetricsEndpoint;
use slipring_control::{ControlError, ControlServer, Reservation, take_name};
use slipring_datapath::confine::Confinement;
use slipring_datapath::publish::OpenPublication;
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_fib::{FibLimits, Mirror, MirrorConfig, PortConfig, VlanTags, VrfConfig, VrfIndex};
use slipring_port::iface::Iface;
use slipring_privileged::{HelperRequest, PrivilegedHelper};
use slipring_ring::Doorbell;

use crate::announcement::announce_own;
use crate::compat::{CompatAnswers, CompatFiles, CompatServer, CompatSocket};
use crate::feed::KernelFeed;
use crate::helper::RunFilesGuard;
use crate::neighbours::NeighbourRequests;
use crate::plan::RoutePlan;
use crate::publication;
use crate::reload::RouterReload;
use crate::resident::{ResidentEngine, UserSpaceIo};
use crate::router_figures::RouterFigures;
use crate::router_shape::RouterShape;
use crate::routing::{Routing, RoutingHandle};
use crate::routing_thread::RoutingThread;
use crate::rules::{InitialRules, RunningRules};
use crate::sandbox::SandboxUser;
use crate::service::RouterService;
use crate::start::{self, PlannedInterfaces};
use crate::subinterface::{
    OpenSubinterfaces, OwnSubinterface, ServedSubinterfaces, SubinterfaceHandle, SubinterfaceOffer,
    SubinterfacePorts, SubinterfaceThread,
};
use crate::supervision::Supervision;
use crate::takeover::{Successor, TakeoverService, TakeoverStart};
use crate::trace::PacketTraces;
use crate::watch::BypassWatch;
use crate::worker::{UserSpacePorts, WorkerLink, raise_fd_limit};

impl RoutePlan {
    /// Reads and checks the rules, if there are any.
    pub(crate) fn initial_rules(&self) -> Result<Option<InitialRules>, Failure> {
        let rules = self.rules.as_deref().map(|path| InitialRules::read(path, &self.interfaces));
        rules.transpose()
    }

    /// Forwards until a signal, `quit`, or the end of `--duration`.
    pub(crate) fn run(
        mut self,
        rules: Option<InitialRules>,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        self.user.as_ref().map_or(Ok(()), SandboxUser::check_permitted)?;
        let running = self.find_running(session)?;
        let keeps_engine = self.keep_engine(running.as_ref())?;
        let of_running = running.as_ref().map_or(&[][..], |running| &running.subinterfaces);
        let PlannedInterfaces { kernel: ifaces, own } = start::interfaces(&self, of_running)?;
        let TakeoverStart { found, handed, offered, subinterfaces: mut offer_of_own } =
            self.begin_takeover(running, (&ifaces, &own), session)?;
        let had_queues = self.takes_over && offered.is_none();
        let (successor, offer) = offered.unzip();
        let name = self.name.as_deref().filter(|_| successor.is_none());
        let reservation = Reservation::new(&session.run_dir, name);
        let reservation = reservation.map_err(|error| Diagnostic::of(&error))?;
        let make_files = |of| CompatFiles::make(of, successor.is_some());
        let (compat_files, compat) = self.compat.as_ref().map(make_files).transpose()?.unzip();
        let signals = Signals::install()?;
        raise_fd_limit();
        let mut engine = ResidentEngine::open(&ifaces, self.io, rules.is_some(), offer)?;
        let ControlFlow::Continue(user_space) = self.open_user_space(
            (&mut engine, had_queues),
            (&own, offer_of_own.queues()),
            &signals,
            session,
        )?
        else {
            return Ok(Exit::Done);
        };
        let workers = user_space.as_ref().map(|(ports, _)| ports.workers());
        let waits = successor.is_some();
        let subinterfaces =
            self.open_subinterfaces((&own, &ifaces), workers, (&mut offer_of_own, waits))?;
        let handle_of_own = subinterfaces.as_ref().map(ServedSubinterfaces::handle);
        let (of_thread, of_workers) = ServedSubinterfaces::split(subinterfaces);
        let mirror = self.mirror(&mut engine, &ifaces, handle_of_own.as_ref())?;
        let feed = KernelFeed::open()?;
        let changed = Arc::new(Doorbell::new()?);
        session.reporter.start(None, "monotonic", &[])?;
        if let Some(successor) = &successor {
            session.reporter.say(format_args!("takes over from process {}", successor.pid()))?;
        }
        if keeps_engine {
            let io = engine.io(self.io).name();
            session
                .reporter
                .say(format_args!("--io auto keeps the running router's engine: {io}"))?;
        }
        self.announce(session, &engine, user_space.as_ref().map(|(ports, _)| ports), &found)?;
        announce_own(session, &own)?;
        let helper = self.start_helper(&ifaces, session)?;
        let _files = self.user.as_ref().and(helper.clone()).map(RunFilesGuard);
        let user = self.user.as_ref().map(|user| user.ids).zip(helper.clone());
        let watch = BypassWatch::start(engine.checked(), found, changed.clone(), user)?;
        let watch = Arc::new(watch);
        let handle = RoutingHandle::new()?;
        let publication = {
            let own = own.iter().map(|it| it.name.clone()).collect();
            let shape = RouterShape { own, workers, has_rules: rules.is_some() };
            publication::open(self.name.clone(), &handle, shape.figures(&engine), session)?
        };
        let answers = compat.is_some().then(|| CompatAnswers::new(handle.clone(), helper.clone()));
        self.confinement().begin(session)?;
        self.tell_of_unreadable_files(session)?;
        if let Some(helper) = &helper {
            helper.end_with_it()?;
        }
        let namer = helper.clone();
        let neighbours =
            NeighbourRequests::new(helper, ifaces.iter().map(|it| it.index).collect())?;
        let (tasks, links) = self.workers(user_space, &handle, rules.as_ref(), of_workers)?;
        let start = |open| SubinterfaceThread::start(open, changed.clone());
        let subinterface_thread = of_thread.map(start).transpose()?;
        let names = port_names(&ifaces, &own);
        let (ready, own) = (changed.clone(), handle_of_own.clone());
        let mut routing = Routing::new(mirror, engine, feed, neighbours, links.clone(), ready, own);
        routing.inherited = handed.counters.clone();
        routing.configure(self.live);
        routing.set_ports(self.port_settings(routing.port_names()));
        let thread = RoutingThread::start(routing, handle.clone())?;
        let workers = if tasks.is_empty() { None } else { Some(Workers::start(tasks)?) };
        let rules =
            rules.map(|rules| rules.with_ports(&names).load(&links, session)).transpose()?;
        let unrestored = handed.restore_states(rules.as_deref())?;
        unrestored.iter().try_for_each(|warning| session.reporter.warn(warning))?;
        if had_queues && let Some(warning) = handed.begin_subinterfaces(&handle) {
            session.reporter.warn(warning)?;
        }
        let started = Instant::now();
        let reload = Arc::new(RouterReload::new(self.clone(), rules.clone(), handle.clone()));
        let takeover = Arc::new(TakeoverService::new(
            self.clone(),
            handle.clone(),
            rules.clone(),
            handle_of_own,
        ));
        let running = (rules.clone(), reload.clone(), takeover.clone());
        let _control = self.serve(reservation, &handle, &watch, running, started)?;
        let _compat = self.serve_compat(compat.zip(answers))?;
        let metrics = RefCell::new(None);
        let successor = RefCell::new(successor);
        let compat_files = RefCell::new(compat_files);
        if successor.borrow().is_none() {
            metrics.replace(serve_metrics(session, handle.clone())?);
        }
        let take_over = |session: &mut Session<'_>| -> Result<(), Failure> {
            let Some(it) = successor.take() else { return Ok(()) };
            self.take_over(it, (&handle, rules.as_deref()), namer.as_deref(), session)?;
            let mut files = compat_files.borrow_mut();
            if let Some(Err(error)) = files.as_mut().map(CompatFiles::take_names) {
                session.reporter.warn(format_args!(
                    "netmap-fwd's socket and process ID keep names with a number: {error}"
                ))?;
            }
            match serve_metrics(session, handle.clone()) {
                Ok(endpoint) => metrics.replace(endpoint),
                Err(_) => {
                    return session.reporter.warn("metrics are not served: the address is in use");
                }
            };
            Ok(())
        };
        let _publishing = publication.map(OpenPublication::start).transpose()?;
        let supervision = Supervision {
            plan: &self,
            handle: &handle,
            thread: &thread,
            workers: workers.as_ref(),
            subinterfaces: subinterface_thread.as_ref(),
            watch: &watch,
            rules: rules.as_deref(),
            reload: &reload,
            changed: &changed,
            interfaces: names,
            take_over: &take_over,
        };
        let watched = supervision.run(session, &signals, started);
        // The takeover ends first, because giving it up makes the engine forward again.
        let is_taken = takeover.end();
        end_forwarding(&handle, &links);
        if is_taken {
            session.reporter.say("another router has taken over")?;
        }
        // The workers send what is in their tx rings, and count what could not be sent.
        let workers = workers.map_or(Ok(()), Workers::finish);
        let figures = RouterFigures::ask(&handle);
        let ended = thread.finish();
        report_end(session, figures.as_ref(), started.elapsed())?;
        let own_ended = subinterface_thread.map_or(Ok(()), SubinterfaceThread::finish);
        watched?;
        own_ended.map_err(|error| Diagnostic::of(&error))?;
        ended.map_err(|error| lost(&error))?;
        workers?;
        Ok(Exit::Done)
    }

    /// Returns the privileges that the threads keep. If the router reads files again, they include
    /// opening other users' files, unless the router itself becomes another user.
    fn confinement(&self) -> Confinement {
        let user = self.user.as_ref().map(|user| user.ids);
        let confinement = Confinement::drop_all().updating_maps().as_user(user);
        match self.files().is_empty() {
            true => confinement,
            false => confinement.opening_files(),
        }
    }

    /// Makes the workers, if packets are forwarded in user space.
    fn workers(
        &self,
        user_space: Option<(UserSpacePorts, UserSpaceIo)>,
        handle: &RoutingHandle,
        rules: Option<&InitialRules>,
        own: Option<SubinterfacePorts>,
    ) -> Result<(Vec<WorkerTask>, Vec<WorkerLink>), Failure> {
        match user_space {
            Some((ports, io)) => ports.into_workers(&io, handle, rules, &self.engine, own),
            None => Ok(Default::default()),
        }
    }

    /// Creates the devices of the subinterfaces that the kernel does not have, if there are any and
    /// the offer does not contain them.
    /// The workers serve them, or a thread of the subinterfaces if there are no workers.
    fn open_subinterfaces(
        &self,
        (own, ifaces): (&[OwnSubinterface], &[Iface]),
        workers: Option<usize>,
        (offer, waits): (&mut SubinterfaceOffer, bool),
    ) -> Result<Option<ServedSubinterfaces>, Failure> {
        if own.is_empty() {
            return Ok(None);
        }
        let (priorities, settings) = (self.priorities, &self.engine);
        Ok(Some(match workers {
            None => {
                let open =
                    OpenSubinterfaces::open(own, ifaces, priorities, settings, (offer, waits))?;
                ServedSubinterfaces::ByThread(Box::new(open))
            }
            Some(workers) => {
                let settings = (settings, offer);
                let ports = SubinterfacePorts::open(own, ifaces, workers, priorities, settings)?;
                ServedSubinterfaces::ByWorkers(ports)
            }
        }))
    }

    /// Makes the mirror, with an IPv4 table for each VRF of [`start::vrfs`].
    fn mirror(
        &self,
        engine: &mut ResidentEngine,
        ifaces: &[Iface],
        own: Option<&SubinterfaceHandle>,
    ) -> Result<Mirror, Failure> {
        let vrfs = start::vrfs(self)?;
        let tables = engine.ipv4_tables(vrfs.len())?;
        let config = self.mirror_config(ifaces, own, vrfs, engine.ipv6_nodes());
        Ok(Mirror::new(config, tables))
    }

    fn mirror_config(
        &self,
        ifaces: &[Iface],
        own: Option<&SubinterfaceHandle>,
        vrfs: Vec<VrfConfig>,
        ipv6_nodes: usize,
    ) -> MirrorConfig {
        let port = |iface: &Iface| PortConfig {
            ifindex: iface.index,
            parent: None,
            name: iface.name.clone(),
            vrf: VrfIndex(0),
            tags: VlanTags::default(),
        };
        MirrorConfig {
            ports: ifaces
                .iter()
                .map(port)
                .chain(own.into_iter().flat_map(|own| own.ports()))
                .collect(),
            vrfs,
            limits: FibLimits {
                routes: self.max_routes as usize,
                ipv6_nodes,
                ..FibLimits::default()
            },
            has_external_readers: true,
        }
    }

    /// Starts netmap-fwd's command socket, if it is requested.
    fn serve_compat(
        &self,
        parts: Option<(CompatSocket, CompatAnswers)>,
    ) -> Result<Option<CompatServer>, Failure> {
        let clients = self.compat.as_ref().map_or(0, |of| of.max_clients);
        let start = |(socket, answers)| CompatServer::start(socket, answers, clients);
        Ok(parts.map(start).transpose()?)
    }

    /// Takes over from the running router, and waits for its end.
    fn take_over(
        &self,
        mut successor: Successor,
        (handle, rules): (&RoutingHandle, Option<&RunningRules>),
        helper: Option<&PrivilegedHelper>,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let warnings = successor.commit(handle, rules)?;
        // From here on, this router forwards. So what fails below only causes a warning.
        let named = match (&self.user, helper) {
            (Some(_), Some(helper)) if self.name.is_some() => helper
                .request(&HelperRequest::TakeName, None)
                .map(drop)
                .map_err(|it| it.to_string()),
            _ => self.name.as_ref().map_or(Ok(()), |name| {
                take_name(&session.run_dir, name).map_err(|error| error.to_string())
            }),
        };
        if let Err(error) = named {
            session.reporter.warn(format_args!("the name stays the previous router's: {error}"))?;
        }
        warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
        if !successor.wait_for_end() {
            let pid = successor.pid();
            session
                .reporter
                .warn(format_args!("process {pid}, the previous router, does not end"))?;
        }
        Ok(())
    }

    fn serve(
        &self,
        reservation: Reservation,
        handle: &RoutingHandle,
        watch: &Arc<BypassWatch>,
        (rules, reload, takeover): RunningParts,
        started: Instant,
    ) -> Result<ControlServer, Failure> {
        let service = RouterService {
            name: self.name.clone(),
            routing: handle.clone(),
            started,
            watch: watch.clone(),
            rules,
            reload,
            traces: PacketTraces::default(),
            takeover,
        };
        let failed = |error: ControlError| Diagnostic::of(&error).into();
        reservation.serve(Box::new(service)).map_err(failed)
    }
}

/// The parts of a run that requests may change or end.
type RunningParts = (Option<Arc<RunningRules>>, Arc<RouterReload>, Arc<TakeoverService>);

/// The names of all interfaces, in the order of the ports.
fn port_names(ifaces: &[Iface], own: &[OwnSubinterface]) -> Vec<String> {
    let names = ifaces.iter().map(|iface| &iface.name).chain(own.iter().map(|own| &own.name));
    names.cloned().collect()
}

/// Makes the kernel forward, and waits until the workers have forwarded the packets that they
/// already had, for at most a second. Therefore the end of a run forwards no packets twice, and
/// loses none unless a worker needs more time.
fn end_forwarding(handle: &RoutingHandle, links: &[WorkerLink]) {
    // If there is no answer, the thread has ended, and its engine stops as well.
    handle.ask(|routing| drop(routing.engine.stop()));
    // VLANs that the router creates still receive frames, so a worker with a busy VLAN is never
    // drained.
    WorkerLink::drain_all(links);
}

/// Reports the figures of the run.
fn report_end(
    session: &mut Session<'_>,
    figures: Option<&RouterFigures>,
    elapsed: Duration,
) -> Result<(), Failure> {
    let Some(figures) = figures else { return Ok(()) };
    session.reporter.end(&sample(figures, elapsed), figures.summary())
}

/// Serves the figures as metrics, if requested.
fn serve_metrics(
    session: &Session<'_>,
    handle: RoutingHandle,
) -> Result<Option<MetricsEndpoint>, Failure> {
    metrics::serve(session, move || {
        let figures = RouterFigures::ask(&handle);
        figures.map(|figures| figures.metrics()).ok_or_else(|| "the router ends".to_owned())
    })
}

/// Returns the report for the present figures.
pub(crate) fn sample(figures: &RouterFigures, elapsed: Duration) -> ReportSample<&RouterFigures> {
    ReportSample { elapsed, ports: Vec::new(), in_flight: 0, copies: 0, extra: figures }
}

fn lost(error: &io::Error) -> Failure {
    Diagnostic::new(SR0499, "the kernel's routes cannot be followed any more")
        .with_cause(error.to_string())
        .with_help("the kernel forwards; start the router again")
        .into()
}
