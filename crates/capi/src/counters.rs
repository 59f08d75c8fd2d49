//! Counters of ports.

use slipring_port::{DropCause, QueueSnapshot};

use crate::error::CallError;
use crate::port::PortHandle;
use crate::structs::SlipringStats;

/// Returns the counters of one queue, or their sums over all queues of a port. They include the
/// drops that the kernel has counted.
fn snapshot(port: &PortHandle, queue: u32) -> Result<QueueSnapshot, CallError> {
    let mut sum = QueueSnapshot::default();
    for queue in port.some(queue)? {
        let mut queue = port.lock(queue)?;
        queue.update_stats();
        sum += queue.counters().snapshot();
    }
    Ok(sum)
}

/// Returns the counters as the C struct.
pub(crate) fn stats(port: &PortHandle, queue: u32) -> Result<SlipringStats, CallError> {
    let seen = snapshot(port, queue)?;
    Ok(SlipringStats {
        size: 0,
        reserved: 0,
        rx_packets: seen.rx.packets,
        rx_bytes: seen.rx.bytes,
        tx_packets: seen.tx.packets,
        tx_bytes: seen.tx.bytes,
        in_flight: seen.in_flight,
        dropped: seen.drops().map(|(_, count)| count).sum(),
        strays: seen.strays,
        uncaptured: seen.uncaptured,
    })
}

fn cause(number: u32) -> Result<DropCause, CallError> {
    let cause = DropCause::ALL.get(number as usize).copied();
    cause.ok_or_else(|| CallError::argument(format!("there is no drop reason {number}")))
}

/// Returns the number of frames that were lost for one reason.
pub(crate) fn dropped(port: &PortHandle, queue: u32, reason: u32) -> Result<u64, CallError> {
    let reason = cause(reason)?;
    Ok(snapshot(port, queue)?.dropped(reason))
}

/// Returns the name of a drop reason.
pub(crate) fn drop_name(reason: u32) -> Result<&'static str, CallError> {
    cause(reason).map(DropCause::name)
}
