//! Stores frames and log lines while a received frame is processed. During that time, the frame is
//! borrowed from an rx ring, so no port can be used.

use slipring_ipfw::run::{LogEvent, PortIndex};

use crate::dataplane::{DataplaneLoss, DataplaneOutput};
use slipring_rules::LogEvents;
use std::sync::Arc;

/// Frames to be sent when the ports can be used again: replies, copies, fragments, and frames that
/// leave a pipe.
pub(crate) struct DeferredOutput {
    /// Frames to send, each with its output port.
    pub(crate) frames: Vec<(PortIndex, Vec<u8>)>,
    pub(crate) events: Arc<LogEvents>,
}

impl DeferredOutput {
    pub(crate) const fn new(events: Arc<LogEvents>) -> Self {
        Self { frames: Vec::new(), events }
    }
}

impl DataplaneOutput for DeferredOutput {
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss> {
        self.frames.push((port, frame.to_vec()));
        Ok(())
    }

    fn log(&mut self, event: LogEvent) {
        self.events.add(event);
    }

    fn is_watched(&self) -> bool {
        self.events.is_watched()
    }

    fn count_unwatched(&mut self, lines: u64) {
        self.events.count_unwatched(lines);
    }
}
