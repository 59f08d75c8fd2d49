//! The flags that commands share, so that each means the same everywhere.
//!
//! A flag gets its short letter only if the command does not use that letter itself. So add the
//! command's own flags first, and only then call the functions here that add flags to a command. A
//! flag whose long name the command already has is not added.

mod common;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use slipring_abi::name::PortName;

use crate::ReportFormat;
use crate::units::TimeSpan;

use common::common;
pub use common::{
    burst, copy, cpus, duration, help_of, link_wait, run_name, seed, threads, with_note,
};

/// The value name that marks a flag as taking a port, for completion.
pub const PORT_VALUE: &str = "PORT";

/// The value name that marks an argument as the name of a running program, for completion.
pub const RUN_VALUE: &str = "NAME";

/// The value name that marks an argument as an error code, for completion.
pub const CODE_VALUE: &str = "CODE";

/// `-i PORT`: a port by its name.
#[must_use]
pub fn port() -> Arg {
    common("interface").value_parser(PortName::parse)
}

/// The classic name under which the command was called: a hidden flag with that name as its value.
/// If it is set, numbers have the meaning that they had in the program of that name.
#[must_use]
pub fn called_as(name: &'static str) -> Arg {
    Arg::new(CALLED_AS).long(CALLED_AS).hide(true).default_value(name)
}

/// Whether the command was called by the name of a program that it replaces.
#[must_use]
pub fn is_called_by_classic_name(matches: &ArgMatches) -> bool {
    optional::<String>(matches, CALLED_AS).is_some()
}

const CALLED_AS: &str = "called-as";

/// `-T TIME`: the time between two reports, 1 s by default.
#[must_use]
pub fn period() -> Arg {
    common("period").default_value("1000").value_parser(read_period)
}

/// Returns the period of `-T`; `None` if only the final report was requested.
#[must_use]
pub fn period_of(matches: &ArgMatches) -> Option<Duration> {
    let span = matches.get_one::<TimeSpan>("period")?;
    Some(span.duration()).filter(|period| !period.is_zero())
}

fn read_period(text: &str) -> Result<TimeSpan, Box<dyn Error + Send + Sync>> {
    /// The shortest period accepted. A shorter one is probably a wrong unit: neither a person nor a
    /// pipe could keep up with the reports.
    const MIN_PERIOD: Duration = Duration::from_millis(1);
    let span = TimeSpan::parse(text, Duration::from_millis(1))?;
    if span.nanos() > 0 && span.duration() < MIN_PERIOD {
        return Err("reports come once a millisecond at most, and with 0 only at the end".into());
    }
    Ok(span)
}

/// Adds `--json`, `--quiet`, `--verbose` and `--color`, which control how the command reports.
#[must_use]
pub fn reporting(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    reporting_as(&verb, command)
}

/// Adds the flags of [`reporting`] to a subcommand of `verb` whose reports follow the schema of
/// `verb`.
#[must_use]
pub fn reporting_as(verb: &str, command: Command) -> Command {
    let json = with_note(common("json"), &format!("schema: {verb}-1.json"))
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("document")
        .value_parser(["document", "lines"]);
    let quiet = common("quiet");
    let verbose = common("verbose").action(ArgAction::Count);
    let color = common("color").default_value("auto").value_parser(["auto", "always", "never"]);
    add_flags(command, [json, quiet, verbose, color])
}

/// Adds `--config`, `--print-config` and `--check`, for a command whose flags a file may set.
#[must_use]
pub fn configuration(command: Command) -> Command {
    let config =
        common("config").value_hint(ValueHint::FilePath).value_parser(clap::value_parser!(PathBuf));
    let (print, check) = (common("print-config"), common("check"));
    add_flags(command, [config, print, check])
}

/// Adds `--run-dir`, the directory of sockets and counters.
#[must_use]
pub fn run_dir(command: Command) -> Command {
    let dir =
        common("run-dir").value_hint(ValueHint::DirPath).value_parser(clap::value_parser!(PathBuf));
    add_flags(command, [dir])
}

/// Returns the requested report format.
#[must_use]
pub fn format(matches: &ArgMatches) -> ReportFormat {
    match optional::<String>(matches, "json").map(String::as_str) {
        Some("lines") => ReportFormat::JsonLines,
        Some(_) => ReportFormat::Json,
        None => ReportFormat::Text,
    }
}

/// Returns the verbosity: -1 is quiet, 0 normal, then one more for each `-v`.
#[must_use]
pub fn verbosity(matches: &ArgMatches) -> i8 {
    if optional::<bool>(matches, "quiet") == Some(&true) {
        return -1;
    }
    let verbose = optional::<u8>(matches, "verbose").copied().unwrap_or(0);
    i8::try_from(verbose).unwrap_or(i8::MAX)
}

