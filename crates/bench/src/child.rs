//! Commands of `slipring`, run as separate processes.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use slipring_cli::find_sibling_program;
use slipring_port::now;

use super::lab::{BenchLab, INPUT_IFNAME, OUTPUT_IFNAME};
use super::measure::{BenchError, BenchReading, PROGRAM_CPU, pin, process_cpu};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

/// Directories in which `slipring` may be, relative to this program: in the build directory, and
/// after an installation.
const SLIPRING_DIRS: [&str; 2] = [".", "../../bin"];
/// Time limit of commands in seconds. Without it, a command could run long after the benchmark has
/// ended.
pub(super) const MAX_RUN_SECS: &str = "120";

/// Path of the program `slipring`.
pub(super) fn slipring() -> Result<PathBuf, BenchError> {
    let found = find_sibling_program("slipring", &SLIPRING_DIRS);
    found.ok_or_else(|| BenchError::Skipped("no slipring beside slipring-bench or in PATH".into()))
}

/// Binds the calling thread to the program's CPU, and returns a command of `slipring` that inherits
/// this.
pub(super) fn command(args: &[&str]) -> Result<Command, BenchError> {
    pin(PROGRAM_CPU);
    command_on_any_cpu(args)
}

/// Returns a command of `slipring` that may run on the CPUs on which the calling thread may run.
pub(super) fn command_on_any_cpu(args: &[&str]) -> Result<Command, BenchError> {
    let mut command = Command::new(slipring()?);
    command.args(args).stdin(Stdio::null());
    Ok(command)
}

/// Returns the row for the cost of an idle bridge.
pub(crate) fn idle_bridge() -> BenchRow {
    let title = "CPU time of an idle bridge, veth xdp, sleeping";
    BenchRow::new("idle", title, RowUnit::Share)
        .with(ContenderRole::Ours, "slipring bridge", idle)
        .goal(GoalMetric::Value, 0.001)
}

/// A child process. It is ended on drop.
pub(super) struct BenchChild(pub(super) Child);

impl Drop for BenchChild {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn idle() -> Result<BenchRound, BenchError> {
    let lab = BenchLab::new()?;
    let (one, other) = (format!("xdp:{INPUT_IFNAME}"), format!("xdp:{OUTPUT_IFNAME}"));
    let args = ["bridge", "-q", "--sleep", "-T", "0", "-t", MAX_RUN_SECS, &one, &other];
    let start = || Ok(command(&args)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let mut bridge = BenchChild(lab.within(start)?);
    // After this time, the bridge has usually opened its ports.
    std::thread::sleep(Duration::from_millis(300));
    Ok(Box::new(move |time| {
        let _ = &lab;
        let spent = |bridge: &mut BenchChild| match bridge.0.try_wait()? {
            None => Ok(process_cpu(bridge.0.id()).unwrap_or(0)),
            Some(status) => Err(BenchError::Failed(format!("the bridge ended: {status}"))),
        };
        let (before, start) = (spent(&mut bridge)?, now());
        std::thread::sleep(time);
        let busy = spent(&mut bridge)? - before;
        Ok(BenchReading::of(busy as f64 / (now() - start) as f64))
    }))
}

/// Returns the row for how much the generator's rate differs from the requested rate, over ten
/// seconds.
pub(crate) fn pacing(rate: u32) -> BenchRow {
    let title = format!("gen, error of {rate} pps over 10 s, null:");
    BenchRow::new(format!("pacing-{rate}"), title, RowUnit::Share)
        .with(ContenderRole::Ours, "slipring gen", move || {
            Ok(Box::new(move |time| {
                let rate_text = rate.to_string();
                let report = generate("null:", &["-R", &rate_text], time)?;
                let reached = report.packets as f64 * 1e9 / report.nanos as f64;
                Ok(BenchReading::of((reached / f64::from(rate) - 1.0).abs()))
            }))
        })
        .goal(GoalMetric::Value, 0.001)
        .once(Duration::from_secs(10))
}

/// Measures the highest rate of the generator on a kind of port.
pub(super) fn saturating(port: &str, time: Duration) -> Result<BenchReading, BenchError> {
    Ok(BenchReading::of(generate(port, &[], time)?.rate))
}

/// The result of a run of `gen`.
#[derive(Debug, PartialEq)]
struct GenResult {
    packets: u64,
    /// Duration of the whole run, in nanoseconds.
    nanos: u64,
    /// Packets per second, according to the generator. The time is counted from the first packet to
    /// the last.
    rate: f64,
}

fn generate(port: &str, args: &[&str], time: Duration) -> Result<GenResult, BenchError> {
    let seconds = time.as_secs_f64().to_string();
    let fixed = ["gen", "--json", "-T", "0", "-f", "tx", "-i", port, "--duration", &seconds];
    let done = command(&fixed)?.args(args).output()?;
    read(&done)
}

fn read(output: &Output) -> Result<GenResult, BenchError> {
    let failed = || BenchError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    if !output.status.success() {
        return Err(failed());
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| failed())?;
    let number = |pointer: &str| json.pointer(pointer).and_then(serde_json::Value::as_u64);
    let rate = json.pointer("/rate_pps").and_then(serde_json::Value::as_f64);
    match (number("/ports/0/tx/packets"), number("/elapsed_ns"), rate) {
        (Some(packets), Some(nanos @ 1..), Some(rate)) => Ok(GenResult { packets, nanos, rate }),
        _ => Err(BenchError::Failed("gen's report lacks what it sent".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(status: i32, stdout: &str) -> Output {
        let (status, stderr) = (ExitStatus::from_raw(status), b"cause\n".to_vec());
        Output { status, stdout: stdout.into(), stderr }
    }

    #[test]
    fn a_report_is_read_and_a_failure_keeps_its_words() {
        let json = r#"{"ports": [{"tx": {"packets": 7}}], "elapsed_ns": 9, "rate_pps": 5}"#;
        assert_eq!(read(&output(0, json)), Ok(GenResult { packets: 7, nanos: 9, rate: 5.0 }));
        assert_eq!(read(&output(256, json)), Err(BenchError::Failed("cause".into())));
        assert!(read(&output(0, "{}")).is_err());
    }
}
