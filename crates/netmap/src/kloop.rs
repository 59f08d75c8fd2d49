//! The sync loop (SYNC_KLOOP_START): the caller's thread is lent to us until somebody stops it, and
//! syncs what the control blocks say.
//!
//! ```text
//!   program --- ioeventfd ---+                       +---> irqfd --- program
//!   peers   --- Waker -------+--> asleep --> rounds --+
//!   STOP, a killed caller ---+                       `---> the end
//! ```
//!
//! With an eventfd for each ring it sleeps when there is nothing to do. Without, it goes on round by
//! round, `sleep_us` apart. In direct mode a kick means its own ring only; everything is done by the
//! loop's thread all the same, as the kick of an eventfd cannot run anything of ours in the kicker's.

mod kicks;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use slipring_abi::{NmreqSyncKloopStart, SYNC_KLOOP_MAX_SLEEP_US};

use crate::adapter::{Dir, Synced};
use crate::binding::Binding;
use crate::caller::CallerMemory;
use crate::csb::Csb;
use crate::domain::lock;
use crate::open::Open;
use crate::request::Request;
use crate::waker::{Notify, Waker};
use kicks::Kicks;

/// Looks at one ring in a row, before the others get their turn.
const TURNS: u32 = 16;

/// Makes a sleeping loop look.
#[derive(Debug)]
struct Bell(OwnedFd);

impl Bell {
    fn new() -> Result<Arc<Self>, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).map(Arc::new).map_err(|_| Errno::NOMEM)
    }

    fn ring(&self) {
        // A full counter makes it look as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl Notify for Bell {
    fn notify(&self, _: u64) {
        self.ring();
    }
}

/// Ends a call that would go on: its caller was killed, or has a signal to handle.
#[derive(Debug, Default)]
pub struct Cancel(Mutex<(bool, Option<Arc<Bell>>)>);

impl Cancel {
    /// Asks for the end, which comes soon.
    pub fn cancel(&self) {
        let mut state = lock(&self.0);
        state.0 = true;
        if let Some(bell) = &state.1 {
            bell.ring();
        }
    }

    /// Whether that has been asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        lock(&self.0).0
    }

    /// Rings from now on, if it is asked for.
    fn watch(&self, bell: &Arc<Bell>) {
        lock(&self.0).1 = Some(bell.clone());
    }
}

/// Descriptors that the loops of one user have, who may have a part of all of them. Root has no
/// limit.
#[derive(Debug, Default)]
pub(crate) struct Share(Mutex<u64>);

/// Some of them, until it is dropped.
struct Taken<'s>(&'s Share, u64);

impl Share {
    /// One user's part, as a divisor.
    const PART: u64 = 8;

    fn take(&self, uid: u32, count: u64) -> Result<Taken<'_>, Errno> {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / Self::PART;
        let mut taken = lock(&self.0);
        if uid != 0 && *taken + count > most {
            return Err(Errno::NOMEM);
        }
        *taken += count;
        Ok(Taken(self, count))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) -= self.1;
    }
}

/// Whether a loop of one open file runs.
#[derive(Debug, Default)]
pub(crate) struct Kloop {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Arc<Bell>>,
    /// As in netmap, a stop before the start ends the next loop at once: the thread that starts it
    /// may be late.
    stopping: bool,
}

impl Kloop {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn begin(&self, bell: &Arc<Bell>) -> Result<Running<'_>, Errno> {
        let mut state = self.lock();
        if state.running.is_some() {
            return Err(Errno::BUSY);
        }
        state.running = Some(bell.clone());
        Ok(Running(self))
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        if let Some(bell) = &state.running {
            bell.ring();
        }
        let runs = |state: &mut State| state.running.is_some();
        drop(self.ended.wait_while(state, runs).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A loop, until it is dropped.
struct Running<'k>(&'k Kloop);

impl Running<'_> {
    fn is_stopping(&self) -> bool {
        self.0.lock().stopping
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.lock() = State::default();
        self.0.ended.notify_all();
    }
}

/// SYNC_KLOOP_STOP: ends the loop and waits for its end.
pub(crate) fn stop(open: &Open) -> Result<(), Errno> {
    open.bound.get().ok_or(Errno::NXIO)?;
    open.kloop.stop();
    Ok(())
}

/// SYNC_KLOOP_START: syncs until it is stopped.
pub(crate) fn start(
    open: &Open,
    request: &mut Request,
    caller: &mut dyn CallerMemory,
) -> Result<(), Errno> {
    let wish: NmreqSyncKloopStart = request.read()?;
    let binding = open.bound.get().ok_or(Errno::NXIO)?;
    let csb = open.csb.get().filter(|_| wish.sleep_us <= SYNC_KLOOP_MAX_SLEEP_US);
    let csb = csb.ok_or(Errno::INVAL)?;
    let _descriptors = open.domain.loops.take(open.uid(), 1 + 2 * csb.rings.len() as u64)?;
    let kicks = Kicks::of(request, csb, caller)?;
    request.options.all_used()?;
    let bell = Bell::new()?;
    let running = open.kloop.begin(&bell)?;
    let cancel = caller.cancel().unwrap_or_default();
    cancel.watch(&bell);
    let waker = Waker::new(bell.clone(), open.waker.ticker());
    let pause = Duration::from_micros(wish.sleep_us.into());
    let listening = Listening::new(binding, &waker);
    let mut work = Loop { open, binding, csb, kicks, bell, waker: &waker, caller };
    let done = work.run(&running, &cancel, pause);
    drop(listening);
    done
}

