//! The rules of a run (`--rules`): loaded before frames are admitted, changed by `slipring ipfw`.
//!
//! ```text
//!   --rules FILE --> load, replace ---.
//!   slipring ipfw --> service.rs -----+--> ControlPlane --rulesets--> RuleStage of each worker
//!   addresses of the interfaces ------'     (main thread: it may wait for the workers)
//! ```
//!
//! The routing thread never calls the control plane, because it would have to wait while another
//! thread compiles rules. The kernel would forward packets meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use slipring_cli::{Failure, Session};
use slipring_dummynet::Dummynet;
use slipring_fib::ForwardingTables;
use slipring_ipfw::run::Firewall;
use slipring_port::{Nanos, now};
use slipring_rules::command_batch::{CommandBatch, CommandFault, CommandOutcome, sysexits};
use slipring_rules::control_plane::ControlPlane;
use slipring_rules::dataplane::{RuleTask, RuleThread};
use slipring_rules::distribution::FlowDistribution;
use slipring_rules::dry_run::{DryRunPorts, dry_run_file};
use slipring_rules::explain::{self, BypassedFrame};
use slipring_rules::randomness::Randomness;
use slipring_rules::rules_file::{check_accepted, read_rules};
use slipring_rules::service::RuleService;
use slipring_rules::{
    LogEvents, LogFileWriter, RuleStage, router_obstacle, router_ports, unknown_interfaces,
};

use crate::worker::WorkerLink;

/// The rules before the workers start.
pub(crate) struct InitialRules {
    path: PathBuf,
    commands: CommandBatch,
    random: Randomness,
    ports: Vec<String>,
    events: Arc<LogEvents>,
    /// Warnings about rules that name interfaces which the router does not have.
    warnings: Vec<String>,
}

impl InitialRules {
    /// Reads the rules of a router with these ports, and checks that they compile.
    ///
    /// # Errors
    /// If the file cannot be read, or a rule has a mistake.
    pub(crate) fn read(path: &Path, ports: &[String]) -> Result<Self, Failure> {
        let commands = read_rules(path)?;
        let (random, events) = (Randomness::draw(None), Arc::default());
        let (path, ports) = (path.to_owned(), ports.to_vec());
        let mut rules = Self { path, commands, random, ports, events, warnings: Vec::new() };
        let tried = dry_run_file(&rules.commands, rules.master(), DryRunPorts::Known);
        let tried = tried.and_then(|tried| match router_obstacle(&tried.config) {
            Some(obstacle) => Err(CommandFault::new(obstacle, sysexits::DATA)),
            None => Ok(unknown_interfaces(&tried.config)),
        });
        let tried = tried.map(|warnings| rules.warnings = warnings);
        let outcome = CommandOutcome { fault: tried.err(), ..CommandOutcome::default() };
        check_accepted(&outcome, Some(&rules.path))?;
        Ok(rules)
    }

    /// Sets the router's ports, which are numbered in this order. It must be their order in the
    /// forwarding tables.
    pub(crate) fn with_ports(self, ports: &[String]) -> Self {
        Self { ports: ports.to_vec(), ..self }
    }

    /// How flows are distributed among workers if the rules permit it.
    pub(crate) fn distribution(&self, workers: usize) -> FlowDistribution {
        FlowDistribution::new(self.random.secret, workers as u16)
    }

    /// Returns the rule stage of a worker. It denies all packets until it gets the rules.
    pub(crate) fn stage(&self, worker: usize) -> RuleStage {
        let Randomness { seed, secret } = self.random.of_thread(worker as u16);
        let (firewall, shaper) = (Firewall::new(seed, secret), Dummynet::new(seed, secret));
        RuleStage::new(firewall, shaper, self.events.clone())
    }

