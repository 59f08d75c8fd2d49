//! `tap:NAME`, a TAP device: [`slipring_port::tap`].

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;

use slipring_abi::name::PortName;
use slipring_port::iface::Iface;
use slipring_port::{GRANT_COMMANDS, OpenError, Port, RegionNeeds, tap};
use slipring_ring::Region;

use super::finding::grant_help;
use super::{DoctorContext, Finding, NameRow, PortDriver, PortKindInfo, PortRequest};

pub(super) static DRIVER: TapDriver = TapDriver;

pub(super) struct TapDriver;

static FACTS: PortKindInfo = PortKindInfo::new(&[NameRow {
    name: "`tap:IF`",
    what: "TAP device",
    needs: "CAP_NET_ADMIN in its namespace",
    help: "a TAP device, which is made where there is none",
}]);

impl PortDriver for TapDriver {
    fn facts(&self) -> &'static PortKindInfo {
        &FACTS
    }

    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
        let (name, ifname) = (request.display_name(), request.bare_name());
        tap::needs(name, ifname, request.pairs(), request.options())
    }

    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError> {
        let (name, pairs) = (request.bare_name(), request.pairs());
        tap::open(request.display_name(), name, pairs, region, request.options())
    }

    /// Checks whether a device can be created, or used if it exists. Creates none.
    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
        vec![device(port, context.may_make_devices)]
    }
}

fn device(port: &PortName, may_make: bool) -> Finding {
    let name = port.to_string();
    let existing = match tap::probe(&name).and_then(|()| tap::existing(&name, &port.name)) {
        Ok(existing) => existing,
        Err(error) => return Finding::port_refused(&error),
    };
    let what = if existing.is_some() { "is there and can be used" } else { "will be made" };
    if may_make {
        return Finding::port_ok(format!("{port} {what}"));
    }
    let Some(iface) = existing else {
        return Finding::port_fail(format!("{port}: no cap_net_admin: no device can be made"))
            .with_fix(grant_help(GRANT_COMMANDS));
    };
    match is_ours(&iface) {
        Some(true) => Finding::port_ok(format!("{port} {what}")),
        Some(false) => {
            let text =
                format!("{port}: the device is not this user's, and there is no cap_net_admin");
            Finding::port_fail(text).with_fix(grant_help(GRANT_COMMANDS))
        }
        None => {
            let text = "is there; whose it is cannot be seen from this namespace";
            Finding::port_warn(format!("{port} {text}")).with_fix(grant_help(GRANT_COMMANDS))
        }
    }
}

/// Whether the device was created for this user; `None` if sysfs does not tell, usually because it
/// shows another network namespace. The kernel reports -1 for a device without an owner.
fn is_ours(iface: &Iface) -> Option<bool> {
    let user = fs::metadata("/proc/self").map(|process| process.st_uid()).ok()?;
    let read =
        |file: &str| fs::read_to_string(format!("/sys/class/net/{}/{file}", iface.name)).ok();
    let is_shown = read("ifindex")?.trim() == iface.index.to_string();
    let owner = read("owner").filter(|_| is_shown)?;
    Some(owner.trim().parse() == Ok(user))
}
