//! The log of every frame, in real time: the thread that moves frames copies them and hands them
//! to another one, which writes. It never waits for the file; what the writer cannot follow is
//! missing in the log, and counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slipring_cli::Failure;
use slipring_link::{
    Delivery, EntryId, ExitId, FrameArrival, FrameHandle, LinkDropCause, LinkId, LostFrame,
    NetworkSpec,
};
use slipring_port::{Nanos, now};

use super::account::EmulationAccount;
use super::frame_tap::FrameTap;
use crate::config::RunOutputs;
use crate::report::mahimahi::MahimahiLog;
use crate::report::packets::{LoggedFrame, PacketLog, PortTotals};
use crate::store::{EmulationStore, StoredFrame};

/// Frames that the writer may be behind.
const MAX_QUEUED_RECORDS: usize = 1 << 16;

/// Watches frames, or does not.
#[derive(Debug, Default)]
pub struct LogTap {
    /// Where to: nowhere once the writer has failed.
    writer: Option<SyncSender<LogRecord>>,
    /// Number and entry of each frame inside, and when it came in.
    inside: HashMap<u32, ((u64, usize), Nanos)>,
    /// The last number given, and the way to the next one: threads give numbers in turn.
    last_id: u64,
    step: u64,
    missed: Arc<AtomicU64>,
}

/// A frame as whoever moves it knows it.
#[derive(Debug, Clone, Copy)]
pub struct ObservedFrame<'f> {
    /// Its name inside.
    pub handle: FrameHandle,
    /// When it happens, on the clock of [`slipring_port::now`].
    pub at_ns: Nanos,
    /// How long it is, in bytes without FCS.
    pub len: u32,
    /// Its bytes, as far as they are known.
    pub bytes: &'f [u8],
}

/// The thread that writes.
#[derive(Debug)]
pub struct FrameLogWriter {
    thread: JoinHandle<Result<RealtimeLogs, Failure>>,
    missed: Arc<AtomicU64>,
}

/// What happened to a frame.
#[derive(Debug)]
struct LogRecord {
    id: u64,
    /// Where it came in.
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

/// The files.
#[derive(Debug)]
struct RealtimeLogs {
    packets: Option<PacketLog>,
    /// One per entry, for the link that begins there.
    mahimahi: Vec<Option<MahimahiLog>>,
    links: Vec<String>,
    /// The clock of the frames reads 0 at the start of the run here.
    start: Nanos,
    /// What the wall clock said then, in ns since 1970.
    epoch_ns: u64,
}

/// Opens what `outputs` name; nothing is watched if that is nothing.
///
/// # Errors
/// If a file cannot be created.
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
    /// Waits until all is written, which needs the tap to be gone; how many entries are missing.
    ///
    /// # Errors
    /// If a file could not be written.
    pub(super) fn finish(self, account: &EmulationAccount) -> Result<u64, Failure> {
        let written = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written?.finish(account)?;
        Ok(self.missed.load(Ordering::Relaxed))
    }
}

impl LogTap {
    /// A frame came in.
    pub fn log_arrival(&mut self, entry: EntryId, frame: &ObservedFrame<'_>) {
        let who = (self.new_id(), usize::from(entry.0));
        self.inside.insert(frame.handle.0, (who, frame.at_ns));
        self.send_record(who, frame, FrameFate::Arrived);
    }

    /// A frame was lost, by a link if one is named.
    pub fn log_loss(
        &mut self,
        frame: &ObservedFrame<'_>,
        cause: LinkDropCause,
        link: Option<LinkId>,
    ) {
        let (who, _) = self.take_id(frame.handle);
        self.send_record(
            who,
            frame,
            FrameFate::Lost { cause, link: link.map(|link| link.0 as usize) },
        );
    }

    /// A frame left, which was to leave at `release_ns`; `arrival_ns` is when it came, where it is
    /// a copy that a link made.
    pub fn log_departure(
        &mut self,
        frame: &ObservedFrame<'_>,
        exit: ExitId,
        release_ns: Nanos,
        arrival_ns: Nanos,
    ) {
        let (who, came_ns) = self.take_id(frame.handle);
        let fate = FrameFate::Sent {
            exit: usize::from(exit.0),
            late_ns: frame.at_ns.saturating_sub(release_ns),
            delay_ns: frame.at_ns.saturating_sub(came_ns.unwrap_or(arrival_ns)),
        };
        self.send_record(who, frame, fate);
    }

    fn send_record(
        &mut self,
        (id, entry): (u64, usize),
        frame: &ObservedFrame<'_>,
        fate: FrameFate,
    ) {
        let Some(writer) = &self.writer else { return };
        let &ObservedFrame { at_ns, len, bytes, .. } = frame;
        let bytes = bytes.to_vec();
        if writer.try_send(LogRecord { id, entry, at_ns, len, bytes, fate }).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += self.step;
        self.last_id
    }

    /// The number of a frame that leaves, and when it came in; copies that links made get a number
    /// now.
    fn take_id(&mut self, handle: FrameHandle) -> ((u64, usize), Option<Nanos>) {
        if let Some((who, came_ns)) = self.inside.remove(&handle.0) {
            return (who, Some(came_ns));
        }
        ((self.new_id(), 0), None)
    }
}

impl FrameTap for LogTap {
    /// Before any frame.
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
        // The store knows when a frame came to its link, which need not be the first.
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
