//! Rings that the daemon lends to programs that have the device open. The programs sync these rings
//! without system calls. The ioctls exist only in slipring; netmap refuses them as unknown.
//! `include/net/netmap_sync.h` declares the structures in C.

use alloc::vec::Vec;

use crate::ioctl::{IoctlDir, ioc};

/// The ioctl with which a program borrows the pipe rings that it has bound, to sync them itself.
/// Its argument has [`DELEGATION_SIZE`] bytes.
pub const NIOCLEND: u32 = ioc(IoctlDir::ReadWrite, b'i', 160, DELEGATION_SIZE);
/// The ioctl that wakes all clients that are marked as asleep at the other end of a pipe. It has no
/// argument.
pub const NIOCKICK: u32 = ioc(IoctlDir::None, b'i', 161, 0);

const _: () = assert!(NIOCLEND == 0xc510_69a0 && NIOCKICK == 0x69a1);

/// Version of the words that the users of a lent ring or queue share. It is the first word of the
/// answers to [`NIOCLEND`] and [`NIOCLENDQ`].
pub const DELEGATION_VERSION: u32 = 1;
/// Maximum number of rings in an answer to [`NIOCLEND`], and of queues in one to [`NIOCLENDQ`].
pub const MAX_DELEGATED_RINGS: usize = 32;
/// Size of an answer to [`NIOCLEND`] in bytes.
pub const DELEGATION_SIZE: usize = DELEGATION_HEAD_LEN + MAX_DELEGATED_RINGS * DELEGATED_RING_LEN;

/// Length of the answer's header in bytes: version, client id, flag for timestamps, number of
/// rings.
const DELEGATION_HEAD_LEN: usize = 16;
const DELEGATED_RING_LEN: usize = 40;

/// Where the parts of a lent pipe ring are. Offsets are in bytes from the start of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegatedRingLayout {
    /// Offset of the words that both ends of the pipe share.
    pub words: u64,
    /// Offset of the sender's ring.
    pub tx: u64,
    /// Offset of the receiver's ring.
    pub rx: u64,
    /// Number of slots of each of the two rings.
    pub num_slots: u32,
    /// Whether the receiver's ring is lent. If not, the sender's ring is lent.
    pub receives: bool,
    /// Number of the ring among the port's rings of its direction.
    pub ring: u32,
}

