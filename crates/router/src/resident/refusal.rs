//! Errors of loading and attaching the router's BPF programs.

use std::io;

use rustix::io::Errno;
use slipring_bpf::BpfError;
use slipring_cli::Diagnostic;
use slipring_cli::codes::{SR0107, SR0108, SR0199};
use slipring_port::{OpenCause, OpenError};
use slipring_route_bpf::ResidentError;

/// Converts an error of the kernel about a BPF program to a diagnostic with a remedy.
pub(super) fn refused(error: &ResidentError, interface: Option<&str>) -> Diagnostic {
    let on = interface.map_or_else(String::new, |name| format!(" on {name}"));
    let summary = format!("packets cannot be forwarded in XDP{on}");
    let name = interface.unwrap_or("IF");
    match (errno_of(error), error) {
        (Some(errno @ (Errno::PERM | Errno::ACCESS)), _) => {
            let what = "load and attach the router's program";
            Diagnostic::of(&OpenError::new(interface.unwrap_or("route"), no_privilege(what, errno)))
        }
        (Some(Errno::BUSY | Errno::EXIST), _) => Diagnostic::new(SR0107, summary)
            .with_cause("another XDP program is attached")
            .with_help(format!("see which one: ip -details link show dev {name}"))
            .with_note("whether it is another program of slipring: slipring ports"),
        (Some(Errno::OPNOTSUPP), _) => Diagnostic::new(SR0108, summary)
            .with_cause("the driver has no XDP")
            .with_help("let the stack run the program: --io xdp-generic"),
        _ => Diagnostic::new(SR0199, summary)
            .with_cause(error.to_string())
            .with_help("see what this machine can do: slipring doctor"),
    }
}

/// Refuses an interface whose device joins received packets of a flow (LRO). Nothing in such a
/// packet tells where it must be cut again, so it would be forwarded as one packet.
pub(super) fn refuse_joined(name: &str, joins: io::Result<bool>) -> Result<(), Diagnostic> {
    match joins {
        Ok(true) => {
            Err(Diagnostic::new(SR0108, format!("packets from {name} cannot be forwarded"))
                .with_cause("its device joins received packets (LRO), and does not say how")
                .with_help(format!("switch that off: ethtool -K {name} lro off"))
                .with_note("the kernel does so itself where it forwards, without --no-fallback"))
        }
        // A device that does not answer has no such setting.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// The error if the kernel refuses an operation that needs a capability.
pub(crate) fn no_privilege(what: &'static str, errno: Errno) -> OpenCause {
    OpenCause::Privilege {
        what,
        capabilities: "cap_net_admin,cap_bpf,cap_net_raw",
        source: errno.into(),
    }
}

pub(super) fn errno_of(error: &ResidentError) -> Option<Errno> {
    let source = match error {
        ResidentError::Attach { source, .. }
        | ResidentError::Bpf(BpfError::System { source, .. }) => source,
        _ => return None,
    };
    Errno::from_io_error(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_joins_packets_is_refused_with_the_command_that_stops_it() {
        let refused = refuse_joined("eth0", Ok(true)).unwrap_err().to_text(false);
        for part in ["packets from eth0 cannot", "(LRO)", "ethtool -K eth0 lro off"] {
            assert!(refused.contains(part), "no `{part}` in {refused}");
        }
        assert!(refuse_joined("eth0", Ok(false)).is_ok());
        assert!(refuse_joined("eth0", Err(io::ErrorKind::Unsupported.into())).is_ok());
    }
}
