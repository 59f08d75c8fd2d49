//! The file that stores a [`DomainState`](crate::types::state::DomainState), along with the
//! persistent words.
//!
//! ```text
//!   0      4 KiB             1 GiB                 2 GiB                3 GiB        (sparse)
//!   | two heads | words               | one state           | the next state      |
//! ```
//!
//! States are written to the two areas in turn. The head of an area is written last, by one write
//! of 40 bytes. A kill before that write leaves the other state intact.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use slipring_ring::{Geometry, PersistentWords, Region};

use crate::types::lock::lock;

const PAGE_BYTES: u64 = 4096;
/// Bytes of each part of the file. The parts are the two areas for states, and the persistent
/// words.
const PART_BYTES: u64 = 1 << 30;
const STATE_OFFSETS: [u64; 2] = [PART_BYTES, 2 * PART_BYTES];
const FILE_BYTES: u64 = 3 * PART_BYTES;
/// Distance between the two heads in bytes. It is so large that a write to one head never touches
/// the other head.
const HEAD_STRIDE_BYTES: u64 = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"ledger 1");

/// The file with the saved state and the persistent words.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: Arc<OwnedFd>,
    /// The sequence number of the state that was written last.
    last: Mutex<u64>,
    front_words: PersistentWords,
    words: Arc<Region>,
}

/// The head of an area: marks the state in that area as complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LedgerHead {
    number: u64,
    len: u64,
    checksum: u64,
}

impl LedgerHead {
    fn for_state(number: u64, state: &[u8]) -> Self {
        Self { number, len: state.len() as u64, checksum: crc32fast::hash(state).into() }
    }

    fn bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let words = [MAGIC, self.number, self.len, self.checksum];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        let sum: u64 = crc32fast::hash(&bytes[..32]).into();
        bytes[32..].copy_from_slice(&sum.to_ne_bytes());
        bytes
    }

    fn read(bytes: [u8; 40]) -> Option<Self> {
        let word = |i: usize| u64::from_ne_bytes(bytes.as_chunks::<8>().0[i]);
        let head = Self { number: word(1), len: word(2), checksum: word(3) };
        (head.bytes() == bytes && head.len <= PART_BYTES).then_some(head)
    }
}

impl Ledger {
    /// Creates an empty ledger.
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("slipring-ledger", flags)?;
        rustix::fs::ftruncate(&file, FILE_BYTES)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Self::with_file(file, |cells| PersistentWords::new(cells).ok()).ok_or(Errno::NOMEM)
    }

    /// Adopts a ledger that another process wrote; returns it with its last state. `None` if it is
    /// invalid.
    pub(crate) fn adopt(file: OwnedFd) -> Option<(Self, Vec<u8>)> {
        let fits = rustix::fs::fstat(&file).ok()?.st_size as u64 == FILE_BYTES;
        let seals = rustix::fs::fcntl_get_seals(&file).ok()?;
        if !fits || !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return None;
        }
        let (head, state) = last_state(&file)?;
        let ledger =
            Self::with_file(file, |cells| PersistentWords::resume(cells, cells.ring_start()).ok())?;
        *lock(&ledger.last) = head.number;
        Some((ledger, state))
    }

    /// Returns whether no state was ever written to the file.
    pub(crate) fn is_blank(file: &OwnedFd) -> bool {
        let mut heads = [0; 2 * HEAD_STRIDE_BYTES as usize];
        let read = rustix::io::pread(file, &mut heads, 0);
        read == Ok(heads.len()) && heads.iter().all(|&byte| byte == 0)
    }

    fn with_file(
        file: OwnedFd,
        front: impl FnOnce(&Arc<Region>) -> Option<PersistentWords>,
    ) -> Option<Self> {
        let file = Arc::new(file);
        // A region needs at least two buffers.
        let ring_bytes = PART_BYTES - PAGE_BYTES - (64 << 10);
        let geometry = Geometry { ring_bytes, bufs: 2, buf_size: 2048 };
        let cells = Region::within(&file, PAGE_BYTES, geometry, Box::new(())).ok()?;
        let front = front(&cells)?;
        Some(Self { file, last: Mutex::default(), front_words: front, words: cells })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the region that holds the persistent words.
    pub(crate) fn words_region(&self) -> &Arc<Region> {
        &self.words
    }

    /// Returns word `i` of those that are reserved for the front, which passes programs' calls to
    /// this crate.
    pub(crate) fn front_word(&self, i: usize) -> &AtomicU64 {
        self.front_words.word(0, i as u64)
    }

    /// Writes a state. If the write fails, the ledger is left without a valid state, so that no
    /// older state is mistaken for the current one.
    pub(crate) fn write(&self, state: &[u8]) {
        let mut last = lock(&self.last);
        *last += 1;
        let which = (*last % 2) as usize;
        let fits =
            state.len() as u64 <= PART_BYTES && self.write_at(state, STATE_OFFSETS[which]).is_ok();
        let head = LedgerHead::for_state(*last, if fits { state } else { &[] });
        if self.write_at(&head.bytes(), which as u64 * HEAD_STRIDE_BYTES).is_err() || !fits {
            for which in 0..STATE_OFFSETS.len() as u64 {
                // This write cannot fail for lack of memory, because the page with the heads
                // exists if any state was written before.
                let _ = self.write_at(&[0xff; 40], which * HEAD_STRIDE_BYTES);
            }
        }
    }

    fn write_at(&self, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, at))?;
            (bytes, at) = (&bytes[written..], at + written as u64);
        }
        Ok(())
    }
}

