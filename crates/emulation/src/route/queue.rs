//! A queue of a port with the router in front of it: the [`GatewayPort`] decides which frames pass
//! between the program and the port.
//!
//! ```text
//!   program  <- front rx <- GatewayPort::receive <- inner rx  <- port
//!            -> front tx -> GatewayPort::send    -> inner tx  ->
//!                              own frames ----^  requests, replies, frames that have waited
//! ```
//! Received frames keep their buffers; sent frames are copied. All queues of a port share one
//! [`GatewayPort`], called gate here. Only the first queue sends the gate's own frames, so that
//! they stay in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_gateway::{GatewayDropReason, GatewayPort, GatewayVerdict};
use slipring_port::{
    DropCause, Interest, Nanos, OpenError, Queue, QueueCounters, QueueRings, RunError, WaitFds, now,
};
use slipring_ring::{KernRing, RingHalves, RxRing, SlotFlags, SyncFault, TxRing};

use slipring_datapath::slots;

/// Number of ring pairs that a routed queue needs in addition to the port's own: the rings that the
/// program sees.
pub(crate) const RING_LAYERS: u32 = 1;
/// How often sending is retried, in ns, if the port has no space for the gate's own frames.
const RETRY_NS: Nanos = 50_000;

/// A gate, shared by the queues of a port.
pub(super) type SharedGateway = Arc<Mutex<GatewayPort>>;

/// A port's queue with a gate in front of it.
pub(super) struct GatewayQueue {
    name: String,
    gate: SharedGateway,
    /// Whether this queue sends the gate's own frames.
    sends_own_frames: bool,
    inner: Box<dyn Queue>,
    counters: Arc<QueueCounters>,
    tx: TxRing,
    tx_kern: KernRing,
    rx: RxRing,
    rx_kern: KernRing,
    scratch: Vec<u8>,
}

impl GatewayQueue {
    /// Puts a gate in front of queue `index` of port `name`.
    pub(super) fn new(
        name: &str,
        index: u64,
        mut inner: Box<dyn Queue>,
        gate: SharedGateway,
    ) -> Result<Self, OpenError> {
        let rings = inner.rings();
        let region = rings.rx.region().clone();
        let (tx_slots, rx_slots) = (rings.tx.num_slots().max(2), rings.rx.num_slots().max(2));
        let refused = |error| OpenError::new(name, error);
        let tx = RingHalves::create(&region, index as u16, tx_slots).map_err(refused)?;
        let rx = RingHalves::create(&region, index as u16, rx_slots).map_err(refused)?;
        Ok(Self {
            name: name.to_owned(),
            gate,
            sends_own_frames: index == 0,
            counters: inner.counters().clone(),
            inner,
            tx: tx.app,
            tx_kern: tx.kern,
            rx: rx.app,
            rx_kern: rx.kern,
            scratch: Vec::new(),
        })
    }

    /// Passes received frames through the gate to the program's rx ring, as long as this has space.
    fn receive(&mut self, gate: &mut GatewayPort, time: Nanos) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| sync_error(&self.name, fault))?;
        self.rx_kern.complete_to(head);
        let inner = self.inner.rings().rx;
        while let Some(slots) = packet_slots(inner)
            && slots <= self.rx_kern.free_slots()
        {
            match gate.receive(slots::bytes(inner, 0, slots, &mut self.scratch), time) {
                GatewayVerdict::Pass => move_packet(inner, &mut self.rx_kern, slots),
                GatewayVerdict::Consumed => {}
                GatewayVerdict::Drop(refusal) => self.counters.dropped(cause(refusal), 1),
            }
            inner.advance(slots);
        }
        Ok(())
    }

    /// Passes the program's frames through the gate to the port, as long as the port has space. The
    /// gate sets their MAC addresses.
    fn transmit(&mut self, gate: &mut GatewayPort, time: Nanos) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| sync_error(&self.name, fault))?;
        let mut at = self.tx_kern.hwcur();
        while at != head && self.send_gate_frames(gate) {
            let end = self.gather(at, head);
            let slots = self.tx_kern.pending(end) - self.tx_kern.pending(at);
            if self.inner.rings().tx.avail() < slots {
                break;
            }
            let verdict = gate.send(&mut self.scratch, time);
            // `push` cannot fail, because the space was checked above.
            if verdict == GatewayVerdict::Pass && !self.inner.rings().tx.push(&self.scratch) {
                self.counters.dropped(DropCause::TxRefused, 1);
            }
            if let GatewayVerdict::Drop(refusal) = verdict {
                self.counters.dropped(cause(refusal), 1);
            }
            // An ARP or neighbour request must leave before later frames that depend on its answer.
            self.send_gate_frames(gate);
            at = end;
        }
        self.tx_kern.complete_to(at);
        self.tx_kern.set_tail(self.tx_kern.prev(at));
        Ok(())
    }

    /// Copies the packet at `at` to the scratch buffer. Returns the slot after the packet.
    fn gather(&mut self, mut at: u32, head: u32) -> u32 {
        self.scratch.clear();
        while at != head {
            let slot = self.tx_kern.slot(at);
            self.tx_kern.bytes(at).append_to(&mut self.scratch);
            at = self.tx_kern.next(at);
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                break;
            }
        }
        at
    }

    /// Sends the gate's own frames, and counts frames whose next hop did not answer. Returns
    /// whether all of the gate's frames were sent. Does nothing and returns true in a queue that
    /// does not send them.
    fn send_gate_frames(&mut self, gate: &mut GatewayPort) -> bool {
        if !self.sends_own_frames {
            return true;
        }
        let (tx, mut sent_all) = (self.inner.rings().tx, true);
        while let Some(frame) = gate.pop() {
            if !tx.push(&frame) {
                gate.requeue(frame);
                sent_all = false;
                break;
            }
        }
        let unresolved = gate.take_unresolved();
        if unresolved > 0 {
            self.counters.dropped(DropCause::RouteUnresolved, unresolved);
        }
        sent_all
    }
}

