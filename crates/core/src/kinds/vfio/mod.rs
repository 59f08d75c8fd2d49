//! `vfio:PCI`, a device driven from user space: its names are defined, but there is no driver yet.

use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_port::{OpenError, Port, RegionNeeds};
use slipring_ring::Region;

use super::{DoctorContext, Finding, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: VfioDriver = VfioDriver;

pub(super) struct VfioDriver;

static FACTS: PortKindInfo = PortKindInfo::new(&[]);

impl PortDriver for VfioDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        Err(absent(request))
    }

    fn open(&self, request: &PortRequest<'_>, _region: &Arc<Region>) -> Result<Port, OpenError> {
        Err(absent(request))
    }

    /// Returns no findings; the caller adds the error of [`Self::needs`].
    fn examine(&self, _port: &PortName, _context: &DoctorContext<'_>) -> Vec<Finding> {
        Vec::new()
    }
}

fn absent(request: &PortRequest<'_>) -> OpenError {
    request.unsupported("a native driver", "native drivers are not part of this version")
}
