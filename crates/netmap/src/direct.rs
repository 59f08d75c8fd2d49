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
use slipring_abi::{LENT_RINGS, LENT_SIZE, LENT_VERSION, LentRing, NR_EXCLUSIVE};
use slipring_ring::{Announced, Doorbell, Place, Signs};

use crate::adapter::Dir;
use crate::binding::Binding;
use crate::domain::lock;
use crate::open::{Netmap, Open};

/// What a program needs to sync its rings itself.
#[derive(Debug)]
pub struct Lent {
    /// Its number among all who sync.
    pub who: u32,
    /// To be rung where a sync says that the host has to wake somebody.
    pub kick: OwnedFd,
    /// Whether it is to write the time of each rx sync to the ring in any case.
    pub stamps: bool,
    /// The rings.
    pub halves: Vec<LentHalf>,
}

/// One ring of these.
#[derive(Debug)]
pub struct LentHalf {
    /// Which way.
    pub dir: Dir,
    /// Which one, as the port counts them.
    pub ring: usize,
    /// Where its direction lies, in bytes from the start of the user's file.
    pub place: Place,
    /// Rings when there is news for a program that said it sleeps.
    pub bell: OwnedFd,
    /// To be rung where a sync says that the program at the other end sleeps.
    pub peer: OwnedFd,
}

/// What is lent, until it is dropped.
pub type Loan = Box<dyn Debug + Send + Sync>;

impl Open {
    /// Lends the rings that are bound to their program. What it holds when the file is closed is
    /// free again.
    ///
    /// # Errors
    /// [`Errno::NXIO`]: nothing is bound. [`Errno::OPNOTSUPP`]: this port is synced by its host.
    /// [`Errno::BUSY`]: a ring is lent already.
    pub fn lend(&self, kicks: &Arc<Kicks>) -> Result<Lent, Errno> {
        let binding = self.may_be_lent_by_socket()?;
        let region = binding.port.memory().region();
        let mut loan = lock(&binding.loan);
        if loan.is_some() {
            return Err(Errno::BUSY);
        }
        let (mut lent, made) = binding.port.lend(&binding.rings, kicks)?;
        lent.stamps = !self.domain.params().no_timestamp;
        for half in &mut lent.halves {
            let place = &mut half.place;
            for at in [&mut place.words, &mut place.tx, &mut place.rx] {
                *at += region.at();
            }
        }
        *loan = Some(made);
        Ok(lent)
    }
}

