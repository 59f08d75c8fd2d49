//! Distributes queues, frames and counters over the threads.

use std::sync::{Arc, Mutex};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use slipring_cli::Failure;
use slipring_core::kinds;
use slipring_port::{Interest, Nanos, Port, PortInfo, Queue, RunError, now};
use slipring_traffic::{
    Generator, GeneratorShare, ReplayTimeline, StampCheck, StampForm, TrafficPattern,
};
use slipring_wire::MacAddr;

use super::function::GenFunction;
use super::ping::{Pinger, Ponger};
use super::plan::{CpuPinning, DEFAULT_SRC_MAC, GenFrames, GenPlan, pattern_failure, wrong};
use super::receive::{GenReceiver, PacketBudget, ReceiveUntil, RxQueues, RxStats, SharedRxStats};
use super::schedule::SendSchedule;
use super::send::{GenSender, SendOptions, SlotSplit, StampTime};
use super::shared_stats::SharedGenStats;
use super::source::{
    BlankFrames, CaptureRecording, GenSource, HeaderSource, PatchedFrames, RecordingReplay,
};
use slipring_datapath::workers::WorkerTask;

/// Time in ns between opening the port and the first frame, so that all threads can start.
const START_DELAY_NS: Nanos = 5_000_000;

/// The source of the frames that threads generate.
pub(super) enum FrameContent {
    Pattern(Box<TrafficPattern>),
    Unwritten(usize),
    Recorded { recording: Arc<CaptureRecording>, timeline: ReplayTimeline, timed: bool },
}

/// Returns the contents of the frames to send. A capture is read completely here, before any port
/// is opened.
pub(super) fn load(frames: &GenFrames) -> Result<FrameContent, Failure> {
    Ok(match frames {
        GenFrames::Pattern(pattern) => FrameContent::Pattern(pattern.clone()),
        GenFrames::Unwritten(len) => FrameContent::Unwritten(*len),
        GenFrames::Recorded { path, timeline, timed } => {
            let recording = Arc::new(CaptureRecording::read(path)?);
            FrameContent::Recorded { recording, timeline: timeline.clone(), timed: *timed }
        }
    })
}

/// Creates one task per thread.
pub(super) fn tasks(
    plan: &GenPlan,
    mut ports: Vec<Port>,
    material: FrameContent,
    stats: &mut SharedGenStats,
) -> Result<Vec<WorkerTask>, Failure> {
    let sink = (ports.len() > 1).then(|| ports.remove(1));
    let port = ports.remove(0);
    check_port(plan, &port)?;
    let mac = port.info.mac.map_or(DEFAULT_SRC_MAC, MacAddr);
    let keeps_frames = kinds::only_reads_tx(&port.info);
    let split = split(plan, &port.info, &material)?;
    let options = SendOptions { split, ..plan.send_options };
    let queues_per_thread = distribute(port.queues, plan.threads);
    let start = now() + START_DELAY_NS;
    let mut setup = GenSetup { plan, stats, options, start, mac, keeps_frames };
    let mut tasks = match plan.function {
        GenFunction::Tx | GenFunction::TxSeq => setup.senders(queues_per_thread, material)?,
        GenFunction::Rx | GenFunction::RxSeq => setup.receivers(queues_per_thread),
        GenFunction::Ping => setup.pingers(queues_per_thread, material)?,
        GenFunction::Pong => setup.pongers(queues_per_thread),
    };
    if let Some(sink) = sink {
        check_direction(&sink.info, Interest::RX)?;
        tasks.push(setup.sink(sink.queues));
    }
    let Some(pinning) = plan.pinning else { return Ok(tasks) };
    let cpus = cpus(pinning, tasks.len())?;
    Ok(tasks.into_iter().zip(cpus).map(|(task, cpu)| pinned(task, cpu)).collect())
}

/// Distributes the queues: thread `i` gets the queues `i`, `i + threads`, and so on, and sends on
/// the first of them.
fn distribute(queues: Vec<Box<dyn Queue>>, threads: u16) -> Vec<Vec<Box<dyn Queue>>> {
    let mut queues_per_thread: Vec<_> = (0..threads).map(|_| Vec::new()).collect();
    for (i, queue) in queues.into_iter().enumerate() {
        queues_per_thread[i % usize::from(threads)].push(queue);
    }
    queues_per_thread
}

