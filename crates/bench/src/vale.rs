//! The switch of `/dev/netmap`, but without the device. Its ports belong to threads of this
//! process, so the figures show only the switching. As with `pkt-gen`, frames are written once and
//! are sent unchanged, except that with several addresses the destination of each frame is written.
//! The receiver does not read the frames.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_abi::{
    NETMAP_IF_RING_OFS, NIOCREGIF, NIOCRXSYNC, NIOCTXSYNC, NR_REG_ALL_NIC, NetmapRing, Nmreq,
    PlainData,
};
use slipring_netmap::switch::SwitchPortConfig;
use slipring_netmap::{
    Adapter, AdapterRequest, CallerMemory, Domain, Errno, MemoryParams, Netmap, Notify, OpenHandle,
    Opener, Provider,
};
use slipring_ring::{DeviceMapping, RxRing, TxRing};

use super::measure::{
    BenchError, BenchReading, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin, tally, thread_cpu,
};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::{memory, testpmd};

const MEMCPY_NAME: &str = "memcpy";
const ONE_ADDRESS_NAME: &str = "one address";
const NO_OTHERS_NAME: &str = "no other ports";
/// Maximum number of frames per batch. It is less than half a ring, because a receiver returns the
/// slots of received frames with its next sync.
const MAX_BATCH: u32 = 256;
const NUM_FLOODED: u8 = 16;
const NUM_OTHER_PORTS: u32 = 238;
const NUM_ADDRESSES: u32 = 10_000;

/// Returns all rows of the switch.
pub(crate) fn rows() -> Vec<BenchRow> {
    vec![
        with_floor::<64>("vale-1t", "1 thread", || {
            Ok(one_thread::<64>(SwitchBench::new(1, 0)?, 1))
        })
        .goal(GoalMetric::Value, 20e6),
        with_floor::<1500>("vale-1t", "1 thread", || {
            Ok(one_thread::<1500>(SwitchBench::new(1, 0)?, 1))
        })
        .goal(GoalMetric::RatioTo(MEMCPY_NAME), 0.8),
        with_floor::<64>("vale-2t", "sender and receiver", two_threads::<64>)
            .with(ContenderRole::Peer, testpmd::MEMIF_NAME, || testpmd::memif(64, 256))
            .goal(GoalMetric::Value, 20e6)
            .goal(GoalMetric::RatioTo(testpmd::MEMIF_NAME), 1.5),
        with_floor::<1500>("vale-2t", "sender and receiver", two_threads::<1500>).with(
            ContenderRole::Peer,
            testpmd::MEMIF_NAME,
            || testpmd::memif(1500, 256),
        ),
        flood(),
        addresses(),
    ]
}

fn with_floor<const N: usize>(
    id: &str,
    name: &str,
    start: impl FnOnce() -> Result<BenchRound, BenchError> + 'static,
) -> BenchRow {
    BenchRow::new(format!("{id}-{N}"), format!("switch, {name}, {N} B"), RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", start)
        .with(ContenderRole::Floor, MEMCPY_NAME, memory::copies::<N>)
}

/// Returns the row in which frames are copied to 16 ports. The other ports of the first contender
/// must not get these frames.
fn flood() -> BenchRow {
    let title =
        format!("switch, flood to {NUM_FLOODED} of {} ports, 64 B, copies", NUM_OTHER_PORTS + 17);
    BenchRow::new("vale-flood-64", title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", || {
            Ok(one_thread::<64>(SwitchBench::new(NUM_FLOODED, NUM_OTHER_PORTS)?, 0))
        })
        .with(ContenderRole::Floor, NO_OTHERS_NAME, || {
            Ok(one_thread::<64>(SwitchBench::new(NUM_FLOODED, 0)?, 0))
        })
        .goal(GoalMetric::RatioTo(NO_OTHERS_NAME), 0.95)
}

