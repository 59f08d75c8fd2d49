//! `vhost:PATH`, a guest whose VMM connects to a socket that the port creates: [`slipring_vhost`].

pub(super) mod socket;

use std::path::Path;
use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_confine::CapabilitySet;
use slipring_port::{OpenError, Port, RegionNeeds};
use slipring_ring::Region;
use slipring_vhost::VhostRole;

use super::{AfterRestart, DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: VhostDriver = VhostDriver { facts: &FACTS, role: VhostRole::Server };

/// The driver of `vhost:` and `vhostclient:`, which differ in the side that creates the socket.
pub(super) struct VhostDriver {
    pub(super) facts: &'static PortKindInfo,
    pub(super) role: VhostRole,
}

static FACTS: PortKindInfo = PortKindInfo {
    rows: &[NameRow {
        name: "`vhost:PATH`",
        what: "a QEMU/KVM guest with virtio-net, by vhost-user at that socket; [docs/guests.md](docs/guests.md)",
        needs: "nothing",
        help: "a QEMU/KVM guest that connects to that socket",
    }],
    ..GUEST
};

/// The common facts of both kinds.
pub(super) const GUEST: PortKindInfo = PortKindInfo {
    // The capability is needed to remove the socket at the end, or to connect to it again.
    keeps: CapabilitySet::DAC_OVERRIDE,
    restart: AfterRestart::Reopened,
    ..PortKindInfo::new(&[])
};

impl PortDriver for VhostDriver {
    fn facts(&self) -> &'static PortKindInfo {
        self.facts
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        let name = request.display_name();
        slipring_vhost::check_socket(name, request.bare_name().as_ref(), self.role)?;
        slipring_vhost::needs(name, request.pairs(), request.options())
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        let (path, options) = (request.bare_name().as_ref(), request.options());
        slipring_vhost::open(
            request.display_name(),
            path,
            self.role,
            request.pairs(),
            region,
            options,
        )
    }

    fn examine(&self, port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        let path = Path::new(&port.name);
        vec![match slipring_vhost::check_socket(&port.to_string(), path, self.role) {
            Err(error) => Finding::port_refused(&error),
            Ok(()) => match self.role {
                VhostRole::Server => socket::to_make(port, path),
                VhostRole::Client => socket::to_connect_to(port, path),
            },
        }]
    }
}
