//! `slipring run`: runs a command whose traffic passes an emulated link.
//!
//! ```text
//! kernel NAT:
//!   command's namespace                  outer namespace
//!   eth0 --[tap]--[emulator]--[tap]----- slipN == nf_tables: masquerade == ...
//!
//! user-mode NAT (nat.rs):
//!   command's namespace                  a namespace between     outer namespace
//!   eth0 --[tap]--[emulator]--[packet]-- TAP of slirp4netns ==== its sockets == ...
//! ```
//! The outer namespace is the one in which the user calls `slipring run`. Kernel NAT needs root,
//! and the outer namespace must forward packets (`ip_forward`). User-mode NAT needs neither of
//! them, only an installed program: slirp4netns or pasta. Unless `--nat` chooses:
//! 1. Kernel NAT is tried if the outer namespace forwards packets, or if neither program is
//!    installed.
//! 2. User-mode NAT is used if kernel NAT was not tried, or if the kernel refused it.
//!
//! If kernel NAT is used although the outer namespace forwards no packets, a warning says that the
//! command reaches only this host.
//!
//! The run only adds to the outer namespace: it changes no setting such as `ip_forward`, and no
//! interface, table or file that it has not created. In the command's namespace, forwarding is on.
//! So runs can be nested, as mahimahi's shells can, and each run adds its delay.
//!
//! # Cleanup
//! All parts of a run end with it: open descriptors hold the namespaces and devices, a netlink
//! socket holds the kernel's address translation, and the kernel's parent-death signal ends the
//! command and the NAT program. When the command ends, the processes that it leaves running are
//! ended too. One exception: if the run itself is ended by KILL, processes that the command has
//! started may survive, in a namespace without a link.
//!
//! # Not for
//! Isolation: the command is an ordinary process of this user. It can bypass the link through Unix
//! sockets in the file system, such as that of a resolver reached over D-Bus. A firewall in the
//! outer namespace that drops forwarded packets also drops those of the command; `--nat user` does
//! not need forwarding.

mod addresses;
mod command;
mod masquerade;
mod nat;
mod outer;
mod relay;
mod sandbox;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use slipring_cli::codes::SR0302;
use slipring_cli::{Diagnostic, Exit, Failure, Job, ReportFormat, Session, Verb, flags};
use slipring_port::Port;
use slipring_ring::Doorbell;

use command::{ForwardedSignals, RunCommand, RunningCommand, StartError};
use sandbox::{NatChoice, RunSandbox, setup_failure};
use slipring_datapath::files::{RunFile, check_distinct};
use slipring_datapath::meter::PortMeter;
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_emulation::{
    self as emulation, CapturePairs, RealtimeOptions, RequestedLink, Reservation, RunClock,
    RunServices, storage_bytes,
};

pub(crate) const VERB: Verb = Verb { name: "run", classic: &[], command, plan, no_metrics: None };

/// A shell's exit status for a missing program. The next constant is that for a program that the
/// user may not execute.
const STATUS_NOT_FOUND: i32 = 127;
const STATUS_NOT_EXECUTABLE: i32 = 126;

fn command() -> Command {
    let nat = Arg::new("nat")
        .long("nat")
        .value_name("WHO")
        .default_value("auto")
        .value_parser(["auto", "kernel", "user"])
        .help("What translates addresses behind the link: the kernel, or a user program (slirp4netns or pasta)");
    let report = Arg::new("report")
        .long("report")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("Write the report to FILE instead of stderr");
    let words = Arg::new("command")
        .value_name("COMMAND")
        .num_args(0..)
        .trailing_var_arg(true)
        .value_parser(OsStringValueParser::new())
        .value_hint(ValueHint::CommandWithArguments)
        .help("Command and its arguments [default: your shell]");
    let command = Command::new("run")
        .about("Run a command behind an emulated link, in a network namespace of its own")
        .after_help(
            "Values hold for each direction: with --delay 20ms a round trip takes 40 ms more.\n\
             Up is away from the command, down towards it.\n\n\
             Examples:\n  \
             slipring run --rate 12Mbit --delay 20ms --loss 0.1% curl -O https://example.org/f\n  \
             slipring run --preset lte bash\n  \
             slipring run --delay 50ms --report report.txt ping -c 3 10.0.0.1",
        )
        .args([nat, report, words]);
    flags::reporting(emulation::links(command))
}

