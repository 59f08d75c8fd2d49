//! Handles `VHOST_USER_SET_VRING_ENABLE`, also before the features are negotiated.
//!
//! QEMU sends this message as soon as it has connected. The message handler would reject it. So
//! such messages are taken from the socket before the handler sees them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, recv};
use vhost::vhost_user::VhostUserBackendReqHandlerMut;

use crate::device::VhostDevice;

/// Request number of `VHOST_USER_SET_VRING_ENABLE`.
const SET_VRING_ENABLE: u32 = 18;
/// Number of 32-bit words in the message. They are request, flags and size of the payload, followed
/// by the index of the virtqueue, and 1 (enable) or 0.
const MESSAGE_WORDS: usize = 5;
/// The flags of a reply: version 1, and the bit for replies.
const REPLY_FLAGS: u32 = 1 | 1 << 2;
/// Flag of a request that requires a reply.
const NEED_REPLY_FLAG: u32 = 1 << 3;

/// Handles the next message if it is `VHOST_USER_SET_VRING_ENABLE`. Returns whether it was.
///
/// # Errors
/// The system's error if the socket cannot be read or written.
pub(crate) fn handle_set_vring_enable(
    mut socket: &UnixStream,
    device: &mut VhostDevice,
) -> io::Result<bool> {
    let mut bytes = [0; 4 * MESSAGE_WORDS];
    let (seen, _) = recv(socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    let [request, flags, size, index, enable] = words(&bytes);
    if seen < bytes.len() || (request, size) != (SET_VRING_ENABLE, 8) {
        return Ok(false);
    }
    socket.read_exact(&mut bytes)?;
    let done = device.set_vring_enable(index, enable == 1);
    if flags & NEED_REPLY_FLAG != 0 {
        let answer = [request, REPLY_FLAGS, size, u32::from(done.is_err()), 0];
        socket.write_all(&answer.map(u32::to_ne_bytes).concat())?;
    }
    Ok(true)
}

fn words(bytes: &[u8; 4 * MESSAGE_WORDS]) -> [u32; MESSAGE_WORDS] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_ne_bytes(words[i]))
}
