//! `kernel:NAME`, a port of a netmap device: [`slipring_port::kernel`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_port::{OpenError, Port, RegionNeeds, kernel};
use slipring_ring::Region;

use super::{DoctorContext, Finding, InterfaceUse, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: KernelDriver = KernelDriver;

pub(super) struct KernelDriver;

static FACTS: PortKindInfo = PortKindInfo {
    // Ports of switches, and other ports that programs create, are not interfaces.
    interface: InterfaceUse::IfInterface,
    ..PortKindInfo::new(&[NameRow {
        name: "`kernel:NAME`",
        what: "a port of `/dev/netmap`, by its name there: `kernel:eth0`, `kernel:x{1`, `kernel:vale0:a`; another device by `@/PATH`; the daemon of the run directory comes first",
        needs: "the right to the device",
        help: "a port of /dev/netmap, by its name there",
    }])
};

impl PortDriver for KernelDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    /// Returns no needs: the device provides the memory.
    fn needs(&self, _request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        Ok(RegionNeeds::default())
    }

    fn open(&self, request: &PortRequest<'_>, _region: &Arc<Region>) -> Result<Port, OpenError> {
        let run_dir = request.options().daemon.as_deref().and_then(Path::parent);
        let device = kernel::default_device(run_dir.unwrap_or(Path::new("")));
        kernel::open(request.display_name(), request.name(), &device)
    }

    /// Queries the device about the port without binding it, so that no other program is disturbed.
    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        let named = port.device.as_deref().map(PathBuf::from);
        let device = named.unwrap_or_else(|| kernel::default_device(context.run_dir));
        vec![match kernel::probe(&port.to_string(), port, &device) {
            Ok(()) => Finding::port_ok(format!("{port}: {} gives it", device.display())),
            Err(error) => Finding::port_refused(&error),
        }]
    }
}
