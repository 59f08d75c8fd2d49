//! A host of the rig: a namespace whose kernel sends nothing by itself, and a raw socket on its
//! interface.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::time::Timespec;
use slipring_core::listen::InterfaceListener;
use slipring_test_support::{Namespace, eventually};

use crate::packet::Packet;

pub(crate) type Mac = [u8; 6];

pub(crate) const BROADCAST: Mac = [0xff; 6];
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV6: u16 = 0x86dd;

/// Bytes of the shortest Ethernet frame, without the CRC.
const MIN_FRAME_LEN: usize = 60;

/// Maximum time to wait for an expected frame.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// An Ethernet frame.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) dst: Mac,
    pub(crate) src: Mac,
    /// VLAN tags, outermost first: TPID and TCI.
    pub(crate) tags: Vec<[u16; 2]>,
    pub(crate) ethertype: u16,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// A frame with an IP packet.
    pub(crate) fn of(src: Mac, dst: Mac, packet: &Packet) -> Self {
        let ethertype = if packet.src.is_ipv4() { IPV4 } else { IPV6 };
        Self { dst, src, tags: Vec::new(), ethertype, body: packet.bytes() }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut at = 12;
        let mut tags = Vec::new();
        while matches!(half(at), 0x8100 | 0x88a8) {
            tags.push([half(at), half(at + 2)]);
            at += 4;
        }
        let [dst, src] = [0, 6].map(|at| *bytes[at..].first_chunk().unwrap());
        Self { dst, src, tags, ethertype: half(at), body: bytes[at + 2..].to_vec() }
    }

    /// The frame's bytes, padded to the shortest length.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.dst, self.src].concat();
        for half in self.tags.iter().flatten().chain([&self.ethertype]) {
            bytes.extend(half.to_be_bytes());
        }
        bytes.extend(&self.body);
        bytes.resize(bytes.len().max(MIN_FRAME_LEN), 0);
        bytes
    }

    /// The IP packet of a frame without tags.
    pub(crate) fn packet(&self) -> Option<Packet> {
        if self.tags.is_empty() { Packet::parse(self.ethertype, &self.body) } else { None }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dst, src, tags, ethertype, body } = self;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        write!(
            f,
            "[{} > {} tags {tags:04x?} type {ethertype:04x} {}]",
            hex(src),
            hex(dst),
            hex(body)
        )
    }
}

/// A host. Frames wait in its socket until they are received.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) mac: Mac,
    /// The router's MAC address on the link to this host.
    pub(crate) router_mac: Mac,
    listener: RefCell<InterfaceListener>,
    sent: Cell<u64>,
}

impl Host {
    /// Opens the socket on `e0` of a namespace.
    pub(crate) fn open(namespace: Namespace, mac: Mac, router_mac: Mac) -> Self {
        let listener = namespace.run(|| InterfaceListener::open("e0").unwrap());
        let (listener, sent) = (RefCell::new(listener), Cell::new(0));
        Self { namespace, mac, router_mac, listener, sent }
    }

    /// Number of frames sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Sends a packet to the router.
    pub(crate) fn send(&self, packet: &Packet) {
        self.send_frame(&self.frame(packet));
    }

    /// The frame with which [`Self::send`] sends a packet.
    pub(crate) fn frame(&self, packet: &Packet) -> Frame {
        Frame::of(self.mac, self.router_mac, packet)
    }

    pub(crate) fn send_frame(&self, frame: &Frame) {
        self.send_bytes(&frame.bytes());
    }

    /// Sends the bytes of a frame as they are.
    pub(crate) fn send_bytes(&self, frame: &[u8]) {
        let listener = self.listener.borrow();
        let sent = eventually("room in the socket", || {
            match send(&*listener, frame, SendFlags::empty()) {
                Err(Errno::AGAIN | Errno::NOBUFS) => None,
                sent => Some(sent.unwrap()),
            }
        });
        assert_eq!(sent, frame.len());
        self.sent.set(self.sent.get() + 1);
    }

    /// Returns the next frame that has already arrived; `None` if there is none.
    pub(crate) fn try_receive(&self) -> Option<Frame> {
        let mut listener = self.listener.borrow_mut();
        loop {
            match listener.recv() {
                Ok(Some(captured)) if captured.outgoing => {}
                Ok(captured) => return Some(Frame::parse(captured?.frame)),
                // The socket reports once that its interface has gone down, which is not an error
                // here.
                Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::NETDOWN.raw_os_error())),
            }
        }
    }

    /// Waits for a frame of which `wanted` returns a value; skips all others.
    ///
    /// # Panics
    /// After [`LIMIT`]. The message contains the skipped frames.
    #[track_caller]
    pub(crate) fn receive<T>(&self, what: &str, wanted: impl Fn(&Frame) -> Option<T>) -> T {
        let start = Instant::now();
        let mut skipped = Vec::new();
        loop {
            while let Some(frame) = self.try_receive() {
                if let Some(found) = wanted(&frame) {
                    return found;
                }
                skipped.push(frame);
            }
            assert!(start.elapsed() < LIMIT, "waited in vain for {what}: {skipped:02x?}");
            wait_for_any(&[self], LIMIT);
        }
    }
}

/// Waits until one of the hosts has a frame, at most as long as `limit`.
pub(crate) fn wait_for_any(hosts: &[&Host], limit: Duration) {
    let listeners: Vec<_> = hosts.iter().map(|host| host.listener.borrow()).collect();
    let mut fds: Vec<_> =
        listeners.iter().map(|listener| PollFd::new(&**listener, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).unwrap();
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => panic!("poll: {error}"),
    }
}

/// Waits for a datagram; returns its bytes and the sender's address.
///
/// # Panics
/// After [`LIMIT`].
pub(crate) fn receive_datagram(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((len, from)) => {
                bytes.truncate(len);
                return (bytes, from);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("no datagram: {error}"),
        }
    }
}
