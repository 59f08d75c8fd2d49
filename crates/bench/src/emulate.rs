//! The link emulator between ports in memory. It is compared with a floor: copying every frame
//! twice, through as much memory as the frames in flight need.

mod error;
mod floor;
mod many_links;
mod ports;
mod setup;
mod two_threads;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use slipring_link::{
    DelaySpec, Discipline, LinkQueueSpec, LinkSpec, LossModel, LossPosition, LossSpec, NetworkSpec,
    OrderPolicy, RateSpec,
};
use slipring_model::{Dist, aqm};

use super::measure::{BenchError, BenchReading, BenchTally, PROGRAM_CPU, on_cpu};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use setup::{DEFAULT_LAG_FRAMES, DELAY_NS, emulator, in_flight, plan, run, wire};

const FLOOR_NAME: &str = "copy in, copy out";
/// Returns all rows of the link emulator.
pub(crate) fn rows() -> Vec<BenchRow> {
    let mut rows = vec![one_thread::<64>(1.5), one_thread::<1500>(1.2)];
    rows.extend([two_threads::row::<64>(1.5), two_threads::row::<1500>(1.2), stages()]);
    rows.extend(error::rows());
    rows.extend(many_links::rows());
    rows
}

/// Returns the row for frames of `N` bytes at full load in one thread. The goal is at most `bound`
/// times the floor's time per packet.
fn one_thread<const N: usize>(bound: f64) -> BenchRow {
    let lag = Rc::new(Cell::new(DEFAULT_LAG_FRAMES));
    let floor_lag = lag.clone();
    let title = format!("emulate, 20 ms, 1 thread, {N} B");
    BenchRow::new(format!("emulate-1t-{N}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || full_load::<N>(lag))
        .with(ContenderRole::Floor, FLOOR_NAME, move || {
            Ok(Box::new(move |time| {
                floor::one_thread::<N>(floor_lag.get(), time).map(BenchReading::from)
            }))
        })
        .goal(GoalMetric::RatioTo(FLOOR_NAME), 1.0 / bound)
}

/// Returns the row for the additional cost of a rate, losses in bursts, a correlated delay and
/// queue management.
fn stages() -> BenchRow {
    BenchRow::new("emulate-stages", "emulate, all stages on, extra per packet", RowUnit::Nanos)
        .with(ContenderRole::Ours, "slipring", || {
            Ok(Box::new(|time| {
                let plain = steady(&plan(wire), 64, time / 2)?.0;
                let staged = steady(&plan(all_stages), 64, time / 2)?.0;
                let per_packet =
                    |tally: BenchTally| tally.wall as f64 / tally.packets.max(1) as f64;
                let (plain, staged) = (per_packet(plain), per_packet(staged));
                let extra = vec![("without", plain), ("with", staged)];
                Ok(BenchReading { value: staged - plain, per_cpu_second: None, extra })
            }))
        })
        .goal(GoalMetric::Value, 15.0)
}

fn all_stages(name: &str) -> LinkSpec {
    let delay = Dist::normal(DELAY_NS as f64, 1e6).expect("the figures are right");
    let loss = LossModel::GilbertElliott { p: 0.001, r: 0.25, bad: 1.0, good: 0.0 };
    LinkSpec {
        rate: RateSpec::Constant { bps: 400_000_000_000 },
        loss: vec![LossSpec { model: loss, position: LossPosition::Pre }],
        queue: LinkQueueSpec {
            discipline: Discipline::CoDel(aqm::CoDelSpec::default()),
            ..LinkQueueSpec::default()
        },
        delay: DelaySpec { half_life_ns: Some(10_000_000), ..DelaySpec::random(delay) },
        order: OrderPolicy::Correlated,
        ..LinkSpec::wire(name)
    }
}

fn full_load<const N: usize>(lag: Rc<Cell<usize>>) -> Result<BenchRound, BenchError> {
    Ok(Box::new(move |time| {
        let (tally, in_flight) = steady(&plan(wire), N as u16, time)?;
        lag.set(in_flight as usize);
        Ok(tally.into())
    }))
}

/// Runs at full load for `time`, after the maximum number of frames is in flight. Also returns the
/// average number of frames in flight, which depends on the delay.
fn steady(plan: &NetworkSpec, len: u16, time: Duration) -> Result<(BenchTally, u64), BenchError> {
    let mut emulator = emulator(plan, ports::pair(len)?)?;
    let tally = on_cpu(PROGRAM_CPU, || -> Result<BenchTally, BenchError> {
        run(&mut emulator, Duration::from_nanos(3 * DELAY_NS))?;
        run(&mut emulator, time)
    })?;
    Ok((tally, in_flight(&tally)))
}
