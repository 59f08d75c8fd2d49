//! Limits the rate of frames, for routers that forward on another CPU than that of the source.
//! Without a limit, the source would only fill their rings.

use std::time::Duration;

use slipring_port::{Nanos, now};

/// Time between two frames: 250,000 frames per second.
const FRAME_PERIOD_NS: Nanos = 4_000;

/// Waits until frames are due.
pub(super) struct FramePace {
    due: Nanos,
}

impl FramePace {
    pub(super) fn new() -> Self {
        Self { due: now() }
    }

    /// Waits until the next `frames` frames may be sent. If the caller is late, it does not catch
    /// up.
    pub(super) fn wait(&mut self, frames: usize) {
        let time = now();
        if time < self.due {
            std::thread::sleep(Duration::from_nanos(self.due - time));
        }
        self.due = self.due.max(time) + frames as Nanos * FRAME_PERIOD_NS;
    }
}
