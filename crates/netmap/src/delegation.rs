//! Pipe ends that programs sync in their own processes, beside this one.
//!
//! ```text
//!   program that syncs itself        memory of the user          this process, for all others
//!   HostedTx::attach, sync  ------>  words, rings, slots  <----  HostedRx::sync
//!     bell of the other half  ---------------------------------> another program that syncs itself
//!     kick  ---------------------------------------------------> Kicks: wakes who polls here
//! ```
//!
//! A ring is lent to one program at a time, as long as that has it bound; others that bind it are
//! synced here, through the same words. While somebody monitors an end, all its syncs happen here.

use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use slipring_abi::{DelegatedRingLayout, LENT_RINGS, LENT_SIZE, LENT_VERSION, NR_EXCLUSIVE};
use slipring_ring::{DirectionLayout, Doorbell, SleepAnnouncement, WakeSignals};

use crate::adapter::TxRx;
use crate::binding::Binding;
use crate::domain::lock;
use crate::open::{Netmap, OpenHandle};

/// What a program needs to sync its rings itself.
#[derive(Debug)]
pub struct PipeDelegation {
    /// Its number among all who sync.
    pub client_id: u32,
    /// To be rung where a sync says that the host has to wake somebody.
    pub kick: OwnedFd,
    /// Whether it is to write the time of each rx sync to the ring in any case.
    pub writes_timestamps: bool,
    /// The rings.
    pub halves: Vec<DelegatedHalf>,
}

/// One ring of these.
#[derive(Debug)]
pub struct DelegatedHalf {
    /// Which way.
    pub dir: TxRx,
    /// Which one, as the port counts them.
    pub ring: usize,
    /// Where its direction lies, in bytes from the start of the user's file.
    pub layout: DirectionLayout,
    /// Rings when there is news for a program that said it sleeps.
    pub doorbell: OwnedFd,
    /// To be rung where a sync says that the program at the other end sleeps.
    pub peer_doorbell: OwnedFd,
}

/// What is lent, until it is dropped.
pub type DelegationGuard = Box<dyn Debug + Send + Sync>;

impl OpenHandle {
    /// Lends the rings that are bound to their program. What it holds when the file is closed is
    /// free again.
    ///
    /// # Errors
    /// [`Errno::NXIO`]: nothing is bound. [`Errno::OPNOTSUPP`]: this port is synced by its host.
    /// [`Errno::BUSY`]: a ring is lent already.
    pub fn lend(&self, kicks: &Arc<KickDispatcher>) -> Result<PipeDelegation, Errno> {
        let binding = self.check_socket_delegation()?;
        let region = binding.port.memory().region();
        let mut loan = lock(&binding.delegation);
        if loan.is_some() {
            return Err(Errno::BUSY);
        }
        let (mut lent, made) = binding.port.lend(&binding.rings, kicks)?;
        lent.writes_timestamps = !self.domain.params().no_timestamp;
        for half in &mut lent.halves {
            let place = &mut half.layout;
            for at in [&mut place.words, &mut place.tx, &mut place.rx] {
                *at += region.file_offset();
            }
        }
        *loan = Some(made);
        Ok(lent)
    }
}

impl OpenHandle {
    /// What is bound, where that could be synced by a program of the native door.
    fn check_socket_delegation(&self) -> Result<&Binding, Errno> {
        let binding = self.bound.get().ok_or(Errno::NXIO)?;
        // The process that follows would not know how far programs are that sync themselves.
        if self.csb.get().is_some() || self.domain.commit_log.has_store() {
            return Err(Errno::OPNOTSUPP);
        }
        let region = binding.port.memory().region();
        // The program finds everything in the user's file.
        if rustix::fs::fstat(region.fd())?.st_ino != rustix::fs::fstat(self.domain.file())?.st_ino {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(binding)
    }

    /// What is bound, where that could be synced by a program that has the device open.
    pub(crate) fn check_device_delegation(&self) -> Result<&Binding, Errno> {
        // Who is alone may still hand the rings over to a sync loop.
        if self.bound_rings() > LENT_RINGS || self.is_exclusive() {
            return Err(Errno::OPNOTSUPP);
        }
        self.check_socket_delegation()
    }
}

impl Netmap {
    /// Whoever rings for programs that are synced by this process.
    ///
    /// # Errors
    /// The kernel's, for want of descriptors.
    pub fn kicks(&self) -> Result<Arc<KickDispatcher>, Errno> {
        let mut kicks = lock(&self.kick_dispatcher);
        if let Some(kicks) = &*kicks {
            return Ok(kicks.clone());
        }
        Ok(kicks.insert(KickDispatcher::new()?).clone())
    }

