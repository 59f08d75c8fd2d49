//! Prints a notice before an interface is taken from its host.
//!
//! Until a port such as `netmap:eth0` is closed, the network stack of the host receives nothing
//! from the interface. In most modes, it also cannot send on it. The interface may be the only one
//! that connects the machine. So the user must learn this before it happens, and also which name to
//! use instead.
//!
//! Not for programs that are called by one of netmap's names (`pkt-gen`, `bridge`). They print only
//! netmap's messages, and have always taken their interfaces.

use slipring_abi::name::{PortName, PortNameFlags, PortNameKind, RingSelection};
use slipring_cli::{Failure, ReportFormat, Session};
use slipring_core::kinds::{self, InterfaceUse};
use slipring_port::OpenOptions;
use slipring_port::iface::Iface;
use slipring_port::taken;

/// Whether a notice is printed, and which alternative it suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeoverNotice {
    /// `packet:` with `--shared`. The host still gets its frames.
    Shared,
    /// `packet:` without flags. The program only listens.
    Listen,
    /// No notice is printed.
    None,
}

/// Prints a notice for each of these ports that will take an interface from its host.
///
/// # Errors
/// [`Failure`] if the notice cannot be written.
pub(crate) fn warn_takeover(
    names: &[PortName],
    options: &OpenOptions,
    notice: TakeoverNotice,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    // The mode of the port in a JSON report shows that the interface is taken. In this format,
    // stderr must contain only JSON, so no notice is printed.
    if session.classic.is_some() || session.reporter.format() != ReportFormat::Text {
        return Ok(());
    }
    // No notice is printed if the interface does not exist or carries the default route: opening
    // the port then reports this.
    let is_given = |name: &&PortName| {
        let iface = Iface::find(&name.name);
        iface.is_ok_and(|iface| options.take_over || !iface.default_route())
    };
    let taken = names.iter().filter(|name| takes_interface(name, names, options)).filter(is_given);
    let lines: Vec<_> = taken.filter_map(|name| line(name, notice)).collect();
    lines.iter().try_for_each(|line| session.reporter.say(line))
}

fn line(name: &PortName, notice: TakeoverNotice) -> Option<String> {
    let mut packet = name.clone();
    (packet.kind, packet.rings, packet.device) = (PortNameKind::Packet, RingSelection::All, None);
    packet.flags = PortNameFlags::default();
    let instead = match notice {
        TakeoverNotice::Shared => format!("{packet} with --shared would leave the host its frames"),
        TakeoverNotice::Listen => format!("{packet} would only listen"),
        TakeoverNotice::None => return None,
    };
    Some(format!("# {name} takes the interface from its host until this ends; {instead}"))
}

/// Returns whether opening `name`, which is one of `all`, takes an interface from its host. If the
/// host rings of the interface are also opened, it does not: the frames of the host pass through
/// them. A card that `slipring nic bind` has taken is not the host's any more.
pub(crate) fn takes_interface(name: &PortName, all: &[PortName], options: &OpenOptions) -> bool {
    let nic =
        matches!(name.rings, RingSelection::All | RingSelection::One(_)) && name.pipe.is_none();
    let watches = name.flags.is_monitor();
    let kind = match kinds::of(&name.kind).facts().interface {
        InterfaceUse::Whole => true,
        InterfaceUse::UnlessShared => !options.shared,
        InterfaceUse::IfInterface => Iface::find(&name.name).is_ok(),
        InterfaceUse::None => false,
    };
    let is_host = |other: &&PortName| {
        other.name == name.name
            && matches!(
                other.rings,
                RingSelection::Host | RingSelection::OneHost(_) | RingSelection::NicAndHost
            )
    };
    nic && kind && !watches && !opens_taken_card(name) && !all.iter().any(|other| is_host(&other))
}

/// Returns whether `name`, by the name of a card's TAP device, opens the card itself with its
/// native driver. Names of other kinds open the TAP device.
#[must_use]
pub fn opens_taken_card(name: &PortName) -> bool {
    matches!(name.kind, PortNameKind::Netmap | PortNameKind::Kernel)
        && taken::card_of(&name.name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(names: &[&str], shared: bool) -> Vec<String> {
        let names: Vec<_> =
            names.iter().map(|name| PortName::parse_classic(name).unwrap()).collect();
        let options = OpenOptions { shared, ..OpenOptions::default() };
        let taken = names.iter().filter(|name| takes_interface(name, &names, &options));
        taken.map(ToString::to_string).collect()
    }

    #[test]
    fn what_takes_an_interface_from_its_host_is_known_by_its_name() {
        for name in ["netmap:eth0", "netmap:eth0-2", "xdp:eth0", "packet:eth0", "kernel:lo"] {
            assert_eq!(taken(&[name], false), [name]);
        }
        for name in [
            "null:",
            "tap:a",
            "pcap:a",
            "x{1",
            "netmap:eth0^",
            "netmap:eth0*",
            "vale0:a",
            "netmap:lo/z",
        ] {
            assert!(taken(&[name], false).is_empty(), "{name}");
        }
        for name in ["kernel:vale0:a", "kernel:x{1", "kernel:lo/t", "kernel:nosuch0"] {
            assert!(taken(&[name], false).is_empty(), "{name}");
        }
        assert_eq!(taken(&["eth0"], false), ["netmap:eth0"], "a bare name");
        assert!(taken(&["packet:eth0"], true).is_empty());
        assert_eq!(taken(&["netmap:eth0"], true), ["netmap:eth0"], "XDP leads all frames away");
    }

    #[test]
    fn an_interface_whose_host_rings_are_open_too_is_not_taken() {
        assert!(taken(&["netmap:eth0", "netmap:eth0^"], false).is_empty());
        assert_eq!(taken(&["netmap:eth0", "netmap:eth1^"], false), ["netmap:eth0"]);
    }

    #[test]
    fn the_line_names_the_spelling_that_does_not_take_it() {
        let name = PortName::parse_classic("netmap:br--lan-0/xTR").unwrap();
        let line = |notice| line(&name, notice).unwrap_or_default();
        assert!(
            line(TakeoverNotice::Shared)
                .ends_with("packet:br--lan with --shared would leave the host its frames")
        );
        assert!(line(TakeoverNotice::Listen).ends_with("; packet:br--lan would only listen"));
        assert_eq!(line(TakeoverNotice::None), "");
    }
}
