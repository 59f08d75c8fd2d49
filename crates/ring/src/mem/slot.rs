//! Slots: copies of slots, and slots in shared memory.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_abi::NetmapSlot;

use crate::index::BufIdx;

/// Flags of a slot (`NS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotFlags(pub u16);

impl SlotFlags {
    /// `NS_BUF_CHANGED`: the slot refers to another buffer than before.
    pub const BUF_CHANGED: Self = Self(slipring_abi::NS_BUF_CHANGED);
    /// `NS_REPORT`: the application wants to learn soon that the slot was sent.
    pub const REPORT: Self = Self(slipring_abi::NS_REPORT);
    /// `NS_MOREFRAG`: the packet continues in the next slot.
    pub const MOREFRAG: Self = Self(slipring_abi::NS_MOREFRAG);

    /// Returns whether any flag of `other` is set.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for SlotFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A copy of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The buffer, not yet checked against its region.
    pub buf: BufIdx,
    /// Number of bytes of the frame in this buffer.
    pub len: u16,
    /// The slot's `NS_*` flags.
    pub flags: SlotFlags,
}

impl Slot {
    #[inline(always)]
    const fn from_word(word: u64) -> Self {
        Self {
            buf: BufIdx(word as u32),
            len: (word >> 32) as u16,
            flags: SlotFlags((word >> 48) as u16),
        }
    }

    #[inline(always)]
    const fn to_word(self) -> u64 {
        self.buf.0 as u64 | (self.len as u64) << 32 | (self.flags.0 as u64) << 48
    }
}

/// A slot in memory: word 0 holds buffer index, length and flags; word 1 is netmap's `ptr`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SlotCell([AtomicU64; 2]);

const _: () = assert!(size_of::<SlotCell>() == size_of::<NetmapSlot>());
const _: () = assert!(offset_of!(NetmapSlot, len) == 4 && offset_of!(NetmapSlot, flags) == 6);

impl SlotCell {
    #[inline(always)]
    pub(crate) fn get(&self) -> Slot {
        Slot::from_word(self.0[0].load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(&self, slot: Slot) {
        self.0[0].store(slot.to_word(), Ordering::Relaxed);
    }

    /// Returns the slot's second word, netmap's `ptr`.
    #[inline(always)]
    pub(crate) fn ptr(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// Sets the slot's second word, netmap's `ptr`.
    #[inline(always)]
    pub(crate) fn set_ptr(&self, ptr: u64) {
        self.0[1].store(ptr, Ordering::Relaxed);
    }

    /// Copies the whole slot, `ptr` included.
    #[inline(always)]
    pub(crate) fn copy_from(&self, from: &Self) {
        self.0[0].store(from.0[0].load(Ordering::Relaxed), Ordering::Relaxed);
        self.0[1].store(from.0[1].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
