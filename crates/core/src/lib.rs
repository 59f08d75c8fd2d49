//! Opens ports by name. Manages the memory region that ports opened together share, and the pipes
//! of this process.
//!
//! A complete program that forwards between two ports:
//!
//! ```no_run
#![doc = include_str!("../examples/forward.rs")]
//! ```
//!
//! Ports opened by one [`Host::open_all`] share one region, so frames pass between them by
//! exchanging buffers. Exceptions are ports of a netmap device or of a daemon, and pipes that exist
//! already. The crate also has [`listen`] (listens on an interface without taking frames from it),
//! [`netns`] (network namespaces that leave nothing behind), [`counters`] (which a running program
//! publishes) and [`kinds`] (the table of all kinds of ports).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod pipes;
#[allow(unsafe_code)]
mod sys;

pub mod counters;
pub mod kinds;
pub mod listen;

pub use slipring_port::{inherited, netns};
pub use sys::kill_with_parent;

use std::num::NonZeroU16;
use std::sync::{Arc, LazyLock};

use slipring_abi::name::{PortName, PortNameKind, RingSelection, kind};
use slipring_port::{OpenCause, OpenError, OpenOptions, Port, RegionNeeds};
use slipring_ring::{BUF_SIZE, BUF_SIZE_FOR_DEVICES, Geometry, Region};

use crate::pipes::PipeRegistry;

/// Opens one port, in its own region unless it is the end of an existing pipe or on a netmap
/// device.
///
/// # Errors
/// [`OpenError`], with what to try next.
pub fn open(name: &str) -> Result<Port, OpenError> {
    let [port] = open_all([name], &OpenOptions::default())?;
    Ok(port)
}

/// Opens ports that share one region.
///
/// # Errors
/// [`OpenError`] of the first port that cannot be opened; those before it are closed again.
pub fn open_all<const N: usize>(
    names: [&str; N],
    options: &OpenOptions,
) -> Result<[Port; N], OpenError> {
    let mut parsed = Vec::with_capacity(N);
    for name in names {
        parsed.push(parse(name)?);
    }
    let ports = Host::global().open_all(&parsed, options)?;
    Ok(<[Port; N]>::try_from(ports).expect("one port per name"))
}

/// Parses a name as [`open`] does.
///
/// # Errors
/// [`OpenError`] with the column of the error.
pub fn parse(name: &str) -> Result<PortName, OpenError> {
    PortName::parse(name).map_err(|error| {
        let cause = OpenCause::Name { reason: error.to_string(), help: Some(error.advice()) };
        OpenError::new(name, cause)
    })
}

/// The shared state of a process's ports: the role that netmap's kernel module has.
#[derive(Debug, Default)]
pub struct Host {
    pipes: PipeRegistry,
}

impl Host {
    /// Creates a separate host, whose pipes are not visible elsewhere.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the process's host, which [`open`] uses.
    #[must_use]
    pub fn global() -> &'static Self {
        static GLOBAL: LazyLock<Host> = LazyLock::new(Host::new);
        &GLOBAL
    }

    /// Opens ports that share one region of the size that they need.
    ///
    /// # Errors
    /// [`OpenError`] of the first port that cannot be opened; those before it are closed again.
    pub fn open_all(
        &self,
        names: &[PortName],
        options: &OpenOptions,
    ) -> Result<Vec<Port>, OpenError> {
        if names.iter().any(|name| name.kind.names_interface()) {
            // Removes hidden veth pairs that killed programs left. If that fails, opening
            // continues.
            let _ = slipring_port::host::remove_stale();
        }
        let needs = self.needs_of_all(names, options)?;
        let region = make_region(names, needs, options)?;
        let open = |name| self.open_in(name, &region, &options_among(name, names, options));
        names.iter().map(open).collect()
    }

    /// Makes the checks that [`Self::open_all`] begins with. Opens and changes nothing.
    ///
    /// # Errors
    /// [`OpenError`] for a name or option that cannot be opened anywhere, or not on this machine.
    pub fn check_all(&self, names: &[PortName], options: &OpenOptions) -> Result<(), OpenError> {
        self.needs_of_all(names, options).map(drop)
    }

    fn needs_of_all(
        &self,
        names: &[PortName],
        options: &OpenOptions,
    ) -> Result<RegionNeeds, OpenError> {
        let mut needs = RegionNeeds::default();
        for name in names {
            let options = with_conf(name, &options_among(name, names, options));
            needs += kinds::needs(self, name, &options)? * (1 + options.reserve_factor);
        }
        Ok(needs)
    }

    /// Opens a port in an existing region. The second end of a pipe uses the region of the first.
    ///
    /// # Errors
    /// [`OpenError`], with what to try next.
    pub fn open_in(
        &self,
        name: &PortName,
        region: &Arc<Region>,
        options: &OpenOptions,
    ) -> Result<Port, OpenError> {
        kinds::open(self, name, region, &with_conf(name, options))
    }
}

