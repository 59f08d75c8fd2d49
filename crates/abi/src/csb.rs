//! Shared control blocks and the sync loop: a ring's indices outside the ring, so that two sides
//! that trust each other (a guest and its host) need no system call to sync.

use crate::layout::abi_structs;

/// Maximum accepted value of [`NmreqSyncKloopStart::sleep_us`], in microseconds.
pub const SYNC_KLOOP_MAX_SLEEP_US: u32 = 1_000_000;

abi_structs! {
    /// Body of a sync loop's start.
    struct NmreqSyncKloopStart: 8 {
        /// Pause between two rounds of the loop, in microseconds; 0 spins.
        0: sleep_us: u32,
        /// Pads the structure to 8 bytes.
        4: pad1: u32,
    }

    /// The program's block for each ring, which the loop reads.
    #[repr(align(64))]
    struct NmCsbAtok: 64 {
        /// The ring's head.
        0: head: u32,
        /// The ring's cur.
        4: cur: u32,
        /// The application wants to be woken.
        8: appl_need_kick: u32,
        /// Flags of the next sync.
        12: sync_flags: u32,
        /// Rest of the cache line.
        16: pad: [u32; 12],
    }

    /// The loop's block for each ring, which the program reads.
    #[repr(align(64))]
    struct NmCsbKtoa: 64 {
        /// The loop has consumed the slots before this one.
        0: hwcur: u32,
        /// The ring's tail.
        4: hwtail: u32,
        /// The loop wants to be woken.
        8: kern_need_kick: u32,
        /// Rest of the cache line.
        12: pad: [u32; 13],
    }
}