struct GenSetup<'s> {
    plan: &'s GenPlan,
    stats: &'s mut SharedGenStats,
    options: SendOptions,
    start: Nanos,
    mac: MacAddr,
    /// Whether a sent frame stays in its buffer.
    keeps_frames: bool,
}

/// The queues of one thread.
type ThreadQueues = Vec<Box<dyn Queue>>;
type QueuesPerThread = Vec<ThreadQueues>;

impl GenSetup<'_> {
    fn senders(
        &mut self,
        queues_per_thread: QueuesPerThread,
        material: FrameContent,
    ) -> Result<Vec<WorkerTask>, Failure> {
        let mut tasks = Vec::new();
        for (i, queues) in queues_per_thread.into_iter().enumerate() {
            let i = i as u16;
            let task = match &material {
                FrameContent::Pattern(pattern) if self.may_patch(pattern) => {
                    let slots = self.plan.opening.options.slots;
                    self.sender(i, queues, PatchedFrames::new(self.generator(pattern, i)?, slots))
                }
                FrameContent::Pattern(pattern) => {
                    self.sender(i, queues, self.generator(pattern, i)?)
                }
                FrameContent::Unwritten(len) => self.sender(i, queues, BlankFrames(*len)),
                FrameContent::Recorded { recording, timeline, timed } => {
                    let share = (i.into(), self.plan.threads.into());
                    self.sender(
                        i,
                        queues,
                        RecordingReplay::new(recording.clone(), timeline.clone(), *timed, share),
                    )
                }
            };
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// Creates a sender of frames from `source`, each after a virtio-net header if the port
    /// requires one.
    fn sender<S: GenSource + 'static>(
        &mut self,
        i: u16,
        queues: ThreadQueues,
        source: S,
    ) -> WorkerTask {
        match self.plan.header() {
            0 => self.sender_of(i, queues, source),
            header => self.sender_of(i, queues, HeaderSource::new(source, header)),
        }
    }

    fn sender_of<S: GenSource + 'static>(
        &mut self,
        i: u16,
        queues: ThreadQueues,
        source: S,
    ) -> WorkerTask {
        let mut queues = queues.into_iter();
        let queue = queues.next().expect("there are as many queues as threads");
        // The thread sends on its first queue only, but keeps its other queues open until it ends.
        let unused: Vec<_> = queues.collect();
        let sender = GenSender {
            schedule: self.schedule(i, source.next_len().unwrap_or(0)),
            remaining: self.share(i),
            progress: self.stats.sender(),
            options: self.options,
            queue,
            source,
        };
        Box::new(move |stop| {
            let result = sender.run(stop);
            drop(unused);
            result
        })
    }

    fn receivers(&mut self, queues_per_thread: QueuesPerThread) -> Vec<WorkerTask> {
        let budget = PacketBudget::new(self.plan.packets);
        let receiver = |queues| {
            let until =
                if self.plan.exit_when_idle { ReceiveUntil::Idle } else { ReceiveUntil::Ended };
            self.receiver(queues, budget.clone(), until, self.plan.function.verify())
        };
        queues_per_thread.into_iter().map(receiver).collect()
    }

    /// Creates the receiver for the port at which the sent frames arrive. It ends after the
    /// senders.
    fn sink(&mut self, queues: Vec<Box<dyn Queue>>) -> WorkerTask {
        let until = ReceiveUntil::AllReceived(self.stats.senders());
        self.receiver(queues, PacketBudget::new(u64::MAX), until, StampCheck::Checksum)
    }

    fn receiver(
        &mut self,
        queues: Vec<Box<dyn Queue>>,
        budget: Arc<PacketBudget>,
        until: ReceiveUntil,
        verify: StampCheck,
    ) -> WorkerTask {
        let receiver = GenReceiver {
            queues: RxQueues::new(queues, self.options.burst, self.plan.header()),
            rx_stats: self.rx_stats(verify, self.plan.latency),
            wait_policy: self.options.wait_policy,
            progress: self.stats.receiver(),
            budget,
            until,
        };
        Box::new(move |stop| receiver.run(stop))
    }

    fn pingers(
        &mut self,
        queues_per_thread: QueuesPerThread,
        material: FrameContent,
    ) -> Result<Vec<WorkerTask>, Failure> {
        let FrameContent::Pattern(pattern) = material else {
            unreachable!("the plan lets ping make its own frames");
        };
        let mut tasks = Vec::new();
        for (i, queues) in queues_per_thread.into_iter().enumerate() {
            let i = i as u16;
            let source = self.generator(&pattern, i)?;
            tasks.push(match self.plan.header() {
                0 => self.pinger(i, queues, source),
                header => self.pinger(i, queues, HeaderSource::new(source, header)),
            });
        }
        Ok(tasks)
    }

    fn pinger<S: GenSource + 'static>(
        &mut self,
        i: u16,
        queues: ThreadQueues,
        source: S,
    ) -> WorkerTask {
        let pinger = Pinger {
            queues: RxQueues::new(queues, self.options.burst.max(64), self.plan.header()),
            schedule: self.schedule(i, source.next_len().unwrap_or(0)),
            options: self.options,
            remaining: self.share(i),
            rx_stats: self.rx_stats(StampCheck::Checksum, true),
            sent: self.stats.sender(),
            answers: self.stats.receiver(),
            source,
        };
        Box::new(move |stop| pinger.run(stop))
    }

    fn pongers(&mut self, queues_per_thread: QueuesPerThread) -> Vec<WorkerTask> {
        let budget = PacketBudget::new(self.plan.packets);
        let ponger = |queues: ThreadQueues| -> WorkerTask {
            let ponger = Ponger {
                interests: vec![Interest::RX; queues.len()],
                queues,
                // At least 64, so that an answer usually leaves in the batch in which its request
                // arrived.
                burst: self.options.burst.max(64),
                budget: budget.clone(),
                header: self.plan.header(),
                mac: self.mac,
                wait_policy: self.options.wait_policy,
                dump: self.options.dump,
                progress: self.stats.receiver(),
            };
            Box::new(move |stop| ponger.run(stop))
        };
        queues_per_thread.into_iter().map(ponger).collect()
    }

    fn generator(&self, pattern: &TrafficPattern, i: u16) -> Result<Generator, Failure> {
        let src_mac = if self.plan.mac_of_port { self.mac } else { pattern.src_mac };
        let pattern = TrafficPattern { src_mac, ..pattern.clone() };
        let share =
            GeneratorShare::new(i, self.plan.threads).expect("thread i is one of the threads");
        let generator = Generator::new(&pattern, self.plan.seed, share)
            .map_err(|error| pattern_failure(&error))?;
        self.check_stamp(&generator)?;
        Ok(generator.with_stream_id(self.plan.stream.wrapping_add(i)))
    }

    /// Returns whether [`PatchedFrames`] can be used. Conditions: all frames have one length, which
    /// is at least [`PatchedFrames::MIN_LEN`]; each frame is in one slot; and a buffer still has
    /// its frame when it can be filled again. The last condition is not met if a peer gets the
    /// buffer, or if faults are injected.
    fn may_patch(&self, pattern: &TrafficPattern) -> bool {
        let (least, most) = (pattern.sizes.min(), pattern.sizes.max());
        let keeps =
            self.keeps_frames && !self.plan.faulty && self.options.split == SlotSplit::Whole;
        keeps && least == most && usize::from(least) >= PatchedFrames::MIN_LEN
    }

    /// Returns an error if the run needs stamps in its frames, but the frames are too short for
    /// them.
    fn check_stamp(&self, generator: &Generator) -> Result<(), Failure> {
        let (function, form) = (self.plan.function, generator.stamp_form());
        let timed = self.plan.latency || function == GenFunction::Ping;
        let numbered = function == GenFunction::TxSeq || self.plan.sink.is_some();
        let (fits, what) = match form {
            Some(StampForm::Timed) => (true, ""),
            Some(StampForm::Numbered) => (!timed, "a number and a time"),
            None => (!timed && !numbered, "a number"),
        };
        if fits {
            return Ok(());
        }
        let summary = format!("the shortest frames have no room for {what}");
        let cause = "it stands behind all headers of a frame";
        Err(wrong(summary, cause, "ask for longer ones: -l 100"))
    }

    fn schedule(&self, i: u16, len: usize) -> SendSchedule {
        let share = (i.into(), self.plan.threads.into());
        let schedule = SendSchedule::at(self.plan.rate, self.start, self.plan.framing, len, share);
        // The capture must be the same in every run, however busy the machine is. So the schedule
        // never skips time.
        if self.options.stamp == StampTime::Due { schedule.never_forfeiting() } else { schedule }
    }

    /// Returns the number of packets that thread `i` sends.
    fn share(&self, i: u16) -> u64 {
        let (all, threads) = (self.plan.packets, u64::from(self.plan.threads));
        if all == u64::MAX {
            return all;
        }
        all / threads + u64::from(u64::from(i) < all % threads)
    }

    fn rx_stats(&mut self, verify: StampCheck, latency: bool) -> SharedRxStats {
        let rx_stats =
            RxStats::new(verify, latency, self.options.dump).with_header(self.plan.header());
        let rx_stats = Arc::new(Mutex::new(rx_stats));
        self.stats.add_rx_stats(&rx_stats);
        rx_stats
    }
}

