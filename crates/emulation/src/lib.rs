//! `slipring emulate`: passes frames between two ports, or two captures, as a link would. It has
//! TLEM's flags under TLEM's name.
//!
//! ```text
//!   flags.rs, classic.rs, config/ -> EmulationPlan -> virtual_time: captures, as fast as possible
//!                                                  -> realtime: ports
//!                                                     both: the engine of the link crate; report/
//! ```
//!
//! Modules use those above them in this table:
//!
//! | layer | modules |
//! |---|---|
//! | frames and figures | `account`, `store`, `output_file`, `report` |
//! | settings | `config`, `flags`, `classic`, `presets`, `bounds`, `link_settings`, `warnings` |
//! | engines between ports and captures | `route`, `realtime`, `plan`, `virtual_time` |
//! | a run in real time | `control`: commands and settings over time; `link_publisher`, `run_services`, `realtime_run` |
//!
//! Not for: what links do to frames; that is the engine, `slipring-link`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod bounds;
mod classic;
mod config;
mod control;
mod flags;
mod link_publisher;
mod link_settings;
mod output_file;
mod plan;
mod presets;
mod realtime;
mod realtime_run;
mod report;
mod route;
mod run_services;
mod store;
#[cfg(test)]
mod tests;
mod virtual_time;
mod warnings;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::codes::{SR0002, SR0003, SR0006};
use slipring_cli::units::{Count, TimeSpan};
use slipring_cli::{ClassicName, Diagnostic, Exit, Failure, Job, Session, Verb};
use slipring_datapath::files::{RunFile, check_distinct};
use slipring_datapath::opening::{self, PortOpening};
use slipring_link::LinkTarget;
use slipring_ring::HugePages;

use bounds::ChangeBounds;
use config::{EmulationConfig, EmulationConfigError, RunOutputs, tree};
use plan::PrintInstead;

pub use account::{EmulationAccount, EmulationState, EntryAccount, ExitAccount};
pub use classic::refuse_second_direction;
pub use control::RunStart;
pub use flags::{BurstLimit, links};
pub use link_settings::LinkSettings;
pub use plan::{CapturePair, CapturePairs, EmulationPlan, RealtimePlan, RunClock};
pub use presets::json as presets;
pub use realtime::figures::{report, sample};
pub use realtime::{
    Emulation, Emulator, EmulatorChannel, LogTap, LogWriter, ObservedFrame, RealtimeOptions,
    open_log, prepare,
};
pub use report::EmulationReport;
pub use report::document::EmulationDocument;
pub use report::histogram::Histogram;
pub use report::hop_times::HopTimes;
pub use report::measurement::{DeliveredFrame, LinkMeasurement};
pub use report::requested::RequestedLink;
pub use run_services::RunServices;
pub use slipring_control::Reservation;
pub use store::storage_bytes;
pub use virtual_time::chunk::{CaptureChunk, ChunkTable};
pub use virtual_time::input::CaptureInput;
pub use virtual_time::input_feed::{EnteringFrames, InputFeed};
pub use virtual_time::job::ports;
pub use virtual_time::{CaptureLane, VirtualResult, VirtualRun};

use route::RouteMode;

