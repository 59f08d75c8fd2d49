//! Converts clap's errors to diagnostics, and joins flags with negative values that clap would take
//! for flags.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::str::FromStr as _;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use slipring_abi::name::PortNameError;

use crate::Diagnostic;
use crate::codes::{self, ErrorCode};
use crate::units::{ByteCount, RateUnit, RateWithUnit, TimeSpan, UnitError};

/// Converts a parse error of `command` (as typed: `slipring gen`).
///
/// A value refused by a typed parser keeps the code of the parser's own error.
pub(crate) fn diagnostic(error: &clap::Error, command: &str) -> Diagnostic {
    let context = ParseErrorContext { error, command };
    let diagnostic = match error.kind() {
        ErrorKind::UnknownArgument => context.unknown_flag(),
        ErrorKind::InvalidSubcommand => context.unknown_command(),
        ErrorKind::ValueValidation => context.refused_value(),
        ErrorKind::InvalidValue | ErrorKind::InvalidUtf8 => context.unfit_value(),
        ErrorKind::ArgumentConflict => context.conflict(),
        ErrorKind::MissingRequiredArgument => context.missing_flag(),
        ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::NoEquals => context.wrong_number(),
        _ => Diagnostic::new(codes::SR0001, first_line(error))
            .with_cause("the command line cannot be read as flags and values"),
    };
    if crate::Diagnose::help(&diagnostic).is_some() {
        return diagnostic;
    }
    diagnostic.with_help(format!("list the flags: {command} --help"))
}

/// Joins a negative value to its flag, `-t -1s` to `-t=-1s`. If a flag needs a value, a word after
/// it that starts with a dash and a digit or a dot is that value, and not an unknown flag.
pub(crate) fn join_negative_values(command: &Command, args: Vec<OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(args.len());
    for arg in args {
        match joined.last_mut() {
            Some(flag) if is_negative(&arg) && needs_value(command, flag) => {
                flag.push("=");
                flag.push(arg);
            }
            _ => joined.push(arg),
        }
    }
    joined
}

/// Appends the subcommands in `args` to `typed`: `slipring emulate` with the arguments `ctl set -x`
/// gives `slipring emulate ctl set`.
pub(crate) fn meant_command(command: &Command, typed: &str, args: &[OsString]) -> String {
    let (mut typed, mut command) = (typed.to_owned(), command);
    for word in args.iter().filter_map(|arg| arg.to_str()).take_while(|word| *word != "--") {
        if let Some(inner) = command.find_subcommand(word) {
            typed = format!("{typed} {}", inner.get_name());
            command = inner;
        }
    }
    typed
}

fn is_negative(arg: &OsStr) -> bool {
    let [b'-', next, ..] = arg.as_encoded_bytes() else { return false };
    next.is_ascii_digit() || *next == b'.'
}

fn needs_value(command: &Command, flag: &OsStr) -> bool {
    let Some(flag) = flag.to_str() else { return false };
    let is_meant = |arg: &&Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            let mut letters = arg.get_short_and_visible_aliases().into_iter().flatten();
            letters.any(|letter| flag == format!("-{letter}"))
        }
    };
    let optional = |arg: &Arg| arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let arg = command.get_arguments().find(is_meant);
    arg.is_some_and(|arg| arg.get_action().takes_values() && !optional(arg))
}

struct ParseErrorContext<'e> {
    error: &'e clap::Error,
    command: &'e str,
}

