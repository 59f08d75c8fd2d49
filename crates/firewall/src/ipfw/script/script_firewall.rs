//! A firewall without real ports. The script controls its clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use clap::error::ErrorKind;
use rustix::event::{PollFd, PollFlags, poll};
use slipring_dummynet::Dummynet;
use slipring_ipfw::run::Firewall;

use super::frames::{self, described};
use crate::dataplane::bypassed;
use crate::dataplane::{Dataplane, DataplaneCounters, DataplaneNanos};
use crate::deferred_output::DeferredOutput;
use crate::flags::{self, FirewallPlan};
use crate::ipfw::input::{IpfwAction, IpfwInput};
use crate::ipfw::{IpfwCommandError, dry_run, explain, flags as words, no_command};
use crate::task_queue::TaskQueue;
use slipring_rules::LogEvents;
use slipring_rules::command_batch::{CommandBatch, CommandFault, CommandOutcome};
use slipring_rules::control_plane::ControlPlane;
use slipring_rules::randomness::Randomness;

/// Time at which the script's clock starts, in seconds since 1970. It is the first second of 2026.
const EPOCH: u64 = 1_767_225_600;
const RANDOM: Randomness =
    Randomness { seed: 1, secret: [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9] };

/// The part of the firewall that processes packets: a dataplane and its output.
struct ScriptEngine {
    dataplane: Dataplane,
    deferred: DeferredOutput,
}

pub(super) struct ScriptFirewall {
    control_plane: ControlPlane,
    ports: Vec<String>,
    engine: Arc<Mutex<ScriptEngine>>,
    events: Arc<LogEvents>,
    last_event: u64,
    task_queue: Arc<TaskQueue>,
    now: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptFirewall {
    /// Creates a firewall, as `slipring firewall WORDS` would.
    pub(super) fn new(words: &str) -> Self {
        let words = ["firewall"].into_iter().chain(words.split_whitespace());
        let matches = flags::command().try_get_matches_from(words).unwrap();
        let Ok(plan) = FirewallPlan::of(&matches) else { panic!("no plan") };
        let mut master = plan.firewall(RANDOM);
        master.set_epoch_ns(EPOCH * 1_000_000_000);
        let ports = master.config().ports.clone();
        let events = Arc::new(LogEvents::default());
        events.watch();
        let firewall = Firewall::new(RANDOM.seed, RANDOM.secret);
        let shaper = Dummynet::new(RANDOM.seed, RANDOM.secret);
        let dataplane = Dataplane::new(firewall, shaper, plan.map.clone(), plan.passes);
        let deferred = DeferredOutput::new(events.clone());
        let engine = Arc::new(Mutex::new(ScriptEngine { dataplane, deferred }));
        let (task_queue, now) = (Arc::new(TaskQueue::new().unwrap()), Arc::new(AtomicU64::new(0)));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (engine, task_queue) = (engine.clone(), task_queue.clone());
            let (now, is_over) = (now.clone(), is_over.clone());
            spawn(move || serve(&engine, &task_queue, &now, &is_over))
        };
        let control_plane = ControlPlane::new(master, vec![task_queue.clone()]);
        assert_eq!(control_plane.begin().fault, None);
        let thread = Some(thread);
        Self {
            control_plane,
            ports,
            engine,
            events,
            last_event: 0,
            task_queue,
            now,
            is_over,
            thread,
        }
    }

    fn now(&self) -> DataplaneNanos {
        self.now.load(Ordering::Relaxed)
    }

