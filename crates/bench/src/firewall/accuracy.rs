//! Measures how exactly pipes shape traffic between veth links, and how long a reload of rules
//! takes under traffic. The frames contain their send time.

use std::rc::Rc;
use std::time::Duration;

use slipring_port::{Nanos, Port, RunError, now};
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec};

use super::program::BenchFirewall;
use crate::lab::{BenchLab, SOURCE_IFNAME, pair};
use crate::measure::{BenchError, BenchReading, FEEDER_CPU, pin};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use crate::veth;

/// The veth pair after the firewall. Only this program receives at its far end.
const NEAR_IFNAME: &str = "srbench3a";
const FAR_IFNAME: &str = "srbench3b";

const RATE_BPS: f64 = 100e6;
const DELAY_NS: Nanos = 10_000_000;
/// Weights of the classes that share a link.
const CLASS_WEIGHTS: [u32; 3] = [10, 20, 70];
/// Number of rules in a reload. They replace as many others.
const NUM_RULES: u32 = 10_000;
/// The mark by which this benchmark recognises its frames. It follows the headers, and a timestamp
/// follows it.
const FRAME_MARK: &[u8] = b"slipring";
const MARK_BYTES: std::ops::Range<usize> = 42..50;
const STAMP_BYTES: std::ops::Range<usize> = 50..58;
/// Offset of the last byte of the source address.
const FLOW_OFFSET: usize = 29;
/// How long to wait for late frames. It is longer than any queue of these benchmarks needs to
/// become empty.
const DRAIN_TIMEOUT_NS: Nanos = 200_000_000;

pub(super) fn rows() -> Vec<BenchRow> {
    let row = |id: &str, title: &str, unit, start: fn() -> Result<BenchRound, BenchError>| {
        let title = format!("firewall, veth, {title}");
        BenchRow::new(format!("firewall-{id}"), title, unit).with(
            ContenderRole::Ours,
            "slipring",
            start,
        )
    };
    let shares = "error of WF2Q+ shares of 10, 20 and 70";
    vec![
        row("shape-bw", "error of 100 Mbit/s", RowUnit::Share, bandwidth)
            .goal(GoalMetric::Value, 0.005)
            .once(Duration::from_secs(5)),
        row("shape-delay", "median error of delay 10ms", RowUnit::Nanos, delay)
            .goal(GoalMetric::Value, 50_000.0),
        row("shape-wf2q", shares, RowUnit::Share, shares_of_weights)
            .goal(GoalMetric::Value, 0.02)
            .once(Duration::from_secs(5)),
        row("reload", "reload of 10,000 rules under traffic", RowUnit::Nanos, reload)
            .goal(GoalMetric::Value, 1e9)
            .once(Duration::from_secs(5)),
    ]
}

fn bandwidth() -> Result<BenchRound, BenchError> {
    let mut probe =
        FirewallProbe::new("pipe 1 config bw 100Mbit/s\nadd pipe 1 ip from any to any")?;
    Ok(Box::new(move |time| {
        let seen = probe.run(OfferedLoad { flows: 1, len: 1496, gap_ns: 100_000 }, time)?;
        // The first and the last fifth of the frames are left out, so the queue is full all the
        // time.
        let steady = &seen.arrived[seen.arrived.len() / 5..seen.arrived.len() * 4 / 5];
        let [first, rest @ .., last] = steady else {
            return Err(super::checks::failed("nothing came"));
        };
        let bits = (rest.len() + 1) as f64 * 1496.0 * 8.0;
        let rate = bits * 1e9 / (last.at - first.at) as f64;
        Ok(BenchReading::of((rate / RATE_BPS - 1.0).abs()))
    }))
}

