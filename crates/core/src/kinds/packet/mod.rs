//! `packet:IF`, an AF_PACKET ring of an interface: [`slipring_port::packet`].

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_confine::CapabilitySet;
use slipring_port::{OpenError, Port, RegionNeeds, packet};
use slipring_ring::Region;

use super::{DoctorContext, Finding, InterfaceUse, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: PacketDriver = PacketDriver;

pub(super) struct PacketDriver;

static FACTS: PortKindInfo = PortKindInfo {
    // The capability is needed to restore the interface's settings at the end.
    keeps: CapabilitySet::NET_ADMIN,
    interface: InterfaceUse::UnlessShared,
    only_reads_tx: true,
    ..PortKindInfo::new(&[NameRow {
        name: "`packet:IF`",
        what: "AF_PACKET ring; works on every interface",
        needs: "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF; only CAP_NET_RAW with `--shared`",
        help: "an interface, by AF_PACKET: slower, and on every interface",
    }])
};

impl PortDriver for PacketDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        packet::needs(
            request.display_name(),
            request.bare_name(),
            request.queue(),
            request.options(),
        )
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        let options = request.options();
        packet::open(request.display_name(), request.bare_name(), request.queue(), region, options)
    }

    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        (context.interface)(port)
    }
}
