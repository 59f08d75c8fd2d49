//! Commands, away from the threads that check frames: read, tried and made ready here, then
//! handed over whole.
//!
//! ```text
//!   Order --> master (a firewall that sees no packet) --Ruleset, pipes--> each engine, between bursts
//!      ^                                                                        |
//!      '------------------- counters, states, listings -------------------------'
//! ```
//!
//! # Invariants
//! 1. The master's list is that of every engine whenever the desk's lock is free.
//! 2. An order in a file is carried out wholly or not at all, pipes included; no packet meets half
//!    of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slipring_control::PATIENCE;
use slipring_dummynet::show::{RowOrder, Shown};
use slipring_dummynet::text::{Caps, Command as ShaperCommand};
use slipring_dummynet::{Dummynet, Event, SysctlError};
use slipring_ipfw::run::{BatchError, Counters, Firewall, Manner, Ruleset};
use slipring_ipfw::text::{
    Command, NatCommand, Nptv6Command, Nptv6Verb, TableCommand, TableScope, TableVerb, proto_name,
};

use crate::join::{Join, Nanos};
use crate::lint;
use crate::mail::Mail;
use crate::order::{Fault, Order, Outcome, Step, sysexits};
use crate::save::{self, ShaperState};
use crate::threads::obstacle;
use crate::values;
use crate::ways::Aside;

/// How long the threads that check frames may take to look into their mail.
const ANSWER: Duration = PATIENCE.checked_sub(Duration::from_secs(2)).expect("it is longer");

/// See the module.
pub(crate) struct Desk {
    master: Mutex<Firewall>,
    engines: Vec<Arc<Mail>>,
    /// What pipes may hold, as commands have set it.
    caps: Mutex<Caps>,
    /// Where rules are kept as they are after each change.
    state_file: Option<PathBuf>,
}

/// What the engines do for an order.
#[derive(Default)]
struct Change {
    ruleset: Option<Ruleset>,
    /// For the shaper, by the place of the command.
    shaper: Vec<(usize, ShaperCommand)>,
    /// Commands about counters, which lie with the engines.
    counters: Vec<Command>,
    manner: Manner,
    rows: RowOrder,
}

/// What a command says to a shaper's owner, by its place.
#[derive(Default)]
struct Said {
    at: usize,
    text: String,
    /// What a listing told, too.
    shown: Option<Shown>,
}

/// What commands say, or which one fails, why, and with what exit code.
type Changed = Result<Vec<Said>, (usize, String, u8)>;

impl Desk {
    /// A desk for engines that have adopted what `master` has.
    pub(crate) fn new(mut master: Firewall, engines: Vec<Arc<Mail>>) -> Self {
        master.set_plain(true);
        Self { master: Mutex::new(master), engines, caps: Mutex::default(), state_file: None }
    }

    /// Hands over what the master has.
    pub(crate) fn begin(&self) -> Outcome {
        let change = Change { ruleset: Some(self.lock().ruleset()), ..Change::default() };
        let fault = self.hand_over(change).err().map(|(fault, _)| fault);
        Outcome { fault, ..Outcome::default() }
    }

    /// Lets frames in, once the rules to begin with hold.
    pub(crate) fn let_in(&self) {
        self.engines.iter().for_each(|mail| mail.begin());
    }

    /// Carries out an order.
    pub(crate) fn carry_out(&self, order: &Order, now: Nanos) -> Outcome {
        self.do_all(order, |_, _| Vec::new(), now)
    }

    /// Carries out a file of commands in place of all rules that there are, and of the tables and
    /// instances of `nptv6` that it makes.
    pub(crate) fn replace(&self, order: &Order, now: Nanos) -> Outcome {
        self.do_all(order, cleared_for, now)
    }

    /// Carries out an order, and before it the steps that `cleared` gives for it.
    fn do_all(
        &self,
        order: &Order,
        cleared: fn(&Firewall, &[Step]) -> Vec<Step>,
        now: Nanos,
    ) -> Outcome {
        let mut master = self.lock();
        let mut caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        let done = order.steps(*caps).and_then(|read| {
            let mut steps = cleared(&master, &read);
            steps.extend(read);
            let mut outcome = self.do_steps(&mut master, order, &steps, now)?;
            *caps = steps.iter().fold(*caps, |caps, step| step.caps_after(caps));
            let keeps = self.state_file.is_some() && steps.iter().any(changes_anything);
            if order.is_file || keeps {
                self.look_back(&mut master, order.is_file, keeps, &mut outcome)?;
            }
            Ok(outcome)
        });
        done.unwrap_or_else(|fault| Outcome { fault: Some(fault), ..Outcome::default() })
    }

