//! Monitors: ports that receive what another port sends, or receives, or both.
//!
//! Each is its opener's own. Its rings lie in a memory of its own, or (`NR_ZCOPY_MON`) in that of
//! the port. It ends with the last program that has the port bound.
//!
//! What a port receives it sees as soon as the port's program is told of it; with `NR_ZCOPY_MON`, as
//! in netmap, when that program has released it.

use std::any::Any;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::{NR_MONITOR_RX, NR_MONITOR_TX, NR_ZCOPY_MON, NmreqRegister};
use slipring_ring::{KernRing, Pair, RingView, Rx, Tx};

use crate::adapter::{Adapter, Dir, Shape, Synced};
use crate::claims::Claims;
use crate::domain::{Memory, Room, lock};
use crate::names::Wanted;
use crate::restart::state::{MonitorState, PortState};
use crate::taps::{Tap, Taps, Wishes};
use crate::waker::Listeners;

/// Slots of the ring on which nothing is sent: the fewest that make one.
const SILENT_SLOTS: u32 = 2;

/// Whether a monitor is meant, and not the port itself.
pub(crate) fn asks_for_monitor(register: &NmreqRegister) -> bool {
    register.nr_flags & (NR_MONITOR_TX | NR_MONITOR_RX | NR_ZCOPY_MON) != 0
}

/// What it watches, by [`Dir`]: both, where nothing is said beside `NR_ZCOPY_MON`.
fn wishes(flags: u64) -> [bool; 2] {
    match [NR_MONITOR_TX, NR_MONITOR_RX].map(|flag| flags & flag != 0) {
        [false, false] => [true, true],
        said => said,
    }
}

/// The port.
#[derive(Debug)]
pub(crate) struct Monitor {
    name: String,
    shape: Shape,
    claims: Arc<Claims>,
    tap: Arc<Tap>,
    taps: Arc<Taps>,
    /// A ring to send on, as programs expect one; nothing is ever sent.
    silent: KernRing,
    silent_view: RingView,
    no_listeners: Listeners,
    /// Whether its buffers are its own.
    copies: bool,
    /// Behind the rings, which go first.
    memory: Arc<Memory>,
}

impl Monitor {
    /// Of `port`, which a program must have bound, as `wanted` says.
    pub(crate) fn new(wanted: &Wanted<'_>, port: &Arc<dyn Adapter>) -> Result<Arc<Self>, Errno> {
        let (domain, register) = (wanted.domain, wanted.register);
        let taps = port.taps().ok_or(Errno::OPNOTSUPP)?.clone();
        let (parent, params) = (port.shape(), domain.params());
        let shape = Shape {
            rings: [1, Tap::rings_for(&parent)],
            host_rings: [0, parent.host_rings[0].max(parent.host_rings[1])],
            slots: [SILENT_SLOTS, params.slots(register.nr_rx_slots)],
        };
        let flags = register.nr_flags;
        let [_, bound] = shape.bound(register.nr_mode, register.nr_ringid, flags)?;
        let memory = match (flags & NR_ZCOPY_MON, wanted.memory) {
            (0, None) => domain.private_memory(room(&shape, register.nr_extra_bufs))?,
            (0, Some(memory)) => memory.clone(),
            (_, Some(memory)) if !Arc::ptr_eq(memory, port.memory()) => return Err(Errno::INVAL),
            _ => port.memory().clone(),
        };
        let (region, failed) = (memory.region(), |_| Errno::NOMEM);
        let silent = Pair::<Tx>::create(region, 0, shape.slots[0]).map_err(failed)?.kern;
        let rings = (0..shape.all(Dir::Rx)).map(|i| {
            let pair = Pair::<Rx>::create(region, i as u16, shape.slots[1]);
            pair.map(|pair| pair.kern).map_err(failed)
        });
        let copies = flags & NR_ZCOPY_MON == 0;
        let wishes = Wishes { ways: wishes(flags), copies };
        let tap = Tap::new(wishes, parent, bound, rings.collect::<Result<_, _>>()?);
        taps.add(tap.clone());
        let monitor = Arc::new(Self {
            name: port.name().to_owned(),
            claims: Claims::new(&shape),
            shape,
            tap,
            taps,
            silent_view: silent.view(),
            silent,
            no_listeners: Listeners::default(),
            copies,
            memory,
        });
        // After it was added: a port that is given up from now on ends it.
        if port.claims().is_idle() { Err(Errno::INVAL) } else { Ok(monitor) }
    }
}

