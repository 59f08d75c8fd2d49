use slipring_ipfw::run::{LogEvent, PortIndex};

use super::DataplaneLoss;

/// The caller's functions to which a dataplane passes frames and log lines.
pub trait DataplaneOutput {
    /// Sends a copy of `frame` to `port`.
    ///
    /// # Errors
    /// The reason why the frame cannot be sent.
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss>;

    /// Receives the log line of a rule with `log`.
    fn log(&mut self, event: LogEvent);

    /// Returns whether a monitor reads log lines that are not for the log file. If not, such lines
    /// are not formatted.
    fn is_watched(&self) -> bool;

    /// Counts lines that were not formatted because there is no monitor.
    fn count_unwatched(&mut self, lines: u64);
}
