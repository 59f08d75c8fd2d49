//! The order in which program and sync loop write and read a ring's control blocks, generic over
//! the storage, so that `loom` explores the production code.
//!
//! ```text
//!   program                                        loop
//!   writes cur, then head       ------------->     reads head, then cur
//!   reads hwtail, then hwcur    <-------------     writes hwcur, then hwtail
//!   writes head, full fence,    ------------->     writes "wake me", full fence,
//!     reads "wake me"                                reads head once more
//! ```

use rustix::io::Errno;
use slipring_abi::NmCsbAtok;
use slipring_abi::PlainData;

/// Size of a control block in bytes, the same in both directions.
pub(super) const BLOCK_BYTES: usize = NmCsbAtok::SIZE;
/// Byte offset of `head` in the program's block. The next constants are the offsets of the other
/// words.
pub(super) const ATOK_HEAD_OFFSET: usize = 0;
pub(super) const ATOK_CUR_OFFSET: usize = 4;
pub(super) const ATOK_APPL_NEED_KICK_OFFSET: usize = 8;
pub(super) const ATOK_SYNC_FLAGS_OFFSET: usize = 12;
/// Byte offset of `hwcur` in the loop's block. The next constants are the offsets of the other
/// words.
pub(super) const KTOA_HWCUR_OFFSET: usize = 0;
pub(super) const KTOA_HWTAIL_OFFSET: usize = 4;
pub(super) const KTOA_KERN_NEED_KICK_OFFSET: usize = 8;

/// Access to the two blocks of one ring.
pub(super) trait CsbStorage {
    /// Reads a word of the program's block, with acquire ordering: what the program wrote before
    /// this word is visible afterwards.
    fn read_atok(&mut self, offset: usize) -> Result<u32, Errno>;
    /// Writes a word of the loop's block, with release ordering: a reader of this word also sees
    /// what was written before it.
    fn write_ktoa(&mut self, offset: usize, value: u32) -> Result<(), Errno>;
    /// Full fence: orders all earlier accesses before all later ones, in every thread's view.
    fn full_fence();
}

/// The program's values for one ring: the indices, and whether the program wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CsbAppState {
    pub(crate) head: u32,
    pub(crate) cur: u32,
    /// Whether the program wants to be woken, because it may sleep.
    pub(crate) needs_kick: bool,
}

/// Reads the program's state. `cur` is never older than `head`.
pub(super) fn read_app_state(blocks: &mut impl CsbStorage) -> Result<CsbAppState, Errno> {
    // The program writes cur before head, so head is read first.
    let head = blocks.read_atok(ATOK_HEAD_OFFSET)?;
    let cur = blocks.read_atok(ATOK_CUR_OFFSET)?;
    let needs_kick = blocks.read_atok(ATOK_APPL_NEED_KICK_OFFSET)? != 0;
    Ok(CsbAppState { head, cur, needs_kick })
}

/// Publishes the ring's progress to the program.
pub(super) fn publish_indices(
    blocks: &mut impl CsbStorage,
    hwcur: u32,
    hwtail: u32,
) -> Result<(), Errno> {
    // The program reads hwtail before hwcur, so hwtail is written last.
    blocks.write_ktoa(KTOA_HWCUR_OFFSET, hwcur)?;
    blocks.write_ktoa(KTOA_HWTAIL_OFFSET, hwtail)
}

/// Publishes whether the loop wants to be woken. A loop that wants to be woken reads `head` once
/// more afterwards.
pub(super) fn set_need_kick<B: CsbStorage>(blocks: &mut B, wanted: bool) -> Result<(), Errno> {
    blocks.write_ktoa(KTOA_KERN_NEED_KICK_OFFSET, wanted.into())?;
    // Pairs with the program's fence: either the program sees the request, or the loop sees what
    // the program has written.
    B::full_fence();
    Ok(())
}
