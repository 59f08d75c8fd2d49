//! Sends the frames that the player has decided on to a port, on time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use slipring_cli::units::human;
use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_link::PacketCounts;
use slipring_port::{
    DropCause, Interest, Nanos, Port as OpenPort, Queue, RunError, now, sleep_until,
};

use super::player::{DueFrame, ReplayPlayer};
use super::{ReplayPlan, ReplayPort};
use crate::carrier;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::{PortMeter, bps, pps};
use slipring_datapath::workers::{WorkerTask, Workers, WorkersStop};
use slipring_datapath::{links, opening};
use slipring_emulation::{
    BurstLimit, EmulationState, EmulatorChannel, RunServices, RunStart, open_log, storage_bytes,
};

/// How far ahead of the clock the player decides the fates of frames, in ns.
const DECISION_LEAD_NS: Nanos = 20_000_000;
/// Longest sleep in ns. After it, the thread checks whether it must stop.
const MAX_SLEEP_NS: Nanos = 50_000_000;
/// Delay before the first frame in ns. In this time the sending thread gets ready.
const START_DELAY_NS: Nanos = 5_000_000;
/// Frames sent more than this many ns after they were due are counted as late, unless the flags set
/// another limit.
const LATE_AFTER_NS: Nanos = 100_000;

/// Results of the sending thread in addition to its published state.
#[derive(Default)]
struct SenderReport {
    /// Number of frames whose timestamp in the capture is earlier than that of the frame before.
    unordered: u64,
    failure: Option<Failure>,
}

/// Replays a capture to a port.
pub(super) fn play(
    replay: &ReplayPlan,
    port: &ReplayPort,
    passes: Option<u64>,
    session: &mut Session<'_>,
    signals: &Signals,
) -> Result<Exit, Failure> {
    let late_ns = replay.links.outputs.late_warn_ns.unwrap_or(LATE_AFTER_NS);
    let source = replay.source(passes, signals)?;
    let plan = &replay.links;
    let mut player = ReplayPlayer::new(&plan.network, plan.seed, source, late_ns)?;
    if player.ended() {
        replay.refuse_empty(0, signals)?;
        if signals.stopping() {
            return Ok(Exit::Done);
        }
    }
    opening::require_cpus(port.cpu.as_slice())?;
    let names = std::slice::from_ref(&port.name);
    let reservation = RunServices::reserve(plan, session)?;
    let options = &port.opening.options;
    carrier::wait(&port.name, options, port.link_wait, signals, session.reporter)?;
    links::wait_for_links(names, options, port.link_wait, signals)?;
    let mut ports = port.opening.clone().one_direction(Interest::TX).open(names, session)?;
    Confinement::for_ports(&ports)
        .opening_files()
        .serving_metrics(plan.outputs.metrics.as_deref())
        .begin(session)?;
    carrier::wait_for_cards(&mut ports, port.card_link_wait, signals, session.reporter)?;
    let mut meter = PortMeter::new(&ports);
    session.reporter.start(Some(plan.seed), "monotonic", &meter.reports())?;
    let (channel, sender_report) =
        (Arc::new(EmulatorChannel::new()?), Arc::new(Mutex::new(SenderReport::default())));
    let start = RunStart { at_ns: now() + START_DELAY_NS, storage_bytes: storage_bytes() };
    let named = std::slice::from_ref(&ports[0].info.name);
    let (tap, log) = open_log(&plan.outputs, &plan.network, named)?.unzip();
    tap.into_iter().for_each(|tap| player.log(tap, start.at_ns));
    let services = RunServices::open(
        plan,
        start,
        channel.clone(),
        PortMeter::new(&ports),
        reservation,
        session,
    )?;
    let services = services.with_log(log);
    let deadline = replay.duration.map(|duration| now() + duration.as_nanos() as u64);
    let open = ports.pop().expect("one port per name");
    let workers =
        Workers::start(vec![sender(open, (player, start.at_ns), port, channel, &sender_report)])?;
    let watched = workers.watch(signals, port.period, deadline, |interim| {
        let state = services.channel.request_state();
        let time = meter.begin_interval();
        let text = line(&mut meter, &state, time);
        let sample = services.sample(&meter, &state);
        let reporter = &mut session.reporter;
        if interim { reporter.interim(&sample, text) } else { reporter.interval(&sample, text) }
    });
    let ended = workers.finish();
    services.report(&meter, session)?;
    let mut last = lock(&sender_report);
    if last.unordered > 0 {
        let what = "frames are stamped before their predecessors and went with them";
        session.reporter.say(format_args!("{} {what}", last.unordered))?;
    }
    if let Some(failure) = last.failure.take() {
        return Err(failure);
    }
    services.close(session)?;
    watched?;
    ended?;
    Ok(Exit::Done)
}

