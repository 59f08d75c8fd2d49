use slipring_ipfw::run::{LogEvent, PortIndex};

use super::DataplaneLoss;

/// Where frames and log lines go.
pub trait DataplaneOutput {
    /// Sends a copy of `frame`.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss>;

    /// Takes the log line of a rule with `log`.
    fn log(&mut self, event: LogEvent);

    /// Returns whether anyone reads lines that are not for the log. If not, rules do
    /// not format them.
    fn is_watched(&self) -> bool;

    /// Counts lines that were not formatted because there is no monitor.
    fn count_unwatched(&mut self, lines: u64);
}
