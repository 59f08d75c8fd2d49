//! Deals queues out among threads.

use std::sync::Arc;

use slipring_balance::{Backlog, Splitter, Spread};
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::{Patience, Port};

use super::Settings;
use super::engine::{Board, Lane, OutputBoard, Share};
use super::groups::Group;
use slipring_program::mover;
use slipring_program::slots::Outbox;
use slipring_program::workers::Task;

/// A lane per thread: as many as were asked for, but none without a queue of the input.
pub(super) fn lanes(
    ports: Vec<Port>,
    groups: &[Group],
    settings: Settings,
) -> Result<Vec<Lane>, Failure> {
    let mut ports = ports.into_iter();
    let input = ports.next().expect("the input is opened first");
    let mut outputs: Vec<Port> = ports.collect();
    let threads = settings.threads.min(input.queues.len() as u32).max(1) as usize;
    if let Some(short) = outputs.iter().find(|port| port.queues.len() < threads) {
        return Err(too_few_queues(short, threads).into());
    }
    let shares = shares(groups, settings);
    let mut lanes: Vec<Lane> = (0..threads)
        .map(|thread| {
            let boxes = outputs.iter_mut().map(|port| Outbox::new(port.queues.remove(0)));
            let boxes: Vec<Outbox> = boxes.collect();
            let spare = usize::from(thread < settings.backlog % threads);
            lane(boxes, shares.clone(), settings.backlog / threads + spare, settings)
        })
        .collect();
    for (i, queue) in input.queues.into_iter().enumerate() {
        lanes[i % threads].inputs.push(queue);
    }
    Ok(lanes)
}

/// What the threads run.
pub(super) fn tasks(lanes: Vec<Lane>, patience: Patience) -> Vec<Task> {
    lanes.into_iter().map(|lane| mover::task("lb", lane, patience)).collect()
}

fn lane(outputs: Vec<Outbox>, shares: Vec<Share>, backlog: usize, settings: Settings) -> Lane {
    let boards = outputs.iter().map(|_| OutputBoard::default()).collect();
    let splitter = Splitter::new([settings.seed, !settings.seed]);
    Lane {
        inputs: Vec::new(),
        backlog: Backlog::new(outputs.len(), backlog),
        outputs,
        shares,
        splitter: if settings.looks_inside { splitter.looking_inside() } else { splitter },
        batch: settings.batch,
        board: Arc::new(Board { outputs: boards, ..Board::default() }),
        scratch: Vec::new(),
    }
}

fn shares(groups: &[Group], settings: Settings) -> Vec<Share> {
    let mut first = 0;
    let share = |group: &Group| {
        let names = group.ports.iter().map(|name| identity(&name.to_string()));
        let spread = if settings.is_consistent {
            Spread::consistent(&names.collect::<Vec<_>>())
        } else {
            Spread::even(group.ports.len() as u16)
        };
        let share = Share { first, spread: Arc::new(spread) };
        first += group.ports.len();
        share
    };
    groups.iter().map(share).collect()
}

/// A number for a name, the same in every run: FNV-1a.
fn identity(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn too_few_queues(port: &Port, threads: usize) -> Diagnostic {
    let (name, have) = (&port.info.name, port.queues.len());
    Diagnostic::new(codes::SR0002, format!("{threads} threads cannot share {name}"))
        .with_cause(format!("each thread needs a queue of each output, and this one has {have}"))
        .with_help(format!("give it more, such as tap:x@conf:rings={threads}, or drop --threads"))
}
