//! Distributes queues over the threads.

use std::sync::Arc;

use slipring_balance::{Backlog, FlowSplitter, OutputSpread};
use slipring_cli::{Diagnostic, Failure, codes};
use slipring_port::{Port, WaitStrategy};

use super::engine::{GroupOutputs, LbProcessor, SharedLbStats, SharedOutputStats};
use super::groups::OutputGroup;
use super::settings::LbSettings;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::worker::Worker;
use slipring_datapath::workers::WorkerTask;

/// Creates one worker per thread. The number of threads is the requested one, but not more than the
/// input has queues.
pub(super) fn make_workers(
    ports: Vec<Port>,
    groups: &[OutputGroup],
    settings: LbSettings,
) -> Result<Vec<Worker<LbProcessor>>, Failure> {
    let mut ports = ports.into_iter();
    let input = ports.next().expect("the input is opened first");
    let mut outputs: Vec<Port> = ports.collect();
    let threads = usize::from(settings.threads).min(input.queues.len()).max(1);
    if let Some(short) = outputs.iter().find(|port| port.queues.len() < threads) {
        return Err(too_few_queues(short, threads).into());
    }
    let mut own_inputs: Vec<Vec<WorkerQueue>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, queue) in input.queues.into_iter().enumerate() {
        own_inputs[i % threads].push(WorkerQueue::input(queue));
    }
    let groups = group_outputs(groups, settings);
    let worker = |(thread, inputs): (usize, Vec<WorkerQueue>)| {
        let own = outputs.iter_mut().map(|port| WorkerQueue::output(port.queues.remove(0)));
        let own: Vec<_> = own.collect();
        let spare = usize::from(thread < settings.backlog % threads);
        let backlog = Backlog::new(own.len(), settings.backlog / threads + spare);
        let processor = make_processor(own.len(), groups.clone(), backlog, settings);
        Worker::new(processor, WorkerQueues::new(own.into_iter().chain(inputs)))
    };
    Ok(own_inputs.into_iter().enumerate().map(worker).collect())
}

/// Creates the tasks of the threads.
pub(super) fn tasks(
    workers: Vec<Worker<LbProcessor>>,
    wait_strategy: WaitStrategy,
) -> Vec<WorkerTask> {
    workers.into_iter().map(|worker| worker.into_task("lb", wait_strategy)).collect()
}

fn make_processor(
    outputs: usize,
    groups: Vec<GroupOutputs>,
    backlog: Backlog,
    settings: LbSettings,
) -> LbProcessor {
    let outputs = (0..outputs).map(|_| SharedOutputStats::default()).collect();
    let splitter = FlowSplitter::new([settings.key, !settings.key]);
    LbProcessor {
        groups,
        splitter: if settings.looks_inside { splitter.decapsulating() } else { splitter },
        backlog,
        batch: settings.batch,
        stats: Arc::new(SharedLbStats { outputs, ..SharedLbStats::default() }),
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
