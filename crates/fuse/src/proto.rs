//! The FUSE messages that the device's file system needs. Their layouts are those of
//! `linux/fuse.h`, version 7.41.

pub(crate) mod uring;

/// The numbers of the requests in `fuse_in_header.opcode`.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const POLL: u32 = 40;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
}

/// Node number of the root directory.
pub(crate) const ROOT_NODE: u64 = 1;
/// Maximum size of a message from the kernel, in bytes. The kernel requires at least 8 KiB.
pub(crate) const MAX_MESSAGE: usize = 16 << 10;
/// `fuse_poll_in.flags`: the server must notify the kernel of the next change.
pub(crate) const POLL_SCHEDULE_NOTIFY: u32 = 1;
/// `fuse_setattr_in.valid`: the request sets the size.
pub(crate) const SET_SIZE: u32 = 1 << 3;
/// The attributes that may be set when a file is opened for writing: the size, the change time, and
/// the file handle and lock owner of the opener.
pub(crate) const SET_HARMLESS: u32 = SET_SIZE | 1 << 6 | 1 << 9 | 1 << 10;

pub(crate) const S_IFDIR: u32 = 0o040_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
/// The types of directory entries: a directory and, in the next constant, a regular file.
pub(crate) const DIRENT_DIR: u32 = 4;
pub(crate) const DIRENT_REG: u32 = 8;

/// Size in bytes of the smallest buffer with which programs read a directory.
pub(crate) const MIN_READDIR_BYTES: usize = 3072;

const IN_HEADER_LEN: usize = 40;
const NOTIFY_POLL: i32 = 1;
const NOTIFY_RESEND: i32 = 7;
/// The bit that the kernel sets in the unique number of a request when it sends the request again.
const RESENT_BIT: u64 = 1 << 63;

/// A request as read from the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FuseRequest<'m> {
    bytes: &'m [u8],
}

impl<'m> FuseRequest<'m> {
    /// Returns the request in `bytes`; `None` if its header is incomplete.
    pub(crate) fn new(bytes: &'m [u8]) -> Option<Self> {
        (bytes.len() >= IN_HEADER_LEN).then_some(Self { bytes })
    }

    fn head32(&self, at: usize) -> u32 {
        word32(self.bytes, at)
    }

    pub(crate) fn opcode(&self) -> u32 {
        self.head32(4)
    }

    pub(crate) fn unique(&self) -> u64 {
        word64(self.bytes, 8)
    }

    /// Returns the unique number with which the request was first sent.
    pub(crate) fn call(&self) -> u64 {
        call_of(self.unique())
    }

    /// Returns whether the kernel has sent the request again. A previous daemon may then already
    /// have read it.
    pub(crate) fn is_resent(&self) -> bool {
        self.unique() & RESENT_BIT != 0
    }

    pub(crate) fn node(&self) -> u64 {
        word64(self.bytes, 16)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.head32(24)
    }

    /// Returns the id of the calling thread; 0 if the PID namespace of this process does not
    /// contain the thread.
    pub(crate) fn tid(&self) -> u32 {
        self.head32(32)
    }

    /// Returns the arguments after the header.
    pub(crate) fn body(&self) -> FuseArgs<'m> {
        FuseArgs(&self.bytes[IN_HEADER_LEN..])
    }
}

/// The arguments of a request. Bytes after their end are read as zero, but the kernel always sends
/// complete arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FuseArgs<'m>(pub(crate) &'m [u8]);

impl<'m> FuseArgs<'m> {
    pub(crate) fn u32(&self, at: usize) -> u32 {
        word32(self.0, at)
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        word64(self.0, at)
    }

    /// Returns the bytes from offset `at` on.
    pub(crate) fn bytes_from(&self, at: usize) -> &'m [u8] {
        self.0.get(at..).unwrap_or_default()
    }

    /// Returns the bytes up to the first NUL.
    pub(crate) fn name(&self) -> &'m [u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Returns the number with which the request `unique` was first sent.