/// The command.
pub const VERB: Verb =
    Verb { name: "emulate", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// TLEM's name; its exit code is 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "tlem", status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if let Some((control::command::COMMAND_NAME, asked)) = matches.subcommand() {
        return control::ctl::plan(asked);
    }
    let plan = EmulationPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl EmulationPlan {
    /// Builds the plan of the flags, and of the file that they name.
    pub fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        classic::refuse_foreign(matches)?;
        let mut plan = Self::read(matches, |config| run_clock(matches, config))?;
        if matches!(&plan.clock, RunClock::RealTime(how) if how.pipeline) {
            realtime::check_pipeline(&plan.network)?;
        }
        if matches.get_flag("no-zerocopy") {
            let warning = "-c changes nothing: frames are always copied into the delay line";
            plan.warnings.push(warning.into());
        }
        Ok(plan)
    }

    /// Builds the plan of a command that opens its ports itself; its flags are
    /// those of [`flags::links`].
    ///
    /// # Errors
    /// The first invalid setting, or an error of `clock`.
    pub fn with_clock(
        matches: &ArgMatches,
        clock: impl FnOnce(&EmulationConfig) -> Result<RunClock, Failure>,
    ) -> Result<Self, Failure> {
        let plan = Self::read(matches, clock)?;
        if plan.config.route()?.is_some() {
            let error = Diagnostic::new(SR0003, "route is a setting of `slipring emulate` alone");
            return Err(error.with_help("take the table [route] out of the file").into());
        }
        Ok(plan)
    }

    fn read(
        matches: &ArgMatches,
        clock: impl FnOnce(&EmulationConfig) -> Result<RunClock, Failure>,
    ) -> Result<Self, Failure> {
        let (config, unasked) = settings(matches)?;
        let network = config.network()?;
        let bounds = ChangeBounds::of(matches)?;
        let schedule = config.schedule()?;
        let mut later = Vec::new();
        for changed in &schedule {
            let changed = changed.config.network()?;
            bounds.allow_change(&network, &changed)?;
            later.push(changed);
        }
        bounds.allow(&network)?;
        let outputs = config.outputs()?;
        let usual = config.usual_queues(&network);
        let unasked: Vec<_> = unasked.into_iter().chain(usual.iter().map(String::as_str)).collect();
        let plan = Self {
            clock: clock(&config)?,
            seed: config.seed()?.unwrap_or_else(chosen_seed),
            schedule,
            bounds,
            warnings: warnings::of(&network, &later, &outputs, &unasked),
            outputs,
            stats: matches.get_flag("stats"),
            typed: matches.clone(),
            instead: instead(matches),
            name: config.name(),
            network,
            config,
        };
        if let RunClock::Virtual(captures) = &plan.clock {
            virtual_time::check_entries(&plan.network, captures.pairs.len())?;
        }
        plan.with_roles()
    }

    /// Returns the files that the run reads and writes besides its ports.
    pub fn files(&self) -> Vec<RunFile> {
        let config = self.typed.get_one::<PathBuf>("config-file");
        let mut files: Vec<_> = config.map(|path| RunFile::read(path)).into_iter().collect();
        files.extend(self.config.files.paths().iter().map(|path| RunFile::read(path)));
        if let RunClock::Virtual(CapturePairs { pairs, .. }) = &self.clock {
            files.extend(pairs.iter().map(|pair| RunFile::read(&pair.input)));
            let outputs = pairs.iter().map(|pair| &pair.output);
            let outputs = outputs.filter(|path| !path.as_os_str().is_empty());
            files.extend(outputs.map(|path| RunFile::written(path)));
        }
        let outputs = &self.outputs;
        files.extend(outputs.log.iter().map(|path| RunFile::written(path)));
        if let Some(prefix) = &outputs.mahimahi {
            let links = self.network.links.iter();
            let path = |name: &str| PathBuf::from(format!("{}.{name}", prefix.display()));
            files.extend(links.map(|link| RunFile::written(&path(&link.spec.name))));
        }
        files
    }

    /// Tells the ports which captures are read and which are written.
    fn with_roles(mut self) -> Result<Self, Failure> {
        let others = self.files();
        check_distinct(&others)?;
        // A command that only prints the plan opens nothing.
        if let (RunClock::RealTime(how), None) = (&mut self.clock, self.instead) {
            let leads_to =
                |at| self.network.links.iter().any(|link| link.to == LinkTarget::Exit(at));
            let roles = PortOpening::roles(&how.ports, leads_to);
            how.opening = how.opening.clone().with_roles(roles, others)?;
        }
        Ok(self)
    }

    /// Reads the configuration file again and applies the flags that change it; `None` if no
    /// file was named.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn reread_config(&self) -> Result<Option<EmulationConfig>, Failure> {
        if !self.typed.contains_id("config-file") {
            return Ok(None);
        }
        let (mut config, _) = settings(&self.typed)?;
        // Scheduled changes count from the start, which is over.
        config.root.remove("at");
        self.bounds.allow(&config.network()?)?;
        Ok(Some(config))
    }

    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        if let Some(exit) = self.preface(session)? {
            return Ok(exit);
        }
        match &self.clock {
            RunClock::Virtual(captures) => virtual_time::job::run(&self, captures, session),
            RunClock::RealTime(how) => realtime_run::run(&self, how, session),
        }
    }
}

