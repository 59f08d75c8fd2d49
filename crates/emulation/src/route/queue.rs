//! A port behind its gate of the router: frames pass between the program and the port by its
//! verdicts.
//!
//! ```text
//!   program  <- front rx <- Gate::receive <- inner rx  <- port
//!            -> front tx -> Gate::send    -> inner tx  ->
//!                              outbox ----^  requests, answers, frames that have waited
//! ```
//! What comes in keeps its buffer, what goes out is copied. All queues of a port share its gate;
//! the first one sends the outbox, so that nothing overtakes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_gateway::{Gate, Refusal, Verdict};
use slipring_port::{
    Counters, DropCause, Interest, Nanos, OpenError, Queue, Rings, RunError, WaitFds, now,
};
use slipring_ring::{KernRing, Pair, RxRing, Slot, SlotFlags, SyncFault, TxRing};

use slipring_program::slots;

/// How many times a port's own needs its front rings take.
pub(crate) const LAYERS: u32 = 1;
/// When to look again where the port has no room for what the gate has to say.
const NO_ROOM: Nanos = 50_000;

/// A gate, and who uses it.
pub(super) type Shared = Arc<Mutex<Gate>>;

/// A queue behind a gate.
pub(super) struct Gated {
    name: String,
    gate: Shared,
    /// Whether it sends what the gate itself has to say.
    speaks: bool,
    inner: Box<dyn Queue>,
    counters: Arc<Counters>,
    tx: TxRing,
    tx_kern: KernRing,
    rx: RxRing,
    rx_kern: KernRing,
    scratch: Vec<u8>,
}

impl Gated {
    /// Puts queue number `index` of port `name` behind a gate.
    pub(super) fn new(
        name: &str,
        index: u64,
        mut inner: Box<dyn Queue>,
        gate: Shared,
    ) -> Result<Self, OpenError> {
        let rings = inner.rings();
        let region = rings.rx.region().clone();
        let (tx_slots, rx_slots) = (rings.tx.num_slots().max(2), rings.rx.num_slots().max(2));
        let refused = |error| OpenError::new(name, error);
        let tx = Pair::create(&region, index as u16, tx_slots).map_err(refused)?;
        let rx = Pair::create(&region, index as u16, rx_slots).map_err(refused)?;
        Ok(Self {
            name: name.to_owned(),
            gate,
            speaks: index == 0,
            counters: inner.counters().clone(),
            inner,
            tx: tx.app,
            tx_kern: tx.kern,
            rx: rx.app,
            rx_kern: rx.kern,
            scratch: Vec::new(),
        })
    }

    /// Judges what has come, as far as there is room for it.
    fn pass_in(&mut self, gate: &mut Gate, time: Nanos) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| broken(&self.name, fault))?;
        self.rx_kern.done_to(head);
        let inner = self.inner.rings().rx;
        while let Some(slots) = packet_slots(inner)
            && slots <= self.rx_kern.room()
        {
            match gate.receive(slots::bytes(inner, 0, slots, &mut self.scratch), time) {
                Verdict::Pass => pass_on(inner, &mut self.rx_kern, slots),
                Verdict::Taken => {}
                Verdict::Drop(refusal) => self.counters.dropped(cause(refusal), 1),
            }
            inner.advance(slots);
        }
        Ok(())
    }

    /// Addresses and sends what the program queued, as far as there is room for it.
    fn pass_out(&mut self, gate: &mut Gate, time: Nanos) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| broken(&self.name, fault))?;
        let mut at = self.tx_kern.hwcur();
        while at != head && self.speak(gate) {
            let end = self.gather(at, head);
            let slots = self.tx_kern.pending(end) - self.tx_kern.pending(at);
            if self.inner.rings().tx.avail() < slots {
                break;
            }
            let verdict = gate.send(&mut self.scratch, time);
            // There is room: it was looked for above.
            if verdict == Verdict::Pass && !self.inner.rings().tx.push(&self.scratch) {
                self.counters.dropped(DropCause::TxRefused, 1);
            }
            if let Verdict::Drop(refusal) = verdict {
                self.counters.dropped(cause(refusal), 1);
            }
            // A request goes before what it was asked for is sent.
            self.speak(gate);
            at = end;
        }
        self.tx_kern.done_to(at);
        self.tx_kern.set_tail(self.tx_kern.prev(at));
        Ok(())
    }

    /// Copies the packet that begins at `at` to the scratch; where the next one begins.
    fn gather(&mut self, mut at: u32, head: u32) -> u32 {
        self.scratch.clear();
        while at != head {
            let slot = self.tx_kern.slot(at);
            self.scratch.extend_from_slice(self.tx_kern.bytes(slot));
            at = self.tx_kern.next(at);
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                break;
            }
        }
        at
    }

    /// Sends what the gate itself has to say; whether that was all.
    fn speak(&mut self, gate: &mut Gate) -> bool {
        let tx = self.inner.rings().tx;
        while let Some(frame) = self.speaks.then(|| gate.pop()).flatten() {
            if !tx.push(&frame) {
                gate.unpop(frame);
                return false;
            }
        }
        true
    }
}

