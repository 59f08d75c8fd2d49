//! Serves until INT or TERM.

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
use slipring_cli::{Diagnostic, Exit, Failure, Format, SCHEMA, Session, Signals};
use slipring_control::Server;
use slipring_door::{Config, DeviceLink, Door, DoorError, Outcome, Permissions, Uring, Way};
use slipring_netmap::{Netmap, News, Parameters, Params, Store};
use slipring_proto::trust::{self, Untrusted};
use slipring_vale::Switches;

use crate::confine::confine;
use crate::guard::Guard;
use crate::heartbeat;
use crate::journal::Journal;
use crate::manager::{self, Manager};
use crate::metrics;
use crate::rules::Rules;
use crate::scheduling::Scheduling;
use crate::service::{self, Answers, Reload};
use crate::settings::{Settings, Sources};

/// How a manager's socket for our control socket is named.
const CONTROL: &str = "control";

pub(crate) fn run(
    sources: Sources,
    settings: Settings,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    // Before there is another thread.
    settings.scheduling.map_or(Ok(()), Scheduling::take)?;
    for stays in confine(session.metrics.as_deref()) {
        session.reporter.warn(format_args!("{stays}"))?;
    }
    let signals = Signals::install()?;
    all_descriptors();
    let mut handed = manager::handed();
    let manager = Arc::new(Manager::of_environment(taken(&mut handed, heartbeat::NAME)));
    let run_dir = run_dir(&sources, &settings, session)?;
    let _lock = only_one(&run_dir)?;
    let (rules, parameters) = (Arc::<Rules>::default(), Parameters::new(&Params::default()));
    let permissions = Arc::new(Permissions::default());
    let reload = Arc::new(Reload { sources, rules, parameters, permissions });
    reload.obey(&settings);
    let config = config(&run_dir, &settings, &reload);
    let journal = Arc::new(Journal::new()?);
    let netmap = Netmap::new(Box::new(Guard::new(reload.rules.clone(), journal.clone())));
    let control_socket = taken(&mut handed, CONTROL);
    let mut door = door(&config, netmap, &manager, handed, session)?;
    let native = run_dir.join(slipring_proto::SOCKET);
    if let Err(error) = door.open_native(&native) {
        let native = native.display();
        session.reporter.warn(format_args!("no native door at {native}: {error}"))?;
    }
    let links = links(&settings, &run_dir, door.path(), session)?;
    let answers = || {
        let switches = Box::new(Switches::new(door.overview()));
        let (domains, tidy) = (Box::new(door.overview()), Box::new(door.tidier()));
        Answers::new(reload.clone(), switches, domains, tidy)
    };
    let control = control(&run_dir, control_socket, Box::new(answers()), session)?;
    let answers = answers();
    let _metrics = slipring_cli::metrics::serve(session, move || metrics::text(&answers))?;
    // Before the line: who reads that may rely on it.
    manager.tell("READY=1\nSTATUS=serves the device");
    tell_mode(&door, &settings, session)?;
    tell_of_way(door.way(), config.uring, session)?;
    serve(&signals, &journal, &manager, &door, &reload, session)?;
    manager.tell("STOPPING=1");
    drop(links);
    if door.close() {
        session.reporter.warn(format_args!("programs still have the device open"))?;
    }
    // Who waits for our end may ask until now.
    drop(control);
    Ok(Exit::Done)
}

/// Where everything is. Links elsewhere lead into it.
pub(crate) fn run_dir(
    sources: &Sources,
    settings: &Settings,
    session: &Session<'_>,
) -> std::io::Result<PathBuf> {
    let chosen = match (&settings.run_dir, sources.run_dir_typed) {
        (Some(dir), false) => dir,
        _ => &session.run_dir,
    };
    if chosen.as_os_str().is_empty() { Ok(PathBuf::new()) } else { std::path::absolute(chosen) }
}

/// The device: the one that another process served before us, where a manager has kept that.
fn door(
    config: &Config,
    netmap: Netmap,
    manager: &Arc<Manager>,
    handed: Vec<(String, OwnedFd)>,
    session: &mut Session<'_>,
) -> Result<Door, Failure> {
    if !manager.stores() {
        return Ok(Door::open(config, netmap).map_err(|error| refused(&error))?);
    }
    if config.uring == Uring::On {
        session.reporter.warn(format_args!(
            "calls come by the FUSE device: those by io_uring would not outlive a restart"
        ))?;
    }
    let store: Arc<dyn Store> = manager.clone();
    let opened = Door::open_kept(config, netmap, &store, handed);
    let (door, outcome) = opened.map_err(|error| refused(&error))?;
    match outcome {
        Outcome::Refused(why) => session.reporter.warn(format_args!(
            "programs that had the device open have to open it again: what was kept for them \
             cannot be used ({why})"
        ))?,
        Outcome::Resumed { files, lost, unsent } => {
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
        Outcome::New => {}
    }
    Ok(door)
}

/// The descriptor of this name, which is taken out.
fn taken(handed: &mut Vec<(String, OwnedFd)>, name: &str) -> Option<OwnedFd> {
    let at = handed.iter().position(|(held, _)| held == name)?;
    Some(handed.swap_remove(at).1)
}

/// Allows this process as many descriptors as it may have: those of many users add up.
fn all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, fewer have to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn config(run_dir: &Path, settings: &Settings, reload: &Reload) -> Config {
    Config {
        dir: run_dir.join("fuse"),
        permissions: reload.permissions.clone(),
        workers: settings.workers(),
        uring: settings.uring.unwrap_or_default(),
        parameters: reload.parameters.clone(),
    }
}

/// Waits for signals and news; tells the manager that the workers work.
fn serve(
    signals: &Signals,
    journal: &Journal,
    manager: &Manager,
    door: &Door,
    reload: &Reload,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    while !signals.stopping() {
        let timeout = manager.watchdog().map(timespec);
        let fds = [signals.wake_fd(), journal.bell()];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // Interrupted or not: what was asked is looked at.
        let _ = poll(&mut fds, timeout.as_ref());
        signals.acknowledge();
        journal.take().iter().try_for_each(|news| say(news, session))?;
        if signals.take_reload() {
            manager.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_usec()));
            if let Err(error) = reload.again() {
                session.reporter.complain(&error);
            }
            manager.tell("READY=1");
        }
        if manager.watchdog().is_some() && door.is_well() {
            manager.beat();
        }
    }
    Ok(())
}

