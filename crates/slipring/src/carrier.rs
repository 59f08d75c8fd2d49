//! Before the first frame, waits for the link of a port, and prints that it waits: a link that is
//! down or has no carrier sends no frames.
//!
//! | port | its link | wait |
//! |---|---|---|
//! | an interface of the kernel | the kernel reports it at any time | before the port is opened |
//! | a card with a native driver | is negotiated once the port is open | after that |

use std::time::Duration;

use slipring_abi::name::{PortName, RingSelection};
use slipring_cli::codes::SR0113;
use slipring_cli::{Diagnostic, Failure, Reporter, Signals};
use slipring_datapath::links;
use slipring_port::iface::Iface;
use slipring_port::{Interest, OpenOptions, Port, PortMode, RunError, WaitStrategy, Waiter, now};

/// The kind of the ports whose links are waited for after they are opened.
const CARD_KIND: &str = "vfio";
/// How long a card may negotiate if the user has set no limit. With 1 Gbit/s over copper,
/// negotiation takes 2 to 4 s.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Period at which the link of a card is polled. The card's driver is in this process, so the
/// kernel has no interface for the card, and rtnetlink reports no change of the link. A change
/// raises the card's interrupt, but a waiter goes on waiting until a frame arrives. So the link is
/// polled, but only before the first frame.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Why no frame can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkDownReason {
    Down,
    NoCarrier,
    /// A card has no link: it still negotiates, or no cable is plugged in.
    NoLink,
}

/// Waits until the interface of `port` is up and has a carrier, or a signal arrives.
///
/// If the interface does not exist, this does not wait, and opening the port reports the error.
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
    if !has_link(port) || links::is_elsewhere(port, options) {
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
    first.say_waiting(name, wait, reporter)?;
    if !links::wait_while(|| obstacle().is_some(), wait, signals)? {
        return Ok(());
    }
    // The reason is determined again, because it may have changed during the wait, for example from
    // "the link is down" to "no carrier".
    Err(obstacle().unwrap_or(first).error(name, wait).into())
}

/// Waits until the links of all cards with a native driver are up, or a signal arrives. The wait
/// for each card takes at most `wait` or, if that is `None`, [`NEGOTIATION_TIMEOUT`]. Call this
/// after the process has given up its privileges, because the first sync of a port starts a thread,
/// which would otherwise keep them.
///
/// # Errors
/// SR0113 if a link is not up when the time is over; the errors of syncs.
pub(crate) fn wait_for_cards(
    ports: &mut [Port],
    wait: Option<Duration>,
    signals: &Signals,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    let wait = wait.unwrap_or(NEGOTIATION_TIMEOUT);
    for port in ports.iter_mut().filter(|port| port.info.kind == CARD_KIND && is_down(port)) {
        let name = port.info.name.clone();
        let reason = LinkDownReason::NoLink;
        reason.say_waiting(&name, wait, reporter)?;
        if !is_up_within(port, wait, signals)? {
            return Err(reason.error(&name, wait).into());
        }
        if signals.stopping() {
            // The port's mode is left unchanged, so reports still show that it has no link.
            return Ok(());
        }
        let mode = port.info.mode.iter().filter(|(key, _)| *key != "link");
        port.info.mode = mode.fold(PortMode::new(), |mode, (key, value)| mode.with(key, value));
    }
    Ok(())
}

fn is_down(port: &Port) -> bool {
    port.queues.iter().all(|queue| queue.is_link_down())
}

/// Waits for the link of a card, or for a signal. Returns false if the link was still down when the
/// time was over.
fn is_up_within(port: &mut Port, wait: Duration, signals: &Signals) -> Result<bool, Failure> {
    let until = now().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
    let failed = |error| RunError::system(&port.info.name, "wait for the link", error);
    let mut waiter = Waiter::for_ports([&*port], WaitStrategy::Sleep).map_err(failed)?;
    waiter.add_fd(signals.wake_fd()).map_err(failed)?;
    while is_down(port) && !signals.stopping() {
        let Some(left) = until.checked_sub(now()).filter(|left| *left > 0) else {
            return Ok(false);
        };
        let sleep = Duration::from_nanos(left).min(LOOK_INTERVAL);
        waiter.wait_ports(&mut [&mut *port], Interest::NONE, Some(sleep))?;
        // The driver reads the state of the link only in a sync. There is nothing to send yet.
        port.tx_sync()?;
    }
    Ok(true)
}

/// Returns whether the port has a link to wait for before it is opened. Host rings have none.
fn has_link(port: &PortName) -> bool {
    matches!(port.rings, RingSelection::All | RingSelection::One(_)) && links::is_interface(port)
}

impl LinkDownReason {
    const fn words(self) -> &'static str {
        match self {
            Self::Down => "is down",
            Self::NoCarrier => "has no carrier",
            Self::NoLink => "has no link",
        }
    }

    /// Informs the user of the wait; prints nothing if `wait` is 0.
    fn say_waiting(
        self,
        name: &str,
        wait: Duration,
        reporter: &mut Reporter,
    ) -> Result<(), Failure> {
        if wait.is_zero() {
            return Ok(());
        }
        reporter.say_at(0, format_args!("{name} {}: waiting {wait:?} for it", self.words()))
    }

    fn error(self, name: &str, wait: Duration) -> Diagnostic {
        let help = match self {
            Self::Down => format!("ip link set dev {name} up; to wait longer: -w 10"),
            Self::NoCarrier => {
                "plug the cable in, or bring the other end up: ip link set dev PEER \
                                up; to wait longer: -w 10"
                    .to_owned()
            }
            Self::NoLink => {
                "plug the cable in, or bring the other end up; what the card is set to: slipring \
                 nic set NIC; to wait longer: -w 30"
                    .to_owned()
            }
        };
        let cause = match wait.is_zero() {
            true => "nothing can be sent".to_owned(),
            false => format!("waited {wait:?}: nothing could be sent"),
        };
        Diagnostic::new(SR0113, format!("{name} {}", self.words()))
            .with_cause(cause)
            .with_help(help)
    }
}