    /// Executes a command; returns its output and its exit code.
    pub(super) fn command(&self, line: &str) -> String {
        let mut line = unquoted(line);
        // `--json` is not in this program's tables of flags, because all `slipring` programs share
        // this flag.
        let json =
            line.iter().position(|word| word == "--json").map(|at| line.remove(at)).is_some();
        let is_dnctl = line[0] == "dnctl";
        let table = if is_dnctl { words::dnctl() } else { words::ipfw() };
        let matches = match table.try_get_matches_from(&line) {
            Ok(matches) => matches,
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                return error.render().to_string();
            }
            Err(error) => {
                let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                return format!("! {first}\nexit 64\n");
            }
        };
        match IpfwInput::of(&matches, is_dnctl).and_then(|input| self.carried_out(&input, json)) {
            Ok(CommandOutcome { value: Some(answers), fault: None, .. }) => values(answers),
            Ok(CommandOutcome { text, fault, warnings, .. }) => {
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
                text + &warnings.collect::<String>() + &fault.map_or_else(String::new, fault_text)
            }
            Err(IpfwCommandError::Fault(fault)) => fault_text(fault),
            Err(IpfwCommandError::Failure(_)) => panic!("{line:?} failed"),
        }
    }

    fn carried_out(
        &self,
        input: &IpfwInput,
        json: bool,
    ) -> Result<CommandOutcome, IpfwCommandError> {
        if input.action == IpfwAction::Nothing {
            return Err(no_command().into());
        }
        if input.action == IpfwAction::Explain {
            let (args, many) = explain::question(&input.words[1..])?;
            let args = args.as_object().unwrap();
            let answer =
                slipring_rules::explain::answer(&self.control_plane, args, &bypassed, self.now())?;
            let text = explain::text_of(&answer, many);
            return Ok(CommandOutcome { text, ..CommandOutcome::default() });
        }
        if input.action == IpfwAction::Save {
            return Ok(CommandOutcome {
                text: self.control_plane.save(input.with_states, self.now())?,
                ..CommandOutcome::default()
            });
        }
        let order = input.command_batch(json)?;
        let named = |fault| if order.is_file { input.with_file(fault) } else { fault };
        if input.is_dry_run {
            return dry_run(input, &order);
        }
        input.steps(&order)?;
        let outcome = self.control_plane.execute(&order, self.now());
        Ok(CommandOutcome { fault: outcome.fault.map(named), ..outcome })
    }

    /// Loads a rules file, as the signal HUP does.
    pub(super) fn replace(&self, text: &str) {
        let order =
            CommandBatch { text: text.to_owned(), is_file: true, ..CommandBatch::default() };
        assert_eq!(self.control_plane.replace(&order, self.now()).fault, None);
    }

    /// Offers the frames that `words` describe (`PORT FRAME [xN]`) to the firewall; returns their
    /// fates.
    pub(super) fn frames(&mut self, words: &str) -> String {
        let (port, frame) = words.split_once(' ').expect("a port and a frame");
        let from = self.ports.iter().position(|name| name == port).expect("a port of that name");
        let (frame, count) = match frame.rsplit_once(" x") {
            Some((frame, count)) => (frame, count.parse().unwrap()),
            None => (frame, 1),
        };
        let mut fates: Vec<(String, usize)> = Vec::new();
        for _ in 0..count {
            let fate = self.fate(frames::frame(frame), from as u16);
            match fates.iter_mut().find(|(known, _)| *known == fate) {
                Some((_, count)) => *count += 1,
                None => fates.push((fate, 1)),
            }
        }
        let times = |(fate, count): &(String, usize)| match count {
            1 => fate.clone(),
            count => format!("{fate} x{count}"),
        };
        fates.iter().map(times).collect::<Vec<_>>().join(", ")
    }

    fn fate(&self, mut frame: Vec<u8>, from: u16) -> String {
        let mut engine = self.engine.lock().unwrap();
        let ScriptEngine { dataplane, deferred } = &mut *engine;
        let (before, was) = (dataplane.counters(), described(&frame));
        let output = dataplane.offer(&mut frame, from, self.now(), deferred);
        let mut parts = Vec::new();
        if let Some(port) = output {
            let (port, is) = (&self.ports[usize::from(port)], described(&frame));
            parts.push(if is == was { port.clone() } else { format!("{port} as {is}") });
        }
        let after = dataplane.counters();
        parts.extend(losses(&before, &after));
        if after.waiting > before.waiting {
            parts.push("waits".to_owned());
        }
        for (port, frame) in deferred.frames.drain(..) {
            parts.push(format!("{} gets {}", self.ports[usize::from(port)], described(&frame)));
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
    }

    /// Advances the clock by `time`. Returns the frames that leave in this time, and when each
    /// leaves.
    pub(super) fn wait(&self, time: Duration) -> String {
        let mut engine = self.engine.lock().unwrap();
        let ScriptEngine { dataplane, deferred } = &mut *engine;
        let (begin, before) = (self.now(), dataplane.counters());
        let until = begin + time.as_nanos() as u64;
        let mut parts = Vec::new();
        while let Some(due) = dataplane.next_ns().filter(|&due| due <= until) {
            let now = due.max(self.now());
            self.now.store(now, Ordering::Relaxed);
            let made = dataplane.counters().made;
            dataplane.run(now, deferred);
            let is_made = dataplane.counters().made > made;
            let at = (now - begin) as f64 / 1e6;
            for (port, frame) in deferred.frames.drain(..) {
                let port = &self.ports[usize::from(port)];
                let what = if is_made { format!(" {}", described(&frame)) } else { String::new() };
                parts.push(format!("{port}@{at}ms{what}"));
            }
        }
        self.now.store(until, Ordering::Relaxed);
        parts.extend(losses(&before, &dataplane.counters()));
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }

    /// Returns the lines that rules have logged since the last call.
    pub(super) fn log_lines(&mut self) -> String {
        let late = self.events.events_after(self.last_event, Duration::ZERO);
        self.last_event = late.last().map_or(self.last_event, |event| event.seq);
        late.iter().map(|event| format!("{}\n", event.event.line)).collect()
    }

    /// Asserts that every offered frame was sent, was lost with a cause, or waits.
    pub(super) fn check(&self) {
        let engine = self.engine.lock().unwrap();
        assert!(engine.dataplane.is_balanced(), "{:?}", engine.dataplane.counters());
    }
}

