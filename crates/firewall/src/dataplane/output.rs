use slipring_ipfw::run::{LogEvent, PortIndex};

use super::DataplaneLoss;

/// Where a dataplane sends frames and log lines. The caller implements it.
pub trait DataplaneOutput {
    /// Sends a copy of `frame` to `port`.
    ///
    /// # Errors
    /// The cause of the loss if the frame cannot be sent.
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss>;

    /// Receives the log line of a rule with `log`.
    fn log(&mut self, event: LogEvent);

    /// Returns whether a monitor reads the log lines that do not go to the log file. If none does,
    /// such lines are not formatted.
    fn is_watched(&self) -> bool;

    /// Counts log lines that were not formatted because no monitor reads them.
    fn count_unwatched(&mut self, lines: u64);
}