/// Returns the settings of a file or of flags, and the links that got TLEM's queue by default.
fn settings(matches: &ArgMatches) -> Result<(EmulationConfig, Vec<&'static str>), Failure> {
    let flags = classic::first_link_flag(matches);
    let (mut config, unasked) = match (matches.get_one::<PathBuf>("config-file"), flags) {
        (Some(_), Some(flag)) => {
            let error =
                Diagnostic::new(SR0003, format!("{flag} does not go together with --config"));
            return Err(error.with_help("change the file's settings by --set PATH=VALUE").into());
        }
        (Some(path), None) => (EmulationConfig::open(path)?, Vec::new()),
        (None, _) => classic::settings(matches)?,
    };
    let mut changes = Vec::new();
    for text in matches.get_many::<String>("set").into_iter().flatten() {
        let Some((path, value)) = text.split_once('=') else {
            let error = Diagnostic::new(SR0002, format!("`{text}` does not fit --set"));
            return Err(error.with_help("write --set link.up.rate.bps=20Mbit").into());
        };
        let location = classic::flag(matches, "--set").advanced_by(path.chars().count() + 1);
        let node = tree::ConfigNode::word(value, location.clone());
        changes.push(tree::ConfigEntry { key: path.to_owned(), location, node });
    }
    config = config.with(&changes)?;
    name_ports(&mut config, matches)?;
    // Check the seed of the file even if a flag replaces it.
    config.seed()?;
    put_run_flags(&mut config, matches);
    Ok((config, unasked))
}

/// Stores the flags that are not about links under their keys of a file.
fn put_run_flags(config: &mut EmulationConfig, matches: &ArgMatches) {
    let root = &mut config.root;
    if let Some(Count(seed)) = matches.get_one("seed") {
        let value = tree::ConfigValue::Number(seed.to_string());
        root.put(
            "seed",
            tree::ConfigNode { location: tree::ConfigLocation::flag("--seed"), value },
        );
    }
    if let Some(name) = matches.get_one::<String>("name") {
        root.put("name", tree::ConfigNode::text(name, tree::ConfigLocation::flag("--name")));
    }
    put_route(root, matches);
    let path = |id: &str| matches.get_one::<PathBuf>(id).map(|path| path.display().to_string());
    let text = |id: &str| matches.get_one::<String>(id).cloned();
    let said = [
        ("pcapng", "--log", path("log")),
        ("mahimahi", "--mahimahi-log", path("mahimahi-log")),
        ("metrics", "--metrics", text("metrics")),
        ("late_drop", "-d", text("late-drop")),
    ];
    for (key, flag, value) in said {
        let Some(value) = value else { continue };
        let location = classic::flag(matches, flag);
        // If `output` is no table, reading it reports that.
        let Some(table) = root.table_at("output", &location) else { return };
        table.put(key, tree::ConfigNode::text(value, location));
    }
}

