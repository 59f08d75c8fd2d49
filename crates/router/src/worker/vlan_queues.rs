//! The queues of subinterfaces, distributed over workers. Each worker receives and sends with one
//! queue of each parent interface and one of each TAP device. Further queues of a parent or a
//! device only receive.

use std::sync::Arc;

use slipring_datapath::queues::WorkerQueue;
use slipring_fib::FibPortIndex;
use slipring_port::Queue;
use slipring_route::PortPolicy;

use super::vlan_state::{WorkerSubinterfaces, WorkerWakers};
use super::{WorkerLink, WorkerPorts};
use crate::queue_gate::{GateWatch, QueueGate};
use crate::subinterface::{QueueRole, SharedSubinterfaces, SubinterfacePorts};
use crate::surviving_queue::SurvivingQueue;

/// A queue and the port of its frames. For a queue of a parent interface, this is the port of any
/// of its subinterfaces.
struct RoleQueue {
    role: QueueRole,
    port: FibPortIndex,
    /// Whether the worker sends frames by this queue.
    sends: bool,
    queue: Box<dyn Queue>,
    /// The gate that a takeover closes.
    gate: Option<Arc<QueueGate>>,
}

/// The queues that workers have not taken yet.
pub(super) struct SubinterfaceQueues {
    shared: Arc<SharedSubinterfaces>,
    /// The queues of each worker, indexed by worker.
    queues: Vec<Vec<RoleQueue>>,
    /// Interfaces that carry subinterfaces, but are not interfaces of the router.
    carriers: Vec<u32>,
    pub(super) policies: Vec<PortPolicy>,
    priorities: [u8; 8],
    wakers: WorkerWakers,
}

impl SubinterfaceQueues {
    /// Distributes the queues of `own` over the workers. `ifindexes` contains the indices of the
    /// router's other interfaces.
    pub(super) fn new(own: SubinterfacePorts, ifindexes: &[u32], workers: usize) -> Self {
        let SubinterfacePorts { handle, shared, wires, taps, policies, priorities } = own;
        let mut queues: Vec<Vec<RoleQueue>> = (0..workers).map(|_| Vec::new()).collect();
        let mut carriers = Vec::new();
        for wire in wires {
            if !ifindexes.contains(&wire.ifindex) {
                carriers.push(wire.ifindex);
            }
            let (role, port) = (QueueRole::Wire(wire.ifindex), wire.any_port);
            for (number, queue) in wire.port.queues.into_iter().enumerate() {
                let gate = handle.gate(role, number);
                let of = RoleQueue { role, port, sends: number < workers, queue, gate };
                queues[number % workers].push(of);
            }
        }
        for (number, tap) in taps.into_iter().enumerate() {
            let (role, port) = (QueueRole::Tap(number), shared.all()[number].port);
            for (at, queue) in tap.queues.into_iter().enumerate() {
                let gate = handle.gate(role, at);
                let of = RoleQueue { role, port, sends: at < workers, queue, gate };
                queues[at % workers].push(of);
            }
        }
        Self { shared, queues, carriers, policies, priorities, wakers: Arc::default() }
    }

    /// Adds the queues of worker `id` to its ports and inputs. Returns the worker's state of the
    /// subinterfaces.
    pub(super) fn add_to(
        &mut self,
        ports: &mut WorkerPorts,
        inputs: &mut Vec<WorkerQueue>,
        id: usize,
    ) -> WorkerSubinterfaces {
        let (first, mut roles) = (inputs.len(), Vec::new());
        for RoleQueue { role, port, sends, queue, gate } in std::mem::take(&mut self.queues[id]) {
            if let QueueRole::Wire(ifindex) = role
                && sends
                && self.carriers.contains(&ifindex)
            {
                ports.ifindexes.push(ifindex);
                ports.tx_of.push(inputs.len());
            }
            ports.of_queue.push(Some(port));
            ports.counters.push(queue.counters().clone());
            let queue = SurvivingQueue::new(queue, gate.map(GateWatch::new));
            inputs.push(WorkerQueue::input(Box::new(queue)));
            roles.push(role);
        }
        let (shared, wakers) = (self.shared.clone(), self.wakers.clone());
        WorkerSubinterfaces::new(shared, wakers, (first, roles), self.priorities)
    }

    /// Lets the workers wake each other.
    pub(super) fn connect(self, links: &[WorkerLink]) {
        let wakers = links.iter().cloned().map(|link| {
            let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || link.wake());
            wake
        });
        // The value is set nowhere else, so this cannot fail.
        let _ = self.wakers.set(wakers.collect());
    }
}
