//! Errors of loading and attaching the router's BPF programs.

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
