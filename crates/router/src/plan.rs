//! The plan of a run: the settings of the command line, completed by the file of `--config`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use slipring_cli::codes::{SR0003, SR0006};
use slipring_cli::units::TimeSpan;
use slipring_cli::{Diagnostic, Failure, flags};
use slipring_control::check_name;

use crate::compat::CompatSettings;
use crate::config::{EngineSettings, RouterConfig};
use crate::io_choice::IoChoice;
use crate::live::LiveSettings;
use crate::named_vrfs::NamedVrf;
use crate::planned_ports::check_interfaces;
use crate::policers::{InterfacePolicer, for_policers};
use crate::sandbox::SandboxUser;
use crate::source_checks::SourceCheck;

/// The flag for the file with sections. Its id is not `config`: other commands use a flag with that
/// id to read their flags from a file.
pub(crate) const CONFIG_FLAG: &str = "config-file";
/// The flag that prints the settings as such a file.
pub(crate) const PRINT_FLAG: &str = "print-settings";

/// The settings of a run: those of the command line, and those of the file for flags that were not
/// typed.
#[derive(Clone, Debug)]
pub(crate) struct RoutePlan {
    /// The parsed command line, kept for reading the file again.
    matches: ArgMatches,
    /// The file of settings.
    pub(crate) config: Option<PathBuf>,
    pub(crate) interfaces: Vec<String>,
    /// The engine that was asked for.
    pub(crate) asked_io: IoChoice,
    /// The engine, which rules and policers may have chosen.
    pub(crate) io: IoChoice,
    /// Maximum number of workers of the engine in user space.
    pub(crate) threads: Option<usize>,
    /// Whether the run may start even if the kernel cannot forward in its place.
    pub(crate) no_fallback: bool,
    /// Whether stages of the kernel may be bypassed.
    pub(crate) bypass: bool,
    pub(crate) max_routes: u32,
    /// The file of the rules that check forwarded packets.
    pub(crate) rules: Option<PathBuf>,
    /// Priorities of tagged frames, indexed by the class selector of the DSCP.
    pub(crate) priorities: [u8; 8],
    pub(crate) name: Option<String>,
    pub(crate) period: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    /// The address at which metrics are served.
    pub(crate) metrics: Option<String>,
    /// The user that the router becomes before it forwards; `None` to stay the user that it is.
    pub(crate) user: Option<SandboxUser>,
    /// Whether a running router is to be taken over.
    pub(crate) takes_over: bool,
    /// The settings of netmap-fwd's interface; `None` if it is not requested.
    pub(crate) compat: Option<CompatSettings>,
    /// The rates at which packets from interfaces are accepted.
    pub(crate) policers: Vec<InterfacePolicer>,
    /// How the sources of packets from interfaces are checked.
    pub(crate) source_checks: Vec<SourceCheck>,
    /// Tables for the packets of interfaces, by name.
    pub(crate) vrfs: Vec<NamedVrf>,
    /// Minimum number of VRFs for which space is reserved.
    pub(crate) min_vrfs: usize,
    /// Settings of the threads.
    pub(crate) engine: EngineSettings,
    /// Settings that may change during the run.
    pub(crate) live: LiveSettings,
}

