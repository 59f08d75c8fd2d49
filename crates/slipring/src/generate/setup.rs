//! Deals queues, frames and counters out among threads.

use std::sync::{Arc, Mutex};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use slipring_cli::Failure;
use slipring_port::{Interest, Nanos, Port, PortInfo, Queue, RunError, now};
use slipring_traffic::{Generator, Lane, Pattern, StampForm, Timeline, Verify};
use slipring_wire::MacAddr;

use super::board::Board;
use super::function::Function;
use super::ping::{Pinger, Ponger};
use super::plan::{Frames, OWN_MAC, Pinning, Plan, unmakable, wrong};
use super::receive::{Budget, Ear, Queues, Receiver, SharedEar, Until};
use super::schedule::Schedule;
use super::send::{Manner, Sender, Split, StampTime};
use super::source::{Headed, Patched, Recording, Replay, Source, Unwritten};
use slipring_program::workers::Task;

/// Between opening and the first frame: time for all threads to be there.
const HEAD_START: Nanos = 5_000_000;

/// Kinds of port that only ever read the buffers of a tx ring.
const KEEPING: [&str; 4] = ["xdp", "packet", "null", "pcap"];

/// What threads make frames of.
pub(super) enum Material {
    Made(Box<Pattern>),
    Unwritten(usize),
    Recorded { recording: Arc<Recording>, timeline: Timeline, timed: bool },
}

/// Reads what has to be read before any port is opened.
pub(super) fn load(frames: &Frames) -> Result<Material, Failure> {
    Ok(match frames {
        Frames::Made(pattern) => Material::Made(pattern.clone()),
        Frames::Unwritten(len) => Material::Unwritten(*len),
        Frames::Recorded { path, timeline, timed } => {
            let recording = Arc::new(Recording::read(path)?);
            Material::Recorded { recording, timeline: timeline.clone(), timed: *timed }
        }
    })
}

/// One task per thread.
pub(super) fn tasks(
    plan: &Plan,
    mut ports: Vec<Port>,
    material: Material,
    board: &mut Board,
) -> Result<Vec<Task>, Failure> {
    let sink = (ports.len() > 1).then(|| ports.remove(1));
    let port = ports.remove(0);
    check_port(plan, &port)?;
    let (mac, kind) = (port.info.mac.map_or(OWN_MAC, MacAddr), port.info.kind);
    let split = split(plan, &port.info, &material)?;
    let manner = Manner { split, ..plan.manner };
    let hands = deal(port.queues, plan.threads);
    let mut setup = Setup { plan, board, manner, start: now() + HEAD_START, mac, kind };
    let mut tasks = match plan.function {
        Function::Tx | Function::TxSeq => setup.senders(hands, material)?,
        Function::Rx | Function::RxSeq => setup.receivers(hands),
        Function::Ping => setup.pingers(hands, material)?,
        Function::Pong => setup.pongers(hands),
    };
    if let Some(sink) = sink {
        check_direction(&sink.info, Interest::RX)?;
        tasks.push(setup.sink(sink.queues));
    }
    let Some(pinning) = plan.pinning else { return Ok(tasks) };
    let cpus = cpus(pinning, tasks.len())?;
    Ok(tasks.into_iter().zip(cpus).map(|(task, cpu)| pinned(task, cpu)).collect())
}

/// The queues of each thread: number `i`, `i` + threads, and so on. It sends on the first.
fn deal(queues: Vec<Box<dyn Queue>>, threads: u16) -> Vec<Vec<Box<dyn Queue>>> {
    let mut hands: Vec<_> = (0..threads).map(|_| Vec::new()).collect();
    for (i, queue) in queues.into_iter().enumerate() {
        hands[i % usize::from(threads)].push(queue);
    }
    hands
}

struct Setup<'s> {
    plan: &'s Plan,
    board: &'s mut Board,
    manner: Manner,
    start: Nanos,
    mac: MacAddr,
    kind: &'static str,
}

/// The queues of one thread.
type Hand = Vec<Box<dyn Queue>>;
type Hands = Vec<Hand>;

