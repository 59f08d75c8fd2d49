//! TAP devices: whether one can be created, or an existing one used. The check creates none.

use std::fs;
use std::os::linux::fs::MetadataExt;

use slipring_abi::name::PortName;
use slipring_port::{GRANT_COMMANDS, tap};

use super::finding::Finding;
use super::other_ports::refused;
use super::port::sysfs;
use super::privilege::{Privileges, grant_help};
use crate::ports;

const CHECK_NAME: &str = "port";

pub(super) fn examine(port: &PortName, privileges: &Privileges) -> Finding {
    if let Err(error) = tap::probe(&port.to_string()) {
        return refused(&error);
    }
    let rows = ports::list().unwrap_or_default();
    let there = rows.iter().find(|row| row.interface == port.name);
    if there.is_some_and(|row| row.link_kind != "tun") {
        let text = format!("{port}: `{}` is an interface, and no TAP device", port.name);
        return Finding::fail(CHECK_NAME, text)
            .with_fix("take a name that is not in use: slipring ports lists them");
    }
    let what = if there.is_some() { "is there and can be used" } else { "will be made" };
    if privileges.may_make_devices() {
        return Finding::ok(CHECK_NAME, format!("{port} {what}"));
    }
    if there.is_none() {
        return Finding::fail(
            CHECK_NAME,
            format!("{port}: no cap_net_admin: no device can be made"),
        )
        .with_fix(grant_help(GRANT_COMMANDS));
    }
    match is_ours(&port.name) {
        Some(true) => Finding::ok(CHECK_NAME, format!("{port} {what}")),
        Some(false) => {
            let text =
                format!("{port}: the device is not this user's, and there is no cap_net_admin");
            Finding::fail(CHECK_NAME, text).with_fix(grant_help(GRANT_COMMANDS))
        }
        None => Finding::warn(
            CHECK_NAME,
            format!("{port} is there; whose it is cannot be seen from this namespace"),
        )
        .with_fix(grant_help(GRANT_COMMANDS)),
    }
}

/// Whether the device was created for this user; `None` if sysfs belongs to another network
/// namespace. The kernel reports -1 for a device without an owner.
fn is_ours(device: &str) -> Option<bool> {
    let user = fs::metadata("/proc/self").map(|process| process.st_uid()).ok()?;
    Some(sysfs(device, "owner")?.parse() == Ok(user))
}
