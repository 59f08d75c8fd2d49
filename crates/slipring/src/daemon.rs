//! `slipring daemon`, also called `slipringd`: `/dev/netmap` for programs written for netmap.
//!
//! The device is the door crate's, its ports are the netmap and nics crates'. Here are the flags,
//! the links that lead to it, the control socket that tells of its switches, and the signals that
//! end it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FlockOperation;
use serde_json::json;
use slipring_cli::codes::SR0303;
use slipring_cli::{
    Classic, Diagnostic, Exit, Failure, Format, Job, Session, Signals, Verb, flags,
};
use slipring_control::{ControlError, Server};
use slipring_door::{Config, DeviceLink, Door, DoorError};
use slipring_netmap::{Netmap, Params};
use slipring_nics::{Access, Nics};
use slipring_vale::Switches;

pub(crate) const VERB: Verb = Verb { name: "daemon", classic: &[CLASSIC], command, plan };

const CLASSIC: Classic = Classic { name: "slipringd", status: Exit::status };

/// The group that may open the device, where there is one of this name.
const GROUP: &str = "netmap";

/// What was asked for.
struct Plan {
    mode: Option<u32>,
    workers: usize,
    access: Access,
    link: Option<PathBuf>,
}

fn command() -> Command {
    let mode = Arg::new("mode")
        .long("mode")
        .value_name("OCTAL")
        .value_parser(permissions)
        .help("Who may open the device [default: 660 where there is a group netmap, else 600]");
    let workers = Arg::new("workers")
        .long("workers")
        .value_name("N")
        .value_parser(value_parser!(u16).range(2..=64))
        .help("Threads that answer [default: one for each processor, 2 to 8]");
    let everybody = Arg::new("nics-for-all")
        .long("nics-for-all")
        .action(ArgAction::SetTrue)
        .help("Let everybody who may open the device take interfaces, not only root");
    let take_over = Arg::new("take-over")
        .long("take-over")
        .action(ArgAction::SetTrue)
        .help("Let them take the interface of the default route as well");
    let link = Arg::new("link")
        .long("link")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .default_value("/dev/netmap")
        .help("Make PATH a link to the device, or `none`. A real device is never replaced");
    let command = Command::new("daemon")
        .about("Serve /dev/netmap to programs that were written for netmap")
        .after_help(
            "Needs root and Linux 6.9. Runs until INT or TERM, then takes the device away; programs\n\
             that still have it open see POLLERR and ENOTCONN.",
        )
        .args([mode, workers, everybody, take_over, link]);
    flags::run_dir(flags::configuration(flags::reporting(command)))
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let link: &PathBuf = matches.get_one("link").expect("it has a default");
    let plan = Plan {
        mode: matches.get_one("mode").copied(),
        workers: matches
            .get_one::<u16>("workers")
            .map_or(processors.clamp(2, 8), |&count| count.into()),
        access: Access {
            everybody: matches.get_flag("nics-for-all"),
            take_over: matches.get_flag("take-over"),
        },
        link: Some(link.clone()).filter(|link| link.as_os_str() != "none"),
    };
    Ok(Box::new(move |session| run(&plan, session)))
}

/// Three octal digits at most: there is nobody else whom a file could be for.
fn permissions(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "a mode is an octal number up to 777".to_owned())
}

fn run(plan: &Plan, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let signals = Signals::install()?;
    // Links elsewhere lead into it.
    let run_dir = std::path::absolute(&session.run_dir)?;
    let _lock = only_one(&run_dir)?;
    let group = group_id(&fs::read_to_string("/etc/group").unwrap_or_default());
    let config = Config {
        dir: run_dir.join("fuse"),
        mode: plan.mode.unwrap_or(if group.is_some() { 0o660 } else { 0o600 }),
        gid: group.unwrap_or(0),
        workers: plan.workers,
        params: Params::default(),
    };
    let door = Door::open(&config, Netmap::new(Box::new(Nics::new(plan.access))));
    let door = door.map_err(|error| refused(&error))?;
    let links = links(plan, &run_dir, door.path(), session)?;
    let asked = Box::new(Switches::new(door.overview()));
    let control = Server::open(&run_dir, Some(slipring_vale::DAEMON), asked);
    let control = control.map_err(|error| unasked(&error))?;
    session.reporter.raw(mode_line(&config, &door, plan, session.reporter.format()).as_bytes())?;
    while !signals.stopping() {
        // Interrupted or not: what was asked is looked at.
        let _ = poll(&mut [PollFd::from_borrowed_fd(signals.wake_fd(), PollFlags::IN)], None);
        signals.acknowledge();
    }
    drop((links, control));
    if door.close() {
        session.reporter.warn(format_args!("programs still have the device open"))?;
    }
    Ok(Exit::Done)
}

fn mode_line(config: &Config, door: &Door, plan: &Plan, format: Format) -> String {
    let device = door.path().display().to_string();
    let mode = format!("{:03o}", config.mode);
    let nics = if plan.access.everybody { "all" } else { "root" };
    match format {
        Format::Text => format!(
            "# slipringd {device} door=fuse memory=passthrough workers={} mode={mode} nics={nics}\n",
            config.workers
        ),
        _ => {
            let start = json!({
                "event": "start", "device": device, "door": "fuse", "memory": "passthrough",
                "workers": config.workers, "mode": mode, "nics": nics,
            });
            format!("{start}\n")
        }
    }
}

/// Holds the run directory for this process.
fn only_one(run_dir: &Path) -> Result<File, Failure> {
    let path = run_dir.join("slipringd.lock");
    let made = fs::create_dir_all(run_dir)
        .and_then(|()| open_to_all(run_dir))
        .and_then(|()| File::create(&path));
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
    plan: &Plan,
    run_dir: &Path,
    device: &Path,
    session: &mut Session<'_>,
) -> Result<Vec<DeviceLink>, Failure> {
    let mut links = Vec::new();
    for link in [Some(run_dir.join("netmap")), plan.link.clone()].into_iter().flatten() {
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

/// The number of the group, from the text of `/etc/group`.
fn group_id(groups: &str) -> Option<u32> {
    let fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let ours = fields.into_iter().find(|fields| fields.first() == Some(&GROUP))?;
    ours.get(2)?.parse().ok()
}

fn refused(error: &DoorError) -> Diagnostic {
    let help = match error {
        DoorError::NoPassthrough => "run it on Linux 6.9 or newer",
        _ => "run it as root; modprobe fuse where /dev/fuse is missing",
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let said = Diagnostic::new(SR0303, error.to_string()).with_help(help);
    cause.into_iter().fold(said, Diagnostic::with_cause)
}

fn unasked(error: &ControlError) -> Diagnostic {
    Diagnostic::new(SR0303, "the daemon cannot be asked")
        .with_cause(error.to_string())
        .with_help("give it a run directory of its own by --run-dir")
}

fn failed(what: &str, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(SR0303, what)
        .with_cause(error.to_string())
        .with_help("run it as root, or give it a directory of yours by --run-dir")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_by_its_name() {
        assert_eq!(group_id("root:x:0:\nnetmap:x:991:me\n"), Some(991));
        assert_eq!(group_id("root:x:0:\nnetmapper:x:991:\nnetmap\n"), None);
    }
}