    /// Looks at what there is after a change: for what is amiss, and to keep it.
    fn look_back(
        &self,
        master: &mut Firewall,
        is_file: bool,
        keeps: bool,
        outcome: &mut Outcome,
    ) -> Result<(), Fault> {
        let shaper = self.shaper_state()?;
        if is_file {
            outcome.warnings = lint::warnings(master, &shaper.objects);
        }
        let Some(path) = self.state_file.as_ref().filter(|_| keeps) else { return Ok(()) };
        let kept = write_whole(path, &save::text(master, &shaper));
        outcome.warnings.extend(kept.err().map(|error| {
            format!("{} cannot be written, and has what was before: {error}", path.display())
        }));
        Ok(())
    }

    /// Pipes are all with the first engine.
    fn shaper_state(&self) -> Result<ShaperState, Fault> {
        let all = self.ask(|| |join: &mut Join, _: &mut _, _| ShaperState::of(join))?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// Commands that make rules, tables and pipes as they are.
    pub(crate) fn save(&self) -> Result<String, Fault> {
        let shaper = self.shaper_state()?;
        Ok(save::text(&mut self.lock(), &shaper))
    }

    /// Keeps what there is in a file from now on.
    pub(crate) fn keep_in(mut self, path: Option<PathBuf>) -> Self {
        self.state_file = path;
        self
    }

    fn do_steps(
        &self,
        master: &mut Firewall,
        order: &Order,
        steps: &[Step],
        now: Nanos,
    ) -> Result<Outcome, Fault> {
        let manner = order.manner();
        self.fetch(master, steps, manner)?;
        let before = master.before();
        let (mut texts, fault) = try_on(master, order, steps, now)?;
        if self.engines.len() > 1
            && let Some(obstacle) = obstacle(master.config())
        {
            master.undo(before);
            return Err(Fault::new(obstacle, sysexits::DATA));
        }
        let change = Change {
            ruleset: ruleset_after(master, steps),
            shaper: (0..)
                .zip(steps)
                .filter_map(|(at, step)| Some((at, step.shaper.clone()?)))
                .collect(),
            counters: steps
                .iter()
                .filter(|step| is_about_counters(&step.command))
                .map(|step| step.command.clone())
                .collect(),
            manner,
            rows: order.rows(),
        };
        let mut shown = BTreeMap::new();
        match self.hand_over(change) {
            Ok(told) => {
                for said in told {
                    texts[said.at].push_str(&said.text);
                    shown.extend(said.shown.map(|shown| (said.at, shown)));
                }
            }
            Err(mut fault) => {
                master.undo(before);
                if let (true, Some(at)) = (order.is_file, fault.1) {
                    fault.0.message = format!("line {}: {}", steps[at].line, fault.0.message);
                }
                return Err(fault.0);
            }
        }
        let value = order.json.then(|| {
            let all = (0..).zip(steps).zip(&texts);
            let answer = |((at, step), text): ((usize, &Step), &String)| {
                values::answer(master, &step.command, text, shown.get(&at))
            };
            all.map(answer).collect()
        });
        Ok(Outcome { text: texts.concat(), value, fault, ..Outcome::default() })
    }

    /// Gets from the engines what these commands ask the master for.
    fn fetch(&self, master: &mut Firewall, steps: &[Step], manner: Manner) -> Result<(), Fault> {
        let lists = steps.iter().any(|step| matches!(step.command, Command::List { .. }));
        let counts = steps.iter().any(|step| matches!(step.command, Command::Sysctl { .. }));
        if lists {
            let counters: Vec<Vec<Counters>> =
                self.ask(|| |join: &mut Join, _: &mut _, _| join.firewall().counters().to_vec())?;
            master.show_counters(&counters);
        }
        if steps.iter().any(|step| shows_translations(&step.command)) {
            let figures =
                self.ask(|| |join: &mut Join, _: &mut _, _| join.firewall().translation_figures())?;
            master.show_translations(figures);
        }
        let with_states = manner.list.states != slipring_ipfw::run::StatesShown::None;
        if counts || (lists && with_states) {
            let states =
                self.ask(|| |join: &mut Join, _: &mut _, _| join.firewall().states().snapshot())?;
            master.show_states(states);
        }
        Ok(())
    }

    /// Has every engine make a change; nobody has where one fails.
    fn hand_over(&self, change: Change) -> Result<Vec<Said>, (Fault, Option<usize>)> {
        if change.ruleset.is_none() && change.shaper.is_empty() && change.counters.is_empty() {
            return Ok(Vec::new());
        }
        let Change { ruleset, shaper, counters, manner, rows } = change;
        let engines = self.engines.len() as u32;
        let answers = self.ask(|| {
            let ruleset = ruleset.clone().map(|ruleset| ruleset.shared_among(engines));
            let (mut ruleset, shaper, counters) = (ruleset, shaper.clone(), counters.clone());
            move |join: &mut Join, aside: &mut Aside, now: Nanos| {
                let (changed, events) = shape(join, &shaper, rows, now);
                join.told(events, now, aside);
                if changed.is_ok() {
                    ruleset.iter_mut().for_each(|ruleset| join.adopt(ruleset));
                    for command in &counters {
                        // The master has found that it can be done.
                        let _ = join.firewall_mut().execute(command, now, manner);
                    }
                }
                // What was goes back to who asked, and is dropped there.
                (changed, ruleset)
            }
        });
        let answers = answers.map_err(|fault| (fault, None))?;
        let first = answers.into_iter().next().map_or(Ok(Vec::new()), |(changed, ..)| changed);
        first.map_err(|(at, message, exit)| (Fault::new(message, exit), Some(at)))
    }

    /// Has every engine do something, and waits for all.
    pub(crate) fn ask<T, F>(&self, act: impl Fn() -> F) -> Result<Vec<T>, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&mut Join, &mut Aside, Nanos) -> T + Send + 'static,
    {
        let until = Instant::now() + ANSWER;
        let posted: Vec<Receiver<T>> = self.engines.iter().map(|mail| mail.post(act())).collect();
        let answer = |answered: Receiver<T>| {
            let left = until.saturating_duration_since(Instant::now());
            answered.recv_timeout(left).map_err(|_| {
                Fault::new("the firewall does not answer: it is ending", sysexits::PROTOCOL)
            })
        };
        posted.into_iter().map(answer).collect()
    }

