//! Sends what the player decides to a port, on time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use slipring_cli::report::Sample;
use slipring_cli::units::human;
use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_link::Tally;
use slipring_port::{Interest, Nanos, Port as OpenPort, Queue, RunError, now, sleep_until};

use super::player::{Account, Due, Player};
use super::{Port, Replay};
use crate::emulate::report::Report;
use crate::meter::{Meter, bps, pps};
use crate::opening;
use crate::workers::{Stop, Task, Workers};

/// How far ahead of the clock it is decided what leaves.
const AHEAD: Nanos = 20_000_000;
/// Longest time for which the thread does not look whether to stop.
const NAP: Nanos = 50_000_000;
/// How often others are shown how far it is.
const SHOW: Nanos = 100_000_000;
/// Between the start of the thread and the first frame, so that it is not late.
const HEAD_START: Nanos = 2_000_000;
/// Frames later than this are counted as late, unless the flags say otherwise.
const LATE: Nanos = 100_000;

/// What the sending thread shows.
#[derive(Default)]
struct Shown {
    account: Account,
    /// Frames longer than the port can send.
    too_long: u64,
    failure: Option<Failure>,
}

/// Plays a capture to a port.
pub(super) fn play(
    replay: &Replay,
    port: &Port,
    passes: Option<u64>,
    session: &mut Session<'_>,
    signals: &Signals,
) -> Result<Exit, Failure> {
    let late_ns = replay.links.outputs.late_warn_ns.unwrap_or(LATE);
    let source = replay.source(passes)?;
    let plan = &replay.links;
    let mut player = Player::new(&plan.network, plan.seed, source, late_ns)?;
    for change in &plan.schedule {
        player.change(change.at_ns, &change.config.network()?)?;
    }
    if player.ended() {
        replay.refuse_empty(0)?;
    }
    let names = std::slice::from_ref(&port.name);
    opening::wait_for_links(names, port.link_wait, signals)?;
    let mut ports = port.opening.clone().towards(Interest::TX).open(names)?;
    let mut meter = Meter::new(&ports);
    session.reporter.start(Some(plan.seed), "monotonic", &meter.reports())?;
    let shown = Arc::new(Mutex::new(Shown::default()));
    let deadline = port.duration.map(|duration| now() + duration.as_nanos() as u64);
    let open = ports.pop().expect("one port per name");
    let workers = Workers::start(vec![sender(open, player, port, &shown)])?;
    let watched = workers.watch(signals, port.period, deadline, |interim| {
        let period = port.period.unwrap_or(Duration::from_secs(1));
        let text = line(&mut meter, &lock(&shown), period);
        let sample = sample(replay, &meter, &lock(&shown).account);
        let reporter = &mut session.reporter;
        if interim { reporter.interim(&sample, text) } else { reporter.interval(&sample, text) }
    });
    let ended = workers.finish();
    let mut last = lock(&shown);
    let text = summary(replay, &meter, &last);
    session.reporter.end(&sample(replay, &meter, &last.account), text)?;
    if let Some(failure) = last.failure.take() {
        return Err(failure);
    }
    watched?;
    ended?;
    Ok(Exit::Done)
}

fn sender(mut open: OpenPort, player: Player, port: &Port, shown: &Arc<Mutex<Shown>>) -> Task {
    let (shown, burst, cpu) = (shown.clone(), port.burst as usize, port.cpu);
    let max_len = open.info.caps.max_packet as usize;
    let (name, queue) = (open.info.name.clone(), open.queues.swap_remove(0));
    Box::new(move |stop| {
        if let Some(cpu) = cpu {
            bind(cpu).map_err(|error| RunError::system(&name, "pin the sending thread", error))?;
        }
        let start = now() + HEAD_START;
        let sending = Vec::with_capacity(burst);
        let frame = Vec::new();
        let mut sender =
            Sender { queue, player, start, burst, max_len, shown, sending, frame, too_long: 0 };
        let result = sender.run(stop);
        sender.show();
        result
    })
}

/// Keeps the calling thread on one processor.
fn bind(cpu: u32) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

struct Sender {
    queue: Box<dyn Queue>,
    player: Player,
    /// When the first frame goes.
    start: Nanos,
    burst: usize,
    max_len: usize,
    shown: Arc<Mutex<Shown>>,
    /// Frames on the ring that the port does not know of yet.
    sending: Vec<Due>,
    /// A frame of which not all bytes are known, filled up with zeros.
    frame: Vec<u8>,
    too_long: u64,
}

impl Sender {
    fn run(&mut self, stop: &Stop) -> Result<(), RunError> {
        let mut next_show = 0;
        while !stop.is_set() && !self.player.ended() {
            let elapsed = now().saturating_sub(self.start);
            let decided = match self.player.decide(elapsed.saturating_add(AHEAD)) {
                Ok(decided) => decided,
                Err(failure) => {
                    lock(&self.shown).failure = Some(failure);
                    return self.drain();
                }
            };
            let sent = self.send()?;
            if now() >= next_show {
                self.show();
                next_show = now() + SHOW;
            }
            if !decided && !sent {
                self.wait()?;
            }
        }
        self.drain()
    }