/// Returns the options for a port that is opened along with `all`. If `all` contains both ends of a
/// pipe that is on no netmap device, the pipe is created in this process even if a daemon runs.
fn options_among(name: &PortName, all: &[PortName], options: &OpenOptions) -> OpenOptions {
    let is_joined =
        !name.kind.has(kind::ON_DEVICE) && all.iter().any(|other| pipes::are_peers(name, other));
    let daemon = options.daemon.clone().filter(|_| !is_joined);
    OpenOptions { daemon, ..options.clone() }
}

/// Merges the numbers of slots and of host rings that the name requests into the options.
fn with_conf(name: &PortName, options: &OpenOptions) -> OpenOptions {
    // Both rings of a pair have the same length: the larger of the two values.
    let wish = name.conf.tx_slots.max(name.conf.rx_slots);
    OpenOptions {
        slots: wish.map_or(options.slots, std::num::NonZero::get),
        host_rings: host_rings(name, options.host_rings),
        ..options.clone()
    }
}

/// Returns the numbers of host rings that a name requests, `[to the host, from the host]`; the
/// parameters are the defaults for a name that requests none.
fn host_rings(name: &PortName, [to_host, from_host]: [u32; 2]) -> [u32; 2] {
    if matches!(name.rings, RingSelection::OneHost(_)) {
        return [1; 2];
    }
    let wish = |wish: Option<NonZeroU16>, other| wish.map_or(other, |wish| wish.get().into());
    [wish(name.conf.host_tx_rings, to_host), wish(name.conf.host_rx_rings, from_host)]
}

/// Returns the buffer size for a region of these ports: the size for devices if a port opens an
/// interface or a card, otherwise the default.
fn buf_size(names: &[PortName]) -> u32 {
    let device = |name: &PortName| {
        let is_interface = name.kind.names_interface() && name.pipe.is_none();
        is_interface || name.kind == PortNameKind::Vfio
    };
    if names.iter().any(device) { BUF_SIZE_FOR_DEVICES } else { BUF_SIZE }
}

/// Creates a region of the size that the ports need, plus 4096 bytes of ring area and the two
/// reserved buffers.
fn make_region(
    names: &[PortName],
    needs: RegionNeeds,
    options: &OpenOptions,
) -> Result<Arc<Region>, OpenError> {
    let geometry = Geometry {
        ring_bytes: needs.ring_bytes + 4096,
        // Buffers 0 and 1 are reserved.
        bufs: needs.bufs + 2,
        buf_size: options.buf_size.unwrap_or_else(|| buf_size(names)),
    };
    let first = names.first().map(ToString::to_string).unwrap_or_default();
    Region::create(geometry, options.huge).map_err(|error| OpenError::new(first, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_ends_on_a_device_stay_on_the_daemon_s_device_and_other_peers_do_not() {
        let options = OpenOptions { daemon: Some("/run/here".into()), ..OpenOptions::default() };
        for (names, keeps) in
            [(["kernel:x{1", "kernel:x}1"], true), (["netmap:x{1", "netmap:x}1"], false)]
        {
            let names = names.map(|name| name.parse::<PortName>().unwrap());
            for name in &names {
                assert_eq!(options_among(name, &names, &options).daemon.is_some(), keeps, "{name}");
            }
        }
    }

    #[test]
    fn buffers_that_a_device_accesses_cross_no_page() {
        let size = |names: &[&str]| {
            buf_size(&names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(size(&["null:", "pcap:file"]), BUF_SIZE);
        for device in ["vfio:03:00.0", "packet:eth0", "xdp:eth0"] {
            assert_eq!(size(&["null:", device]), BUF_SIZE_FOR_DEVICES, "{device}");
        }
    }
}