impl Drop for ScriptFirewall {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.task_queue.push(Box::new(|_, _, _| ()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Executes the tasks of the control plane, as a packet thread does between two bursts.
fn serve(
    engine: &Mutex<ScriptEngine>,
    task_queue: &TaskQueue,
    now: &AtomicU64,
    is_over: &AtomicBool,
) {
    while !is_over.load(Ordering::Acquire) {
        poll(&mut [PollFd::from_borrowed_fd(task_queue.wake_fd(), PollFlags::IN)], None).unwrap();
        let mut engine = engine.lock().unwrap();
        let ScriptEngine { dataplane, deferred } = &mut *engine;
        for task in task_queue.drain() {
            task(dataplane, deferred, now.load(Ordering::Relaxed));
        }
    }
}

fn fault_text(fault: CommandFault) -> String {
    let CommandFault { message, expected, exit, .. } = fault;
    let expected = expected.map_or_else(String::new, |expected| format!("; expected {expected}"));
    format!("! {message}{expected}\nexit {exit}\n")
}

fn losses(before: &DataplaneCounters, after: &DataplaneCounters) -> Vec<String> {
    let both = before.losses().zip(after.losses());
    let grown = both.filter(|((_, before), (_, after))| after > before);
    grown
        .map(|((cause, before), (_, after))| match after - before {
            1 => format!("lost {cause}"),
            count => format!("lost {cause} x{count}"),
        })
        .collect()
}

/// Splits a line into words. Single quotes group several words.
fn unquoted(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// Formats JSON answers without their `text` fields.
fn values(answers: serde_json::Value) -> String {
    let serde_json::Value::Array(mut answers) = answers else { panic!("answers are a list") };
    for answer in &mut answers {
        answer.as_object_mut().unwrap().remove("text").unwrap();
    }
    serde_json::to_string_pretty(&answers).unwrap() + "\n"
}
