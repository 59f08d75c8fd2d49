//! From `argv` to the exit status: finds the command, parses, plans, runs, and prints errors.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Command;
use clap::error::ErrorKind;

use crate::builtin::BUILTIN;
use crate::codes::SR0005;
use crate::report::RunIdentity;
use crate::reporter::EarlyReportOptions;
use crate::verb::{ClassicName, CliProgram, Session, Verb};
use crate::{
    Diagnostic, Exit, Failure, OutputStreams, ReportFormat, Reporter, config, flags, usage,
};

impl CliProgram {
    /// Runs the command line of this process.
    #[must_use]
    pub fn main(&self) -> ExitCode {
        let args: Vec<_> = std::env::args_os().collect();
        self.run(&args, OutputStreams::standard()).into()
    }

    /// Runs a command line, `args[0]` included, and returns the exit status.
    #[must_use]
    pub fn run(&self, args: &[OsString], streams: OutputStreams) -> u8 {
        let identity = RunIdentity { command: typed_line(args), version: self.version, seed: None };
        let mut reporter = Reporter::new(streams, early_options(args), identity);
        let mut status = None;
        let (classic, result) = match self.find_invocation(args) {
            Ok(call) => (call.classic, self.execute(&call, &mut reporter, &mut status)),
            Err(failure) => (None, Err(failure)),
        };
        let exit = match result {
            Ok(exit) => exit,
            Err(Failure::ReaderLeft) => Exit::Done,
            Err(Failure::Error(error)) => reporter.report_error(&error),
        };
        status.unwrap_or_else(|| classic.map_or(exit.status(), |classic| classic.status_of(exit)))
    }

    /// Returns the flag table of the whole program.
    #[must_use]
    pub fn command(&self) -> Command {
        let root = Command::new(self.name)
            .about(self.about)
            .version(self.version)
            .disable_help_subcommand(true);
        root.subcommands(self.all_verbs().map(|verb| self.flag_table(verb)))
    }

    /// Returns the flag table of one command.
    fn flag_table(&self, verb: &Verb) -> Command {
        let classic = verb.classic.iter().map(|classic| classic.name);
        (verb.command)()
            .name(verb.name)
            .version(self.version)
            .visible_aliases(classic.filter(|name| *name != verb.name))
    }

