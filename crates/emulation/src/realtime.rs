//! Links emulated in real time, between ports.
//!
//! | part | what |
//! |---|---|
//! | [`emulator`] | the loop: rings, stamps, storage, network, rings |
//! | [`inlet`], [`outlet`] | the way in and out at one port |
//! | [`stamp`] | when each frame of a batch arrived |
//! | [`drive`] | sleeping and spinning between two turns |
//! | [`board`] | accounts and changes, from and to other threads |
//! | [`job`] | from the plan to the report |
//! | [`desk`] | where a run is asked, changed and written down |
//! | [`log`] | every frame, in files |
//! | [`place`] | CPU, priority, timer slack |
//! | [`tap`] | who watches single frames |
//!
//! Not for: what the links do (that is `slipring-link`), virtual time, and how it is shown.

mod account;
mod board;
mod desk;
mod drive;
mod emulator;
mod inlet;
pub(crate) mod job;
mod log;
mod outlet;
mod place;
mod stamp;
mod tap;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{NetworkSpec, SpecError};
use slipring_port::{Nanos, Patience, Port, now};

use slipring_program::workers::Task;

pub use account::{Account, EntryAccount, ExitAccount};
pub(crate) use board::Change;
pub use board::{Board, State};
pub use desk::{Desk, Start};
pub use emulator::Emulator;
pub(crate) use tap::Tap;

use drive::Drive;
use place::Place;

/// How an emulation is run; what it emulates is the [`NetworkSpec`]'s.
#[derive(Debug, Clone)]
pub struct Manner {
    /// Seed of every random stream.
    pub seed: u64,
    /// Slots taken from a queue at most at a time.
    pub burst: u32,
    /// How to wait; [`Patience::Spin`] never sleeps.
    pub patience: Patience,
    /// CPU to bind the thread to; none for wherever the kernel likes.
    pub cpu: Option<usize>,
    /// Frames later than this are dropped instead of sent.
    pub late_drop: Option<Nanos>,
    /// Frames later than this are counted as late.
    pub late_warn: Nanos,
    /// Memory for frames at most, in bytes.
    pub storage_bytes: u64,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            seed: 0,
            burst: 256,
            patience: Patience::default(),
            cpu: None,
            late_drop: None,
            late_warn: 100_000,
            storage_bytes: 4 << 30,
        }
    }
}

/// An emulation that is ready to run, and the board through which it is watched and changed.
pub struct Emulation {
    /// To be run in a thread of its own.
    pub task: Task,
    /// See [`Board`].
    pub board: Arc<Board>,
    /// Where its thread runs, once it does.
    pub place: mpsc::Receiver<Place>,
}

/// Makes an emulation between ports; entry and exit `i` of the plan are `ports[i]`.
///
/// # Errors
/// A plan that cannot be built, or no descriptor for the board.
pub fn prepare<T: Tap + 'static>(
    ports: Vec<Port>,
    plan: &NetworkSpec,
    manner: &Manner,
    tap: T,
) -> Result<Emulation, Failure> {
    let emulator = Emulator::between(ports, plan, manner, tap, now()).map_err(wrong_plan)?;
    let board = Arc::new(Board::new()?);
    let (patience, cpu, shared) = (manner.patience, manner.cpu, board.clone());
    let (told, place) = mpsc::channel();
    let task: Task = Box::new(move |stop| {
        // Nobody has to listen.
        let _ = told.send(place::take(cpu));
        Drive::new(emulator, patience, &shared).run(stop)
    });
    Ok(Emulation { task, board, place })
}

fn wrong_plan(error: SpecError) -> Failure {
    Diagnostic::new(codes::SR0002, "the links cannot be built").with_cause(error.to_string()).into()
}