/// The gate is whole at any time, also when a thread that held it panicked.
fn lock(gate: &Shared) -> MutexGuard<'_, Gate> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(name: &str, fault: impl Into<SyncFault>) -> RunError {
    RunError::new(name, fault.into())
}

/// Slots of the first packet on a ring, if it is there as a whole.
fn packet_slots(ring: &mut RxRing) -> Option<u32> {
    let waiting = ring.avail();
    let ends = |i: &u32| ring.slot(*i).is_some_and(|slot| !slot.flags.has(SlotFlags::MOREFRAG));
    (0..waiting).find(ends).map(|last| last + 1)
}

/// Exchanges the buffers of the first packet for free ones of a ring that has room.
fn pass_on(from: &mut RxRing, to: &mut KernRing, slots: u32) {
    for i in 0..slots {
        let Slot { buf, len, flags } = from.slot(i).expect("it is one of the packet's slots");
        let (at, kept) = (to.hwtail(), flags.0 & SlotFlags::MOREFRAG.0);
        let free = to.slot(at).buf;
        to.set_slot(at, Slot { buf, len, flags: SlotFlags(kept) | SlotFlags::BUF_CHANGED });
        to.set_tail(to.next(at));
        from.replace(i, free);
    }
}

fn cause(refusal: Refusal) -> DropCause {
    match refusal {
        Refusal::NotIp => DropCause::RouteNotIp,
        Refusal::OtherHost => DropCause::RouteOtherHost,
        Refusal::Broadcast => DropCause::RouteBroadcast,
        Refusal::Own => DropCause::RouteOwn,
        Refusal::SameSubnet => DropCause::RouteSameSubnet,
        Refusal::NoWay => DropCause::RouteNoWay,
        Refusal::Expired => DropCause::RouteExpired,
        Refusal::Unresolved => DropCause::RouteUnresolved,
        // All others are about the frame itself.
        _ => DropCause::RxMalformed,
    }
}

impl Queue for Gated {
    fn rings(&mut self) -> Rings<'_> {
        Rings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let gate = self.gate.clone();
        self.pass_out(&mut lock(&gate), now())?;
        self.inner.tx_sync()
    }

    /// Also sends what was learnt to be due: nobody may have anything to send.
    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.inner.rx_sync()?;
        let (shared, time) = (self.gate.clone(), now());
        let mut gate = lock(&shared);
        self.pass_in(&mut gate, time)?;
        if !self.speaks {
            return Ok(());
        }
        if gate.next_ns().is_some_and(|next| next <= time) {
            self.counters.dropped(DropCause::RouteUnresolved, gate.tick(time));
        }
        if !gate.is_silent() {
            self.speak(&mut gate);
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
        let speaking = (!gate.is_silent()).then(|| now() + NO_ROOM);
        let own = gate.next_ns().into_iter().chain(speaking).filter(|_| self.speaks);
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

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn update_stats(&mut self) {
        self.inner.update_stats();
    }
}

/// Frames that wait for an answer when the run ends get none.
impl Drop for Gated {
    fn drop(&mut self) {
        if self.speaks {
            let waiting = lock(&self.gate).waiting() as u64;
            self.counters.dropped(DropCause::RouteUnresolved, waiting);
        }
    }
}
