//! Reads the files of a run again: on HUP, and for `slipring route ctl reload`.
//!
//! ```text
//!   HUP --> main thread ---.
//!   ctl reload --> service +--> read --> settings that may change? --> rules --> settings
//! ```
//!
//! # Invariants
//! 1. Either all changes in the files take effect, or none: every step that can fail comes before
//!    the first change. Loading the rules is the last step that can fail, and it replaces either
//!    all rules or none.
//! 2. After a reload, the router is as if it had been started with the files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::codes::{SR0010, SR0014};
use slipring_cli::{Diagnostic, Failure};

use crate::plan::RoutePlan;
use crate::routing::{Routing, RoutingHandle};
use crate::rules::RunningRules;
use crate::start;

/// The state that a reload needs.
pub(crate) struct RouterReload {
    /// The settings in force. The lock is held during a reload.
    plan: Mutex<RoutePlan>,
    rules: Option<Arc<RunningRules>>,
    routing: RoutingHandle,
}

/// The result of a reload: the files that were read, and the warnings about them.
pub(crate) struct ReloadReport {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) warnings: Vec<String>,
}

impl RouterReload {
    pub(crate) const fn new(
        plan: RoutePlan,
        rules: Option<Arc<RunningRules>>,
        routing: RoutingHandle,
    ) -> Self {
        Self { plan: Mutex::new(plan), rules, routing }
    }

    /// Reads the files and applies their settings.
    ///
    /// # Errors
    /// Why the files cannot be read or applied: a mistake with its line, the settings that need a
    /// restart, or rules that the kernel lacks. Then nothing has changed.
    pub(crate) fn run(&self) -> Result<ReloadReport, Failure> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if plan.files().is_empty() {
            return Err(nothing_to_read().into());
        }
        plan.check_readable()?;
        // The engine stays the same. A new start might choose another one if policers were added or
        // removed, and neither the file nor the command line names the engine.
        let mut new = plan.read_again()?;
        new.io = plan.io;
        new.check_readable()?;
        let has_threads = self.routing.ask(|routing| !routing.workers.is_empty());
        let fixed = plan.fixed_changes(&new, has_threads.unwrap_or_default());
        if !fixed.is_empty() {
            return Err(needs_restart(&new, &fixed).into());
        }
        start::check_vrfs(&new)?;
        let warnings = match self.rules.as_ref().zip(new.rules.as_deref()) {
            Some((rules, path)) => rules.replace(path)?,
            None => Vec::new(),
        };
        self.configure(new.clone());
        *plan = new;
        Ok(ReloadReport { files: plan.files(), warnings })
    }

    /// Applies the settings. Returns when the routing thread and all workers have them. Threads
    /// that have ended need none.
    fn configure(&self, plan: RoutePlan) {
        let configure = move |routing: &mut Routing| {
            routing.configure(plan.live);
            routing.set_ports(plan.port_settings(routing.port_names()));
            routing.events.note_reload(&plan.files());
            routing.workers.clone()
        };
        for worker in self.routing.ask(configure).unwrap_or_default() {
            let _ = worker.ask(|_| ());
        }
    }
}

impl RoutePlan {
    /// Checks that the user that the router has become may read the files.
    ///
    /// # Errors
    /// The first file that it may not read.
    fn check_readable(&self) -> Result<(), Diagnostic> {
        let Some(user) = &self.user else { return Ok(()) };
        self.files().iter().try_for_each(|path| user.check_readable(path))
    }

    /// The files of settings and rules, whose changes a reload applies.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.config.iter().chain(&self.rules).cloned().collect()
    }
}

fn nothing_to_read() -> Diagnostic {
    Diagnostic::new(SR0014, "there is no file to read again")
        .with_cause("the router was started without --config and without --rules")
        .with_help("start it with a file: slipring route --config FILE")
}

fn needs_restart(plan: &RoutePlan, settings: &[&str]) -> Diagnostic {
    let file = plan.config.as_ref().or(plan.rules.as_ref());
    let file = file.map(|path| path.display().to_string()).unwrap_or_default();
    let what = format!("{file}: the router must be started again for {}", settings.join(", "));
    Diagnostic::new(SR0010, what)
        .with_cause(
            "a run can change rules, [punt], [icmp], [urpf], [[vrf]], [[policer]] and \
             fib.coalesce_ms; nothing has changed",
        )
        .with_help("start the router again, or set them back and reload: slipring route ctl reload")
}