/// Stores `-r` and the flags that go with it.
fn put_route(root: &mut tree::ConfigTable, matches: &ArgMatches) {
    // Only `emulate` can be a router.
    if !matches.try_get_one("route").ok().flatten().copied().unwrap_or(false) {
        return;
    }
    let location = tree::ConfigLocation::flag("-r");
    let Some(table) = root.table_at("route", &location) else { return };
    let given: Vec<_> = matches.get_raw("gateway").into_iter().flatten().collect();
    if !given.is_empty() {
        let gateway = |text: &std::ffi::OsStr| {
            tree::ConfigNode::text(text.to_string_lossy(), tree::ConfigLocation::flag("-G"))
        };
        let value = tree::ConfigValue::List(given.into_iter().map(gateway).collect());
        table.put(
            "gateways",
            tree::ConfigNode { location: tree::ConfigLocation::flag("-G"), value },
        );
    }
    if matches.get_flag("decrement-ttl") {
        table.put(
            "decrement_ttl",
            tree::ConfigNode { location, value: tree::ConfigValue::Flag(true) },
        );
    }
}

/// Stores the devices of `-i` for the ports, in their order.
fn name_ports(config: &mut EmulationConfig, matches: &ArgMatches) -> Result<(), Failure> {
    // Commands that open ports themselves have no `-i`.
    let given = matches.try_get_raw("interface").ok().flatten();
    let given: Vec<_> = given.into_iter().flatten().collect();
    let ports = config.ports()?;
    if given.len() > ports.len() {
        let error = Diagnostic::new(SR0002, format!("{} ports are given", given.len()));
        let help = format!("the links have {}: {}", ports.len(), listed(&ports));
        return Err(error.with_help(help).into());
    }
    let location = tree::ConfigLocation::flag("-i");
    for (name, port) in given.iter().zip(&ports) {
        let root = config.root.table_at("ports", &location);
        let port = root.and_then(|table| table.table_at(&port.name, &location));
        let table = port.expect("ports were read as tables");
        table.put("dev", tree::ConfigNode::text(name.to_string_lossy(), location.clone()));
    }
    Ok(())
}

fn listed(ports: &[config::PortSetting]) -> String {
    let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
    names.join(", ")
}

fn run_clock(matches: &ArgMatches, config: &EmulationConfig) -> Result<RunClock, Failure> {
    if let Some(files) = matches.get_many::<PathBuf>("virtual") {
        refuse_virtual_route(config)?;
        refuse_ports_flags(matches)?;
        refuse_ports_outputs(&config.outputs()?)?;
        return captures(&files.collect::<Vec<_>>(), matches, config);
    }
    let unnamed = config.ports()?.iter().any(|port| port.device.is_none());
    if unnamed && instead(matches).is_some() {
        // The plan can be printed without ports, and opens none.
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

/// Returns the device of each port of the links, in their order.
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

/// Refuses routing between captures: they have no addresses.
fn refuse_virtual_route(config: &EmulationConfig) -> Result<(), Failure> {
    if config.route()?.is_none() {
        return Ok(());
    }
    let error = Diagnostic::new(SR0003, "-r does not go together with --virtual");
    let error = error.with_cause("a router has the addresses of its interfaces");
    Err(error.with_help("leave -r out: what a link does to frames is the same").into())
}

/// Refuses flags for ports: in virtual time there are none.
///
/// # Errors
/// The first such flag.
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

/// Refuses outputs that need ports, and metrics, since a virtual run ends at once.
///
/// # Errors
/// If one is requested, by a flag or in a file.
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

/// Returns the duration; `None` is endless.
pub fn duration(matches: &ArgMatches) -> Option<Duration> {
    let span = matches.get_one::<TimeSpan>("duration").map(|span| span.duration());
    span.filter(|duration| !duration.is_zero())
}

/// Builds the real-time plan except for flags that may be refused: processors and bursts.
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

fn instead(matches: &ArgMatches) -> Option<PrintInstead> {
    let asked = [("print-settings", PrintInstead::Settings), ("explain", PrintInstead::Figures)];
    asked.into_iter().find(|(id, _)| matches.get_flag(id)).map(|(_, instead)| instead)
}

/// Chooses a seed that is short enough to be typed again.
fn chosen_seed() -> u64 {
    slipring_ring::secret_word() >> 40
}
