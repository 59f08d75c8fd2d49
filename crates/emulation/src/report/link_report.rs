//! The report on one link, and the changes of settings during a run.

use serde::Serialize;
use slipring_link::LinkCounters;

use super::measurement::LinkMeasurement;
use super::requested::{self, RequestedLink};

/// Changes of settings while a run went on: what was asked is what holds since the last one, what
/// was measured is all of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SettingsChanges {
    /// How many there were.
    pub times: u64,
    /// When the last one was, in ns since the start of the run.
    pub since_ns: u64,
}

impl SettingsChanges {
    /// What is to be said of them, in a line of its own behind a line break; nothing of none.
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

/// One link.
pub struct LinkReport<'m> {
    pub name: String,
    /// Where frames come from.
    pub from: String,
    /// Where they go to.
    pub to: String,
    /// The filters that lead frames here.
    pub classes: Vec<String>,
    pub requested: RequestedLink,
    pub counters: LinkCounters,
    /// What was seen where frames left, if anyone looked.
    pub measured: Option<&'m LinkMeasurement>,
    /// Why models of the user's had no answer for the first time, behind their stages' names.
    pub model_failures: Vec<String>,
}
