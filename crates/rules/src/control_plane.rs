//! Executes commands outside the packet threads. Commands are first parsed and tried; then the
//! result is passed to all engines as one change. An *engine* is the dataplane (rules, states and
//! pipes) of one packet thread.
//!
//! ```text
//!   CommandBatch --> master (sees no packets) --Ruleset, pipes--> each engine, between bursts
//!      ^                                                              |
//!      '------------------- counters, states, listings ---------------'
//! ```
//!
//! # Invariants
//! 1. The control plane has its own copy of the rules, the *master*. Whenever the lock on the
//!    master is free, the master and every engine have the same rules.
//! 2. A batch from a file is applied completely or not at all, including its pipes. No packet is
//!    checked while only a part of the batch is in force.

mod changes;
mod engine_replies;
mod steered;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipring_control::REPLY_TIMEOUT;
use slipring_dummynet::show::RowOrder;
use slipring_dummynet::text::{DummynetCommand as ShaperCommand, QueueCaps};
use slipring_ipfw::run::{
    CommandFlags, Firewall, IpfwConfig, LineError, PortIndex, RestoredStates, RuleCounters, Ruleset,
};
use slipring_ipfw::state::SavedState;
use slipring_ipfw::text::{IpfwCommand, StateCommand};

use crate::command_batch::{
    CommandBatch, CommandFault, CommandOutcome, CommandStep, LineFault, merge_faults,
    merge_line_faults, sysexits,
};
use crate::dataplane::{RuleDataplane, RuleThread, submit};
use crate::distribution::{FlowDistribution, Steering, distribution_obstacle};
use crate::lint;
use crate::save::{self, ShaperState};
use crate::shaper_commands::{CommandsResult, ShaperReply, changes_shaper, of_shaper, shape};
use crate::state_file::StateFile;
use crate::values;
use changes::{
    changes_anything, cleared_for, dry_run, is_about_counters, ruleset_after, shows_translations,
    unrestored_states,
};
use engine_replies::ChangeClaim;

/// Maximum time to wait until all packet threads have executed a task.
const ENGINE_REPLY_TIMEOUT: Duration =
    REPLY_TIMEOUT.checked_sub(Duration::from_secs(2)).expect("it is longer");

/// Applies command batches to a master firewall and to all engines.
pub struct ControlPlane {
    master: Mutex<Firewall>,
    engines: Vec<Arc<dyn RuleThread>>,
    /// The maximum lengths of pipe queues; sysctl commands change them.
    caps: Mutex<QueueCaps>,
    /// Which engine handles a flow; `None` if there is only one engine.
    distribution: Option<FlowDistribution>,
    /// Which engine must check a frame of a flow; changes with the rules. `None` if the rules do
    /// not decide this.
    steering: Option<Mutex<Steering>>,
    /// The function that returns why rules cannot be executed here; `None` if all rules can be
    /// executed.
    obstacle: Option<RuleObstacle>,
    /// The file to which the rules are written after each change; `None` if rules are not saved.
    state_file: Option<StateFile>,
    /// Whether the state file also contains the dynamic states.
    persists_states: bool,
    /// Maximum time to wait for the engines: [`ENGINE_REPLY_TIMEOUT`], except in tests.
    reply_timeout: Duration,
}

/// Returns why rules cannot be executed; `None` if they can be executed.
pub type RuleObstacle = fn(&IpfwConfig) -> Option<String>;

/// The part of a batch that one engine executes.
#[derive(Default)]
struct DataplaneChange {
    ruleset: Option<Ruleset>,
    /// Commands for the shaper. Each has the index of its step in the batch.
    shaper: Vec<(usize, ShaperCommand)>,
    /// Commands that reset counters. The engines execute them, because the master has no counters.
    counters: Vec<IpfwCommand>,
    /// Dynamic states to restore.
    states: Vec<SavedState>,
    options: CommandFlags,
    rows: RowOrder,
}

/// What the engines reported about a change.
#[derive(Default)]
struct ChangeReport {
    replies: Vec<ShaperReply>,
    /// Number of states that were not restored because the state tables were full.
    states_without_room: usize,
}

/// Why a change failed. Each fault has the index of the step that caused it; `None` if no step did.
type ChangeFaults = Vec<(CommandFault, Option<usize>)>;

