//! The gates of the queues that subinterfaces use.

use std::sync::Arc;

use slipring_port::Queue;

use super::processor::QueueRole;
use crate::queue_gate::QueueGate;

/// The gate of a queue that subinterfaces use.
#[derive(Clone, Debug)]
pub(crate) struct SubinterfaceGate {
    pub(super) role: QueueRole,
    pub(super) gate: Arc<QueueGate>,
    /// Whether another router had opened the socket or device.
    pub(super) is_inherited: bool,
}

impl SubinterfaceGate {
    /// Creates the gates of the queues of a port. They are closed if the port is inherited.
    pub(super) fn of_port(
        role: QueueRole,
        queues: &[Box<dyn Queue>],
        is_inherited: bool,
    ) -> Vec<Self> {
        let interface = match role {
            QueueRole::Wire(ifindex) => ifindex as usize,
            QueueRole::Tap(number) => number,
        };
        let gates = queues.iter().enumerate().map(|(number, queue)| {
            let gate = QueueGate::new(interface, number, &**queue, is_inherited);
            Self { role, gate: Arc::new(gate), is_inherited }
        });
        gates.collect()
    }
}