fn addresses() -> BenchRow {
    let title = format!("switch, 1 thread, 64 B, {NUM_ADDRESSES} addresses");
    let start = |count| {
        let mut yard = SwitchBench::new(1, 0)?;
        yard.learn_addresses(count)?;
        Ok(one_thread::<64>(yard, count))
    };
    BenchRow::new("vale-addresses-64", title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || start(NUM_ADDRESSES))
        .with(ContenderRole::Floor, ONE_ADDRESS_NAME, move || start(1))
        .goal(GoalMetric::RatioTo(ONE_ADDRESS_NAME), 0.95)
}

/// Measures a switch whose sender's thread also does the work of the receivers.
fn one_thread<const N: usize>(mut yard: SwitchBench, addresses: u32) -> BenchRound {
    Box::new(move |time| {
        let SwitchBench { netmap, sender, receivers, .. } = &mut yard;
        let mut next = AddressSequence::new(addresses);
        sender.prepare::<N>(netmap, next.next())?;
        let counted = on_cpu(PROGRAM_CPU, || {
            tally(time, || {
                sender.send(netmap, &mut next, N)?;
                receivers.iter_mut().map(|one| one.receive(netmap)).sum::<Result<u64, BenchError>>()
            })
        });
        Ok(counted?.into())
    })
}

/// Measures a switch whose sender's thread does the switching, as in netmap. Another thread
/// receives.
fn two_threads<const N: usize>() -> Result<BenchRound, BenchError> {
    let mut yard = SwitchBench::new(1, 0)?;
    Ok(Box::new(move |time| {
        let SwitchBench { netmap, sender, receivers, .. } = &mut yard;
        let (netmap, stop) = (&*netmap, AtomicBool::new(false));
        sender.prepare::<N>(netmap, 0)?;
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                pin(FEEDER_CPU);
                sender.send_until(netmap, &stop)
            });
            let received = on_cpu(PROGRAM_CPU, || receivers[0].receive_for(netmap, time));
            stop.store(true, Ordering::Relaxed);
            let cpu = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let received = received?;
            Ok(BenchReading::from(BenchTally { cpu: received.cpu + cpu, ..received }))
        })
    }))
}

/// A switch with a sender and its receivers.
struct SwitchBench {
    netmap: Netmap,
    sender: SwitchClient,
    receivers: Vec<SwitchClient>,
    _others: Vec<OpenHandle>,
}

impl SwitchBench {
    /// Creates a switch. It also has `others` ports that no frame of the sender may reach.
    fn new(receivers: u8, others: u32) -> Result<Self, BenchError> {
        let netmap = Netmap::new(Box::new(NoProvider));
        let domain = Domain::new(0, MemoryParams::default())?;
        let sender = SwitchClient::new(&netmap, &domain, "vale0:sender")?;
        let receiver = |i| SwitchClient::new(&netmap, &domain, &format!("vale0:r{i}"));
        let receivers = (0..receivers).map(receiver).collect::<Result<Vec<_>, _>>()?;
        let other = |i| Ok(bind(&netmap, &domain, &format!("vale0:o{i}"))?.0);
        let others = (0..others).map(other).collect::<Result<Vec<_>, BenchError>>()?;
        isolate_sender(&domain)?;
        let mut yard = Self { netmap, sender, receivers, _others: others };
        if yard.receivers.len() == 1 {
            yard.learn_addresses(1)?;
        }
        Ok(yard)
    }

    /// Makes the first receiver send from `count` different addresses. The switch learns them.
    fn learn_addresses(&mut self, count: u32) -> Result<(), BenchError> {
        let Self { netmap, sender, receivers, .. } = self;
        for address in 0..count {
            while !receivers[0].tx.push(&frame::<64>(UNKNOWN_STATION, address)) {
                receivers[0].sync(netmap, NIOCTXSYNC)?;
                sender.receive(netmap)?;
            }
        }
        receivers[0].sync(netmap, NIOCTXSYNC)?;
        sender.receive(netmap)?;
        Ok(())
    }
}