/// Measures how much the delay that a pipe adds differs from the configured delay. The added delay
/// is the median age of frames with the pipe, minus that without the pipe. The second figure is the
/// difference between the whole age and the configured delay.
fn delay() -> Result<BenchRound, BenchError> {
    let mut probe = FirewallProbe::new(
        "pipe 1 config delay 10ms\nadd set 1 allow ip from any to any\n\
         add pipe 1 ip from any to any",
    )?;
    Ok(Box::new(move |time| {
        let mut age = |pass: &str| {
            probe.program.run_ipfw(&["set", pass, "1"])?;
            let seen = probe.run(OfferedLoad { flows: 1, len: 60, gap_ns: 1_000_000 }, time / 2)?;
            median_age(seen).ok_or_else(|| super::checks::failed("nothing came"))
        };
        let (without, with) = (age("enable")?, age("disable")?);
        let error = with.abs_diff(without + DELAY_NS) as f64;
        let seen = with.abs_diff(DELAY_NS) as f64;
        Ok(BenchReading { extra: vec![("seen by the receiver", seen)], ..BenchReading::of(error) })
    }))
}

fn median_age(seen: ProbeResult) -> Option<Nanos> {
    let mut ages: Vec<_> = seen.arrived.iter().map(|frame| frame.at - frame.sent).collect();
    ages.sort_unstable();
    ages.get(ages.len() / 2).copied()
}

fn shares_of_weights() -> Result<BenchRound, BenchError> {
    let mut rules = "pipe 1 config bw 100Mbit/s\nsched 1 config type wf2q+\n".to_owned();
    for (weight, n) in CLASS_WEIGHTS.iter().zip(1..) {
        rules += &format!("queue {n} config sched 1 weight {weight} queue 100\n");
        rules += &format!("add queue {n} ip from 10.77.0.{n} to any\n");
    }
    let mut probe = FirewallProbe::new(&rules)?;
    Ok(Box::new(move |time| {
        let seen = probe.run(OfferedLoad { flows: 3, len: 1496, gap_ns: 35_000 }, time)?;
        let steady = &seen.arrived[seen.arrived.len() / 5..seen.arrived.len() * 4 / 5];
        let all: u32 = CLASS_WEIGHTS.iter().sum();
        let error = |(weight, flow): (&u32, u8)| {
            let came = steady.iter().filter(|frame| frame.flow == flow).count();
            let wanted = steady.len() as f64 * f64::from(*weight) / f64::from(all);
            (came as f64 / wanted - 1.0).abs()
        };
        Ok(BenchReading::of(CLASS_WEIGHTS.iter().zip(1..).map(error).fold(0.0, f64::max)))
    }))
}

/// Measures several reloads while 20,000 frames pass per second. Returns the time of the slowest.
/// No frame may be lost.
fn reload() -> Result<BenchRound, BenchError> {
    let mut probe = FirewallProbe::new("add allow ip from any to any")?;
    let rules = |offset: u32| {
        let source = |n| std::net::Ipv4Addr::from(0xc0a8_0000 + offset + n);
        let rule = |n| format!("add deny udp from {} to any {}\n", source(n), 1 + n % 1000);
        let rules: String = (1..NUM_RULES).map(rule).collect();
        format!("-f flush\n{rules}add allow ip from any to any\n")
    };
    let lists = [rules(0), rules(NUM_RULES)];
    Ok(Box::new(move |time| {
        let (program, probing) = (&probe.program, &mut probe.ports);
        let (seen, slowest) = std::thread::scope(|scope| {
            let reloading = scope.spawn(|| {
                let mut slowest = 0;
                let start = now();
                for list in lists.iter().cycle() {
                    let before = now();
                    program.run_ipfw_with_input(&["-"], list)?;
                    slowest = slowest.max(now() - before);
                    if now() - start > time.as_nanos() as Nanos {
                        break;
                    }
                }
                Ok::<_, BenchError>(slowest)
            });
            let seen = exchange(probing, OfferedLoad { flows: 3, len: 60, gap_ns: 50_000 }, time);
            let slowest = reloading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (seen, slowest)
        });
        let (seen, slowest) = (seen?, slowest?);
        match seen.sent - seen.arrived.len() as u64 {
            0 => Ok(BenchReading::of(slowest as f64)),
            lost => Err(super::checks::failed(format!("{lost} of {} frames lost", seen.sent))),
        }
    }))
}

/// The offered load: frames of several flows in turn.
#[derive(Clone, Copy)]
struct OfferedLoad {
    flows: u8,
    len: usize,
    gap_ns: Nanos,
}

