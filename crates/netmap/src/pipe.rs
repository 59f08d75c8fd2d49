//! Pipes: two ends that hand each other slots; frames are never copied.
//!
//! Both ends are made together, whoever opens first, and live while either is open, so what one
//! end has sent waits for an opener of the other, and an end that is opened again finds its rings
//! as they were. Rings lie in the memory of the port whose name the pipe bears.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use slipring_abi::NmreqRegister;
use slipring_abi::name::Role;
use slipring_ring::{
    Doorbell, HostedRx, HostedTx, KernRing, Moved, NotSynced, Place, Region, RingView, SlotIdx,
    hosted_direction, share,
};

use crate::adapter::{Adapter, Dir, Shape, Synced};
use crate::claims::Claims;
use crate::direct::{Half, Kicked, Kicks, Lent, Loan, Sharing};
use crate::domain::{Memory, Room, lock};
use crate::params::{Params, rings};
use crate::restart::state::{PipeState, PortRef, WayState};
use crate::taps::{Taps, Watched};
use crate::waker::Listeners;

/// Both ends.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// By [`Role`]: what each end sends and receives on.
    sides: [Side; 2],
    /// Once a program has been lent a ring of it.
    sharing: OnceLock<Arc<Sharing>>,
    making: Mutex<()>,
    /// Keeps the port whose name it bears, and so its memory.
    parent: Arc<dyn Adapter>,
}

#[derive(Debug)]
struct Side {
    name: String,
    shape: Shape,
    claims: Arc<Claims>,
    tx: Vec<Mutex<HostedTx>>,
    rx: Vec<Mutex<HostedRx>>,
    views: [Vec<RingView>; 2],
    listeners: [Vec<Listeners>; 2],
    taps: Arc<Taps>,
}

/// How large a pipe is, seen from the master.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    shape: Shape,
}

impl Plan {
    /// What the first opener asks for.
    pub(crate) fn of(register: &NmreqRegister, role: Role, params: &Params) -> Self {
        let rings = [rings(register.nr_tx_rings), rings(register.nr_rx_rings)];
        let slots = [params.slots(register.nr_tx_slots), params.slots(register.nr_rx_slots)];
        let shape = Shape { rings, host_rings: [0, 0], slots };
        Self { shape: if role == Role::Master { shape } else { mirrored(shape) } }
    }

    /// What it takes from a memory, with an interface record for each of a few openers.
    pub(crate) fn room(&self) -> Room {
        let mut room = Room { ring_bytes: 64 << 10, bufs: 0 };
        for dir in Dir::BOTH {
            let (count, slots) = (self.shape.all(dir) as u32, self.shape.slots[dir as usize]);
            room = room + Room::rings(count, slots, true) + Room::rings(count, slots, false);
        }
        room
    }
}

fn mirrored(shape: Shape) -> Shape {
    let swap = |[a, b]: [u16; 2]| [b, a];
    let [a, b] = shape.slots;
    Shape { rings: swap(shape.rings), host_rings: swap(shape.host_rings), slots: [b, a] }
}

impl Pipe {
    /// Lays it out in the memory of `parent`; `names` are those of master and slave.
    pub(crate) fn new(
        names: [String; 2],
        plan: Plan,
        cells: &Arc<Region>,
        parent: Arc<dyn Adapter>,
    ) -> Result<Arc<Self>, Errno> {
        let shapes = [plan.shape, mirrored(plan.shape)];
        let mut sides = names.into_iter().zip(shapes).map(|(name, shape)| Side::empty(name, shape));
        let ends = "one side per name";
        let (mut master, mut slave) = (sides.next().expect(ends), sides.next().expect(ends));
        let memory = parent.memory().clone();
        connect(&memory, cells, &mut master, &mut slave)?;
        connect(&memory, cells, &mut slave, &mut master)?;
        Ok(Self::of([master, slave], parent))
    }

    /// One of its ends.
    pub(crate) fn end(self: &Arc<Self>, role: Role) -> Arc<dyn Adapter> {
        Arc::new(PipeEnd { pipe: self.clone(), role })
    }
}

