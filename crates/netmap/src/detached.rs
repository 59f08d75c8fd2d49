//! Ports that nothing is connected to: what is sent vanishes, and nothing ever arrives.
//!
//! Two of netmap's kinds are this: the null port (`NR_REG_NULL`), which is a way to memory, and the
//! port that a pipe's name stands for when no interface has that name.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;
use slipring_ring::{KernRing, Pair, RingView, Rx, Tx};

use crate::adapter::{Adapter, Dir, Shape, Synced};
use crate::claims::Claims;
use crate::domain::{Memory, lock};
use crate::restart::state::{Kind, PortState};
use crate::waker::Listeners;

/// Such a port. Its rings are made when it is first bound.
#[derive(Debug)]
pub(crate) struct Detached {
    name: String,
    shape: Shape,
    claims: Arc<Claims>,
    listeners: [Vec<Listeners>; 2],
    rings: OnceLock<Rings>,
    making: Mutex<()>,
    /// Whether something was behind it, which is no more.
    is_gone: bool,
    /// Behind the rings, which go first.
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Rings {
    views: [Vec<RingView>; 2],
    kern: [Vec<Mutex<KernRing>>; 2],
}

impl Detached {
    pub(crate) fn new(name: String, shape: Shape, memory: Arc<Memory>) -> Arc<Self> {
        let listeners = Dir::BOTH.map(|dir| (0..shape.all(dir)).map(|_| Listeners::default()));
        Arc::new(Self {
            name,
            shape,
            claims: Claims::new(&shape),
            listeners: listeners.map(Iterator::collect),
            rings: OnceLock::new(),
            making: Mutex::default(),
            is_gone: false,
            memory,
        })
    }

    /// A port of a process that is no more, with the rings that were made. One of another kind than
    /// this has what was bound of it, and nothing behind that: who has it bound shall learn so.
    pub(crate) fn resume(
        state: &PortState,
        made: [Vec<KernRing>; 2],
        memory: Arc<Memory>,
    ) -> Option<Arc<Self>> {
        let any = made.iter().any(|rings| !rings.is_empty());
        let views = made.each_ref().map(|rings| rings.iter().map(KernRing::view).collect());
        let kern = made.map(|rings| rings.into_iter().map(Mutex::new).collect());
        let rings = Rings { views, kern };
        let mut port = Arc::into_inner(Self::new(state.name.clone(), state.shape.into(), memory))?;
        port.is_gone = state.kind != Kind::Detached;
        if any || port.is_gone {
            port.rings = OnceLock::from(rings);
        }
        Some(Arc::new(port))
    }

    fn make(&self) -> Result<Rings, Errno> {
        let mut rings = Rings { views: Default::default(), kern: Default::default() };
        for dir in Dir::BOTH {
            for ringid in 0..self.shape.rings[dir as usize] {
                let (region, slots) = (self.memory.region(), self.shape.slots[dir as usize]);
                let kern = match dir {
                    Dir::Tx => Pair::<Tx>::create(region, ringid, slots).map(|pair| pair.kern),
                    Dir::Rx => Pair::<Rx>::create(region, ringid, slots).map(|pair| pair.kern),
                };
                let kern = kern.map_err(|_| Errno::NOMEM)?;
                rings.views[dir as usize].push(kern.view());
                rings.kern[dir as usize].push(Mutex::new(kern));
            }
        }
        Ok(rings)
    }
}

impl Adapter for Detached {
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

    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        let _one_maker = lock(&self.making);
        if self.rings.get().is_none() {
            let rings = self.make()?;
            // The lock is held, so nobody else has set it.
            let _ = self.rings.set(rings);
        }
        Ok(())
    }

    fn ring(&self, dir: Dir, i: usize) -> Option<&RingView> {
        self.rings.get()?.views[dir as usize].get(i)
    }

    fn has_vanished(&self) -> bool {
        self.is_gone
    }

    fn as_any(&self) -> Option<&dyn Any> {
        // Gone ones are that for whoever follows as well.
        (!self.is_gone).then_some(self)
    }

    fn sync(&self, dir: Dir, i: usize) -> Synced {
        if self.is_gone {
            return Synced::Gone;
        }
        let Some(ring) = self.rings.get().and_then(|rings| rings.kern[dir as usize].get(i)) else {
            return Synced::Gone;
        };
        let Ok(mut ring) = ring.try_lock() else { return Synced::Busy };
        let Ok(head) = ring.released() else { return Synced::Reinit };
        ring.done_to(head);
        let tail = if dir == Dir::Tx { ring.prev(head) } else { ring.hwtail() };
        ring.set_tail(tail);
        Synced::Done
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        self.listeners[dir as usize].get(i)
    }
}
