//! Changes the settings of a card whose port is in use. Any thread can request a change; only the
//! queue accesses the registers.
//!
//! ```text
//!   thread of a listener        CardControl             the queue, in its next sync or sleep
//!   request() ---------------> request, flag ---------> take
//!        | wakes a sleeping program by the               | NicChip: registers
//!        v interrupt's event                             v
//!   status, or a refusal <----- answer <--------------- answer
//! ```
//! While there is no request, this costs the queue one load per sync.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::chip::LinkState;
use crate::listener::{SettingsSocket, has_gone};
use crate::settings::{CardSettings, SettingRefusal, SettingsRequest};

/// Maximum time from a request to the next sync of the program.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a card, and the state of its link when it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardStatus {
    /// The settings in use.
    pub settings: CardSettings,
    /// The state of the link. After a change the link may still be down, while both ends negotiate.
    pub link: LinkState,
}

/// Passes requests to the queue of a card.
#[derive(Debug, Default)]
pub struct CardControl {
    /// Whether the queue must act: there is a request, or a socket whose thread must be started, or
    /// the kernel wants the device back.
    has_request: AtomicBool,
    exchange: Mutex<Exchange>,
    answered: Condvar,
    /// Locked during a request, so that there is only one request at a time.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Exchange {
    /// Eventfds that are written when there is a request, when the kernel wants the device back,
    /// and when the queue closes: that of the interrupt, which wakes a sleeping program, and those
    /// of listeners.
    wakes: Vec<OwnedFd>,
    /// Number of the current request. An answer with another number belongs to an earlier request,
    /// and comes too late.
    number: u64,
    request: Option<SettingsRequest>,
    answer: Option<Result<CardStatus, SettingRefusal>>,
    is_closed: bool,
    /// Whether the kernel wants the device back.
    is_revoked: bool,
    /// The socket of [`crate::listen`], until its thread is started.
    socket: Option<SettingsSocket>,
    /// The thread that serves the socket.
    thread: Option<JoinHandle<()>>,
    /// The client that the thread serves.
    client: Option<Arc<UnixStream>>,
}

