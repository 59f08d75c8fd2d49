//! Other commands of this program, run as processes of their own.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use slipring_port::now;

use super::lab::{INPUT, Lab, OUTPUT};
use super::measure::{PROGRAM_CPU, Reading, Why, pin, process_cpu};
use super::row::{Bout, Of, Role, Row, Unit};

/// Itself.
pub(super) const PROGRAM: &str = "/proc/self/exe";
/// No command outlives the run by more.
pub(super) const LONGEST: &str = "120";

/// A command of this program on the program's CPU.
pub(super) fn command(args: &[&str]) -> Command {
    pin(PROGRAM_CPU);
    let mut command = Command::new(PROGRAM);
    command.args(args).stdin(Stdio::null());
    command
}

/// What an idle bridge costs.
pub(crate) fn idle_bridge() -> Row {
    let title = "CPU time of an idle bridge, veth xdp, sleeping";
    Row::new("idle", title, Unit::Share)
        .with(Role::Ours, "slipring bridge", idle)
        .goal(Of::Value, 0.001)
}

/// Ends a process when dropped.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn idle() -> Result<Bout, Why> {
    let lab = Lab::new()?;
    let (one, other) = (format!("xdp:{INPUT}"), format!("xdp:{OUTPUT}"));
    let args = ["bridge", "-q", "--sleep", "-T", "0", "-t", LONGEST, &one, &other];
    let start = || Ok(command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let mut bridge = Running(lab.within(start)?);
    // It has opened its ports then.
    std::thread::sleep(Duration::from_millis(300));
    Ok(Box::new(move |time| {
        let _ = &lab;
        let spent = |bridge: &mut Running| match bridge.0.try_wait()? {
            None => Ok(process_cpu(bridge.0.id()).unwrap_or(0)),
            Some(status) => Err(Why::Failed(format!("the bridge ended: {status}"))),
        };
        let (before, start) = (spent(&mut bridge)?, now());
        std::thread::sleep(time);
        let busy = spent(&mut bridge)? - before;
        Ok(Reading::of(busy as f64 / (now() - start) as f64))
    }))
}

/// How exactly the generator keeps a rate over ten seconds.
pub(crate) fn pacing(rate: u32) -> Row {
    let title = format!("gen, error of {rate} pps over 10 s, null:");
    Row::new(format!("pacing-{rate}"), title, Unit::Share)
        .with(Role::Ours, "slipring gen", move || {
            Ok(Box::new(move |time| {
                let rate_text = rate.to_string();
                let report = generate("null:", &["-R", &rate_text], time)?;
                let reached = report.packets as f64 * 1e9 / report.nanos as f64;
                Ok(Reading::of((reached / f64::from(rate) - 1.0).abs()))
            }))
        })
        .goal(Of::Value, 0.001)
        .once(Duration::from_secs(10))
}

/// The highest rate of the generator through a kind of port.
pub(super) fn saturating(port: &str, time: Duration) -> Result<Reading, Why> {
    Ok(Reading::of(generate(port, &[], time)?.rate))
}

/// What `gen` says of a run.
#[derive(Debug, PartialEq)]
struct Generated {
    packets: u64,
    /// The whole run, in nanoseconds.
    nanos: u64,
    /// Packets per second by its own count, from the first to the last.
    rate: f64,
}

fn generate(port: &str, args: &[&str], time: Duration) -> Result<Generated, Why> {
    let seconds = time.as_secs_f64().to_string();
    let fixed = ["gen", "--json", "-T", "0", "-f", "tx", "-i", port, "--duration", &seconds];
    let done = command(&fixed).args(args).output()?;
    read(&done)
}

fn read(output: &Output) -> Result<Generated, Why> {
    let failed = || Why::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    if !output.status.success() {
        return Err(failed());
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| failed())?;
    let number = |pointer: &str| json.pointer(pointer).and_then(serde_json::Value::as_u64);
    let rate = json.pointer("/rate_pps").and_then(serde_json::Value::as_f64);
    match (number("/ports/0/tx/packets"), number("/elapsed_ns"), rate) {
        (Some(packets), Some(nanos @ 1..), Some(rate)) => Ok(Generated { packets, nanos, rate }),
        _ => Err(Why::Failed("gen's report lacks what it sent".into())),
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
        assert_eq!(read(&output(0, json)), Ok(Generated { packets: 7, nanos: 9, rate: 5.0 }));
        assert_eq!(read(&output(256, json)), Err(Why::Failed("cause".into())));
        assert!(read(&output(0, "{}")).is_err());
    }
}
