//! Switches of this process: the engine of `slipring-switch` between pipes. The caller provides the
//! clock, and frames move only in a call.
//!
//! ```text
//!   program    PortHandle = master end of a pipe
//!                 | tx sync                               ^ rx sync
//!                 v                                       |
//!   switch     slave end -> burst -> Switch::forward -> slave ends of the destinations
//! ```

mod port;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use slipring_port::{OpenOptions, RunError};
use slipring_ring::RxRing;
use slipring_switch::{
    DeliveryCounts, FrameSlots, SlotMarks, Switch, SwitchBatch, SwitchConfig, SwitchDropReason,
    SwitchPacket, SwitchPortConfig, SwitchPortCounters, SwitchPortId,
};

use crate::error::CallError;
use crate::port::PortHandle;
use crate::structs::{
    SLIPRING_ALL_PORTS, SLIPRING_ERR_DEFECT, SLIPRING_ERR_USAGE, SLIPRING_NEVER, SLIPRING_WAIT_RX,
    SLIPRING_WAIT_TX, SlipringSwitchOptions, SlipringSwitchStats,
};
use port::{AttachedPort, RequestedPort};

/// A switch. In C, it is `struct slipring_switch`.
pub struct SwitchHandle {
    name: String,
    run: Mutex<SwitchRun>,
}

struct SwitchRun {
    engine: Switch,
    ports: BTreeMap<u32, AttachedPort>,
    /// The ports that were closed when the running call of [`forward`] began. They receive nothing.
    leaving: BTreeSet<u32>,
    /// The sums of the counters of detached ports.
    closed: SlipringSwitchStats,
    closed_drops: [u64; SwitchDropReason::ALL.len()],
    /// The events that calls of [`forward`] have recorded for each port, by port number, until the
    /// caller takes them or the port is detached.
    ready: BTreeMap<u32, u32>,
    batch: SwitchBatch,
    burst: SwitchBurst,
}

/// Copies of the complete frames of one ring of a port, which are forwarded together.
#[derive(Default)]
struct SwitchBurst {
    bytes: Vec<u8>,
    frames: Vec<(Range<usize>, SlotMarks)>,
}

/// Creates a switch without ports.
pub(crate) fn create(
    name: &str,
    options: &SlipringSwitchOptions,
) -> Result<SwitchHandle, CallError> {
    if options.flags != 0 {
        return Err(CallError::argument(format!("flags {:#x} of the switch", options.flags)));
    }
    // A name is refused if the names of the switch's ports would not be valid port names.
    RequestedPort::parse(name, "a", &OpenOptions::default())?;
    let defaults = SwitchConfig::default();
    let ageing_ns = match options.ageing_ns {
        0 => defaults.ageing_ns,
        SLIPRING_NEVER => None,
        ageing_ns => Some(ageing_ns),
    };
    let run = SwitchRun {
        engine: Switch::new(SwitchConfig { ageing_ns, ..defaults }),
        ports: BTreeMap::new(),
        leaving: BTreeSet::new(),
        closed: SlipringSwitchStats::default(),
        closed_drops: [0; SwitchDropReason::ALL.len()],
        ready: BTreeMap::new(),
        batch: SwitchBatch::new(),
        burst: SwitchBurst::default(),
    };
    Ok(SwitchHandle { name: name.to_owned(), run: Mutex::new(run) })
}

impl SwitchHandle {
    fn run(&self) -> Result<MutexGuard<'_, SwitchRun>, CallError> {
        self.run.lock().map_err(|_| {
            let what = format!("{} met a defect of libslipring before: free it", self.name);
            CallError::new(SLIPRING_ERR_DEFECT, what)
        })
    }
}

/// Opens a port of the switch. Returns it with its number.
pub(crate) fn open(
    switch: &SwitchHandle,
    port: &str,
    options: &OpenOptions,
) -> Result<(PortHandle, u32), CallError> {
    let requested = RequestedPort::parse(&switch.name, port, options)?;
    let mut run = switch.run()?;
    // A closed port stays until the next call of `forward`, which takes its frames, but its name
    // can be used again immediately.
    if run.ports.values().any(|one| one.name == requested.name && !one.is_closed()) {
        let taken = format!("{} is open already", requested.name);
        let mut error = CallError::new(SLIPRING_ERR_USAGE, taken);
        error.help = "close it, or choose another name".into();
        return Err(error);
    }
    let (port, attached) = requested.open()?;
    let config = SwitchPortConfig { rings: attached.queues(), ..SwitchPortConfig::default() };
    let number = run.engine.attach(config).map_err(|error| {
        CallError::new(SLIPRING_ERR_USAGE, format!("{}: {error}", attached.name))
    })?;
    run.ports.insert(number.0, attached);
    Ok((PortHandle::new(port)?, number.0))
}

