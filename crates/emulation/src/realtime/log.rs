//! The logs of a real-time run, with every frame. The thread that moves frames passes copies to
//! another thread, which writes them. The first thread never waits for the file. If the writer is
//! too slow, records are left out of the log and counted as missing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slipring_cli::Failure;
use slipring_link::{
    Delivery, EntryId, ExitId, FrameArrival, FrameHandle, LinkDropCause, LinkId, LostFrame,
    NetworkSpec,
};
use slipring_port::{Nanos, now};

use super::frame_tap::FrameTap;
use crate::account::EmulationAccount;
use crate::config::RunOutputs;
use crate::report::mahimahi::MahimahiLog;
use crate::report::packets::{LoggedFrame, PacketLog, PortTotals};
use crate::store::{EmulationStore, StoredFrame};

/// Maximum number of records that wait for the writer.
const MAX_QUEUED_RECORDS: usize = 1 << 16;

/// The tap that logs frames; a default tap logs nothing.
#[derive(Debug, Default)]
pub struct LogTap {
    /// The queue to the writer; `None` in a default tap.
    writer: Option<SyncSender<LogRecord>>,
    /// The frames inside the links, by handle.
    inside: HashMap<u32, LoggedOrigin>,
    /// The last frame number used, and the step to the next one. The step is 2 if there are two
    /// threads: one thread uses even numbers, and the other thread odd numbers.
    last_id: u64,
    step: u64,
    missed: Arc<AtomicU64>,
}

/// What the log knows of a frame inside the links.
#[derive(Debug, Clone, Copy)]
struct LoggedOrigin {
    /// The frame's number in the log.
    id: u64,
    /// The entry at which the frame, or the original of a copy, arrived.
    entry: usize,
    /// When the frame arrived; `None` for a copy that a link made.
    arrival_ns: Option<Nanos>,
}

/// A frame to be logged.
#[derive(Debug, Clone, Copy)]
pub struct ObservedFrame<'f> {
    /// The frame's handle in the store.
    pub handle: FrameHandle,
    /// Time of the event, on the clock of [`slipring_port::now`].
    pub at_ns: Nanos,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// The frame's bytes, as far as they are known.
    pub bytes: &'f [u8],
}

/// The thread that writes the logs.
#[derive(Debug)]
pub struct FrameLogWriter {
    thread: JoinHandle<Result<RealtimeLogs, Failure>>,
    missed: Arc<AtomicU64>,
}

/// The arrival, loss or departure of a frame.
#[derive(Debug)]
struct LogRecord {
    id: u64,
    /// The entry at which the frame, or the original of a copy, arrived.
    entry: usize,
    at_ns: Nanos,
    len: u32,
    bytes: Vec<u8>,
    fate: FrameFate,
}

#[derive(Debug)]
enum FrameFate {
    Arrived,
    Sent { exit: usize, late_ns: Nanos, delay_ns: Nanos },
    Lost { cause: LinkDropCause, link: Option<usize> },
}

/// The log files.
#[derive(Debug)]
struct RealtimeLogs {
    packets: Option<PacketLog>,
    /// One log per entry, named after the first link that begins there; `None` if there is no link
    /// or no log is requested.
    mahimahi: Vec<Option<MahimahiLog>>,
    links: Vec<String>,
    /// Start of the run, on the clock of [`slipring_port::now`]; it is time 0 in the logs.
    start: Nanos,
    /// Wall-clock time of the start, in ns since 1970.
    epoch_ns: u64,
}

/// Opens the logs that `outputs` requests; returns `None` if it requests none.
///
/// # Errors
/// [`Failure`] if a file cannot be created.
pub fn open(
    outputs: &RunOutputs,
    network: &NetworkSpec,
    ports: &[String],
) -> Result<Option<(LogTap, FrameLogWriter)>, Failure> {
    if outputs.log.is_none() && outputs.mahimahi.is_none() {
        return Ok(None);
    }
    let logs = RealtimeLogs::open(outputs, network, ports)?;
    let (sender, entries) = sync_channel(MAX_QUEUED_RECORDS);
    let tap = LogTap { writer: Some(sender), step: 1, ..LogTap::default() };
    let missed = tap.missed.clone();
    Ok(Some((tap, FrameLogWriter { thread: spawn(move || logs.write(&entries)), missed })))
}