fn sender(
    mut open: OpenPort,
    (player, start): (ReplayPlayer, Nanos),
    port: &ReplayPort,
    channel: Arc<EmulatorChannel>,
    sender_report: &Arc<Mutex<SenderReport>>,
) -> WorkerTask {
    let (sender_report, burst, cpu) = (sender_report.clone(), port.burst, port.cpu);
    let max_len = open.info.caps.max_packet as usize;
    let (name, queue) = (open.info.name.clone(), open.queues.swap_remove(0));
    Box::new(move |stop| {
        if let Some(cpu) = cpu {
            bind(cpu).map_err(|error| RunError::system(&name, "pin the sending thread", error))?;
        }
        let sending = Vec::with_capacity(burst.frames as usize);
        let (frame, sent) = (Vec::new(), PacketCounts::default());
        let mut sender = ReplaySender {
            queue,
            player,
            start,
            burst,
            max_len,
            channel,
            report: sender_report,
            sending,
            frame,
            sent,
        };
        let result = sender.run(stop);
        sender.publish_state();
        result
    })
}

/// Returns whether a frame fits into a burst that already has `bytes` bytes. A frame that is longer
/// than the limit is sent alone.
const fn is_within(burst: BurstLimit, bytes: u64, len: u32) -> bool {
    bytes == 0 || bytes + len as u64 <= burst.bytes
}

/// Binds the calling thread to CPU `cpu`.
fn bind(cpu: u32) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

struct ReplaySender {
    queue: Box<dyn Queue>,
    player: ReplayPlayer,
    /// Time 0 of the player, at which the first frame enters the network.
    start: Nanos,
    burst: BurstLimit,
    max_len: usize,
    channel: Arc<EmulatorChannel>,
    report: Arc<Mutex<SenderReport>>,
    /// Frames that were put into the ring since the last tx sync.
    sending: Vec<DueFrame>,
    /// Scratch memory for a frame of which the capture has only the first bytes; the rest are
    /// zeros.
    frame: Vec<u8>,
    /// Packets and bytes that the port has sent.
    sent: PacketCounts,
}

impl ReplaySender {
    fn run(&mut self, stop: &WorkersStop) -> Result<(), RunError> {
        while !stop.is_set() && !self.player.ended() {
            // Requests are handled first, so that a change whose time has come applies to the
            // frames that are decided next.
            self.handle_requests();
            let elapsed = now().saturating_sub(self.start);
            let decided = match self.player.decide(elapsed.saturating_add(DECISION_LEAD_NS)) {
                Ok(decided) => decided,
                Err(failure) => {
                    lock(&self.report).failure = Some(failure);
                    return self.drain();
                }
            };
            let sent = self.send()?;
            if !decided && !sent {
                self.wait()?;
            }
        }
        self.drain()
    }