/// A received frame.
struct ArrivedFrame {
    flow: u8,
    sent: Nanos,
    at: Nanos,
}

#[derive(Default)]
struct ProbeResult {
    sent: u64,
    arrived: Vec<ArrivedFrame>,
}

/// A firewall between two links, and ports at their far ends.
struct FirewallProbe {
    ports: Vec<Port>,
    program: BenchFirewall,
    _lab: Rc<BenchLab>,
}

impl FirewallProbe {
    fn new(rules: &str) -> Result<Self, BenchError> {
        let lab = BenchLab::new()?;
        lab.within(|| pair(NEAR_IFNAME, FAR_IFNAME))?;
        let program = BenchFirewall::start(&lab, NEAR_IFNAME, rules)?;
        let ports = lab.within(|| {
            Ok(veth::open(veth::InterfacePath::Packet, &[SOURCE_IFNAME, FAR_IFNAME])?)
        })?;
        Ok(Self { ports, program, _lab: lab })
    }

    fn run(&mut self, offer: OfferedLoad, time: Duration) -> Result<ProbeResult, BenchError> {
        exchange(&mut self.ports, offer, time)
    }
}

/// Sends for a time, and receives what arrives.
fn exchange(
    ports: &mut [Port],
    offer: OfferedLoad,
    time: Duration,
) -> Result<ProbeResult, BenchError> {
    let frames: Result<Vec<_>, _> = (1..=offer.flows).map(|flow| frame(flow, offer.len)).collect();
    let frames = frames?;
    let [left, right] = ports else { return Err(super::checks::failed("a wrong number of ports")) };
    std::thread::scope(|scope| {
        let exchanging = scope.spawn(|| {
            pin(FEEDER_CPU);
            pass(left, right, &frames, offer.gap_ns, time.as_nanos() as Nanos)
        });
        Ok(exchanging.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    })
}

fn pass(
    left: &mut Port,
    right: &mut Port,
    frames: &[Vec<u8>],
    gap_ns: Nanos,
    time: Nanos,
) -> Result<ProbeResult, RunError> {
    let (left, right) = (&mut left.queues[0], &mut right.queues[0]);
    let mut seen = ProbeResult::default();
    let start = now();
    let mut next = start;
    let mut turns = frames.iter().cycle();
    while now() < start + time + DRAIN_TIMEOUT_NS {
        let time_now = now();
        if time_now >= next && time_now < start + time {
            next = next.max(time_now - 10 * gap_ns) + gap_ns;
            seen.sent += u64::from(left.rings().tx.fill(1, |buf| {
                let frame = turns.next().map_or(&[][..], Vec::as_slice);
                buf[..frame.len()].copy_from_slice(frame);
                buf[STAMP_BYTES].copy_from_slice(&now().to_ne_bytes());
                frame.len()
            }));
            left.tx_sync()?;
        }
        right.rx_sync()?;
        let at = now();
        let mut batch = right.rings().rx.batch(64);
        seen.arrived.extend(batch.frames().filter_map(|frame| arrived_frame(frame.bytes, at)));
    }
    Ok(seen)
}

fn arrived_frame(bytes: &[u8], at: Nanos) -> Option<ArrivedFrame> {
    let is_ours = bytes.get(MARK_BYTES)? == FRAME_MARK;
    let sent = Nanos::from_ne_bytes(*bytes.get(STAMP_BYTES)?.first_chunk()?);
    is_ours.then_some(ArrivedFrame { flow: bytes[FLOW_OFFSET], sent, at })
}

fn frame(flow: u8, len: usize) -> Result<Vec<u8>, BenchError> {
    let (src, dst) = ([10, 77, 0, flow].into(), [10, 77, 1, 1].into());
    let spec = FrameSpec {
        ip: IpSpec::V4(Ipv4Spec { src, dst, ..Ipv4Spec::default() }),
        ..FrameSpec::default()
    };
    let mut bytes = spec.build(len).map_err(super::checks::failed)?.bytes.to_vec();
    bytes[MARK_BYTES].copy_from_slice(FRAME_MARK);
    Ok(bytes)
}
