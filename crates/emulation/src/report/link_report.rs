//! The report on one link, and the changes of settings during a run.

use serde::Serialize;
use slipring_link::LinkCounters;

use super::measurement::LinkMeasurement;
use super::requested::{self, RequestedLink};

/// Changes of settings during a run. The requested values are those since the last change; the
/// measurements cover the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SettingsChanges {
    /// Number of changes.
    pub times: u64,
    /// Time of the last change, in ns since the start of the run.
    pub since_ns: u64,
}

impl SettingsChanges {
    /// Returns a note on the changes, preceded by a line break; empty if there were no changes.
    pub fn line(&self) -> String {
        let times = match self.times {
            0 => return String::new(),
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let since = requested::time(self.since_ns);
        format!(
            "\nsettings changed {times}, the last time {since} from the start: asked is what holds \
             since, measured is the whole run"
        )
    }
}

/// The report of one link.
pub struct LinkReport<'m> {
    pub name: String,
    /// The link's source: a port or node.
    pub from: String,
    /// The link's destination: a port or node.
    pub to: String,
    /// The filters that direct frames to this link.
    pub classes: Vec<String>,
    pub requested: RequestedLink,
    pub counters: LinkCounters,
    /// Measurements of departing frames; `None` if the run made none.
    pub measured: Option<&'m LinkMeasurement>,
    /// For each user model that failed, a sentence with the name of its stage (such as delay) and
    /// its first error.
    pub model_failures: Vec<String>,
}