impl Setup<'_> {
    fn senders(&mut self, hands: Hands, material: Material) -> Result<Vec<Task>, Failure> {
        let mut tasks = Vec::new();
        for (i, hand) in hands.into_iter().enumerate() {
            let i = i as u16;
            let task = match &material {
                Material::Made(pattern) if self.may_patch(pattern) => {
                    let slots = self.plan.opening.options.slots;
                    self.sender(i, hand, Patched::new(self.generator(pattern, i)?, slots))
                }
                Material::Made(pattern) => self.sender(i, hand, self.generator(pattern, i)?),
                Material::Unwritten(len) => self.sender(i, hand, Unwritten(*len)),
                Material::Recorded { recording, timeline, timed } => {
                    let lane = (i.into(), self.plan.threads.into());
                    self.sender(
                        i,
                        hand,
                        Replay::new(recording.clone(), timeline.clone(), *timed, lane),
                    )
                }
            };
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// Frames of `source`, behind a header where the port has one.
    fn sender<S: Source + 'static>(&mut self, i: u16, hand: Hand, source: S) -> Task {
        match self.plan.header() {
            0 => self.sender_of(i, hand, source),
            header => self.sender_of(i, hand, Headed::new(source, header)),
        }
    }

    fn sender_of<S: Source + 'static>(&mut self, i: u16, hand: Hand, source: S) -> Task {
        let mut hand = hand.into_iter();
        let queue = hand.next().expect("there are as many queues as threads");
        // The others stay open, unused, as long as this one is in use.
        let unused: Vec<_> = hand.collect();
        let sender = Sender {
            schedule: self.schedule(i, source.next_len().unwrap_or(0)),
            left: self.share(i),
            progress: self.board.sender(),
            manner: self.manner,
            queue,
            source,
        };
        Box::new(move |stop| {
            let result = sender.run(stop);
            drop(unused);
            result
        })
    }

    fn receivers(&mut self, hands: Hands) -> Vec<Task> {
        let budget = Budget::new(self.plan.packets);
        let receiver = |hand| {
            let until = if self.plan.exit_when_idle { Until::Idle } else { Until::Ended };
            self.receiver(hand, budget.clone(), until, self.plan.function.verify())
        };
        hands.into_iter().map(receiver).collect()
    }

    /// The thread at the other end of the path, which ends when the senders have.
    fn sink(&mut self, queues: Vec<Box<dyn Queue>>) -> Task {
        let until = Until::Heard(self.board.senders());
        self.receiver(queues, Budget::new(u64::MAX), until, Verify::Checksum)
    }

    fn receiver(
        &mut self,
        queues: Vec<Box<dyn Queue>>,
        budget: Arc<Budget>,
        until: Until,
        verify: Verify,
    ) -> Task {
        let receiver = Receiver {
            queues: Queues::new(queues, self.manner.burst, self.plan.header()),
            ear: self.ear(verify, self.plan.latency),
            patience: self.manner.patience,
            progress: self.board.receiver(),
            budget,
            until,
        };
        Box::new(move |stop| receiver.run(stop))
    }

    fn pingers(&mut self, hands: Hands, material: Material) -> Result<Vec<Task>, Failure> {
        let Material::Made(pattern) = material else {
            unreachable!("the plan lets ping make its own frames");
        };
        let mut tasks = Vec::new();
        for (i, hand) in hands.into_iter().enumerate() {
            let i = i as u16;
            let source = self.generator(&pattern, i)?;
            tasks.push(match self.plan.header() {
                0 => self.pinger(i, hand, source),
                header => self.pinger(i, hand, Headed::new(source, header)),
            });
        }
        Ok(tasks)
    }

    fn pinger<S: Source + 'static>(&mut self, i: u16, hand: Hand, source: S) -> Task {
        let pinger = Pinger {
            queues: Queues::new(hand, self.manner.burst.max(64), self.plan.header()),
            schedule: self.schedule(i, source.next_len().unwrap_or(0)),
            manner: self.manner,
            left: self.share(i),
            ear: self.ear(Verify::Checksum, true),
            sent: self.board.sender(),
            answers: self.board.receiver(),
            source,
        };
        Box::new(move |stop| pinger.run(stop))
    }

    fn pongers(&mut self, hands: Hands) -> Vec<Task> {
        let budget = Budget::new(self.plan.packets);
        let ponger = |hand: Hand| -> Task {
            let ponger = Ponger {
                wants: vec![Interest::RX; hand.len()],
                queues: hand,
                // Answers go out together with those that came together.
                burst: self.manner.burst.max(64),
                budget: budget.clone(),
                header: self.plan.header(),
                mac: self.mac,
                patience: self.manner.patience,
                dump: self.manner.dump,
                progress: self.board.receiver(),
            };
            Box::new(move |stop| ponger.run(stop))
        };
        hands.into_iter().map(ponger).collect()
    }

    fn generator(&self, pattern: &Pattern, i: u16) -> Result<Generator, Failure> {
        let src_mac = if self.plan.mac_of_port { self.mac } else { pattern.src_mac };
        let pattern = Pattern { src_mac, ..pattern.clone() };
        let lane = Lane::new(i, self.plan.threads).expect("thread i is one of the threads");
        let generator =
            Generator::new(&pattern, self.plan.seed, lane).map_err(|error| unmakable(&error))?;
        self.check_stamp(&generator)?;
        Ok(generator.with_stream_id(self.plan.stream.wrapping_add(i)))
    }

    /// Whether what was written to a buffer is still there when the buffer comes back: not where
    /// a peer gets it, and not where faults are put into it.
    fn may_patch(&self, pattern: &Pattern) -> bool {
        let (least, most) = (pattern.sizes.min(), pattern.sizes.max());
        let keeps =
            KEEPING.contains(&self.kind) && !self.plan.faulty && self.manner.split == Split::Whole;
        keeps && least == most && usize::from(least) >= Patched::MIN_LEN
    }

    /// Refuses frames that are too short for what is to be read from them.
    fn check_stamp(&self, generator: &Generator) -> Result<(), Failure> {
        let (function, form) = (self.plan.function, generator.stamp_form());
        let timed = self.plan.latency || function == Function::Ping;
        let numbered = function == Function::TxSeq || self.plan.sink.is_some();
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

    fn schedule(&self, i: u16, len: usize) -> Schedule {
        let share = (i.into(), self.plan.threads.into());
        let schedule = Schedule::at(self.plan.rate, self.start, self.plan.framing, len, share);
        // What a capture holds is the same in every run, however busy the machine.
        if self.manner.stamp == StampTime::Due { schedule.patient() } else { schedule }
    }

    /// How many packets thread `i` sends.
    fn share(&self, i: u16) -> u64 {
        let (all, threads) = (self.plan.packets, u64::from(self.plan.threads));
        if all == u64::MAX {
            return all;
        }
        all / threads + u64::from(u64::from(i) < all % threads)
    }

    fn ear(&mut self, verify: Verify, latency: bool) -> SharedEar {
        let ear = Ear::new(verify, latency, self.manner.dump).behind(self.plan.header());
        let ear = Arc::new(Mutex::new(ear));
        self.board.listen(&ear);
        ear
    }
}

