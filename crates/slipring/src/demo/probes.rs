//! The demo's traffic: ping, then a TCP transfer. Installed programs are used first; if they are
//! missing, built-in probes replace them.

use std::io;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use slipring_core::netns::Netns;

use super::builtin_probes;
use super::program::DemoChild;
use super::sandbox::{DemoNamespaces, RIGHT_ADDR};
use slipring_datapath::workers::WorkersStop;

/// Number of echo requests.
pub(super) const NUM_ECHOES: u32 = 5;

/// Results of the probes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProbeFindings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ping: Option<PingResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tcp: Option<TcpResult>,
}

/// Result of the ping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PingResult {
    /// The program that sent the requests.
    pub(super) by: &'static str,
    pub(super) sent: u32,
    pub(super) received: u32,
    #[serde(flatten)]
    pub(super) rtt: Option<RttSummary>,
}

/// Round-trip times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct RttSummary {
    pub(super) rtt_min_ns: u64,
    pub(super) rtt_avg_ns: u64,
    pub(super) rtt_max_ns: u64,
}

/// Result of a TCP transfer from left to right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TcpResult {
    /// The program that sent the data.
    pub(super) by: &'static str,
    /// Rate of the received data, in bit/s.
    pub(super) bits_per_sec: u64,
    /// Retransmitted segments, if the program reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retransmits: Option<u64>,
}

/// Returns the result of `program`. If the program is not installed, runs `own` instead.
fn run_installed<T>(
    program: io::Result<Option<T>>,
    own: impl FnOnce() -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    match program {
        Err(error) if error.kind() == io::ErrorKind::NotFound => own(),
        result => result,
    }
}

/// Sends echo requests from left to right; `None` if the demo was stopped before the end.
pub(super) fn ping(net: &DemoNamespaces, stop: &WorkersStop) -> io::Result<Option<PingResult>> {
    let mut command = Command::new("ping");
    command.args(["-n", "-q", "-i", "0.2", "-w", "30", "-c"]);
    command.arg(NUM_ECHOES.to_string()).arg(RIGHT_ADDR.to_string());
    let program = output_in(&net.left, &mut command, stop);
    run_installed(program.map(|text| text.map(|text| parse_ping(&text))), || {
        builtin_probes::echo(net, stop)
    })
}

fn output_in(
    netns: &Netns,
    command: &mut Command,
    stop: &WorkersStop,
) -> io::Result<Option<String>> {
    netns.run(|| DemoChild::start(command)?.output(stop))
}

/// Parses `5 packets transmitted, 5 received` and `rtt min/avg/max/mdev = 0.02/0.03/0.05/0.01 ms`.
fn parse_ping(text: &str) -> PingResult {
    let before = |word: &str| {
        let (numbers, _) = text.split_once(word)?;
        numbers.rsplit([' ', '\n']).find_map(|number| number.parse().ok())
    };
    PingResult {
        by: "ping",
        sent: before(" packets transmitted").unwrap_or(0),
        received: before(" received").or_else(|| before(" packets received")).unwrap_or(0),
        rtt: round_trips(text),
    }
}

fn round_trips(text: &str) -> Option<RttSummary> {
    let line = text.lines().find(|line| line.contains("min/avg/max"))?;
    let (_, times) = line.split_once(" = ")?;
    let in_ns = |text: &str| Some((text.parse::<f64>().ok()? * 1e6) as u64);
    let mut times = times.split([' ', '/']).map(in_ns);
    let mut next = || times.next().flatten();
    Some(RttSummary { rtt_min_ns: next()?, rtt_avg_ns: next()?, rtt_max_ns: next()? })
}

/// Sends by TCP from left to right for about `duration`; `None` if the demo was stopped before the
/// end.
pub(super) fn transfer(
    net: &DemoNamespaces,
    duration: Duration,
    stop: &WorkersStop,
) -> io::Result<Option<TcpResult>> {
    run_installed(iperf3(net, duration, stop), || builtin_probes::transfer(net, duration, stop))
}