    /// Returns the lines that a command prints; none if it fails.
    pub(crate) fn output_lines(&self, args: &[&str]) -> impl Iterator<Item = String> {
        let caught = CapturedStream::default();
        let talk = Box::new(io::sink());
        let streams =
            OutputStreams { stdout: Box::new(caught.clone()), stderr: talk, coloured: false };
        let args: Vec<_> = [self.name].iter().chain(args).map(OsString::from).collect();
        let well = self.run(&args, streams) == 0;
        let text = caught.0.take();
        let text = String::from_utf8_lossy(if well { &text[..] } else { &[] }).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn all_verbs(&self) -> impl Iterator<Item = &Verb> {
        self.verbs.iter().chain(&BUILTIN)
    }

    fn execute(
        &self,
        call: &Invocation<'_>,
        reporter: &mut Reporter,
        status: &mut Option<u8>,
    ) -> Result<Exit, Failure> {
        let Some(verb) = call.verb else {
            return self.execute_root(call, reporter);
        };
        let mut command = self.flag_table(verb).bin_name(&call.typed_command);
        if let Some(classic) = call.classic {
            command = command.arg(flags::called_as(classic.name));
        }
        let typed = usage::join_negative_values(&command, call.args.clone());
        let args = match command.get_arguments().any(|arg| arg.get_id() == "config") {
            true => config::merge_config(&command, &typed)?,
            false => typed,
        };
        let with_name = [OsString::from(&call.typed_command)].into_iter().chain(args);
        let matches = match command.try_get_matches_from_mut(with_name) {
            Ok(matches) => matches,
            Err(error) => {
                let typed = usage::meant_command(&command, &call.typed_command, &call.args);
                return parse_refusal(&error, &typed, reporter);
            }
        };
        let innermost = flags::innermost(&matches);
        reporter.adopt(flags::format(innermost), flags::verbosity(innermost));
        if flags::optional(&matches, "print-config") == Some(&true) {
            reporter.raw(config::print_config(&command, &matches).as_bytes())?;
            return Ok(Exit::Done);
        }
        let job = (verb.plan)(&matches)?;
        if flags::optional(&matches, "check") == Some(&true) {
            return Ok(Exit::Done);
        }
        let mut session = Session {
            reporter,
            classic: call.classic.map(|classic| classic.name),
            run_dir: flags::chosen_run_dir(flags::innermost(&matches)),
            metrics: flags::optional::<String>(innermost, crate::metrics::METRICS_FLAG).cloned(),
            program: self,
            status: None,
        };
        let exit = job(&mut session);
        *status = session.status;
        exit
    }

    /// Handles `slipring`, `slipring --help` and other command lines without a command.
    fn execute_root(
        &self,
        call: &Invocation<'_>,
        reporter: &mut Reporter,
    ) -> Result<Exit, Failure> {
        let mut root = self.command();
        if call.args.is_empty() {
            reporter.say(root.render_help())?;
            return Ok(Exit::Usage);
        }
        let with_name = [OsString::from(self.name)].into_iter();
        match root.try_get_matches_from_mut(with_name.chain(call.args.iter().cloned())) {
            Ok(_) => Ok(Exit::Done),
            Err(error) => parse_refusal(&error, self.name, reporter),
        }
    }

    /// Finds the command by `argv[0]`, or else by the first argument.
    fn find_invocation(&self, args: &[OsString]) -> Result<Invocation<'_>, Failure> {
        let program = args.first().map_or(OsStr::new(self.name), OsString::as_os_str);
        let rest = args.get(1..).unwrap_or_default();
        let base = Path::new(program).file_name().and_then(OsStr::to_str);
        if let Some((base, (verb, classic))) = base.and_then(|base| {
            let name = base.strip_prefix("slipring-").unwrap_or(base);
            Some((base, self.find_verb(name)?))
        }) {
            return Ok(Invocation::new(verb, classic, base, rest));
        }
        match rest.split_first() {
            Some((word, more)) if word == "help" => Ok(self.help_call(more)),
            Some((word, more)) if !word.as_encoded_bytes().starts_with(b"-") => {
                self.verb_call(word, more)
            }
            _ => Ok(Invocation::root(rest)),
        }
    }

    fn verb_call(&self, word: &OsStr, rest: &[OsString]) -> Result<Invocation<'_>, Failure> {
        let text = word.to_string_lossy();
        let (verb, classic) = match self.find_verb(&text) {
            Some(found) => found,
            None => (self.abbreviated(&text)?, None),
        };
        // `slipring bridge` is the current command, although `bridge` alone is the old program.
        let classic = classic.filter(|classic| classic.name != verb.name);
        let name = classic.map_or(verb.name, |classic| classic.name);
        Ok(Invocation::new(verb, classic, &format!("{} {name}", self.name), rest))
    }

    /// Converts `slipring help gen` to `slipring gen --help`.
    fn help_call(&self, words: &[OsString]) -> Invocation<'_> {
        let help = [OsString::from("--help")];
        let first = words.first().and_then(|word| word.to_str());
        match first.and_then(|name| self.find_verb(name)) {
            Some((verb, classic)) => {
                Invocation::new(verb, classic, &format!("{} {}", self.name, verb.name), &help)
            }
            None => Invocation::root(&help),
        }
    }

    fn find_verb(&self, name: &str) -> Option<(&Verb, Option<&ClassicName>)> {
        self.all_verbs().find_map(|verb| {
            let classic = verb.classic.iter().find(|classic| classic.name == name);
            (verb.name == name || classic.is_some()).then_some((verb, classic))
        })
    }

    /// Returns the command whose name or classic name starts with `start`. Fails if there is none,
    /// or more than one.
    fn abbreviated(&self, start: &str) -> Result<&Verb, Failure> {
        let fits = |verb: &&Verb| {
            let classic = verb.classic.iter().map(|classic| classic.name);
            let mut names = classic.chain([verb.name]);
            names.any(|name| name.starts_with(start))
        };
        let fitting: Vec<_> = self.all_verbs().filter(fits).collect();
        match fitting[..] {
            [verb] => Ok(verb),
            [] => Err(self.unknown(start)),
            _ => {
                let names: Vec<_> = fitting.iter().map(|verb| verb.name).collect();
                let summary = format!("`{start}` is short for several commands");
                let error = Diagnostic::new(SR0005, summary);
                let cause = format!("it could be {}", names.join(", "));
                Err(error.with_cause(cause).with_help("write more of the name").into())
            }
        }
    }

    /// Returns the error for an unknown command. It suggests the most similar command: by edit
    /// distance, or else by clap's own suggestion.
    fn unknown(&self, word: &str) -> Failure {
        let names = self.all_verbs().flat_map(|verb| {
            let classic = verb.classic.iter().map(|classic| classic.name);
            [verb.name].into_iter().chain(classic)
        });
        if let Some(near) = usage::nearest(word, names) {
            return Diagnostic::new(SR0005, format!("unknown command `{word}`"))
                .with_cause(format!("`{}` has no command whose name starts so", self.name))
                .with_help(format!("did you mean `{near}`?"))
                .into();
        }
        let args = [self.name, word];
        match self.command().try_get_matches_from(args) {
            Ok(_) => Diagnostic::new(SR0005, format!("unknown command `{word}`"))
                .with_cause(format!("`{}` has no command whose name starts so", self.name))
                .with_help(format!("list them: {} --help", self.name))
                .into(),
            Err(error) => usage::diagnostic(&error, self.name).into(),
        }
    }
}

