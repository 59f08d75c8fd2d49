//! The driver of one ring pair of a `vhost:` port.

use std::sync::Arc;

use slipring_port::{
    DropCause, Interest, OpenOptions, Queue, QueueCounters, QueueRings, RunError, TxWait, WaitFds,
};
use slipring_ring::{KernRing, Region, RegionError, Rx, RxRing, SyncFault, Tx, TxRing};

use crate::link::{VhostLink, VhostRings};
use crate::receive::receive;
use crate::send::{SendScratch, TxFrame, send};
use crate::server::VhostServer;

pub(crate) struct VhostQueue {
    name: String,
    tx: TxRing,
    rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    counters: Arc<QueueCounters>,
    link: Arc<VhostLink>,
    /// The link of the first pair. Every guest uses this pair.
    first: Arc<VhostLink>,
    scratch: SendScratch,
    /// Whether frames wait because the guest has too few buffers.
    waiting: bool,
    /// Whether this pair sleeps until there are buffers in the guest's first queue pair, which is
    /// not its own.
    borrows: bool,
    /// The port's thread. It ends when the last queue is dropped.
    _server: Arc<VhostServer>,
}

impl VhostQueue {
    pub(crate) fn new(
        name: &str,
        ringid: u16,
        region: &Arc<Region>,
        options: &OpenOptions,
        server: &Arc<VhostServer>,
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
            scratch: SendScratch::default(),
            waiting: false,
            borrows: false,
            _server: server.clone(),
        })
    }

    fn fail(&self, fault: impl Into<SyncFault>) -> RunError {
        RunError::new(&self.name, fault.into())
    }

    /// Sends the frames that the program has released. If no guest is connected, drops them.
    fn process_tx(&mut self) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| self.fail(fault))?;
        if head == self.tx_kern.hwcur() {
            self.waiting = false;
            self.release_tx(head);
            return Ok(());
        }
        let mut end = self.tx_kern.hwcur();
        let mut own = self.link.lock();
        if self.uses_first(&own) {
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
        self.release_tx(end);
        Ok(())
    }

    /// Whether the frames of this pair go to the guest's first queue pair, because the guest uses
    /// fewer queue pairs than the port has ring pairs.
    fn uses_first(&self, own: &VhostRings) -> bool {
        own.send.is_none() && !Arc::ptr_eq(&self.link, &self.first)
    }

    /// Returns the slots before `end` to the program.
    fn release_tx(&mut self, end: u32) {
        self.tx_kern.complete_to(end);
        self.tx_kern.set_tail(self.tx_kern.prev(end));
    }

    /// Requests that the guest notifies the port of new frames and, if frames wait for buffers, of
    /// new buffers. Returns whether new frames or buffers are already there.
    fn enable_notifications(&mut self) -> bool {
        let (link, first) = (self.link.clone(), self.first.clone());
        let mut rings = link.lock();
        let mut ready = false;
        if let Some(vring) = &mut rings.receive {
            match vring.enable_notification() {
                Ok(offered) => ready |= offered != vring.base(),
                Err(_) => rings.receive = None,
            }
        }
        if self.waiting && self.uses_first(&rings) {
            drop(rings);
            rings = first.lock();
            rings.borrowers += u32::from(!self.borrows);
            self.borrows = true;
        }
        if let Some(vring) = rings.send.as_mut().filter(|_| self.waiting) {
            match vring.enable_notification() {
                Ok(offered) => ready |= offered != vring.last_avail(),
                Err(_) => rings.send = None,
            }
        }
        ready
    }
}

impl VhostQueue {
    fn end_borrowing(&mut self) {
        if std::mem::take(&mut self.borrows) {
            self.first.lock().borrowers -= 1;
        }
    }
}

impl Drop for VhostQueue {
    fn drop(&mut self) {
        self.end_borrowing();
    }
}

/// Counts the frames in the slots from `from` to `to`. If the last frame is incomplete, it also
/// counts.
fn frames(ring: &mut KernRing, from: u32, to: u32) -> u64 {
    let (mut at, mut count) = (from, 0);
    while at != to {
        at = TxFrame::at(ring, at, to).end;
        count += 1;
    }
    count
}

impl Queue for VhostQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.process_tx()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        if self.waiting {
            self.process_tx()?;
        }
        let head = self.rx_kern.released().map_err(|fault| self.fail(fault))?;
        self.rx_kern.complete_to(head);
        let mut rings = self.link.lock();
        let Some(vring) = &mut rings.receive else {
            drop(rings);
            let tail = self.rx_kern.hwtail();
            self.rx_kern.set_tail(tail);
            return Ok(());
        };
        let received = receive(vring, &mut self.rx_kern, &self.counters, self.scratch.bytes());
        if received.is_err() {
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
            // If the ring is damaged, the next sync reports this.
            let _ = self.process_tx();
        }
        if interest != Interest::NONE && self.enable_notifications() {
            self.link.notify();
        }
    }

    fn after_sleep(&mut self) {
        self.link.clear_notification();
        let mut rings = self.link.lock();
        let VhostRings { send, receive, borrowers } = &mut *rings;
        // Another pair may still sleep until there are buffers.
        let send = send.iter_mut().filter(|_| *borrowers == 0);
        for vring in send.chain(receive) {
            // If this fails, the queue is damaged, and the next sync reports this.
            let _ = vring.disable_notification();
        }
        drop(rings);
        self.end_borrowing();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
