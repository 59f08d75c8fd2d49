//! Finds the running router, and asks what a successor needs to know before it opens anything.

use std::io;

use serde_json::{Value, json};
use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_control::{ControlClient, ControlError};

use super::successor::failed;
use crate::io_choice::IoChoice;
use crate::plan::RoutePlan;
use crate::service::PROGRAM_NAME;

/// The running router, before the takeover begins.
pub(crate) struct RunningPredecessor {
    pub(super) client: ControlClient,
    /// The names of the subinterfaces that it has made. The kernel has devices of these names.
    pub(crate) subinterfaces: Vec<String>,
    /// Its engine, and whether its threads forward; `None` if it is of another version.
    engine: Option<(IoChoice, bool)>,
}

impl RoutePlan {
    /// Finds the router from which this one takes over; `None` if it takes over from none.
    ///
    /// # Errors
    /// If no router runs, or if it does not answer.
    pub(crate) fn find_running(
        &self,
        session: &Session<'_>,
    ) -> Result<Option<RunningPredecessor>, Failure> {
        if !self.takes_over {
            return Ok(None);
        }
        let client =
            ControlClient::find_program(&session.run_dir, self.name.as_deref(), PROGRAM_NAME);
        let mut client = client.map_err(refused)?;
        let answer = match client.request("takeover.query", json!({})) {
            // A router of another version may not know the request. It will refuse the takeover.
            Err(ControlError::Refused(_)) => Value::Null,
            answer => answer.map_err(refused)?,
        };
        let names = answer["subinterfaces"].as_array().into_iter().flatten();
        let subinterfaces = names.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let io = answer["io"].as_str().map(IoChoice::of);
        let engine = io.zip(answer["threads"].as_bool());
        Ok(Some(RunningPredecessor { client, subinterfaces, engine }))
    }

    /// With `--io auto`, chooses the engine of the running router, so that a takeover is possible
    /// even if only one of the two routers has policers. Returns whether this router would have
    /// chosen another engine without a takeover.
    ///
    /// # Errors
    /// If the running router's engine does not support policers, and this router has some.
    pub(crate) fn keep_engine(
        &mut self,
        running: Option<&RunningPredecessor>,
    ) -> Result<bool, Failure> {
        let Some((io, has_threads)) = running.and_then(|running| running.engine) else {
            return Ok(false);
        };
        // In these cases, the running router refuses a different engine, and says what differs.
        if self.asked_io != IoChoice::Auto || self.rules.is_some() {
            return Ok(false);
        }
        if !self.policers.is_empty() && !has_threads {
            return Err(self.has_no_policers().into());
        }
        Ok(std::mem::replace(&mut self.io, io) != io)
    }

    fn has_no_policers(&self) -> Diagnostic {
        self.cannot_be_taken_over(
            "it forwards in XDP, which has no policers, and a takeover keeps the engine; the new \
             one has [[policer]]",
        )
        .with_note("a router without policers can take over from one with policers")
    }

    /// Explains that the running router, which works, cannot be replaced without a pause.
    pub(super) fn cannot_be_taken_over(&self, why: &str) -> Diagnostic {
        let name = self.name.as_deref().map_or(String::new(), |name| format!(" --name {name}"));
        Diagnostic::new(SR0003, "the running router cannot be taken over")
            .with_cause(why)
            .with_help(format!(
                "end it, and start again without --takeover: slipring route ctl shutdown{name}"
            ))
    }
}

/// Converts an error of the control socket.
pub(super) fn refused(error: ControlError) -> Failure {
    match error {
        ControlError::NoAnswer(_) | ControlError::TimedOut { .. } => {
            failed(&io::Error::other(error))
        }
        error => Diagnostic::of(&error).into(),
    }
}