/// Returns the run directory: the one given by `--run-dir`, or by `$SLIPRING_RUN`, or else the
/// user's default directory. The path is empty if the user has no default directory;
/// `slipring_native_proto::trust` reports that. The default is never a directory that another user
/// could create first.
#[must_use]
pub fn chosen_run_dir(matches: &ArgMatches) -> PathBuf {
    let flag = optional::<PathBuf>(matches, "run-dir").cloned();
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = flag.or_else(|| variable("SLIPRING_RUN").map(PathBuf::from));
    named.or_else(|| STAND_IN_RUN_DIR.get().cloned()).unwrap_or_else(|| {
        let uid = rustix::process::getuid().as_raw();
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        default_run_dir(uid, runtime.as_deref())
    })
}

/// Replaces the user's default run directory.
static STAND_IN_RUN_DIR: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process use `dir` if neither flag nor variable names a run directory: for tests,
/// which must not affect other programs on the machine. Only the first call has an effect.
pub fn stand_in_run_dir(dir: PathBuf) {
    let _ = STAND_IN_RUN_DIR.set(dir);
}

fn default_run_dir(uid: u32, runtime: Option<&Path>) -> PathBuf {
    match (uid, runtime) {
        (0, _) => PathBuf::from("/run/slipring"),
        (_, Some(runtime)) => runtime.join("slipring"),
        (_, None) => PathBuf::new(),
    }
}

/// Returns the flags of the innermost subcommand.
pub(crate) fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// Returns the value of a flag; `None` if it has no value, or if the command does not define it.
pub(crate) fn optional<'m, T>(matches: &'m ArgMatches, id: &str) -> Option<&'m T>
where
    T: std::any::Any + Clone + Send + Sync + 'static,
{
    matches.try_get_one::<T>(id).ok().flatten()
}

fn add_flags<const N: usize>(command: Command, args: [Arg; N]) -> Command {
    args.into_iter().fold(command, |command, arg| {
        let taken = |arg: &Arg| {
            let mut others = command.get_arguments();
            let long = others.any(|other| other.get_long() == arg.get_long());
            let mut others = command.get_arguments();
            let short = others.any(|other| other.get_short() == arg.get_short());
            (long, arg.get_short().is_some() && short)
        };
        match taken(&arg) {
            (true, _) => command,
            (false, true) => command.arg(arg.short(None)),
            (false, false) => command.arg(arg),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(args: &[&str]) -> ArgMatches {
        let command = run_dir(configuration(reporting(Command::new("x"))));
        command.try_get_matches_from(args).unwrap()
    }

    #[test]
    fn json_stands_alone_or_says_lines() {
        for (args, format_wanted) in [
            (vec!["x"], ReportFormat::Text),
            (vec!["x", "-j"], ReportFormat::Json),
            (vec!["x", "--json"], ReportFormat::Json),
            (vec!["x", "--json=lines"], ReportFormat::JsonLines),
        ] {
            assert_eq!(format(&matches(&args)), format_wanted, "{args:?}");
        }
    }

    #[test]
    fn a_period_is_a_millisecond_at_least_or_none() {
        let of = |text: &str| {
            let matches = Command::new("x").arg(period()).try_get_matches_from(["x", "-T", text]);
            matches.map(|matches| period_of(&matches)).map_err(|error| error.to_string())
        };
        assert_eq!(of("0"), Ok(None));
        assert_eq!(of("1"), Ok(Some(Duration::from_millis(1))));
        assert_eq!(of("2s"), Ok(Some(Duration::from_secs(2))));
        for absurd in ["1ns", "999us", "0.5"] {
            assert!(of(absurd).unwrap_err().contains("once a millisecond at most"), "{absurd}");
        }
        assert!(of("soon").unwrap_err().contains("expected a number"));
    }

    #[test]
    fn quiet_and_verbose_make_one_scale() {
        assert_eq!(verbosity(&matches(&["x", "-q"])), -1);
        assert_eq!(verbosity(&matches(&["x"])), 0);
        assert_eq!(verbosity(&matches(&["x", "-vv"])), 2);
    }

    #[test]
    fn a_letter_that_the_command_uses_stays_the_commands() {
        let quiet_is_queues = Arg::new("queues").short('q').long("queues");
        let command = reporting(Command::new("x").arg(quiet_is_queues));
        let matches = command.try_get_matches_from(["x", "-q", "4", "--quiet"]).unwrap();
        assert_eq!(matches.get_one::<String>("queues").unwrap(), "4");
        assert_eq!(verbosity(&matches), -1);
    }

    #[test]
    fn a_command_without_the_flags_reports_as_text() {
        let matches = Command::new("x").get_matches_from(["x"]);
        assert_eq!(format(&matches), ReportFormat::Text);
        assert_eq!(verbosity(&matches), 0);
    }

    #[test]
    fn the_run_directory_suits_the_user() {
        let runtime = Path::new("/run/user/7");
        assert_eq!(default_run_dir(0, Some(runtime)), Path::new("/run/slipring"));
        assert_eq!(default_run_dir(7, Some(runtime)), Path::new("/run/user/7/slipring"));
        assert_eq!(default_run_dir(7, None), Path::new(""), "nothing in /tmp");
        let chosen = chosen_run_dir(&matches(&["x", "--run-dir", "/d"]));
        assert_eq!(chosen, Path::new("/d"));
    }
}
