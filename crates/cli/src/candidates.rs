//! Completion candidates at the cursor: the completion scripts of bash, zsh and fish run `slipring
//! candidates -- slipring gen -i `.
//!
//! Each line of the answer is a word and, if it has a meaning, a tab and the meaning. An empty
//! answer leaves the word to the shell, which completes file names.

use clap::{Arg, Command};
use slipring_abi::name::kind::{KindGrammar, PLANNED};
use slipring_abi::name::{KINDS, NameForm, PortNameKind};
use slipring_control::running;

use crate::codes::entries;
use crate::flags::{CODE_VALUE, PORT_VALUE, RUN_VALUE};
use crate::verb::Session;

/// A word and its meaning.
type CompletionCandidate = (String, String);

/// Returns candidates for the last of `words`; the first word is the program's name.
pub(crate) fn candidates(words: &[String], session: &Session<'_>) -> Vec<CompletionCandidate> {
    let Some(([_, before @ ..], last)) = words.split_last().map(|(last, rest)| (rest, last)) else {
        return Vec::new();
    };
    let mut program = session.program.command();
    // `build` copies global flags into the subcommands, so that the code below finds them there.
    program.build();
    let point = CompletionPoint::after(&program, before);
    let found = match point.target(last) {
        CompletionTarget::Value(arg, start) => values(arg, session)
            .into_iter()
            .map(|(word, about)| (format!("{start}{word}"), about))
            .collect(),
        CompletionTarget::Flag => flags_of(point.command),
        CompletionTarget::Word => [commands_of(point.command), point.positional(session)].concat(),
    };
    // A word such as `netmap:` that the user has already typed completely is no useful candidate.
    let is_new = |word: &str| word != last || !word.ends_with(':');
    let fits = |word: &str| word.starts_with(last.as_str()) && is_new(word);
    found.into_iter().filter(|(word, _)| fits(word)).collect()
}

/// What the words before the cursor have determined: the command whose argument is completed, and
/// which of its arguments comes next.
struct CompletionPoint<'c> {
    command: &'c Command,
    /// The flag in the last of these words, if its value is still missing.
    flag: Option<&'c Arg>,
    /// Number of positional arguments of the command before the cursor.
    positionals_seen: usize,
    /// Whether a `--` has ended the flags.
    flags_ended: bool,
}

enum CompletionTarget<'c> {
    /// The value of an argument. The second field is the text before the value in the same word,
    /// such as `--port=`.
    Value(&'c Arg, String),
    Flag,
    Word,
}

impl<'c> CompletionPoint<'c> {
    fn after(program: &'c Command, before: &[String]) -> Self {
        let mut point =
            Self { command: program, flag: None, positionals_seen: 0, flags_ended: false };
        before.iter().for_each(|word| point.advance(word));
        point
    }

    fn advance(&mut self, word: &str) {
        if self.flag.take().is_some() {
            return;
        }
        match word {
            "--" => self.flags_ended = true,
            _ if word.starts_with('-') && !self.flags_ended => self.flag = self.unfinished(word),
            _ => match self.command.find_subcommand(word).filter(|_| self.positionals_seen == 0) {
                Some(inner) => (self.command, self.positionals_seen) = (inner, 0),
                None => self.positionals_seen += 1,
            },
        }
    }

    /// Returns the flag that `word` names, if the next word is the flag's value.
    fn unfinished(&self, word: &str) -> Option<&'c Arg> {
        let mut all = self.command.get_arguments();
        let arg = match word.strip_prefix("--") {
            Some(name) => all.find(|arg| arg.get_long() == Some(name)),
            None => {
                let last = word.chars().next_back();
                all.find(|arg| arg.get_short() == last)
            }
        };
        arg.filter(|arg| arg.get_num_args().is_some_and(|count| count.min_values() > 0))
    }

    fn target(&self, last: &str) -> CompletionTarget<'c> {
        if let Some(arg) = self.flag {
            return CompletionTarget::Value(arg, String::new());
        }
        if !last.starts_with('-') || self.flags_ended {
            return CompletionTarget::Word;
        }
        let mut all = self.command.get_arguments();
        match last.split_once('=') {
            Some((flag, _)) => {
                let name = flag.strip_prefix("--");
                let named = name.and_then(|name| all.find(|arg| arg.get_long() == Some(name)));
                named.map_or(CompletionTarget::Flag, |arg| {
                    CompletionTarget::Value(arg, format!("{flag}="))
                })
            }
            None => CompletionTarget::Flag,
        }
    }

    /// Returns candidates for the next positional argument.
    fn positional(&self, session: &Session<'_>) -> Vec<CompletionCandidate> {
        let mut all = self.command.get_positionals();
        let many = |arg: &&Arg| arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        let next = all
            .nth(self.positionals_seen)
            .or_else(|| self.command.get_positionals().last().filter(many));
        next.map(|arg| values(arg, session)).unwrap_or_default()
    }
}

