//! The two threads of `--pipeline` at full load in one direction, beside the floor of copying
//! every frame in by one thread and out by another.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use slipring_cli::Failure;
use slipring_port::{Port, RunError, now};

use super::{DELAY_NS, USUAL_LAG, floor, in_flight, plan, ports, run, wire};
use crate::bench::measure::{FEEDER_CPU, PROGRAM_CPU, Reading, Tally, Why, on_cpu, pin};
use crate::bench::row::{Bout, Of, Role, Row, Unit};
use slipring_emulation::{Burst, Emulator, Manner};

const FLOOR: &str = "copy in, copy out by two";

/// Frames of `N` bytes: at most `bound` times the floor.
pub(super) fn row<const N: usize>(bound: f64) -> Row {
    let lag = Rc::new(Cell::new(USUAL_LAG));
    let floor_lag = lag.clone();
    let title = format!("emulate, 20 ms, 2 threads, {N} B");
    Row::new(format!("emulate-2t-{N}"), title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", move || full_load::<N>(lag))
        .with(Role::Floor, FLOOR, move || {
            Ok(Box::new(move |time| {
                floor::two_threads::<N>(floor_lag.get(), time).map(Reading::from)
            }))
        })
        .goal(Of::RatioTo(FLOOR), 1.0 / bound)
}

fn full_load<const N: usize>(lag: Rc<Cell<usize>>) -> Result<Bout, Why> {
    Ok(Box::new(move |time| {
        let [mut input, mut output] = halves(ports::pair(N as u16)?)?;
        let stop = AtomicBool::new(false);
        let tally = scope(|scope| {
            let feeding = scope.spawn(|| {
                pin(FEEDER_CPU);
                while !stop.load(Ordering::Relaxed) {
                    input.turn(now)?;
                }
                Ok::<_, RunError>(())
            });
            let tally = on_cpu(PROGRAM_CPU, || -> Result<Tally, Why> {
                run(&mut output, Duration::from_nanos(3 * DELAY_NS))?;
                run(&mut output, time)
            });
            stop.store(true, Ordering::Relaxed);
            feeding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            tally
        })?;
        lag.set(in_flight(&tally) as usize);
        Ok(tally.into())
    }))
}

fn halves(ports: Vec<Port>) -> Result<[Emulator<()>; 2], Why> {
    let ports = <[Port; 2]>::try_from(ports)
        .map_err(|ports| Why::Failed(format!("there are {} ports", ports.len())))?;
    let manner = Manner { burst: Burst { frames: 64, ..Burst::default() }, ..Manner::default() };
    Emulator::pair(ports, &plan(wire), &manner, (), now()).map_err(|failure| match failure {
        Failure::Error(error) => Why::Failed(error.to_string()),
        Failure::ReaderLeft => Why::Failed("nobody reads".into()),
    })
}