    /// Applies the rules in the running workers, and lets the workers take frames. Returns the
    /// rules in force.
    ///
    /// # Errors
    /// If the workers cannot execute a rule.
    pub(crate) fn load(
        self,
        workers: &[WorkerLink],
        session: &mut Session<'_>,
    ) -> Result<Arc<RunningRules>, Failure> {
        let threads = workers.iter().map(|worker| Arc::new(worker.clone()));
        let control_plane = ControlPlane::new(self.master(), threads).refusing(router_obstacle);
        let control_plane = control_plane.with_steering(self.distribution(workers.len()));
        let log = LogFileWriter::start(self.events.clone(), Box::new(io::stderr()));
        check_accepted(&control_plane.begin(), Some(&self.path))?;
        let outcome = control_plane.execute(&self.commands, now());
        check_accepted(&outcome, Some(&self.path))?;
        let warnings = outcome.warnings.iter().chain(&self.warnings);
        warnings.into_iter().try_for_each(|warning| session.reporter.warn(warning))?;
        control_plane.admit_frames();
        Ok(Arc::new(RunningRules { control_plane, events: self.events, _log: log }))
    }

    fn master(&self) -> Firewall {
        let mut master = Firewall::new(self.random.seed, self.random.secret);
        master.set_ports(self.ports.clone());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix = unix.map_or(0, |time| time.as_nanos() as u64);
        master.set_epoch_ns(unix.saturating_sub(now()));
        master
    }
}

/// The rules in force.
pub(crate) struct RunningRules {
    control_plane: ControlPlane,
    events: Arc<LogEvents>,
    /// Writes the lines of rules with `log` to standard error.
    _log: LogFileWriter,
}

impl RunningRules {
    /// Returns the service that answers requests about rules. `bypass` explains which packets are
    /// not checked by rules.
    pub(crate) fn service<'s>(&'s self, bypass: BypassedFrame<'s>) -> RuleService<'s> {
        let (control_plane, events) = (&self.control_plane, &*self.events);
        RuleService { control_plane, events, bypass }
    }

    /// Replaces all rules by those of a file. Returns warnings about the new rules.
    ///
    /// # Errors
    /// If the file cannot be read, or a rule has a mistake. The rules have then not changed.
    pub(crate) fn replace(&self, path: &Path) -> Result<Vec<String>, Failure> {
        let outcome = self.control_plane.replace(&read_rules(path)?, now());
        check_accepted(&outcome, Some(path))?;
        let unknown = self.control_plane.with_master(|master| unknown_interfaces(master.config()));
        Ok([outcome.warnings, unknown.unwrap_or_default()].concat())
    }

    /// The states of all threads, as commands for [`Self::restore_states`].
    ///
    /// # Errors
    /// If a thread has ended, as text.
    pub(crate) fn states(&self, now_ns: Nanos) -> Result<String, String> {
        let saved = self.control_plane.save(true, now_ns).map_err(|fault| fault.message)?;
        let states = saved.lines().filter(|line| line.starts_with("state "));
        Ok(states.flat_map(|line| [line, "\n"]).collect())
    }

    /// Adds the states that another router had for the same rules. Returns warnings about states
    /// whose rule does not exist here.
    ///
    /// # Errors
    /// Why the states cannot be added, as text.
    pub(crate) fn restore_states(&self, states: &str) -> Result<Vec<String>, String> {
        let commands =
            CommandBatch { text: states.to_owned(), is_file: true, ..CommandBatch::default() };
        let outcome = self.control_plane.execute(&commands, now());
        match outcome.fault {
            Some(fault) => Err(fault.message),
            None => Ok(outcome.warnings),
        }
    }

    /// Returns a stage with a copy of the rules and states, to explain one packet.
    ///
    /// # Errors
    /// Why no copy can be made, as text.
    pub(crate) fn explaining_stage(&self) -> Result<RuleStage, String> {
        let copied = explain::copy_of_rules(&self.control_plane);
        copied.map(RuleStage::explaining).map_err(|fault| fault.message)
    }

    /// Makes `me` in rules mean the addresses in these tables.
    ///
    /// # Errors
    /// Why the workers cannot take over the addresses, as text.
    pub(crate) fn follow_addresses(&self, tables: &ForwardingTables) -> Result<(), String> {
        let (_, addresses) = router_ports(tables);
        self.control_plane.set_me(addresses).map_err(|fault| fault.message)
    }
}

impl RuleThread for WorkerLink {
    fn post(&self, task: RuleTask) {
        self.tell(move |worker| {
            if let Some(stage) = &mut worker.rules {
                task(stage, now());
            }
        });
    }

    fn admit_frames(&self) {
        self.admit();
    }
}