impl ControlPlane {
    /// Creates a control plane. The packet threads `engines` must have the rules of `master`.
    pub fn new<T: RuleThread + 'static>(
        mut master: Firewall,
        engines: impl IntoIterator<Item = Arc<T>>,
    ) -> Self {
        let engines = engines.into_iter().map(|thread| thread as Arc<dyn RuleThread>).collect();
        master.set_plain(true);
        let master = Mutex::new(master);
        let (caps, distribution, state_file) = (Mutex::default(), None, None);
        let steering = None;
        let reply_timeout = ENGINE_REPLY_TIMEOUT;
        Self {
            master,
            engines,
            caps,
            distribution,
            steering,
            obstacle: None,
            state_file,
            persists_states: false,
            reply_timeout,
        }
    }

    /// Sets how flows are distributed among the engines. Rules that need the frames of all flows in
    /// one thread are refused from now on.
    pub fn with_distribution(mut self, dealing: FlowDistribution) -> Self {
        self.distribution = Some(dealing);
        self.refusing(distribution_obstacle)
    }

    /// Sets how flows are distributed among the engines. The [`Steering`] of the current rules
    /// decides whether a frame follows this distribution.
    #[must_use]
    pub fn with_steering(mut self, distribution: FlowDistribution) -> Self {
        self.distribution = Some(distribution);
        self.steering = Some(Mutex::default());
        self
    }

    /// Refuses the rules for which `obstacle` returns a reason.
    #[must_use]
    pub fn refusing(mut self, obstacle: RuleObstacle) -> Self {
        self.obstacle = Some(obstacle);
        self
    }

    /// Sets the addresses of `me`, each with its port, in all engines.
    ///
    /// # Errors
    /// [`CommandFault`] if an engine does not answer. In this case nothing has changed.
    pub fn set_me(&self, me: Vec<(IpAddr, Option<PortIndex>)>) -> Result<(), CommandFault> {
        let mut master = self.lock();
        if master.config().me == me {
            return Ok(());
        }
        let before = master.before();
        master.set_me(me);
        let ruleset = Some(master.ruleset());
        self.apply_to_engines(DataplaneChange { ruleset, ..DataplaneChange::default() })
            .map(drop)
            .map_err(|unmade| {
                master.undo(before);
                let faults = unmade.into_iter().map(|(fault, _)| fault).collect();
                merge_faults(faults).expect("what was not made has a reason")
            })
    }

    /// Sends the master's rules to all engines.
    pub fn begin(&self) -> CommandOutcome {
        let change =
            DataplaneChange { ruleset: Some(self.lock().ruleset()), ..DataplaneChange::default() };
        let unmade = self.apply_to_engines(change).err().unwrap_or_default();
        let fault = merge_faults(unmade.into_iter().map(|(fault, _)| fault).collect());
        CommandOutcome { fault, ..CommandOutcome::default() }
    }

    /// Lets the engines process frames. Must be called once the initial rules are in force.
    pub fn admit_frames(&self) {
        self.engines.iter().for_each(|thread| thread.admit_frames());
    }

    /// Executes a batch and returns its outcome.
    pub fn execute(&self, order: &CommandBatch, now: u64) -> CommandOutcome {
        self.execute_all(order, |_, _| Vec::new(), now)
    }

    /// Replaces the rules by those of a file. First removes all existing rules (those of the
    /// reserved set 31 only if the file adds rules to this set), and the existing tables and
    /// `nptv6` instances that the file creates again. Then executes the file's commands.
    pub fn replace(&self, order: &CommandBatch, now: u64) -> CommandOutcome {
        self.execute_all(order, cleared_for, now)
    }

    /// Executes the steps that `cleared` returns for the batch, and then the batch itself.
    fn execute_all(
        &self,
        order: &CommandBatch,
        cleared: fn(&Firewall, &[CommandStep]) -> Vec<CommandStep>,
        now: u64,
    ) -> CommandOutcome {
        let mut master = self.lock();
        let mut caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        let done = order.steps(*caps).and_then(|read| {
            let mut steps = cleared(&master, &read);
            steps.extend(read);
            let mut outcome = self.execute_steps(&mut master, order, &steps, now)?;
            *caps = steps.iter().fold(*caps, |caps, step| step.caps_after(caps));
            let keeps = self.state_file.is_some() && steps.iter().any(changes_anything);
            if order.is_file || keeps {
                self.finish_change(&mut master, (order.is_file, keeps), &mut outcome, now)?;
            }
            Ok(outcome)
        });
        done.unwrap_or_else(|fault| CommandOutcome {
            fault: Some(fault),
            ..CommandOutcome::default()
        })
    }

    /// After a batch, adds warnings about the new rules to the outcome if `is_file` is set, and
    /// writes the state file if `keeps` is set.
    fn finish_change(
        &self,
        master: &mut Firewall,
        (is_file, keeps): (bool, bool),
        outcome: &mut CommandOutcome,
        now: u64,
    ) -> Result<(), CommandFault> {
        let shaper = self.shaper_state()?;
        if is_file {
            outcome.warnings.extend(lint::warnings(master, &shaper.objects));
        }
        let Some(file) = self.state_file.as_ref().filter(|_| keeps) else { return Ok(()) };
        let states = self.state_commands(master, self.persists_states, now)?;
        let kept = file.write(&save::text(master, &shaper, &states));
        outcome.warnings.extend(kept.err().map(|error| write_warning(file.path(), &error)));
        Ok(())
    }

    /// If states are persisted, writes the state file with the current states. Returns a warning if
    /// the write fails, otherwise `None`.
    pub fn persist_states(&self, now: u64) -> Option<String> {
        let file = self.state_file.as_ref().filter(|_| self.persists_states)?;
        // The lock is held until the file is written, because a thread that changes the rules also
        // writes the file.
        let mut master = self.lock();
        let text = self.saved(&mut master, true, now).map_err(|fault| fault.message);
        let kept = text
            .and_then(|text| file.write(&text).map_err(|error| write_warning(file.path(), &error)));
        kept.err()
    }

    /// Returns the commands that restore the current states; none if `are_wanted` is false.
    fn state_commands(
        &self,
        master: &Firewall,
        are_wanted: bool,
        now: u64,
    ) -> Result<Vec<StateCommand>, CommandFault> {
        if !are_wanted {
            return Ok(Vec::new());
        }
        let states = self.run_on_engines(|| {
            |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().states().snapshot()
        })?;
        Ok(master.state_commands(&states, now))
    }

    /// Returns the shaper configuration of the first engine, which has all pipes.
    fn shaper_state(&self) -> Result<ShaperState, CommandFault> {
        let all = self.run_on_engines(|| {
            |dataplane: &mut dyn RuleDataplane, _| ShaperState::of(dataplane.shaper_mut())
        })?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// Returns the commands that recreate the rules, tables and pipes, and if `with_states` is set,
    /// also the states.
    pub fn save(&self, with_states: bool, now: u64) -> Result<String, CommandFault> {
        // The lock delays all changes, so that rules, pipes and states are read at the same moment.
        self.saved(&mut self.lock(), with_states, now)
    }

    fn saved(
        &self,
        master: &mut Firewall,
        with_states: bool,
        now: u64,
    ) -> Result<String, CommandFault> {
        let shaper = self.shaper_state()?;
        let states = self.state_commands(master, with_states, now)?;
        Ok(save::text(master, &shaper, &states))
    }

    /// Makes this control plane write the rules to `file` after each change. If `keeps_states` is
    /// set, the file also contains the dynamic states.
    pub fn persist_to(mut self, file: Option<StateFile>, keeps_states: bool) -> Self {
        (self.state_file, self.persists_states) = (file, keeps_states);
        self
    }

    fn execute_steps(
        &self,
        master: &mut Firewall,
        order: &CommandBatch,
        steps: &[CommandStep],
        now: u64,
    ) -> Result<CommandOutcome, CommandFault> {
        let flags = order.options();
        self.fetch(master, steps, flags)?;
        let before = master.before();
        let (mut texts, mut fault) = match dry_run(master, order, steps, now) {
            Ok(tried) => tried,
            Err(mistakes) => return Err(self.all_mistakes(mistakes, steps)),
        };
        let RestoredStates { states, refused } = master.take_restored();
        if let Some(obstacle) = self.obstacle.and_then(|of| of(master.config())) {
            master.undo(before);
            return Err(CommandFault::new(obstacle, sysexits::DATA));
        }
        let change = DataplaneChange {
            ruleset: ruleset_after(master, steps),
            shaper: of_shaper(steps),
            counters: steps
                .iter()
                .filter(|step| is_about_counters(&step.command))
                .map(|step| step.command.clone())
                .collect(),
            states,
            options: flags,
            rows: order.rows(),
        };
        let mut shown = BTreeMap::new();
        let mut warnings = unrestored_states(refused);
        match self.apply_to_engines(change) {
            Ok(ChangeReport { replies: reply, states_without_room: without_room }) => {
                if without_room > 0 {
                    let most = "there are as many as net.inet.ip.fw.dyn_max allows";
                    if order.is_file {
                        warnings.push(format!("{without_room} states are left out: {most}"));
                    } else {
                        let why = format!("the state is not restored: {most}");
                        fault = fault.or(Some(CommandFault::new(why, sysexits::UNAVAILABLE)));
                    }
                }
                for reply in reply {
                    texts[reply.at].push_str(&reply.text);
                    shown.extend(reply.listing.map(|shown| (reply.at, shown)));
                }
            }
            Err(unmade) => {
                master.undo(before);
                let placed = |(fault, at): (CommandFault, Option<usize>)| match at {
                    Some(at) if order.is_file => fault.at_line(steps[at].line),
                    _ => fault,
                };
                let fault = merge_faults(unmade.into_iter().map(placed).collect());
                return Err(fault.expect("what was not made has a reason"));
            }
        }
        let value = order.json.then(|| {
            let all = (0..).zip(steps).zip(&texts);
            let answer = |((at, step), text): ((usize, &CommandStep), &String)| {
                values::answer(master, &step.command, text, shown.get(&at))
            };
            all.map(answer).collect()
        });
        Ok(CommandOutcome { text: texts.concat(), value, fault, warnings })
    }

    /// Returns a fault that lists all mistakes of a file. `mistakes` are those in commands for
    /// rules. For commands for pipes, the first engine executes the commands on a copy of its
    /// shaper to find mistakes.
    fn all_mistakes(&self, mistakes: Vec<LineError>, steps: &[CommandStep]) -> CommandFault {
        let of_rules = mistakes.into_iter().map(|LineError { line, error }| {
            (line, CommandFault::new(error.message, error.exit_code).at_line(line))
        });
        let mut all: Vec<LineFault> = of_rules.collect();
        let commands = of_shaper(steps);
        if let (Some(thread), false) = (self.engines.first(), commands.is_empty()) {
            let tried = submit(&**thread, move |dataplane, now| {
                let mut trial = dataplane.shaper_mut().clone();
                shape(&mut trial, &commands, RowOrder::default(), now).0.err()
            });
            // If the engine is shutting down or does not answer in time, mistakes in commands for
            // pipes are not reported.
            let failed = tried.recv_timeout(self.reply_timeout).ok().flatten().unwrap_or_default();
            all.extend(failed.into_iter().map(|(at, message, exit)| {
                let line = steps[at].line;
                (line, CommandFault::new(message, exit).at_line(line))
            }));
        }
        merge_line_faults(all).expect("there is a mistake")
    }

    /// Copies counters, states and translations from the engines to the master, if these steps need
    /// them.
    fn fetch(
        &self,
        master: &mut Firewall,
        steps: &[CommandStep],
        flags: CommandFlags,
    ) -> Result<(), CommandFault> {
        let lists = steps.iter().any(|step| matches!(step.command, IpfwCommand::List { .. }));
        let counts = steps.iter().any(|step| matches!(step.command, IpfwCommand::Sysctl { .. }));
        if lists {
            let counters: Vec<Vec<RuleCounters>> = self.run_on_engines(|| {
                |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().counters().to_vec()
            })?;
            master.show_counters(&counters);
        }
        if steps.iter().any(|step| shows_translations(&step.command)) {
            let figures = self.run_on_engines(|| {
                |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().translation_stats()
            })?;
            master.show_translations(figures);
        }
        let with_states = flags.list.states != slipring_ipfw::run::StateListing::None;
        if counts || (lists && with_states) {
            let states = self.run_on_engines(|| {
                |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().states().snapshot()
            })?;
            master.show_states(states);
        }
        Ok(())
    }

    /// Makes every engine apply a change, and returns a report of it. If one engine refuses a
    /// shaper command, no engine is changed.
    fn apply_to_engines(&self, change: DataplaneChange) -> Result<ChangeReport, ChangeFaults> {
        let is_nothing =
            change.ruleset.is_none() && change.shaper.is_empty() && change.counters.is_empty();
        if is_nothing && change.states.is_empty() {
            return Ok(ChangeReport::default());
        }
        self.try_shaper(&change.shaper, change.rows)?;
        match self.new_steering(change.ruleset.as_ref()) {
            Some(steering) => self.steer_by(steering, |plane| plane.change_engines(change)),
            None => self.change_engines(change),
        }
    }

    fn change_engines(&self, change: DataplaneChange) -> Result<ChangeReport, ChangeFaults> {
        let DataplaneChange { ruleset, shaper, counters, states, options: flags, rows } = change;
        let engines = self.engines_with_states();
        let mut states = self.partition_states(states).into_iter();
        let answers = self.change_on_engines(|| {
            let ruleset = ruleset.clone().map(|ruleset| ruleset.shared_among(engines));
            let (mut ruleset, shaper, counters) = (ruleset, shaper.clone(), counters.clone());
            let states = states.next().unwrap_or_default();
            move |dataplane: &mut dyn RuleDataplane, now: u64| {
                let (changed, events) = shape(dataplane.shaper_mut(), &shaper, rows, now);
                dataplane.apply_shaper_events(events, now);
                let mut without_room = 0;
                if changed.is_ok() {
                    ruleset.iter_mut().for_each(|ruleset| dataplane.adopt(ruleset));
                    without_room = dataplane.firewall_mut().restore(states, now);
                    for command in &counters {
                        // An error can be ignored, because the master has already executed the same
                        // command successfully.
                        let _ = dataplane.firewall_mut().execute(command, now, flags);
                    }
                }
                // The old ruleset is passed back to the caller's thread. Dropping it there takes no
                // time from the packet thread.
                (changed, without_room, ruleset)
            }
        });
        let answers = answers.map_err(|fault| vec![(fault, None)])?;
        let without_room = answers.iter().map(|(_, without_room, _)| without_room).sum();
        let replies = replies_of(answers.into_iter().map(|(changed, ..)| changed))?;
        Ok(ChangeReport { replies, states_without_room: without_room })
    }

    /// If there are several engines, tries the shaper's commands on a copy of each engine's shaper.
    /// So a command that one engine refuses does not change any engine. A single engine needs no
    /// trial, because its shaper undoes a failed batch itself.
    fn try_shaper(
        &self,
        commands: &[(usize, ShaperCommand)],
        rows: RowOrder,
    ) -> Result<(), ChangeFaults> {
        let has_changes = commands.iter().any(|(_, command)| changes_shaper(command));
        if self.engines.len() < 2 || !has_changes {
            return Ok(());
        }
        let tried = self.run_on_engines(|| {
            let commands = commands.to_vec();
            move |dataplane: &mut dyn RuleDataplane, now| {
                shape(&mut dataplane.shaper_mut().clone(), &commands, rows, now).0
            }
        });
        replies_of(tried.map_err(|fault| vec![(fault, None)])?).map(drop)
    }

    /// Runs a closure on every engine, and returns the results when all engines have answered.
    pub fn run_on_engines<T, F>(&self, mut act: impl FnMut() -> F) -> Result<Vec<T>, CommandFault>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn RuleDataplane, u64) -> T + Send + 'static,
    {
        let posted = self.engines.iter().map(|thread| submit(&**thread, act())).collect();
        engine_replies::wait_for_all(posted, self.reply_timeout)
    }

    /// Like [`Self::run_on_engines`], but for the rest of a change that the engines have already
    /// begun. Therefore waits for the results without a timeout.
    fn finish_on_engines<T, F>(&self, mut act: impl FnMut() -> F) -> Result<Vec<T>, CommandFault>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn RuleDataplane, u64) -> T + Send + 'static,
    {
        let posted = self.engines.iter().map(|thread| submit(&**thread, act())).collect();
        engine_replies::wait_until_done(posted)
    }

    /// Like [`Self::run_on_engines`], but for a closure that changes state: either every engine
    /// runs it or none does, even if some engines do not answer in time.
    fn change_on_engines<T, F>(&self, mut act: impl FnMut() -> F) -> Result<Vec<T>, CommandFault>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn RuleDataplane, u64) -> T + Send + 'static,
    {
        let claim = ChangeClaim::default();
        let post = |thread: &Arc<dyn RuleThread>| {
            let (claim, act) = (claim.clone(), act());
            submit(&**thread, move |dataplane, now| claim.begin().then(|| act(dataplane, now)))
        };
        let posted = self.engines.iter().map(post).collect();
        engine_replies::wait_for_change(posted, &claim, self.reply_timeout)
    }

    /// Updates the master's counters from the engines, calls `read` with the master, and returns
    /// its result.
    pub fn with_master<T>(&self, read: impl FnOnce(&Firewall) -> T) -> Result<T, CommandFault> {
        let mut master = self.lock();
        let counters = self.run_on_engines(|| {
            |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().counters().to_vec()
        })?;
        master.show_counters(&counters);
        Ok(read(&master))
    }

    /// Locks the master. A poisoned lock can be used, because commands are tried before they change
    /// the master.
    fn lock(&self) -> MutexGuard<'_, Firewall> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the replies of the first engine, which has all pipes. If any engine refused a command,
/// returns that engine's errors instead.
fn replies_of(
    results: impl IntoIterator<Item = CommandsResult>,
) -> Result<Vec<ShaperReply>, ChangeFaults> {
    let fault = |(at, message, exit)| (CommandFault::new(message, exit), Some(at));
    let all: Result<Vec<_>, _> = results.into_iter().collect();
    let all = all.map_err(|failed| failed.into_iter().map(fault).collect::<ChangeFaults>())?;
    Ok(all.into_iter().next().unwrap_or_default())
}

fn write_warning(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be written, and has what was before: {error}", path.display())
}

#[cfg(test)]
mod tests;