/// The parsed command line.
struct RunPlan {
    links: emulation::EmulationPlan,
    nat_choice: NatChoice,
    report: Option<PathBuf>,
    /// Whether to print only the command's own output.
    quiet: bool,
    words: Vec<OsString>,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = RunPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl RunPlan {
    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let wish = match matches.get_one::<String>("nat").map(String::as_str) {
            Some("kernel") => NatChoice::Kernel,
            Some("user") => NatChoice::User,
            _ => NatChoice::Best,
        };
        let report = matches.get_one::<PathBuf>("report").cloned();
        let quiet = flags::format(matches) == ReportFormat::Text && flags::verbosity(matches) < 0;
        let quiet = quiet && report.is_none();
        // This clock is a placeholder: the run creates its real-time ports itself, so the user
        // cannot choose the clock.
        let mut links = emulation::EmulationPlan::with_clock(matches, |_| {
            Ok(RunClock::Virtual(CapturePairs::default()))
        })?;
        let written = report.iter().map(|path| RunFile::written(path));
        check_distinct(&links.files().into_iter().chain(written).collect::<Vec<_>>())?;
        if quiet {
            links.warnings.clear();
        }
        Ok(Self {
            links,
            nat_choice: wish,
            quiet,
            report,
            words: matches.get_many("command").into_iter().flatten().cloned().collect(),
        })
    }

    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        if let Some(exit) = self.links.preface(session)? {
            return Ok(exit);
        }
        match &self.report {
            // stdout belongs to the command, so reports go to stderr.
            None => session.reporter.redirect(Box::new(io::stderr())),
            Some(path) => session.reporter.redirect(Box::new(create(path)?)),
        }
        let mut forwarded = ForwardedSignals::install()?;
        let reservation = RunServices::reserve(&self.links, session)?;
        let (site, ports) = RunSandbox::build(self.nat_choice)?;
        if let Some(warning) = &site.warning {
            session.reporter.warn(warning)?;
        }
        if let Some(server) = site.name_server {
            relay_names(&site, server)?;
        }
        let status = self.run_command(&site, ports, reservation, &mut forwarded, session)?;
        drop(site);
        // All results have been reported, and everything is cleaned up. Only the command's status
        // has to be returned.
        std::process::exit(status)
    }

    /// Runs the command over the link; returns the command's exit status.
    fn run_command(
        &self,
        site: &RunSandbox,
        ports: [Port; 2],
        reservation: Option<Reservation>,
        forwarded: &mut ForwardedSignals,
        session: &mut Session<'_>,
    ) -> Result<i32, Failure> {
        let meter = PortMeter::new(&ports);
        session.reporter.start(Some(self.links.seed), "monotonic", &meter.reports())?;
        if session.reporter.format() == ReportFormat::Text {
            session.reporter.say(format_args!("# {}", site.translator_text()))?;
        }
        let ports = ports.into();
        let (emulation, services) =
            RunServices::start(ports, &self.links, &self.options(), reservation, session)?;
        let lost = Arc::new(Doorbell::new()?);
        let tasks = emulation.tasks.into_iter().map(|task| ring_when_done(task, lost.clone()));
        let workers = Workers::start(tasks.collect())?;
        let started = RunningCommand::start(site, self.command_to_run(site));
        let ran = started.is_ok();
        let status = match started {
            Ok(running) => running
                .wait(site, forwarded, &lost)
                .map(command::shell_status)
                .map_err(|error| setup_failure("wait for the command", &error)),
            Err(StartError::Exec(error)) => {
                not_executed(&self.command_to_run(site).program, &error, session)
            }
            Err(StartError::Namespace(what, error)) => Err(setup_failure(what, &error)),
        };
        let ended = workers.finish();
        if ran && !self.quiet {
            services.report(&meter, session)?;
        }
        services.close(session)?;
        ended?;
        status
    }

    fn options(&self) -> RealtimeOptions {
        let defaults = RealtimeOptions::default();
        RealtimeOptions {
            seed: self.links.seed,
            late_drop: self.links.outputs.late_drop_ns,
            late_warn: self.links.outputs.late_warn_ns.unwrap_or(defaults.late_warn),
            storage_bytes: storage_bytes(),
            ..defaults
        }
    }

    /// Returns the command, or the user's shell.
    fn command_to_run(&self, site: &RunSandbox) -> RunCommand {
        let mut words = self.words.iter().cloned();
        let gateway = ("SLIPRING_GATEWAY", site.addresses.gateway.to_string());
        let mut env = vec![gateway, site.nested_variable.clone()];
        let program = words.next().unwrap_or_else(|| {
            env.extend(self.prompt());
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            shell.unwrap_or_else(|| "/bin/sh".into())
        });
        RunCommand { program, args: words.collect(), env }
    }

    /// Returns the variables that add the link to a shell's prompt, after the links of outer runs.
    /// A shell sets its prompt when it starts, and would replace one that it inherits. In bash, the
    /// command in `PROMPT_COMMAND` changes the prompt after that.
    fn prompt(&self) -> [(&'static str, String); 2] {
        let outer = std::env::var("SLIPRING_PROMPT").unwrap_or_default();
        let mut links: Vec<_> = self
            .links
            .network
            .links
            .iter()
            .map(|link| RequestedLink::of(&link.spec))
            .map(|asked| format!("{} {}", asked.rate, asked.delay))
            .collect();
        links.dedup();
        // These characters have no special meaning in a shell. All others are left out, because the
        // shell would expand them in text that the user typed, such as a file name.
        let plain = |c: &char| c.is_ascii_alphanumeric() || " ./,+-:%()".contains(*c);
        let own: String = links.join(", ").chars().filter(plain).collect();
        let prompt = format!("{outer}[{own}] ");
        let add = format!("PS1=\"{prompt}$PS1\"; unset PROMPT_COMMAND");
        [("SLIPRING_PROMPT", prompt), ("PROMPT_COMMAND", add)]
    }
}

