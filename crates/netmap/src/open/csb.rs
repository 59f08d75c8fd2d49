//! Control blocks (option CSB): a ring's indices outside the ring, through which a program and a
//! sync loop communicate without system calls.
//!
//! ```text
//!   program writes   atok[k]   head, cur, "wake me"       read by the loop
//!   program reads    ktoa[k]   hwcur, hwtail, "wake me"   written by the loop
//! ```
//!
//! Index `k` counts the bound rings: tx rings first, then rx rings.
//!
//! Blocks in memory that others can map are mapped here too. Blocks in private memory are read and
//! written through the caller's memory. Each side writes its two indices in a fixed order. The
//! other side reads them in the opposite order, so it never sees the index written second without
//! the index written first.

#[cfg(test)]
mod models;
mod words;

use std::sync::atomic::{Ordering, fence};

use rustix::io::Errno;
use slipring_abi::{NR_EXCLUSIVE, NmCsbKtoa, NmreqOptCsb, PlainData};
use slipring_ring::RevocableMapping;

use crate::memory::caller::{CallerMemory, bytes_of, read_plain};
use crate::port::binding::Binding;
use crate::types::shape::TxRx;
pub(crate) use words::CsbAppState;
use words::{
    ATOK_APPL_NEED_KICK_OFFSET, ATOK_CUR_OFFSET, ATOK_HEAD_OFFSET, ATOK_SYNC_FLAGS_OFFSET,
    BLOCK_BYTES, CsbStorage, KTOA_KERN_NEED_KICK_OFFSET, publish_indices, read_app_state,
    set_need_kick,
};

/// The control blocks of one open file.
#[derive(Debug)]
pub(crate) struct Csb {
    /// For each pair of blocks, the ring that it belongs to: direction and number.
    pub(crate) rings: Vec<(TxRx, usize)>,
    atok: CsbBlocks,
    ktoa: CsbBlocks,
}

/// An array of blocks, and how it is accessed.
#[derive(Debug)]
enum CsbBlocks {
    Shared { lent: RevocableMapping, first: usize },
    Private { addr: u64 },
}

impl CsbBlocks {
    fn new(addr: u64, len: usize, caller: &mut dyn CallerMemory) -> Result<Self, Errno> {
        match caller.shared(addr, len as u64) {
            Ok(pages) => {
                let (lent, first) = pages.map_around(len as u64)?;
                Ok(Self::Shared { lent, first })
            }
            // Memory that is not shared is accessed through the caller. If it is not mapped in the
            // program at all, the later write to the block fails.
            Err(Errno::OPNOTSUPP | Errno::FAULT) => Ok(Self::Private { addr }),
            Err(error) => Err(error),
        }
    }

    fn read_word(&self, at: usize, caller: &mut dyn CallerMemory) -> Result<u32, Errno> {
        match self {
            // Acquire: everything that the program wrote before this word is visible afterwards.
            Self::Shared { lent, first } => Ok(lent.word(first + at).load(Ordering::Acquire)),
            Self::Private { addr } => read_plain(caller, addr + at as u64),
        }
    }

    fn write_word(
        &self,
        at: usize,
        value: u32,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        match self {
            // Release: a thread that reads this word also sees the earlier changes to the ring.
            Self::Shared { lent, first } => {
                lent.word(first + at).store(value, Ordering::Release);
                Ok(())
            }
            Self::Private { addr } => caller.write(addr + at as u64, &bytes_of(&value)),
        }
    }

    fn is_revoked(&self) -> bool {
        matches!(self, Self::Shared { lent, .. } if lent.is_revoked())
    }
}