pub(crate) fn call_of(unique: u64) -> u64 {
    unique & !RESENT_BIT
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.copied().map_or(0, u32::from_ne_bytes)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.copied().map_or(0, u64::from_ne_bytes)
}

/// Builds the `fuse_out_header` that starts a reply.
pub(crate) fn out_header(len: usize, error: i32, unique: u64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&(16 + len as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// Builds a message that makes pollers of the file `handle` poll again.
pub(crate) fn notify_poll(handle: u64) -> [u8; 24] {
    let mut message = [0; 24];
    message[..16].copy_from_slice(&out_header(8, NOTIFY_POLL, 0));
    message[16..].copy_from_slice(&handle.to_ne_bytes());
    message
}

/// Builds a message that asks the kernel to resend requests that were read but not answered.
pub(crate) fn notify_resend() -> [u8; 16] {
    out_header(0, NOTIFY_RESEND, 0)
}

/// The bytes of a reply, which is built field by field.
#[derive(Debug, Default)]
pub(crate) struct ReplyWords(pub(crate) Vec<u8>);

impl ReplyWords {
    pub(crate) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

/// The INIT negotiation, in which kernel and server agree on features.
pub(crate) mod init {
    use super::{FuseArgs, ReplyWords};

    const ATOMIC_O_TRUNC: u32 = 1 << 3;
    const PARALLEL_DIROPS: u32 = 1 << 18;
    const FLAG_MAX_PAGES: u32 = 1 << 22;
    const INIT_EXT: u32 = 1 << 30;
    /// FUSE_PASSTHROUGH, which is bit 37 of the 64-bit flags. This is its value in the upper word.
    const PASSTHROUGH: u32 = 1 << 5;
    /// FUSE_OVER_IO_URING, which is bit 41 of the 64-bit flags. This is its value in the upper
    /// word.
    const OVER_IO_URING: u32 = 1 << 9;
    const MINOR: u32 = 41;
    pub(crate) const MAX_WRITE: u32 = 4096;
    pub(crate) const MAX_PAGES: u16 = 1;

    /// The INIT request, in which the kernel offers features.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct FuseInitOffer<'m>(pub(crate) FuseArgs<'m>);

    impl FuseInitOffer<'_> {
        /// Returns whether the kernel offers that requests arrive by io_uring.
        pub(crate) fn has_uring(self) -> bool {
            self.0.u32(16) & OVER_IO_URING != 0
        }

        /// Builds the reply to INIT. It accepts io_uring if `uring` is set and the kernel offers
        /// it. `None` if the kernel does not offer passthrough.
        pub(crate) fn answer(self, uring: bool) -> Option<Vec<u8>> {
            let (flags, more) = (self.0.u32(12), self.0.u32(16));
            if flags & INIT_EXT == 0 || more & PASSTHROUGH == 0 {
                return None;
            }
            let wanted = flags & (ATOMIC_O_TRUNC | PARALLEL_DIROPS | FLAG_MAX_PAGES | INIT_EXT);
            let more = PASSTHROUGH | if uring { more & OVER_IO_URING } else { 0 };
            let words = ReplyWords::default().u32(7).u32(MINOR).u32(self.0.u32(8)).u32(wanted);
            let words = words.u16(64).u16(48).u32(MAX_WRITE).u32(1).u16(MAX_PAGES).u16(0);
            // The stack depth is 1, because the memfd with the memory is not on a stacked file
            // system.
            Some(words.u32(more).u32(1).zeros(24).0)
        }
    }
}

/// The attributes of a node, as in `fuse_attr`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FuseAttr {
    pub(crate) node: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl FuseAttr {
    fn words(&self, words: ReplyWords) -> ReplyWords {
        let words = words.u64(self.node).u64(self.size).zeros(8 + 3 * 8 + 3 * 4);
        words.u32(self.mode).u32(1).u32(self.uid).u32(self.gid).u32(0).u32(4096).u32(0)
    }

    /// Builds the `fuse_attr_out` of a reply that returns the attributes.
    pub(crate) fn answer(&self) -> Vec<u8> {
        self.words(ReplyWords::default().zeros(16)).0
    }

    /// Builds a `fuse_entry_out` that the kernel must not cache, because the next lookup of the
    /// name may come from another user.
    pub(crate) fn entry(&self) -> Vec<u8> {
        self.words(ReplyWords::default().u64(self.node).zeros(32)).0
    }
}

/// Builds the `fuse_open_out` of a file whose content is requested from the server at each read.
pub(crate) fn open_direct() -> Vec<u8> {
    const DIRECT_IO: u32 = 1;
    ReplyWords::default().u64(0).u32(DIRECT_IO).u32(0).0
}

/// Builds the `fuse_write_out` that says how many bytes were written.
pub(crate) fn write_out(bytes: u32) -> Vec<u8> {
    ReplyWords::default().u32(bytes).u32(0).0
}

/// Builds a `fuse_open_out` with the id of a backing file, or without one for a directory.
pub(crate) fn open_out(handle: u64, backing: Option<i32>) -> Vec<u8> {
    const NO_FLUSH: u32 = 1 << 5;
    const PASSTHROUGH: u32 = 1 << 7;
    let flags = if backing.is_some() { PASSTHROUGH | NO_FLUSH } else { 0 };
    ReplyWords::default().u64(handle).u32(flags).u32(backing.unwrap_or(0) as u32).0
}

/// Builds the `fuse_ioctl_out` with the result of an ioctl. In a reply, the argument follows it.
pub(crate) fn ioctl_out(result: i32) -> Vec<u8> {
    ReplyWords::default().u32(result as u32).zeros(12).0
}

/// Builds the `fuse_poll_out` with the events that are ready.
pub(crate) fn poll_out(events: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&events.to_ne_bytes());
    out
}

/// Builds a `fuse_dirent`, which is an entry of a directory, with its padding.
pub(crate) fn dirent(node: u64, next: u64, kind: u32, name: &str) -> Vec<u8> {
    let words = ReplyWords::default().u64(node).u64(next).u32(name.len() as u32).u32(kind);
    let mut bytes = words.0;
    bytes.extend(name.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_kernels_sizes() {
        let attr = FuseAttr { node: 2, size: 0, mode: 0o100_660, uid: 0, gid: 0 };
        assert_eq!((attr.answer().len(), attr.entry().len()), (104, 128));
        assert_eq!((open_out(1, Some(1)).len(), ioctl_out(-1).len()), (16, 16));
        let asked = [0xff; 64];
        assert_eq!(init::FuseInitOffer(FuseArgs(&asked)).answer(false).unwrap().len(), 64);
        assert_eq!(dirent(1, 1, 4, "netmap").len(), 32);
    }

    #[test]
    fn a_kernel_without_passthrough_is_told_from_one_with() {
        let mut asked = [0xff; 64];
        asked[16] &= !(1 << 5);
        assert!(init::FuseInitOffer(FuseArgs(&asked)).answer(true).is_none());
    }

    #[test]
    fn io_uring_is_agreed_on_where_it_is_both_offered_and_wanted() {
        let agreed = |asked: &[u8], wanted| {
            let answer = init::FuseInitOffer(FuseArgs(asked)).answer(wanted).unwrap();
            word32(&answer, 32) & 1 << 9 != 0
        };
        let (offers, mut does_not) = ([0xff; 64], [0xff; 64]);
        does_not[17] &= !(1 << 1);
        assert!(init::FuseInitOffer(FuseArgs(&offers)).has_uring() && agreed(&offers, true));
        assert!(!agreed(&offers, false) && !agreed(&does_not, true));
        assert!(!init::FuseInitOffer(FuseArgs(&does_not)).has_uring());
    }

    #[test]
    fn a_cut_message_reads_as_zero_and_never_panics() {
        assert!(FuseRequest::new(&[0; 39]).is_none());
        let message = FuseRequest::new(&[1; 40]).unwrap();
        assert_eq!((message.body().u64(0), message.body().bytes_from(8).len()), (0, 0));
        assert!(message.body().name().is_empty());
    }
}
