//! The kernel's settings of an interface below `/proc/sys/net`, such as `forwarding` and
//! `rp_filter`. They end with the interface, so they are saved and set again.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::NicHost;
use crate::routes::Unrestored;
use crate::sysfs;

const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];
/// Settings that are not saved here: the MTU is a setting of the link, and the kernel chooses the
/// others.
const LEFT_OUT: [&str; 3] = ["mtu", "mc_forwarding", "stable_secret"];

/// A setting that differs from that of new interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSysctl {
    /// `ipv4` or `ipv6`.
    family: String,
    /// The name of the file: `rp_filter`.
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Returns the directory of an interface's settings. `default` has those of new interfaces.
fn dir(root: &Path, family: &str, interface: &str) -> PathBuf {
    root.join("proc/sys/net").join(family).join("conf").join(interface)
}

/// Returns the settings of an interface that differ from those of new interfaces.
pub(crate) fn of(root: &Path, interface: &str) -> Vec<SavedSysctl> {
    let mut saved = Vec::new();
    for family in FAMILIES {
        let own = dir(root, family, interface);
        let default = dir(root, family, "default");
        for name in sysfs::names(&own) {
            // An entry that cannot be read has no value, or is a directory.
            let Some(value) = sysfs::read(&own.join(&name)) else { continue };
            let is_default = sysfs::read(&default.join(&name)).is_none_or(|other| other == value);
            if !is_default && !LEFT_OUT.contains(&name.as_str()) {
                saved.push(SavedSysctl { family: family.to_owned(), name, value });
            }
        }
    }
    saved
}

/// Sets saved settings of an interface, and returns those that the kernel refuses.
pub(crate) fn restore(
    host: &dyn NicHost,
    interface: &str,
    saved: &[SavedSysctl],
) -> Vec<Unrestored> {
    let set = |sysctl: &SavedSysctl| -> io::Result<()> {
        // A damaged state must not name another file.
        if !FAMILIES.contains(&sysctl.family.as_str()) || sysctl.name.contains('/') {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let path = dir(host.root(), &sysctl.family, interface).join(&sysctl.name);
        match sysfs::read(&path).as_ref() == Some(&sysctl.value) {
            true => Ok(()),
            false => host.write(&path, &sysctl.value),
        }
    };
    let refused = |sysctl: &SavedSysctl| {
        let why = set(sysctl).err()?.to_string();
        let SavedSysctl { family, name, value } = sysctl;
        Some(Unrestored { what: format!("net.{family}.conf.{interface}.{name} = {value}"), why })
    };
    saved.iter().filter_map(refused).collect()
}
