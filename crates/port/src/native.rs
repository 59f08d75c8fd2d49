//! A pipe of the daemon by its native door: an end that is synced in this process, while its other
//! end is in any other, whichever way that came.
//!
//! ```text
//!   connect --> REGISTER --> memory, mapped --> rings lent: rings, words, bells
//!                                                 tx_sync, rx_sync: no call leaves this process,
//!                                                 unless somebody sleeps
//! ```
//! A pipe with several rings has a connection per ring pair, so that each queue can have a thread
//! of its own. Dropping a connection gives back everything.
//!
//! Not for: pipes of this process alone (`pipe.rs`); ends that several programs share, which are
//! reached by the device (`kernel.rs`).

mod end;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_abi::name::{PortName, Rings};
use slipring_abi::{NetmapRing, NmreqRegister, Plain};
use slipring_proto::trust::Untrusted;
use slipring_proto::{Client, Lent, SOCKET};
use slipring_ring::{Geometry, HugePages, Mapping, Region, SlotFlags};

use crate::error::{OpenCause, RunError};
use crate::info::{Caps, Mode, PortInfo};
use crate::port::Port;
use crate::queue::{Interest, Queue, Rings as RingPair, TxWait, WaitFds};
use crate::stats::{Counters, Traffic};

pub use end::NativeEnd;

/// Most slots over which a packet may go, as netmap has it.
const MAX_FRAGMENTS: u32 = 64;

/// The door of a daemon that has this run directory.
#[must_use]
pub fn door(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET)
}

/// Whether a daemon listens at the door `socket`; one that does may still refuse.
#[must_use]
pub fn is_served(socket: &Path) -> bool {
    match Client::connect(socket) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
    }
}

/// Opens an end of a pipe at the door `socket`.
///
/// # Errors
/// [`OpenCause`]: there is no daemon, it refuses, or somebody else syncs a ring of this end.
pub fn open(shown: &str, name: &PortName, socket: &Path) -> Result<Port, OpenCause> {
    let ends = ends(name, socket)?;
    let slots = ends.iter().map(|end| end.tx.num_slots().max(end.rx.num_slots())).max();
    let max_slot = ends.iter().map(|end| end.tx.region().buf_size()).max().unwrap_or(0);
    let mode = Mode::new().with("mode", "swap").with("door", socket.display());
    let info = PortInfo {
        name: shown.to_owned(),
        kind: "native",
        mode: mode.with("queues", ends.len()).with("slots", slots.unwrap_or(0)),
        caps: Caps {
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

/// The ends of a pipe's ring pairs.
///
/// # Errors
/// As [`open`].
pub fn ends(name: &PortName, socket: &Path) -> Result<Vec<NativeEnd>, OpenCause> {
    let first = Bound::new(name, socket)?;
    let pairs = first.granted.nr_tx_rings.max(first.granted.nr_rx_rings);
    if name.rings != Rings::All || pairs <= 1 {
        return Ok(vec![first.lent()?]);
    }
    // An exclusive bind of all rings would be in the way of one per ring; what it made stays
    // while the first of those is there.
    let mut single = name.clone();
    let mut bind = |rings| {
        single.rings = rings;
        Bound::new(&single, socket)?.lent()
    };
    drop(first);
    (0..pairs).map(|ring| bind(Rings::One(ring))).collect()
}

/// A connection that has bound its rings.
struct Bound {
    client: Client,
    granted: NmreqRegister,
}

impl Bound {
    fn new(name: &PortName, socket: &Path) -> Result<Self, OpenCause> {
        let client = Client::connect(socket).map_err(|source| unreached(socket, source))?;
        let header = name.to_header().ok_or_else(|| nonsense("a port without a name"))?;
        let granted = client.register(&header, &name.to_register());
        let granted = granted.map_err(system("bind a pipe of the daemon"))?;
        Ok(Self { client, granted })
    }

    /// Takes over the first ring each way.
    fn lent(self) -> Result<NativeEnd, OpenCause> {
        let (file, bytes) = self.client.memory().map_err(system("get the daemon's memory"))?;
        let Lent { who, stamps, kick, rings } = self.client.lend().map_err(not_lent)?;
        let mapping = Mapping::new(file, bytes.min(self.granted.nr_memsize))?;
        let first = rings.first().ok_or_else(|| nonsense("no ring at all"))?;
        let at = if first.receives { first.place.rx } else { first.place.tx };
        let mut header = [0; size_of::<NetmapRing>()];
        let header = mapping.read(at, &mut header).then(|| NetmapRing::read_from(&header));
        let header = header.flatten().ok_or_else(|| nonsense("a ring outside of its memory"))?;
        let data_start = at.checked_add_signed(header.buf_ofs);
        let data_start = data_start.ok_or_else(|| nonsense("buffers nowhere"))?;
        let region = mapping.into_region(data_start, header.nr_buf_size)?;
        let none = Geometry { ring_bytes: 1024, bufs: 2, buf_size: 2048 };
        let none = Region::create(none, HugePages::Never)?;
        Ok(NativeEnd::new(self.client, [&region, &none], (who, stamps, kick), rings)?)
    }
}

/// No daemon, or none that is believed.
fn unreached(socket: &Path, source: io::Error) -> OpenCause {
    match Untrusted::of(&source) {
        Some(why) => OpenCause::Setting { reason: why.to_string(), help: why.help() },
        None => OpenCause::File { path: socket.display().to_string(), source },
    }
}

/// One program at a time syncs a ring itself.
fn not_lent(source: io::Error) -> OpenCause {
    match source.raw_os_error() {
        Some(libc::EBUSY) => OpenCause::Setting {
            reason: "another program syncs this end of the pipe".into(),
            help: "share it by the device: put kernel: before its name".into(),
        },
        _ => system("sync the pipe in this process")(source),
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> OpenCause {
    move |source| OpenCause::System { what, source }
}

/// The daemon said what cannot be.
fn nonsense(what: &str) -> OpenCause {
    system("make sense of what the daemon says")(io::Error::new(
        io::ErrorKind::InvalidData,
        what.to_owned(),
    ))
}

/// A [`NativeEnd`] that counts.
struct NativeQueue {
    name: String,
    end: NativeEnd,
    counters: Arc<Counters>,
}

/// Adds a slot to what passes.
#[inline(always)]
fn count(sum: &mut Traffic, slot: slipring_ring::Slot) {
    sum.bytes += u64::from(slot.len);
    sum.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
}

impl Queue for NativeQueue {
    fn rings(&mut self) -> RingPair<'_> {
        RingPair { tx: &mut self.end.tx, rx: &mut self.end.rx }
    }

    #[inline]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        let mut sum = Traffic::default();
        let sent = self.end.tx_sync_shown(|ring, from, to| {
            ring.slots(from, to).for_each(|(_, slot)| count(&mut sum, slot));
        });
        sent.map_err(|cause| RunError::new(&self.name, cause))?;
        self.counters.sent(sum);
        Ok(())
    }

    #[inline]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        let mut sum = Traffic::default();
        let received = self.end.rx_sync_shown(|ring, from, to| {
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

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
