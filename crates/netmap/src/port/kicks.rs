//! Doorbells by which programs that sync in their own processes notify this one.

use std::collections::HashMap;
use std::fmt::Debug;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use slipring_ring::Doorbell;

use crate::types::lock::lock;

/// Who is to be told when a bell was rung.
pub(crate) trait KickHandler: Send + Sync + Debug {
    /// Somebody rang.
    fn handle_kick(&self);

    /// A program that synced by itself is gone, and whom it had to tell of what may not know.
    fn handle_client_exit(&self);
}

/// The bells that programs ring which sync in their own processes, so that those are woken who
/// are synced by this one.
#[derive(Debug)]
pub struct KickDispatcher {
    epoll: OwnedFd,
    /// By the number that the kernel tells.
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

/// The number of the bell that ends it.
const STOP_EVENT: u64 = 0;
/// The first number that a program gets: 0 is nobody, 1 the host. None is like what stands in rings, for
/// programs that look where words were that are no more.
const FIRST_CLIENT_ID: u32 = 1 << 31;

impl KickDispatcher {
    /// Without any bell.
    ///
    /// # Errors
    /// The kernel's, for want of descriptors.
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

    /// A number for a program.
    pub(crate) fn next_client(&self) -> u32 {
        let next = |who: u32| Some(who.checked_add(1).unwrap_or(FIRST_CLIENT_ID));
        let taken = self.next_client_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.unwrap_or(FIRST_CLIENT_ID)
    }

    /// Hears of `bell` for `whom`, as long as that is there.
    pub(crate) fn register(
        &self,
        bell: &Arc<Doorbell>,
        whom: Weak<dyn KickHandler>,
    ) -> Result<(), Errno> {
        let mut known = lock(&self.registrations);
        known.retain(|_, one| {
            let alive = one.handler.strong_count() > 0;
            if !alive {
                // Programs may have it still, so it would stay.
                let _ = epoll::delete(&self.epoll, one.doorbell.as_fd());
            }
            alive
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        epoll::add(&self.epoll, bell.as_fd(), EventData::new_u64(number), EventFlags::IN)?;
        known.insert(number, KickRegistration { doorbell: bell.clone(), handler: whom });
        Ok(())
    }

    /// Wakes those who are to be woken until [`Self::stop`]; a front gives it a thread.
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
        // Before anybody is woken: who rings from now on is heard again.
        one.doorbell.clear();
        match one.handler.upgrade() {
            Some(whom) => {
                drop(known);
                whom.handle_kick();
            }
            None => {
                let _ = epoll::delete(&self.epoll, one.doorbell.as_fd());
                known.remove(&number);
            }
        }
    }

    /// Ends [`Self::run`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stop.ring();
    }
}
