//! The AF_XDP sockets of this network namespace that are bound to queues, as sock_diag(7) lists
//! them.

use std::collections::HashMap;
use std::io;

use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use crate::netlink::request::{RequestScope, attributes, first, request_all};

/// Message type of a sock_diag request.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_XDP: u8 = 44;
/// Flag that requests the attribute `XDP_DIAG_INFO`.
const XDP_SHOW_INFO: u32 = 1;
/// Number of the attribute with interface and queue.
const XDP_DIAG_INFO: u16 = 1;

/// A queue of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoundQueue {
    /// Index of the interface.
    pub ifindex: u32,
    /// Number of the queue.
    pub queue: u32,
}

/// Returns the queue of each bound AF_XDP socket of this network namespace, by the socket's inode
/// number. Includes a socket that has been closed, if a process still has one of its rings mapped.
///
/// # Errors
/// The kernel's error, `ENOENT` if it was built without `CONFIG_XDP_SOCKETS_DIAG`.
pub fn bound_sockets() -> io::Result<HashMap<u64, BoundQueue>> {
    let (kind, all) = (SOCK_DIAG_BY_FAMILY, RequestScope::All);
    let answers = request_all(NETLINK_SOCK_DIAG, kind, all, &request())?;
    Ok(answers.iter().filter_map(|answer| parse(answer)).collect())
}

/// Encodes struct xdp_diag_req: family, protocol, padding, inode, which attributes to return,
/// cookie.
fn request() -> Vec<u8> {
    let mut request = vec![AF_XDP, 0, 0, 0, 0, 0, 0, 0];
    request.extend(XDP_SHOW_INFO.to_ne_bytes());
    request.extend([0xff; 8]);
    request
}

/// Parses struct xdp_diag_msg: family, type, padding, inode, cookie; then attributes.
fn parse(message: &[u8]) -> Option<(u64, BoundQueue)> {
    let word = |bytes: &[u8]| Some(u32::from_ne_bytes(first(bytes)?));
    let inode = word(message.get(4..)?)?;
    let (_, info) = attributes(message.get(16..)?).find(|(kind, _)| *kind == XDP_DIAG_INFO)?;
    let queue = BoundQueue { ifindex: word(info)?, queue: word(info.get(4..)?)? };
    // The index of a socket that is not bound is 0.
    (queue.ifindex != 0).then_some((inode.into(), queue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::read_answers;

    /// A part of an answer: 16 bits each of length and type, then the value, all in the byte order
    /// of the machine.
    fn attribute(kind: u16, value: &[u32]) -> Vec<u8> {
        let mut bytes = (4 + 4 * value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    /// A netlink message, as linux/netlink.h describes it: length, type, flags, sequence number,
    /// port ID, payload.
    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        const NLM_F_MULTI: u16 = 2;
        let mut bytes = (16 + payload.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([kind.to_ne_bytes(), NLM_F_MULTI.to_ne_bytes()].concat());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    }

    /// A socket, as linux/xdp_diag.h describes it: family 44, type SOCK_RAW, padding, inode number,
    /// cookie; then the attributes.
    fn socket(inode: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![44, 3, 0, 0];
        bytes.extend(inode.to_ne_bytes());
        bytes.extend([0x11; 8]);
        bytes.extend(attributes.concat());
        bytes
    }

    #[test]
    fn the_request_asks_for_all_sockets_with_their_interfaces_and_queues() {
        let show_info = 1u32.to_ne_bytes();
        let expected = [&[44, 0, 0, 0, 0, 0, 0, 0], &show_info[..], &[0xff; 8]].concat();
        assert_eq!(request(), expected);
    }

    #[test]
    fn each_bound_socket_of_a_list_tells_its_interface_and_queue() {
        // XDP_DIAG_INFO is 1, XDP_DIAG_UID 2, XDP_DIAG_RX_RING 3.
        let list = [
            message(20, &socket(4711, &[attribute(2, &[0]), attribute(1, &[5, 3])])),
            message(20, &socket(4712, &[attribute(1, &[0, 0]), attribute(3, &[64])])),
            message(20, &socket(4713, &[attribute(2, &[0])])),
            message(20, &socket(4714, &[attribute(1, &[5])])),
            message(20, &socket(4715, &[attribute(1, &[6, 0])])),
        ];
        let (mut answers, done) = (Vec::new(), message(3, &[0; 4]));
        assert!(!read_answers(&list.concat(), &mut answers).unwrap());
        assert!(read_answers(&done, &mut answers).unwrap());
        let bound: HashMap<_, _> = answers.iter().filter_map(|answer| parse(answer)).collect();
        let queue = |ifindex, queue| BoundQueue { ifindex, queue };
        assert_eq!(bound, [(4711, queue(5, 3)), (4715, queue(6, 0))].into());
    }

    #[test]
    fn a_message_that_is_cut_short_is_no_socket() {
        let whole = socket(4711, &[attribute(1, &[5, 3])]);
        assert!(parse(&whole).is_some());
        (0..whole.len()).for_each(|len| assert_eq!(parse(&whole[..len]), None, "{len}"));
    }
}
