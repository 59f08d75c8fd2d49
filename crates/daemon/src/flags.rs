//! The command-line flags of the daemon, and the settings that result from them.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use slipring_cli::{Failure, Job, flags, metrics};
use slipring_nic_provider::NicAccess;

use crate::config::{self, permissions};
use crate::rules::AccessRules;
use crate::scheduling::scheduling;
use crate::settings::{DaemonSettings, SettingsSources};
use crate::{ctl, run, supervise};

pub(crate) fn command() -> Command {
    let command = Command::new("daemon")
        .about("Serve /dev/netmap to programs that were written for netmap")
        .after_help(
            "Needs root and Linux 6.9. Runs until INT or TERM, then takes the device away; programs\n\
             that still have it open see POLLERR and ENOTCONN. HUP reads the configuration again.\n\
             With --supervise, or under systemd, programs go on when the daemon is killed.\n\n\
             Examples:\n  \
             sudo slipring daemon\n  \
             sudo slipring daemon --supervise\n  \
             sudo slipring daemon --mode 0660 --take-over",
        )
        .args_conflicts_with_subcommands(true)
        .args(of_the_device())
        .args(of_ports())
        .args(of_the_file())
        .args(of_the_end());
    let command = flags::configuration(flags::reporting(metrics::flag(command)));
    flags::run_dir(command).subcommand(ctl::command())
}

fn of_the_device() -> [Arg; 6] {
    let names = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("ID").value_parser(value_parser!(u32)).help(help)
    };
    [
        Arg::new("mode")
            .long("mode")
            .value_name("OCTAL")
            .value_parser(|text: &str| permissions(&text.to_owned()))
            .help("Who may open the device [default: 660 where there is a group netmap, else 600]"),
        names("owner", "User ID of the device's owner [default: 0]"),
        names("group", "Group ID of the device [default: that of group netmap, else 0]"),
        Arg::new("workers")
            .long("workers")
            .value_name("N")
            .value_parser(value_parser!(u16).range(2..=64))
            .help("Threads that answer requests [default: one for each processor, 2 to 8]"),
        Arg::new("uring")
            .long("uring")
            .value_name("WHEN")
            .value_parser(["auto", "on", "off"])
            .help("Receive requests by io_uring, with a queue per processor: `auto` if the kernel supports it and no state is kept for restarts; `on` or fail; `off` [default: auto]"),
        Arg::new("link")
            .long("link")
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath)
            .help("Make PATH a link to the device, or `none`. A real device is never replaced [default: /dev/netmap]"),
    ]
}

fn of_ports() -> [Arg; 2] {
    [
        Arg::new("nics-for-all")
            .long("nics-for-all")
            .action(ArgAction::SetTrue)
            .help("Let all users who may open the device take interfaces, not only root"),
        Arg::new("take-over")
            .long("take-over")
            .action(ArgAction::SetTrue)
            .help("Let these users take the interface of the default route, too"),
    ]
}

fn of_the_end() -> [Arg; 2] {
    [Arg::new("scheduling")
        .long("scheduling")
        .value_name("CLASS")
        .value_parser(|text: &str| scheduling(&text.to_owned()))
        .allow_hyphen_values(true)
        .help("How the kernel schedules the daemon: `normal`, `nice:N`, `fifo:N`, `rr:N`. If real-time programs starve the daemon, use a priority above theirs [default: normal]"),
    Arg::new("supervise")
        .long("supervise")
        .action(ArgAction::SetTrue)
        .help("Start the daemon as a child process, and restart it at once when it dies: programs keep their pipes")]
}

fn of_the_file() -> [Arg; 1] {
    // The flag is not named `config`, because other commands read their flags from a file that is
    // given with `--config`.
    [Arg::new("file")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("Read daemon.toml from FILE [default: /etc/slipring/daemon.toml where that is]")]
}

pub(crate) fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if let Some((_, matches)) = matches.subcommand() {
        return ctl::plan(matches);
    }
    let usual = || Some(PathBuf::from(config::DEFAULT_PATH)).filter(|path| path.exists());
    let sources = SettingsSources {
        flags: typed(matches),
        file: matches.get_one("file").cloned().or_else(usual),
        run_dir_typed: matches.contains_id("run-dir") || std::env::var_os("SLIPRING_RUN").is_some(),
    };
    // Mistakes in the file are reported before anything on the machine is changed.
    let settings = sources.read()?;
    if matches.get_flag("supervise") {
        return Ok(Box::new(move |session| supervise::run(&sources, &settings, session)));
    }
    Ok(Box::new(move |session| run::run(sources, settings, session)))
}

fn typed(matches: &ArgMatches) -> DaemonSettings {
    let access = NicAccess {
        all_users: matches.get_flag("nics-for-all"),
        take_over: matches.get_flag("take-over"),
    };
    DaemonSettings {
        mode: matches.get_one("mode").copied(),
        uid: matches.get_one("owner").copied(),
        gid: matches.get_one("group").copied(),
        workers: matches.get_one::<u16>("workers").map(|&count| count.into()),
        uring: matches.get_one("uring").and_then(|word| config::uring(word).ok()),
        scheduling: matches.get_one("scheduling").copied(),
        link: matches.get_one("link").cloned(),
        access_rules: AccessRules { flags: access, ..AccessRules::default() },
        ..DaemonSettings::default()
    }
}