/// Locks the gate. A panic of another thread does not matter, because the state is always
/// consistent.
fn lock(gate: &SharedGateway) -> MutexGuard<'_, GatewayPort> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sync_error(name: &str, fault: impl Into<SyncFault>) -> RunError {
    RunError::new(name, fault.into())
}

/// Returns the number of slots of the first packet on a ring, if it is complete.
fn packet_slots(ring: &mut RxRing) -> Option<u32> {
    let waiting = ring.avail();
    let ends = |i: &u32| ring.slot(*i).is_some_and(|slot| !slot.flags.has(SlotFlags::MOREFRAG));
    (0..waiting).find(ends).map(|last| last + 1)
}

/// Moves the first packet, of `slots` slots, to a ring that has space, by swapping buffers.
fn move_packet(from: &mut RxRing, to: &mut KernRing, slots: u32) {
    for i in 0..slots {
        let Some(slot) = from.slot(i) else { return };
        let kept = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0);
        let at = to.hwtail();
        if from.swap_to_driver(i, to, at, kept | SlotFlags::BUF_CHANGED) {
            to.set_tail(to.next(at));
        }
    }
}

fn cause(refusal: GatewayDropReason) -> DropCause {
    match refusal {
        GatewayDropReason::NotIp => DropCause::RouteNotIp,
        GatewayDropReason::OtherHost => DropCause::RouteOtherHost,
        GatewayDropReason::Broadcast => DropCause::RouteBroadcast,
        GatewayDropReason::ToRouter => DropCause::RouteOwn,
        GatewayDropReason::SameSubnet => DropCause::RouteSameSubnet,
        GatewayDropReason::LinkLocal => DropCause::RouteLinkLocal,
        GatewayDropReason::Martian => DropCause::RouteMartian,
        GatewayDropReason::NoRoute => DropCause::RouteNoWay,
        GatewayDropReason::Expired => DropCause::RouteExpired,
        GatewayDropReason::Unresolved => DropCause::RouteUnresolved,
        // All other reasons concern the frame itself, so it counts as malformed.
        _ => DropCause::RxMalformed,
    }
}

impl Queue for GatewayQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let gate = self.gate.clone();
        self.transmit(&mut lock(&gate), now())?;
        self.inner.tx_sync()
    }

    /// Also sends the gate's own frames and handles its timeouts, because the program may not call
    /// `tx_sync` while it has nothing to send.
    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.inner.rx_sync()?;
        let (shared, time) = (self.gate.clone(), now());
        let mut gate = lock(&shared);
        self.receive(&mut gate, time)?;
        if !self.sends_own_frames {
            return Ok(());
        }
        if gate.next_ns().is_some_and(|next| next <= time) {
            gate.tick(time);
        }
        if !gate.is_tx_empty() {
            self.send_gate_frames(&mut gate);
            self.inner.tx_sync()?;
        }
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        self.inner.wait_fds()
    }

    fn is_link_down(&self) -> bool {
        self.inner.is_link_down()
    }

    fn deadline(&self) -> Option<Nanos> {
        let gate = lock(&self.gate);
        let speaking = (!gate.is_tx_empty()).then(|| now() + RETRY_NS);
        let own = gate.next_ns().into_iter().chain(speaking).filter(|_| self.sends_own_frames);
        own.chain(self.inner.deadline()).min()
    }

    fn ended(&self) -> bool {
        self.inner.ended()
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.inner.before_sleep(interest);
    }

    fn after_sleep(&mut self) {
        self.inner.after_sleep();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn update_stats(&mut self) {
        self.inner.update_stats();
    }
}

/// When the run ends, counts the frames that still wait for a next hop as dropped.
impl Drop for GatewayQueue {
    fn drop(&mut self) {
        if self.sends_own_frames {
            let waiting = lock(&self.gate).waiting() as u64;
            self.counters.dropped(DropCause::RouteUnresolved, waiting);
        }
    }
}