impl FrameLogWriter {
    /// Waits until all records are written; all taps must have been dropped. Returns the number of
    /// missing records.
    ///
    /// # Errors
    /// [`Failure`] if a file could not be written.
    pub(crate) fn finish(self, account: &EmulationAccount) -> Result<u64, Failure> {
        let written = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written?.finish(account)?;
        Ok(self.missed.load(Ordering::Relaxed))
    }
}

impl LogTap {
    /// Logs the arrival of a frame.
    pub fn log_arrival(&mut self, entry: EntryId, frame: &ObservedFrame<'_>) {
        let (id, entry) = (self.new_id(), usize::from(entry.0));
        let origin = LoggedOrigin { id, entry, arrival_ns: Some(frame.at_ns) };
        self.inside.insert(frame.handle.0, origin);
        self.send_record(origin, frame, FrameFate::Arrived);
    }

    /// Notes that a link has made a copy of a frame. The copy gets its own number, and the entry of
    /// the original. Its arrival is not logged.
    pub fn note_copy(&mut self, original: FrameHandle, copy: FrameHandle) {
        let entry = self.inside.get(&original.0).map_or(0, |origin| origin.entry);
        let origin = LoggedOrigin { id: self.new_id(), entry, arrival_ns: None };
        self.inside.insert(copy.0, origin);
    }

    /// Logs the loss of a frame; `None` for the link if no link lost the frame.
    pub fn log_loss(
        &mut self,
        frame: &ObservedFrame<'_>,
        cause: LinkDropCause,
        link: Option<LinkId>,
    ) {
        let origin = self.take_origin(frame.handle);
        let fate = FrameFate::Lost { cause, link: link.map(|link| link.0 as usize) };
        self.send_record(origin, frame, fate);
    }

    /// Logs the departure of a frame that was due at `release_ns`, with the time since its arrival.
    /// If the log does not know when the frame arrived, as for a copy that a link made,
    /// `arrival_ns` counts as its arrival time.
    pub fn log_departure(
        &mut self,
        frame: &ObservedFrame<'_>,
        exit: ExitId,
        release_ns: Nanos,
        arrival_ns: Nanos,
    ) {
        let origin = self.take_origin(frame.handle);
        let fate = FrameFate::Sent {
            exit: usize::from(exit.0),
            late_ns: frame.at_ns.saturating_sub(release_ns),
            delay_ns: frame.at_ns.saturating_sub(origin.arrival_ns.unwrap_or(arrival_ns)),
        };
        self.send_record(origin, frame, fate);
    }

    fn send_record(&mut self, origin: LoggedOrigin, frame: &ObservedFrame<'_>, fate: FrameFate) {
        let Some(writer) = &self.writer else { return };
        let LoggedOrigin { id, entry, .. } = origin;
        let &ObservedFrame { at_ns, len, bytes, .. } = frame;
        let bytes = bytes.to_vec();
        let sent = writer.try_send(LogRecord { id, entry, at_ns, len, bytes, fate });
        if let Err(error) = sent {
            self.missed.fetch_add(1, Ordering::Relaxed);
            if let TrySendError::Disconnected(_) = error {
                self.writer = None;
            }
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += self.step;
        self.last_id
    }

    /// Removes a frame that leaves or is lost, and returns what the log knows of it. A frame of
    /// which neither the arrival nor the copying was seen gets a new number, and entry 0.
    fn take_origin(&mut self, handle: FrameHandle) -> LoggedOrigin {
        let known = self.inside.remove(&handle.0);
        known.unwrap_or_else(|| LoggedOrigin { id: self.new_id(), entry: 0, arrival_ns: None })
    }
}

impl FrameTap for LogTap {
    /// Returns a tap for a second thread. From then on, the two taps use alternate frame numbers.
    /// Must be called before any frame arrives.
    fn split(&mut self) -> Self {
        let (writer, missed) = (self.writer.clone(), self.missed.clone());
        self.step = 2;
        Self { writer, missed, inside: HashMap::new(), last_id: 1, step: 2 }
    }

