//! The settings of `output`: logs, metrics, and limits for late frames.

use std::path::PathBuf;

use slipring_control::metrics::MetricsEndpoint;

use super::error::EmulationConfigError;
use super::quantity;
use super::section::{self, ConfigSection};
use super::tree::ConfigNode;

/// The outputs of a run in addition to its report, and how it treats late frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutputs {
    /// Path of the pcapng log of every frame's arrival, departure and loss; `None` if there is
    /// none.
    pub log: Option<PathBuf>,
    /// Path prefix of the logs in mahimahi's format; a dot and the name of the direction's first
    /// link are appended. `None` if there are none.
    pub mahimahi: Option<PathBuf>,
    /// Where counters are served as OpenMetrics: an address and port, or a socket path. `None` if
    /// they are not served.
    pub metrics: Option<String>,
    /// Lateness in ns above which frames are counted as late; `None` for the default.
    pub late_warn_ns: Option<u64>,
    /// Lateness in ns above which frames are dropped; `None` if late frames are never dropped.
    pub late_drop_ns: Option<u64>,
}

/// Reads the outputs.
pub(super) fn read(node: &ConfigNode) -> Result<RunOutputs, EmulationConfigError> {
    let mut section = ConfigSection::new("output", node)?;
    let log = section.text("log")?;
    // `log = "mahimahi"` requests logs in mahimahi's format; any other value is the path of a
    // packet log.
    let bare = log.as_deref() == Some("mahimahi");
    let mahimahi = section.text("mahimahi")?.or(bare.then(|| "mahimahi".to_owned()));
    let pcapng = section.text("pcapng")?.or(log.filter(|_| !bare));
    let outputs = RunOutputs {
        log: pcapng.map(PathBuf::from),
        mahimahi: mahimahi.map(PathBuf::from),
        metrics: section.read("metrics", metrics)?,
        late_warn_ns: section.time("late_warn")?,
        late_drop_ns: section.read("late_drop", late_drop)?,
    };
    section.finish()?;
    Ok(outputs)
}

/// Reads `late_drop`. A value of 0 is an error, because no frame leaves at the exact nanosecond
/// when it is due, so every frame would be dropped. In flags of a classic name, 0 is accepted.
fn late_drop(path: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    match quantity::time_ns(path, node)? {
        0 if !node.location.is_classic() => {
            let cause = "every frame would be dropped";
            let error = EmulationConfigError::value(path, &node.shown(), cause).at(&node.location);
            Err(error.help("write how late a frame may be, such as 1ms, or leave it out"))
        }
        time_ns => Ok(time_ns),
    }
}

fn metrics(path: &str, node: &ConfigNode) -> Result<String, EmulationConfigError> {
    let text = section::text(path, node)?;
    match MetricsEndpoint::check(&text) {
        Ok(()) => Ok(text),
        Err(why) => Err(EmulationConfigError::value(path, &text, why)
            .at(&node.location)
            .help("write 127.0.0.1:9100, [::1]:9100, or a path: ./metrics.sock")),
    }
}
