//! `slipring nic`: takes network cards from their kernel drivers and binds them to vfio-pci, for
//! native drivers, and gives them back.
//!
//! ```text
//!   list, doctor, report      sysfs, netlink ------> chips, checks ----> text, JSON
//!   bind                      checks -> plan -> steps, undone by restore if one fails
//!   restore                   saved state -> driver, name, addresses, routes
//!   confirm, timer            the state's `confirm_by`
//!   set                       settings, kept and given to the program that has the card
//! ```
//!
//! Everything that touches the machine goes through `host::NicHost`.
//!
//! # Not for
//! Driving a card: the port `vfio:BDF` does that.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alias;
mod bind;
mod checks;
mod chips;
mod commands;
mod doctor;
mod flags;
mod holders;
mod host;
mod host_linux;
mod list;
mod lookup;
mod pci_address;
mod refusals;
mod report;
mod request;
mod restore;
mod routes;
mod salvage;
mod set;
mod stand_in;
mod state;
mod sysctls;
mod sysfs;
#[cfg(test)]
mod tests;
mod timer;

use std::path::Path;

use clap::ArgMatches;
use slipring_cli::{Failure, Job, Verb};

use crate::host_linux::LinuxHost;
pub use crate::report::measurements;

/// The entry of `slipring nic` in the table of commands.
pub const VERB: Verb = Verb {
    name: "nic",
    classic: &[],
    command: flags::command,
    plan,
    no_metrics: Some("changes drivers and ends"),
};

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let request = flags::NicRequest::of(matches)?;
    Ok(Box::new(move |session| {
        let host = LinuxHost::new(&session.run_dir);
        commands::run(&host, &request, session)
    }))
}

/// The native driver that could drive an interface, if its card were bound to vfio-pci.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeDriver {
    /// The card's PCI address, which `vfio:` takes.
    pub pci_address: String,
    /// The name of the chip.
    pub chip: &'static str,
    /// The native driver's name, or the reason why there is none for the chip.
    pub driver: Result<&'static str, &'static str>,
}

/// Finds the native driver for an interface of this machine; `None` if it is not a PCI card, or its
/// chip is unknown.
#[must_use]
pub fn native_driver(interface: &str) -> Option<NativeDriver> {
    let sysfs::NamedDevice::Pci(nic) = sysfs::find(Path::new("/"), interface) else { return None };
    let chip = nic.known_chip()?;
    let driver = match chip.support {
        chips::ChipSupport::Native(driver) | chips::ChipSupport::ByXid(driver, _) => Ok(driver),
        chips::ChipSupport::Refused(why) => Err(why),
    };
    Some(NativeDriver { pci_address: nic.bdf, chip: chip.name, driver })
}