impl Csb {
    /// Opens the blocks that an option names, one pair for each bound ring, tx rings first. They
    /// are initialised from the rings.
    ///
    /// # Errors
    /// [`Errno::INVAL`]: the rings are not bound exclusively, or an address is not a multiple of
    /// the block size. [`Errno::FAULT`]: not all blocks are mapped. [`Errno::NOMEM`]: this process
    /// cannot map them.
    pub(crate) fn new(
        binding: &Binding,
        option: &NmreqOptCsb,
        caller: &mut dyn CallerMemory,
    ) -> Result<Self, Errno> {
        let NmreqOptCsb { csb_atok, csb_ktoa, .. } = *option;
        let aligned =
            [csb_atok, csb_ktoa].iter().all(|addr| addr.is_multiple_of(BLOCK_BYTES as u64));
        if binding.flags & NR_EXCLUSIVE == 0 || !aligned {
            return Err(Errno::INVAL);
        }
        let of = |dir: TxRx| binding.rings[dir as usize].clone().map(move |i| (dir, i));
        let rings: Vec<_> = of(TxRx::Tx).chain(of(TxRx::Rx)).collect();
        let len = rings.len() * BLOCK_BYTES;
        let whole = |addr: u64| addr.checked_add(len as u64).map(|_| addr).ok_or(Errno::FAULT);
        let atok = CsbBlocks::new(whole(csb_atok)?, len, caller)?;
        let ktoa = CsbBlocks::new(whole(csb_ktoa)?, len, caller)?;
        let csb = Self { rings, atok, ktoa };
        csb.begin(binding, caller)?;
        Ok(csb)
    }

    fn begin(&self, binding: &Binding, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        for (k, &(dir, i)) in self.rings.iter().enumerate() {
            let Some(ring) = binding.port.ring(dir, i) else { return Err(Errno::NXIO) };
            let (atok, ktoa) = (k * BLOCK_BYTES, k * BLOCK_BYTES);
            self.atok.write_word(atok + ATOK_CUR_OFFSET, ring.cur(), caller)?;
            self.atok.write_word(atok + ATOK_HEAD_OFFSET, ring.head(), caller)?;
            self.atok.write_word(atok + ATOK_APPL_NEED_KICK_OFFSET, 1, caller)?;
            self.atok.write_word(atok + ATOK_SYNC_FLAGS_OFFSET, 1, caller)?;
            self.ktoa.write_word(ktoa + KTOA_KERN_NEED_KICK_OFFSET, 1, caller)?;
            self.publish(k, ring.hwcur(), ring.tail(), caller)?;
        }
        Ok(())
    }

    /// Reads the program's state of ring `k`.
    pub(crate) fn read(
        &self,
        k: usize,
        caller: &mut dyn CallerMemory,
    ) -> Result<CsbAppState, Errno> {
        if self.atok.is_revoked() || self.ktoa.is_revoked() {
            return Err(Errno::FAULT);
        }
        read_app_state(&mut self.blocks_of(k, caller))
    }

    /// Publishes the progress of ring `k` to the program.
    pub(crate) fn publish(
        &self,
        k: usize,
        hwcur: u32,
        hwtail: u32,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        publish_indices(&mut self.blocks_of(k, caller), hwcur, hwtail)
    }

    /// Publishes whether the loop wants to be woken for ring `k`. A loop that wants to be woken
    /// must read the program's state once more after this call.
    pub(crate) fn set_need_kick(
        &self,
        k: usize,
        wanted: bool,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        set_need_kick(&mut self.blocks_of(k, caller), wanted)
    }

    fn blocks_of<'c>(&'c self, k: usize, caller: &'c mut dyn CallerMemory) -> RingBlocks<'c> {
        RingBlocks { csb: self, first: k * BLOCK_BYTES, caller }
    }
}

/// The blocks of one ring, accessed through the enclosing [`Csb`].
struct RingBlocks<'c> {
    csb: &'c Csb,
    first: usize,
    caller: &'c mut dyn CallerMemory,
}

impl CsbStorage for RingBlocks<'_> {
    fn read_atok(&mut self, offset: usize) -> Result<u32, Errno> {
        self.csb.atok.read_word(self.first + offset, self.caller)
    }

    fn write_ktoa(&mut self, offset: usize, value: u32) -> Result<(), Errno> {
        self.csb.ktoa.write_word(self.first + offset, value, self.caller)
    }

    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

const _: () = assert!(NmCsbKtoa::SIZE == BLOCK_BYTES);
