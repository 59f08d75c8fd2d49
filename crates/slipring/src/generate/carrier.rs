//! Waits for the link's carrier before the first frame: a link without one sends nothing.

use std::time::Duration;

use slipring_abi::name::{PortName, PortNameKind, RingSelection};
use slipring_cli::codes::SR0113;
use slipring_cli::{Diagnostic, Failure, Reporter, Signals};
use slipring_datapath::opening;
use slipring_port::iface::Iface;

/// Waits until the interface of `port` has a carrier, or a signal comes.
///
/// Opening the port handles an interface that is down or missing.
///
/// # Errors
/// SR0113 if there is still no carrier after `wait`.
pub(super) fn wait(
    port: &PortName,
    wait: Duration,
    signals: &Signals,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    if !lacks_carrier(port) {
        return Ok(());
    }
    reporter.say_at(0, format_args!("{} has no carrier: waiting {wait:?} for it", port.name))?;
    match opening::wait_while(|| lacks_carrier(port), wait, signals)? {
        true => Err(no_carrier(port, wait).into()),
        false => Ok(()),
    }
}

/// A TAP device gets its carrier from the process that opens it, and host rings have none.
fn lacks_carrier(port: &PortName) -> bool {
    let sends =
        matches!(port.kind, PortNameKind::Netmap | PortNameKind::Xdp | PortNameKind::Packet);
    let nic =
        matches!(port.rings, RingSelection::All | RingSelection::One(_)) && port.pipe.is_none();
    let found = || Iface::find(&port.name).is_ok_and(|iface| iface.up && !iface.carrier);
    sends && nic && found()
}

fn no_carrier(port: &PortName, wait: Duration) -> Diagnostic {
    let error = Diagnostic::new(SR0113, format!("{} has no carrier", port.name));
    error.with_cause(format!("waited {wait:?}: nothing could be sent")).with_help(
        "plug the cable in, or bring the other end up: ip link set dev PEER up; \
         to wait longer: -w 10",
    )
}
