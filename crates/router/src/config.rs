//! The file of `--config`: interfaces, engine, rules and limits, in sections. Flags on the command
//! line take precedence over the file.

mod print;

use std::path::{Path, PathBuf};

use slipring_cli::sections::{SettingsFile, SettingsSection};
use slipring_cli::{Diagnostic, metrics};
use slipring_control::check_name;
use slipring_neighbour::NeighbourLimits;
use slipring_port::WaitStrategy;
use slipring_route::PuntClass;

use crate::io_choice::IoChoice;
use crate::live::LiveSettings;
use crate::lookup_tables::MAX_VRFS;
use crate::named_vrfs::{self, NamedVrf};
use crate::policers::InterfacePolicer;
use crate::sandbox::SandboxUser;
use crate::source_checks::{self, SourceCheck};

pub(crate) use print::print;

/// The contents of a file. Settings that also have a flag are `None` if the file does not set them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RouterConfig {
    pub(crate) interfaces: Option<Vec<String>>,
    pub(crate) io: Option<IoChoice>,
    pub(crate) fallback: Option<bool>,
    pub(crate) bypass: Option<bool>,
    pub(crate) rules: Option<PathBuf>,
    pub(crate) workers: Option<usize>,
    pub(crate) max_routes: Option<u32>,
    pub(crate) priorities: Option<[u8; 8]>,
    pub(crate) name: Option<String>,
    pub(crate) metrics: Option<String>,
    /// The user that the router becomes.
    pub(crate) user: Option<SandboxUser>,
    pub(crate) policers: Vec<InterfacePolicer>,
    pub(crate) source_checks: Vec<SourceCheck>,
    pub(crate) vrfs: Vec<NamedVrf>,
    /// Minimum number of VRFs for which space is reserved.
    pub(crate) min_vrfs: Option<usize>,
    pub(crate) engine: EngineSettings,
    pub(crate) live: LiveSettings,
}

/// Settings of the threads. They cannot change during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineSettings {
    pub(crate) wait: WaitStrategy,
    /// Maximum number of packets that wait for one neighbour.
    pub(crate) hold_packets: u32,
    /// Maximum number of neighbours per interface, in any state.
    pub(crate) max_entries: u32,
    /// Maximum number of neighbours per interface that are being resolved.
    pub(crate) max_incomplete: u32,
}

impl Default for EngineSettings {
    fn default() -> Self {
        let wait = WaitStrategy::default();
        Self { wait, hold_packets: 128, max_entries: 65_536, max_incomplete: 4096 }
    }
}

impl EngineSettings {
    /// Returns `within` with these limits for neighbours.
    pub(crate) fn limits(&self, within: NeighbourLimits) -> NeighbourLimits {
        NeighbourLimits {
            entries: self.max_entries as usize,
            incomplete: self.max_incomplete as usize,
            frames_per_neighbour: self.hold_packets as usize,
            ..within
        }
    }
}

/// The values of `busy_poll`.
const BUSY_POLL: [&str; 3] = ["adaptive", "always", "never"];

impl RouterConfig {
    /// Reads a file. Relative paths in the file start at the file's directory.
    ///
    /// # Errors
    /// The first mistake, with its line, and the values that are allowed there.
    pub(crate) fn read(path: &Path) -> Result<Self, Diagnostic> {
        let dir = path.parent().unwrap_or(Path::new(""));
        SettingsFile::open(path)?.read(|root| Self::of(root, dir))
    }

    fn of(root: &mut SettingsSection<'_>, dir: &Path) -> Result<Self, Diagnostic> {
        let interfaces = root.texts("interfaces")?;
        if interfaces.as_ref().is_some_and(|names| names.len() < 2) {
            let help = "name the interfaces to forward between: interfaces = [\"eth0\", \"eth1\"]";
            return Err(root.mistake("interfaces", "a router needs two interfaces", help));
        }
        let io = root.word("io", &IoChoice::NAMES)?.map(IoChoice::of);
        let rules = root.text("rules")?.map(|rules| dir.join(rules));
        if let (Some(io), true) = (io, rules.is_some())
            && io.for_rules().is_none()
        {
            let help = "leave out io, or choose threads: io = \"xsk\"";
            let what = "rules are executed by a thread, and this engine has none for them";
            return Err(root.mistake("io", what, help));
        }
        let (workers, wait) = root.section("threads", threads)?;
        let FibSettings { max_routes, coalesce_ns, min_vrfs } = root.section("fib", fib)?;
        let engine = root.section("neigh", neighbours)?;
        let mut live = root.section("icmp", icmp)?;
        live.coalesce_ns = coalesce_ns.unwrap_or(live.coalesce_ns);
        live.punt_rates = root.section("punt", punt_rates)?;
        Ok(Self {
            io,
            rules,
            workers,
            max_routes,
            live,
            engine: EngineSettings { wait: wait.unwrap_or_default(), ..engine },
            fallback: root.switch("fallback")?,
            bypass: root.switch("bypass_netfilter")?,
            priorities: root.section("vlan", priorities)?,
            name: root.section("control", |control| control.parsed("name", run_name))?,
            metrics: root.section("metrics", |it| it.parsed("listen", metrics::address))?,
            user: root.section("sandbox", |it| it.parsed("user", SandboxUser::find))?,
            policers: root.sections("policer", InterfacePolicer::read)?,
            source_checks: root.section(source_checks::SECTION, |section| {
                SourceCheck::read(section, interfaces.as_deref())
            })?,
            vrfs: vrfs(root, interfaces.as_deref())?,
            min_vrfs,
            interfaces,
        })
    }
}