/// A waker in the lists of all rings of a bind, until it is dropped.
struct Listening<'b> {
    binding: &'b Binding,
    waker: &'b Arc<Waker>,
}

impl<'b> Listening<'b> {
    fn new(binding: &'b Binding, waker: &'b Arc<Waker>) -> Self {
        binding.listen(waker);
        Self { binding, waker }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.binding.stop_listening(self.waker);
    }
}

struct Loop<'l> {
    open: &'l Open,
    binding: &'l Binding,
    csb: &'l Csb,
    kicks: Kicks,
    bell: Arc<Bell>,
    waker: &'l Arc<Waker>,
    caller: &'l mut dyn CallerMemory,
}

impl Loop<'_> {
    fn run(
        &mut self,
        running: &Running<'_>,
        cancel: &Cancel,
        pause: Duration,
    ) -> Result<(), Errno> {
        let all = vec![true; self.csb.rings.len()];
        let (mut due, sleeps) = (all.clone(), self.kicks.are_complete());
        if !sleeps && pause.is_zero() {
            // It will never sleep: those who do are to have the processor first.
            let _ = rustix::process::setpriority_process(None, 19);
        }
        while !running.is_stopping() {
            let moved = self.round(&due)?;
            if cancel.is_asked() {
                return Err(Errno::INTR);
            }
            due.clone_from(&all);
            if !sleeps {
                self.pause(pause);
                continue;
            }
            if moved {
                continue;
            }
            self.waker.arm(0, true, true, false);
            self.csb.rings.iter().for_each(|&(dir, i)| self.binding.port.expects(dir, i));
            if !self.round(&all)? && !running.is_stopping() && !cancel.is_asked() {
                due = self.kicks.wait(self.bell.0.as_fd(), &self.csb.rings)?;
                self.bell.clear();
            }
        }
        Ok(())
    }

    /// Without kicks: until the next round, unless somebody ends the loop.
    fn pause(&self, pause: Duration) {
        if pause.is_zero() {
            return std::thread::yield_now();
        }
        wait_for(&[self.bell.0.as_fd()], Some(pause));
    }

    /// Serves the rings that are due; whether there may be more to do.
    fn round(&mut self, due: &[bool]) -> Result<bool, Errno> {
        if self.open.has_indirect() {
            self.open.fetch_indirect(self.caller)?;
        }
        let mut moved = false;
        for k in (0..due.len()).filter(|&k| due[k]) {
            moved |= self.serve(k)?;
        }
        self.open.stamp(self.binding);
        Ok(moved)
    }

    /// Syncs ring `k` until the program has said nothing new; whether its turn ended before.
    fn serve(&mut self, k: usize) -> Result<bool, Errno> {
        self.csb.want_kick(k, false, self.caller)?;
        for _ in 0..TURNS {
            let told = self.csb.read(k, self.caller)?;
            let synced = self.sync(k, told.head, told.cur)?;
            self.csb.want_kick(k, true, self.caller)?;
            let now = self.csb.read(k, self.caller)?;
            // Whoever else was at the ring may have begun before there was anything.
            if (now.head, now.cur) == (told.head, told.cur) && synced != Synced::Busy {
                return Ok(false);
            }
            self.csb.want_kick(k, false, self.caller)?;
        }
        Ok(true)
    }

    /// One sync, of which the program is told, and woken where it waits for what there is now.
    fn sync(&mut self, k: usize, head: u32, cur: u32) -> Result<Synced, Errno> {
        let (dir, i) = self.csb.rings[k];
        let ring = self.binding.port.ring(dir, i).ok_or(Errno::IO)?;
        let before = ring.tail();
        ring.carry(head, cur);
        // Impossible indices make the ring anew, as ever; the next ones may be right.
        let synced = self.binding.sync(dir, i);
        if synced == Synced::Gone {
            return Err(Errno::IO);
        }
        let tail = ring.tail();
        self.csb.publish(k, ring.hwcur(), tail, self.caller)?;
        if tail != before && self.csb.read(k, self.caller)?.sleeps {
            self.kicks.wake(k);
        }
        Ok(synced)
    }
}

/// Waits until one of them is readable, or the time is over; which are.
fn wait_for(fds: &[BorrowedFd<'_>], time: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let time = time.map(|time| Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    });
    // A signal to this process looks like a spurious wake-up.
    let _ = poll(&mut polled, time.as_ref());
    polled.iter().map(|one| !one.revents().is_empty()).collect()
}

/// Which direction a ring has, for [`Kicks`].
type Rings = [(Dir, usize)];