impl Monitor {
    /// Where the port that it listens to lists it.
    pub(crate) fn taps(&self) -> &Arc<Taps> {
        &self.taps
    }

    /// Whether the port that it listened to was given up.
    pub(crate) fn has_ended(&self) -> bool {
        self.tap.has_ended()
    }

    /// What of it the process that follows needs.
    pub(crate) fn state(&self, port: PortState) -> MonitorState {
        let (wants, parent, bound) = self.tap.listens();
        MonitorState {
            port,
            of: None,
            wants,
            bound: [bound.start as u32, bound.end as u32],
            parent: parent.into(),
            copies: self.copies,
        }
    }

    /// One of a process that is no more, of what now is `port`, if that is still bound; `None` if
    /// it makes no sense.
    pub(crate) fn resume(
        state: &MonitorState,
        port: Option<&Arc<dyn Adapter>>,
        memory: Arc<Memory>,
    ) -> Option<Arc<Self>> {
        let [tx, rx] = state.port.made();
        let silent = tx.first()?.resume(memory.region())?;
        let rings = rx.iter().map(|ring| ring.resume(memory.region())).collect::<Option<_>>()?;
        let bound = state.bound[0] as usize..state.bound[1] as usize;
        let wishes = Wishes { ways: state.wants, copies: state.copies };
        let tap = Tap::new(wishes, state.parent.into(), bound, rings);
        let taps = port.and_then(|port| port.taps()).cloned().unwrap_or_default();
        taps.add(tap.clone());
        if port.is_none() {
            taps.end();
        }
        let shape = Shape::from(state.port.shape);
        Some(Arc::new(Self {
            name: state.port.name.clone(),
            claims: Claims::new(&shape),
            shape,
            tap,
            taps,
            silent_view: silent.view(),
            silent,
            no_listeners: Listeners::default(),
            copies: state.copies,
            memory,
        }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.taps.remove(&self.tap);
    }
}

fn room(shape: &Shape, extra: u32) -> Room {
    let rx = Room::rings(shape.all(Dir::Rx) as u32, shape.slots[1], true);
    let spare = Room { ring_bytes: 64 << 10, bufs: extra.min(500_000) };
    rx + Room::rings(1, shape.slots[0], true) + spare
}

impl Adapter for Monitor {
    fn name(&self) -> &str {
        &self.name
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    fn ring(&self, dir: Dir, i: usize) -> Option<&RingView> {
        match dir {
            Dir::Tx => (i == 0).then_some(&self.silent_view),
            Dir::Rx => self.tap.rings.get(i).map(|ring| &ring.view),
        }
    }

    fn sync(&self, dir: Dir, i: usize) -> Synced {
        if self.tap.has_ended() {
            return Synced::Gone;
        }
        if dir == Dir::Tx {
            return Synced::Done;
        }
        let Some(ring) = self.tap.rings.get(i) else { return Synced::Gone };
        let mut kern = lock(&ring.kern);
        let Ok(head) = kern.released() else { return Synced::Reinit };
        kern.done_to(head);
        let tail = kern.hwtail();
        kern.set_tail(tail);
        Synced::Done
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        match dir {
            Dir::Tx => Some(&self.no_listeners),
            Dir::Rx => self.tap.rings.get(i).map(|ring| &ring.listeners),
        }
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn is_monitor(&self) -> bool {
        debug_assert_eq!(self.silent.hwcur(), 0, "nothing is sent");
        true
    }
}
