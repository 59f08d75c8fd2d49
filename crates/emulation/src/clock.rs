//! Reads the flags that choose virtual or real time, and the flags for the inputs of a run:
//! captures, or ports and how to open them.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::codes::{SR0002, SR0003, SR0006};
use slipring_cli::units::TimeSpan;
use slipring_cli::{Diagnostic, Failure};
use slipring_datapath::opening::{self, PortOpening};
use slipring_ring::HugePages;

use crate::config::{EmulationConfig, EmulationConfigError, RunOutputs};
use crate::flags::{self, BurstLimit};
use crate::plan::{CapturePair, CapturePairs, PrintRequest, RealtimePlan, RunClock};
use crate::route::{self, RouteMode};

/// Chooses the clock of a run: virtual time between captures with `--virtual`, otherwise real time
/// between ports.
pub(crate) fn run_clock(
    matches: &ArgMatches,
    config: &EmulationConfig,
) -> Result<RunClock, Failure> {
    if let Some(files) = matches.get_many::<PathBuf>("virtual") {
        refuse_virtual_route(config)?;
        refuse_ports_flags(matches)?;
        refuse_ports_outputs(&config.outputs()?)?;
        return captures(&files.collect::<Vec<_>>(), matches, config);
    }
    let unnamed = config.ports()?.iter().any(|port| port.device.is_none());
    if unnamed && instead(matches).is_some() {
        // No ports are opened if the settings or figures are only printed. So it does not matter
        // that the ports have no names.
        return Ok(RunClock::Virtual(CapturePairs::default()));
    }
    let ports = devices(config)?;
    let route = RouteMode::of(config, &ports)?;
    let (cpus, burst) = (flags::cpus(matches)?, BurstLimit::of(matches)?);
    Ok(RunClock::RealTime(Box::new(RealtimePlan {
        cpus,
        burst,
        ..real_time(matches, ports, route)
    })))
}

/// Returns the port name to open for each port of the links, in the order of the ports.
fn devices(config: &EmulationConfig) -> Result<Vec<PortName>, Failure> {
    let mut names: Vec<PortName> = Vec::new();
    for port in config.ports()? {
        let Some((device, location)) = port.device else {
            let error = Diagnostic::new(SR0006, "two ports are needed");
            return Err(error
                .with_cause(format!("nothing stands for {}", port.name))
                .with_help(
                    "name them: slipring emulate -i netmap:eth0 -i netmap:eth1 -D 20ms, \
                            or pass captures: --virtual in.pcap out.pcapng",
                )
                .into());
        };
        let name = PortName::parse_classic(&device);
        let name = name.map_err(|error| EmulationConfigError::port(&error, &location))?;
        // A null port discards all frames, so it may be used any number of times.
        if name.kind != PortNameKind::Null && names.contains(&name) {
            let error =
                EmulationConfigError::new(SR0002, format!("port {device} is given twice"), "");
            return Err(error.at(&location).help("a link joins two ports that differ").into());
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns an error for route mode in virtual time: the router uses the addresses of its
/// interfaces, and captures have none.
fn refuse_virtual_route(config: &EmulationConfig) -> Result<(), Failure> {
    if config.route()?.is_none() {
        return Ok(());
    }
    let error = Diagnostic::new(SR0003, "-r does not go together with --virtual");
    let error = error.with_cause("a router has the addresses of its interfaces");
    Err(error.with_help("leave -r out: what a link does to frames is the same").into())
}

/// Returns an error if flags about ports are given in virtual time, where there are no ports.
///
/// # Errors
/// [`Failure`] that names the first such flag.
pub fn refuse_ports_flags(matches: &ArgMatches) -> Result<(), Failure> {
    let late = matches.contains_id("late-drop").then_some("--late-drop");
    // Commands that open ports themselves have no `--pipeline`.
    let pipeline = matches.try_get_one("pipeline").is_ok_and(|on| on == Some(&true));
    let own = late.or(pipeline.then_some("--pipeline")).map(str::to_owned);
    let Some(flag) = opening::first_typed_flag(matches).or(own) else { return Ok(()) };
    let error = Diagnostic::new(SR0003, format!("{flag} does not go together with --virtual"));
    let error = error.with_cause("it is done at ports, and --virtual opens none");
    Err(error.with_help(format!("leave {flag} out; see --help for what links do")).into())
}

/// Returns an error for outputs that need ports. The metrics endpoint is one of these, because a
/// virtual run is too short to be observed.
///
/// # Errors
/// [`Failure`] if such an output is requested, by a flag or in a file.
pub fn refuse_ports_outputs(outputs: &RunOutputs) -> Result<(), Failure> {
    if outputs.late_drop_ns.is_some() {
        let summary = "output.late_drop does not go together with --virtual";
        let error = Diagnostic::new(SR0003, summary);
        let error = error.with_cause("it is done at ports, and --virtual opens none");
        return Err(error.with_help("leave it out of the file: no frame is late here").into());
    }
    if outputs.metrics.is_none() {
        return Ok(());
    }
    let error = Diagnostic::new(SR0003, "--metrics does not go together with --virtual");
    let error =
        error.with_cause("they are served while a run goes on, and this one is over at once");
    Err(error
        .with_help("take --stats: it prints them at the end; or leave output.metrics out")
        .into())
}

fn captures(
    files: &[&PathBuf],
    matches: &ArgMatches,
    config: &EmulationConfig,
) -> Result<RunClock, Failure> {
    let ports = config.ports()?.len();
    let pairs: Vec<_> = files
        .chunks_exact(2)
        .map(|pair| CapturePair { input: pair[0].clone(), output: pair[1].clone() })
        .collect();
    if files.len() % 2 == 1 || pairs.len() > ports {
        let error = Diagnostic::new(SR0002, "--virtual takes pairs of captures, one per direction");
        return Err(error.with_help("--virtual IN OUT, or --virtual IN OUT IN2 OUT2").into());
    }
    Ok(RunClock::Virtual(CapturePairs { pairs, duration: duration(matches) }))
}

/// Returns the length of the run; `None` means no limit.
pub fn duration(matches: &ArgMatches) -> Option<Duration> {
    let span = matches.get_one::<TimeSpan>("duration").map(|span| span.duration());
    span.filter(|duration| !duration.is_zero())
}

/// Builds the real-time plan, except for the processors and the burst limits. The caller reads
/// the flags for these two, because their values can be invalid.
fn real_time(matches: &ArgMatches, ports: Vec<PortName>, route: Option<RouteMode>) -> RealtimePlan {
    let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
    let layers = if route.is_some() { route::RING_LAYERS } else { 0 };
    let mut opening = PortOpening::of(matches).with_layers(layers);
    if matches.get_count("hugepages-classic") >= 2 {
        opening.options.huge = HugePages::Require;
    }
    RealtimePlan {
        ports,
        opening,
        pipeline: matches.get_flag("pipeline"),
        cpus: Vec::new(),
        burst: BurstLimit::default(),
        link_wait: span("wait").unwrap_or_default(),
        period: span("period").filter(|period| !period.is_zero()),
        duration: duration(matches),
        route,
    }
}

/// Returns what to print instead of starting a run; `None` if the run is to start.
pub(crate) fn instead(matches: &ArgMatches) -> Option<PrintRequest> {
    let asked = [("print-settings", PrintRequest::Settings), ("explain", PrintRequest::Figures)];
    asked.into_iter().find(|(id, _)| matches.get_flag(id)).map(|(_, instead)| instead)
}
