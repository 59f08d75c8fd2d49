//! Builds the plan of a run from a command line.

use std::path::PathBuf;

use clap::ArgMatches;
use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure};
use slipring_datapath::files::{RunFile, check_distinct};
use slipring_datapath::opening::PortOpening;
use slipring_link::LinkTarget;

use crate::bounds::ChangeBounds;
use crate::clock::{instead, run_clock};
use crate::config::EmulationConfig;
use crate::plan::{CapturePairs, EmulationPlan, RunClock};
use crate::settings::settings;
use crate::{classic, realtime, virtual_time, warnings};

impl EmulationPlan {
    /// Builds the plan from the flags, and from the configuration file that they name.
    pub fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        classic::refuse_foreign(matches)?;
        let mut plan = Self::read(matches, |config| run_clock(matches, config))?;
        if matches!(&plan.clock, RunClock::RealTime(how) if how.pipeline) {
            realtime::check_pipeline(&plan.network)?;
        }
        if matches.get_flag("no-zerocopy") {
            let warning = "-c changes nothing: frames are always copied into the delay line";
            plan.warnings.push(warning.into());
        }
        Ok(plan)
    }

    /// Builds the plan of a command that opens its ports itself; its flags are
    /// those of [`links`](crate::links).
    ///
    /// # Errors
    /// [`Failure`] for the first invalid setting, or the error of `clock`.
    pub fn with_clock(
        matches: &ArgMatches,
        clock: impl FnOnce(&EmulationConfig) -> Result<RunClock, Failure>,
    ) -> Result<Self, Failure> {
        let plan = Self::read(matches, clock)?;
        if plan.config.route()?.is_some() {
            let error = Diagnostic::new(SR0003, "route is a setting of `slipring emulate` alone");
            return Err(error.with_help("take the table [route] out of the file").into());
        }
        Ok(plan)
    }

    fn read(
        matches: &ArgMatches,
        clock: impl FnOnce(&EmulationConfig) -> Result<RunClock, Failure>,
    ) -> Result<Self, Failure> {
        let (config, unasked) = settings(matches)?;
        let network = config.network()?;
        let bounds = ChangeBounds::of(matches)?;
        let schedule = config.schedule()?;
        let mut later = Vec::new();
        for changed in &schedule {
            let changed = changed.config.network()?;
            bounds.allow_change(&network, &changed)?;
            later.push(changed);
        }
        bounds.allow(&network)?;
        let outputs = config.outputs()?;
        let usual = config.usual_queues(&network);
        let unasked: Vec<_> = unasked.into_iter().chain(usual.iter().map(String::as_str)).collect();
        let plan = Self {
            clock: clock(&config)?,
            seed: config.seed()?.unwrap_or_else(chosen_seed),
            schedule,
            bounds,
            warnings: warnings::of(&network, &later, &outputs, &unasked),
            outputs,
            stats: matches.get_flag("stats"),
            typed: matches.clone(),
            instead: instead(matches),
            name: config.name(),
            network,
            config,
        };
        if let RunClock::Virtual(captures) = &plan.clock {
            virtual_time::check_entries(&plan.network, captures.pairs.len())?;
        }
        plan.with_roles()
    }

    /// Returns the files that the run reads and writes, except captures that are opened as ports.
    pub fn files(&self) -> Vec<RunFile> {
        let config = self.typed.get_one::<PathBuf>("config-file");
        let mut files: Vec<_> = config.map(|path| RunFile::read(path)).into_iter().collect();
        files.extend(self.config.files.paths().iter().map(|path| RunFile::read(path)));
        if let RunClock::Virtual(CapturePairs { pairs, .. }) = &self.clock {
            files.extend(pairs.iter().map(|pair| RunFile::read(&pair.input)));
            let outputs = pairs.iter().map(|pair| &pair.output);
            let outputs = outputs.filter(|path| !path.as_os_str().is_empty());
            files.extend(outputs.map(|path| RunFile::written(path)));
        }
        let outputs = &self.outputs;
        files.extend(outputs.log.iter().map(|path| RunFile::written(path)));
        if let Some(prefix) = &outputs.mahimahi {
            let links = self.network.links.iter();
            let path = |name: &str| PathBuf::from(format!("{}.{name}", prefix.display()));
            files.extend(links.map(|link| RunFile::written(&path(&link.spec.name))));
        }
        files
    }

    /// Determines which of the captures among the ports are read, and which are written.
    fn with_roles(mut self) -> Result<Self, Failure> {
        let others = self.files();
        check_distinct(&others)?;
        // A command that only prints the plan does not open the captures, so they get no roles.
        if let (RunClock::RealTime(how), None) = (&mut self.clock, self.instead) {
            let leads_to =
                |at| self.network.links.iter().any(|link| link.to == LinkTarget::Exit(at));
            let roles = PortOpening::roles(&how.ports, leads_to);
            how.opening = how.opening.clone().with_roles(roles, others)?;
        }
        Ok(self)
    }

    /// Reads the configuration file again and applies the flags that override its settings; `None`
    /// if the user named no file.
    ///
    /// # Errors
    /// [`Failure`] for the first invalid setting.
    pub fn reread_config(&self) -> Result<Option<EmulationConfig>, Failure> {
        if !self.typed.contains_id("config-file") {
            return Ok(None);
        }
        let (mut config, _) = settings(&self.typed)?;
        // Scheduled changes are left out: their times count from the start, which is in the past.
        config.root.remove("at");
        self.bounds.allow(&config.network()?)?;
        Ok(Some(config))
    }
}

/// Chooses a random seed that is short enough for a user to type it again.
fn chosen_seed() -> u64 {
    slipring_ring::secret_word() >> 40
}
