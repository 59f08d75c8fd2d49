//! Links emulated in real time, between ports.
//!
//! | part | purpose |
//! |---|---|
//! | [`emulator`] | one turn: rings, stamps, storage, network, rings |
//! | [`inlet`], [`outlet`] | input and output of one port |
//! | [`stamp`] | when each frame of a batch arrived |
//! | [`pipeline`], [`peer_thread`] | two such loops, each with a port, and the link between them |
//! | [`emulator_loop`] | sleeping and spinning between two turns |
//! | [`channel`] | accounts to other threads and changes from them |
//! | [`job`] | from the plan to the report |
//! | [`run_services`] | control, settings changes and logs of a run |
//! | [`log`] | every frame, in files |
//! | [`placement`] | CPU, priority, timer slack |
//! | [`frame_tap`] | observers of single frames |
//!
//! Not for: the behaviour of links (`slipring-link`), virtual time, and output formats.

mod account;
mod channel;
mod emulator;
mod emulator_loop;
mod frame_tap;
mod inlet;
pub(crate) mod job;
mod log;
mod outlet;
mod peer_thread;
mod pipeline;
mod placement;
mod run_services;
mod stamp;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{NetworkSpec, SpecError};
use slipring_port::{Nanos, Port, WaitStrategy, now};

use slipring_datapath::workers::WorkerTask;

use crate::flags::BurstLimit;

pub use account::{EmulationAccount, EntryAccount, ExitAccount};
pub(crate) use channel::PlanChange;
pub use channel::{EmulationState, EmulatorChannel};
pub use emulator::Emulator;
pub(crate) use frame_tap::FrameTap;
pub use log::{FrameLogWriter as LogWriter, LogTap, ObservedFrame, open as open_log};
pub use run_services::{RunServices, RunStart};

use emulator_loop::EmulatorLoop;
use pipeline::LinkDirections;
use placement::{PausePacer, ThreadPlacement};

/// How an emulation runs; the [`NetworkSpec`] defines what it emulates.
#[derive(Debug, Clone)]
pub struct RealtimeOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// The most that is taken from a queue at once.
    pub burst: BurstLimit,
    /// How to wait; [`WaitStrategy::Spin`] never sleeps.
    pub wait_policy: WaitStrategy,
    /// CPUs to bind the threads to, in turn; empty: any.
    pub cpus: Vec<usize>,
    /// Two threads instead of one, for two ports whose directions share nothing.
    pub pipeline: bool,
    /// Frames later than this are dropped instead of sent.
    pub late_drop: Option<Nanos>,
    /// Frames later than this are counted as late.
    pub late_warn: Nanos,
    /// Most memory for frames, in bytes.
    pub storage_bytes: u64,
}

impl Default for RealtimeOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            burst: BurstLimit::default(),
            wait_policy: WaitStrategy::default(),
            cpus: Vec::new(),
            pipeline: false,
            late_drop: None,
            late_warn: 100_000,
            storage_bytes: 4 << 30,
        }
    }
}

/// An emulation that is ready to run, and the channel that observes and changes it.
pub struct Emulation {
    /// The tasks, each for a thread of its own.
    pub tasks: Vec<WorkerTask>,
    /// The channel to the tasks.
    pub channel: Arc<EmulatorChannel>,
    /// Receives the placement of each thread once it runs.
    pub placements: mpsc::Receiver<ThreadPlacement>,
}

/// Prepares an emulation between ports; entry and exit `i` of the plan are `ports[i]`.
///
/// # Errors
/// If the plan cannot be built, or not as a pipeline, or the process is out of descriptors.
pub fn prepare<T: FrameTap + 'static>(
    ports: Vec<Port>,
    plan: &NetworkSpec,
    manner: &RealtimeOptions,
    tap: T,
) -> Result<Emulation, Failure> {
    if manner.pipeline {
        return prepare_pair(ports, plan, manner, tap);
    }
    let emulator = Emulator::between(ports, plan, manner, tap, now()).map_err(wrong_plan)?;
    let board = Arc::new(EmulatorChannel::new()?);
    Ok(emulation_of(vec![(emulator, board.clone())], board, manner))
}

/// Checks that two threads can emulate `plan`.
///
/// # Errors
/// If its directions share something.
pub(crate) fn check_pipeline(plan: &NetworkSpec) -> Result<(), Failure> {
    LinkDirections::of(plan).map(drop)
}

fn prepare_pair<T: FrameTap + 'static>(
    ports: Vec<Port>,
    plan: &NetworkSpec,
    manner: &RealtimeOptions,
    tap: T,
) -> Result<Emulation, Failure> {
    let directions = LinkDirections::of(plan)?;
    let ports =
        <[Port; 2]>::try_from(ports).map_err(|ports| pipeline::refused_ports(ports.len()))?;
    let pair = Emulator::pair(ports, plan, manner, tap, now())?;
    let boards = [Arc::new(EmulatorChannel::new()?), Arc::new(EmulatorChannel::new()?)];
    let board = Arc::new(EmulatorChannel::for_pair(directions, boards.clone())?);
    Ok(emulation_of(pair.into_iter().zip(boards).collect(), board, manner))
}

/// Creates a thread for each emulator, with its own channel.
fn emulation_of<T: FrameTap + 'static>(
    emulators: Vec<(Emulator<T>, Arc<EmulatorChannel>)>,
    board: Arc<EmulatorChannel>,
    manner: &RealtimeOptions,
) -> Emulation {
    let (told, places) = mpsc::channel();
    let threads = emulators.len();
    let cpus = manner.cpus.iter().copied().map(Some).chain(std::iter::repeat(None));
    let task = |((emulator, board), cpu): ((Emulator<T>, Arc<EmulatorChannel>), Option<usize>)| -> WorkerTask {
        let (told, patience) = (told.clone(), manner.wait_policy);
        Box::new(move |stop| {
            let place = placement::place_thread(cpu, threads, patience);
            let breather = PausePacer::of(&place);
            // The receiver may be gone.
            let _ = told.send(place);
            EmulatorLoop::new(emulator, patience, &board).with_pauses(breather).run(stop)
        })
    };
    Emulation {
        tasks: emulators.into_iter().zip(cpus).map(task).collect(),
        channel: board,
        placements: places,
    }
}

fn wrong_plan(error: SpecError) -> Failure {
    Diagnostic::new(codes::SR0002, "the links cannot be built").with_cause(error.to_string()).into()
}
