//! `vale[ID]:NAME`: a port of a switch of a netmap device.

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_port::{OpenError, Port, RegionNeeds};
use slipring_ring::Region;

use super::kernel;
use super::{AfterRestart, DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: ValeDriver = ValeDriver;

pub(super) struct ValeDriver;

static FACTS: PortKindInfo = PortKindInfo {
    restart: AfterRestart::GoesOn,
    ..PortKindInfo::new(&[NameRow {
        name: "`valeX:NAME`",
        what: "a port of a switch of that device: `vale0:a`",
        needs: "the right to the device",
        help: "a port of a switch",
    }])
};

impl PortDriver for ValeDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        kernel::DRIVER.needs(request)
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        kernel::DRIVER.open(request, region)
    }

    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        kernel::DRIVER.examine(port, context)
    }
}
