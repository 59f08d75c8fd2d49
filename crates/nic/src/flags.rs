//! The flags of `slipring nic`.

use std::convert::Infallible;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use slipring_cli::codes::SR0002;
use slipring_cli::units::{TimeSpan, UnitError};
use slipring_cli::{Diagnostic, Failure, flags};
use slipring_drivers::{CardSettings, Duplex, SettingsRequest};

use crate::timer;

const EXAMPLES: &str = "\
Examples:
  slipring nic list
  slipring nic doctor eth1
  sudo slipring nic bind eth1 --dry-run
  sudo slipring nic bind eth1 --user alice
  sudo slipring nic bind eth0 --force --confirm-within 60
  sudo slipring nic confirm eth0
  sudo slipring nic set eth1 --speed 100 --autoneg off
  sudo slipring nic restore --all
  slipring nic report eth1 --json";

/// The command that the user has given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NicRequest {
    List,
    Doctor { nic: String },
    Bind(BindFlags),
    Confirm { nics: Vec<String> },
    Restore(RestoreFlags),
    Set { nic: String, request: SettingsRequest },
    Report { nic: String },
    Expire { bdf: String },
}

/// The flags of `bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BindFlags {
    pub(crate) nics: Vec<String>,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    pub(crate) confirm_within: Option<Duration>,
    pub(crate) user: Option<String>,
    pub(crate) tap: bool,
}

/// The flags of `restore`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RestoreFlags {
    pub(crate) nics: Vec<String>,
    pub(crate) all: bool,
    /// Whether to end the programs that have the cards open.
    pub(crate) force: bool,
    /// Whether to discard what was saved of cards that are not there.
    pub(crate) forget: bool,
}

/// The flag table.
pub(crate) fn command() -> Command {
    let command = Command::new("nic")
        .about("Take network cards from the kernel for native drivers, and give them back")
        .after_help(EXAMPLES);
    let command = flags::run_dir(flags::reporting(command)).mut_args(|arg| arg.global(true));
    let plain = |name: &'static str, about: &'static str, example: &'static str| {
        Command::new(name).about(about).after_help(format!("Examples:\n  {example}"))
    };
    command.subcommand_required(true).disable_help_subcommand(true).subcommands([
        plain(
            "list",
            "List the network cards, and how well each can be driven",
            "slipring nic list",
        ),
        plain(
            "doctor",
            "Check whether a card can be taken; change nothing",
            "slipring nic doctor eth1",
        )
        .arg(one_card()),
        bind(),
        plain(
            "confirm",
            "Keep cards that were taken with --confirm-within",
            "sudo slipring nic confirm eth0",
        )
        .arg(cards().required(true)),
        restore(),
        set(),
        plain(
            "report",
            "Describe a card and this machine, for the list of tested hardware",
            "slipring nic report eth1",
        )
        .arg(one_card()),
        Command::new(timer::COMMAND_NAME).hide(true).arg(one_card()),
    ])
}

/// Reads the name of a card. Also accepts the name of its port, `vfio:BDF`, which `bind` prints.
fn card(text: &str) -> Result<String, Infallible> {
    Ok(text.strip_prefix("vfio:").unwrap_or(text).to_owned())
}

fn one_card() -> Arg {
    Arg::new("nic")
        .value_name("NIC")
        .required(true)
        .value_parser(card)
        .help("Interface or PCI address")
}

