//! Before the first frame, waits for the link of a port, and prints that it waits: a link that is
//! down or has no carrier sends no frames.

use std::time::Duration;

use slipring_abi::name::kind::{DEVICE_PATH, HOST_RINGS};
use slipring_abi::name::{PortName, PortNameKind, RingSelection};
use slipring_cli::codes::SR0113;
use slipring_cli::{Diagnostic, Failure, Reporter, Signals};
use slipring_datapath::opening;
use slipring_port::iface::Iface;
use slipring_port::{OpenOptions, native};

/// Why no frame can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkDownReason {
    Down,
    NoCarrier,
}

/// Waits until the interface of `port` is up and has a carrier, or a signal arrives.
///
/// If the interface does not exist, this returns at once, and opening the port reports the error.
/// The same applies if the interface is down and the options say that this is an error.
///
/// # Errors
/// SR0113 if no frame can be sent when the time `wait` is over.
pub(crate) fn wait(
    port: &PortName,
    options: &OpenOptions,
    wait: Duration,
    signals: &Signals,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    if !has_link(port) || is_elsewhere(port, options) {
        return Ok(());
    }
    let obstacle = || {
        let iface = Iface::find(&port.name).ok()?;
        match (iface.up, iface.carrier) {
            (_, true) => None,
            (true, false) => Some(LinkDownReason::NoCarrier),
            (false, false) if options.exit_on_link_down => None,
            (false, false) => Some(LinkDownReason::Down),
        }
    };
    let Some(first) = obstacle() else { return Ok(()) };
    let name = &port.name;
    reporter.say_at(0, format_args!("{name} {}: waiting {wait:?} for it", first.words()))?;
    if !opening::wait_while(|| obstacle().is_some(), wait, signals)? {
        return Ok(());
    }
    // The reason is determined again, because it may have changed during the wait, for example from
    // "the link is down" to "no carrier".
    Err(obstacle().unwrap_or(first).error(port, wait).into())
}

/// Returns whether the port has a link to wait for. Host rings and pipes have none. A TAP device is
/// not waited for, because it gets its carrier only when another program opens it.
fn has_link(port: &PortName) -> bool {
    let nic =
        matches!(port.rings, RingSelection::All | RingSelection::One(_)) && port.pipe.is_none();
    nic && (port.kind.has(HOST_RINGS) || port.kind.has(DEVICE_PATH))
}

/// Returns whether the interface is in another network namespace, that of the daemon. Then its
/// state cannot be read here.
fn is_elsewhere(port: &PortName, options: &OpenOptions) -> bool {
    let is_daemons = port.kind == PortNameKind::Kernel;
    is_daemons && options.daemon.as_deref().is_some_and(native::serves_other_network)
}

impl LinkDownReason {
    const fn words(self) -> &'static str {
        match self {
            Self::Down => "is down",
            Self::NoCarrier => "has no carrier",
        }
    }

    fn error(self, port: &PortName, wait: Duration) -> Diagnostic {
        let name = &port.name;
        let help = match self {
            Self::Down => format!("ip link set dev {name} up; to wait longer: -w 10"),
            Self::NoCarrier => {
                "plug the cable in, or bring the other end up: ip link set dev PEER \
                                up; to wait longer: -w 10"
                    .to_owned()
            }
        };
        Diagnostic::new(SR0113, format!("{name} {}", self.words()))
            .with_cause(format!("waited {wait:?}: nothing could be sent"))
            .with_help(help)
    }
}
