//! External memory (option EXTMEM): pages of the program that hold the rings and buffers of a port.
//!
//! The pages are used in place: this process maps their file too. While the memory is in use, a
//! program that passes the same pages again gets the same memory, with the sizes of the first
//! request. The program uses its own mapping: offsets count from the first of its pages, and `mmap`
//! of the device still shows the user's file.
//!
//! Sizes follow netmap, which has three kinds of objects: interfaces, rings and buffers. Interface
//! objects and ring objects share one area here. The buffers are after that area: as many as fit,
//! at most as many as requested.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use slipring_abi::{NmreqOptExtmem, NmreqPoolsInfo};
use slipring_ring::{Geometry, RevocableMapping, is_buf_size};

use crate::types::parameters::Parameters;
use crate::types::params::ObjectPools;

/// netmap's limits on the size of an interface object, in bytes. The next constant is for ring
/// objects.
const IF_SIZES: std::ops::RangeInclusive<u32> = 56..=4096;
const RING_SIZES: std::ops::RangeInclusive<u32> = 256..=131_072;
/// The page size in bytes in which netmap counts memory. The pages of the program's memory may be
/// larger.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// netmap's limits on the number of interface objects and, in the next constant, of ring objects.
const MAX_IFS: u32 = 10_000;
const MAX_RINGS: u32 = 100_000;
const MAX_BUFS: u32 = 1_000_000;

/// Pages of a program that this process can map too: a range of a file in memory.
#[derive(Debug)]
pub struct SharedPages {
    /// The file that contains the pages.
    pub file: OwnedFd,
    /// Device and inode of the file.
    pub identity: (u64, u64),
    /// Offset of the range in the file, in bytes. It need not be the start of a page.
    pub offset: u64,
    /// Page size of the memory in bytes: 4096, or more if the program uses huge pages.
    pub page: u64,
}

impl SharedPages {
    /// Returns the location of the first `len` bytes of the pages: the file and the range in it.
    pub(crate) fn location(&self, len: u64) -> ExternalPages {
        ExternalPages { file: self.identity, offset: self.offset, len }
    }

    /// Maps the first `len` bytes of the range, which may begin anywhere in a page. Returns the
    /// mapping, and the position of the range's first byte in it.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the pages cannot be mapped.
    pub(crate) fn map_around(&self, len: u64) -> Result<(RevocableMapping, usize), Errno> {
        let first = self.offset % self.page;
        let whole = (first + len).next_multiple_of(self.page) as usize;
        let lent = RevocableMapping::map(self.file.as_fd(), self.offset - first, whole);
        lent.map(|lent| (lent, first as usize)).map_err(|_| Errno::NOMEM)
    }

    /// Maps `len` bytes, from the start of the first page on.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if the range does not begin at a page boundary; [`Errno::NOMEM`] if it
    /// cannot be mapped.
    pub(crate) fn map(&self, len: u64) -> Result<RevocableMapping, Errno> {
        let whole = len.checked_next_multiple_of(self.page).ok_or(Errno::INVAL)?;
        if !self.offset.is_multiple_of(self.page) {
            return Err(Errno::INVAL);
        }
        RevocableMapping::map(self.file.as_fd(), self.offset, whole as usize)
            .map_err(|_| Errno::NOMEM)
    }
}

/// Identifies a range of pages in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExternalPages {
    file: (u64, u64),
    offset: u64,
    len: u64,
}

impl ExternalPages {
    /// Returns whether the two ranges have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |one: &Self| one.offset.saturating_add(one.len);
        self.file == other.file && self.offset < end(other) && other.offset < end(self)
    }
}

/// How the option EXTMEM divides the pages into interfaces, rings and buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtmemLayout {
    pub(crate) len: u64,
    pub(crate) objects: ObjectPools,
    pub(crate) geometry: Geometry,
}

impl ExtmemLayout {
    /// Reads the sizes and numbers of objects from the option. In place of a size or number that is
    /// 0, takes the value for private memories from the parameters.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if the option has no pages, or an invalid size or number of objects.
    pub(crate) fn from_option(
        option: &NmreqOptExtmem,
        parameters: &Parameters,
    ) -> Result<Self, Errno> {
        let (info, usual, least) =
            (&option.nro_info, parameters.private_pools(), parameters.private_geometry());
        let or = |given: u32, usual: u32| if given == 0 { usual } else { given };
        let objects = ObjectPools {
            if_num: or(info.nr_if_pool_objtotal, usual.if_num),
            if_size: or(info.nr_if_pool_objsize, usual.if_size),
            ring_num: or(info.nr_ring_pool_objtotal, usual.ring_num),
            ring_size: or(info.nr_ring_pool_objsize, usual.ring_size),
        };
        let bufs = or(info.nr_buf_pool_objtotal, least.bufs);
        let buf_size = or(info.nr_buf_pool_objsize, least.buf_size);
        let right = info.nr_memsize > 0
            && IF_SIZES.contains(&objects.if_size)
            && RING_SIZES.contains(&objects.ring_size)
            && objects.if_num <= MAX_IFS
            && (2..=MAX_RINGS).contains(&objects.ring_num)
            && (4..=MAX_BUFS).contains(&bufs)
            && is_buf_size(buf_size);
        let geometry = Geometry { ring_bytes: objects.bytes(), bufs, buf_size };
        // A partial last page is rounded up to a whole page.
        let len = info.nr_memsize.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        right.then_some(Self { len, objects, geometry }).ok_or(Errno::INVAL)
    }
}

/// Returns the option with the sizes that were granted.
pub(crate) fn granted(option: &NmreqOptExtmem, pools: NmreqPoolsInfo) -> NmreqOptExtmem {
    NmreqOptExtmem { nro_info: pools, ..*option }
}