fn run_name(name: &str) -> Result<String, String> {
    let allowed = "letters, digits, - _ and ., 64 at most, not digits alone";
    check_name(name).map(|()| name.to_owned()).map_err(|_| allowed.to_owned())
}

fn threads(
    section: &mut SettingsSection<'_>,
) -> Result<(Option<usize>, Option<WaitStrategy>), Diagnostic> {
    let workers = section.number("workers", 1..=1024)?;
    let wait = section.word("busy_poll", &BUSY_POLL)?.map(|word| match word {
        "always" => WaitStrategy::Spin,
        "never" => WaitStrategy::Sleep,
        _ => WaitStrategy::default(),
    });
    Ok((workers.map(|count| count as usize), wait))
}

fn vrfs(
    root: &mut SettingsSection<'_>,
    known: Option<&[String]>,
) -> Result<Vec<NamedVrf>, Diagnostic> {
    let vrfs = root.sections(named_vrfs::SECTION, |section| NamedVrf::read(section, known))?;
    match named_vrfs::check_apart(&vrfs) {
        Ok(()) => Ok(vrfs),
        Err(what) => Err(root.mistake(named_vrfs::SECTION, &what, "leave one out")),
    }
}

struct FibSettings {
    max_routes: Option<u32>,
    coalesce_ns: Option<u64>,
    min_vrfs: Option<usize>,
}

fn fib(section: &mut SettingsSection<'_>) -> Result<FibSettings, Diagnostic> {
    let max_routes = section.number("max_routes", 1..=u64::from(u32::MAX))?;
    // A heartbeat promises that the tables are at most 100 ms old, so changes are not collected for
    // longer than half of that.
    let coalesce_ms = section.number("coalesce_ms", 0..=50)?;
    let min_vrfs = section.number("vrfs", 1..=MAX_VRFS as u64)?;
    Ok(FibSettings {
        max_routes: max_routes.map(|count| count as u32),
        coalesce_ns: coalesce_ms.map(|ms| ms * 1_000_000),
        min_vrfs: min_vrfs.map(|count| count as usize),
    })
}

fn neighbours(section: &mut SettingsSection<'_>) -> Result<EngineSettings, Diagnostic> {
    let usual = EngineSettings::default();
    let mut number = |key, usual, most| {
        let found = section.number(key, 1..=most)?;
        Ok::<_, Diagnostic>(found.map_or(usual, |count| count as u32))
    };
    Ok(EngineSettings {
        hold_packets: number("hold_packets", usual.hold_packets, 4096)?,
        max_entries: number("max_entries", usual.max_entries, 1 << 20)?,
        max_incomplete: number("max_incomplete", usual.max_incomplete, 1 << 16)?,
        ..usual
    })
}

fn icmp(section: &mut SettingsSection<'_>) -> Result<LiveSettings, Diagnostic> {
    let mut live = LiveSettings::default();
    let limits = &mut live.icmp_limits;
    if let Some(rate) = section.number("errors_per_s", 0..=1_000_000)? {
        // The burst is the number of errors that the rate permits in a twentieth of a second.
        (limits.per_second, limits.burst) = (rate as u32, rate.div_ceil(20) as u32);
    }
    if let Some(rate) = section.number("per_source_per_s", 0..=1_000_000)? {
        (limits.destination_per_second, limits.destination_burst) = (rate as u32, rate as u32);
    }
    live.sends_redirects = section.switch("redirects")?.unwrap_or(live.sends_redirects);
    Ok(live)
}

fn punt_rates(section: &mut SettingsSection<'_>) -> Result<[u64; PuntClass::COUNT], Diagnostic> {
    let mut rates = LiveSettings::default().punt_rates;
    for (class, rate) in PuntClass::ALL.into_iter().zip(&mut rates) {
        *rate = section.number(class.name(), 1..=100_000_000)?.unwrap_or(*rate);
    }
    Ok(rates)
}

fn priorities(section: &mut SettingsSection<'_>) -> Result<Option<[u8; 8]>, Diagnostic> {
    let Some(points) = section.numbers("priorities", 0..=7)? else { return Ok(None) };
    let points: Vec<u8> = points.into_iter().map(|point| point as u8).collect();
    points.try_into().map(Some).map_err(|_| {
        let help = "write one for each DSCP class selector: [0, 1, 2, 3, 4, 5, 6, 7]";
        section.mistake("priorities", "eight priorities are needed", help)
    })
}

#[cfg(test)]
mod tests;