fn check_port(plan: &GenPlan, port: &Port) -> Result<(), Failure> {
    check_direction(&port.info, plan.function.direction())?;
    let queues = port.queues.len();
    if usize::from(plan.threads) > queues {
        return Err(wrong(
            format!("{} threads, but {} has {}", plan.threads, port.info.name, plural(queues)),
            "each thread needs a queue of its own",
            format!("-p {queues}, or a port with more: @conf:rings=N"),
        ));
    }
    Ok(())
}

fn plural(queues: usize) -> String {
    if queues == 1 { "1 queue".to_owned() } else { format!("{queues} queues") }
}

fn check_direction(info: &PortInfo, direction: Interest) -> Result<(), Failure> {
    let (what, other) = match (direction.rx && !info.caps.rx, direction.tx && !info.caps.tx) {
        (false, false) => return Ok(()),
        (true, _) => ("receive", "tx"),
        (_, true) => ("send", "rx"),
    };
    let cause = format!("ports of kind {} have this mode:{}", info.kind, info.mode);
    Err(wrong(format!("{} cannot {what}", info.name), cause, format!("take -f {other}")))
}

/// Returns how frames are spread over slots. A frame takes several slots if it is longer than one
/// slot, or if the user requested several.
fn split(plan: &GenPlan, info: &PortInfo, material: &FrameContent) -> Result<SlotSplit, Failure> {
    let longest = match material {
        _ if !plan.function.sends() => return Ok(SlotSplit::Whole),
        FrameContent::Pattern(pattern) => pattern.sizes.max().into(),
        FrameContent::Unwritten(len) => *len,
        FrameContent::Recorded { recording, .. } => recording.max_len(),
    };
    let (most, slot) = (info.caps.max_packet as usize, info.caps.max_slot as usize);
    let most = most - plan.header();
    if longest > most {
        let summary = format!("frames of {longest} bytes do not fit {}", info.name);
        let cause = format!("it carries {most} bytes at most");
        return Err(wrong(summary, cause, format!("ask for shorter ones: -l {most}")));
    }
    let longest = plan.header() + longest;
    Ok(match plan.send_options.split {
        SlotSplit::Whole if longest > slot => SlotSplit::Bytes(slot),
        SlotSplit::Bytes(bytes) => SlotSplit::Bytes(bytes.min(slot)),
        SlotSplit::Slots(count) if longest.div_ceil(count) > slot => SlotSplit::Bytes(slot),
        asked => asked,
    })
}

fn pinned(task: WorkerTask, cpu: usize) -> WorkerTask {
    Box::new(move |stop| {
        let mut set = CpuSet::new();
        set.set(cpu);
        let pinned = sched_setaffinity(None, &set);
        pinned.map_err(|error| RunError::system("gen", "pin a thread to its CPU", error.into()))?;
        task(stop)
    })
}

/// Returns the CPU of each thread; an error if this process may not use one of these CPUs.
fn cpus(CpuPinning { first, count }: CpuPinning, threads: usize) -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(None).map_err(std::io::Error::from)?;
    let count = if count == 0 { allowed.count() } else { count };
    let cpus: Vec<_> = (0..threads).map(|i| first as usize + i % count as usize).collect();
    let usable = |cpu: usize| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu);
    match cpus.iter().find(|cpu| !usable(**cpu)) {
        None => Ok(cpus),
        Some(cpu) => {
            let summary = format!("there is no CPU {cpu} for a thread to be pinned to");
            let cause = format!("this process may use {} CPUs", allowed.count());
            Err(wrong(summary, cause, "lower -a or -c; see `nproc` and `taskset -p $$`"))
        }
    }
}
