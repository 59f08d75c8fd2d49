use slipring_ipfw::run::{LogEvent, PortIndex};

use super::DataplaneLoss;

/// Where frames and log lines go.
pub trait DataplaneOutput {
    /// Sends a copy of `frame`.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss>;

    /// Takes a line of a rule with `log`.
    fn log(&mut self, event: LogEvent);

    /// Whether anybody reads lines that are not for the log. Rules are spared the writing else.
    fn is_watched(&self) -> bool;

    /// Takes how many lines were not written, since nobody is watching.
    fn count_unwatched(&mut self, lines: u64);
}
