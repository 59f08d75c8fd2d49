//! Netlink messages of families that the `netlink-packet` crates do not implement: a request, and
//! the bytes of its answers. All lengths are checked; reading stops at a malformed length.

use std::io;

use netlink_sys::{Socket, SocketAddr};

const HEADER_BYTES: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Which objects a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestScope {
    /// The one object that the request names.
    One,
    /// All objects of the family (`NLM_F_DUMP`).
    All,
}

/// Sends a request, and returns the payload of each answer.
///
/// # Errors
/// The kernel's error.
pub fn request_all(
    protocol: isize,
    kind: u16,
    want: RequestScope,
    payload: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(kind, want, payload), 0)?;
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if read_answers(&datagram, &mut answers)? {
            return Ok(answers);
        }
    }
}

fn request(kind: u16, want: RequestScope, payload: &[u8]) -> Vec<u8> {
    let flags = NLM_F_REQUEST | if want == RequestScope::All { NLM_F_DUMP } else { NLM_F_ACK };
    let mut bytes = ((HEADER_BYTES + payload.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and port id are 0: with one request per socket, neither is needed.
    bytes.extend([0; 8]);
    bytes.extend(payload);
    bytes
}

/// Collects the payloads of a datagram; returns true for the last datagram.
pub(crate) fn read_answers(mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some((len, kind)) = header(datagram) {
        let payload = datagram.get(HEADER_BYTES..len).unwrap_or_default();
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = i32::from_ne_bytes(first(payload).unwrap_or_default());
                let failed = io::Error::from_raw_os_error(code.saturating_neg());
                return if code == 0 { Ok(true) } else { Err(failed) };
            }
            _ => answers.push(payload.to_vec()),
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns length and type of the first message in `bytes`.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let len = u32::from_ne_bytes(first(bytes)?) as usize;
    let kind = u16::from_ne_bytes(first(bytes.get(4..)?)?);
    (len >= HEADER_BYTES && len <= bytes.len()).then_some((len, kind))
}

/// Encodes one attribute, padded to four bytes.
#[must_use]
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns kinds and values of the attributes in `bytes`.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(first(bytes)?));
        // The two topmost bits are flags.
        let kind = u16::from_ne_bytes(first(bytes.get(2..)?)?) & 0x3fff;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns the first `N` bytes; `None` if there are fewer.
#[must_use]
pub fn first<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = request(kind, RequestScope::One, payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_are_collected_up_to_the_end() {
        let mut answers = Vec::new();
        let datagram = [message(20, b"abc"), message(20, b"defg")].concat();
        assert!(!read_answers(&datagram, &mut answers).unwrap());
        assert!(read_answers(&message(NLMSG_DONE, &[0; 4]), &mut answers).unwrap());
        assert_eq!(answers, [b"abc".to_vec(), b"defg".to_vec()]);
        let refused = read_answers(&message(NLMSG_ERROR, &(-2i32).to_ne_bytes()), &mut answers);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn attributes_are_walked_and_absurd_lengths_end_the_walk() {
        let mut bytes = [attribute(1, b"xyz"), attribute(2 | 0x8000, b"")].concat();
        bytes.extend([0xff, 0xff, 3, 0]);
        let seen: Vec<_> = attributes(&bytes).collect();
        assert_eq!(seen, [(1, &b"xyz"[..]), (2, &b""[..])]);
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0);
    }
}