    /// Sends due frames. Returns false if none was due, or the ring had no space.
    fn send(&mut self) -> Result<bool, RunError> {
        let elapsed = now().checked_sub(self.start);
        let Some(elapsed) = elapsed else { return Ok(false) };
        let mut bytes = 0_u64;
        while self.sending.len() < self.burst.frames as usize
            && let Some(due) = self.player.next()
            && due.release_ns <= elapsed
            && is_within(self.burst, bytes, due.len)
        {
            if due.len as usize > self.max_len {
                self.queue.counters().dropped(DropCause::TxTooLong, 1);
                self.player.take();
                self.player.dropped(&due);
                continue;
            }
            if !self.push(&due) {
                break;
            }
            bytes += u64::from(due.len);
            self.sending.extend(self.player.take());
        }
        if self.sending.is_empty() {
            return Ok(false);
        }
        self.queue.tx_sync()?;
        let sent = now() - self.start;
        for due in self.sending.drain(..) {
            self.player.sent(&due, sent);
            self.sent.count(due.len);
        }
        Ok(true)
    }

    /// Puts a frame into the ring. Returns false if the ring has no space.
    fn push(&mut self, due: &DueFrame) -> bool {
        let bytes = self.player.bytes(due);
        let ring = self.queue.rings().tx;
        if bytes.len() == due.len as usize {
            return ring.push(bytes);
        }
        // The capture does not have the last bytes of the frame. They are sent as zeros, never as
        // bytes of another frame.
        self.frame.clear();
        self.frame.extend_from_slice(bytes);
        self.frame.resize(due.len as usize, 0);
        ring.push(&self.frame)
    }

    /// Waits until a frame or a decision is due, or the ring has space.
    fn wait(&mut self) -> Result<(), RunError> {
        let time = now();
        let decision = self.player.next_decision_ns().map(|at| at.saturating_sub(DECISION_LEAD_NS));
        let due = self.player.next().map(|due| due.release_ns);
        let next = decision.into_iter().chain(due).min().unwrap_or(0);
        let next = self.start.saturating_add(next);
        if next <= time {
            // The ring has no space, because the port is slower than the schedule. So this waits a
            // moment.
            self.queue.tx_sync()?;
            sleep_until(time + 10_000);
            return Ok(());
        }
        if next - time > MAX_SLEEP_NS {
            self.queue.tx_sync()?;
        }
        sleep_until(next.min(time + MAX_SLEEP_NS));
        Ok(())
    }

    /// Waits until all sent frames have left, but not longer than half a second.
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

    /// Handles requests of other threads.
    #[inline]
    fn handle_requests(&mut self) {
        for change in self.channel.take_changes() {
            if change.replaces {
                self.player.cancel_changes();
            }
            let at_ns = change.at_ns.saturating_sub(self.start);
            // Sending fails if the requester no longer waits for the answer, which is no error.
            let _ = change.answer.send(self.player.change(at_ns, &change.plan));
        }
        if self.channel.is_state_requested() {
            self.publish_state();
        }
    }

    fn publish_state(&self) {
        self.channel.publish(self.player.state(now(), self.sent));
        lock(&self.report).unordered = self.player.unordered();
    }
}

/// Formats `   1.0s  tx 1.000 Mpps 480 Mbit/s  late by p50 120 ns p99 4 us`.
fn line(meter: &mut PortMeter, state: &EmulationState, period: Duration) -> String {
    let mut text = format!("{:6.1}s", meter.elapsed().as_secs_f64());
    for interval in meter.intervals() {
        let tx = interval.delta.tx;
        text += &format!("  tx {} {}", pps(tx.packets, period), bps(tx.bytes, period));
    }
    if let Some(measured) = state.measured.first() {
        let late = |quantile| human::span(Duration::from_nanos(measured.error.quantile(quantile)));
        text += &format!("  late by p50 {} p99 {}", late(0.5), late(0.99));
    }
    text
}

/// Locks the mutex, even if a thread panicked while it held the lock: the data is consistent at any
/// time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_in_bytes_ends_before_the_frame_that_does_not_fit_but_sends_one_at_least() {
        let burst = BurstLimit { bytes: 1_500, ..BurstLimit::default() };
        assert!(is_within(burst, 0, 9_000));
        assert!(is_within(burst, 1_440, 60));
        assert!(!is_within(burst, 1_441, 60));
        assert!(is_within(BurstLimit::default(), 1 << 40, 60), "without a limit of bytes");
    }
}
