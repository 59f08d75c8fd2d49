//! `slipring emulate`: emulates network links. It passes frames between ports, or from captures to
//! captures, with the delay, the rate and the losses of the configured links. It takes TLEM's
//! flags; run under the name `tlem`, it also reads their values as TLEM does.
//!
//! ```text
//!   flags.rs, classic.rs, config/ --> EmulationPlan --+--> virtual_time: from captures to captures
//!                                                     '--> realtime: between ports
//!   Both use the engine of slipring-link, and print their results with report/.
//! ```
//!
//! A module uses only modules of its own layer and of the layers listed before it, except that
//! `flags` includes the flags of `control`:
//!
//! 1. Frames and figures: `account`, `store`, `output_file`, `report`.
//! 2. Settings: `config`, `flags`, `classic`, `presets`, `bounds`, `link_settings`, `warnings`,
//!    `settings`.
//! 3. Engines between ports and captures: `route`, `realtime`, `plan`, `virtual_time`, `clock`,
//!    `planning`.
//! 4. A run in real time: `control` (commands, and settings over time), `link_publisher`,
//!    `run_services`, `realtime_run`.
//!
//! Not for: the behaviour of links. The engine in `slipring-link` computes it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod bounds;
mod classic;
mod clock;
mod config;
mod control;
mod flags;
mod link_publisher;
mod link_settings;
mod output_file;
mod plan;
mod planning;
mod presets;
mod realtime;
mod realtime_run;
mod report;
mod route;
mod run_services;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod virtual_time;
mod warnings;

use clap::ArgMatches;
use slipring_cli::{ClassicName, Exit, Failure, Job, Session, Verb};

pub use account::{EmulationAccount, EmulationState, EntryAccount, ExitAccount};
pub use classic::refuse_second_direction;
pub use clock::{duration, refuse_ports_flags, refuse_ports_outputs};
pub use control::RunStart;
pub use flags::{BurstLimit, links};
pub use link_settings::LinkSettings;
pub use plan::{CapturePair, CapturePairs, EmulationPlan, RealtimePlan, RunClock};
pub use presets::json as presets;
pub use realtime::figures::{report, sample};
pub use realtime::{
    Emulation, Emulator, EmulatorChannel, LogTap, LogWriter, ObservedFrame, RealtimeOptions,
    open_log, prepare,
};
pub use report::EmulationReport;
pub use report::document::EmulationDocument;
pub use report::histogram::Histogram;
pub use report::hop_times::HopTimes;
pub use report::measurement::{DeliveredFrame, LinkMeasurement};
pub use report::requested::RequestedLink;
pub use run_services::RunServices;
pub use slipring_control::Reservation;
pub use store::storage_bytes;
pub use virtual_time::chunk::{CaptureChunk, ChunkTable};
pub use virtual_time::input::CaptureInput;
pub use virtual_time::input_feed::{EnteringFrames, InputFeed};
pub use virtual_time::job::ports;
pub use virtual_time::{CaptureDirection, VirtualResult, VirtualRun};

/// The entry of `slipring emulate` in the table of commands.
pub const VERB: Verb =
    Verb { name: "emulate", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// The name `tlem`. Under this name, the program exits with code 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "tlem", status: |exit| u8::from(exit != Exit::Done) };

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if let Some((control::command::COMMAND_NAME, asked)) = matches.subcommand() {
        return control::ctl::plan(asked);
    }
    let plan = EmulationPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl EmulationPlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        if let Some(exit) = self.preface(session)? {
            return Ok(exit);
        }
        match &self.clock {
            RunClock::Virtual(captures) => virtual_time::job::run(&self, captures, session),
            RunClock::RealTime(how) => realtime_run::run(&self, how, session),
        }
    }
}