/// Tells of what happened by itself, in the log and, where that is asked for, as an event.
fn say(news: &News, session: &mut Session<'_>) -> Result<(), Failure> {
    let News::InterfaceGone { uid, port } = news else { return Ok(()) };
    if session.reporter.format() != Format::Text {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_ns = since.map_or(0, |time| time.as_nanos() as u64);
        let event = json!({
            "schema": SCHEMA, "event": "detach", "time_ns": time_ns, "port": port, "uid": uid,
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

/// The control socket: one that a manager holds for us, or one of our own. Without it the device
/// is served all the same.
fn control(
    run_dir: &Path,
    held: Option<OwnedFd>,
    answers: Box<Answers>,
    session: &mut Session<'_>,
) -> Result<Option<Server>, Failure> {
    let server = match held {
        Some(socket) => Server::over(UnixListener::from(socket), answers),
        None => Server::open(run_dir, Some(service::NAME), answers),
    };
    match server {
        Ok(server) => Ok(Some(server)),
        Err(error) => {
            session.reporter.warn(format_args!("no control socket: {error}"))?;
            Ok(None)
        }
    }
}

/// Says what a reader of the mode line would not expect.
fn tell_of_way(way: Way, wanted: Uring, session: &mut Session<'_>) -> Result<(), Failure> {
    match way {
        Way::Uring { switched: true } if wanted == Uring::On => {
            session.reporter.warn(format_args!(
                "FUSE over io_uring was disabled; it was enabled for the start of this device only"
            ))
        }
        Way::Device { refused: Some(error) } => session.reporter.warn(format_args!(
            "the kernel has FUSE over io_uring, but gives us no io_uring: {error}"
        )),
        _ => Ok(()),
    }
}

/// The mode line.
fn tell_mode(door: &Door, settings: &Settings, session: &mut Session<'_>) -> Result<(), Failure> {
    let device = door.path().display().to_string();
    let mode = format!("{:03o}", settings.mode.unwrap_or_default());
    let way = if matches!(door.way(), Way::Uring { .. }) { "fuse-uring" } else { "fuse" };
    let workers = door.workers();
    let nics = if settings.book.flags.everybody { "all" } else { "root" };
    let rules = [&settings.book.allow, &settings.book.deny, &settings.book.take_over];
    let rules: usize = rules.into_iter().map(Vec::len).sum();
    let scheduling = settings.scheduling.unwrap_or(Scheduling::Normal);
    let told_rules = if rules == 0 { String::new() } else { format!(" rules={rules}") };
    let told_scheduling = match scheduling {
        Scheduling::Normal => String::new(),
        other => format!(" scheduling={other}"),
    };
    let start = json!({
        "device": device, "door": way, "memory": "passthrough", "workers": workers,
        "mode": mode, "nics": nics, "rules": rules, "scheduling": scheduling.to_string(),
    });
    session.reporter.begun(&start, format_args!(
        "# slipringd {device} door={way} memory=passthrough workers={workers} mode={mode} nics={nics}{told_rules}{told_scheduling}"
    ))
}

/// Holds the run directory for this process. Only root and our user could open the lock, and so keep
/// us from it.
fn only_one(run_dir: &Path) -> Result<File, Failure> {
    let path = run_dir.join("slipringd.lock");
    let made = trust::make_dir(run_dir, 0o755)
        .and_then(|()| open_to_all(run_dir))
        .and_then(|()| trust::private_file(&path));
    let file = made.map_err(|error| failed(&format!("cannot write {}", path.display()), &error))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Diagnostic::new(SR0303, format!("another slipringd serves {}", run_dir.display()))
            .with_cause(format!("it holds {}", path.display()))
            .with_help("stop that one, or give this one another directory by --run-dir")
    })?;
    Ok(file)
}

/// Lets every user pass through to the device, whose own mode says who may open it. What else
/// the directory's mode says stays: it may be one that others use as well.
fn open_to_all(dir: &Path) -> std::io::Result<()> {
    let mode = fs::metadata(dir)?.permissions().mode();
    fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o055))
}

/// The ways to the device: a name in the run directory, and `/dev/netmap` where that is free.
fn links(
    settings: &Settings,
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

fn refused(error: &DoorError) -> Diagnostic {
    let help = match error {
        DoorError::NoPassthrough => "run it on Linux 6.9 or newer",
        DoorError::NoUring => "say --uring auto, or run it on Linux 6.14 or newer",
        _ => "run it as root; modprobe fuse where /dev/fuse is missing",
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let said = Diagnostic::new(SR0303, error.to_string()).with_help(help);
    cause.into_iter().fold(said, Diagnostic::with_cause)
}

fn failed(what: &str, error: &std::io::Error) -> Diagnostic {
    let help = Untrusted::of(error).map_or_else(
        || "run it as root, or give it a directory of yours by --run-dir".to_owned(),
        Untrusted::help,
    );
    Diagnostic::new(SR0303, what).with_cause(error.to_string()).with_help(help)
}
