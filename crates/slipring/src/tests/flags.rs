//! Compares the flags of all commands with each other.

use std::collections::BTreeMap;

use clap::{Arg, Command};
use slipring_cli::flags;

use crate::PROGRAM;

/// Flags that mean something else in one command than in others, and the reasons.
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[
    ("bench", "list", "rows; in vale what vale-ctl's -l shows"),
    ("bench", "seconds", "an amount; in ipfw how times are shown"),
    ("daemon", "config", "the daemon's own file, with sections"),
    ("daemon", "mode", "the permissions of the device, in netmap's words"),
    ("daemon", "owner", "the owner of the device"),
    ("daemon", "take-over", "about the ports of clients"),
    ("dedup", "hold", "holds every frame, not some of them"),
    ("dedup", "memory", "an amount; in vale an identifier, as in vale-ctl"),
    ("demo", "duration", "the length of a transfer, not of the run"),
    ("dnctl", "name", "whom to ask, not what this run is called"),
    ("dnctl", "quiet", "ipfw's -q, which also silences replies"),
    ("dump", "count", "tcpdump's --count prints a number only"),
    ("dump", "ethernet", "tcpdump's"),
    ("dump", "hex", "tcpdump's -x and -xx"),
    ("dump", "verbose", "tcpdump's -v, -vv and -vvv"),
    ("dump", "write", "tcpdump's"),
    ("emulate", "burst", "counts frames or bytes, as tlem's"),
    ("emulate", "config", "links, ports and settings, not flags"),
    ("emulate", "print-config", "prints such a file"),
    ("emulate", "rate", "a model of a link's rate, as tlem's -B"),
    ("emulate", "virtual", "captures in and out"),
    ("firewall", "log", "where rules with `log` write"),
    ("gen", "burst", "counts packets, as pkt-gen's"),
    ("gen", "count", "packets in all, as pkt-gen's"),
    ("gen", "loops", "0 by default, as pkt-gen's"),
    ("gen", "speed", "only with --timed"),
    ("ipfw", "name", "whom to ask, not what this run is called"),
    ("ipfw", "quiet", "ipfw's -q, which also silences replies"),
    ("lb", "device", "where the pipes of outputs are made"),
    ("ports", "names", "names only; in ipfw names of services"),
    ("replay", "burst", "counts frames or bytes, as nmreplay's"),
    ("replay", "config", "links, ports and settings, not flags"),
    ("replay", "print-config", "prints such a file"),
    ("replay", "rate", "the pace of the capture, as nmreplay's -B"),
    ("route", "config", "interfaces, rules and limits, not flags"),
    ("route", "print-config", "prints such a file"),
    ("route", "rules", "what no rule matches is dropped"),
    ("run", "config", "links, ports and settings, not flags"),
    ("run", "print-config", "prints such a file"),
    ("run", "rate", "a model of a link's rate, as tlem's -B"),
    ("vale", "set", "settings of a switch"),
    ("vale", "owner", "whose ports and memory to remove"),
];

fn is_other_meaning(command: &str, flag: &str) -> bool {
    OTHER_MEANINGS.iter().any(|(verb, name, _)| (*verb, *name) == (command, flag))
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Returns, by long name, the commands that have each flag. `extcap` is left out: its flags are
/// Wireshark's.
fn flags_of(program: &Command) -> BTreeMap<String, Vec<(String, Arg)>> {
    let mut all = BTreeMap::<String, Vec<_>>::new();
    for command in program.get_subcommands().filter(|command| command.get_name() != "extcap") {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if let Some(name) = arg.get_long() {
                let of_command = (command.get_name().to_owned(), arg.clone());
                all.entry(name.to_owned()).or_default().push(of_command);
            }
        }
    }
    all
}

#[test]
fn a_flag_of_several_commands_has_one_letter_one_value_and_one_help() {
    for (name, mut users) in flags_of(&PROGRAM.command()) {
        users.retain(|(command, _)| !is_other_meaning(command, &name));
        let Some((first_command, first)) = users.first() else { continue };
        // A command's help of the flag begins with the text of the common table, without its unit
        // in brackets. A note may follow.
        let common = flags::help_of(&name).map(|help| help.split(" [").next().unwrap_or(help));
        for (command, arg) in &users {
            match common {
                Some(common) => {
                    let help = help(arg);
                    assert!(help.starts_with(common), "{command} --{name}: {help}");
                }
                None => assert_eq!(help(arg), help(first), "--{name}: {first_command}, {command}"),
            }
            assert_eq!(arg.get_value_names(), first.get_value_names(), "{command} --{name}");
        }
        // A flag has no letter in a command that uses the letter for another flag.
        let mut letters: Vec<_> = users.iter().filter_map(|(_, arg)| arg.get_short()).collect();
        letters.dedup();
        assert!(letters.len() <= 1, "--{name} has the letters {letters:?}");
    }
}

#[test]
fn every_exception_is_needed() {
    let all = flags_of(&PROGRAM.command());
    for (command, name, why) in OTHER_MEANINGS {
        let users = all.get(*name).map_or(&[][..], Vec::as_slice);
        let is_used = users.iter().any(|(user, _)| user == command);
        assert!(is_used, "`{command}` has no --{name}: {why}");
        assert!(users.len() > 1 || flags::help_of(name).is_some(), "only {command} has --{name}");
    }
}