/// Isolates the sender from the ports that are not receivers.
fn isolate_sender(domain: &Domain) -> Result<(), BenchError> {
    domain.with_switch(NETNS_ID, "vale0", |engine, _, ports| {
        for (id, name) in ports {
            let is_isolated = name.starts_with("vale0:o") || name == "vale0:sender";
            let config = engine.port(*id).cloned().unwrap_or_default();
            engine
                .reconfigure(*id, SwitchPortConfig { is_isolated, ..config })
                .map_err(|error| BenchError::Failed(error.to_string()))?;
        }
        Ok(())
    })?
}

const NETNS_ID: u64 = 1;
/// The station number of the sender. The switch does not know it until the sender has sent.
const UNKNOWN_STATION: u32 = u32::MAX >> 8;

/// A client with a port of the switch.
struct SwitchClient {
    open: OpenHandle,
    tx: TxRing,
    rx: RxRing,
}

impl SwitchClient {
    fn new(netmap: &Netmap, domain: &Arc<Domain>, name: &str) -> Result<Self, BenchError> {
        let (open, at) = bind(netmap, domain, name)?;
        let file = domain.file().try_clone_to_owned()?;
        let mapping = DeviceMapping::new(file, domain.params().domain_bytes)?;
        let rings = [0, 2].map(|index| ring(&mapping, at, index));
        let [Some((tx, of_tx)), Some((rx, of_rx))] = rings else {
            return Err(BenchError::Failed("a port without rings".to_owned()));
        };
        let data_start = tx.wrapping_add_signed(of_tx.buf_ofs);
        let region = mapping.into_region(data_start, of_tx.nr_buf_size)?;
        let tx = TxRing::attach(&region, tx, of_tx.num_slots)?;
        let rx = RxRing::attach(&region, rx, of_rx.num_slots)?;
        Ok(Self { open, tx, rx })
    }

    fn sync(&self, netmap: &Netmap, cmd: u32) -> Result<(), BenchError> {
        netmap.ioctl(&self.open, cmd, &mut [], &mut NoMemoryCaller)?;
        Ok(())
    }

    /// Writes a frame to the buffer of every slot, and sends the frames.
    fn prepare<const N: usize>(&mut self, netmap: &Netmap, to: u32) -> Result<(), BenchError> {
        for _ in 0..2 {
            while self.tx.push(&frame::<N>(to, UNKNOWN_STATION)) {}
            self.sync(netmap, NIOCTXSYNC)?;
        }
        Ok(())
    }

    /// Sends a batch of buffers as they are. If there are several addresses, first writes the next
    /// one to each frame as its destination.
    #[inline(always)]
    fn send(
        &mut self,
        netmap: &Netmap,
        to: &mut AddressSequence,
        len: usize,
    ) -> Result<(), BenchError> {
        if to.count > 1 {
            self.tx.fill_by_value(MAX_BATCH, |buf| {
                buf.write(0, mac(to.next()));
                len
            });
        } else {
            let count = self.tx.avail().min(MAX_BATCH);
            self.tx.advance(count);
        }
        self.sync(netmap, NIOCTXSYNC)
    }

    /// Sends until `stop` is set. Returns the CPU time that this took, in nanoseconds.
    #[inline(never)]
    fn send_until(&mut self, netmap: &Netmap, stop: &AtomicBool) -> Result<u64, BenchError> {
        let (cpu, mut to) = (thread_cpu(), AddressSequence::new(1));
        while !stop.load(Ordering::Relaxed) {
            self.send(netmap, &mut to, 0)?;
        }
        Ok(thread_cpu() - cpu)
    }

    /// Receives the frames that have arrived. Returns their number.
    #[inline(always)]
    fn receive(&mut self, netmap: &Netmap) -> Result<u64, BenchError> {
        self.sync(netmap, NIOCRXSYNC)?;
        let count = self.rx.avail();
        self.rx.advance(count);
        Ok(u64::from(count))
    }

    #[inline(never)]
    fn receive_for(&mut self, netmap: &Netmap, time: Duration) -> Result<BenchTally, BenchError> {
        tally(time, || {
            let count = self.receive(netmap)?;
            if count == 0 {
                spin_loop();
            }
            Ok(count)
        })
    }
}

