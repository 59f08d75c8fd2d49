//! `null:`, sink and source of known cost: [`slipring_port::null`].

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_port::{OpenError, Port, RegionNeeds, null};
use slipring_ring::Region;

use super::{DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: NullDriver = NullDriver;

pub(super) struct NullDriver;

static FACTS: PortKindInfo = PortKindInfo {
    only_reads_tx: true,
    ..PortKindInfo::new(&[NameRow {
        name: "`null:`",
        what: "sink and source of known cost",
        needs: "nothing",
        help: "sink and source of known cost",
    }])
};

impl PortDriver for NullDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        Ok(null::needs(request.pairs(), request.options()))
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        null::open(request.display_name(), request.pairs(), region, request.options())
    }

    fn examine(&self, port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        vec![Finding::port_needs_nothing(port)]
    }
}
