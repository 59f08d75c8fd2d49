//! Ports that nothing is connected to: what is sent vanishes, and nothing ever arrives.
//!
//! Two of netmap's kinds are this: the null port (`NR_REG_NULL`), which is a way to memory, and the
//! port that a pipe's name stands for when no interface has that name.

use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;
use slipring_ring::{KernRing, Pair, RingView, Rx, Tx};

use crate::adapter::{Adapter, Dir, Shape, Synced};
use crate::claims::Claims;
use crate::domain::{Memory, lock};
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
            memory,
        })
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

    fn sync(&self, dir: Dir, i: usize) -> Synced {
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