impl ParseErrorContext<'_> {
    fn unknown_flag(&self) -> Diagnostic {
        let flag = self.text(ContextKind::InvalidArg);
        if !flag.starts_with('-') {
            return self.unexpected_word(&flag);
        }
        let diagnostic = Diagnostic::new(codes::SR0001, format!("unknown flag `{flag}`"))
            .with_cause(format!("`{}` has no such flag", self.command));
        self.suggest(diagnostic, ContextKind::SuggestedArg)
    }

    /// The error for a word where only flags may appear: usually the unit of a value, or one value
    /// too many.
    fn unexpected_word(&self, word: &str) -> Diagnostic {
        let summary = format!("`{word}` is one word too many");
        let diagnostic = Diagnostic::new(codes::SR0004, summary)
            .with_cause(format!("`{}` takes no word there", self.command));
        match is_unit(word) {
            true => diagnostic.with_help(format!("join the unit to its number: 10{word}")),
            false => diagnostic,
        }
    }

    fn unknown_command(&self) -> Diagnostic {
        let verb = self.text(ContextKind::InvalidSubcommand);
        let diagnostic = Diagnostic::new(codes::SR0005, format!("unknown command `{verb}`"))
            .with_cause(format!("`{}` has no command whose name starts so", self.command));
        self.suggest(diagnostic, ContextKind::SuggestedSubcommand)
    }

    fn refused_value(&self) -> Diagnostic {
        let flag = self.text(ContextKind::InvalidArg);
        let source = self.error.source();
        let typed = source.and_then(|source| {
            let unit = source.downcast_ref::<UnitError>().map(Diagnostic::of);
            unit.or_else(|| source.downcast_ref::<PortNameError>().map(Diagnostic::of))
        });
        match (typed, source) {
            (Some(diagnostic), _) => diagnostic.with_note(format!("given as {flag}")),
            (None, Some(source)) => self.unfit_value().with_cause(source.to_string()),
            (None, None) => self.unfit_value(),
        }
    }

    fn unfit_value(&self) -> Diagnostic {
        let flag = self.text(ContextKind::InvalidArg);
        let value = self.text(ContextKind::InvalidValue);
        if value.is_empty() {
            return self.wrong_number();
        }
        let summary = format!("`{value}` does not fit {flag}");
        let diagnostic = Diagnostic::new(codes::SR0002, summary);
        let valid = self.text(ContextKind::ValidValue);
        if valid.is_empty() {
            return diagnostic;
        }
        let taker = if flag.starts_with('-') { "the flag" } else { "the command" };
        let diagnostic = diagnostic.with_cause(format!("{taker} takes fixed words only"));
        diagnostic.with_help(format!("it is one of: {valid}"))
    }

    fn conflict(&self) -> Diagnostic {
        let flag = self.text(ContextKind::InvalidArg);
        let prior = self.text(ContextKind::PriorArg);
        if prior.is_empty() || prior == flag {
            let summary = format!("{flag} can be given only once");
            return Diagnostic::new(codes::SR0003, summary)
                .with_cause("a second value would contradict the first");
        }
        if flag.is_empty() {
            return self.surplus_word(&prior);
        }
        let summary = format!("{flag} does not go together with {prior}");
        Diagnostic::new(codes::SR0003, summary).with_cause("each asks for what the other excludes")
    }

    /// The error for a subcommand after `flag`, which allows no subcommand. The word is usually one
    /// value too many for `flag`.
    fn surplus_word(&self, flag: &str) -> Diagnostic {
        let summary = format!("{flag} does not go together with the word behind its values");
        Diagnostic::new(codes::SR0003, summary)
            .with_cause("that word would be a command of its own, or one value too many")
            .with_help(format!("see how many values {flag} takes: {} --help", self.command))
    }

    fn missing_flag(&self) -> Diagnostic {
        let flags = self.text(ContextKind::InvalidArg);
        Diagnostic::new(codes::SR0006, format!("missing: {flags}"))
            .with_cause("there is nothing that this could be by default")
    }

    fn wrong_number(&self) -> Diagnostic {
        let flag = self.text(ContextKind::InvalidArg);
        let code: ErrorCode = codes::SR0004;
        if self.error.kind() == ErrorKind::TooManyValues {
            let value = self.text(ContextKind::InvalidValue);
            return Diagnostic::new(code, format!("`{value}` is one value too many for {flag}"))
                .with_cause("the flag takes fewer");
        }
        Diagnostic::new(code, format!("{flag} needs a value"))
            .with_cause("the command line ends, or goes on with a flag, where its value should be")
    }

    fn suggest(&self, diagnostic: Diagnostic, kind: ContextKind) -> Diagnostic {
        match self.text(kind) {
            near if near.is_empty() => diagnostic,
            near => diagnostic.with_help(format!("did you mean `{near}`?")),
        }
    }

    fn text(&self, kind: ContextKind) -> String {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(texts)) => texts.join(", "),
            _ => String::new(),
        }
    }
}