fn iperf3(
    net: &DemoNamespaces,
    duration: Duration,
    stop: &WorkersStop,
) -> io::Result<Option<TcpResult>> {
    std::thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let (over, is_over) = mpsc::channel::<()>();
        let server = scope.spawn(|| net.right.run(move || serve(&ready, &is_over)));
        let text = match is_ready.recv() {
            Ok(()) => output_in(&net.left, &mut client(duration), stop),
            Err(_) => Ok(None),
        };
        drop(over);
        match server.join() {
            Ok(served) => served?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        text?.map(|text| parse_iperf3(&text)).transpose()
    })
}

/// Runs iperf3's server, reports on `ready` when it accepts clients, and ends it when the client
/// has finished.
fn serve(ready: &mpsc::Sender<()>, is_over: &mpsc::Receiver<()>) -> io::Result<()> {
    let mut server = DemoChild::start(Command::new("iperf3").args(["-s", "-1", "--forceflush"]))?;
    server.wait_for_line("listening")?;
    // No value is ever sent on `is_over`: the client drops its end of the channel when it has
    // finished.
    if ready.send(()).is_ok() {
        let _ = is_over.recv();
    }
    Ok(())
}

fn client(duration: Duration) -> Command {
    let seconds = duration.as_secs_f64().ceil().max(1.0);
    let mut command = Command::new("iperf3");
    // `-i 0` switches interim reports off, because the whole output must fit into a pipe.
    command.args(["-J", "-i", "0", "-c", &RIGHT_ADDR.to_string(), "-t", &seconds.to_string()]);
    command
}

fn parse_iperf3(text: &str) -> io::Result<TcpResult> {
    let report: serde_json::Value = serde_json::from_str(text)?;
    if let Some(error) = report["error"].as_str() {
        return Err(io::Error::other(format!("iperf3: {error}")));
    }
    let end = &report["end"];
    Ok(TcpResult {
        by: "iperf3",
        bits_per_sec: end["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) as u64,
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPUTILS: &str = "PING 10.77.0.2 (10.77.0.2) 56(84) bytes of data.\n\n\
        --- 10.77.0.2 ping statistics ---\n\
        5 packets transmitted, 4 received, 20% packet loss, time 804ms\n\
        rtt min/avg/max/mdev = 0.021/0.030/0.050/0.010 ms\n";
    const BUSYBOX: &str = "--- 10.77.0.2 ping statistics ---\n\
        5 packets transmitted, 5 packets received, 0% packet loss\n\
        round-trip min/avg/max = 0.100/0.200/0.300 ms\n";

    #[test]
    fn both_usual_pings_are_understood() {
        let ping = parse_ping(IPUTILS);
        assert_eq!((ping.sent, ping.received), (5, 4));
        let rtt = RttSummary { rtt_min_ns: 21_000, rtt_avg_ns: 30_000, rtt_max_ns: 50_000 };
        assert_eq!(ping.rtt, Some(rtt));
        let ping = parse_ping(BUSYBOX);
        assert_eq!((ping.sent, ping.received), (5, 5));
        assert_eq!(ping.rtt.map(|rtt| rtt.rtt_max_ns), Some(300_000));
    }

    #[test]
    fn a_ping_without_answers_has_no_times() {
        let text = "5 packets transmitted, 0 received, 100% packet loss, time 4ms\n\n";
        assert_eq!(parse_ping(text), PingResult { by: "ping", sent: 5, received: 0, rtt: None });
        assert_eq!(parse_ping("garbage").sent, 0);
    }

    #[test]
    fn the_report_of_iperf3_is_understood_and_its_error_passed_on() {
        let text =
            r#"{"end":{"sum_sent":{"retransmits":7},"sum_received":{"bits_per_second":1.5e9}}}"#;
        let tcp = parse_iperf3(text).unwrap();
        assert_eq!((tcp.bits_per_sec, tcp.retransmits), (1_500_000_000, Some(7)));
        let error = parse_iperf3(r#"{"error":"unable to connect"}"#).unwrap_err();
        assert_eq!(error.to_string(), "iperf3: unable to connect");
        assert!(parse_iperf3("not json").is_err());
    }
}