    fn arrived(&mut self, entry: EntryId, frame: &FrameArrival, store: &mut EmulationStore) {
        let &FrameArrival { handle, len, arrival_ns: at_ns } = frame;
        let bytes = store.get(handle).bytes;
        self.log_arrival(entry, &ObservedFrame { handle, at_ns, len, bytes });
    }

    fn copied(&mut self, original: FrameHandle, copy: FrameHandle) {
        self.note_copy(original, copy);
    }

    fn lost(&mut self, lost: &LostFrame, store: &mut EmulationStore) {
        let &LostFrame { handle, at_ns, len, cause, link } = lost;
        let bytes = store.get(handle).bytes;
        self.log_loss(&ObservedFrame { handle, at_ns, len, bytes }, cause, link);
    }

    fn dropped(
        &mut self,
        frame: &Delivery,
        cause: LinkDropCause,
        now: Nanos,
        store: &mut EmulationStore,
    ) {
        let &Delivery { handle, len, .. } = frame;
        let bytes = store.get(handle).bytes;
        self.log_loss(&ObservedFrame { handle, at_ns: now, len, bytes }, cause, None);
    }

    fn sent(&mut self, frame: &Delivery, now: Nanos, store: &mut EmulationStore) {
        let &Delivery { handle, len, exit, release_ns, .. } = frame;
        // The store knows only when the frame arrived at its last link, which may not be its first
        // one. So the log uses this time only for copies.
        let StoredFrame { bytes, arrival_ns, .. } = store.get(handle);
        self.log_departure(
            &ObservedFrame { handle, at_ns: now, len, bytes },
            exit,
            release_ns,
            arrival_ns,
        );
    }
}

impl RealtimeLogs {
    fn open(
        outputs: &RunOutputs,
        network: &NetworkSpec,
        ports: &[String],
    ) -> Result<Self, Failure> {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let packets = outputs
            .log
            .as_ref()
            .map(|path| PacketLog::create(&path.to_string_lossy(), ports, &command));
        let mahimahi = |entry: usize| {
            let path = outputs.mahimahi.as_ref()?;
            let from = slipring_link::LinkSource::Entry(entry);
            let link = network.links.iter().find(|link| link.from == from)?;
            let path = format!("{}.{}", path.to_string_lossy(), link.spec.name);
            Some(MahimahiLog::create(&path, &link.spec, &command))
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Ok(Self {
            packets: packets.transpose()?,
            mahimahi: (0..ports.len())
                .map(|entry| mahimahi(entry).transpose())
                .collect::<Result<_, _>>()?,
            links: network.links.iter().map(|link| link.spec.name.clone()).collect(),
            start: now(),
            epoch_ns: wall.as_nanos() as u64,
        })
    }

    fn write(mut self, entries: &Receiver<LogRecord>) -> Result<Self, Failure> {
        for entry in entries {
            self.entry(&entry)?;
        }
        Ok(self)
    }

    fn entry(&mut self, entry: &LogRecord) -> Result<(), Failure> {
        let &LogRecord { id, entry: port, at_ns, len, ref bytes, ref fate } = entry;
        let at_ns = at_ns.saturating_sub(self.start);
        let frame = LoggedFrame { id, ts_ns: self.epoch_ns + at_ns, len, bytes };
        if let Some(log) = &mut self.packets {
            match *fate {
                FrameFate::Arrived => log.arrived(port, &frame)?,
                FrameFate::Sent { exit, late_ns, .. } => log.sent(exit, &frame, Some(late_ns))?,
                FrameFate::Lost { cause, link } => {
                    let link = link.and_then(|link| self.links.get(link));
                    log.lost(port, &frame, cause, link.map(String::as_str))?;
                }
            }
        }
        let Some(Some(log)) = self.mahimahi.get_mut(port) else { return Ok(()) };
        match *fate {
            FrameFate::Arrived => log.arrived(at_ns, len),
            FrameFate::Sent { delay_ns, .. } => log.sent(at_ns, len, delay_ns),
            FrameFate::Lost { .. } => log.lost(at_ns, len),
        }
    }

    fn finish(self, account: &EmulationAccount) -> Result<(), Failure> {
        let end_ns = account.at_ns.saturating_sub(self.start);
        for log in self.mahimahi.into_iter().flatten() {
            log.finish(end_ns)?;
        }
        let Some(log) = self.packets else { return Ok(()) };
        let ports = account.entries.len().max(account.exits.len());
        let totals = |port: usize| PortTotals {
            received: account.entries.get(port).map_or(0, |entry| entry.received.packets),
            sent: account.exits.get(port).map_or(0, |exit| exit.sent.packets),
        };
        let totals: Vec<_> = (0..ports).map(totals).collect();
        log.finish(&totals, self.epoch_ns + end_ns)
    }
}

#[cfg(test)]
mod tests {
    use slipring_link::{DuplicateSpec, LinkSpec};
    use slipring_model::Chance;
    use slipring_port::OpenOptions;