fn cards() -> Arg {
    Arg::new("nic")
        .value_name("NIC")
        .num_args(1..)
        .value_parser(card)
        .help("Interfaces or PCI addresses")
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn bind() -> Command {
    let confirm = Arg::new("confirm-within")
        .long("confirm-within")
        .value_name("TIME")
        .value_parser(seconds)
        .help("Give the cards back after this time, unless `confirm` is run [default unit: s]");
    let user = Arg::new("user")
        .long("user")
        .value_name("USER")
        .value_parser(value_parser!(String))
        .help("User who may open the cards: a name or a number [default: root]");
    Command::new("bind")
        .about("Take cards from their kernel drivers")
        .args([
            cards().required(true),
            switch("dry-run", "Print what would be done, and change nothing"),
            switch("force", "Take cards that this machine uses"),
            confirm,
            user,
            switch("no-tap", "Leave no TAP device with the card's name and addresses"),
        ])
        .after_help(
            "Every check comes before the first change. If a step fails, all is put back.\n\
             Cards with VLANs are refused, also with --force: VLANs are not made again.\n\n\
             Examples:\n  sudo slipring nic bind eth1\n  sudo slipring nic bind 0000:03:00.0 --user alice",
        )
}

fn restore() -> Command {
    Command::new("restore")
        .about("Give cards back to their kernel drivers, with names, addresses and routes")
        .args([
            cards().required_unless_present("all").conflicts_with("all"),
            switch("all", "Every card that was taken"),
            switch("force", "End the programs that have the cards open"),
            switch("forget", "Discard what was saved of cards that are not there any more"),
        ])
        .after_help(
            "A card whose saved state cannot be read gets what its TAP device still has. What was saved of a\n\
             card that is not there, and its TAP device, are kept for its return, unless --forget is given.\n\n\
             Examples:\n  sudo slipring nic restore eth1\n  sudo slipring nic restore --all\n  \
             sudo slipring nic restore 0000:03:00.0 --forget",
        )
}

fn set() -> Command {
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let on_or_off = |name, help| value(name, "on|off", help).value_parser(["on", "off"]);
    Command::new("set")
        .about("Set the link of a card that was taken; without a flag, show it")
        .args([
            one_card(),
            value("speed", "MBIT", "Speed in Mbit/s [default: the best of both ends]")
                .value_parser(value_parser!(u32)),
            value("duplex", "half|full", "Duplex [default: full, if both ends have it]")
                .value_parser(["half", "full"]),
            on_or_off("autoneg", "Negotiate speed and duplex with the other end [default: on]"),
            on_or_off("pause", "Send and obey pause frames [default: off]"),
            value("mtu", "BYTES", "Longest packet to send and receive [default: the chip's]")
                .value_parser(value_parser!(u32)),
            on_or_off("promisc", "Receive frames for other hosts [default: as the program says]"),
            switch("reset", "Forget what was set before"),
        ])
        .after_help(
            "A port that is in use is set at once, and the next one when it is opened.\n\
             What a user sets is added to what root has set, and ends when root gives the card back.\n\n\
             Examples:\n  sudo slipring nic set eth1 --speed 100 --autoneg off\n  slipring nic set eth1",
        )
}

/// Returns the settings that the flags name.
fn settings(args: &ArgMatches) -> CardSettings {
    let text = |name| args.get_one::<String>(name).map(String::as_str);
    let is_on = |name| text(name).map(|value| value == "on");
    CardSettings {
        speed_mbit: args.get_one("speed").copied(),
        duplex: text("duplex")
            .map(|value| if value == "half" { Duplex::Half } else { Duplex::Full }),
        autonegotiation: is_on("autoneg"),
        pause: is_on("pause"),
        mtu: args.get_one("mtu").copied(),
        promiscuous: is_on("promisc"),
    }
}

/// Parses a time. A number without a unit is in seconds.
fn seconds(text: &str) -> Result<TimeSpan, UnitError> {
    TimeSpan::parse(text, Duration::from_secs(1))
}

impl NicRequest {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let (word, args) = matches.subcommand().expect("clap requires one");
        let nics = || args.get_many::<String>("nic").into_iter().flatten().cloned().collect();
        let nic = || args.get_one::<String>("nic").cloned().expect("clap requires it");
        Ok(match word {
            "list" => Self::List,
            "doctor" => Self::Doctor { nic: nic() },
            "bind" => Self::Bind(BindFlags {
                nics: nics(),
                dry_run: args.get_flag("dry-run"),
                force: args.get_flag("force"),
                confirm_within: confirm_within(args)?,
                user: args.get_one::<String>("user").cloned(),
                tap: !args.get_flag("no-tap"),
            }),
            "confirm" => Self::Confirm { nics: nics() },
            "restore" => Self::Restore(RestoreFlags {
                nics: nics(),
                all: args.get_flag("all"),
                force: args.get_flag("force"),
                forget: args.get_flag("forget"),
            }),
            "set" => Self::Set {
                nic: nic(),
                request: SettingsRequest { change: settings(args), reset: args.get_flag("reset") },
            },
            "report" => Self::Report { nic: nic() },
            _ => Self::Expire { bdf: nic() },
        })
    }
}

fn confirm_within(args: &ArgMatches) -> Result<Option<Duration>, Failure> {
    let Some(time) = args.get_one::<TimeSpan>("confirm-within") else { return Ok(None) };
    if time.duration() < Duration::from_secs(1) {
        let error = Diagnostic::new(SR0002, format!("--confirm-within {time} is too short"));
        return Err(error
            .with_cause("no user can confirm in less than a second")
            .with_help("leave yourself a minute: --confirm-within 60")
            .into());
    }
    Ok(Some(time.duration()))
}
