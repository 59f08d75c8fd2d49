//! A daemon's pipe, opened through the native socket: this process syncs its own end. The other end
//! may be in any process, which may have opened it by any way that the daemon offers.
//!
//! ```text
//!   connect --> REGISTER --> memory, mapped --> lent rings, words, doorbells
//!                                                 tx_sync, rx_sync: no system call
//!                                                 while frames move and no party sleeps
//! ```
//! A pipe with several rings has one connection per ring pair, so that each queue can have a
//! separate thread. Dropping a connection returns its rings to the daemon.
//!
//! Not for pipes within this process (`pipe.rs`), and not for ends that several programs share
//! (`kernel.rs` opens those through the device).

mod end;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_abi::name::{PortName, RingSelection};
use slipring_abi::{NetmapRing, NmreqRegister, PlainData};
use slipring_native_proto::trust::TrustError;
use slipring_native_proto::{NativeClient, RingDelegation, SOCKET_NAME};
use slipring_ring::{DeviceMapping, Geometry, HugePages, Region, SlotFlags};

use crate::error::{OpenCause, RunError};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::port::Port;
use crate::queue::{Interest, Queue, QueueRings as RingPair, TxWait, WaitFds};
use crate::stats::{QueueCounters, TrafficCounts};

pub use end::NativeEnd;

/// Maximum number of slots per packet, as in netmap.
const MAX_FRAGMENTS: u32 = 64;

/// Path of the native socket of a daemon with this run directory.
#[must_use]
pub fn socket_path(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET_NAME)
}

/// Returns whether a daemon listens at `socket`, also if this process may not connect to it. The
/// daemon may still refuse the pipe.
#[must_use]
pub fn is_served(socket: &Path) -> bool {
    match NativeClient::connect(socket) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
    }
}

/// Returns whether a daemon listens at `socket`, and is known to be in another network namespace
/// than this process.
#[must_use]
pub fn serves_other_network(socket: &Path) -> bool {
    let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let daemons = || -> rustix::io::Result<Option<PathBuf>> {
        let asked = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::connect(&asked, &rustix::net::SocketAddrUnix::new(socket)?)?;
        let listens = rustix::net::sockopt::socket_peercred(&asked)?;
        Ok(network(&listens.pid.as_raw_nonzero().to_string()))
    };
    match (daemons(), network("self")) {
        (Ok(Some(daemons)), Some(own)) => daemons != own,
        _ => false,
    }
}

/// Opens an end of a pipe at the native socket `socket`.
///
/// # Errors
/// [`OpenCause`] if there is no daemon, it refuses, or another process syncs a ring of this end.
pub fn open(shown: &str, name: &PortName, socket: &Path) -> Result<Port, OpenCause> {
    let ends = bind_ends(name, socket)?;
    let slots = ends.iter().map(|end| end.tx.num_slots().max(end.rx.num_slots())).max();
    let max_slot = ends.iter().map(|end| end.tx.region().buf_size()).max().unwrap_or(0);
    let mode = PortMode::new().with("mode", "swap").with("socket", socket.display());
    let info = PortInfo {
        name: shown.to_owned(),
        kind: "native",
        mode: mode.with("queues", ends.len()).with("slots", slots.unwrap_or(0)),
        caps: PortCaps {
            rx: ends.iter().any(|end| end.rx.num_slots() > 1),
            tx: ends.iter().any(|end| end.tx.num_slots() > 1),
            max_packet: max_slot.saturating_mul(MAX_FRAGMENTS),
            max_slot,
        },
        mac: None,
        mtu: None,
    };
    let queue = |end| {
        let name = shown.to_owned();
        Box::new(NativeQueue { name, end, counters: Arc::default() }) as Box<dyn Queue>
    };
    Ok(Port { info, queues: ends.into_iter().map(queue).collect() })
}

/// Binds an end of a pipe, each of its ring pairs separately.
///
/// # Errors
/// Same as for [`open`].
pub fn bind_ends(name: &PortName, socket: &Path) -> Result<Vec<NativeEnd>, OpenCause> {
    let first = NativeBinding::new(name, socket)?;
    let pairs = first.granted.nr_tx_rings.max(first.granted.nr_rx_rings);
    if name.rings != RingSelection::All || pairs <= 1 {
        return Ok(vec![first.into_end()?]);
    }
    // The first bind is dropped, because an exclusive bind of all rings would conflict with one
    // bind per ring. If no other program has the pipe open, the next bind creates the pipe again.
    let mut single = name.clone();
    let mut bind = |rings| {
        single.rings = rings;
        NativeBinding::new(&single, socket)?.into_end()
    };
    drop(first);
    (0..pairs).map(|ring| bind(RingSelection::One(ring))).collect()
}