/// Returns the state whose head has the highest sequence number, and this head; `None` if there is
/// no valid head, or if the state does not match its checksum.
fn last_state(file: &OwnedFd) -> Option<(LedgerHead, Vec<u8>)> {
    let heads = STATE_OFFSETS.into_iter().zip(0u64..).filter_map(|(offset, which)| {
        let mut bytes = [0; 40];
        let read = rustix::io::pread(file, &mut bytes, which * HEAD_STRIDE_BYTES);
        let head =
            read.ok().filter(|&read| read == bytes.len()).and_then(|_| LedgerHead::read(bytes))?;
        Some((head, offset))
    });
    let (head, offset) = heads.max_by_key(|(head, _)| head.number)?;
    let mut state = vec![0; head.len as usize];
    let mut filled = 0;
    while filled < state.len() {
        match rustix::io::pread(file, &mut state[filled..], offset + filled as u64) {
            Ok(read @ 1..) => filled += read,
            Err(Errno::INTR) => {}
            _ => return None,
        }
    }
    (LedgerHead::for_state(head.number, &state) == head).then_some((head, state))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn copy(ledger: &Ledger) -> OwnedFd {
        ledger.file().try_clone_to_owned().unwrap()
    }

    fn adopted(ledger: &Ledger) -> Option<Vec<u8>> {
        // Dropping the adopted ledger would free the pages of its region, which the test still
        // reads.
        Ledger::adopt(copy(ledger)).map(|(adopted, state)| {
            std::mem::forget(adopted);
            state
        })
    }

    #[test]
    fn the_last_state_is_found_and_words_are_as_they_were() {
        let ledger = Ledger::new().unwrap();
        assert!(adopted(&ledger).is_none(), "nothing was written");
        ledger.front_word(3).store(9, Ordering::Relaxed);
        for state in [b"first".as_slice(), b"", &[7; 100_000], b"last"] {
            ledger.write(state);
            assert_eq!(adopted(&ledger).unwrap(), state);
        }
        let (again, _) = Ledger::adopt(copy(&ledger)).unwrap();
        assert_eq!(again.front_word(3).load(Ordering::Relaxed), 9);
        again.write(b"after");
        assert_eq!(adopted(&again).unwrap(), b"after");
    }

    #[test]
    fn a_state_that_was_being_written_does_not_count() {
        let ledger = Ledger::new().unwrap();
        ledger.write(b"one");
        ledger.write(b"two");
        ledger.write_at(b"thr", STATE_OFFSETS[1]).unwrap();
        assert_eq!(adopted(&ledger).unwrap(), b"two");
        let half = LedgerHead::for_state(3, b"three").bytes();
        ledger.write_at(&half[..20], HEAD_STRIDE_BYTES).unwrap();
        assert_eq!(adopted(&ledger).unwrap(), b"two");
    }

    #[test]
    fn a_state_of_which_a_bit_is_wrong_is_no_state() {
        let ledger = Ledger::new().unwrap();
        ledger.write(b"one");
        for at in
            [STATE_OFFSETS[1], HEAD_STRIDE_BYTES, HEAD_STRIDE_BYTES + 8, HEAD_STRIDE_BYTES + 39]
        {
            let mut byte = [0];
            rustix::io::pread(&ledger.file, &mut byte, at).unwrap();
            ledger.write_at(&[byte[0] ^ 1], at).unwrap();
            assert!(adopted(&ledger).is_none(), "{at}");
            ledger.write_at(&byte, at).unwrap();
        }
        assert!(adopted(&ledger).is_some());
    }
}