    use super::super::{Emulator, RealtimeOptions};
    use super::*;

    /// Makes a tap without a writer. The records wait in the receiver.
    fn tap() -> (LogTap, Receiver<LogRecord>) {
        let (sender, records) = sync_channel(16);
        (LogTap { writer: Some(sender), step: 1, ..LogTap::default() }, records)
    }

    #[test]
    fn a_copy_is_logged_at_the_entry_of_its_original() {
        let names = ["netmap:l{0", "netmap:l}0", "netmap:r{0", "netmap:r}0"];
        let names = names.map(|name| slipring_core::parse(name).unwrap());
        let ports = slipring_core::Host::new().open_all(&names, &OpenOptions::default()).unwrap();
        let [_left, near, far, mut right] = <[_; 4]>::try_from(ports).unwrap();
        let chance = Chance::from_f64(1.0).unwrap();
        let duplicate = Some(DuplicateSpec { chance, copies: 1, after_ns: 0 });
        let down = LinkSpec { duplicate, ..LinkSpec::wire("down") };
        let plan = NetworkSpec::between("left", "right", LinkSpec::wire("up"), down);
        let (tap, records) = tap();
        let options = RealtimeOptions::default();
        let mut emulator = Emulator::between(vec![near, far], &plan, &options, tap, 1_000).unwrap();
        let queue = &mut right.queues[0];
        assert!(queue.rings().tx.push(&[7; 60]));
        queue.tx_sync().unwrap();
        emulator.turn(|| 2_000).unwrap();
        emulator.turn(|| 3_000).unwrap();
        let seen: Vec<_> = records.try_iter().map(|record| (record.id, record.entry)).collect();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(seen.iter().all(|&(_, entry)| entry == 1), "{seen:?}");
        assert_ne!(seen[1].0, seen[2].0);
    }

    #[test]
    fn a_tap_whose_writer_has_failed_copies_no_more_frames() {
        let (mut tap, records) = tap();
        drop(records);
        let frame = ObservedFrame { handle: FrameHandle(1), at_ns: 5, len: 60, bytes: &[7; 60] };
        tap.log_arrival(EntryId(0), &frame);
        assert!(tap.writer.is_none());
        assert_eq!(tap.missed.load(Ordering::Relaxed), 1);
    }
}
