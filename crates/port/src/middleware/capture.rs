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
    /// For each direction, the bytes of an incomplete packet from its slots so far.
    packets: [Vec<u8>; 2],
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
            packets: Default::default(),
            lost: 0,
        }
    }

    /// Captures into the same file, as its `interface`-th interface.
    #[must_use]
    pub fn for_interface(&self, interface: usize) -> Self {
        Self { interface, packets: Default::default(), lost: 0, ..self.clone() }
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
        let parts = &mut self.packets[direction as usize];
        if more || !parts.is_empty() {
            parts.extend_from_slice(bytes);
            if more {
                return Ok(());
            }
        }
        let direction = match direction {
            FrameDirection::Rx => slipring_pcap::PcapDirection::Inbound,
            FrameDirection::Tx => slipring_pcap::PcapDirection::Outbound,
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = if parts.is_empty() { bytes } else { &*parts };
        let packet = packet.get(self.header..).unwrap_or_default();
        // A full disk must not stop the captured traffic: the loss is counted, and the next packet
        // is tried.
        let before = file.lost();
        let time = self.epoch.saturating_add(time);
        let written = file.packet(self.interface, time, packet, Some(direction));
        let lost = file.lost() - before;
        // If there is an error, but the file has not counted a loss, then the format cannot
        // represent the packet. The packet is counted as lost here.
        self.lost += if written.is_err() { lost.max(1) } else { lost };
        parts.clear();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::FileReader;

    fn captured(observe: impl FnOnce(&mut CaptureObserver)) -> (Vec<Vec<u8>>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap").to_str().unwrap().to_owned();
        let mut observer = CaptureObserver::new(FileWriter::create(&path, &[]).unwrap());
        observe(&mut observer);
        let lost = observer.lost();
        drop(observer);
        let (mut reader, mut packets) = (FileReader::open(&path).unwrap(), Vec::new());
        while let Some(packet) = reader.next().unwrap() {
            packets.push(packet.data.to_vec());
        }
        (packets, lost)
    }

    #[test]
    fn packets_of_several_slots_of_both_directions_are_not_mixed() {
        let (packets, lost) = captured(|observer| {
            observer.frame(1, FrameDirection::Rx, &[1; 20], true).unwrap();
            observer.frame(1, FrameDirection::Tx, &[2; 30], true).unwrap();
            observer.frame(1, FrameDirection::Rx, &[1; 20], false).unwrap();
            observer.frame(1, FrameDirection::Tx, &[2; 30], false).unwrap();
        });
        assert_eq!((packets, lost), (vec![vec![1; 40], vec![2; 60]], 0));
    }

    #[test]
    fn a_packet_that_the_format_cannot_represent_is_counted() {
        let after_2106 = 5_000_000_000_000_000_000;
        let (packets, lost) = captured(|observer| {
            observer.frame(after_2106, FrameDirection::Rx, &[1; 60], false).unwrap();
            observer.frame(1, FrameDirection::Rx, &[2; 60], false).unwrap();
        });
        assert_eq!((packets, lost), (vec![vec![2; 60]], 1));
    }
}
