//! The baseline for AF_XDP ports: a plain C program. It is compiled if there is a compiler.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use slipring_wire::frame::FrameSpec;

use super::lab::{BenchLab, INPUT_IFNAME, OUTPUT_IFNAME, SOURCE_IFNAME, frame};
use super::measure::{BenchError, BenchTally, PROGRAM_CPU, pin};
use super::row::BenchRound;
use super::scratch::ScratchDir;
use super::veth::VethJob;

/// The name of this contender in the table.
pub(super) const CONTENDER_NAME: &str = "plain C";
const SOURCE_CODE: &str = include_str!("../programs/xsk.c");

/// The compiled program. It is built when it is used first.
#[derive(Clone, Default)]
pub(crate) struct XskBaseline(Rc<OnceCell<Result<XskBinary, BenchError>>>);

struct XskBinary {
    program: PathBuf,
    _files: ScratchDir,
}

impl XskBaseline {
    fn program(&self) -> Result<PathBuf, BenchError> {
        match self.0.get_or_init(compile) {
            Ok(compiled) => Ok(compiled.program.clone()),
            Err(why) => Err(why.clone()),
        }
    }
}

fn compile() -> Result<XskBinary, BenchError> {
    let files = ScratchDir::new()?;
    let (source, program) = (files.path().join("xsk.c"), files.path().join("xsk"));
    std::fs::write(&source, SOURCE_CODE)?;
    let compiler = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).output();
    let done = compiler.map_err(|error| BenchError::Skipped(format!("no C compiler: {error}")))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let first = text.lines().find(|line| line.contains("error")).unwrap_or("").to_owned();
        return Err(BenchError::Skipped(format!("cc: {first}")));
    }
    Ok(XskBinary { program, _files: files })
}

/// Measures the C program. Each run starts a new process.
pub(super) fn round(
    yardstick: XskBaseline,
    job: VethJob,
    len: usize,
) -> Result<BenchRound, BenchError> {
    let (program, lab) = (yardstick.program()?, BenchLab::new()?);
    let frame = frame(&FrameSpec::default(), len)?;
    let words = match job {
        VethJob::Tx => vec!["tx", OUTPUT_IFNAME],
        VethJob::Rx => vec!["rx", INPUT_IFNAME],
        VethJob::Forward => vec!["fwd", INPUT_IFNAME, OUTPUT_IFNAME],
    };
    Ok(Box::new(move |time| {
        // The closure must own this value, because dropping its last clone removes the program.
        let _ = &yardstick;
        let run = || run(&program, &words, frame.len(), time);
        let tally = match job {
            VethJob::Tx => lab.within(run),
            VethJob::Rx | VethJob::Forward => lab.while_feeding(SOURCE_IFNAME, &frame, run),
        };
        Ok(tally?.into())
    }))
}

/// Runs the program, and parses its output, `packets wall cpu`. Returns an error if either fails.
fn run(
    program: &PathBuf,
    words: &[&str],
    len: usize,
    time: Duration,
) -> Result<BenchTally, BenchError> {
    pin(PROGRAM_CPU);
    let mut command = Command::new(program);
    command.args(words).args([time.as_secs_f64().to_string(), 64.to_string(), len.to_string()]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [packets, wall, cpu] if output.status.success() => Ok(BenchTally { packets, wall, cpu }),
        _ => Err(BenchError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
