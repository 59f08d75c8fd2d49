//! Writes what passes a queue to a capture file, both ways, with directions where it is pcapng.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::observe::{Direction, Observer};
use crate::capture::{FileWriter, wall_clock};
use crate::clock::{Nanos, now};
use crate::error::{RunCause, RunError};

/// An observer that writes to a file; clones write to the same one, for several queues.
#[derive(Debug, Clone)]
pub struct Capture {
    file: Arc<Mutex<FileWriter>>,
    /// Wall clock minus monotonic clock.
    epoch: u64,
    /// Which of the file's interfaces the frames are from.
    interface: usize,
    /// Bytes before each frame that are not part of it.
    header: usize,
    packet: Vec<u8>,
}

impl Capture {
    /// Captures into `file`, as of its first interface.
    #[must_use]
    pub fn new(file: FileWriter) -> Self {
        let epoch = wall_clock().saturating_sub(now());
        Self {
            file: Arc::new(Mutex::new(file)),
            epoch,
            interface: 0,
            header: 0,
            packet: Vec::new(),
        }
    }

    /// Captures into the same file, as of its `interface`-th interface.
    #[must_use]
    pub fn of_interface(&self, interface: usize) -> Self {
        Self { interface, packet: Vec::new(), ..self.clone() }
    }

    /// Leaves out the first `header` bytes of each packet: a virtio-net header.
    #[must_use]
    pub fn behind(self, header: usize) -> Self {
        Self { header, ..self }
    }
}

impl Observer for Capture {
    fn frame(
        &mut self,
        time: Nanos,
        direction: Direction,
        bytes: &[u8],
        more: bool,
    ) -> Result<(), RunError> {
        if more || !self.packet.is_empty() {
            self.packet.extend_from_slice(bytes);
            if more {
                return Ok(());
            }
        }
        let direction = match direction {
            Direction::Rx => slipring_pcap::Direction::Inbound,
            Direction::Tx => slipring_pcap::Direction::Outbound,
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = if self.packet.is_empty() { bytes } else { &self.packet };
        let packet = packet.get(self.header..).unwrap_or_default();
        let written = file.packet(self.interface, self.epoch + time, packet, Some(direction));
        self.packet.clear();
        written.map_err(|error| unwritten(&file, error))
    }

    fn idle(&mut self) -> Result<(), RunError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().map_err(|error| unwritten(&file, error))
    }
}

fn unwritten(file: &FileWriter, source: io::Error) -> RunError {
    let path = file.path().to_owned();
    RunError::new(format!("pcap:{path}"), RunCause::Write { path, source })
}
