//! Tests of the examples in the help texts, and of the commands that a report asks for.

use clap::Command;

use crate::PROGRAM;

/// Returns the words of a line, as a shell would split them.
fn words(line: &str) -> Vec<String> {
    let line = line.split("  #").next().unwrap().split(" > ").next().unwrap();
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_ascii_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn examples(command: &Command) -> Vec<Vec<String>> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = text.split("Examples:\n").nth(1).unwrap_or_default().lines();
    lines.map(|line| words(line.trim_start().trim_start_matches("sudo "))).collect()
}

#[test]
fn help_of_every_command_has_examples_and_they_are_command_lines() {
    let program = PROGRAM.command();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let examples = examples(command);
        assert!(!examples.is_empty(), "`slipring {name} --help` has no examples");
        for example in examples {
            assert_eq!(example[..2], ["slipring", name], "{example:?}");
            let parsed = program.clone().try_get_matches_from(&example);
            assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn the_commands_of_a_card_report_are_command_lines() {
    let lines = slipring_nic::measurements("0000:03:00.0", " --force --confirm-within 600");
    let ours: Vec<_> = lines.lines().filter_map(|line| line.strip_prefix("sudo ")).collect();
    assert_eq!(ours.len(), 4, "{lines}");
    for line in ours {
        let parsed = PROGRAM.command().try_get_matches_from(words(line));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}