/// Takes the frames that all ports have sent, and delivers them. Returns the number of frames that
/// were taken. Ports that were closed before the call are detached; a port that another thread
/// closes during the call is detached by the next call.
pub(crate) fn forward(switch: &SwitchHandle, now_ns: u64) -> Result<c_int, CallError> {
    let mut run = switch.run()?;
    run.find_closed();
    let numbers: Vec<u32> = run.ports.keys().copied().collect();
    let mut taken = 0usize;
    for number in numbers {
        for ring in 0..run.ports[&number].queues() {
            taken += run.forward_ring(now_ns, number, ring)?;
        }
    }
    run.detach_closed();
    Ok(c_int::try_from(taken).unwrap_or(c_int::MAX))
}

/// Removes the events that calls of [`forward`] have recorded for the port with the lowest number.
/// Returns this number and the events; `None` if no port has any.
pub(crate) fn take_ready(switch: &SwitchHandle) -> Result<Option<(u32, u32)>, CallError> {
    Ok(switch.run()?.ready.pop_first())
}

/// Returns the counters of a port, or the sums of the counters of all ports that the switch has
/// ever had.
pub(crate) fn stats(switch: &SwitchHandle, number: u32) -> Result<SlipringSwitchStats, CallError> {
    let run = switch.run()?;
    if number != SLIPRING_ALL_PORTS {
        return Ok(c_stats(run.counters(number)?));
    }
    let mut sum = run.closed;
    for &number in run.ports.keys() {
        add(&mut sum, &c_stats(run.counters(number)?));
    }
    Ok(sum)
}

fn reason(number: u32) -> Result<SwitchDropReason, CallError> {
    let reason = SwitchDropReason::ALL.get(number as usize).copied();
    reason.ok_or_else(|| CallError::argument(format!("there is no drop reason {number}")))
}

/// Returns how many frames a port, or the switch, has dropped for a reason.
pub(crate) fn dropped(
    switch: &SwitchHandle,
    number: u32,
    reason_number: u32,
) -> Result<u64, CallError> {
    let (run, reason) = (switch.run()?, reason(reason_number)?);
    if number != SLIPRING_ALL_PORTS {
        return Ok(run.counters(number)?.dropped(reason));
    }
    let counters = run.ports.keys().map(|&number| run.counters(number));
    let open = counters.map(|counters| Ok(counters?.dropped(reason)));
    Ok(open.sum::<Result<u64, CallError>>()? + run.closed_drops[reason as usize])
}

/// Returns the name of a reason.
pub(crate) fn drop_name(number: u32) -> Result<&'static str, CallError> {
    reason(number).map(SwitchDropReason::name)
}

fn c_stats(seen: &SwitchPortCounters) -> SlipringSwitchStats {
    SlipringSwitchStats {
        size: 0,
        reserved: 0,
        rx_packets: seen.rx.packets,
        rx_bytes: seen.rx.bytes,
        tx_packets: seen.tx.packets,
        tx_bytes: seen.tx.bytes,
        flooded_packets: seen.flooded,
        copied_packets: seen.copies,
        dropped_packets: seen.drops().map(|(_, count)| count).sum(),
        learned_addresses: seen.learned,
        moved_addresses: seen.moved,
    }
}

fn add(sum: &mut SlipringSwitchStats, other: &SlipringSwitchStats) {
    sum.rx_packets += other.rx_packets;
    sum.rx_bytes += other.rx_bytes;
    sum.tx_packets += other.tx_packets;
    sum.tx_bytes += other.tx_bytes;
    sum.flooded_packets += other.flooded_packets;
    sum.copied_packets += other.copied_packets;
    sum.dropped_packets += other.dropped_packets;
    sum.learned_addresses += other.learned_addresses;
    sum.moved_addresses += other.moved_addresses;
}

impl SwitchRun {
    fn counters(&self, number: u32) -> Result<&SwitchPortCounters, CallError> {
        let counters = self.engine.counters(SwitchPortId(number));
        counters.ok_or_else(|| CallError::argument(format!("the switch has no port {number}")))
    }

