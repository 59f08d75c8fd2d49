//! Finds out who has a queue, for an error message.

/// The process that has an AF_XDP socket on a queue, as `name (pid)`; `None` when it cannot be
/// found, for want of privilege or because it is in another namespace of processes.
pub(super) fn of_queue(_ifindex: u32, _queue: u32) -> Option<String> {
    None
}