    /// Sends the frames that are due; false if there were none, or no room.
    fn send(&mut self) -> Result<bool, RunError> {
        let elapsed = now().checked_sub(self.start);
        let Some(elapsed) = elapsed else { return Ok(false) };
        while self.sending.len() < self.burst
            && let Some(due) = self.player.next()
            && due.release_ns <= elapsed
        {
            if due.len as usize > self.max_len {
                self.too_long += 1;
                self.player.take();
                self.player.dropped(&due);
                continue;
            }
            if !self.push(&due) {
                break;
            }
            self.sending.extend(self.player.take());
        }
        if self.sending.is_empty() {
            return Ok(false);
        }
        self.queue.tx_sync()?;
        let sent = now() - self.start;
        for due in self.sending.drain(..) {
            self.player.sent(&due, sent);
        }
        Ok(true)
    }

    /// Puts a frame on the ring, if there is room.
    fn push(&mut self, due: &Due) -> bool {
        let bytes = self.player.bytes(due);
        let ring = self.queue.rings().tx;
        if bytes.len() == due.len as usize {
            return ring.push(bytes);
        }
        // What the capture cut off is unknown: zeros, never another frame's bytes.
        self.frame.clear();
        self.frame.extend_from_slice(bytes);
        self.frame.resize(due.len as usize, 0);
        ring.push(&self.frame)
    }

    /// Waits until a frame is due, or until something is to be decided, or for room.
    fn wait(&mut self) -> Result<(), RunError> {
        let time = now();
        let decision = self.player.next_decision_ns().map(|at| at.saturating_sub(AHEAD));
        let due = self.player.next().map(|due| due.release_ns);
        let next = decision.into_iter().chain(due).min().unwrap_or(0);
        let next = self.start.saturating_add(next);
        if next <= time {
            // No room: the port is slower than the schedule.
            self.queue.tx_sync()?;
            sleep_until(time + 10_000);
            return Ok(());
        }
        if next - time > NAP {
            self.queue.tx_sync()?;
        }
        sleep_until(next.min(time + NAP));
        Ok(())
    }

    /// Waits until what was sent has left, for half a second at most.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + 500_000_000;
        self.queue.tx_sync()?;
        while self.queue.rings().tx.with_driver() > 0 && now() < until {
            sleep_until(now() + 10_000);
            self.queue.tx_sync()?;
        }
        self.queue.update_stats();
        Ok(())
    }

    fn show(&self) {
        let mut shown = lock(&self.shown);
        shown.account = self.player.account();
        shown.too_long = self.too_long;
    }
}

fn report<'a>(replay: &Replay, account: &'a Account) -> Report<'a> {
    let unrouted = account.unrouted.total();
    Report::of(&replay.links.network, &account.links, &account.measured, unrouted)
}

fn sample(
    replay: &Replay,
    meter: &Meter,
    account: &Account,
) -> Sample<crate::emulate::report::document::Document> {
    let links = account.links.iter();
    Sample {
        elapsed: meter.elapsed(),
        ports: meter.reports(),
        in_flight: meter.in_flight() + account.waiting,
        copies: links.map(|counters| counters.copies).fold(Tally::default(), |a, b| a + b).packets,
        extra: report(replay, account).document(),
    }
}

/// `   1.0s  tx 1.000 Mpps 480 Mbit/s  late by p50 120 ns p99 4 us`.
fn line(meter: &mut Meter, shown: &Shown, period: Duration) -> String {
    let mut text = format!("{:6.1}s", meter.elapsed().as_secs_f64());
    for interval in meter.intervals() {
        let tx = interval.change.tx;
        text += &format!("  tx {} {}", pps(tx.packets, period), bps(tx.bytes, period));
    }
    if let Some(measured) = shown.account.measured.first() {
        let late = |quantile| human::span(Duration::from_nanos(measured.error.quantile(quantile)));
        text += &format!("  late by p50 {} p99 {}", late(0.5), late(0.99));
    }
    text
}

fn summary(replay: &Replay, meter: &Meter, shown: &Shown) -> String {
    let mut text = report(replay, &shown.account).summary();
    for port in meter.reports() {
        text += &format!("\n{}: sent {} packets", port.name, port.tx.packets);
        for (cause, count) in &port.drops {
            text += &format!(", dropped {count} ({cause})");
        }
    }
    for (count, what) in [
        (shown.too_long, "frames are longer than the port can send"),
        (shown.account.malformed, "records of the capture are no frames"),
        (
            shown.account.unordered,
            "frames are stamped before their predecessors and went with them",
        ),
    ] {
        if count > 0 {
            text += &format!("\n{count} {what}");
        }
    }
    text
}

/// What is behind the lock is whole at any time, also when the thread that held it panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
