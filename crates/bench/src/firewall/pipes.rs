//! Benchmarks of pipes and schedulers, in virtual time.

use std::hint::black_box;

use slipring_dummynet::flow::ShaperFlowKey;
use slipring_dummynet::text::{DummynetCommand, QueueCaps};
use slipring_dummynet::{Dummynet, ShaperEvent, ShaperPacket, ShaperTarget};

use super::checks::{cpu_round, failed};
use crate::measure::{BenchError, BenchReading};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const NUM_FLOWS: u32 = 10_000;
/// Time in ns that 64 bytes take at 10 Gbit/s.
const SLOT_NS: u64 = 51;
/// Number of packets per call of the measured closure.
const BURST_PACKETS: u64 = 256;

pub(super) fn rows() -> Vec<BenchRow> {
    let row = |id: &str, title: &str| {
        BenchRow::new(
            format!("firewall-{id}"),
            format!("firewall, {title}"),
            RowUnit::PacketsPerSec,
        )
    };
    let pipe = row("pipe", "pipe delay 10ms").with(ContenderRole::Ours, "slipring", || {
        through("pipe 1 config delay 10ms", ShaperTarget::Pipe(1), 1)
    });
    let mut rows = vec![pipe.goal(GoalMetric::Value, 15e6)];
    for (id, kind) in [("wf2q", "wf2q+"), ("fq-codel", "fq_codel flows 65536 limit 20480")] {
        let title = format!("10,000 flows, {}", kind.split(' ').next().unwrap_or(kind));
        let start = move || through(&scheduled(kind), ShaperTarget::Queue(1), NUM_FLOWS);
        rows.push(
            row(id, &title)
                .with(ContenderRole::Ours, "slipring", start)
                .goal(GoalMetric::Value, 8e6),
        );
    }
    rows.push(
        BenchRow::new("firewall-burst", "firewall, burst at 1 Gbit/s, 64 B", RowUnit::Packets)
            .with(ContenderRole::Ours, "slipring", || {
                Ok(Box::new(|_| largest_burst().map(BenchReading::of)))
            })
            .goal(GoalMetric::Value, 2.0),
    );
    rows
}

fn scheduled(kind: &str) -> String {
    format!(
        "pipe 1 config bw 10Gbit/s\nsched 1 config type {kind}\n\
         queue 1 config sched 1 weight 10 mask all"
    )
}

fn shaper(config: &str) -> Result<Dummynet<u32>, BenchError> {
    let mut shaper = Dummynet::new(1, [1, 2]);
    for line in config.lines() {
        let caps = QueueCaps { slots: 10_000, ..QueueCaps::default() };
        let DummynetCommand::Config(config) =
            DummynetCommand::parse_within(line, &caps).map_err(failed)?
        else {
            return Err(failed(line));
        };
        shaper.configure(0, config, &mut |_| {}).map_err(failed)?;
    }
    Ok(shaper)
}

fn packet(handle: u32) -> ShaperPacket<u32> {
    ShaperPacket { handle, rule: 1, len: 64, ecn: Default::default() }
}

/// Measures the shaper with packets of `flows` flows in turn. With a scheduler, the packets are
/// offered a little slower than the link can send, and each flow has about two waiting packets.
fn through(config: &str, object: ShaperTarget, flows: u32) -> Result<BenchRound, BenchError> {
    let mut shaper = shaper(config)?;
    let flow = |n: u32| ShaperFlowKey {
        proto: 17,
        src: n.into(),
        dst: 1,
        src_port: n as u16,
        ..ShaperFlowKey::default()
    };
    let keys: Vec<_> = (0..flows).map(flow).collect();
    let (mut at, mut now_ns, mut out) = (0, 0, 0_u64);
    let mut step = move |gap_ns: u64| {
        now_ns += gap_ns;
        at = if at + 1 == keys.len() { 0 } else { at + 1 };
        shaper.submit(now_ns, object, &keys[at], packet(at as u32), &mut |_| {});
        let mut tell = |event| out += u64::from(matches!(event, ShaperEvent::Released { .. }));
        shaper.release(now_ns, &mut tell);
        black_box(out);
    };
    (0..2 * flows).for_each(|_| step(0));
    Ok(cpu_round(move || {
        (0..BURST_PACKETS).for_each(|n| step(SLOT_NS + u64::from(n % 5 == 0)));
        BURST_PACKETS
    }))
}

/// Offers packets ten times faster than the link can send. Returns the largest number that leave in
/// one nanosecond.
fn largest_burst() -> Result<f64, BenchError> {
    let mut shaper = shaper("pipe 1 config bw 1Gbit/s delay 1ms")?;
    let mut times = Vec::new();
    for n in 0..200_000 {
        shaper.submit(
            n * SLOT_NS,
            ShaperTarget::Pipe(1),
            &ShaperFlowKey::default(),
            packet(0),
            &mut |_| {},
        );
        shaper.release(n * SLOT_NS, &mut |event| {
            if let ShaperEvent::Released { at_ns, .. } = event {
                times.push(at_ns);
            }
        });
    }
    let burst = times.chunk_by(|a, b| a == b).map(<[_]>::len).max();
    burst.map(|burst| burst as f64).ok_or_else(|| failed("nothing left the pipe"))
}
