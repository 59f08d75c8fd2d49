//! The demo's text. It describes the sandbox before the traffic starts, and the results afterwards.

use std::time::Duration;

use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;

use super::probes::{PingResult, TcpResult};
use super::sandbox::{DemoPortKind, DemoSandbox, LEFT_ADDR, RIGHT_ADDR, SandboxPrivilege};
use super::{DELAY_NS, DemoReportExtra, RATE_BPS};
use slipring_datapath::meter::{PortInterval, bps, pps};

pub(super) const PING_HEADING: &str = "\n1. ping, from left to right";

/// Describes the sandbox.
pub(super) fn opening_text(site: &DemoSandbox) -> String {
    let kind = site.kind.prefix();
    let cable = match site.kind {
        DemoPortKind::Tap => "tap-",
        DemoPortKind::Xdp | DemoPortKind::Packet => "veth",
    };
    let user = match (&site.fallback_cause, site.privilege) {
        (Some(why), _) => format!("AF_XDP cannot be had ({why}): TAP devices stand in.\n"),
        (None, SandboxPrivilege::Privileged) => String::new(),
        (None, SandboxPrivilege::OwnUser) => UNPRIVILEGED_TEXT.to_owned(),
    };
    let ports = format!("{kind}:left <-> {kind}:right");
    let rule = "-".repeat(ports.len() + 2);
    format!(
        "\
Two networks that know nothing of each other, and this program between them. It is their
link, as `slipring emulate` makes one: {rate} and {delay} each way.
{user}
  namespace left           {middle:^width$}           namespace right
  +-----------+            +{rule}+            +-----------+
  | {LEFT_ADDR} |----{cable}----| {ports} |----{cable}----| {RIGHT_ADDR} |
  +-----------+            +{rule}+            +-----------+
",
        rate = human::bits_per_sec(RATE_BPS as f64),
        delay = human::span(Duration::from_nanos(DELAY_NS)),
        middle = "slipring",
        width = ports.len() + 4,
    )
}

const UNPRIVILEGED_TEXT: &str = "\
You are not root: all of it happens in a user namespace, over TAP devices. Each lies
in one of the networks, its descriptor here. Root gets veth pairs and AF_XDP instead.
";

/// Formats one line: the link's traffic in an interval of `time`.
pub(super) fn interval(intervals: &[PortInterval], time: Duration) -> String {
    let side = |i: usize| intervals.get(i).map(|interval| interval.delta).unwrap_or_default();
    let (left, right) = (side(0), side(1));
    format!(
        "     left to right {:>14} {:>11}    right to left {:>14} {:>11}    dropped {}",
        bps(right.tx.bytes, time),
        pps(right.tx.packets, time),
        bps(left.tx.bytes, time),
        pps(left.tx.packets, time),
        left.dropped + right.dropped,
    )
}

pub(super) fn ping(ping: Option<&PingResult>) -> String {
    let Some(PingResult { by, sent, received, rtt }) = ping else {
        return "   ended early".to_owned();
    };
    let time = |ns| human::span(Duration::from_nanos(ns));
    let times = rtt.map_or_else(String::new, |rtt| {
        let [min, avg, max] = [rtt.rtt_min_ns, rtt.rtt_avg_ns, rtt.rtt_max_ns].map(time);
        format!(", round trip {min} at best, {avg} on average, {max} at worst")
    });
    format!("   {received} of {sent} answered{times}   (by {by})")
}

pub(super) fn transfer(duration: Duration) -> String {
    format!("\n2. TCP, from left to right, for {}", human::span(duration))
}

pub(super) fn tcp(tcp: Option<&TcpResult>) -> String {
    let Some(TcpResult { by, bits_per_sec, retransmits }) = tcp else {
        return "   ended early".to_owned();
    };
    let again = match retransmits {
        None => String::new(),
        Some(0) => ", no segment sent twice".to_owned(),
        Some(count) => format!(", {} segments sent twice", human::count(*count)),
    };
    format!("   {} of data arrived{again}   (by {by})", human::bits_per_sec(*bits_per_sec as f64))
}

/// Describes the results.
pub(super) fn closing_text(
    site: &DemoSandbox,
    sample: &ReportSample<DemoReportExtra>,
    measured: &str,
) -> String {
    let mut text =
        format!("\n3. What was asked, and what was measured\n{}", answers(&sample.extra));
    text += &measured.lines().map(|line| format!("   {line}\n")).collect::<String>();
    text += "\n4. What the ports counted\n";
    let width = sample.ports.iter().map(|port| port.name.len()).max().unwrap_or(0);
    for port in &sample.ports {
        text += &format!("   {:width$}  {}\n", port.name, counted(port));
    }
    text += &format!("   {}\n", balance(sample));
    text + &format!("\n{}\n", meaning(site.kind)) + CLEANUP_TEXT
}