/// A stream that keeps its bytes in memory.
#[derive(Debug, Default, Clone)]
struct CapturedStream(Rc<RefCell<Vec<u8>>>);

impl Write for CapturedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The command that was called, and its arguments.
struct Invocation<'p> {
    verb: Option<&'p Verb>,
    classic: Option<&'p ClassicName>,
    /// The command as it was typed, for help and errors.
    typed_command: String,
    args: Vec<OsString>,
}

impl<'p> Invocation<'p> {
    fn new(
        verb: &'p Verb,
        classic: Option<&'p ClassicName>,
        typed: &str,
        args: &[OsString],
    ) -> Self {
        Self { verb: Some(verb), classic, typed_command: typed.to_owned(), args: args.to_vec() }
    }

    fn root(args: &[OsString]) -> Self {
        Self { verb: None, classic: None, typed_command: String::new(), args: args.to_vec() }
    }
}

/// Handles a command line that clap has not accepted. Prints help or version, which clap returns as
/// errors, and returns any other error as a failure.
///
/// # Errors
/// [`Failure`] that says what is wrong with the command line. `typed` is the command as it was
/// typed.
pub fn parse_refusal(
    error: &clap::Error,
    typed: &str,
    reporter: &mut Reporter,
) -> Result<Exit, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            reporter.raw(error.render().to_string().as_bytes())?;
            Ok(Exit::Done)
        }
        _ => Err(usage::diagnostic(error, typed).into()),
    }
}

/// Guesses the report options from the raw arguments, to print errors that occur before parsing is
/// done.
fn early_options(args: &[OsString]) -> EarlyReportOptions {
    let words = args.iter().filter_map(|arg| arg.to_str());
    let flags: Vec<_> = words.take_while(|word| *word != "--").collect();
    let json = |flag: &&str| *flag == "-j" || *flag == "--json" || flag.starts_with("--json=");
    let format = match flags.iter().any(json) {
        true => ReportFormat::Json,
        false => ReportFormat::Text,
    };
    let mut pairs = flags.windows(2);
    let split = pairs.find_map(|pair| (pair[0] == "--color").then_some(pair[1]));
    let mut each = flags.iter();
    let joined = each.find_map(|flag| flag.strip_prefix("--color="));
    EarlyReportOptions { format, color: joined.or(split).map(str::to_owned) }
}

/// Returns the command line in a form that a shell reads back.
fn typed_line(args: &[OsString]) -> String {
    let words = args.iter().enumerate().map(|(at, arg)| {
        let text = arg.to_string_lossy();
        match at {
            0 => Path::new(&*text)
                .file_name()
                .map_or_else(|| text.to_string(), |base| base.to_string_lossy().into_owned()),
            _ => shell_quoted(&text),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