    /// Asks the master, whose counters are those of the engines.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Firewall) -> T) -> Result<T, Fault> {
        let mut master = self.lock();
        let counters =
            self.ask(|| |join: &mut Join, _: &mut _, _| join.firewall().counters().to_vec())?;
        master.show_counters(&counters);
        Ok(look(&master))
    }

    /// Commands are tried before they change anything, also those of a thread that panicked.
    fn lock(&self) -> MutexGuard<'_, Firewall> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries commands on the master. One alone may do a part of its work and say so.
fn try_on(
    master: &mut Firewall,
    order: &Order,
    steps: &[Step],
    now: Nanos,
) -> Result<(Vec<String>, Option<Fault>), Fault> {
    let manner = order.manner();
    if let (false, [step]) = (order.is_file, steps) {
        return Ok(match master.execute(&step.command, now, manner) {
            Ok(reply) => (vec![reply.text], None),
            Err(error) => {
                let fault = Fault::new(error.message, error.exit_code);
                (vec![error.text], Some(fault))
            }
        });
    }
    let commands: Vec<_> = steps.iter().map(|step| (step.line, step.command.clone())).collect();
    match master.batch(&commands, now, manner) {
        Ok(replies) => Ok((replies.into_iter().map(|reply| reply.text).collect(), None)),
        Err(BatchError::Command { line, error }) => {
            Err(Fault::new(format!("line {line}: {}", error.message), error.exit_code))
        }
        Err(BatchError::Text(error)) => Err(Fault::new(error.to_string(), sysexits::DATA)),
    }
}

/// Has the shaper carry out commands, all or none.
fn shape(
    join: &mut Join,
    commands: &[(usize, ShaperCommand)],
    rows: RowOrder,
    now: Nanos,
) -> (Changed, Vec<Event<u32>>) {
    let changes = |command: &ShaperCommand| {
        !matches!(command, ShaperCommand::Show(..) | ShaperCommand::Sysctl(_, None))
    };
    let saved = (commands.iter().filter(|(_, command)| changes(command)).count() > 1)
        .then(|| join.shaper_mut().clone());
    let (mut texts, mut events) = (Vec::new(), Vec::new());
    for (at, command) in commands {
        match shape_once(join.shaper_mut(), command, rows, (now, &mut events)) {
            Ok(said) => texts.push(Said { at: *at, ..said }),
            Err((message, exit)) => {
                if let Some(saved) = saved {
                    *join.shaper_mut() = saved;
                    events.clear();
                }
                return (Err((*at, message, exit)), events);
            }
        }
    }
    (Ok(texts), events)
}