impl Pipe {
    fn of(sides: [Side; 2], parent: Arc<dyn Adapter>) -> Arc<Self> {
        let (sharing, making) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { sides, sharing, making, parent })
    }

    /// The port whose name it bears.
    pub(crate) fn parent(&self) -> &Arc<dyn Adapter> {
        &self.parent
    }

    /// What of it the process that follows needs.
    pub(crate) fn state(&self, parent: PortRef) -> PipeState {
        let ways = [(0, 1), (1, 0)].map(|(from, to)| {
            let (from, to) = (&self.sides[from], &self.sides[to]);
            let places = from.tx.iter().map(|tx| lock(tx).place());
            let views = from.views[Dir::Tx as usize].iter().zip(&to.views[Dir::Rx as usize]);
            places.zip(views).map(|(place, (tx, rx))| WayState::of(place, [tx, rx])).collect()
        });
        PipeState {
            key: None,
            names: self.sides.each_ref().map(|side| side.name.clone()),
            shape: self.sides[0].shape.into(),
            parent,
            ways,
        }
    }

    /// One of a process that is no more, in the memory of `parent`; `None` if it makes no sense.
    pub(crate) fn resume(
        state: &PipeState,
        cells: &Arc<Region>,
        parent: Arc<dyn Adapter>,
    ) -> Option<Arc<Self>> {
        let shape = Shape::from(state.shape);
        let [master, slave] = &state.names;
        let mut master = Side::empty(master.clone(), shape);
        let mut slave = Side::empty(slave.clone(), mirrored(shape));
        let memory = parent.memory().clone();
        reconnect(&memory, cells, &mut master, &mut slave, &state.ways[0])?;
        reconnect(&memory, cells, &mut slave, &mut master, &state.ways[1])?;
        Some(Self::of([master, slave], parent))
    }
}

/// How long a monitor's opener waits for programs that are just syncing; more than a sync takes.
const FINISH: Duration = Duration::from_millis(1);

impl Pipe {
    /// Lays open what programs need to sync their rings themselves.
    fn share(self: &Arc<Self>, kicks: &Kicks) -> Result<Arc<Sharing>, Errno> {
        let _one_maker = lock(&self.making);
        if let Some(sharing) = self.sharing.get() {
            return Ok(sharing.clone());
        }
        let mut halves: [[Vec<Half>; 2]; 2] = Default::default();
        for (from, to) in [(0, 1), (1, 0)] {
            for (tx, rx) in self.sides[from].tx.iter().zip(&self.sides[to].rx) {
                let (mut tx, mut rx) = (lock(tx), lock(rx));
                let place = share(&mut tx, &mut rx).map_err(|_| Errno::NOMEM)?;
                halves[from][Dir::Tx as usize].push(Half::new(place, tx.signs())?);
                halves[to][Dir::Rx as usize].push(Half::new(place, rx.signs())?);
            }
        }
        let kick = Arc::new(Doorbell::new().map_err(|_| Errno::NFILE)?);
        let weak: Weak<Self> = Arc::downgrade(self);
        kicks.add(&kick, weak.clone())?;
        let sharing =
            self.sharing.get_or_init(|| Arc::new(Sharing { halves, kick, pipe: weak.clone() }));
        for side in &self.sides {
            side.taps.tell(weak.clone());
        }
        // One may be there already.
        self.watched();
        Ok(sharing.clone())
    }
}

impl Kicked for Pipe {
    fn kicked(&self) {
        let Some(sharing) = self.sharing.get() else { return };
        for (side, halves) in self.sides.iter().zip(&sharing.halves) {
            for dir in Dir::BOTH {
                let listeners = side.listeners[dir as usize].iter();
                for (half, listeners) in halves[dir as usize].iter().zip(listeners) {
                    if half.is_called() {
                        listeners.wake();
                    }
                }
            }
        }
    }