/// Reports why the command cannot run, and returns the status that a shell has for it.
fn not_executed(
    program: &OsStr,
    error: &io::Error,
    session: &mut Session<'_>,
) -> Result<i32, Failure> {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let summary = format!("cannot run {}", program.to_string_lossy());
    let help = match missing {
        true => "look for it in PATH, or give its path: slipring run ./program",
        false => "it must be a program that you may execute: ls -l",
    };
    let error = Diagnostic::new(SR0302, summary).with_cause(error.to_string()).with_help(help);
    session.reporter.report_error(&error);
    Ok(if missing { STATUS_NOT_FOUND } else { STATUS_NOT_EXECUTABLE })
}

/// Relays queries to a name server that the command cannot reach.
fn relay_names(site: &RunSandbox, server: IpAddr) -> Result<(), Failure> {
    match relay::start(site.addresses.gateway.into(), server) {
        // `AddrInUse`: a server that listens on all addresses already answers at the gateway's
        // address, so no relay is needed.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
        started => {
            started.map_err(|error| setup_failure("ask for names on the command's behalf", &error))
        }
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Diagnostic::unwritable(path, &error).into())
}

/// Returns a task that runs `task`, and rings the doorbell when it ends, even with an error.
fn ring_when_done(task: WorkerTask, bell: Arc<Doorbell>) -> WorkerTask {
    Box::new(move |stop| {
        let result = task(stop);
        bell.ring();
        result
    })
}
