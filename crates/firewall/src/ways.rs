//! Where frames and log lines go while a received frame is still looked at.

use slipring_ipfw::run::{LogEvent, PortId};

use crate::events::Events;
use crate::join::{Loss, Outlet};
use std::sync::Arc;

/// Keeps frames until the ports can be touched again. Few are: answers, copies, fragments.
pub(crate) struct Aside {
    /// What is to be sent.
    pub(crate) frames: Vec<(PortId, Vec<u8>)>,
    pub(crate) events: Arc<Events>,
}

impl Aside {
    pub(crate) const fn new(events: Arc<Events>) -> Self {
        Self { frames: Vec::new(), events }
    }
}

impl Outlet for Aside {
    fn send(&mut self, port: PortId, frame: &[u8]) -> Result<(), Loss> {
        self.frames.push((port, frame.to_vec()));
        Ok(())
    }

    fn log(&mut self, event: LogEvent) {
        self.events.add(event);
    }

    fn is_watched(&self) -> bool {
        self.events.is_watched()
    }

    fn unseen(&mut self, lines: u64) {
        self.events.unseen(lines);
    }
}
