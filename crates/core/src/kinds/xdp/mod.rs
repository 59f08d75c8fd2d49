//! `xdp:IF`, AF_XDP sockets of an interface: [`slipring_port::xdp`].

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_confine::CapabilitySet;
use slipring_port::{OpenError, Port, RegionNeeds, xdp};
use slipring_ring::Region;

use super::{DoctorContext, Finding, InterfaceUse, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: XdpDriver = XdpDriver;

pub(super) struct XdpDriver;

static FACTS: PortKindInfo = PortKindInfo {
    // The capability is needed to restore the interface's settings at the end.
    keeps: CapabilitySet::NET_ADMIN,
    // XDP programs redirect all frames to the port, even with `--shared`.
    interface: InterfaceUse::Whole,
    only_reads_tx: true,
    ..PortKindInfo::new(&[NameRow {
        name: "`xdp:IF`",
        what: "AF_XDP: zero-copy, else native, else generic",
        needs: "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF",
        help: "an interface, by AF_XDP",
    }])
};

impl PortDriver for XdpDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        xdp::check(request.display_name(), request.bare_name(), request.buf_size())?;
        needs(request)
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        let options = request.xdp_options()?;
        xdp::open(request.display_name(), request.bare_name(), request.queue(), region, &options)
    }

    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        (context.interface)(port)
    }
}

/// The memory that the port takes from a region.
pub(super) fn needs(request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
    xdp::needs(request.display_name(), request.bare_name(), request.queue(), request.options())
}