/// Formats the results of ping and the TCP transfer next to the settings of the link.
fn answers(seen: &DemoReportExtra) -> String {
    let findings = &seen.findings;
    let best = findings.ping.as_ref().and_then(|ping| ping.rtt).map(|rtt| rtt.rtt_min_ns);
    let asked = human::span(Duration::from_nanos(2 * DELAY_NS));
    let ping = best.map_or(String::new(), |best| {
        let measured = human::span(Duration::from_nanos(best));
        format!("   round trip  asked {asked}, measured {measured} by ping at best\n")
    });
    let rate = human::bits_per_sec(RATE_BPS as f64);
    let tcp = findings.tcp.as_ref().map_or(String::new(), |tcp| {
        let data = human::bits_per_sec(tcp.bits_per_sec as f64);
        format!("   rate        asked {rate} of frames, measured {data} of data by TCP\n")
    });
    ping + &tcp
}

const CLEANUP_TEXT: &str = "\
Nothing is left behind: the networks have no names and end with this program, however it ends.
Next: `slipring run --rate 12Mbit --delay 20ms -- CMD` puts a command of yours behind a link;
`slipring ports` lists your interfaces, `slipring doctor` examines this machine.";

fn counted(port: &PortReport) -> String {
    let PortReport { rx, tx, drops, .. } = port;
    let lost = match drops.len() {
        0 => "none".to_owned(),
        _ => drops
            .iter()
            .map(|(cause, count)| format!("{count} {cause}"))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let (rx, tx) = (human::count(rx.packets), human::count(tx.packets));
    format!("received {rx:>8}   sent {tx:>8}   dropped {lost}")
}

/// Formats the balance of received, sent and dropped frames. Drops whose cause begins with `rx` are
/// left out, because these frames are not counted as received.
fn balance<X>(sample: &ReportSample<X>) -> String {
    let sum = |of: fn(&PortReport) -> u64| sample.ports.iter().map(of).sum::<u64>();
    let (rx, tx) = (sum(|port| port.rx.packets), sum(|port| port.tx.packets));
    let dropped = sum(|port| {
        port.drops
            .iter()
            .filter(|(cause, _)| !cause.starts_with("rx"))
            .map(|(_, count)| count)
            .sum()
    });
    match rx.checked_sub(tx + dropped + sample.in_flight) {
        Some(0) => "Every frame that came in went out again, or is named above.".to_owned(),
        Some(waiting) => format!("{waiting} frames were still on their way when it ended."),
        None => "More frames went out than came in: please report this.".to_owned(),
    }
}

fn meaning(kind: DemoPortKind) -> &'static str {
    match kind {
        DemoPortKind::Xdp => {
            "\
AF_XDP puts each frame into a buffer in shared memory, in netmap's rings. From there the link
copies it into its delay line, tightly packed, and sends it when its time has come. The lines
with `mode=` above say how the kernel was entered: no module, no patched driver."
        }
        DemoPortKind::Packet => {
            "\
AF_PACKET copies each frame out of and into the kernel; in between the link holds it until its
time has come. It works on every interface, at a fraction of the speed of xdp: ports."
        }
        DemoPortKind::Tap => {
            "\
Each frame is copied between its TAP device and a ring in shared memory; in between the link
holds it until its time has come."
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use slipring_cli::report::PortTraffic;

    use super::*;
    use crate::demo::probes::RttSummary;

    fn port(rx: u64, tx: u64, drops: &[(&str, u64)]) -> PortReport {
        let traffic = |packets| PortTraffic { packets, bytes: 60 * packets };
        let drops: BTreeMap<_, _> =
            drops.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect();
        PortReport {
            name: "tap:left".into(),
            rx: traffic(rx),
            tx: traffic(tx),
            drops,
            ..PortReport::default()
        }
    }

    fn sample(ports: Vec<PortReport>) -> ReportSample<()> {
        ReportSample { elapsed: Duration::ZERO, ports, in_flight: 1, copies: 0, extra: () }
    }

    #[test]
    fn the_balance_counts_drops_on_the_way_out_only() {
        let even =
            sample(vec![port(10, 5, &[("rx_ring_full", 9)]), port(6, 8, &[("tx_refused", 2)])]);
        assert!(balance(&even).starts_with("Every frame"));
        assert!(balance(&sample(vec![port(10, 5, &[])])).starts_with("4 frames"));
        assert!(balance(&sample(vec![port(1, 5, &[])])).starts_with("More"));
    }

    #[test]
    fn findings_are_told_with_units() {
        let rtt = RttSummary { rtt_min_ns: 21_000, rtt_avg_ns: 30_500, rtt_max_ns: 1_500_000 };
        let seen = PingResult { by: "ping", sent: 5, received: 4, rtt: Some(rtt) };
        assert_eq!(
            ping(Some(&seen)),
            "   4 of 5 answered, round trip 21 us at best, 30.5 us on average, 1.5 ms at worst   (by ping)"
        );
        let seen = TcpResult { by: "iperf3", bits_per_sec: 2_500_000_000, retransmits: Some(0) };
        assert_eq!(
            tcp(Some(&seen)),
            "   2.5 Gbit/s of data arrived, no segment sent twice   (by iperf3)"
        );
        assert_eq!(tcp(None), "   ended early");
    }
}
