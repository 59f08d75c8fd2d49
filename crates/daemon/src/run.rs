//! Serves the device until the signal INT or TERM.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use slipring_cli::codes::SR0303;
use slipring_cli::{Diagnostic, Exit, Failure, ReportFormat, SCHEMA_VERSION, Session, Signals};
use slipring_control::ControlServer;
use slipring_fuse::{
    DeviceLink, FuseConfig, FuseDevice, FuseError, Permissions, RequestTransport, ResumeOutcome,
    UringMode,
};
use slipring_native_proto::trust::{self, TrustError};
use slipring_netmap::{AdapterEvent, FdStore, MemoryParams, Netmap, Parameters};
use slipring_vale::SwitchService;

use crate::confine::confine;
use crate::guarded_nics::GuardedNics;
use crate::heartbeat;
use crate::journal::Journal;
use crate::metrics;
use crate::rules::ActiveAccessRules;
use crate::scheduling::SchedulingClass;
use crate::service::{self, DaemonService, Reload};
use crate::service_manager::{self, ServiceManager};
use crate::settings::{DaemonSettings, SettingsSources};

/// Name of the control socket among the sockets that a service manager passes.
const CONTROL_FD_NAME: &str = "control";

pub(crate) fn run(
    sources: SettingsSources,
    settings: DaemonSettings,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    // The scheduling class is set before any other thread exists. So all threads inherit it.
    settings.scheduling.map_or(Ok(()), SchedulingClass::apply)?;
    for stays in confine(session.metrics.as_deref()) {
        session.reporter.warn(format_args!("{stays}"))?;
    }
    let signals = Signals::install()?;
    raise_fd_limit();
    let mut handed = service_manager::inherited_fds();
    let manager = Arc::new(ServiceManager::from_environment(take_fd(
        &mut handed,
        heartbeat::HEARTBEAT_FD_NAME,
    )));
    let run_dir = run_dir(&sources, &settings, session)?;
    let _lock = lock_run_dir(&run_dir)?;
    let (rules, parameters) =
        (Arc::<ActiveAccessRules>::default(), Parameters::new(&MemoryParams::default()));
    let permissions = Arc::new(Permissions::default());
    let reload = Arc::new(Reload { sources, rules, parameters, permissions });
    reload.apply(&settings);
    let config = config(&run_dir, &settings, &reload);
    let journal = Arc::new(Journal::new()?);
    let netmap = Netmap::new(Box::new(GuardedNics::new(reload.rules.clone(), journal.clone())));
    let control_socket = take_fd(&mut handed, CONTROL_FD_NAME);
    let mut device = open_device(&config, netmap, &manager, handed, session)?;
    let native = run_dir.join(slipring_native_proto::SOCKET_NAME);
    if let Err(error) = device.open_native(&native) {
        let native = native.display();
        session.reporter.warn(format_args!("no native socket at {native}: {error}"))?;
    }
    let links = links(&settings, &run_dir, device.path(), session)?;
    let answers = || {
        let switches = Box::new(SwitchService::new(device.domain_lister()));
        let (domains, tidy) =
            (Box::new(device.domain_lister()), Box::new(device.memory_releaser()));
        DaemonService::new(reload.clone(), switches, domains, tidy)
    };
    let control = control(&run_dir, control_socket, Box::new(answers()), session)?;
    let answers = answers();
    let _metrics = slipring_cli::metrics::serve(session, move || metrics::text(&answers))?;
    // This is sent before the mode line is printed, because a program that has read the mode line
    // expects that it was already sent.
    manager.notify("READY=1\nSTATUS=serves the device");
    report_mode(&device, &settings, session)?;
    report_transport(device.transport(), config.uring, session)?;
    serve(&signals, &journal, &manager, &device, &reload, session)?;
    manager.notify("STOPPING=1");
    drop(links);
    if device.close() {
        session.reporter.warn(format_args!("programs still have the device open"))?;
    }
    // The control socket is closed last, so that a client that waits for the end of the daemon can
    // send requests until then.
    drop(control);
    Ok(Exit::Done)
}

/// Returns the directory that contains the device and all sockets. The path is absolute, because
/// symbolic links in other places, such as /dev/netmap, point to the device in it. An empty path,
/// which means that there is no such directory, stays empty.
pub(crate) fn run_dir(
    sources: &SettingsSources,
    settings: &DaemonSettings,
    session: &Session<'_>,
) -> std::io::Result<PathBuf> {
    let chosen = match (&settings.run_dir, sources.run_dir_typed) {
        (Some(dir), false) => dir,
        _ => &session.run_dir,
    };
    if chosen.as_os_str().is_empty() { Ok(PathBuf::new()) } else { std::path::absolute(chosen) }
}

