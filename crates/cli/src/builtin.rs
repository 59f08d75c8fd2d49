//! Built-in commands made from the program's own tables: `explain`, `man`, `completions`,
//! `candidates`, `names`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, ValueHint};
use clap_complete::Shell;
use serde_json::json;

use crate::codes::{CodeEntry, ErrorCode, entries};
use crate::verb::{Job, Session, Verb};
use crate::{Diagnostic, Exit, Failure, candidates, flags, generate};

pub(crate) static BUILTIN: [Verb; 5] = [
    Verb {
        name: "explain",
        classic: &[],
        command: explain_command,
        plan: plan_explain,
        no_metrics: Some("prints a text"),
    },
    Verb {
        name: "man",
        classic: &[],
        command: man_command,
        plan: plan_man,
        no_metrics: Some("prints pages"),
    },
    Verb {
        name: "completions",
        classic: &[],
        command: completions_command,
        plan: plan_completions,
        no_metrics: Some("prints a script"),
    },
    Verb {
        name: "candidates",
        classic: &[],
        command: candidates_command,
        plan: plan_candidates,
        no_metrics: Some("prints words"),
    },
    Verb {
        name: "names",
        classic: &[],
        command: names_command,
        plan: plan_names,
        no_metrics: Some("prints words"),
    },
];

fn explain_command() -> Command {
    let command = Command::new("explain")
        .about("Explain an error code, or list all codes")
        .after_help("Examples:\n  slipring explain SR0107\n  slipring explain --json")
        .arg(Arg::new("code").value_name(flags::CODE_VALUE).help("Code, such as SR0107"));
    flags::reporting(command)
}

fn plan_explain(matches: &ArgMatches) -> Result<Job, Failure> {
    let code = matches.get_one::<String>("code");
    let code = code.map(|text| text.parse::<ErrorCode>()).transpose()?;
    Ok(Box::new(move |session| explain(code, session)))
}

fn explain(code: Option<ErrorCode>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    match code.map(ErrorCode::entry) {
        Some(entry) => session.reporter.document(&in_json(entry), entry)?,
        None => {
            let line = |entry: &CodeEntry| format!("{}  {}", entry.code, entry.title);
            let lines: Vec<_> = entries().map(line).collect();
            let codes: Vec<_> = entries().map(in_json).collect();
            let fields = json!({ "codes": codes });
            session.reporter.document(&fields, lines.join("\n"))?;
        }
    }
    Ok(Exit::Done)
}

fn in_json(entry: &CodeEntry) -> serde_json::Value {
    json!({
        "code": entry.code.to_string(),
        "exit": entry.exit.status(),
        "title": entry.title,
        "cause": entry.cause,
        "remedy": entry.remedy,
        "example": entry.example,
    })
}

fn man_command() -> Command {
    Command::new("man").about("Write the manual pages").hide(true).arg(
        Arg::new("dir")
            .value_name("DIR")
            .required(true)
            .value_hint(ValueHint::DirPath)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Existing directory to write into"),
    )
}

fn plan_man(matches: &ArgMatches) -> Result<Job, Failure> {
    let dir = matches.get_one::<PathBuf>("dir").cloned();
    let dir = dir.expect("clap requires the directory");
    Ok(Box::new(move |session| {
        for (name, page) in generate::man_pages(&session.program.command()) {
            write(&dir.join(name), &page)?;
        }
        Ok(Exit::Done)
    }))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    fs::write(path, bytes).map_err(|error| Diagnostic::unwritable(path, &error))
}

fn completions_command() -> Command {
    let examples = "Examples:\n  slipring completions bash > ~/.local/share/bash-completion/completions/slipring";
    Command::new("completions")
        .about("Print the completion script of a shell")
        .after_help(examples)
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(Shell))
                .help("Shell to complete in"),
        )
}

fn plan_completions(matches: &ArgMatches) -> Result<Job, Failure> {
    let shell = matches.get_one::<Shell>("shell").copied();
    let shell = shell.expect("clap requires the shell");
    Ok(Box::new(move |session| {
        let script = generate::completions(&session.program.command(), shell);
        session.reporter.raw(&script)?;
        Ok(Exit::Done)
    }))
}

fn candidates_command() -> Command {
    let words = Arg::new("words").value_name("WORD").num_args(0..).last(true);
    let command = Command::new("candidates")
        .about("List the candidates for the last word, for completion scripts")
        .hide(true)
        .arg(words.help("The words before the cursor, the program's name first"));
    flags::run_dir(command)
}

fn plan_candidates(matches: &ArgMatches) -> Result<Job, Failure> {
    let words = matches.get_many::<String>("words").unwrap_or_default();
    let words: Vec<_> = words.cloned().collect();
    Ok(Box::new(move |session| {
        let found = candidates::candidates(&words, session);
        session.reporter.raw(candidates::lines(&found).as_bytes())?;
        Ok(Exit::Done)
    }))
}

fn names_command() -> Command {
    Command::new("names").about("List the classic names, for links at installation").hide(true)
}

fn plan_names(_: &ArgMatches) -> Result<Job, Failure> {
    Ok(Box::new(|session| {
        let classic = session.program.all_verbs().flat_map(|verb| verb.classic);
        let lines: String = classic.map(|classic| format!("{}\n", classic.name)).collect();
        session.reporter.raw(lines.as_bytes())?;
        Ok(Exit::Done)
    }))
}