/// Whether the word can follow a number as its unit.
fn is_unit(word: &str) -> bool {
    if word.starts_with(|letter: char| letter.is_ascii_digit()) {
        return false;
    }
    let number = format!("1{word}");
    let is_rate = RateWithUnit::parse(&number, RateUnit::Bits).is_ok();
    is_rate
        || TimeSpan::parse(&number, Duration::from_secs(1)).is_ok()
        || ByteCount::from_str(&number).is_ok()
}

/// Returns the most likely intended name: one edit away, or two for a long word.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let allowed = if word.chars().count() < 6 { 1 } else { 2 };
    let near = names.map(|name| (edit_distance(word, name), name)).min_by_key(|(slips, _)| *slips);
    near.filter(|(slips, _)| *slips <= allowed).map(|(_, name)| name)
}

/// Counts missing, surplus, wrong and transposed letters (the optimal string alignment distance).
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<_>, Vec<_>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let wrong = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = wrong.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnose;
    use clap::ArgAction;
    use slipring_abi::name::PortName;

    fn command() -> Command {
        Command::new("gen")
            .arg(
                Arg::new("port")
                    .short('i')
                    .long("interface")
                    .value_name("PORT")
                    .required(true)
                    .value_parser(PortName::parse),
            )
            .arg(Arg::new("mode").long("mode").value_parser(["tx", "rx"]))
            .arg(
                Arg::new("rate")
                    .long("rate")
                    .value_name("RATE")
                    .value_parser(|text: &str| RateWithUnit::parse(text, RateUnit::Packets)),
            )
            .arg(Arg::new("flood").long("flood").action(ArgAction::SetTrue).conflicts_with("rate"))
    }

    fn words(args: &str) -> String {
        let args = ["gen"].into_iter().chain(args.split_whitespace());
        let error = command().try_get_matches_from(args).unwrap_err();
        let diagnostic = diagnostic(&error, "slipring gen");
        assert_eq!(diagnostic.exit(), crate::Exit::Usage);
        diagnostic.to_string()
    }

    #[test]
    fn an_unknown_flag_names_the_nearest_one() {
        let text = words("-i null: --fload");
        assert!(text.starts_with("error[SR0001]: unknown flag `--fload`\n"), "{text}");
        assert!(text.contains("did you mean `--flood`?"), "{text}");
    }

    #[test]
    fn a_value_too_many_before_commands_is_named_with_its_flag() {
        let command = Command::new("emulate")
            .arg(Arg::new("virtual").long("virtual").value_name("FILE").num_args(2..=4))
            .subcommand(Command::new("ctl"))
            .args_conflicts_with_subcommands(true);
        let words = ["emulate", "--virtual", "a", "b", "c", "d", "e"];
        let error = command.try_get_matches_from(words).unwrap_err();
        let text = diagnostic(&error, "slipring emulate").to_string();
        assert!(!text.contains(":  does not go"), "{text}");
        assert!(text.contains("--virtual"), "{text}");
    }

    #[test]
    fn a_word_too_many_is_not_called_a_flag() {
        for (args, help) in [
            ("-i null: ping", "list the flags: slipring gen --help"),
            ("-i null: 5", "list the flags: slipring gen --help"),
            ("-i null: --rate 10 Gbit", "join the unit to its number: 10Gbit"),
            ("-i null: --rate 10 ms", "join the unit to its number: 10ms"),
        ] {
            let text = words(args);
            let word = args.rsplit(' ').next().unwrap();
            let head = format!("error[SR0004]: `{word}` is one word too many\n");
            assert!(text.starts_with(&head) && text.contains(help), "{text}");
            assert!(!text.contains("such flag"), "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_one_slip_away() {
        let names = || ["gen", "emulate", "run", "top", "dump", "bridge"].into_iter();
        for (word, near) in [
            ("gne", Some("gen")),
            ("egn", Some("gen")),
            ("emluate", Some("emulate")),
            ("bridgee", Some("bridge")),
            ("dmp", Some("dump")),
            ("walk", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names()), near, "{word}");
        }
    }

    #[test]
    fn a_wrong_word_lists_the_right_ones() {
        let text = words("-i null: --mode up");
        assert!(text.starts_with("error[SR0002]: `up` does not fit --mode"), "{text}");
        assert!(text.contains("it is one of: tx, rx"), "{text}");
    }

    #[test]
    fn a_bad_rate_keeps_its_own_code_and_column() {
        let text = words("-i null: --rate 10Gbot");
        assert!(text.starts_with("error[SR0007]: `10Gbot` is not a rate"), "{text}");
        assert!(text.contains("unknown unit `Gbot` for a rate at column 3"), "{text}");
        assert!(text.contains("given as --rate <RATE>"), "{text}");
    }

    #[test]
    fn a_bad_port_name_keeps_its_own_code_and_column() {
        let text = words("-i xdp:eth0/q");
        assert!(text.starts_with("error[SR0101]: `xdp:eth0/q` is not a port name"), "{text}");
        assert!(text.contains("at column 10"), "{text}");
    }

    #[test]
    fn conflicts_repetitions_and_missing_flags_have_codes() {
        let text = words("-i null: --flood --rate 1k");
        assert!(text.starts_with("error[SR0003]: "), "{text}");
        assert!(text.contains("does not go together with"), "{text}");
        let text = words("-i null: --rate 1k --rate 2k");
        assert!(text.contains("can be given only once"), "{text}");
        let text = words("--flood");
        assert!(text.starts_with("error[SR0006]: missing: --interface <PORT>"), "{text}");
        let text = words("-i null: --rate");
        assert!(text.starts_with("error[SR0004]: --rate <RATE> needs a value"), "{text}");
    }

    #[test]
    fn every_usage_error_says_why_and_offers_help() {
        for args in [
            "--bogus",
            "-i",
            "-i null: --mode=",
            "-i null: --mode up",
            "-i null: --flood --rate 1k",
            "-i null: --rate 1k --rate 2k",
            "stray",
            "",
        ] {
            let words = words(args);
            assert!(words.contains("  cause: "), "{args}: {words}");
            assert!(words.contains("   help: "), "{args}: {words}");
        }
    }

    #[test]
    fn a_command_of_a_command_is_named_whole() {
        let inner = Command::new("ctl").subcommand(Command::new("set"));
        let command = Command::new("emulate").subcommand(inner);
        let of = |words: &str| {
            let words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
            meant_command(&command, "slipring emulate", &words)
        };
        assert_eq!(of("ctl set --bogus"), "slipring emulate ctl set");
        assert_eq!(of("ctl --bogus"), "slipring emulate ctl");
        assert_eq!(of("set --bogus"), "slipring emulate");
        assert_eq!(of("-- ctl"), "slipring emulate");
    }

    #[test]
    fn a_negative_value_is_a_value_of_its_flag() {
        let text = |args: &str| {
            let args = args.split_whitespace().map(OsString::from).collect();
            let joined = join_negative_values(&command(), args);
            joined.iter().map(|arg| arg.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("--rate -1Mpps -i -5"), "--rate=-1Mpps -i=-5");
        assert_eq!(text("--rate -.5"), "--rate=-.5");
        // A digit after a dash is not joined if it is itself a flag, or if the flag before it takes
        // no value.
        assert_eq!(text("-i null: -4 --flood -6"), "-i null: -4 --flood -6");
        assert_eq!(text("--rate --flood"), "--rate --flood");
        let words = words(&text("-i null: --rate -1"));
        assert!(words.starts_with("error[SR0007]: `-1` is not a rate"), "{words}");
    }
}