    fn deserted(&self) {
        for listeners in self.sides.iter().flat_map(|side| &side.listeners).flatten() {
            listeners.wake();
        }
        let halves = self.sharing.get().map(|sharing| sharing.halves.iter().flatten().flatten());
        for half in halves.into_iter().flatten().filter(|half| half.signs.take_guest_sleeps()) {
            half.bell.ring();
        }
    }
}

impl Watched for Pipe {
    /// A pipe that is monitored is synced here, where the monitor is shown what passes: of what one
    /// end receives it learns when the other one sends.
    fn watched(&self) {
        let Some(sharing) = self.sharing.get() else { return };
        let monitored = self.sides.iter().any(|side| side.taps.is_any());
        let halves = sharing.halves.iter().flatten().flatten();
        halves.for_each(|half| half.signs.keep_to_host(monitored));
        let start = Instant::now();
        let held = |half: &Half| half.signs.is_held_by_guest();
        while sharing.halves.iter().flatten().flatten().any(held) && start.elapsed() < FINISH {
            std::hint::spin_loop();
        }
    }
}

impl Side {
    fn empty(name: String, shape: Shape) -> Self {
        let listeners = Dir::BOTH.map(|dir| (0..shape.all(dir)).map(|_| Listeners::default()));
        Self {
            name,
            shape,
            claims: Claims::new(&shape),
            tx: Vec::new(),
            rx: Vec::new(),
            views: Default::default(),
            listeners: listeners.map(Iterator::collect),
            taps: Arc::default(),
        }
    }
}

/// Makes the rings on which `from` sends and `to` receives.
fn connect(
    memory: &Memory,
    cells: &Arc<Region>,
    from: &mut Side,
    to: &mut Side,
) -> Result<(), Errno> {
    for ringid in 0..from.shape.rings[Dir::Tx as usize] {
        let slots = from.shape.slots[Dir::Tx as usize];
        let pair = hosted_direction(memory.region(), cells, ringid, slots);
        join(from, to, pair.map_err(|_| Errno::NOMEM)?);
    }
    Ok(())
}

/// Takes up the rings on which `from` sent and `to` received.
fn reconnect(
    memory: &Memory,
    cells: &Arc<Region>,
    from: &mut Side,
    to: &mut Side,
    ways: &[WayState],
) -> Option<()> {
    let rings = usize::from(from.shape.rings[Dir::Tx as usize]);
    for way in Some(ways).filter(|ways| ways.len() == rings)? {
        let WayState { tx, rx, words, slots, offsets } = *way;
        let place = Place { tx, rx, words, num_slots: slots };
        let (tx, rx) = place.resume(memory.region(), cells).ok()?;
        offsets[0].give(&tx.kern().view());
        offsets[1].give(&rx.kern().view());
        join(from, to, (tx, rx));
    }
    Some(())
}

fn join(from: &mut Side, to: &mut Side, (tx, rx): (HostedTx, HostedRx)) {
    from.views[Dir::Tx as usize].push(tx.kern().view());
    to.views[Dir::Rx as usize].push(rx.kern().view());
    from.tx.push(Mutex::new(tx));
    to.rx.push(Mutex::new(rx));
}

/// One end as a port.
#[derive(Debug)]
pub(crate) struct PipeEnd {
    pipe: Arc<Pipe>,
    role: Role,
}

impl PipeEnd {
    /// Which pipe's.
    pub(crate) fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    /// Ring `i` as it is while another thread syncs it.
    #[cfg(test)]
    pub(crate) fn while_synced(&self, dir: Dir, i: usize, then: impl FnOnce()) {
        let side = self.side();
        match dir {
            Dir::Tx => drop((lock(&side.tx[i]), then())),
            Dir::Rx => drop((lock(&side.rx[i]), then())),
        }
    }

    pub(crate) fn is_slave(&self) -> bool {
        self.role == Role::Slave
    }

    fn side(&self) -> &Side {
        &self.pipe.sides[self.role as usize]
    }

