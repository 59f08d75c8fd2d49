//! The gates of the queues that subinterfaces use.

use std::io;
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
    ///
    /// # Errors
    /// The system's error if the process is out of descriptors.
    pub(super) fn of_port(
        role: QueueRole,
        queues: &[Box<dyn Queue>],
        is_inherited: bool,
    ) -> io::Result<Vec<Self>> {
        let interface = match role {
            QueueRole::Wire(ifindex) => ifindex as usize,
            QueueRole::Tap(number) => number,
        };
        let gates = queues.iter().enumerate().map(|(number, queue)| {
            let gate = QueueGate::new(interface, number, &**queue, is_inherited)?;
            Ok(Self { role, gate: Arc::new(gate), is_inherited })
        });
        gates.collect()
    }
}
