//! Measures the effect on traffic if the router is killed, or stopped and continued. The kernel
//! forwards meanwhile.

use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use slipring_rtnetlink::RouteFamily;

use super::path::{frame, routed_lab};
use super::running::RunningRouter;
use super::stream::{self, StreamTally};
use crate::lab::BenchLab;
use crate::measure::{BenchError, BenchReading};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const OURS_NAME: &str = "slipring route";
/// Maximum time without a frame, in nanoseconds.
const MAX_GAP_NS: f64 = 2e8;
/// Maximum number of reordered frames: as many as a driver handles in one NAPI poll.
const MAX_REORDERED: f64 = 64.0;
const LOST_NAME: &str = "lost";
/// Pause before and after each signal: longer than the kernel waits before it takes over.
const PART: Duration = Duration::from_millis(400);

pub(super) fn rows() -> [BenchRow; 3] {
    let row = |id: &str, title: &str, unit, measure: fn(&Rc<BenchLab>) -> Result<_, _>, bound| {
        let title = format!("route, 20 kpps, numbered, {title}");
        BenchRow::new(format!("route-takeover-{id}"), title, unit)
            .with(ContenderRole::Ours, OURS_NAME, move || round(measure))
            .goal(GoalMetric::Value, bound)
    };
    [
        row("kill", "longest gap after SIGKILL", RowUnit::Nanos, after_kill, MAX_GAP_NS),
        row("stop", "longest gap, SIGSTOP to SIGCONT", RowUnit::Nanos, after_stop, MAX_GAP_NS),
        row("order", "reordered by both", RowUnit::Packets, reordered, MAX_REORDERED),
    ]
}

fn round(
    measure: fn(&Rc<BenchLab>) -> Result<BenchReading, BenchError>,
) -> Result<BenchRound, BenchError> {
    let lab = routed_lab(BenchLab::without_sink()?, &[RouteFamily::V4])?;
    Ok(Box::new(move |_| measure(&lab)))
}

fn after_kill(lab: &Rc<BenchLab>) -> Result<BenchReading, BenchError> {
    Ok(gap(&stream_with(lab, &[Signal::KILL])?))
}

fn after_stop(lab: &Rc<BenchLab>) -> Result<BenchReading, BenchError> {
    Ok(gap(&stream_with(lab, &[Signal::STOP, Signal::CONT])?))
}

fn reordered(lab: &Rc<BenchLab>) -> Result<BenchReading, BenchError> {
    let tally = stream_with(lab, &[Signal::STOP, Signal::CONT, Signal::KILL])?;
    let extra = vec![(LOST_NAME, tally.lost() as f64)];
    Ok(BenchReading { value: tally.reordered() as f64, per_cpu_second: None, extra })
}

fn gap(tally: &StreamTally) -> BenchReading {
    let lost = tally.lost() as f64 * stream::PERIOD_NS as f64;
    let extra = vec![(LOST_NAME, lost)];
    BenchReading { value: tally.longest_gap() as f64, per_cpu_second: None, extra }
}

/// Sends frames through a router. Meanwhile, sends the signals to the router in order, with a pause
/// of [`PART`] before and after each.
fn stream_with(lab: &Rc<BenchLab>, signals: &[Signal]) -> Result<StreamTally, BenchError> {
    let frame = lab.within(|| frame(RouteFamily::V4, true))?;
    let router = RunningRouter::start(lab)?;
    let ((), tally) = stream::during(lab, &frame, || {
        std::thread::sleep(PART);
        for &signal in signals {
            kill_process(Pid::from_child(&router.child.0), signal)?;
            std::thread::sleep(PART);
        }
        Ok(())
    })?;
    Ok(tally)
}
