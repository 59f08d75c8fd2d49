//! Tests that invalid and arbitrary messages of a client do not make the server panic or hang.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use slipring_rtl_model::vfio_user::{FrameError, Server, ServerError};
use slipring_rtl_model::{Chip, Device, Loop};

/// Returns a message whose header has the correct length.
fn message(command: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![7, 0];
    bytes.extend(command.to_le_bytes());
    bytes.extend((16 + body.len() as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn hello() -> Vec<u8> {
    message(1, b"\0\0\x01\0{\"capabilities\":{}}\0")
}

/// Sends bytes, and closes the socket for writing. Returns the server's result, and its replies,
/// which are read meanwhile.
fn talk(bytes: &[u8]) -> (Result<(), ServerError>, Vec<u8>) {
    let (mut client, server) = UnixStream::pair().unwrap();
    let mut reader = client.try_clone().unwrap();
    let device = Device::new(Chip::Rtl8125b, [2, 0, 0, 0, 0, 1], Box::<Loop>::default());
    let server = Server::new(server, Arc::new(Mutex::new(device)));
    std::thread::scope(|scope| {
        let result = scope.spawn(|| server.run());
        // If the server ends the connection early, the rest cannot be written.
        scope.spawn(move || {
            let _ = client.write_all(bytes);
            let _ = client.shutdown(Shutdown::Write);
        });
        let mut replies = Vec::new();
        // A server that leaves requests unread resets the connection after its last reply.
        let _ = reader.read_to_end(&mut replies);
        (result.join().unwrap(), replies)
    })
}

/// The number in the error field of the last reply, which must have no body.
fn error_of(replies: &[u8]) -> u32 {
    let header = &replies[replies.len() - 16..];
    assert_eq!(header[..2], [7, 0], "a header");
    u32::from_le_bytes(header[12..].try_into().unwrap())
}

#[test]
fn a_client_that_does_not_begin_with_a_known_version_is_sent_away() {
    for body in [&b"\x01\0\0\0\0"[..], b"\0\0\0\0{no json\0", b"\0", b""] {
        let (result, replies) = talk(&message(1, body));
        assert!(matches!(result, Err(ServerError::Version)));
        assert_eq!(error_of(&replies), 22);
    }
    assert!(matches!(talk(&message(4, &[0; 16])).0, Err(ServerError::Version)));
}

#[test]
fn impossible_lengths_and_messages_that_are_cut_end_the_connection() {
    for len in [0u32, 15, u32::MAX] {
        let mut bytes = message(4, &[]);
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        let (result, _) = talk(&[hello(), bytes].concat());
        assert!(matches!(result, Err(ServerError::Frame(FrameError::BadLength(_)))));
    }
    let whole = message(9, &[0; 16]);
    for cut in 1..whole.len() {
        let (result, _) = talk(&[&hello()[..], &whole[..cut]].concat());
        assert!(matches!(result, Err(ServerError::Frame(FrameError::Cut))), "{cut}");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_connection_goes_on() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let cases = [
        // Memory without a descriptor; an unmapping of a range that is not mapped.
        (2, words(&[32, 3, 0, 0, 0, 16, 4096, 0]), 95),
        (3, words(&[24, 0, 0, 16, 4096, 0]), 22),
        // Regions, interrupts and vectors that do not exist, and a read of too many bytes.
        (5, words(&[32, 0, 9, 0, 0, 0, 0, 0]), 22),
        (7, words(&[16, 0, 5, 0]), 22),
        (8, words(&[20, 0x24, 2, 3, 2]), 22),
        (8, words(&[20, 0x24, 2, u32::MAX, 2]), 22),
        (9, words(&[0, 0, 1, 4]), 22),
        (9, words(&[0, 0, 2, u32::MAX]), 22),
        // A write whose data are shorter than its length field says.
        (10, words(&[0, 0, 2, 8, 0]), 22),
        (14, Vec::new(), 95),
        (999, vec![0; 40], 95),
    ];
    for (command, body, error) in cases {
        let (result, replies) = talk(&[hello(), message(command, &body)].concat());
        assert!(result.is_ok());
        assert_eq!(error_of(&replies), error, "command {command}, {body:?}");
    }
}

/// Makes arbitrary requests. Most of their words are small, so that many indices and counts exist.
struct Requests(u64);

impl Requests {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as u32 % end
    }

    fn word(&mut self) -> u32 {
        match self.below(10) {
            0 => self.below(1 << 31) << 1,
            1 => u32::MAX - self.below(9),
            2 => 1 << self.below(21),
            3 => self.below(4096),
            _ => self.below(10),
        }
    }

    /// A command with its body. The count of a write is mostly the number of bytes that follow.
    fn request(&mut self) -> Vec<u8> {
        let command = self.below(16) as u16;
        let mut words: Vec<u32> = (0..self.below(10)).map(|_| self.word()).collect();
        if words.len() >= 4 && self.below(4) > 0 {
            match command {
                // The bits for triggering, and for the kind of data, come in any combination.
                8 => words[1] = 8 << self.below(3) | 1 << self.below(3),
                9 => words[1] = self.below(2),
                10 => (words[1], words[3]) = (self.below(2), words.len() as u32 * 4 - 16),
                _ => {}
            }
        }
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let is_cut = !body.is_empty() && self.below(20) == 0;
        message(command, &body[..body.len() - usize::from(is_cut)])
    }
}

/// Returns command and error of each reply.
fn answers(mut replies: &[u8]) -> Vec<(u16, u32)> {
    let mut answers = Vec::new();
    while let [_, _, c0, c1, l0, l1, l2, l3, _, _, _, _, e0, e1, e2, e3, ..] = *replies {
        answers.push((u16::from_le_bytes([c0, c1]), u32::from_le_bytes([e0, e1, e2, e3])));
        replies = &replies[u32::from_le_bytes([l0, l1, l2, l3]) as usize..];
    }
    answers
}

#[test]
fn arbitrary_requests_do_no_harm() {
    let (mut requests, mut seen) = (Requests(1), BTreeSet::new());
    for _ in 0..500 {
        let sent: Vec<_> = (0..8).map(|_| requests.request()).collect();
        let (result, replies) = talk(&[hello(), sent.concat()].concat());
        assert!(result.is_ok(), "{result:?}");
        let answers = answers(&replies);
        assert_eq!(answers.len(), 9, "each request is answered");
        seen.extend(answers.into_iter().map(|(command, error)| (command, error == 0)));
    }
    // DMA_UNMAP, DEVICE_INFO, REGION_INFO, IRQ_INFO, SET_IRQS, REGION_READ, REGION_WRITE, RESET.
    for command in [3, 4, 5, 7, 8, 9, 10, 13] {
        assert!(seen.contains(&(command, true)), "no command {command} succeeded");
    }
    for command in [2, 3, 5, 7, 8, 9, 10] {
        assert!(seen.contains(&(command, false)), "no command {command} was refused");
    }
}