impl Open {
    /// What is bound, where that could be synced by a program of the native door.
    fn may_be_lent_by_socket(&self) -> Result<&Binding, Errno> {
        let binding = self.bound.get().ok_or(Errno::NXIO)?;
        // The process that follows would not know how far programs are that sync themselves.
        if self.csb.get().is_some() || self.domain.book.has_store() {
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
    pub(crate) fn may_be_lent(&self) -> Result<&Binding, Errno> {
        // Who is alone may still hand the rings over to a sync loop.
        if self.bound_rings() > LENT_RINGS || self.is_alone() {
            return Err(Errno::OPNOTSUPP);
        }
        self.may_be_lent_by_socket()
    }
}

impl Netmap {
    /// Whoever rings for programs that are synced by this process.
    ///
    /// # Errors
    /// The kernel's, for want of descriptors.
    pub fn kicks(&self) -> Result<Arc<Kicks>, Errno> {
        let mut kicks = lock(&self.kicks);
        if let Some(kicks) = &*kicks {
            return Ok(kicks.clone());
        }
        Ok(kicks.insert(Kicks::new()?).clone())
    }

    /// `NIOCLEND`: for a program that has the device open.
    pub(crate) fn lend(&self, open: &Open, arg: &mut [u8]) -> Result<i32, Errno> {
        let version = arg.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
        if version != Some(LENT_VERSION) || arg.len() != LENT_SIZE {
            return Err(Errno::INVAL);
        }
        open.may_be_lent()?;
        let lent = open.lend(&self.kicks()?)?;
        let ring = |half: &LentHalf| LentRing {
            words: half.place.words,
            tx: half.place.tx,
            rx: half.place.rx,
            num_slots: half.place.num_slots,
            receives: half.dir == Dir::Rx,
            ring: half.ring as u32,
        };
        let rings: Vec<_> = lent.halves.iter().map(ring).collect();
        let answer = slipring_abi::lent(lent.who, lent.stamps, &rings);
        arg.copy_from_slice(&answer.ok_or(Errno::OPNOTSUPP)?);
        Ok(0)
    }
}

impl Open {
    fn bound_rings(&self) -> usize {
        self.bound.get().map_or(0, |binding| binding.rings.iter().map(Range::len).sum())
    }

    fn is_alone(&self) -> bool {
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
pub(crate) struct Half {
    pub(crate) place: Place,
    pub(crate) signs: Signs,
    /// Wakes the program that it is lent to.
    pub(crate) bell: Doorbell,
    /// Whom it is lent to; 0 for nobody.
    holder: AtomicU32,
    /// What is known of the sleep of programs that this process syncs it for.
    announced: Mutex<Announced>,
}

impl Half {
    pub(crate) fn new(place: Place, signs: Signs) -> Result<Self, Errno> {
        let bell = Doorbell::new().map_err(|_| Errno::NFILE)?;
        let announced = Mutex::new(Announced::for_earlier_sleepers());
        Ok(Self { place, signs, bell, holder: AtomicU32::new(0), announced })
    }

    /// One more program sleeps for which this process syncs; whether those before are to be woken.
    pub(crate) fn expects(&self) -> bool {
        self.signs.host_sleeps(&mut lock(&self.announced))
    }

    /// Whether a program has told of news for those.
    pub(crate) fn is_called(&self) -> bool {
        self.signs.host_is_called(&mut lock(&self.announced))
    }

    fn take(&self, who: u32) -> bool {
        let taken = self.holder.compare_exchange(0, who, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            self.signs.lend_to(who);
        }
        taken.is_ok()
    }

    fn give_back(&self, who: u32) {
        if self.holder.load(Ordering::Acquire) == who {
            self.signs.free_of(who);
            self.signs.guest_is_awake();
            self.holder.store(0, Ordering::Release);
        }
    }
}

/// All halves of a pipe that is shared: by role and direction.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub(crate) halves: [[Vec<Half>; 2]; 2],
    pub(crate) kick: Arc<Doorbell>,
    pub(crate) pipe: Weak<dyn Kicked>,
}

impl Sharing {
    /// Lends rings of the end `role`.
    pub(crate) fn lend(
        self: &Arc<Self>,
        role: usize,
        rings: &[Range<usize>; 2],
        who: u32,
    ) -> Result<(Lent, Loan), Errno> {
        // Gives back what it has when something fails.
        let loan = Lending { sharing: self.clone(), role, rings: rings.clone(), who };
        let mut halves = Vec::new();
        for dir in Dir::BOTH {
            for ring in rings[dir as usize].clone() {
                let mine = &self.halves[role][dir as usize];
                let half = mine.get(ring).filter(|half| half.take(who)).ok_or(Errno::BUSY)?;
                let peer = &self.halves[1 - role][dir.other() as usize][ring];
                halves.push(LentHalf {
                    dir,
                    ring,
                    place: half.place,
                    bell: descriptor(&half.bell)?,
                    peer: descriptor(&peer.bell)?,
                });
            }
        }
        let lent = Lent { who, kick: descriptor(&self.kick)?, stamps: true, halves };
        Ok((lent, Box::new(loan)))
    }
}

fn descriptor(bell: &Doorbell) -> Result<OwnedFd, Errno> {
    bell.as_fd().try_clone_to_owned().map_err(|_| Errno::NFILE)
}

/// Rings that are lent.
#[derive(Debug)]
struct Lending {
    sharing: Arc<Sharing>,
    role: usize,
    rings: [Range<usize>; 2],
    who: u32,
}

impl Drop for Lending {
    fn drop(&mut self) {
        for dir in Dir::BOTH {
            let halves = &self.sharing.halves[self.role][dir as usize];
            for half in halves.get(self.rings[dir as usize].clone()).unwrap_or_default() {
                half.give_back(self.who);
            }
        }
        // It may have been killed between a sync and the word to those who sleep for it.
        if let Some(pipe) = self.sharing.pipe.upgrade() {
            pipe.deserted();
        }
    }
}

/// Who is to be told when a bell was rung.
pub(crate) trait Kicked: Send + Sync + Debug {
    /// Somebody rang.
    fn kicked(&self);

    /// A program that synced by itself is gone, and whom it had to tell of what may not know.
    fn deserted(&self);
}

/// The bells that programs ring which sync in their own processes, so that those are woken who
/// are synced by this one.
#[derive(Debug)]
pub struct Kicks {
    epoll: OwnedFd,
    /// By the number that the kernel tells.
    known: Mutex<HashMap<u64, Known>>,
    next: AtomicU64,
    who: AtomicU32,
    stop: Doorbell,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Known {
    bell: Arc<Doorbell>,
    whom: Weak<dyn Kicked>,
}

/// The number of the bell that ends it.
const STOP: u64 = 0;
/// The first number that a program gets: 0 is nobody, 1 the host. None is like what stands in rings, for
/// programs that look where words were that are no more.
const FIRST: u32 = 1 << 31;

impl Kicks {
    /// Without any bell.
    ///
    /// # Errors
    /// The kernel's, for want of descriptors.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = Doorbell::new().map_err(|_| Errno::NFILE)?;
        epoll::add(&epoll, stop.as_fd(), EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Arc::new(Self {
            epoll,
            known: Mutex::default(),
            next: AtomicU64::new(STOP + 1),
            who: AtomicU32::new(FIRST),
            stop,
            stopped: AtomicBool::new(false),
        }))
    }

    /// A number for a program.
    pub(crate) fn number(&self) -> u32 {
        let next = |who: u32| Some(who.checked_add(1).unwrap_or(FIRST));
        let taken = self.who.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.unwrap_or(FIRST)
    }

    /// Hears of `bell` for `whom`, as long as that is there.
    pub(crate) fn add(&self, bell: &Arc<Doorbell>, whom: Weak<dyn Kicked>) -> Result<(), Errno> {
        let mut known = lock(&self.known);
        known.retain(|_, one| {
            let alive = one.whom.strong_count() > 0;
            if !alive {
                // Programs may have it still, so it would stay.
                let _ = epoll::delete(&self.epoll, one.bell.as_fd());
            }
            alive
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        epoll::add(&self.epoll, bell.as_fd(), EventData::new_u64(number), EventFlags::IN)?;
        known.insert(number, Known { bell: bell.clone(), whom });
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
            events.iter().for_each(|event| self.rung(event.data.u64()));
        }
    }

    fn rung(&self, number: u64) {
        let mut known = lock(&self.known);
        let Some(one) = known.get(&number) else { return };
        // Before anybody is woken: who rings from now on is heard again.
        one.bell.silence();
        match one.whom.upgrade() {
            Some(whom) => {
                drop(known);
                whom.kicked();
            }
            None => {
                let _ = epoll::delete(&self.epoll, one.bell.as_fd());
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
