//! Tests that invalid and arbitrary messages of a client do not make the server panic or hang.
#![allow(clippy::unwrap_used)]

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

/// Sends bytes and closes the socket for writing. Returns the server's result, and its replies.
fn talk(bytes: &[u8]) -> (Result<(), ServerError>, Vec<u8>) {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let device = Device::new(Chip::Rtl8125b, [2, 0, 0, 0, 0, 1], Box::<Loop>::default());
    let result = Server::new(server, Arc::new(Mutex::new(device))).run();
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).unwrap();
    (result, replies)
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

#[test]
fn arbitrary_requests_do_no_harm() {
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    for _ in 0..500 {
        let mut bytes = hello();
        for _ in 0..8 {
            let len = next() as usize % 48;
            let body: Vec<u8> = (0..len)
                .map(|_| if next() % 3 == 0 { next() as u8 } else { next() as u8 % 12 })
                .collect();
            bytes.extend(message(next() as u16 % 16, &body));
        }
        // No case reads so much that the replies fill the socket, which is only read afterwards.
        let (result, _) = talk(&bytes);
        assert!(result.is_ok(), "{result:?}");
    }
}