/// Opens and binds a port; returns the open and the offset of the port's `netmap_if`.
fn bind(
    netmap: &Netmap,
    domain: &Arc<Domain>,
    name: &str,
) -> Result<(OpenHandle, u64), BenchError> {
    let opener = Opener { netns: NETNS_ID, netns_fd: None, gids: Vec::new() };
    let open = netmap.open(domain.clone(), opener, Arc::new(NoProvider));
    let mut request = Nmreq { nr_version: 14, nr_flags: NR_REG_ALL_NIC, ..Nmreq::default() };
    request.nr_name[..name.len()].copy_from_slice(name.as_bytes());
    let mut arg = vec![0; Nmreq::SIZE];
    request.write_to(&mut arg);
    netmap.ioctl(&open, NIOCREGIF, &mut arg, &mut NoMemoryCaller)?;
    let got = Nmreq::read_from(&arg).ok_or_else(|| BenchError::Failed("no answer".to_owned()))?;
    Ok((open, got.nr_offset.into()))
}

/// Returns the offset and the header of the ring at `index` in the table of the `netmap_if` at
/// `at`; `None` if they cannot be read.
fn ring(mapping: &DeviceMapping, at: u64, index: u64) -> Option<(u64, NetmapRing)> {
    let mut offset = [0; 8];
    let mut header = [0; NetmapRing::SIZE];
    let found = mapping.read(at + NETMAP_IF_RING_OFS as u64 + 8 * index, &mut offset);
    let ring = at.wrapping_add_signed(i64::from_ne_bytes(offset));
    let read = found && mapping.read(ring, &mut header);
    read.then(|| NetmapRing::read_from(&header)).flatten().map(|header| (ring, header))
}

/// The addresses of the receiver, in an order that caches cannot predict: it is made from the bits
/// of a counter times an odd constant. If there are no addresses, frames are broadcast.
struct AddressSequence {
    count: u32,
    drawn: u32,
}

const BROADCAST_STATION: u32 = u32::MAX;

impl AddressSequence {
    fn new(count: u32) -> Self {
        Self { count, drawn: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> u32 {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9);
        match self.count {
            0 => BROADCAST_STATION,
            count => ((u64::from(self.drawn) * u64::from(count)) >> 32) as u32,
        }
    }
}

/// Builds a frame with these addresses.
#[inline(always)]
fn frame<const N: usize>(to: u32, from: u32) -> [u8; N] {
    let mut bytes = [0x55; N];
    bytes[..6].copy_from_slice(&mac(to));
    bytes[6..12].copy_from_slice(&mac(from));
    bytes
}

#[inline(always)]
fn mac(number: u32) -> [u8; 6] {
    if number == BROADCAST_STATION {
        return [0xff; 6];
    }
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// A provider without adapters of its own, so that a program can only open switch ports. No client
/// sleeps, so there is nothing to notify.
#[derive(Debug)]
struct NoProvider;

impl Provider for NoProvider {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

impl Notify for NoProvider {
    fn notify(&self, _: u64) {}
}

/// The memory of a caller. It cannot be accessed, and the requests of netmap's old API do not need
/// it.
struct NoMemoryCaller;

impl CallerMemory for NoMemoryCaller {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_were_taught() {
        let mut all = AddressSequence::new(100);
        assert!((0..10_000).all(|_| all.next() < 100));
        assert_eq!(AddressSequence::new(0).next(), BROADCAST_STATION);
    }

    #[test]
    fn what_is_sent_to_a_taught_address_reaches_its_station_alone() {
        let mut yard = SwitchBench::new(2, 1).unwrap();
        yard.learn_addresses(10).unwrap();
        let SwitchBench { netmap, sender, receivers, .. } = &mut yard;
        sender.prepare::<64>(netmap, BROADCAST_STATION).unwrap();
        for receiver in &mut *receivers {
            while receiver.receive(netmap).unwrap() > 0 {}
        }
        sender.send(netmap, &mut AddressSequence::new(10), 64).unwrap();
        let got: Vec<_> = receivers.iter_mut().map(|one| one.receive(netmap).unwrap()).collect();
        assert_eq!(got, [u64::from(MAX_BATCH), 0]);
    }
}