/// A connection to the daemon, with bound rings.
struct NativeBinding {
    client: NativeClient,
    granted: NmreqRegister,
}

impl NativeBinding {
    fn new(name: &PortName, socket: &Path) -> Result<Self, OpenCause> {
        let client =
            NativeClient::connect(socket).map_err(|source| connect_error(socket, source))?;
        let header = name.to_header().ok_or_else(|| protocol_error("a port without a name"))?;
        let granted = client.register(&header, &name.to_register());
        let granted = granted.map_err(system_error("bind a pipe of the daemon"))?;
        Ok(Self { client, granted })
    }

    /// Takes over the first ring of each direction.
    fn into_end(self) -> Result<NativeEnd, OpenCause> {
        let (file, bytes) =
            self.client.memory().map_err(system_error("get the daemon's memory"))?;
        let RingDelegation { client_id, writes_timestamps: stamps, kick, rings } =
            self.client.lend().map_err(delegation_error)?;
        let mapping = DeviceMapping::new(file, bytes.min(self.granted.nr_memsize))?;
        let first = rings.first().ok_or_else(|| protocol_error("no ring at all"))?;
        let at = if first.receives { first.layout.rx } else { first.layout.tx };
        let mut header = [0; size_of::<NetmapRing>()];
        let header = mapping.read(at, &mut header).then(|| NetmapRing::read_from(&header));
        let header =
            header.flatten().ok_or_else(|| protocol_error("a ring outside of its memory"))?;
        let data_start = at.checked_add_signed(header.buf_ofs);
        let data_start = data_start.ok_or_else(|| protocol_error("buffers nowhere"))?;
        let region = mapping.into_region(data_start, header.nr_buf_size)?;
        let none = Geometry { ring_bytes: 1024, bufs: 2, buf_size: 2048 };
        let none = Region::create(none, HugePages::Never)?;
        Ok(NativeEnd::new(self.client, [&region, &none], (client_id, stamps, kick), rings)?)
    }
}

/// Builds the error for a socket without a daemon, or with a daemon that cannot be trusted.
fn connect_error(socket: &Path, source: io::Error) -> OpenCause {
    match TrustError::of(&source) {
        Some(why) => OpenCause::Setting { reason: why.to_string(), help: why.help() },
        None => OpenCause::File { path: socket.display().to_string(), source },
    }
}

/// Builds the error for a refused loan. The usual reason: only one program at a time may sync a
/// ring in its own process.
fn delegation_error(source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EBUSY) => OpenCause::Setting {
            reason: "another program syncs this end of the pipe".into(),
            help: "share it by the device: put kernel: before its name".into(),
        },
        _ => system_error("sync the pipe in this process")(source),
    }
}

fn system_error(what: &'static str) -> impl Fn(io::Error) -> OpenCause {
    move |source| OpenCause::System { what, source }
}

/// Builds the error for an impossible answer of the daemon.
fn protocol_error(what: &str) -> OpenCause {
    system_error("make sense of what the daemon says")(io::Error::new(
        io::ErrorKind::InvalidData,
        what.to_owned(),
    ))
}

/// A [`NativeEnd`] and its counters, as a [`Queue`].
struct NativeQueue {
    name: String,
    end: NativeEnd,
    counters: Arc<QueueCounters>,
}

/// Adds the bytes of a slot, and the packet if it ends there, to the counts.
#[inline(always)]
fn count(sum: &mut TrafficCounts, slot: slipring_ring::Slot) {
    sum.bytes += u64::from(slot.len);
    sum.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
}

impl Queue for NativeQueue {
    fn rings(&mut self) -> RingPair<'_> {
        RingPair { tx: &mut self.end.tx, rx: &mut self.end.rx }
    }

    #[inline]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        let mut sum = TrafficCounts::default();
        let sent = self.end.tx_sync_observed(|ring, from, to| {
            ring.slots(from, to).for_each(|(_, slot)| count(&mut sum, slot));
        });
        sent.map_err(|cause| RunError::new(&self.name, cause))?;
        self.counters.sent(sum);
        Ok(())
    }

    #[inline]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        let mut sum = TrafficCounts::default();
        let received = self.end.rx_sync_observed(|ring, from, to| {
            ring.slots(from, to).for_each(|(_, slot)| count(&mut sum, slot));
        });
        received.map_err(|cause| RunError::new(&self.name, cause))?;
        self.counters.received(sum);
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        let fd = self.end.wake_fd();
        WaitFds { rx: Some(fd), tx: Some(TxWait::Readable(fd)), link: None }
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.end.announce_sleep(interest.rx, interest.tx);
    }

    fn after_sleep(&mut self) {
        self.end.wake();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