    /// Lets monitors see what is sent, those of the other end as well: its program is told of it now.
    #[inline(always)]
    fn sent(&self, i: usize) -> impl FnOnce(&KernRing, SlotIdx, SlotIdx) + '_ {
        move |_, from, to| {
            if let Some(view) = self.side().views[Dir::Tx as usize].get(i) {
                self.side().taps.see(Dir::Tx, i, view, from, to);
                self.other().taps.see(Dir::Rx, i, view, from, to);
            }
        }
    }

    /// Lets monitors see what was read.
    #[inline(always)]
    fn released(&self, i: usize) -> impl FnOnce(&KernRing, SlotIdx, SlotIdx) + '_ {
        move |_, from, to| {
            if let Some(view) = self.side().views[Dir::Rx as usize].get(i) {
                self.side().taps.see_released(i, view, from, to);
            }
        }
    }

    fn other(&self) -> &Side {
        &self.pipe.sides[1 - self.role as usize]
    }
}

impl Adapter for PipeEnd {
    fn name(&self) -> &str {
        &self.side().name
    }

    fn memory(&self) -> &Arc<Memory> {
        self.pipe.parent.memory()
    }

    fn shape(&self) -> Shape {
        self.side().shape
    }

    fn claims(&self) -> &Arc<Claims> {
        &self.side().claims
    }

    fn ring(&self, dir: Dir, i: usize) -> Option<&RingView> {
        self.side().views[dir as usize].get(i)
    }

    #[inline]
    fn sync(&self, dir: Dir, i: usize) -> Synced {
        let moved = match dir {
            Dir::Tx => with(self.side().tx.get(i), |tx| tx.sync_shown(self.sent(i))),
            Dir::Rx => with(self.side().rx.get(i), |rx| rx.sync_released(self.released(i))),
        };
        match moved {
            Ok(Moved { slots: 0, .. }) => Synced::Done,
            // What one end has sent the other can receive; what it gave back the other can fill.
            Ok(moved) => {
                let dir = dir.other();
                if let Some(listeners) = self.other().listeners[dir as usize].get(i) {
                    listeners.wake();
                }
                if let Some(sharing) = self.pipe.sharing.get().filter(|_| moved.guest) {
                    sharing.halves[1 - self.role as usize][dir as usize][i].bell.ring();
                }
                Synced::Done
            }
            Err(how) => how,
        }
    }

    fn lend(&self, rings: &[Range<usize>; 2], kicks: &Arc<Kicks>) -> Result<(Lent, Loan), Errno> {
        self.pipe.share(kicks)?.lend(self.role as usize, rings, kicks.number())
    }

    fn kick(&self) {
        let Some(sharing) = self.pipe.sharing.get() else { return };
        for half in sharing.halves[1 - self.role as usize].iter().flatten() {
            if half.signs.take_guest_sleeps() {
                half.bell.ring();
            }
        }
        self.pipe.kicked();
    }

    fn expects(&self, dir: Dir, i: usize) {
        let sharing = self.pipe.sharing.get();
        let half = sharing.and_then(|one| one.halves[self.role as usize][dir as usize].get(i));
        if half.is_some_and(Half::expects)
            && let Some(listeners) = self.listeners(dir, i)
        {
            listeners.wake();
        }
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn keeps_frames(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn taps(&self) -> Option<&Arc<Taps>> {
        Some(&self.side().taps)
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        self.side().listeners[dir as usize].get(i)
    }
}

/// Syncs a half if nobody else does.
#[inline]
fn with<T>(
    half: Option<&Mutex<T>>,
    sync: impl FnOnce(&mut T) -> Result<Moved, NotSynced>,
) -> Result<Moved, Synced> {
    let synced = match half.ok_or(Synced::Gone)?.try_lock() {
        Ok(mut half) => sync(&mut half),
        Err(TryLockError::WouldBlock) => return Err(Synced::Busy),
        Err(TryLockError::Poisoned(half)) => sync(&mut half.into_inner()),
    };
    synced.map_err(|why| match why {
        NotSynced::Busy | NotSynced::ByHost => Synced::Busy,
        // What programs have written is wrong, whichever words those are.
        NotSynced::Reinit(_) | NotSynced::Spoiled => Synced::Reinit,
    })
}
