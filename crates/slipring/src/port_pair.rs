//! Checks for programs that join two ports.

use slipring_cli::{Diagnostic, codes};
use slipring_port::{Port, PortInfo};

/// Returns whether frames can pass from one port to the other.
pub(crate) fn can_pass(from: &PortInfo, to: &PortInfo) -> bool {
    from.caps.rx && to.caps.tx
}

/// The error for two ports between which no frame can pass.
pub(crate) fn no_path(left: &PortInfo, right: &PortInfo) -> Diagnostic {
    let summary = format!("no frame can pass between {} and {}", left.name, right.name);
    Diagnostic::new(codes::SR0002, summary)
        .with_cause(format!("they are open as:{} and{}", left.mode, right.mode))
        .with_help("name a port that sends; a capture is written where its file does not exist yet")
}

/// Returns whether all ports are in one memory region, so that buffers can be exchanged between
/// them.
pub(crate) fn in_one_region(ports: &mut [Port]) -> bool {
    let mut rings = ports.iter_mut().flat_map(|port| &mut port.queues).map(|queue| queue.rings());
    let first = rings.next();
    first.is_some_and(|first| rings.all(|other| first.rx.same_region(other.tx)))
}
