//! The texts of pkt-gen, which `slipring gen` prints if it is called by pkt-gen's name.
//!
//! Messages of the run go to stderr. Each of their lines begins with its time, except that of
//! [`head`]. The result goes to stdout.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::function::GenFunction;
use super::plan::{ETHERNET_FRAMING_BYTES, FigureStyle};
use super::progress::NO_SPACE;
use super::report::RateDeviation;
use super::shared_stats::GenFigures;

/// A line in the form `SSS.uuuuuu func [line] text`.
pub(super) fn log_line(function: &str, line: u32, text: &str) -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, micros) = (time.as_secs() % 1000, time.subsec_micros());
    format!("{seconds:03}.{micros:06} {function} [{line}] {text}")
}

/// Formats the report of an interval.
pub(super) fn line(
    figures: &GenFigures,
    style: FigureStyle,
    spread: Option<&mut RateDeviation>,
) -> String {
    let spread = spread.map_or(String::new(), |spread| {
        let (mean, deviation) = spread.add(figures.pps());
        format!("[avg/std {}/{}pps] ", norm(mean, style), norm(deviation, style))
    });
    let text = format!(
        "{}pps {spread}({}pkts {}bps in {} usec) {:.2} avg_batch {} min_space",
        norm(figures.pps(), style),
        norm(figures.done.packets as f64, style),
        norm(figures.bps(), style),
        figures.time / 1000,
        average(figures.done.packets, figures.done.batches),
        figures.min_space.min(NO_SPACE),
    );
    log_line("main_thread", line!(), &text)
}

/// Formats the line that is printed before the run.
pub(super) fn head(
    function: GenFunction,
    port: &str,
    queues: usize,
    threads: u16,
    cpus: usize,
) -> String {
    let doing = match function {
        GenFunction::Tx | GenFunction::TxSeq => "Sending on",
        GenFunction::Rx | GenFunction::RxSeq => "Receiving from",
        GenFunction::Ping => "Pinging on",
        GenFunction::Pong => "Answering on",
    };
    // The name of a port that is only a kind, such as `null:`, already ends with the colon that is
    // printed after the name.
    let port = port.strip_suffix(':').unwrap_or(port);
    format!("{doing} {port}: {queues} queues, {threads} threads and {cpus} cpus.")
}

/// Formats the two lines that are printed at the end.
pub(super) fn result(figures: &GenFigures, function: GenFunction, style: FigureStyle) -> String {
    let done = if function.sends() { "Sent" } else { "Received" };
    let (packets, bytes, batches) =
        (figures.done.packets, figures.done.bytes, figures.done.batches);
    if packets == 0 {
        return format!("{done} nothing.");
    }
    let seconds = figures.time as f64 / 1e9;
    let raw = (bytes + packets * ETHERNET_FRAMING_BYTES as u64) as f64 * 8.0 / seconds.max(1e-6);
    format!(
        "{done} {packets} packets {bytes} bytes {batches} events {} bytes each in {seconds:.2} seconds.\n\
         Speed: {}pps Bandwidth: {}bps (raw {}bps). Average batch: {:.2} pkts",
        bytes / packets,
        norm(packets as f64 / seconds.max(1e-6), style),
        norm(bytes as f64 * 8.0 / seconds.max(1e-6), style),
        norm(raw, style),
        average(packets, batches),
    )
}

/// Formats a number with a unit prefix as pkt-gen does: `14.880 M`.
fn norm(value: f64, style: FigureStyle) -> String {
    if style.raw {
        return format!("{value:.0} ");
    }
    let units = ["", "K", "M", "G", "T"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.3} {}", units[unit])
}

fn average(packets: u64, batches: u64) -> f64 {
    if batches == 0 { 0.0 } else { packets as f64 / batches as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::progress::ProgressCounts;
    use super::*;

    const STYLE: FigureStyle = FigureStyle { raw: false, statistics: false };

    fn figures() -> GenFigures {
        let done = ProgressCounts {
            packets: 14_880_000,
            bytes: 892_800_000,
            batches: 29_063,
            ..ProgressCounts::default()
        };
        GenFigures {
            done,
            total: done,
            time: 1_000_000_000,
            min_space: 3,
            framing: 0,
            submitted: 0,
            received: None,
        }
    }

    /// Returns the text of a log line after its time, function and line number.
    fn body(line: &str) -> &str {
        line.split_once("] ").unwrap().1
    }

    #[test]
    fn an_interval_reads_as_pkt_gens() {
        let line = line(&figures(), STYLE, None);
        assert_eq!(
            body(&line),
            "14.880 Mpps (14.880 Mpkts 7.142 Gbps in 1000000 usec) 511.99 avg_batch 3 min_space"
        );
        let (time, rest) = line.split_once(' ').unwrap();
        assert_eq!(time.len(), "123.123456".len());
        assert!(rest.starts_with("main_thread ["));
    }

    #[test]
    fn the_result_reads_as_pkt_gens() {
        assert_eq!(
            result(&figures(), GenFunction::Tx, STYLE),
            "Sent 14880000 packets 892800000 bytes 29063 events 60 bytes each in 1.00 seconds.\n\
             Speed: 14.880 Mpps Bandwidth: 7.142 Gbps (raw 9.999 Gbps). Average batch: 511.99 pkts"
        );
        let nothing = GenFigures { done: ProgressCounts::default(), ..figures() };
        assert_eq!(result(&nothing, GenFunction::Rx, STYLE), "Received nothing.");
    }

    #[test]
    fn raw_units_have_no_prefix() {
        let raw = FigureStyle { raw: true, ..STYLE };
        let line = line(&figures(), raw, Some(&mut RateDeviation::default()));
        assert_eq!(
            body(&line),
            "14880000 pps [avg/std 14880000 /0 pps] (14880000 pkts 7142400000 bps in 1000000 usec) \
             511.99 avg_batch 3 min_space"
        );
    }
}
