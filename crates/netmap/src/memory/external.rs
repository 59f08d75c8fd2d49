//! External memory (option EXTMEM): pages of the program, in which a port has its rings and buffers.
//!
//! They are used where they are, by a mapping of our own of the file behind them. Who gives the same
//! pages again means the same memory, whatever sizes he says then. The program finds everything by
//! the addresses that it has already: offsets count from the first of its pages, and what the device
//! shows by `mmap` is, as ever, the memory of its own.
//!
//! The sizes are netmap's: objects of three kinds, of which those for interfaces and rings share one
//! area here, and buffers as many as fit.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use slipring_abi::{NmreqOptExtmem, NmreqPoolsInfo};
use slipring_ring::{Geometry, RevocableMapping, is_buf_size};

use crate::types::parameters::Parameters;
use crate::types::params::ObjectPools;

/// netmap's limits: bytes of one object.
const IF_SIZES: std::ops::RangeInclusive<u32> = 56..=4096;
const RING_SIZES: std::ops::RangeInclusive<u32> = 256..=131_072;
/// Pages as netmap counts them, whatever size those of the program have.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// And how many there may be.
const MAX_IFS: u32 = 10_000;
const MAX_RINGS: u32 = 100_000;
const MAX_BUFS: u32 = 1_000_000;

/// Pages of a program that others can map as well: a part of a file in memory.
#[derive(Debug)]
pub struct SharedPages {
    /// The file.
    pub file: OwnedFd,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Which of its bytes is the first.
    pub offset: u64,
    /// Bytes of one page; more than usual in a file of huge ones.
    pub page: u64,
}

impl SharedPages {
    /// Where they are: equal for the same pages.
    pub(crate) fn location(&self) -> ExternalPages {
        ExternalPages { file: self.identity, offset: self.offset }
    }

    /// Maps `len` bytes, wherever in their page they begin; where that is in the mapping.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub(crate) fn map_around(&self, len: u64) -> Result<(RevocableMapping, usize), Errno> {
        let first = self.offset % self.page;
        let whole = (first + len).next_multiple_of(self.page) as usize;
        let lent = RevocableMapping::map(self.file.as_fd(), self.offset - first, whole);
        lent.map(|lent| (lent, first as usize)).map_err(|_| Errno::NOMEM)
    }

    /// Maps `len` bytes, from the first one on.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: they do not begin with a page. [`Errno::NOMEM`].
    pub(crate) fn map(&self, len: u64) -> Result<RevocableMapping, Errno> {
        let whole = len.checked_next_multiple_of(self.page).ok_or(Errno::INVAL)?;
        if !self.offset.is_multiple_of(self.page) {
            return Err(Errno::INVAL);
        }
        RevocableMapping::map(self.file.as_fd(), self.offset, whole as usize)
            .map_err(|_| Errno::NOMEM)
    }
}

/// Which pages of which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExternalPages {
    file: (u64, u64),
    offset: u64,
}

/// How an option splits the pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtmemLayout {
    pub(crate) len: u64,
    pub(crate) objects: ObjectPools,
    pub(crate) geometry: Geometry,
}

impl ExtmemLayout {
    /// What it says, or, where it says 0, what the parameters of private memories say.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: no pages, or objects of a size or number that there cannot be.
    pub(crate) fn from_option(
        option: &NmreqOptExtmem,
        parameters: &Parameters,
    ) -> Result<Self, Errno> {
        let (info, usual, least) =
            (&option.nro_info, parameters.private_pools(), parameters.private_geometry());
        let or = |said: u32, usual: u32| if said == 0 { usual } else { said };
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
        // A page that was begun is used whole.
        let len = info.nr_memsize.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        right.then_some(Self { len, objects, geometry }).ok_or(Errno::INVAL)
    }
}

/// The option, with what it has become.
pub(crate) fn granted(option: &NmreqOptExtmem, pools: NmreqPoolsInfo) -> NmreqOptExtmem {
    NmreqOptExtmem { nro_info: pools, ..*option }
}
