//! The threads of a run: either one thread between the ports, or one thread at the ports and
//! several that check frames.

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_cli::Failure;
use slipring_datapath::worker::Worker;
use slipring_datapath::workers::WorkerTask;
use slipring_dummynet::Dummynet;
use slipring_ipfw::run::Firewall;
use slipring_port::Port;

use crate::cross_thread::{CrossThreadLink, CrossThreadState};
use crate::dataplane::{Dataplane, DataplaneId};
use crate::deferred_output::DeferredOutput;
use crate::distributor::{Distributor, PortQueues};
use crate::flags::FirewallPlan;
use crate::shared_stats::SharedDataplaneStats;
use crate::task_queue::TaskQueue;
use crate::worker::{FirewallProcessor, ForwardingOptions};
use slipring_rules::LogEvents;
use slipring_rules::randomness::Randomness;

/// The name, before `{` or `}`, of the pipes between the threads.
const WORKER_PIPE_PARENT: &str = "firewall_threads";

/// What the rest of the program needs of the packet threads: their workers, task queues and
/// figures.
pub(crate) struct FirewallThreads {
    pub(crate) tasks: Vec<WorkerTask>,
    pub(crate) task_queues: Vec<Arc<TaskQueue>>,
    pub(crate) stats: Vec<Arc<SharedDataplaneStats>>,
}

/// Returns the names of the pipes between ports and threads. For each port, there are the names of
/// the two ends of a pipe that has one ring pair per thread. For a single thread, there are no
/// pipes.
pub(crate) fn worker_pipes(ports: usize, threads: u16) -> Vec<PortName> {
    if threads == 1 {
        return Vec::new();
    }
    let end = |port: usize, side: char| {
        let name = format!("{WORKER_PIPE_PARENT}{side}{port}@conf:rings={threads}");
        PortName::parse(&name).expect("the name of a pipe is well formed")
    };
    (0..ports).flat_map(|port| [end(port, '{'), end(port, '}')]).collect()
}

/// Creates the threads. `ports` are the ports of the run, followed by the pipes of
/// [`worker_pipes`].
pub(crate) fn threads(
    plan: &FirewallPlan,
    ports: Vec<Port>,
    random: Randomness,
    events: &Arc<LogEvents>,
) -> Result<FirewallThreads, Failure> {
    let ids = 0..plan.threads;
    let task_queues = ids.clone().map(|_| Ok(Arc::new(TaskQueue::new()?)));
    let task_queues: Vec<_> = task_queues.collect::<Result<_, std::io::Error>>()?;
    let stats: Vec<Arc<SharedDataplaneStats>> = ids.map(|_| Arc::default()).collect();
    let common = Arc::new(CrossThreadState::new()?);
    let options = ForwardingOptions { burst: plan.burst, may_swap: !plan.copy };
    // A pipe can always send. Whether a thread's frames can be sent therefore depends on the port
    // behind the distributor.
    let sends: Vec<_> = ports.iter().map(|port| port.info.caps.tx).collect();
    let worker = |id: DataplaneId, queues: Vec<PortQueues>| -> Worker<FirewallProcessor> {
        let queues = queues.into_iter().zip(sends.iter().copied()).collect();
        // The firewall denies all packets until it receives rules from the control plane.
        let firewall = Firewall::new(random.of_thread(id).seed, random.secret);
        let shaper = Dummynet::new(random.seed, random.secret);
        let dataplane = Dataplane::new(firewall, shaper, plan.map.clone(), plan.passes);
        let at = usize::from(id);
        let own = (task_queues[at].clone(), stats[at].clone());
        let deferred = DeferredOutput::new(events.clone());
        if plan.threads == 1 {
            return FirewallProcessor::new(dataplane, own, deferred, options).into_worker(queues);
        }
        let link = CrossThreadLink::new(id, task_queues.clone(), common.clone());
        let processor = FirewallProcessor::new(dataplane.with_id(id), own, deferred, options);
        processor.with_cross_thread(link).into_worker(queues)
    };
    let wait_policy = plan.opening.wait_policy;
    let tasks = if plan.threads == 1 {
        let queues = ports.into_iter().map(|port| port.queues).collect();
        vec![worker(0, queues).into_task("firewall", wait_policy)]
    } else {
        let (dealt, by_worker) = distribute_queues(ports, plan.ports.len());
        let distributor =
            Distributor::worker(dealt, random.secret, options, common.clone(), task_queues.clone());
        let workers = (0..).zip(by_worker).map(|(id, queues)| worker(id, queues));
        let workers = workers.map(|worker| worker.into_task("firewall", wait_policy));
        workers.chain([distributor.into_task("firewall", wait_policy)]).collect()
    };
    Ok(FirewallThreads { tasks, task_queues, stats })
}

/// Distributes queues. The first result contains, for each port, the port's queues and the
/// distributor's ends of its pipes. The second result contains the threads' ends of the pipes, by
/// thread and port.
fn distribute_queues(
    mut ports: Vec<Port>,
    count: usize,
) -> (Vec<(PortQueues, PortQueues)>, Vec<Vec<PortQueues>>) {
    let pipes = ports.split_off(count);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (at, pipe) in pipes.into_iter().enumerate() {
        if at % 2 == 0 { near.push(pipe.queues) } else { far.push(pipe.queues) }
    }
    let threads = far.first().map_or(0, Vec::len);
    let mut by_worker: Vec<Vec<PortQueues>> = (0..threads).map(|_| Vec::new()).collect();
    for queues in far {
        by_worker.iter_mut().zip(queues).for_each(|(worker, queue)| worker.push(vec![queue]));
    }
    (ports.into_iter().map(|port| port.queues).zip(near).collect(), by_worker)
}