    /// Forwards the frames that a port has sent on one ring. Returns their number.
    fn forward_ring(&mut self, now_ns: u64, number: u32, ring: u32) -> Result<usize, RunError> {
        let Some(source) = self.ports.get_mut(&number) else { return Ok(0) };
        let queue = &mut source.switch_side.queues[ring as usize];
        queue.rx_sync()?;
        let slots = self.burst.load(queue.rings().rx);
        let endless = self.burst.frames.is_empty() && slots > 0;
        queue.rings().rx.advance(slots);
        // This gives the slots back to the source, which can use them again.
        queue.rx_sync()?;
        if slots > 0 {
            *self.ready.entry(number).or_default() |= SLIPRING_WAIT_TX;
        }
        let source = SwitchPortId(number);
        if endless {
            self.engine.refuse(source, SwitchDropReason::TooLong, 1);
            return Ok(1);
        }
        self.engine.forward(now_ns, source, ring, self.burst.packets(), &mut self.batch);
        for i in 0..self.batch.len() {
            let delivered = self.deliver(i)?;
            self.batch.report(i, delivered);
        }
        self.engine.settle(&mut self.batch);
        Ok(self.burst.frames.len())
    }

    /// Copies the frames for one destination of the batch to its ring. Returns how many of them
    /// were delivered; the switch counts all others as dropped, such as those for a closed port.
    fn deliver(&mut self, index: usize) -> Result<DeliveryCounts, RunError> {
        let destination = self.batch.destination(index);
        let (number, ring) = (destination.port().0, destination.ring() as usize);
        let mut delivered = DeliveryCounts::default();
        if self.leaving.contains(&number) {
            return Ok(delivered);
        }
        let Some(port) = self.ports.get_mut(&number) else { return Ok(delivered) };
        let queue = &mut port.switch_side.queues[ring];
        // Frees the slots of frames that the program has received.
        queue.tx_sync()?;
        for copy in destination.copies() {
            let (bytes, _) = &self.burst.frames[copy.slots.first as usize];
            if queue.rings().tx.push(&self.burst.bytes[bytes.clone()]) {
                delivered.packets += 1;
                delivered.bytes += u64::from(copy.len);
            }
        }
        queue.tx_sync()?;
        port.count_full(ring, u64::from(destination.packets() - delivered.packets));
        if delivered.packets > 0 {
            *self.ready.entry(number).or_default() |= SLIPRING_WAIT_RX;
        }
        Ok(delivered)
    }

    /// Notes which ports the program has closed.
    fn find_closed(&mut self) {
        let closed = |(&number, port): (&u32, &AttachedPort)| port.is_closed().then_some(number);
        self.leaving = self.ports.iter().filter_map(closed).collect();
    }

    /// Detaches the ports that [`Self::find_closed`] has found. Their frames have been forwarded.
    fn detach_closed(&mut self) {
        for number in std::mem::take(&mut self.leaving) {
            self.ports.remove(&number);
            self.ready.remove(&number);
            let Some(counters) = self.engine.detach(SwitchPortId(number)) else { continue };
            add(&mut self.closed, &c_stats(&counters));
            for (reason, count) in counters.drops() {
                self.closed_drops[reason as usize] += count;
            }
        }
    }
}

impl SwitchBurst {
    /// Copies the complete frames of a ring. Returns how many slots they have. If all slots of a
    /// full ring belong to one frame, whose end can never arrive, copies no frame and returns the
    /// number of all slots.
    fn load(&mut self, ring: &mut RxRing) -> u32 {
        self.bytes.clear();
        self.frames.clear();
        let arrived = ring.avail();
        let whole = ring.whole_packets(arrived);
        let (mut start, mut first_flags) = (0, None);
        for i in 0..whole {
            let Some(slot) = ring.frame(i) else { break };
            let is_single = first_flags.is_none();
            let flags = *first_flags.get_or_insert(slot.flags);
            self.bytes.extend_from_slice(slot.bytes);
            if !slot.more() {
                self.frames.push((start..self.bytes.len(), port::marks(flags, is_single)));
                (start, first_flags) = (self.bytes.len(), None);
            }
        }
        if whole == 0 && arrived + 1 == ring.num_slots() { arrived } else { whole }
    }

    /// Returns the frames in the form that the engine reads. Each frame counts as one slot, whose
    /// number is the frame's index in the burst.
    fn packets(&self) -> impl Iterator<Item = SwitchPacket<'_>> {
        (0..).zip(&self.frames).map(|(first, (bytes, marks))| SwitchPacket {
            header: &self.bytes[bytes.clone()],
            len: bytes.len() as u32,
            slots: FrameSlots { first, count: 1 },
            marks: *marks,
        })
    }
}
