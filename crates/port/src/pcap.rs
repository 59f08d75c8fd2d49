//! `pcap:FILE`: a capture as a port. If it is read, its packets arrive as fast as the program takes
//! them. If it is written, each sent packet gets the time of the wall clock. `-` is standard input
//! or output.
//!
//! A packet counts as sent when it was written to the file. Until then it waits in a buffer. The
//! buffer is flushed when it is full, when its packets take half of the ring's slots, and when a
//! sync brings no new packets.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use slipring_ring::{KernRing, Region, RingHalves, RxRing, SlotFlags, SlotIdx, SyncFault, TxRing};

use crate::capture::{FileReader, FileWriter, wall_clock};
use crate::error::{OpenError, RunCause, RunError};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::{Interest, Queue, QueueRings, WaitFds};
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// The memory that the port needs from a region.
#[must_use]
pub fn needs(options: &OpenOptions) -> RegionNeeds {
    RegionNeeds::pairs(1, options.slots)
}

/// Opens a capture. If the program only receives, the capture is read; if it only sends, the
/// capture is written. With both directions, the options decide. If the options do not mention the
/// file, the capture is read if the file exists.
///
/// # Errors
/// [`OpenError`] if the file to be read is missing, unreadable, cut short, or not an Ethernet
/// capture, if the file to be written cannot be created, or if the region does not have enough
/// memory left.
pub fn open(
    shown: &str,
    path: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let failed = |cause| OpenError::new(shown, cause);
    let is_among = |captures: &[String]| captures.iter().any(|capture| capture == path);
    let reads = match options.direction {
        Interest { rx, tx } if rx != tx => rx,
        _ if is_among(&options.captures_to_read) => true,
        _ => Path::new(path).exists() && !is_among(&options.captures_to_write),
    };
    let ring_failed = |error| OpenError::new(shown, error);
    let path = match (path, reads) {
        ("-", true) => "/dev/stdin",
        ("-", false) => "/dev/stdout",
        _ => path,
    };
    let (file, tx, rx) = if reads {
        let reader = FileReader::open(path).map_err(failed)?;
        (
            PcapFile::Read(reader),
            RingHalves::absent(region, 0),
            RingHalves::create(region, 0, options.slots),
        )
    } else {
        let writer = FileWriter::create(path, &[shown]).map_err(failed)?;
        (
            PcapFile::Write(writer),
            RingHalves::create(region, 0, options.slots),
            RingHalves::absent(region, 0),
        )
    };
    let (tx, rx) = (tx.map_err(ring_failed)?, rx.map_err(ring_failed)?);
    let queue = PcapQueue {
        name: shown.to_owned(),
        file,
        ended: false,
        packet: Vec::new(),
        buffered: VecDeque::new(),
        completed: 0,
        written_to: tx.kern.hwcur(),
        tx: tx.app,
        tx_kern: tx.kern,
        rx: rx.app,
        rx_kern: rx.kern,
        counters: Arc::default(),
    };
    Ok(Port { info: info(shown, reads, region), queues: vec![Box::new(queue)] })
}

fn info(shown: &str, reads: bool, region: &Region) -> PortInfo {
    PortInfo {
        name: shown.to_owned(),
        kind: "pcap",
        mode: PortMode::new().with("mode", if reads { "read" } else { "write" }),
        caps: PortCaps { rx: reads, tx: !reads, max_packet: 65_535, max_slot: region.buf_size() },
        mac: None,
        mtu: None,
    }
}

enum PcapFile {
    Read(FileReader),
    Write(FileWriter),
}

struct PcapQueue {
    name: String,
    file: PcapFile,
    ended: bool,
    /// A packet whose slots are being gathered, or a packet that waits for space in the rx ring.
    packet: Vec<u8>,
    /// Packets that wait in the file's buffer and are not yet written to the file.
    buffered: VecDeque<BufferedPacket>,
    /// Number of packets that had been written to the file before the first packet of `buffered`.
    completed: u64,
    /// The slot after the last packet that was written to the file.
    written_to: SlotIdx,
    tx: TxRing,
    tx_kern: KernRing,
    rx: RxRing,
    rx_kern: KernRing,
    counters: Arc<QueueCounters>,
}