/// Opens the device. If a service manager has stored the previous daemon's device, continues with
/// it.
fn open_device(
    config: &FuseConfig,
    netmap: Netmap,
    manager: &Arc<ServiceManager>,
    handed: Vec<(String, OwnedFd)>,
    session: &mut Session<'_>,
) -> Result<FuseDevice, Failure> {
    if !manager.stores() {
        return Ok(FuseDevice::open(config, netmap).map_err(|error| refused(&error))?);
    }
    if config.uring == UringMode::On {
        session.reporter.warn(format_args!(
            "calls come by the FUSE device: those by io_uring would not outlive a restart"
        ))?;
    }
    let store: Arc<dyn FdStore> = manager.clone();
    let opened = FuseDevice::open_persistent(config, netmap, &store, handed);
    let (device, outcome) = opened.map_err(|error| refused(&error))?;
    match outcome {
        ResumeOutcome::Refused(why) => session.reporter.warn(format_args!(
            "programs that had the device open have to open it again: what was kept for them \
             cannot be used ({why})"
        ))?,
        ResumeOutcome::Resumed { files, lost, unsent } => {
            if lost > 0 {
                session.reporter.warn(format_args!(
                    "{lost} of {files} files had a port open that does not outlive a restart"
                ))?;
            }
            if unsent > 0 {
                session.reporter.warn(format_args!(
                    "{unsent} slots were queued on interfaces: some may have been sent, none will be"
                ))?;
            }
        }
        ResumeOutcome::New => {}
    }
    Ok(device)
}

/// Removes the descriptor with this name and returns it; `None` if there is none.
fn take_fd(handed: &mut Vec<(String, OwnedFd)>, name: &str) -> Option<OwnedFd> {
    let at = handed.iter().position(|(held, _)| held == name)?;
    Some(handed.swap_remove(at).1)
}

/// Raises the limit of open descriptors to the maximum, because many users need many descriptors.
fn raise_fd_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If the kernel refuses this, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn config(run_dir: &Path, settings: &DaemonSettings, reload: &Reload) -> FuseConfig {
    FuseConfig {
        dir: run_dir.join("fuse"),
        permissions: reload.permissions.clone(),
        workers: settings.workers(),
        uring: settings.uring.unwrap_or_default(),
        parameters: reload.parameters.clone(),
    }
}

/// Waits for signals and events. As long as the workers are healthy, reports this to the service
/// manager.
fn serve(
    signals: &Signals,
    journal: &Journal,
    manager: &ServiceManager,
    device: &FuseDevice,
    reload: &Reload,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    while !signals.stopping() {
        let timeout = manager.watchdog().map(timespec);
        let fds = [signals.wake_fd(), journal.event()];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // Even if a signal interrupted the poll, all conditions are checked below.
        let _ = poll(&mut fds, timeout.as_ref());
        signals.acknowledge();
        journal.take_events().iter().try_for_each(|news| report_event(news, session))?;
        if signals.take_reload() {
            manager.notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_usec()));
            if let Err(error) = reload.reload() {
                session.reporter.report_error(&error);
            }
            manager.notify("READY=1");
        }
        if manager.watchdog().is_some() && device.is_healthy() {
            manager.send_watchdog();
        }
    }
    Ok(())
}

/// Reports in the log that the interface of a switch port no longer exists. Ignores other events.
/// If the report format is for machines, also prints a JSON line.
fn report_event(news: &AdapterEvent, session: &mut Session<'_>) -> Result<(), Failure> {
    let AdapterEvent::InterfaceGone { uid, port } = news else { return Ok(()) };
    if session.reporter.format() != ReportFormat::Text {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_ns = since.map_or(0, |time| time.as_nanos() as u64);
        let event = json!({
            "schema": SCHEMA_VERSION, "event": "detach", "time_ns": time_ns, "port": port, "uid": uid,
            "cause": "interface-gone",
        });
        session.reporter.raw(format!("{event}\n").as_bytes())?;
    }
    session.reporter.warn(format_args!("{port} has left its switch: the interface is no more"))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}

fn monotonic_usec() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// Opens the control socket. If the service manager has passed one, uses that. If it cannot be
/// opened, the device is served without a control socket.
fn control(
    run_dir: &Path,
    held: Option<OwnedFd>,
    answers: Box<DaemonService>,
    session: &mut Session<'_>,
) -> Result<Option<ControlServer>, Failure> {
    let server = match held {
        Some(socket) => ControlServer::on_listener(UnixListener::from(socket), answers),
        None => ControlServer::open(run_dir, Some(service::NAME), answers),
    };
    match server {
        Ok(server) => Ok(Some(server)),
        Err(error) => {
            session.reporter.warn(format_args!("no control socket: {error}"))?;
            Ok(None)
        }
    }
}

