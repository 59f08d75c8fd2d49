//! Links emulated in real time, between ports.
//!
//! | part | what |
//! |---|---|
//! | [`emulator`] | the loop: rings, stamps, storage, network, rings |
//! | [`inlet`], [`outlet`] | the way in and out at one port |
//! | [`stamp`] | when each frame of a batch arrived |
//! | [`drive`] | sleeping and spinning between two turns |
//! | [`board`] | accounts and changes, from and to other threads |
//! | [`place`] | CPU, priority, timer slack |
//! | [`tap`] | who watches single frames |
//!
//! Not for: what the links do (that is `slipring-link`), virtual time, and how it is shown.

mod account;
mod board;
mod drive;
mod emulator;
mod inlet;
mod outlet;
mod place;
mod stamp;
mod tap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{EntryId, Network, NetworkSpec, SpecError, Tally};
use slipring_port::{Nanos, Patience, Port, now};

use crate::workers::Task;

pub(crate) use account::{Account, EntryAccount, ExitAccount};
pub(crate) use board::{Board, Change};
pub(crate) use tap::Tap;

use drive::Drive;
use emulator::{Cargo, Emulator, Side};
use inlet::Inlet;
use outlet::Outlet;

use super::store::{Lane, Store};

/// How an emulation is run; what it emulates is the [`NetworkSpec`]'s.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// Seed of every random stream.
    pub(crate) seed: u64,
    /// Slots taken from a queue at most at a time.
    pub(crate) burst: u32,
    /// How to wait; [`Patience::Spin`] never sleeps.
    pub(crate) patience: Patience,
    /// CPUs to bind threads to, in turn; none for wherever the kernel likes.
    pub(crate) cpus: Vec<usize>,
    /// Frames later than this are dropped instead of sent.
    pub(crate) late_drop: Option<Nanos>,
    /// Memory for frames at most, in bytes.
    pub(crate) storage_bytes: u64,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            seed: 0,
            burst: 256,
            patience: Patience::default(),
            cpus: Vec::new(),
            late_drop: None,
            storage_bytes: 4 << 30,
        }
    }
}

/// Memory taken at the start, so that the first frames do not wait for it.
const PREPARED: u64 = 8 << 20;
/// The speed of a line that tells none: that of memory.
const NO_LINE: u64 = 100_000_000_000;

/// An emulation that is ready to run, and the board through which it is watched and changed.
pub(crate) struct Emulation {
    /// To be run in a thread of its own.
    pub(crate) task: Task,
    /// See [`Board`].
    pub(crate) board: Arc<Board>,
}

/// Makes an emulation between ports: `names[i]` is what the plan calls `ports[i]`.
///
/// # Errors
/// A plan that cannot be built, or no descriptor for the board.
pub(crate) fn prepare<T: Tap + 'static>(
    ports: Vec<Port>,
    names: &[String],
    plan: &NetworkSpec,
    manner: &Manner,
    tap: T,
) -> Result<Emulation, Failure> {
    let network = Network::new(plan, manner.seed).map_err(wrong_plan)?;
    let emulator = emulator(ports, names, plan, network, manner, tap);
    let board = Arc::new(Board::new()?);
    let (patience, cpu, shared) = (manner.patience, manner.cpus.first().copied(), board.clone());
    let task: Task = Box::new(move |stop| {
        place::take(cpu);
        Drive::new(emulator, patience, &shared).run(stop)
    });
    Ok(Emulation { task, board })
}

fn wrong_plan(error: SpecError) -> Failure {
    Diagnostic::new(codes::SR0002, "the links cannot be built").with_cause(error.to_string()).into()
}

fn emulator<T: Tap>(
    ports: Vec<Port>,
    names: &[String],
    plan: &NetworkSpec,
    network: Network,
    manner: &Manner,
    tap: T,
) -> Emulator<T> {
    let place = |places: &[String], name: &String| places.iter().position(|place| place == name);
    let side = |(port, name): (Port, &String)| Side {
        inlet: place(&plan.entries, name).map(|entry| inlet(&port, entry, manner)),
        outlet: place(&plan.exits, name),
        queues: port.queues,
    };
    let mut store = Store::new(manner.storage_bytes);
    store.prepare(PREPARED);
    let outlets = plan.exits.iter().map(|_| Outlet::new(manner.late_drop)).collect();
    Emulator {
        sides: ports.into_iter().zip(names).map(side).collect(),
        network,
        links: plan.links.len(),
        cargo: Cargo { store, outlets, unrouted: Tally::default(), tap },
    }
}

fn inlet(port: &Port, entry: usize, manner: &Manner) -> Inlet {
    let speed = line_speed(port).unwrap_or(NO_LINE);
    Inlet::new(EntryId(entry as u16), Lane::number(entry), speed, manner.burst, now())
}

/// What the kernel says of the interface behind a port, in bits per second.
fn line_speed(port: &Port) -> Option<u64> {
    let name = PortName::parse_classic(&port.info.name).ok()?;
    if !name.kind.names_interface() || name.pipe.is_some() {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", name.name)).ok()?;
    text.trim().parse::<u64>().ok().filter(|&megabits| megabits > 0).map(|speed| speed * 1_000_000)
}
