//! Lines from a terminal, with a history and completion.

use clap::Command;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use slipring_cli::codes::SR0499;
use slipring_cli::{Diagnostic, Failure};

const PROMPT: &str = "route> ";
/// Words that are commands of the shell only.
const SHELL_WORDS: [&str; 2] = ["exit", "help"];
/// Words that are followed by the name of an interface.
const BEFORE_INTERFACES: [&str; 2] = ["interface", "recv"];

/// Reads lines from the terminal.
pub(super) struct TerminalInput(Editor<WordCompleter, MemHistory>);

impl TerminalInput {
    /// Opens the terminal. `table` contains the commands, `interfaces` the names of the router's
    /// interfaces.
    ///
    /// # Errors
    /// If the terminal cannot be used.
    pub(super) fn new(table: Command, interfaces: Vec<String>) -> Result<Self, Failure> {
        let config =
            Config::builder().auto_add_history(true).completion_type(CompletionType::List).build();
        let history = MemHistory::with_config(&config);
        let editor = Editor::with_history(config, history);
        let mut editor = editor.map_err(broken_terminal)?;
        editor.set_helper(Some(WordCompleter::new(table, interfaces)));
        Ok(Self(editor))
    }

    /// Returns the next line; `None` at the end of the input. Ctrl-C discards the line.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, Failure> {
        loop {
            match self.0.readline(PROMPT) {
                Ok(line) => return Ok(Some(line)),
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(broken_terminal(error)),
            }
        }
    }
}

fn broken_terminal(error: impl ToString) -> Failure {
    Diagnostic::new(SR0499, "the terminal cannot be read")
        .with_cause(error.to_string())
        .with_help("give the commands by a pipe: echo status | slipring route ctl")
        .into()
}

/// Completes words from the table of commands.
struct WordCompleter {
    table: Command,
    interfaces: Vec<String>,
}

impl WordCompleter {
    fn new(mut table: Command, interfaces: Vec<String>) -> Self {
        // Adds the global flags to each command.
        table.build();
        Self { table, interfaces }
    }

    /// Returns the words that may follow the words in `before`.
    fn candidates(&self, before: &[&str]) -> Vec<String> {
        if before.last().is_some_and(|last| BEFORE_INTERFACES.contains(last)) {
            return self.interfaces.clone();
        }
        let mut command = &self.table;
        for word in before {
            command = command.find_subcommand(word).unwrap_or(command);
        }
        let inner = command.get_subcommands().map(|inner| inner.get_name().to_owned());
        let own = SHELL_WORDS.iter().filter(|_| before.is_empty()).map(|word| (*word).to_owned());
        let flags = command.get_arguments().filter_map(|arg| arg.get_long());
        let flags = flags.filter(|_| !before.is_empty()).map(|flag| format!("--{flag}"));
        let is_leaf = !before.is_empty() && !command.has_subcommands();
        let inner = inner.chain(own);
        if is_leaf { inner.chain(flags).collect() } else { inner.collect() }
    }
}

impl Completer for WordCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = typed.split_at(start);
        let before: Vec<_> = before.split_ascii_whitespace().collect();
        let mut found = self.candidates(&before);
        found.retain(|candidate| candidate.starts_with(word));
        found.iter_mut().for_each(|candidate| candidate.push(' '));
        Ok((start, found))
    }
}

impl Hinter for WordCompleter {
    type Hint = String;
}
impl Highlighter for WordCompleter {}
impl Validator for WordCompleter {}
impl Helper for WordCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_what_comes_before() {
        let interfaces = ["eth0", "eth1.100"].map(str::to_owned).into();
        let completer = WordCompleter::new(crate::ctl::command(), interfaces);
        let history = MemHistory::new();
        let complete =
            |line: &str| completer.complete(line, line.len(), &Context::new(&history)).unwrap();
        assert_eq!(complete("sta"), (0, vec!["status ".to_owned()]));
        assert_eq!(complete("route g"), (6, vec!["get ".to_owned()]));
        assert_eq!(complete("interface eth1"), (10, vec!["eth1.100 ".to_owned()]));
        assert_eq!(complete("why udp a b recv eth0"), (17, vec!["eth0 ".to_owned()]));
        assert_eq!(complete("ex"), (0, vec!["exit ".to_owned()]));
        assert!(complete("status --js").1.contains(&"--json ".to_owned()));
        assert!(complete("nothing like that ").1.len() < 20);
    }
}