/// A packet in the file's buffer.
struct BufferedPacket {
    bytes: u64,
    /// The slot after the packet's last one.
    end: SlotIdx,
}

impl PcapQueue {
    fn failed(&self, cause: impl Into<RunCause>) -> RunError {
        RunError::new(&self.name, cause)
    }

    /// Appends the packets up to slot `head` to the buffer. After a write error, packets are only
    /// counted.
    fn append(&mut self, head: SlotIdx) -> io::Result<()> {
        let PcapFile::Write(writer) = &mut self.file else { return Ok(()) };
        let (time, ring) = (wall_clock(), &mut self.tx_kern);
        let mut result = Ok(());
        let mut at = ring.hwcur();
        while at != head {
            let slot = ring.slot(at);
            ring.bytes(at).append_to(&mut self.packet);
            at = ring.next(at);
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                let bytes = self.packet.len() as u64;
                self.buffered.push_back(BufferedPacket { bytes, end: at });
                result = result.and_then(|()| writer.packet(0, time, &self.packet, None));
                self.packet.clear();
            }
        }
        ring.complete_to(head);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        let PcapFile::Write(writer) = &mut self.file else { return Ok(()) };
        writer.flush()
    }

    /// Frees the slots of packets that were written. After an error, also frees the slots of
    /// packets that will never be written.
    fn complete(&mut self, result: io::Result<()>) -> Result<(), RunError> {
        let PcapFile::Write(writer) = &self.file else { return Ok(()) };
        let new = writer.completed() - std::mem::replace(&mut self.completed, writer.completed());
        let mut sum = TrafficCounts::default();
        for packet in self.buffered.drain(..new as usize) {
            sum += TrafficCounts { packets: 1, bytes: packet.bytes };
            self.written_to = packet.end;
        }
        self.counters.sent(sum);
        if result.is_err() {
            self.counters.dropped(DropCause::TxRefused, self.buffered.len() as u64);
            self.buffered.clear();
            self.written_to = self.tx_kern.hwcur();
        }
        self.counters.set_in_flight(self.buffered.len() as u64);
        self.tx_kern.set_tail(self.tx_kern.prev(self.written_to));
        result.map_err(|source| self.failed(RunCause::Write { path: writer.path().into(), source }))
    }

    /// Reads the next packet into `self.packet`, unless a packet already waits there. Returns false
    /// at the end of the file.
    fn fetch(&mut self) -> Result<bool, RunError> {
        let PcapFile::Read(reader) = &mut self.file else { return Ok(false) };
        if !self.packet.is_empty() {
            return Ok(true);
        }
        while !self.ended {
            match reader.next() {
                Ok(Some(packet)) if packet.data.is_empty() => {
                    self.counters.dropped(DropCause::RxMalformed, 1)
                }
                Ok(Some(packet)) => {
                    self.packet.extend_from_slice(packet.data);
                    return Ok(true);
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    let cause = error.to_run_cause(reader.path());
                    return Err(RunError::new(&self.name, cause));
                }
            }
        }
        Ok(false)
    }

    /// Puts the waiting packet into the rx ring, in several slots if necessary. Returns false if it
    /// has to wait for free slots. A packet that is too long for the ring is dropped.
    fn deliver(&mut self) -> bool {
        let ring = &mut self.rx_kern;
        let size = ring.region().buf_size() as usize;
        let slots = self.packet.len().div_ceil(size) as u32;
        if slots >= ring.num_slots() {
            self.counters.dropped(DropCause::RxTooLong, 1);
            self.packet.clear();
            return true;
        }
        if ring.free_slots() < slots {
            return false;
        }
        let mut at = ring.hwtail();
        let mut parts = self.packet.chunks(size).peekable();
        while let Some(part) = parts.next() {
            ring.buffer(at).copy_in(part);
            let flags =
                if parts.peek().is_some() { SlotFlags::MOREFRAG } else { SlotFlags::default() };
            ring.set(at, part.len() as u16, flags);
            at = ring.next(at);
        }
        ring.set_tail(at);
        self.counters.received(TrafficCounts { packets: 1, bytes: self.packet.len() as u64 });
        self.packet.clear();
        true
    }
}

