//! The sync loop (SYNC_KLOOP_START): runs in the caller's thread until it is stopped, and syncs the
//! rings with the indices in the control blocks.
//!
//! ```text
//!   program --- ioeventfd ---+                       +---> irqfd --- program
//!   peers   --- Waker -------+--> asleep --> rounds --+
//!   STOP, a killed caller ---+                       `---> the end
//! ```
//!
//! With an eventfd for each ring, the loop sleeps when there is nothing to do. Without them, it
//! runs in rounds, `sleep_us` apart. In direct mode, a signal of a ring's eventfd makes the loop
//! sync that ring before the others. As in the other modes, the loop's thread does the work,
//! because a daemon cannot run code in the thread that signals an eventfd.

mod eventfds;

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use slipring_abi::{NmreqSyncKloopStart, SYNC_KLOOP_MAX_SLEEP_US};

use crate::memory::caller::CallerMemory;
use crate::open::csb::Csb;
use crate::open::handle::OpenHandle;
use crate::open::kloop::RunningKloop;
use crate::port::binding::Binding;
use crate::port::waker::{Notify, Waker};
use crate::request::message::NetmapRequest;
use crate::types::cancel::{Cancel, KloopBell};
use crate::types::outcome::SyncStatus;
use eventfds::{KloopKicks, wait_for};

/// The maximum number of syncs of one ring before the other rings get their turn.
const MAX_SYNCS_PER_TURN: u32 = 16;

impl Notify for KloopBell {
    fn notify(&self, _: u64) {
        self.ring();
    }
}

/// Handles `SYNC_KLOOP_STOP`: requests the end of the loop and waits for it.
pub(crate) fn stop(open: &OpenHandle) -> Result<(), Errno> {
    open.bound.get().ok_or(Errno::NXIO)?;
    open.kloop.stop();
    Ok(())
}

/// Handles `SYNC_KLOOP_START`: syncs until the loop is stopped.
pub(crate) fn start(
    open: &OpenHandle,
    request: &mut NetmapRequest,
    caller: &mut dyn CallerMemory,
) -> Result<(), Errno> {
    let wish: NmreqSyncKloopStart = request.read()?;
    let binding = open.bound.get().ok_or(Errno::NXIO)?;
    let csb = open.csb.get().filter(|_| wish.sleep_us <= SYNC_KLOOP_MAX_SLEEP_US);
    let csb = csb.ok_or(Errno::INVAL)?;
    let _descriptors = open.domain.loop_fds.acquire(open.uid(), 1 + 2 * csb.rings.len() as u64)?;
    let kicks = KloopKicks::from_request(request, csb, caller)?;
    request.options.all_used()?;
    let bell = KloopBell::new()?;
    let running = open.kloop.begin(&bell)?;
    let cancel = caller.cancel().unwrap_or_default();
    cancel.set_bell(&bell);
    let waker = Waker::new(bell.clone(), open.waker.ticker());
    let pause = Duration::from_micros(wish.sleep_us.into());
    let listening = WakerRegistration::new(binding, &waker);
    let mut work =
        SyncLoop { open, binding, csb, eventfds: kicks, wake_bell: bell, waker: &waker, caller };
    let done = work.run(&running, &cancel, pause);
    drop(listening);
    done
}

/// Registers a waker with all rings of a bind; dropping the value removes it.
struct WakerRegistration<'b> {
    binding: &'b Binding,
    waker: &'b Arc<Waker>,
}

impl<'b> WakerRegistration<'b> {
    fn new(binding: &'b Binding, waker: &'b Arc<Waker>) -> Self {
        binding.listen(waker);
        Self { binding, waker }
    }
}

impl Drop for WakerRegistration<'_> {
    fn drop(&mut self) {
        self.binding.stop_listening(self.waker);
    }
}

struct SyncLoop<'l> {
    open: &'l OpenHandle,
    binding: &'l Binding,
    csb: &'l Csb,
    eventfds: KloopKicks,
    wake_bell: Arc<KloopBell>,
    waker: &'l Arc<Waker>,
    caller: &'l mut dyn CallerMemory,
}

