//! Requests by io_uring. The device delivers a request as one message. Here it arrives in parts,
//! which `struct fuse_uring_req_header` defines.
//!
//! ```text
//!   0         128              256                      288
//!   | header  | first argument | ring's own fields     | payload: all other arguments,
//!   |         |                |                       | or the reply's bytes
//! ```

/// The command that registers an entry, so that it can receive requests.
pub(crate) const REGISTER: u32 = 1;
/// The command that sends a reply and gives the entry back to the kernel for the next request.
pub(crate) const COMMIT_AND_FETCH: u32 = 2;
/// Number of bytes in front of the payload.
pub(crate) const HEAD_LEN: usize = 288;
/// Offset of the length of the payload, which is in bytes.
pub(crate) const PAYLOAD_LEN_OFFSET: usize = COMMIT_ID_OFFSET + 8;

const ARGUMENT_OFFSET: usize = 128;
const COMMIT_ID_OFFSET: usize = 256 + 8;

/// Returns the size that the kernel requires for the payload buffer, in bytes.
pub(crate) fn payload(page_size: usize) -> usize {
    /// The minimum size of a message buffer that the kernel allows.
    const MIN_PAYLOAD_LEN: usize = 8192;
    MIN_PAYLOAD_LEN
        .max(super::init::MAX_WRITE as usize)
        .max(super::init::MAX_PAGES as usize * page_size)
}

/// Builds the data of a ring command, which is a `struct fuse_uring_cmd_req`.
pub(crate) fn command(commit: u64, queue: u16) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// The bytes in front of the payload of a request.
pub(crate) struct UringHead<'h>(pub(crate) &'h [u8; HEAD_LEN]);

impl<'h> UringHead<'h> {
    /// Returns the commit id that the reply must carry.
    pub(crate) fn commit(&self) -> u64 {
        super::word64(self.0, COMMIT_ID_OFFSET)
    }

    /// Returns the header of the request. It is the same as at the start of a message from the
    /// device.
    pub(crate) fn header(&self) -> &'h [u8] {
        &self.0[..super::IN_HEADER_LEN]
    }

    /// Returns the first argument. Its length is the length of the message, minus header and
    /// payload.
    pub(crate) fn arguments(&self) -> &'h [u8] {
        let all = (super::word32(self.0, 0) as usize).saturating_sub(super::IN_HEADER_LEN);
        let len = all.saturating_sub(self.payload()).min(PAYLOAD_LEN_OFFSET - 16 - ARGUMENT_OFFSET);
        &self.0[ARGUMENT_OFFSET..ARGUMENT_OFFSET + len]
    }

    /// Returns the length of the payload in bytes.
    pub(crate) fn payload(&self) -> usize {
        super::word32(self.0, PAYLOAD_LEN_OFFSET) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the bytes in front of the payload, for a request whose message has `len` bytes, of
    /// which `payload` are payload.
    fn head(len: u32, payload: u32) -> [u8; HEAD_LEN] {
        let mut head = [7; HEAD_LEN];
        head[..4].copy_from_slice(&len.to_ne_bytes());
        head[264..272].copy_from_slice(&99u64.to_ne_bytes());
        head[272..276].copy_from_slice(&payload.to_ne_bytes());
        head
    }

    #[test]
    fn the_first_argument_is_what_header_and_payload_leave() {
        let bytes = head(40 + 32 + 88, 88);
        let head = UringHead(&bytes);
        assert_eq!((head.header().len(), head.arguments().len(), head.payload()), (40, 32, 88));
        assert_eq!(head.commit(), 99);
    }

    #[test]
    fn lengths_that_cannot_be_are_cut() {
        assert_eq!(UringHead(&head(u32::MAX, 0)).arguments().len(), 128);
        assert!(UringHead(&head(0, 5)).arguments().is_empty());
        assert!(UringHead(&head(50, u32::MAX)).arguments().is_empty());
    }

    #[test]
    fn a_payload_is_no_smaller_than_the_kernel_asks_for() {
        assert_eq!((payload(4096), payload(64 << 10)), (8192, 64 << 10));
    }
}