fn commands_of(command: &Command) -> Vec<CompletionCandidate> {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let all = shown.flat_map(|inner| {
        let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
        inner
            .get_name_and_visible_aliases()
            .into_iter()
            .map(move |name| (name.to_owned(), about.clone()))
    });
    all.collect()
}

fn flags_of(command: &Command) -> Vec<CompletionCandidate> {
    let shown = command.get_opts().chain(command.get_arguments().filter(|arg| is_switch(arg)));
    let all = shown.filter(|arg| !arg.is_hide_set()).flat_map(|arg| {
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let long = arg.get_long().map(|name| format!("--{name}"));
        let short = arg.get_short().map(|name| format!("-{name}"));
        long.into_iter().chain(short).map(move |flag| (flag, about.clone()))
    });
    all.collect()
}

fn is_switch(arg: &Arg) -> bool {
    !arg.is_positional() && !arg.get_action().takes_values()
}

/// Returns the known values of an argument.
fn values(arg: &Arg, session: &Session<'_>) -> Vec<CompletionCandidate> {
    let kind = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match kind {
        Some(PORT_VALUE) => ports(session.program.output_lines(&["ports", "--names"])),
        Some(RUN_VALUE) => {
            let runs = running(&session.run_dir).into_iter();
            let names = |run: slipring_control::RunningProgram| match run.names.is_empty() {
                true => vec![(run.pid.to_string(), String::new())],
                false => run
                    .names
                    .into_iter()
                    .map(|name| (name, format!("process {}", run.pid)))
                    .collect(),
            };
            runs.flat_map(names).collect()
        }
        Some(CODE_VALUE) => {
            entries().map(|entry| (entry.code.to_string(), entry.title.to_owned())).collect()
        }
        _ => arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| {
                let about = value.get_help().map(ToString::to_string).unwrap_or_default();
                (value.get_name().to_owned(), about)
            })
            .collect(),
    }
}

/// Returns candidates for a port name. First come the given names. Then each given name
/// `netmap:eth0` is repeated with the prefix of every other kind that opens interfaces
/// (`xdp:eth0`). Last come the bare prefixes of all kinds (`pcap:`).
fn ports(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let names: Vec<_> = names.collect();
    let kinds = || KINDS.iter().filter(|kind| !kind.has(PLANNED)).map(PortNameKind::grammar);
    let by_kind = |form: &KindGrammar| {
        let word = form.word;
        let interfaces = names.iter().filter_map(|name| name.strip_prefix("netmap:"));
        interfaces.map(move |name| format!("{word}:{name}")).collect::<Vec<_>>()
    };
    let others = kinds().filter(|kind| kind.form == NameForm::Interface && kind.word != "netmap");
    let others: Vec<_> = others.flat_map(by_kind).collect();
    let words = kinds().map(|kind| format!("{}:", kind.word));
    let plain = |word: String| (word, String::new());
    names.iter().cloned().chain(others).chain(words).map(plain).collect()
}

/// Formats one candidate per line, with the first line of its meaning.
pub(crate) fn lines(candidates: &[CompletionCandidate]) -> String {
    let line = |(word, about): &CompletionCandidate| match about.lines().next() {
        Some(about) if !about.is_empty() => format!("{word}\t{about}\n"),
        _ => format!("{word}\n"),
    };
    candidates.iter().map(line).collect()
}
