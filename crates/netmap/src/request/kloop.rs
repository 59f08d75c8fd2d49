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

/// Looks at one ring in a row, before the others get their turn.
const MAX_SYNCS_PER_TURN: u32 = 16;

impl Notify for KloopBell {
    fn notify(&self, _: u64) {
        self.ring();
    }
}

/// SYNC_KLOOP_STOP: ends the loop and waits for its end.
pub(crate) fn stop(open: &OpenHandle) -> Result<(), Errno> {
    open.bound.get().ok_or(Errno::NXIO)?;
    open.kloop.stop();
    Ok(())
}

/// SYNC_KLOOP_START: syncs until it is stopped.
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

/// A waker in the lists of all rings of a bind, until it is dropped.
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
            // It will never sleep: those who do are to have the processor first.
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

    /// Without kicks: until the next round, unless somebody ends the loop.
    fn sleep(&self, pause: Duration) {
        if pause.is_zero() {
            return std::thread::yield_now();
        }
        wait_for(&[self.wake_bell.fd()], Some(pause));
    }

    /// Serves the rings that are due; whether there may be more to do.
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

    /// Syncs ring `k` until the program has said nothing new; whether its turn ended before.
    fn sync_ring(&mut self, k: usize) -> Result<bool, Errno> {
        self.csb.set_need_kick(k, false, self.caller)?;
        for _ in 0..MAX_SYNCS_PER_TURN {
            let told = self.csb.read(k, self.caller)?;
            let synced = self.sync_once(k, told.head, told.cur)?;
            self.csb.set_need_kick(k, true, self.caller)?;
            let now = self.csb.read(k, self.caller)?;
            // Whoever else was at the ring may have begun before there was anything.
            if (now.head, now.cur) == (told.head, told.cur) && synced != SyncStatus::Busy {
                return Ok(false);
            }
            self.csb.set_need_kick(k, false, self.caller)?;
        }
        Ok(true)
    }

    /// One sync, of which the program is told, and woken where it waits for what there is now.
    fn sync_once(&mut self, k: usize, head: u32, cur: u32) -> Result<SyncStatus, Errno> {
        let (dir, i) = self.csb.rings[k];
        let ring = self.binding.port.ring(dir, i).ok_or(Errno::IO)?;
        let before = ring.tail();
        ring.store_head_cur(head, cur);
        // Impossible indices make the ring anew, as ever; the next ones may be right.
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
