//! Doorbells with which programs that sync in their own processes notify this process.

use std::collections::HashMap;
use std::fmt::Debug;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use slipring_ring::Doorbell;

use crate::types::lock::lock;

/// Handles the doorbell of a port.
pub(crate) trait KickHandler: Send + Sync + Debug {
    /// Called when the doorbell was rung.
    fn handle_kick(&self);

    /// Called when rings are no longer lent to a program. The program may have been killed before
    /// it could notify its sleeping peers.
    fn handle_client_exit(&self);
}

/// Watches the doorbells that programs ring after syncs in their own processes, and wakes the
/// programs for which this process syncs.
#[derive(Debug)]
pub struct KickDispatcher {
    epoll: OwnedFd,
    /// The watched doorbells and their handlers, by the number that epoll reports for each.
    registrations: Mutex<HashMap<u64, KickRegistration>>,
    next: AtomicU64,
    next_client_id: AtomicU32,
    stop: Doorbell,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct KickRegistration {
    doorbell: Arc<Doorbell>,
    handler: Weak<dyn KickHandler>,
}

/// The number that epoll reports for the doorbell that stops the dispatcher.
const STOP_EVENT: u64 = 0;
/// The first client ID. The smaller IDs 0 (no client) and 1 (the host) are reserved. The IDs from 2
/// to this one are not used, for this reason: a shared word holds the ID of the program to which a
/// ring is lent. After the shared words are freed, another ring may be created in their place. A
/// program that still reads the word must not mistake a value of the new ring for its own ID. So
/// client IDs are greater than every value that a ring has in the place of that word.
const FIRST_CLIENT_ID: u32 = 1 << 31;

impl KickDispatcher {
    /// Creates a dispatcher without any doorbell.
    ///
    /// # Errors
    /// The kernel's error, if this process has no descriptors left.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = Doorbell::new().map_err(|_| Errno::NFILE)?;
        epoll::add(&epoll, stop.as_fd(), EventData::new_u64(STOP_EVENT), EventFlags::IN)?;
        Ok(Arc::new(Self {
            epoll,
            registrations: Mutex::default(),
            next: AtomicU64::new(STOP_EVENT + 1),
            next_client_id: AtomicU32::new(FIRST_CLIENT_ID),
            stop,
            stopped: AtomicBool::new(false),
        }))
    }

    /// Allocates a client ID.
    pub(crate) fn next_client(&self) -> u32 {
        let next = |client_id: u32| Some(client_id.checked_add(1).unwrap_or(FIRST_CLIENT_ID));
        let taken = self.next_client_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.unwrap_or(FIRST_CLIENT_ID)
    }

    /// Watches a doorbell: calls the handler whenever the doorbell is rung, as long as the handler
    /// exists.
    pub(crate) fn register(
        &self,
        bell: &Arc<Doorbell>,
        observer: Weak<dyn KickHandler>,
    ) -> Result<(), Errno> {
        let mut known = lock(&self.registrations);
        known.retain(|_, one| {
            let alive = one.handler.strong_count() > 0;
            if !alive {
                // Programs may still have the doorbell open, which would keep it in the epoll set.
                let _ = epoll::delete(&self.epoll, one.doorbell.as_fd());
            }
            alive
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        epoll::add(&self.epoll, bell.as_fd(), EventData::new_u64(number), EventFlags::IN)?;
        known.insert(number, KickRegistration { doorbell: bell.clone(), handler: observer });
        Ok(())
    }

    /// Handles doorbells until [`Self::stop`] is called or the epoll descriptor fails. A front runs
    /// this in a separate thread.
    pub fn run(&self) {
        let mut events = Vec::with_capacity(64);
        while !self.stopped.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            events.iter().for_each(|event| self.handle_event(event.data.u64()));
        }
    }

    fn handle_event(&self, number: u64) {
        let mut known = lock(&self.registrations);
        let Some(one) = known.get(&number) else { return };
        // Cleared before the handler runs, so that the doorbell is not missed if it is rung again
        // in the meantime.
        one.doorbell.clear();
        match one.handler.upgrade() {
            Some(observer) => {
                drop(known);
                observer.handle_kick();
            }
            None => {
                let _ = epoll::delete(&self.epoll, one.doorbell.as_fd());
                known.remove(&number);
            }
        }
    }

    /// Makes [`Self::run`] return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stop.ring();
    }
}
