//! Listens on an interface without taking frames from the stack, like tcpdump.
//!
//! ```text
//!   interface --in--->  stack   every frame is copied to us on its way,
//!            <--out--           with the kernel's timestamp
//! ```
//! VLAN tags that the kernel has stripped are reinserted. Frames sent by this machine are seen as
//! they leave its stack: with checksums and segmentation left to the hardware.
//!
//! Not for forwarding; frames that an XDP program takes before the stack are not seen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError};

use crate::sys::packet::{self, FrameInfo};

/// Maximum captured length in bytes, as in tcpdump. Before segmentation, the stack has longer
/// frames only if `gso_max_size` was set above this.
const MAX_FRAME_LEN: usize = 256 << 10;
/// Bytes of a VLAN tag.
const VLAN_TAG_LEN: usize = 4;
/// Bytes of the two MAC addresses, which precede the tag.
const MAC_ADDRESSES_LEN: usize = 12;

/// A passive listener on an interface.
#[derive(Debug)]
pub struct InterfaceListener {
    socket: OwnedFd,
    /// Whether the interface is loopback, where each frame is both sent and received but must be
    /// reported once.
    loopback: bool,
    /// Space for a tag, followed by the frame.
    buffer: Vec<u8>,
    /// Frames dropped so far because the socket buffer was full.
    dropped: u64,
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub struct CapturedFrame<'l> {
    /// The kernel's timestamp, in nanoseconds since 1970.
    pub ts_ns: u64,
    /// Whether this machine sent the frame; always false on loopback.
    pub outgoing: bool,
    /// The frame's length in bytes, without CRC.
    pub wire_len: u32,
    /// The frame's bytes, truncated to the buffer.
    pub frame: &'l [u8],
}

impl InterfaceListener {
    /// Listens on `ifname`, in both directions, from now on.
    ///
    /// # Errors
    /// [`OpenError`] if the interface does not exist or is not Ethernet, or if this process lacks
    /// CAP_NET_RAW.
    pub fn open(ifname: &str) -> Result<Self, OpenError> {
        Self::listen(ifname).map_err(|cause| OpenError::new(format!("packet:{ifname}"), cause))
    }

    fn listen(ifname: &str) -> Result<Self, OpenCause> {
        let iface = Iface::find(ifname)?;
        if !iface.ethernet {
            return Err(OpenCause::Unsupported {
                what: format!("listening on `{ifname}`"),
                needs: "an interface with Ethernet frames",
            });
        }
        let socket = packet::socket(iface.index).map_err(refused)?;
        let buffer = vec![0; VLAN_TAG_LEN + MAX_FRAME_LEN];
        Ok(Self { socket, loopback: iface.loopback, buffer, dropped: 0 })
    }

    /// Returns the next frame, or `None` if there is none yet; poll [`Self::as_fd`] to wait.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN if the interface went down or disappeared.
    pub fn recv(&mut self) -> io::Result<Option<CapturedFrame<'_>>> {
        let received = loop {
            let Some(received) =
                packet::receive(self.socket.as_fd(), &mut self.buffer[VLAN_TAG_LEN..])?
            else {
                return Ok(None);
            };
            if !(self.loopback && received.outgoing) {
                break received;
            }
        };
        Ok(Some(with_vlan_tag(&mut self.buffer, &received)))
    }

    /// Frames lost so far because they were not received in time.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dropped(&mut self) -> io::Result<u64> {
        // The kernel resets its count at each query.
        self.dropped += u64::from(packet::take_drops(self.socket.as_fd())?);
        Ok(self.dropped)
    }
}

impl AsFd for InterfaceListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reinserts the tag that the kernel has stripped; the buffer has space for it before the frame.
fn with_vlan_tag<'l>(buffer: &'l mut [u8], received: &FrameInfo) -> CapturedFrame<'l> {
    let kept = received.len.min(buffer.len() - VLAN_TAG_LEN);
    let (start, tag_len) = match received.vlan {
        Some(tag) if kept >= MAC_ADDRESSES_LEN => {
            buffer.copy_within(VLAN_TAG_LEN..VLAN_TAG_LEN + MAC_ADDRESSES_LEN, 0);
            buffer[MAC_ADDRESSES_LEN..MAC_ADDRESSES_LEN + VLAN_TAG_LEN].copy_from_slice(&tag);
            (0, VLAN_TAG_LEN)
        }
        _ => (VLAN_TAG_LEN, 0),
    };
    CapturedFrame {
        ts_ns: received.ts_ns,
        outgoing: received.outgoing,
        wire_len: (received.len + tag_len) as u32,
        frame: &buffer[start..VLAN_TAG_LEN + kept],
    }
}

fn refused(source: io::Error) -> OpenCause {
    match source.kind() {
        io::ErrorKind::PermissionDenied => OpenCause::Privilege {
            what: "listen on the interface",
            capabilities: "cap_net_raw",
            source,
        },
        _ => OpenCause::System { what: "listen on the interface", source },
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::event::{PollFd, PollFlags, poll};
    use slipring_port::netlink::Netlink;

    use super::*;
    use crate::netns::Netns;

    #[test]
    fn a_tag_that_was_taken_out_stands_behind_the_addresses_again() {
        let mut buffer: Vec<u8> = (0..40).collect();
        let tag = [0x81, 0, 0, 7];
        let received = FrameInfo { len: 20, ts_ns: 1, outgoing: true, vlan: Some(tag) };
        let frame = with_vlan_tag(&mut buffer, &received);
        assert_eq!(frame.wire_len, 24);
        assert_eq!(frame.frame[..12], (4..16).collect::<Vec<u8>>());
        assert_eq!(frame.frame[12..16], tag);
        assert_eq!(frame.frame[16..], (16..24).collect::<Vec<u8>>());
    }

    #[test]
    fn what_this_machine_sends_on_loopback_is_heard_once() {
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(error) => return slipring_test_support::skip!("no network namespace: {error}"),
        };
        let frame = netns.run(|| {
            Netlink::open()?.set_up(1)?;
            let mut listener = InterfaceListener::open("lo").unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            for i in 0..3u8 {
                socket.send_to(&[i; 5], socket.local_addr()?)?;
            }
            let mut payloads = Vec::new();
            while payloads.len() < 3 {
                poll(&mut [PollFd::new(&listener, PollFlags::IN)], None)?;
                while let Some(frame) = listener.recv()? {
                    assert!(!frame.outgoing && frame.ts_ns > 0);
                    payloads.push(frame.frame[42..].to_vec());
                }
            }
            assert_eq!(listener.dropped()?, 0);
            Ok(payloads)
        });
        assert_eq!(frame.unwrap(), [vec![0; 5], vec![1; 5], vec![2; 5]]);
    }
}
