//! The cable: takes sent frames, and provides received ones.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// The cable that is plugged into the chip.
pub trait Wire: Send {
    /// Sends a frame. Returns false if the cable lost it.
    fn send(&mut self, frame: &[u8]) -> bool;

    /// Receives a frame into `frame`, whose old content is replaced. Returns false if there is no
    /// frame.
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool;

    /// Returns a descriptor that is readable when a frame has arrived. `None` if frames arrive only
    /// as a result of sent frames, or if the test calls [`Device::poll`](crate::Device::poll)
    /// itself.
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Waiting frames. Their memory is kept for later frames.
#[derive(Debug, Default)]
struct Frames {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Frames {
    /// Maximum number of waiting frames. Further frames are lost.
    const LIMIT: usize = 65_536;

    fn push(&mut self, frame: &[u8]) -> bool {
        if self.waiting.len() >= Self::LIMIT {
            return false;
        }
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(frame);
        self.waiting.push_back(memory);
        true
    }

    fn pop(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(mut next) = self.waiting.pop_front() else { return false };
        std::mem::swap(frame, &mut next);
        self.spare.push(next);
        true
    }
}

/// A cable from the transmitter to the receiver of the same chip.
#[derive(Debug, Default)]
pub struct Loop(Frames);

impl Wire for Loop {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.0.push(frame)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.0.pop(frame)
    }
}

/// One end of a cable in this process's memory. The chip has one end, and the test the other.
#[derive(Debug, Clone)]
pub struct WireEnd {
    out: Arc<Mutex<Frames>>,
    come: Arc<Mutex<Frames>>,
}

/// A cable in this process's memory.
#[derive(Debug)]
pub struct MemoryWire;

impl MemoryWire {
    /// Creates a cable; returns its two ends.
    #[must_use]
    pub fn pair() -> (WireEnd, WireEnd) {
        let (a, b) = (Arc::default(), Arc::default());
        let one = WireEnd { out: Arc::clone(&a), come: Arc::clone(&b) };
        (one, WireEnd { out: b, come: a })
    }
}

impl Wire for WireEnd {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).push(frame)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.come.lock().unwrap_or_else(PoisonError::into_inner).pop(frame)
    }
}

/// A cable whose other end is a datagram socket: one frame per datagram.
#[derive(Debug)]
pub struct SocketWire(OwnedFd);

impl SocketWire {
    /// Uses a connected datagram socket.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl Wire for SocketWire {
    fn send(&mut self, frame: &[u8]) -> bool {
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::send(&self.0, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        });
        sent == Ok(frame.len())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.resize(usize::from(u16::MAX), 0);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.0, frame.as_mut_slice(), RecvFlags::DONTWAIT)
        });
        let len = match received {
            Ok((len, _)) => len,
            Err(Errno::AGAIN) | Err(_) => 0,
        };
        frame.truncate(len);
        len > 0
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// A station at the other end of the cable that answers ARP and pings to one IPv4 address. It
/// stores nothing about other stations.
#[derive(Debug)]
pub struct Peer {
    mac: [u8; 6],
    address: [u8; 4],
    answers: Frames,
}

impl Peer {
    /// A station with this IPv4 address.
    #[must_use]
    pub fn new(address: [u8; 4]) -> Self {
        Self { mac: [2, 0, 0, 0, 0xee, address[3]], address, answers: Frames::default() }
    }

    /// Returns the answer to a frame: an ARP reply or an echo reply.
    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        match frame.get(12..14)? {
            [8, 6] => self.arp_reply(frame),
            [8, 0] => self.echo_reply(frame),
            _ => None,
        }
    }

    /// RFC 826: a request for our address is answered with our MAC address.
    fn arp_reply(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let asks_us = frame.get(20..22)? == [0, 1] && frame.get(38..42)? == self.address;
        let (sender, ip) = (frame.get(22..28)?, frame.get(28..32)?);
        let head = [sender, &self.mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
        let body = [&self.mac[..], &self.address, sender, ip].concat();
        let mut reply = [head, body].concat();
        reply.resize(60, 0);
        asks_us.then_some(reply)
    }

    /// RFC 792: the reply to an echo request is the same packet with type 0. Exchanging the
    /// addresses keeps the IP header's checksum.
    fn echo_reply(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let header = usize::from(frame.get(14)? & 15) * 4;
        let icmp = 14 + header;
        let is_ours = frame.get(30..34)? == self.address && *frame.get(23)? == 1;
        if !is_ours || *frame.get(icmp)? != 8 {
            return None;
        }
        let mut reply = frame.to_vec();
        reply[..6].copy_from_slice(frame.get(6..12)?);
        reply[6..12].copy_from_slice(&self.mac);
        reply[26..30].copy_from_slice(&self.address);
        reply[30..34].copy_from_slice(frame.get(26..30)?);
        reply[icmp] = 0;
        let sum = reply.get(icmp + 2..icmp + 4)?;
        // RFC 1624: the first word decreases by 8 in its high byte, so the checksum grows by as
        // much.
        let old = u32::from(sum[0]) << 8 | u32::from(sum[1]);
        let new = old + 0x0800;
        let new = (new & 0xffff) + (new >> 16);
        reply[icmp + 2..icmp + 4].copy_from_slice(&(new as u16).to_be_bytes());
        Some(reply)
    }
}

impl Wire for Peer {
    fn send(&mut self, frame: &[u8]) -> bool {
        match self.answer(frame) {
            Some(answer) => self.answers.push(&answer),
            None => true,
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.answers.pop(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_returns_frames_in_their_order() {
        let mut wire = Loop::default();
        assert!(wire.send(&[1; 60]) && wire.send(&[2; 61]));
        let mut frame = Vec::new();
        assert!(wire.receive(&mut frame) && frame == [1; 60]);
        assert!(wire.receive(&mut frame) && frame == [2; 61]);
        assert!(!wire.receive(&mut frame));
    }

    #[test]
    fn the_station_answers_requests_for_its_address_only() {
        let mut peer = Peer::new([10, 9, 8, 1]);
        let mut request =
            [&[0xff; 6][..], &[2, 0, 0, 0, 0, 7], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        request.extend([2, 0, 0, 0, 0, 7, 10, 9, 8, 2, 0, 0, 0, 0, 0, 0, 10, 9, 8, 1]);
        assert!(peer.send(&request));
        let mut frame = Vec::new();
        assert!(peer.receive(&mut frame));
        assert_eq!((&frame[..6], &frame[20..22]), (&[2, 0, 0, 0, 0, 7][..], &[0, 2][..]));
        request[41] = 3;
        assert!(peer.send(&request) && !peer.receive(&mut frame));
        for len in 0..request.len() {
            assert_eq!(peer.answer(&request[..len]), None);
        }
    }
}