impl SyncLoop<'_> {
    fn run(
        &mut self,
        running: &RunningKloop<'_>,
        cancel: &Cancel,
        pause: Duration,
    ) -> Result<(), Errno> {
        let all = vec![true; self.csb.rings.len()];
        let (mut due, sleeps) = (all.clone(), self.eventfds.covers_all_rings());
        if !sleeps && pause.is_zero() {
            // The loop never sleeps, so its priority is lowered in favour of threads that sleep.
            let _ = rustix::process::setpriority_process(None, 19);
        }
        while !running.is_stopping() {
            let moved = self.sync_all(&due)?;
            if cancel.is_requested() {
                return Err(Errno::INTR);
            }
            due.clone_from(&all);
            if !sleeps {
                self.sleep(pause);
                continue;
            }
            if moved {
                continue;
            }
            self.waker.arm(0, true, true, false);
            self.csb.rings.iter().for_each(|&(dir, i)| self.binding.port.announce_sleep(dir, i));
            if !self.sync_all(&all)? && !running.is_stopping() && !cancel.is_requested() {
                due = self.eventfds.wait(self.wake_bell.fd(), &self.csb.rings)?;
                self.wake_bell.clear();
            }
        }
        Ok(())
    }

    /// Sleeps until the next round or the end of the loop. Only for loops without an eventfd for
    /// each ring.
    fn sleep(&self, pause: Duration) {
        if pause.is_zero() {
            return std::thread::yield_now();
        }
        wait_for(&[self.wake_bell.fd()], Some(pause));
    }

    /// Serves the rings that are due; returns whether there may be more to do.
    fn sync_all(&mut self, due: &[bool]) -> Result<bool, Errno> {
        if self.open.has_indirect() {
            self.open.fetch_indirect(self.caller)?;
        }
        let mut moved = false;
        for k in (0..due.len()).filter(|&k| due[k]) {
            moved |= self.sync_ring(k)?;
        }
        self.open.write_timestamp(self.binding);
        Ok(moved)
    }

    /// Syncs ring `k` until the program has nothing new. Returns true if it stopped before that, to
    /// let the other rings have their turn.
    fn sync_ring(&mut self, k: usize) -> Result<bool, Errno> {
        self.csb.set_need_kick(k, false, self.caller)?;
        for _ in 0..MAX_SYNCS_PER_TURN {
            let state = self.csb.read(k, self.caller)?;
            let synced = self.sync_once(k, state.head, state.cur)?;
            self.csb.set_need_kick(k, true, self.caller)?;
            let now = self.csb.read(k, self.caller)?;
            // If another thread was syncing the ring, the loop syncs it again: the other thread may
            // have begun its sync before the program's last change.
            if (now.head, now.cur) == (state.head, state.cur) && synced != SyncStatus::Busy {
                return Ok(false);
            }
            self.csb.set_need_kick(k, false, self.caller)?;
        }
        Ok(true)
    }

    /// Syncs once, publishes the result, and wakes the program if it waits and the tail has moved.
    fn sync_once(&mut self, k: usize, head: u32, cur: u32) -> Result<SyncStatus, Errno> {
        let (dir, i) = self.csb.rings[k];
        let ring = self.binding.port.ring(dir, i).ok_or(Errno::IO)?;
        let before = ring.tail();
        ring.store_head_cur(head, cur);
        // Invalid indices reinitialise the ring, as in any sync; the program may write valid
        // indices next.
        let synced = self.binding.sync(dir, i);
        if synced == SyncStatus::Gone {
            return Err(Errno::IO);
        }
        let tail = ring.tail();
        self.csb.publish(k, ring.hwcur(), tail, self.caller)?;
        if tail != before && self.csb.read(k, self.caller)?.needs_kick {
            self.eventfds.wake(k);
        }
        Ok(synced)
    }
}
