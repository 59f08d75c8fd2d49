//! The JSON lines of the classic program, netmap's `lb`: one per output and one for all, to stdout
//! or the system log.
//!
//! Keys and units are those of the classic program: rates named `Mbps` are in 2^20 bits per second.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use slipring_cli::{Failure, Session};

use super::report::{LbFigures, OutputTotals};

/// Socket of the system log.
const SYSLOG_PATH: &str = "/dev/log";
/// Facility `local1`, severity `info` (RFC 5424, section 6.2.1).
const SYSLOG_PRIORITY: u32 = 17 * 8 + 6;
/// Bits in a "megabit" of the classic program.
const BITS_PER_MEGABIT: f64 = 1024.0 * 1024.0;

/// The report timers of stdout and of the system log, with the counters at the last report of each.
pub(super) struct ClassicLines {
    stdout: Option<ReportClock>,
    syslog: Option<(ReportClock, UnixDatagram)>,
}

struct ReportClock {
    period: Duration,
    next: Duration,
    last_time: Duration,
    last: Vec<OutputTotals>,
}

#[derive(Serialize)]
struct ClassicLine<'a> {
    ts: f64,
    interface: &'a str,
    output_ring: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_received: Option<u64>,
    packets_forwarded: u64,
    packets_dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_ip_packets: Option<u64>,
    #[serde(rename = "data_forward_rate_Mbps")]
    data_forward_rate: f64,
    packet_forward_rate_kpps: f64,
    packet_drop_rate_kpps: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    overflow_queue_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_buffer_slots: Option<u64>,
}

impl ClassicLines {
    /// Starts the timers. If the system log is not available, prints that and continues without it.
    pub(super) fn new(
        stdout: Option<Duration>,
        syslog: Option<Duration>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let connect = || {
            let socket = UnixDatagram::unbound()?;
            socket.connect(SYSLOG_PATH)?;
            socket.set_nonblocking(true).map(|()| socket)
        };
        let syslog = match syslog.map(|period| (period, connect())) {
            Some((period, Ok(socket))) => Some((ReportClock::new(period), socket)),
            Some((_, Err(error))) => {
                session.reporter.warn(format_args!("no system log at {SYSLOG_PATH}: {error}"))?;
                None
            }
            None => None,
        };
        Ok(Self { stdout: stdout.map(ReportClock::new), syslog })
    }

    /// Writes the lines that are due.
    pub(super) fn write_due(
        &mut self,
        figures: &LbFigures,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        for line in self.stdout.iter_mut().flat_map(|clock| clock.lines(figures)) {
            session.reporter.raw(format!("{line}\n").as_bytes())?;
        }
        if let Some((clock, socket)) = &mut self.syslog {
            for line in clock.lines(figures) {
                let pid = std::process::id();
                // If the log is full or no longer exists, only these lines are lost.
                let _ = socket.send(format!("<{SYSLOG_PRIORITY}>lb[{pid}]: {line}").as_bytes());
            }
        }
        Ok(())
    }
}

impl ReportClock {
    fn new(period: Duration) -> Self {
        Self { period, next: period, last_time: Duration::ZERO, last: Vec::new() }
    }

    /// Returns the lines, if they are due.
    fn lines(&mut self, figures: &LbFigures) -> Vec<String> {
        let time = figures.meter.elapsed();
        // One timer serves several periods, so a report may be a little early or late.
        if time + Duration::from_millis(5) < self.next {
            return Vec::new();
        }
        self.next = time.max(self.next) + self.period;
        let span = (time - self.last_time).as_secs_f64().max(1e-9);
        let (outputs, all) = (figures.outputs(), figures.all());
        let names: Vec<String> = figures.ports().into_iter().map(|port| port.name).collect();
        let before = |i: usize| self.last.get(i).copied().unwrap_or_default();
        let mut lines: Vec<String> = outputs
            .iter()
            .enumerate()
            .map(|(i, output)| {
                let line = ClassicLine::of(&names[i + 1], output, &before(i), span);
                let waiting = Some(output.waiting);
                ClassicLine { output_ring: Some(i), overflow_queue_size: waiting, ..line }
                    .to_string()
            })
            .collect();
        let line = ClassicLine::of(&names[0], &all, &before(outputs.len()), span);
        let (received, non_ip) = (Some(figures.received()), Some(figures.non_ip()));
        let free_buffer_slots = Some(figures.free_bufs());
        let sum = ClassicLine {
            packets_received: received,
            non_ip_packets: non_ip,
            free_buffer_slots,
            ..line
        };
        lines.push(sum.to_string());
        self.last = outputs.into_iter().chain([all]).collect();
        self.last_time = time;
        lines
    }
}

impl<'a> ClassicLine<'a> {
    fn of(interface: &'a str, now: &OutputTotals, before: &OutputTotals, span: f64) -> Self {
        let rate = |now: u64, before: u64| (now - before) as f64 / span;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            ts: since.as_secs_f64(),
            interface,
            output_ring: None,
            packets_received: None,
            packets_forwarded: now.forwarded,
            packets_dropped: now.dropped,
            non_ip_packets: None,
            data_forward_rate: rate(now.forwarded_bytes, before.forwarded_bytes) * 8.0
                / BITS_PER_MEGABIT,
            packet_forward_rate_kpps: rate(now.forwarded, before.forwarded) / 1000.0,
            packet_drop_rate_kpps: rate(now.dropped, before.dropped) / 1000.0,
            overflow_queue_size: None,
            free_buffer_slots: None,
        }
    }
}

impl std::fmt::Display for ClassicLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}