impl Queue for PcapQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let released = self.tx_kern.released();
        let head = released.map_err(|fault| self.failed(SyncFault::from(fault)))?;
        let new = self.tx_kern.hwcur() != head;
        let PcapFile::Write(_) = self.file else { return Ok(()) };
        let mut result = if new { self.append(head) } else { Ok(()) };
        if result.is_ok() && (!new || self.tx_kern.free_slots() >= self.tx_kern.num_slots() / 2) {
            result = self.flush();
        }
        self.complete(result)
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let released = self.rx_kern.released();
        let head = released.map_err(|fault| self.failed(SyncFault::from(fault)))?;
        self.rx_kern.complete_to(head);
        while self.fetch()? && self.deliver() {}
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds::default()
    }

    fn ended(&self) -> bool {
        self.ended && self.packet.is_empty()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use slipring_ring::{Geometry, HugePages};

    use super::*;

    #[test]
    fn a_jumbo_frame_travels_to_a_file_and_back_over_several_slots() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng").to_str().unwrap().to_owned();
        let region =
            Region::create(Geometry { bufs: 600, ..Geometry::default() }, HugePages::Never)
                .unwrap();
        let options = OpenOptions { slots: 64, direction: Interest::TX, ..OpenOptions::default() };
        let frames: Vec<Vec<u8>> =
            [60, 2048, 2049, 9000].map(|len| (0..len).map(|i| i as u8).collect()).into();
        let mut out = open("pcap:x", &path, &region, &options).unwrap();
        for frame in &frames {
            assert!(out.queues[0].rings().tx.push(frame));
        }
        out.tx_sync().unwrap();
        assert_eq!((out.stats().tx.packets, out.stats().in_flight), (0, 4));
        out.tx_sync().unwrap();
        assert_eq!(out.stats().in_flight, 0);
        assert_eq!(out.stats().tx, TrafficCounts { packets: 4, bytes: 60 + 2048 + 2049 + 9000 });
        drop(out);
        let options = OpenOptions { direction: Interest::RX, ..options };
        let mut back = open("pcap:x", &path, &region, &options).unwrap();
        back.rx_sync().unwrap();
        assert!(back.queues[0].ended());
        for frame in &frames {
            let same =
                back.queues[0].rings().rx.packet(&mut Vec::new(), |bytes| bytes == &frame[..]);
            assert_eq!(same, Some(true));
        }
    }

    #[test]
    fn what_a_full_disk_does_not_take_was_not_sent() {
        let region =
            Region::create(Geometry { bufs: 200, ..Geometry::default() }, HugePages::Never);
        let options = OpenOptions { slots: 64, direction: Interest::TX, ..OpenOptions::default() };
        let mut full = open("pcap:x", "/dev/full", &region.unwrap(), &options).unwrap();
        for _ in 0..10 {
            assert!(full.queues[0].rings().tx.push(&[7; 60]));
        }
        full.tx_sync().unwrap();
        assert_eq!((full.stats().tx.packets, full.stats().in_flight), (0, 10));
        let error = full.tx_sync().unwrap_err();
        assert_eq!(error.code(), "SR0204");
        assert!(error.to_string().contains("No space left on device"), "{error}");
        let stats = full.stats();
        assert_eq!((stats.tx.packets, stats.in_flight), (0, 0));
        assert_eq!(stats.dropped(DropCause::TxRefused), 10);
    }
}