    /// `NIOCLEND`: for a program that has the device open.
    pub(crate) fn lend(&self, open: &OpenHandle, arg: &mut [u8]) -> Result<i32, Errno> {
        let version = arg.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
        if version != Some(LENT_VERSION) || arg.len() != LENT_SIZE {
            return Err(Errno::INVAL);
        }
        open.check_device_delegation()?;
        let lent = open.lend(&self.kicks()?)?;
        let ring = |half: &DelegatedHalf| DelegatedRingLayout {
            words: half.layout.words,
            tx: half.layout.tx,
            rx: half.layout.rx,
            num_slots: half.layout.num_slots,
            receives: half.dir == TxRx::Rx,
            ring: half.ring as u32,
        };
        let rings: Vec<_> = lent.halves.iter().map(ring).collect();
        let answer =
            slipring_abi::encode_delegated_rings(lent.client_id, lent.writes_timestamps, &rings);
        arg.copy_from_slice(&answer.ok_or(Errno::OPNOTSUPP)?);
        Ok(0)
    }
}

impl OpenHandle {
    fn bound_rings(&self) -> usize {
        self.bound.get().map_or(0, |binding| binding.rings.iter().map(Range::len).sum())
    }

    fn is_exclusive(&self) -> bool {
        self.bound.get().is_some_and(|binding| binding.flags & NR_EXCLUSIVE != 0)
    }

    /// `NIOCKICK`.
    pub(crate) fn kick(&self) -> Result<i32, Errno> {
        self.bound.get().ok_or(Errno::NXIO)?.port.kick();
        Ok(0)
    }
}

/// One half of a shared direction, as this process keeps it.
#[derive(Debug)]
pub(crate) struct SharedHalf {
    pub(crate) layout: DirectionLayout,
    pub(crate) signals: WakeSignals,
    /// Wakes the program that it is lent to.
    pub(crate) doorbell: Doorbell,
    /// Whom it is lent to; 0 for nobody.
    holder: AtomicU32,
    /// What is known of the sleep of programs that this process syncs it for.
    sleep_announcement: Mutex<SleepAnnouncement>,
}

impl SharedHalf {
    pub(crate) fn new(place: DirectionLayout, signs: WakeSignals) -> Result<Self, Errno> {
        let bell = Doorbell::new().map_err(|_| Errno::NFILE)?;
        let announced = Mutex::new(SleepAnnouncement::already_announced());
        Ok(Self {
            layout: place,
            signals: signs,
            doorbell: bell,
            holder: AtomicU32::new(0),
            sleep_announcement: announced,
        })
    }

    /// One more program sleeps for which this process syncs; whether those before are to be woken.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.signals.announce_host_sleep(&mut lock(&self.sleep_announcement))
    }

    /// Whether a program has told of news for those.
    pub(crate) fn take_wakeup(&self) -> bool {
        self.signals.take_host_wakeup(&mut lock(&self.sleep_announcement))
    }

    fn acquire(&self, who: u32) -> bool {
        let taken = self.holder.compare_exchange(0, who, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            self.signals.set_holder(who);
        }
        taken.is_ok()
    }

    fn release(&self, who: u32) {
        if self.holder.load(Ordering::Acquire) == who {
            self.signals.release_owner(who);
            self.signals.clear_guest_sleep();
            self.holder.store(0, Ordering::Release);
        }
    }
}

/// All halves of a pipe that is shared: by role and direction.
#[derive(Debug)]
pub(crate) struct SharedPipe {
    pub(crate) halves: [[Vec<SharedHalf>; 2]; 2],
    pub(crate) kick: Arc<Doorbell>,
    pub(crate) pipe: Weak<dyn KickHandler>,
}

impl SharedPipe {
    /// Lends rings of the end `role`.
    pub(crate) fn lend(
        self: &Arc<Self>,
        role: usize,
        rings: &[Range<usize>; 2],
        who: u32,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        // Gives back what it has when something fails.
        let loan = PipeLoan { pipe: self.clone(), role, rings: rings.clone(), client_id: who };
        let mut halves = Vec::new();
        for dir in TxRx::BOTH {
            for ring in rings[dir as usize].clone() {
                let mine = &self.halves[role][dir as usize];
                let half = mine.get(ring).filter(|half| half.acquire(who)).ok_or(Errno::BUSY)?;
                let peer = &self.halves[1 - role][dir.opposite() as usize][ring];
                halves.push(DelegatedHalf {
                    dir,
                    ring,
                    layout: half.layout,
                    doorbell: descriptor(&half.doorbell)?,
                    peer_doorbell: descriptor(&peer.doorbell)?,
                });
            }
        }
        let lent = PipeDelegation {
            client_id: who,
            kick: descriptor(&self.kick)?,
            writes_timestamps: true,
            halves,
        };
        Ok((lent, Box::new(loan)))
    }
}

fn descriptor(bell: &Doorbell) -> Result<OwnedFd, Errno> {
    bell.as_fd().try_clone_to_owned().map_err(|_| Errno::NFILE)
}

/// Rings that are lent.
#[derive(Debug)]
struct PipeLoan {
    pipe: Arc<SharedPipe>,
    role: usize,
    rings: [Range<usize>; 2],
    client_id: u32,
}

impl Drop for PipeLoan {
    fn drop(&mut self) {
        for dir in TxRx::BOTH {
            let halves = &self.pipe.halves[self.role][dir as usize];
            for half in halves.get(self.rings[dir as usize].clone()).unwrap_or_default() {
                half.release(self.client_id);
            }
        }
        // It may have been killed between a sync and the word to those who sleep for it.
        if let Some(pipe) = self.pipe.pipe.upgrade() {
            pipe.handle_client_exit();
        }
    }
}

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
