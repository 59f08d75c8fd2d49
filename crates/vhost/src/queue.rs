//! The driver of one ring pair of a `vhost:` port.

use std::sync::Arc;

use slipring_port::{
    Counters, DropCause, Interest, OpenOptions, Queue, Rings, RunError, TxWait, WaitFds,
};
use slipring_ring::{KernRing, Region, RegionError, Rx, RxRing, SyncFault, Tx, TxRing};

use crate::link::{self, Link};
use crate::receive::receive;
use crate::send::{Frame, Scratch, send};
use crate::server::Server;

pub(crate) struct VhostQueue {
    name: String,
    tx: TxRing,
    rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    counters: Arc<Counters>,
    link: Arc<Link>,
    /// That of the first pair, which every guest uses.
    first: Arc<Link>,
    scratch: Scratch,
    /// Frames wait for buffers of the guest.
    waiting: bool,
    /// Ends with the last queue.
    _server: Arc<Server>,
}

impl VhostQueue {
    pub(crate) fn new(
        name: &str,
        ringid: u16,
        region: &Arc<Region>,
        options: &OpenOptions,
        server: &Arc<Server>,
    ) -> Result<Self, RegionError> {
        let tx = options.ring::<Tx>(region, ringid.into(), ringid)?;
        let rx = options.ring::<Rx>(region, ringid.into(), ringid)?;
        let links = server.links();
        Ok(Self {
            name: name.to_owned(),
            tx: tx.app,
            rx: rx.app,
            tx_kern: tx.kern,
            rx_kern: rx.kern,
            counters: Arc::default(),
            link: links[usize::from(ringid)].clone(),
            first: links[0].clone(),
            scratch: Scratch::default(),
            waiting: false,
            _server: server.clone(),
        })
    }

    fn fail(&self, fault: impl Into<SyncFault>) -> RunError {
        RunError::new(&self.name, fault.into())
    }

    /// Sends what was released; drops it where nobody is there.
    fn push(&mut self) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| self.fail(fault))?;
        if head == self.tx_kern.hwcur() {
            self.waiting = false;
            self.free(head);
            return Ok(());
        }
        let mut end = self.tx_kern.hwcur();
        let mut own = self.link.lock();
        // A guest may use fewer pairs than there are.
        let fewer = own.send.is_none() && !Arc::ptr_eq(&self.link, &self.first);
        if fewer {
            drop(own);
            own = self.first.lock();
        }
        let ring = &mut own.send;
        if let Some(vring) = ring {
            let sent = send(vring, &mut self.scratch, &mut self.tx_kern, head, &self.counters);
            end = sent.end;
            if sent.broken {
                *ring = None;
            }
        }
        if ring.is_none() {
            self.counters.dropped(DropCause::TxNoPeer, frames(&mut self.tx_kern, end, head));
            end = head;
        }
        drop(own);
        self.waiting = end != head;
        let left = frames(&mut self.tx_kern, end, head);
        self.counters.set_in_flight(left);
        self.free(end);
        Ok(())
    }

    /// Gives the slots before `end` back.
    fn free(&mut self, end: u32) {
        self.tx_kern.done_to(end);
        self.tx_kern.set_tail(self.tx_kern.prev(end));
    }

    /// Asks the guest to tell of frames, and of room where frames wait for it; whether there is
    /// some already.
    fn ask(&self) -> bool {
        let mut rings = self.link.lock();
        let mut ready = false;
        if let Some(vring) = &mut rings.receive {
            match vring.be_told() {
                Ok(offered) => ready |= offered != vring.base(),
                Err(_) => rings.receive = None,
            }
        }
        if let Some(vring) = rings.send.as_mut().filter(|_| self.waiting) {
            match vring.be_told() {
                Ok(offered) => ready |= offered != vring.seen(),
                Err(_) => rings.send = None,
            }
        }
        ready
    }
}

/// Frames in the slots from `from` to `to`, a last one without its end included.
fn frames(ring: &mut KernRing, from: u32, to: u32) -> u64 {
    let (mut at, mut count) = (from, 0);
    while at != to {
        at = Frame::at(ring, at, to).end;
        count += 1;
    }
    count
}

impl Queue for VhostQueue {
    fn rings(&mut self) -> Rings<'_> {
        Rings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.push()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        if self.waiting {
            self.push()?;
        }
        let head = self.rx_kern.released().map_err(|fault| self.fail(fault))?;
        self.rx_kern.done_to(head);
        let mut rings = self.link.lock();
        let Some(vring) = &mut rings.receive else {
            drop(rings);
            let tail = self.rx_kern.hwtail();
            self.rx_kern.set_tail(tail);
            return Ok(());
        };
        if receive(vring, &mut self.rx_kern, &self.counters).is_err() {
            self.counters.dropped(DropCause::RxMalformed, 1);
            rings.receive = None;
        }
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds { rx: Some(self.link.fd()), tx: Some(TxWait::Readable(self.link.fd())), link: None }
    }

    fn before_sleep(&mut self, interest: Interest) {
        if self.waiting {
            // A damaged ring is reported by the next sync.
            let _ = self.push();
        }
        if interest != Interest::NONE && self.ask() {
            self.link.ring();
        }
    }

    fn after_sleep(&mut self) {
        self.link.hush();
        let mut rings = self.link.lock();
        let link::Rings { send, receive } = &mut *rings;
        for vring in send.iter_mut().chain(receive) {
            // One that cannot be told so shows it at the next sync.
            let _ = vring.be_silent();
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