impl CardControl {
    /// Asks the queue to change settings, and returns the new status; an empty request asks for the
    /// status alone. Waits until the program syncs the port or sleeps.
    ///
    /// # Errors
    /// [`SettingRefusal`] if the chip does not have a setting, if the program does not use its port
    /// in time, or if the port is closed.
    pub fn request(&self, request: SettingsRequest) -> Result<CardStatus, SettingRefusal> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut exchange = self.lock();
        exchange.number += 1;
        (exchange.request, exchange.answer) = (Some(request), None);
        // Release: pairs with the load in `has_request`. The lock orders the accesses to the
        // request itself.
        self.has_request.store(true, Ordering::Release);
        exchange.wake();
        let deadline = Instant::now() + SYNC_TIMEOUT;
        loop {
            if let Some(answer) = exchange.answer.take() {
                return answer;
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if exchange.is_closed || rest.is_zero() {
                exchange.request = None;
                return Err(unanswered(exchange.is_closed));
            }
            let waited = self.answered.wait_timeout(exchange, rest);
            exchange = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Adds an event that is written when there is a request, when the kernel wants the device
    /// back, and when the queue closes.
    pub(crate) fn wake_by(&self, event: OwnedFd) {
        self.lock().wakes.push(event);
    }

    /// Makes the queue start a thread that serves a socket.
    pub(crate) fn serve(&self, socket: SettingsSocket) {
        let mut exchange = self.lock();
        if !exchange.is_closed {
            exchange.socket = Some(socket);
            self.has_request.store(true, Ordering::Release);
        }
    }

    /// Makes the queue end its port, because the kernel wants the device back.
    pub(crate) fn revoke(&self) {
        let mut exchange = self.lock();
        exchange.is_revoked = true;
        self.has_request.store(true, Ordering::Release);
        exchange.wake();
    }

    /// Returns whether the kernel wants the device back.
    pub(crate) fn is_revoked(&self) -> bool {
        self.lock().is_revoked
    }

    /// Returns whether there may be a request, a socket to serve, or a wish of the kernel to have
    /// the device back.
    #[inline(always)]
    pub(crate) fn has_request(&self) -> bool {
        self.has_request.load(Ordering::Acquire)
    }

    /// Takes the pending request, if any: its number, which the answer must carry, and its
    /// contents. Refuses a request whose client has gone, for example because this process was
    /// stopped for a while: such a client has told its user that nothing was changed.
    ///
    /// The first call starts the thread of the socket. A program syncs its ports only after it has
    /// dropped its privileges, so this thread has none either.
    pub(crate) fn take(self: &Arc<Self>) -> Option<(u64, SettingsRequest)> {
        let mut exchange = self.lock();
        self.has_request.store(false, Ordering::Relaxed);
        if let Some(socket) = exchange.socket.take() {
            // If no thread can be started, the socket is closed, and a client's `ask` fails.
            exchange.thread = socket.start_thread(self.clone()).ok();
        }
        let request = exchange.request.take()?;
        if exchange.client.as_ref().is_some_and(|client| has_gone(client)) {
            let reason = "the client has given up".to_owned();
            exchange.answer = Some(Err(SettingRefusal::new(reason, "run the command again")));
            self.answered.notify_all();
            return None;
        }
        Some((exchange.number, request))
    }

    pub(crate) fn answer(&self, number: u64, answer: Result<CardStatus, SettingRefusal>) {
        let mut exchange = self.lock();
        if exchange.number == number {
            exchange.answer = Some(answer);
            self.answered.notify_all();
        }
    }

    /// Registers the client that the thread of the socket serves; `None` after it was served.
    /// Returns false if the queue no longer exists: then the client must not be served.
    pub(crate) fn set_client(&self, client: Option<Arc<UnixStream>>) -> bool {
        let mut exchange = self.lock();
        exchange.client = client;
        !exchange.is_closed
    }

    /// Makes the current request and all later ones fail, because the queue no longer exists. Waits
    /// until the socket is closed, so that its name is free for the next port.
    pub(crate) fn close(&self) {
        let mut exchange = self.lock();
        exchange.is_closed = true;
        exchange.socket = None;
        if let Some(client) = exchange.client.take() {
            // Ends a read of the thread. The thread can still write its answer.
            let _ = client.shutdown(Shutdown::Read);
        }
        exchange.wake();
        self.answered.notify_all();
        let thread = exchange.thread.take();
        drop(exchange);
        if let Some(thread) = thread {
            // An error means that the thread has panicked. Its socket is closed even then.
            let _ = thread.join();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    fn wake(&self) {
        for event in &self.wakes {
            // This cannot fail: the counter of an eventfd is full only if no thread has read it for
            // 2^64 events.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}

fn unanswered(is_closed: bool) -> SettingRefusal {
    if is_closed {
        return SettingRefusal::new(
            "the port has just been closed".into(),
            "run the command again",
        );
    }
    let reason = format!("the program has not used its port for {} s", SYNC_TIMEOUT.as_secs());
    SettingRefusal::new(reason, "continue the program (kill -CONT PID), and run the command again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_request_to_a_closed_port_ends_at_once() {
        let control = Arc::new(CardControl::default());
        let asked = control.clone();
        let client = std::thread::spawn(move || asked.request(SettingsRequest::default()));
        control.close();
        assert!(client.join().unwrap().unwrap_err().reason.contains("closed"));
    }

    /// While a process is stopped, its clients wait in vain and give up. When the process
    /// continues, the queue may take a request before the thread that made it runs again.
    #[test]
    fn a_request_whose_client_has_gone_while_the_program_was_stopped_is_not_executed() {
        let control = Arc::new(CardControl::default());
        let (client, served) = UnixStream::pair().unwrap();
        assert!(control.set_client(Some(Arc::new(served))));
        let asked = control.clone();
        let thread = std::thread::spawn(move || asked.request("speed=10".parse().unwrap()));
        while !control.has_request() {
            std::thread::yield_now();
        }
        drop(client);
        assert_eq!(control.take(), None);
        assert!(thread.join().unwrap().is_err());
    }
}