fn shape_once(
    shaper: &mut Dummynet<u32>,
    command: &ShaperCommand,
    rows: RowOrder,
    (now, events): (Nanos, &mut Vec<Event<u32>>),
) -> Result<Said, (String, u8)> {
    let tell = &mut |event| events.push(event);
    match command {
        ShaperCommand::Config(config) => {
            let made = shaper.configure(now, config.clone(), tell);
            made.map_err(|error| (error.to_string(), sysexits::DATA))?;
        }
        ShaperCommand::ConfigWithProfile(_, name) => {
            return Err((format!("the profile {name} was not read"), sysexits::NO_INPUT));
        }
        ShaperCommand::Delete(kind, ranges) => {
            for range in ranges {
                let gone = shaper.delete(now, *kind, range.clone(), tell);
                gone.map_err(|error| (error.to_string(), sysexits::UNAVAILABLE))?;
            }
        }
        ShaperCommand::Show(kind, ranges) => {
            let shown = shaper.show(now, *kind, ranges, rows);
            let text = shown.text(protocol);
            return Ok(Said { text, shown: Some(shown), ..Said::default() });
        }
        ShaperCommand::Sysctl(name, value) => {
            let said = shaper.sysctl(name, *value);
            let said = said.map_err(|error| (error.to_string(), sysctl_exit(&error)));
            return said.map(|text| Said { text, ..Said::default() });
        }
        ShaperCommand::Flush => {
            shaper.flush(now, tell);
            return Ok(Said { text: "Flushed all pipes.\n".to_owned(), ..Said::default() });
        }
    }
    Ok(Said::default())
}

/// What `sysctl` of pipes ends with.
pub(crate) fn sysctl_exit(error: &SysctlError) -> u8 {
    match error {
        SysctlError::Unknown(_) => sysexits::UNAVAILABLE,
        _ => sysexits::DATA,
    }
}

/// The name of a protocol in rows of pipes, where none is told apart as `ip`, as protocols(5) has it.
pub(crate) fn protocol(number: u8) -> Option<&'static str> {
    if number == 0 { Some("ip") } else { proto_name(number) }
}

/// What the engines have to adopt. Rules take long to be made ready, so that is done only where
/// it is needed.
fn ruleset_after(master: &Firewall, steps: &[Step]) -> Option<Ruleset> {
    let does = |changes: fn(&Command) -> bool| steps.iter().any(|step| changes(&step.command));
    if does(changes_rules) {
        return Some(master.ruleset());
    }
    does(changes_tables).then(|| master.before())
}

/// Whether what a state file has is another one afterwards.
fn changes_anything(step: &Step) -> bool {
    let shapes = |shaper: &ShaperCommand| {
        !matches!(shaper, ShaperCommand::Show(..) | ShaperCommand::Sysctl(_, None))
    };
    changes_rules(&step.command)
        || changes_tables(&step.command)
        || step.shaper.as_ref().is_some_and(shapes)
}

/// Writes a file so that others find it whole, or as it was.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

const fn changes_rules(command: &Command) -> bool {
    match command {
        Command::Add(_)
        | Command::Delete(_)
        | Command::Flush { .. }
        | Command::Set(_)
        | Command::Switch { .. } => true,
        Command::Sysctl { value, .. } => value.is_some(),
        _ => false,
    }
}

/// Tables and translators: rules that were made ready stay so.
const fn changes_tables(command: &Command) -> bool {
    match command {
        Command::Table(table) => !matches!(
            table.verb,
            TableVerb::List | TableVerb::Info | TableVerb::Detail | TableVerb::Lookup(_)
        ),
        Command::Nat(nat) => !matches!(nat, NatCommand::Show { .. }),
        Command::Nptv6(nptv6) => {
            matches!(nptv6.verb, Nptv6Verb::Create(_) | Nptv6Verb::Destroy)
        }
        _ => false,
    }
}

const fn is_about_counters(command: &Command) -> bool {
    match command {
        Command::Zero { .. } | Command::ResetLog { .. } => true,
        Command::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { reset: true }),
        _ => false,
    }
}

const fn shows_translations(command: &Command) -> bool {
    match command {
        Command::Nat(nat) => matches!(nat, NatCommand::Show { .. }),
        Command::Nptv6(nptv6) => matches!(nptv6.verb, Nptv6Verb::Stats { .. }),
        _ => false,
    }
}

/// What takes away all rules, and each table and instance of `nptv6` that `steps` make and
/// `firewall` has.
fn cleared_for(firewall: &Firewall, steps: &[Step]) -> Vec<Step> {
    let step = |command| Step { line: 0, command, shaper: None };
    let mut cleared = vec![step(Command::Flush { set: None })];
    for made in steps {
        let taken_away = match &made.command {
            Command::Table(TableCommand {
                scope: TableScope::One(name),
                set,
                verb: TableVerb::Create(_),
            }) if firewall.config().tables.get(*set, name.as_str()).is_some() => {
                let (scope, verb) = (TableScope::One(name.clone()), TableVerb::Destroy);
                Command::Table(TableCommand { scope, set: *set, verb })
            }
            Command::Nptv6(Nptv6Command { name: Some(name), verb: Nptv6Verb::Create(_) })
                if firewall.nptv6_counters().any(|(known, _)| known == name) =>
            {
                Command::Nptv6(Nptv6Command { name: Some(name.clone()), verb: Nptv6Verb::Destroy })
            }
            _ => continue,
        };
        let step = step(taken_away);
        if !cleared.iter().any(|other| other.command == step.command) {
            cleared.push(step);
        }
    }
    cleared
}
