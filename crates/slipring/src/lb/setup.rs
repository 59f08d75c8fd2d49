//! Distributes queues over the threads.

use std::sync::Arc;

use slipring_balance::{Backlog, FlowSplitter, OutputSpread};
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::{Port, WaitStrategy};

use super::engine::{GroupOutputs, LbWorker, SharedLbStats, SharedOutputStats};
use super::groups::OutputGroup;
use super::settings::LbSettings;
use slipring_datapath::poll_loop;
use slipring_datapath::slots::BatchedTxQueue;
use slipring_datapath::workers::WorkerTask;

/// Creates a worker per thread: as many as requested, but none without a queue of the input.
pub(super) fn make_workers(
    ports: Vec<Port>,
    groups: &[OutputGroup],
    settings: LbSettings,
) -> Result<Vec<LbWorker>, Failure> {
    let mut ports = ports.into_iter();
    let input = ports.next().expect("the input is opened first");
    let mut outputs: Vec<Port> = ports.collect();
    let threads = settings.threads.min(input.queues.len() as u32).max(1) as usize;
    if let Some(short) = outputs.iter().find(|port| port.queues.len() < threads) {
        return Err(too_few_queues(short, threads).into());
    }
    let shares = group_outputs(groups, settings);
    let mut lanes: Vec<LbWorker> = (0..threads)
        .map(|thread| {
            let boxes = outputs.iter_mut().map(|port| BatchedTxQueue::new(port.queues.remove(0)));
            let boxes: Vec<BatchedTxQueue> = boxes.collect();
            let spare = usize::from(thread < settings.backlog % threads);
            make_worker(boxes, shares.clone(), settings.backlog / threads + spare, settings)
        })
        .collect();
    for (i, queue) in input.queues.into_iter().enumerate() {
        lanes[i % threads].inputs.push(queue);
    }
    Ok(lanes)
}

/// Creates the tasks of the threads.
pub(super) fn tasks(lanes: Vec<LbWorker>, patience: WaitStrategy) -> Vec<WorkerTask> {
    lanes.into_iter().map(|lane| poll_loop::task("lb", lane, patience)).collect()
}

fn make_worker(
    outputs: Vec<BatchedTxQueue>,
    shares: Vec<GroupOutputs>,
    backlog: usize,
    settings: LbSettings,
) -> LbWorker {
    let boards = outputs.iter().map(|_| SharedOutputStats::default()).collect();
    let splitter = FlowSplitter::new([settings.key, !settings.key]);
    LbWorker {
        inputs: Vec::new(),
        backlog: Backlog::new(outputs.len(), backlog),
        outputs,
        groups: shares,
        splitter: if settings.looks_inside { splitter.decapsulating() } else { splitter },
        batch: settings.batch,
        stats: Arc::new(SharedLbStats { outputs: boards, ..SharedLbStats::default() }),
        scratch: Vec::new(),
    }
}

fn group_outputs(groups: &[OutputGroup], settings: LbSettings) -> Vec<GroupOutputs> {
    let mut first = 0;
    let share = |group: &OutputGroup| {
        let names = group.ports.iter().map(|name| name_hash(&name.to_string()));
        let spread = if settings.is_consistent {
            OutputSpread::consistent(&names.collect::<Vec<_>>())
        } else {
            OutputSpread::even(group.ports.len() as u16)
        };
        let share = GroupOutputs { first, spread: Arc::new(spread) };
        first += group.ports.len();
        share
    };
    groups.iter().map(share).collect()
}

/// Returns a hash of a name, the same in every run: FNV-1a.
fn name_hash(name: &str) -> u64 {
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