impl RoutePlan {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let config: Option<PathBuf> = matches.get_one(CONFIG_FLAG).cloned();
        let file = config.as_deref().map(RouterConfig::read).transpose()?.unwrap_or_default();
        let interfaces: Vec<String> =
            matches.get_many("interface").into_iter().flatten().cloned().collect();
        let interfaces = match (interfaces.is_empty(), &file.interfaces) {
            (true, Some(named)) => named.clone(),
            _ => interfaces,
        };
        check_names(&interfaces)?;
        check_interfaces(&file, &interfaces)?;
        let compat = CompatSettings::of(matches)?;
        // netmap-fwd reports nothing while it runs. So with its interface, there are reports only
        // if `--period` was typed.
        let reports = compat.is_none() || is_typed(matches, "period");
        let io = typed::<String>(matches, "io").map(|name| IoChoice::of(&name)).or(file.io);
        let asked_io = io.unwrap_or(IoChoice::Auto);
        let threads = typed::<u16>(matches, "threads").map(usize::from).or(file.workers);
        let rules: Option<PathBuf> = typed(matches, "rules").or(file.rules);
        let io = if rules.is_some() { for_rules(asked_io)? } else { asked_io };
        let io = for_policers(&file.policers, &interfaces, io)?;
        let max_routes = typed(matches, "max-routes").or(file.max_routes);
        let name: Option<String> = typed(matches, "name").or(file.name);
        if let Some(name) = &name {
            check_name(name).map_err(|error| Diagnostic::of(&error))?;
        }
        refuse_threads_in_kernel(io, threads)?;
        let metrics: Option<String> = typed(matches, "metrics").or(file.metrics);
        let user: Option<SandboxUser> = typed(matches, "user").or(file.user);
        user.as_ref().map_or(Ok(()), |user| user.check_metrics(metrics.as_deref()))?;
        let takes_over = takes_over(matches, compat.is_some(), user.is_some())?;
        Ok(Self {
            interfaces,
            asked_io,
            io,
            threads,
            rules,
            no_fallback: matches.get_flag("no-fallback") || file.fallback == Some(false),
            bypass: matches.get_flag("bypass-netfilter") || file.bypass == Some(true),
            max_routes: max_routes.unwrap_or(4_000_000),
            priorities: typed(matches, "vlan-priorities").or(file.priorities).unwrap_or_default(),
            name,
            period: flags::period_of(matches).filter(|_| reports),
            duration: matches.get_one::<TimeSpan>("duration").map(|span| span.duration()),
            metrics,
            user,
            takes_over,
            compat,
            policers: file.policers,
            source_checks: file.source_checks,
            vrfs: file.vrfs,
            min_vrfs: file.min_vrfs.unwrap_or(1),
            engine: file.engine,
            live: file.live,
            config,
            matches: matches.clone(),
        })
    }

    /// Reads the files of settings that the command line names again, but not the file of rules.
    /// Returns the new plan.
    ///
    /// # Errors
    /// The mistake in a file.
    pub(crate) fn read_again(&self) -> Result<Self, Failure> {
        Self::of(&self.matches)
    }

    /// Returns the names of settings that differ in `new` and cannot change during a run.
    /// `has_threads` says whether threads of the router forward.
    pub(crate) fn fixed_changes(&self, new: &Self, has_threads: bool) -> Vec<&'static str> {
        let had_rules = self.rules.is_some() == new.rules.is_some();
        let others = [
            ("interfaces", self.interfaces != new.interfaces),
            ("io", self.asked_io != new.asked_io),
            ("threads.workers", self.threads != new.threads),
            ("rules", !had_rules),
            // In XDP there are no policers. Threads can have them, and need not.
            ("policer (it forwards in XDP)", !new.policers.is_empty() && !has_threads),
            ("fallback", self.no_fallback != new.no_fallback),
            ("bypass_netfilter", self.bypass != new.bypass),
            ("threads.busy_poll", self.engine.wait != new.engine.wait),
            ("fib.max_routes", self.max_routes != new.max_routes),
            ("neigh.hold_packets", self.engine.hold_packets != new.engine.hold_packets),
            ("neigh.max_entries", self.engine.max_entries != new.engine.max_entries),
            ("neigh.max_incomplete", self.engine.max_incomplete != new.engine.max_incomplete),
            ("fib.vrfs", self.min_vrfs != new.min_vrfs),
            ("vlan.priorities", self.priorities != new.priorities),
            ("control.name", self.name != new.name),
            ("metrics.listen", self.metrics != new.metrics),
            ("sandbox.user", self.user != new.user),
            ("the settings of netmap-fwd", self.compat != new.compat),
        ];
        let changed = others.into_iter().filter(|(_, is_changed)| *is_changed);
        changed.map(|(name, _)| name).collect()
    }
}

/// Returns whether a running router is to be taken over. Refuses this if the router also has
/// netmap-fwd's command socket and becomes another user: as that user, it could not give the socket
/// its name when the running router has ended.
fn takes_over(matches: &ArgMatches, is_compat: bool, has_user: bool) -> Result<bool, Failure> {
    let takes_over = matches.get_flag("takeover");
    if takes_over && is_compat && has_user {
        let what = "--takeover does not go together with --compat and --user";
        return Err(Diagnostic::new(SR0003, what)
            .with_cause("netmap-fwd's command socket is the running router's until it has ended")
            .with_help(
                "end the running router, and leave out --takeover: slipring route ctl shutdown",
            )
            .into());
    }
    Ok(takes_over)
}

fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The value of a flag, if it was typed.
fn typed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.get_one(id).filter(|_| is_typed(matches, id)).cloned()
}

/// Returns the engine of a router with rules, given the value of `--io`. Fails if the engine that
/// was chosen cannot execute rules.
fn for_rules(io: IoChoice) -> Result<IoChoice, Failure> {
    io.for_rules().ok_or_else(|| {
        Diagnostic::new(SR0003, "--rules does not go together with this value of --io")
            .with_cause("rules are executed by threads, and this engine forwards in XDP")
            .with_help("leave out --io, or choose threads: --io xsk")
            .into()
    })
}

/// Refuses a number of threads if the chosen engine has no threads.
fn refuse_threads_in_kernel(io: IoChoice, threads: Option<usize>) -> Result<(), Failure> {
    let is_in_kernel = matches!(io, IoChoice::Xdp | IoChoice::XdpGeneric);
    if threads.is_none() || !is_in_kernel {
        return Ok(());
    }
    let what = format!("--threads has no effect with --io {}", io.name());
    Err(Diagnostic::new(SR0003, what)
        .with_cause("a program in the kernel forwards, on the CPU on which a packet arrives")
        .with_help("leave out --threads, or choose threads: --io xsk")
        .with_note("in a file, they are workers in [threads], and io")
        .into())
}

fn check_names(interfaces: &[String]) -> Result<(), Failure> {
    if interfaces.len() < 2 {
        return Err(Diagnostic::new(SR0006, "a router needs two interfaces")
            .with_cause(format!("{} given", interfaces.len()))
            .with_help("name the interfaces to forward between: slipring route eth0 eth1")
            .with_note("a file can name them, too: interfaces = [\"eth0\", \"eth1\"]")
            .into());
    }
    let twice = interfaces.iter().enumerate().find(|(at, name)| interfaces[..*at].contains(name));
    twice.map_or(Ok(()), |(_, name)| {
        Err(Diagnostic::new(SR0003, format!("{name} is given twice"))
            .with_help("name each interface once: slipring route eth0 eth1")
            .into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &str) -> String {
        let words = words.split_ascii_whitespace();
        let matches = crate::flags::command().no_binary_name(true).get_matches_from(words);
        match RoutePlan::of(&matches) {
            Err(Failure::Error(error)) => error.to_text(false),
            _ => String::new(),
        }
    }

    #[test]
    fn settings_without_effect_are_refused() {
        for (words, parts) in [
            ("e0 e1 --io xdp --threads 2", ["--threads has no effect with --io xdp", "--io xsk"]),
            ("e0 e1 --io xdp-generic --threads 1", ["no effect with --io xdp-generic", "--io xsk"]),
            ("e0 e1 -f fwd.conf", ["-f has no effect without --compat", "--config"]),
            ("e0 e1 -H", ["-H has no effect without --compat", "leave it out"]),
            ("e0 e1 -b 64", ["-b has no effect without --compat", "leave it out"]),
            (
                "e0 e1 --takeover --compat --user 4711",
                ["--takeover does not go together with --compat and --user", "ctl shutdown"],
            ),
        ] {
            let refusal = refusal(words);
            for part in parts {
                assert!(refusal.contains(part), "{words}: no `{part}` in {refusal}");
            }
        }
        for words in ["e0 e1 --io packet --threads 2", "e0 e1 --threads 2", "e0 e1 --compat -H"] {
            assert_eq!(refusal(words), "", "{words}");
        }
    }

    #[test]
    fn a_name_that_no_run_can_have_is_found_by_a_check() {
        for name in ["a/b", "12", ".x"] {
            let refusal = refusal(&format!("e0 e1 --name {name}"));
            assert!(refusal.contains(&format!("`{name}` is no name for a run")), "{refusal}");
        }
        assert_eq!(refusal("e0 e1 --name edge-1"), "");
    }
}
