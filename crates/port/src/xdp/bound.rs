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
/// number. A socket of which only a mapped ring is left is included.
///
/// # Errors
/// The kernel's error, `ENOENT` if it was built without `CONFIG_XDP_SOCKETS_DIAG`.
pub fn bound_sockets() -> io::Result<HashMap<u64, BoundQueue>> {
    // struct xdp_diag_req: family, protocol, padding, inode, which attributes to return, cookie.
    let mut request = vec![AF_XDP, 0, 0, 0, 0, 0, 0, 0];
    request.extend(XDP_SHOW_INFO.to_ne_bytes());
    request.extend([0xff; 8]);
    let answers = request_all(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, RequestScope::All, &request)?;
    Ok(answers.iter().filter_map(|answer| parse(answer)).collect())
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

/// Parses the number in `socket:[123]`, as `/proc` names a socket.
#[must_use]
pub fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::request::attribute;

    #[test]
    fn a_bound_socket_tells_its_interface_and_queue() {
        let message = |ifindex: u32| {
            let mut message = vec![AF_XDP, 3, 0, 0];
            message.extend(4711u32.to_ne_bytes());
            message.extend([0; 8]);
            assert_eq!(parse(&message), None);
            message.extend(attribute(2, &[0; 4]));
            let info = [ifindex.to_ne_bytes(), 3u32.to_ne_bytes()].concat();
            message.extend(attribute(XDP_DIAG_INFO, &info));
            message
        };
        assert_eq!(parse(&message(5)), Some((4711, BoundQueue { ifindex: 5, queue: 3 })));
        assert_eq!(parse(&message(0)), None, "not bound");
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        assert_eq!(socket_inode("pipe:[4711]"), None);
    }
}
