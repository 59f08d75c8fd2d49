//! Tests of the thread's rounds with queues whose events the tests raise.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use slipring_port::{Nanos, QueueCounters, QueueRings, RunError, WaitFds, now};

use super::*;

/// An event that a test raises, and that `after_sleep` reads.
type Event = Arc<OwnedFd>;

fn event() -> Event {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

fn raise(event: &OwnedFd) {
    rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
}

/// A queue that reads its event after a sleep, as those of cards and sockets do.
struct EventQueue {
    inner: Box<dyn Queue>,
    event: Event,
    is_armed: Arc<AtomicBool>,
    /// Returns the deadline if it is asked for now.
    deadline: fn() -> Option<Nanos>,
    /// The event that the next `after_sleep` raises; `None` if it raises none.
    next: Option<Event>,
}

impl Queue for EventQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.inner.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.inner.tx_sync()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.inner.rx_sync()
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds { rx: Some(self.event.as_fd()), tx: None, link: None }
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.deadline)()
    }

    fn before_sleep(&mut self, _interest: Interest) {
        self.is_armed.store(true, Ordering::Relaxed);
    }

    fn after_sleep(&mut self) {
        if let Some(next) = self.next.take() {
            raise(&next);
        }
        self.is_armed.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }
}

/// A queue, and how often its clients were woken: while it was not armed, and while it was.
struct Polled {
    driver: Mutex<Box<dyn Queue>>,
    is_armed: Arc<AtomicBool>,
    wakes: [AtomicU32; 2],
}

impl Polled {
    fn new(event: &Event, deadline: fn() -> Option<Nanos>, next: Option<Event>) -> Self {
        let inner = slipring_core::open("null:").unwrap().queues.remove(0);
        let is_armed = Arc::<AtomicBool>::default();
        let (event, armed) = (event.clone(), is_armed.clone());
        let queue = EventQueue { inner, event, is_armed: armed, deadline, next };
        Self { driver: Mutex::new(Box::new(queue)), is_armed, wakes: Default::default() }
    }

    /// Returns how often the clients were woken while the queue was not armed, and while it was.
    fn wakes(&self) -> [u32; 2] {
        self.wakes.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl PolledQueue for Polled {
    fn driver(&self) -> MutexGuard<'_, Box<dyn Queue>> {
        self.driver.lock().unwrap()
    }

    fn is_tx_full(&self) -> bool {
        false
    }

    fn wake(&self) {
        let armed = usize::from(self.is_armed.load(Ordering::Relaxed));
        self.wakes[armed].fetch_add(1, Ordering::Relaxed);
    }
}

fn rounds(queues: &[Polled], count: usize) {
    let fds: Vec<_> = queues.iter().map(|queue| fds_of(queue).unwrap()).collect();
    let (bell, mut past) = (event(), DeadlineWakes::new(queues.len()));
    for _ in 0..count {
        poll_once(queues, &fds, bell.as_fd(), &mut past);
    }
}

#[test]
fn an_event_that_comes_while_another_queue_is_served_wakes_its_clients() {
    let events = [event(), event()];
    let queues = [
        Polled::new(&events[0], || None, Some(events[1].clone())),
        Polled::new(&events[1], || None, None),
    ];
    raise(&events[0]);
    rounds(&queues, 2);
    assert_eq!(queues.each_ref().map(Polled::wakes), [[0, 1]; 2]);
}

#[test]
fn clients_are_woken_once_the_queue_is_armed_again() {
    let event = event();
    let queues = [Polled::new(&event, || None, None)];
    for _ in 0..3 {
        raise(&event);
        rounds(&queues, 1);
    }
    assert_eq!(queues[0].wakes(), [0, 3]);
}

#[test]
fn a_queue_with_a_deadline_wakes_its_clients_while_another_has_events_all_the_time() {
    let events = [event(), event()];
    let busy = Polled::new(&events[0], || None, None);
    let queues = [busy, Polled::new(&events[1], || Some(now() + 1_000_000), None)];
    let fds: Vec<_> = queues.iter().map(|queue| fds_of(queue).unwrap()).collect();
    let bell = event();
    let start = Instant::now();
    let mut past = DeadlineWakes::new(2);
    past.last = start.checked_sub(SLEEP).unwrap();
    raise(&events[0]);
    poll_once(&queues, &fds, bell.as_fd(), &mut past);
    assert_eq!(queues.each_ref().map(Polled::wakes), [[0, 1]; 2]);
    assert!(past.last >= start);
}

#[test]
fn without_events_only_a_queue_with_a_deadline_that_is_near_wakes_its_clients() {
    const AN_HOUR: Nanos = 3_600_000_000_000;
    let deadlines: [fn() -> Option<Nanos>; 3] = [|| Some(now()), || Some(now() + AN_HOUR), || None];
    let events = deadlines.map(|deadline| (event(), deadline));
    let queues = events.each_ref().map(|(event, deadline)| Polled::new(event, *deadline, None));
    rounds(&queues, 2);
    assert_eq!(queues.each_ref().map(Polled::wakes), [[0, 2], [0, 0], [0, 0]]);
}

#[test]
fn a_passed_deadline_that_no_sync_moves_wakes_the_clients_once() {
    let event = event();
    let queues = [Polled::new(&event, || Some(1), None)];
    rounds(&queues, 4);
    assert_eq!(queues[0].wakes(), [0, 1]);
}
