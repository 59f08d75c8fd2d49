//! Links emulated in real time, between ports.
//!
//! Each part uses only parts above it in this table:
//!
//! | part | purpose |
//! |---|---|
//! | [`options`], [`frame_tap`] | options of a run, observers of single frames |
//! | [`stamp`] | when each frame of a batch arrived |
//! | [`inlet`], [`outlet`] | input and output of one port |
//! | [`peer_thread`] | the connection between two loops |
//! | [`emulator`] | one loop iteration (a turn): rings, stamps, storage, network, rings |
//! | [`directions`], [`pipeline`] | two such loops, each with one port and one direction |
//! | [`channel`] | passes accounts to other threads, and takes changes from them |
//! | [`placement`] | CPU, priority, timer slack |
//! | [`emulator_loop`] | sleeps and spins between two turns |
//! | [`figures`], [`log`] | reports and interim lines about a state; logs of every frame |
//!
//! Not for: the behaviour of links (`slipring-link`), virtual time, and output formats.

mod channel;
mod directions;
mod emulator;
mod emulator_loop;
pub(crate) mod figures;
mod frame_tap;
mod inlet;
mod log;
mod options;
mod outlet;
mod peer_thread;
mod pipeline;
mod placement;
mod stamp;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};

use slipring_cli::Failure;
use slipring_link::NetworkSpec;
use slipring_port::{Port, now};

use slipring_datapath::workers::WorkerTask;

pub use channel::EmulatorChannel;
pub(crate) use channel::PlanChange;
pub use emulator::Emulator;
pub(crate) use frame_tap::FrameTap;
pub use log::{FrameLogWriter as LogWriter, LogTap, ObservedFrame, open as open_log};
pub use options::RealtimeOptions;

use directions::LinkDirections;
use emulator::wrong_plan;
use emulator_loop::EmulatorLoop;
use placement::{PausePacer, ThreadPlacement};

/// An emulation that is ready to run, and the channel that observes and changes it.
pub struct Emulation {
    /// The tasks; each must run in a separate thread.
    pub tasks: Vec<WorkerTask>,
    /// The channel to the tasks.
    pub channel: Arc<EmulatorChannel>,
    /// Each thread sends its placement here when it starts.
    pub placements: mpsc::Receiver<ThreadPlacement>,
}

/// Prepares an emulation between ports; entry and exit `i` of the plan are `ports[i]`.
///
/// # Errors
/// [`Failure`] if the plan cannot be built, a pipeline is requested but the plan cannot be split,
/// or this process has no descriptors left.
pub fn prepare<T: FrameTap + 'static>(
    ports: Vec<Port>,
    plan: &NetworkSpec,
    options: &RealtimeOptions,
    tap: T,
) -> Result<Emulation, Failure> {
    if options.pipeline {
        return prepare_pair(ports, plan, options, tap);
    }
    let emulator = Emulator::between(ports, plan, options, tap, now()).map_err(wrong_plan)?;
    let channel = Arc::new(EmulatorChannel::new()?);
    Ok(emulation_of(vec![(emulator, channel.clone())], channel, options))
}

/// Checks that two threads can emulate `plan`.
///
/// # Errors
/// [`Failure`] if the plan does not have two directions between two ports, or if they share a link
/// or a node.
pub(crate) fn check_pipeline(plan: &NetworkSpec) -> Result<(), Failure> {
    LinkDirections::of(plan).map(drop)
}

fn prepare_pair<T: FrameTap + 'static>(
    ports: Vec<Port>,
    plan: &NetworkSpec,
    options: &RealtimeOptions,
    tap: T,
) -> Result<Emulation, Failure> {
    let directions = LinkDirections::of(plan)?;
    let ports =
        <[Port; 2]>::try_from(ports).map_err(|ports| directions::refused_ports(ports.len()))?;
    let pair = Emulator::pair(ports, plan, options, tap, now())?;
    let channels = [Arc::new(EmulatorChannel::new()?), Arc::new(EmulatorChannel::new()?)];
    let channel = Arc::new(EmulatorChannel::for_pair(directions, channels.clone())?);
    Ok(emulation_of(pair.into_iter().zip(channels).collect(), channel, options))
}

/// Creates a task for each emulator. An emulator answers requests on its own channel. `channel` is
/// the channel of the only emulator, or combines those of both.
fn emulation_of<T: FrameTap + 'static>(
    emulators: Vec<(Emulator<T>, Arc<EmulatorChannel>)>,
    channel: Arc<EmulatorChannel>,
    options: &RealtimeOptions,
) -> Emulation {
    let (sender, placements) = mpsc::channel();
    let threads = emulators.len();
    let cpus = options.cpus.iter().copied().map(Some).chain(std::iter::repeat(None));
    let task = |((emulator, channel), cpu): (
        (Emulator<T>, Arc<EmulatorChannel>),
        Option<usize>,
    )|
     -> WorkerTask {
        let (sender, patience) = (sender.clone(), options.wait_policy);
        Box::new(move |stop| {
            let placement = placement::place_thread(cpu, threads, patience);
            let pacer = PausePacer::of(&placement);
            // Sending fails if the receiver was dropped. Then no thread needs the placement.
            let _ = sender.send(placement);
            EmulatorLoop::new(emulator, patience, &channel).with_pauses(pacer).run(stop)
        })
    };
    Emulation { tasks: emulators.into_iter().zip(cpus).map(task).collect(), channel, placements }
}