/// Prints a warning in two cases: if io_uring was requested and FUSE over io_uring had to be
/// enabled for the start of this device; and if the kernel supports FUSE over io_uring but refuses
/// an io_uring to this process.
fn report_transport(
    transport: RequestTransport,
    wanted: UringMode,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    match transport {
        RequestTransport::Uring { switched: true } if wanted == UringMode::On => {
            session.reporter.warn(format_args!(
                "FUSE over io_uring was disabled; it was enabled for the start of this device only"
            ))
        }
        RequestTransport::Device { refused: Some(error) } => session.reporter.warn(format_args!(
            "the kernel has FUSE over io_uring, but gives us no io_uring: {error}"
        )),
        _ => Ok(()),
    }
}

/// Prints the mode line, which says how the device is served.
fn report_mode(
    device: &FuseDevice,
    settings: &DaemonSettings,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let path = device.path().display().to_string();
    let mode = format!("{:03o}", settings.mode.unwrap_or_default());
    let transport = if matches!(device.transport(), RequestTransport::Uring { .. }) {
        "fuse-uring"
    } else {
        "fuse"
    };
    let workers = device.workers();
    let nics = if settings.access_rules.flags.all_users { "all" } else { "root" };
    let rules = [
        &settings.access_rules.allow,
        &settings.access_rules.deny,
        &settings.access_rules.take_over,
    ];
    let rules: usize = rules.into_iter().map(Vec::len).sum();
    let scheduling = settings.scheduling.unwrap_or(SchedulingClass::Normal);
    let told_rules = if rules == 0 { String::new() } else { format!(" rules={rules}") };
    let told_scheduling = match scheduling {
        SchedulingClass::Normal => String::new(),
        other => format!(" scheduling={other}"),
    };
    let start = json!({
        "device": path, "transport": transport, "memory": "passthrough", "workers": workers,
        "mode": mode, "nics": nics, "rules": rules, "scheduling": scheduling.to_string(),
    });
    session.reporter.write_started(&start, format_args!(
        "# slipringd {path} transport={transport} memory=passthrough workers={workers} mode={mode} nics={nics}{told_rules}{told_scheduling}"
    ))
}

/// Locks the run directory for this process until the returned file is closed. Only root and the
/// user of the daemon can open the lock file. So no other user can block the daemon.
fn lock_run_dir(run_dir: &Path) -> Result<File, Failure> {
    let path = run_dir.join("slipringd.lock");
    let made = trust::make_dir(run_dir, 0o755)
        .and_then(|()| make_traversable(run_dir))
        .and_then(|()| trust::private_file(&path));
    let file = made.map_err(|error| failed(&format!("cannot write {}", path.display()), &error))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Diagnostic::new(SR0303, format!("another slipringd serves {}", run_dir.display()))
            .with_cause(format!("it holds {}", path.display()))
            .with_help("stop that one, or give this one another directory by --run-dir")
    })?;
    Ok(file)
}

/// Allows every user to list the directory, and to go through it to the device. The device itself
/// has a mode that restricts access. The other bits of the directory's mode stay unchanged, because
/// other programs may also use the directory.
fn make_traversable(dir: &Path) -> std::io::Result<()> {
    let mode = fs::metadata(dir)?.permissions().mode();
    fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o055))
}

/// Creates the links to the device: one in the run directory, and one at [`DaemonSettings::link`],
/// by default `/dev/netmap`. Prints a warning for a link that cannot be created.
fn links(
    settings: &DaemonSettings,
    run_dir: &Path,
    device: &Path,
    session: &mut Session<'_>,
) -> Result<Vec<DeviceLink>, Failure> {
    let mut links = Vec::new();
    let elsewhere = settings.link().map(Path::to_owned);
    for link in [Some(run_dir.join("netmap")), elsewhere].into_iter().flatten() {
        match DeviceLink::new(&link, device) {
            Ok(link) => links.push(link),
            Err(error) => {
                let (link, device) = (link.display(), device.display());
                session.reporter.warn(format_args!(
                    "{link} is left as it is ({error}); programs find the device as {device}"
                ))?;
            }
        }
    }
    Ok(links)
}

fn refused(error: &FuseError) -> Diagnostic {
    let help = match error {
        FuseError::NoPassthrough => "run it on Linux 6.9 or newer",
        FuseError::NoUring => "say --uring auto, or run it on Linux 6.14 or newer",
        _ => "run it as root; modprobe fuse where /dev/fuse is missing",
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let diagnostic = Diagnostic::new(SR0303, error.to_string()).with_help(help);
    cause.into_iter().fold(diagnostic, Diagnostic::with_cause)
}

fn failed(what: &str, error: &std::io::Error) -> Diagnostic {
    let help = TrustError::of(error).map_or_else(
        || "run it as root, or give it a directory of yours by --run-dir".to_owned(),
        TrustError::help,
    );
    Diagnostic::new(SR0303, what).with_cause(error.to_string()).with_help(help)
}
