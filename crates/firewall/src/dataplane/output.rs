use slipring_ipfw::run::{LogEvent, PortIndex};

use super::DataplaneLoss;

/// The destination of frames and log lines.
pub trait DataplaneOutput {
    /// Sends a copy of `frame`.
    ///
    /// # Errors
    /// The reason why the frame cannot be sent.
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss>;

    /// Takes the log line of a rule with `log`.
    fn log(&mut self, event: LogEvent);

    /// Returns whether there is a monitor that reads lines that are not for the log. If not, rules
    /// do not format such lines.
    fn is_watched(&self) -> bool;

    /// Counts lines that were not formatted because there is no monitor.
    fn count_unwatched(&mut self, lines: u64);
}