fn check_port(plan: &Plan, port: &Port) -> Result<(), Failure> {
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

/// Spreads frames over slots where they are longer than one, or where that was asked for.
fn split(plan: &Plan, info: &PortInfo, material: &Material) -> Result<Split, Failure> {
    let longest = match material {
        _ if !plan.function.sends() => return Ok(Split::Whole),
        Material::Made(pattern) => pattern.sizes.max().into(),
        Material::Unwritten(len) => *len,
        Material::Recorded { recording, .. } => recording.max_len(),
    };
    let (most, slot) = (info.caps.max_packet as usize, info.caps.max_slot as usize);
    let most = most - plan.header();
    if longest > most {
        let summary = format!("frames of {longest} bytes do not fit {}", info.name);
        let cause = format!("it carries {most} bytes at most");
        return Err(wrong(summary, cause, format!("ask for shorter ones: -l {most}")));
    }
    let longest = plan.header() + longest;
    Ok(match plan.manner.split {
        Split::Whole if longest > slot => Split::Bytes(slot),
        Split::Bytes(bytes) => Split::Bytes(bytes.min(slot)),
        Split::Slots(count) if longest.div_ceil(count) > slot => Split::Bytes(slot),
        asked => asked,
    })
}

fn pinned(task: Task, cpu: usize) -> Task {
    Box::new(move |stop| {
        let mut set = CpuSet::new();
        set.set(cpu);
        let pinned = sched_setaffinity(None, &set);
        pinned.map_err(|error| RunError::system("gen", "pin a thread to its CPU", error.into()))?;
        task(stop)
    })
}

/// The CPU of each thread, all of which this process may use.
fn cpus(Pinning { first, count }: Pinning, threads: usize) -> Result<Vec<usize>, Failure> {
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