/// Encodes an answer to [`NIOCLEND`]; `None` if there are more than [`MAX_DELEGATED_RINGS`] rings.
#[must_use]
pub fn encode_delegated_rings(
    client_id: u32,
    stamps: bool,
    rings: &[DelegatedRingLayout],
) -> Option<Vec<u8>> {
    if rings.len() > MAX_DELEGATED_RINGS {
        return None;
    }
    let mut bytes = Vec::with_capacity(DELEGATION_SIZE);
    for word in [DELEGATION_VERSION, client_id, stamps.into(), rings.len() as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    for ring in rings {
        for at in [ring.words, ring.tx, ring.rx] {
            bytes.extend(at.to_ne_bytes());
        }
        for word in [ring.num_slots, ring.receives.into(), ring.ring, 0] {
            bytes.extend(word.to_ne_bytes());
        }
    }
    bytes.resize(DELEGATION_SIZE, 0);
    Some(bytes)
}

/// Decodes an answer to [`NIOCLEND`]: the client id, whether rx syncs write their time into the
/// ring, and the rings. `None` if the answer is malformed.
#[must_use]
pub fn decode_delegated_rings(bytes: &[u8]) -> Option<(u32, bool, Vec<DelegatedRingLayout>)> {
    let (client_id, stamps, count) = decode_head(bytes)?;
    let ring = |bytes: &[u8]| {
        Some(DelegatedRingLayout {
            words: long_at(bytes, 0)?,
            tx: long_at(bytes, 8)?,
            rx: long_at(bytes, 16)?,
            num_slots: word_at(bytes, 24)?,
            receives: word_at(bytes, 28)? != 0,
            ring: word_at(bytes, 32)?,
        })
    };
    let rings = bytes.get(DELEGATION_HEAD_LEN..)?.chunks(DELEGATED_RING_LEN).take(count).map(ring);
    Some((client_id, stamps, rings.collect::<Option<_>>()?))
}

/// Decodes the part that the answers to both ioctls share: the client id, whether rx syncs write
/// their time into the ring, and the number of rings or queues. `None` if it is malformed.
fn decode_head(bytes: &[u8]) -> Option<(u32, bool, usize)> {
    let count = word_at(bytes, 12)? as usize;
    let known = word_at(bytes, 0)? == DELEGATION_VERSION && count <= MAX_DELEGATED_RINGS;
    known.then_some((word_at(bytes, 4)?, word_at(bytes, 8)? != 0, count))
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn long_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// The ioctl with which a program borrows the queues of an interface that it has bound, to sync
/// them itself. Its argument has [`DELEGATED_QUEUES_SIZE`] bytes.
pub const NIOCLENDQ: u32 = ioc(IoctlDir::ReadWrite, b'i', 162, DELEGATED_QUEUES_SIZE);

const _: () = assert!(NIOCLENDQ == 0xc618_69a2);

/// Size of an answer to [`NIOCLENDQ`] in bytes.
pub const DELEGATED_QUEUES_SIZE: usize =
    DELEGATED_QUEUES_HEAD_LEN + MAX_DELEGATED_RINGS * DELEGATED_QUEUE_LEN;

/// Length of the answer's header in bytes: version, client id, flag for timestamps, number of
/// queues, token.
const DELEGATED_QUEUES_HEAD_LEN: usize = 24;
const DELEGATED_QUEUE_LEN: usize = 48;

/// Where the parts of a lent queue of an interface are. Offsets are in bytes from the start of the
/// mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegatedQueueLayout {
    /// Offset of the words with which the program and the daemon take turns.
    pub words: u64,
    /// Offset of the tx ring; 0 if it is not lent.
    pub tx: u64,
    /// Offset of the rx ring; 0 if it is not lent.
    pub rx: u64,
    /// Number of slots of each of the two rings.
    pub num_slots: u32,
    /// Number of entries in each of the kernel's AF_XDP rings.
    pub cells: u32,
    /// Maximum length of a sent frame in bytes.
    pub max_slot_len: u32,
    /// Number of buffers in the memory region.
    pub bufs: u32,
    /// A set of [`DELEGATED_SOFTWARE`] and [`DELEGATED_ZERO_COPY`].
    pub flags: u32,
}

/// Flag of a queue: the frames may come from a kernel (this one, or another one of the same host)
/// and not from hardware, so their checksums may be incomplete.
pub const DELEGATED_SOFTWARE: u32 = 1;
/// Flag of a queue: the kernel does not copy frames between its own memory and the buffers.
pub const DELEGATED_ZERO_COPY: u32 = 2;

/// Encodes an answer to [`NIOCLENDQ`]; `None` if there are too many queues. With the token, the
/// program can get the queues' AF_XDP sockets from the native socket API.
#[must_use]
pub fn encode_delegated_queues(
    client_id: u32,
    stamps: bool,
    token: u64,
    queues: &[DelegatedQueueLayout],
) -> Option<Vec<u8>> {
    if queues.len() > MAX_DELEGATED_RINGS {
        return None;
    }
    let mut bytes = Vec::with_capacity(DELEGATED_QUEUES_SIZE);
    for word in [DELEGATION_VERSION, client_id, stamps.into(), queues.len() as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(token.to_ne_bytes());
    for queue in queues {
        for at in [queue.words, queue.tx, queue.rx] {
            bytes.extend(at.to_ne_bytes());
        }
        let DelegatedQueueLayout { num_slots, cells, max_slot_len: longest, bufs, flags, .. } =
            *queue;
        for word in [num_slots, cells, longest, bufs, flags, 0] {
            bytes.extend(word.to_ne_bytes());
        }
    }
    bytes.resize(DELEGATED_QUEUES_SIZE, 0);
    Some(bytes)
}

/// Decodes an answer to [`NIOCLENDQ`]: the client id, whether rx syncs write their time into the
/// ring, the token with which the native socket API returns the sockets, and the queues. `None` if
/// the answer is malformed.
#[must_use]
pub fn decode_delegated_queues(
    bytes: &[u8],
) -> Option<(u32, bool, u64, Vec<DelegatedQueueLayout>)> {
    let (client_id, stamps, count) = decode_head(bytes)?;
    let queue = |bytes: &[u8]| {
        Some(DelegatedQueueLayout {
            words: long_at(bytes, 0)?,
            tx: long_at(bytes, 8)?,
            rx: long_at(bytes, 16)?,
            num_slots: word_at(bytes, 24)?,
            cells: word_at(bytes, 28)?,
            max_slot_len: word_at(bytes, 32)?,
            bufs: word_at(bytes, 36)?,
            flags: word_at(bytes, 40)?,
        })
    };
    let queues =
        bytes.get(DELEGATED_QUEUES_HEAD_LEN..)?.chunks(DELEGATED_QUEUE_LEN).take(count).map(queue);
    Some((client_id, stamps, long_at(bytes, 16)?, queues.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_queues_has_the_layout_of_the_c_structures() {
        let queue = DelegatedQueueLayout {
            words: 1,
            tx: 2,
            rx: 3,
            num_slots: 4,
            flags: 5,
            ..DelegatedQueueLayout::default()
        };
        let bytes = encode_delegated_queues(7, true, 9, &[queue, queue]).unwrap();
        assert_eq!(bytes.len(), 1560);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([word(0), word(4), word(8), word(12), word(16)], [1, 7, 1, 2, 9]);
        assert_eq!([word(24), word(32), word(40), word(48), word(64)], [1, 2, 3, 4, 5]);
        assert_eq!(word(72), 1);
        assert_eq!(decode_delegated_queues(&bytes), Some((7, true, 9, [queue; 2].into())));
        assert_eq!(decode_delegated_queues(&bytes[..100]), None);
        assert_eq!(encode_delegated_queues(7, true, 9, &[queue; MAX_DELEGATED_RINGS + 1]), None);
    }

    #[test]
    fn an_answer_has_the_layout_of_the_c_structures() {
        let ring =
            DelegatedRingLayout { words: 1, tx: 2, rx: 3, num_slots: 4, receives: true, ring: 5 };
        let bytes = encode_delegated_rings(7, false, &[ring, ring]).unwrap();
        assert_eq!(bytes.len(), 1296);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([word(0), word(4), word(8), word(12)], [1, 7, 0, 2]);
        assert_eq!([word(16), word(24), word(32)], [1, 2, 3]);
        assert_eq!([word(40), word(44), word(48), word(56)], [4, 1, 5, 1]);
        assert_eq!(decode_delegated_rings(&bytes), Some((7, false, [ring; 2].into())));
        assert_eq!(decode_delegated_rings(&bytes[..80]), None);
        assert_eq!(encode_delegated_rings(7, false, &[ring; MAX_DELEGATED_RINGS + 1]), None);
    }
}
