//! Writes the frames of a queue to a capture file, in both directions. pcapng also records the
//! direction of each frame.

use std::sync::{Arc, Mutex, PoisonError};

use super::observe::{FrameDirection, Observer};
use crate::capture::{FileWriter, wall_clock};
use crate::clock::{Nanos, now};
use crate::error::RunError;

/// An observer that writes frames to a file. Its clones, for other queues, write to the same file.
#[derive(Debug, Clone)]
pub struct CaptureObserver {
    file: Arc<Mutex<FileWriter>>,
    /// Difference between the wall clock and the monotonic clock, in ns.
    epoch: u64,
    /// Number of the file's interface to which the frames belong.
    interface: usize,
    /// Bytes of the virtio-net header before each frame, which are not written.
    header: usize,
    packet: Vec<u8>,
    /// Number of packets that could not be written when this observer wrote the buffer of the file.
    /// The buffer may also have packets of its clones.
    lost: u64,
}

impl CaptureObserver {
    /// Captures into `file`, as its first interface.
    #[must_use]
    pub fn new(file: FileWriter) -> Self {
        let epoch = wall_clock().saturating_sub(now());
        Self {
            file: Arc::new(Mutex::new(file)),
            epoch,
            interface: 0,
            header: 0,
            packet: Vec::new(),
            lost: 0,
        }
    }

    /// Captures into the same file, as its `interface`-th interface.
    #[must_use]
    pub fn for_interface(&self, interface: usize) -> Self {
        Self { interface, packet: Vec::new(), lost: 0, ..self.clone() }
    }

    /// Leaves out the first `header` bytes of each packet: a virtio-net header.
    #[must_use]
    pub fn after_header(self, header: usize) -> Self {
        Self { header, ..self }
    }
}

impl Observer for CaptureObserver {
    fn frame(
        &mut self,
        time: Nanos,
        direction: FrameDirection,
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
            FrameDirection::Rx => slipring_pcap::PcapDirection::Inbound,
            FrameDirection::Tx => slipring_pcap::PcapDirection::Outbound,
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = if self.packet.is_empty() { bytes } else { &self.packet };
        let packet = packet.get(self.header..).unwrap_or_default();
        // A full disk must not stop the captured traffic: the loss is counted, and the next packet
        // is tried.
        let before = file.lost();
        let _ = file.packet(self.interface, self.epoch + time, packet, Some(direction));
        self.lost += file.lost() - before;
        self.packet.clear();
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn idle(&mut self) -> Result<(), RunError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.lost();
        let _ = file.flush();
        self.lost += file.lost() - before;
        Ok(())
    }
}
