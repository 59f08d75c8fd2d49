//! `slipring-bench`, the program that `slipring bench` runs. It prints a table of this machine's
//! performance. For many rows, the same run also measures floors (the least work that any
//! implementation must do) or peers (other programs for the same task). All are measured in turn.
//!
//! All traffic stays in pipes, in memory, and in private network namespaces.
//!
//! A module may use the modules that are above it or to its left in this table:
//!
//! | layer | modules |
//! |---|---|
//! | measuring | `measure`; `row`: a row, its contenders, a round; `frame`, `memory`, `priority` |
//! | set-ups | `scratch`, `lab`, `child`, `daemon`, `pipe_ends`, `handover` |
//! | peers | `kernel`; `testpmd`, `xsk` and `veth`, which use each other |
//! | rows | `process`, `native`, `netmap`, `pipe`, `emulate`, `firewall`, `route` |
//! | more rows | `vale`, `latency`, `footprint`, `nic`, `null`, `raw` |
//! | program | `rows`, `reader_task`, `outcome`, `report` |
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod child;
mod daemon;
mod emulate;
mod firewall;
mod footprint;
mod frame;
mod handover;
mod kernel;
mod lab;
mod latency;
mod measure;
mod memory;
mod native;
mod netmap;
mod nic;
mod null;
mod outcome;
mod pipe;
mod pipe_ends;
mod priority;
mod process;
mod raw;
mod reader_task;
mod report;
mod route;
mod row;
mod rows;
mod scratch;
mod testpmd;
mod vale;
mod veth;
mod xsk;

use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;
use slipring_cli::bench::command;
use slipring_cli::units::TimeSpan;
use slipring_cli::{
    CliProgram, Diagnostic, Exit, Failure, Job, ReportFormat, Session, Signals, Verb, codes,
};

use outcome::{BenchEffort, RowResult};
use reader_task::ReaderTask;
use report::BenchHeader;
use row::BenchRow;

/// The description of the program. `slipring bench` runs it, so it parses that command line and
/// reports as `slipring`.
static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "Measure what this machine reaches with slipring",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &[Verb {
        name: "bench",
        classic: &[],
        command,
        plan,
        no_metrics: Some("ends after its rows"),
    }],
};

fn main() -> ExitCode {
    PROGRAM.main()
}

/// The rows that a run measures, and its settings.
struct BenchPlan {
    rows: Vec<BenchRow>,
    effort: BenchEffort,
    gate: bool,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if let Some(part) = matches.get_one::<String>("part") {
        let part = ReaderTask::parse(part).ok_or_else(for_itself)?;
        return Ok(Box::new(move |session| run_reader(part, session)));
    }
    let time = matches
        .get_one::<TimeSpan>("seconds")
        .map_or(Duration::from_millis(500), |span| span.duration());
    if time.is_zero() || time > Duration::from_secs(60) {
        return Err(usage_error(
            "--seconds is out of range",
            "a turn takes more than 0 and at most 60 s",
            "--seconds 0.5",
        ));
    }
    let effort = BenchEffort {
        runs: matches.get_one("runs").copied().unwrap_or(5),
        time,
        alone: matches.get_one::<String>("peers").is_some_and(|which| which == "none"),
    };
    let wanted: Vec<_> =
        matches.get_many::<String>("rows").into_iter().flatten().cloned().collect();
    let rows = selected(rows::all(matches.get_flag("full")), &wanted)?;
    if matches.get_flag("list") {
        return Ok(Box::new(move |session| list(&rows, session)));
    }
    let plan = BenchPlan { rows, effort, gate: matches.get_flag("gate") };
    Ok(Box::new(move |session| plan.run(session)))
}

fn for_itself() -> Failure {
    let cause = "this flag is for the program itself";
    usage_error("--part tells nothing", cause, "slipring bench --list names all rows")
}

fn usage_error(summary: &str, cause: &str, help: &str) -> Failure {
    Diagnostic::new(codes::SR0002, summary).with_cause(cause).with_help(help).into()
}

/// Returns the rows whose names start with one of the words. If there are no words, returns all
/// rows.
fn selected(rows: Vec<BenchRow>, words: &[String]) -> Result<Vec<BenchRow>, Failure> {
    if let Some(word) = words.iter().find(|word| !rows.iter().any(|row| row.id.starts_with(*word)))
    {
        let summary = format!("no row's name starts with `{word}`");
        let cause = "rows are chosen by the start of their names";
        return Err(usage_error(&summary, cause, "slipring bench --list names all rows"));
    }
    let wanted =
        |row: &BenchRow| words.is_empty() || words.iter().any(|word| row.id.starts_with(word));
    Ok(rows.into_iter().filter(wanted).collect())
}

fn list(rows: &[BenchRow], session: &mut Session<'_>) -> Result<Exit, Failure> {
    let lines: Vec<_> = rows.iter().map(|row| format!("{:<24} {}", row.id, row.title)).collect();
    let ids: Vec<_> = rows.iter().map(|row| json!({ "row": row.id, "title": row.title })).collect();
    session.reporter.document(&json!({ "rows": ids }), lines.join("\n"))?;
    Ok(Exit::Done)
}

/// Runs this process as the other end of a pipe.
fn run_reader(part: ReaderTask, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let tally = part.run().map_err(|why| {
        Diagnostic::new(codes::SR0204, "the other end of the pipe").with_cause(why.to_string())
    })?;
    let line = format!("{} {} {}\n", tally.packets, tally.wall, tally.cpu);
    session.reporter.raw(line.as_bytes())?;
    Ok(Exit::Done)
}

impl BenchPlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let head = BenchHeader::current(command, self.effort, priority::raise());
        let text = session.reporter.format() == ReportFormat::Text;
        if text {
            session.reporter.raw(head.text().as_bytes())?;
        }
        let mut outcomes = Vec::new();
        for row in self.rows {
            if signals.stopping() {
                break;
            }
            let outcome = outcome::measure(row, self.effort, || signals.stopping());
            if text {
                session.reporter.raw(report::text(&outcome).as_bytes())?;
            }
            outcomes.push(outcome);
        }
        if !text {
            let rows: Vec<_> = outcomes.iter().map(report::json).collect();
            session.reporter.document(&json!({ "machine": head.json(), "rows": rows }), "")?;
        }
        let short = self.gate && outcomes.iter().any(RowResult::falls_short);
        Ok(if short { Exit::Expectation } else { Exit::Done })
    }
}
