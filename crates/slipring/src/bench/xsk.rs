//! The yardstick of AF_XDP ports: a plain C program, compiled where there is a compiler.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use slipring_wire::frame::FrameSpec;

use super::lab::{INPUT, Lab, OUTPUT, SOURCE, frame};
use super::measure::{PROGRAM_CPU, Tally, Why, pin};
use super::row::Bout;
use super::scratch::Scratch;
use super::veth::Job;

/// Name of the contender.
pub(super) const NAME: &str = "plain C";
const SOURCE_CODE: &str = include_str!("../../../../bench/xsk.c");

/// The compiled program, made when first asked for.
#[derive(Clone, Default)]
pub(crate) struct Yardstick(Rc<OnceCell<Result<Compiled, Why>>>);

struct Compiled {
    program: PathBuf,
    _files: Scratch,
}

impl Yardstick {
    fn program(&self) -> Result<PathBuf, Why> {
        match self.0.get_or_init(compile) {
            Ok(compiled) => Ok(compiled.program.clone()),
            Err(why) => Err(why.clone()),
        }
    }
}

fn compile() -> Result<Compiled, Why> {
    let files = Scratch::new()?;
    let (source, program) = (files.path().join("xsk.c"), files.path().join("xsk"));
    std::fs::write(&source, SOURCE_CODE)?;
    let compiler = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).output();
    let done = compiler.map_err(|error| Why::Skipped(format!("no C compiler: {error}")))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let first = text.lines().find(|line| line.contains("error")).unwrap_or("").to_owned();
        return Err(Why::Skipped(format!("cc: {first}")));
    }
    Ok(Compiled { program, _files: files })
}

/// A process per turn.
pub(super) fn bout(yardstick: Yardstick, job: Job, len: usize) -> Result<Bout, Why> {
    let (program, lab) = (yardstick.program()?, Lab::new()?);
    let frame = frame(&FrameSpec::default(), len)?;
    let words = match job {
        Job::Tx => vec!["tx", OUTPUT],
        Job::Rx => vec!["rx", INPUT],
        Job::Forward => vec!["fwd", INPUT, OUTPUT],
    };
    Ok(Box::new(move |time| {
        // The program is there as long as someone holds it.
        let _ = &yardstick;
        let run = || run(&program, &words, frame.len(), time);
        let tally = match job {
            Job::Tx => lab.within(run),
            Job::Rx | Job::Forward => lab.while_feeding(SOURCE, &frame, run),
        };
        Ok(tally?.into())
    }))
}

/// `packets wall cpu`, or what went wrong.
fn run(program: &PathBuf, words: &[&str], len: usize, time: Duration) -> Result<Tally, Why> {
    pin(PROGRAM_CPU);
    let mut command = Command::new(program);
    command.args(words).args([time.as_secs_f64().to_string(), 64.to_string(), len.to_string()]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [packets, wall, cpu] if output.status.success() => Ok(Tally { packets, wall, cpu }),
        _ => Err(Why::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
