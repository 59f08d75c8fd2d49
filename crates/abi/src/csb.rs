//! Shared control blocks and the sync loop. The indices of a ring are outside the ring, so that two
//! sides that trust each other (a guest and its host) need no system call to sync.

use crate::layout::abi_structs;

/// Maximum accepted value of [`NmreqSyncKloopStart::sleep_us`], in microseconds.
pub const SYNC_KLOOP_MAX_SLEEP_US: u32 = 1_000_000;

abi_structs! {
    /// Body of [`crate::NETMAP_REQ_SYNC_KLOOP_START`], which starts the sync loop.
    struct NmreqSyncKloopStart: 8 {
        /// Pause between two rounds of the loop, in microseconds; 0 means no pause.
        0: sleep_us: u32,
        /// Pads the structure to 8 bytes.
        4: pad1: u32,
    }

    /// The control block of a ring that the program writes and the sync loop reads.
    #[repr(align(64))]
    struct NmCsbAtok: 64 {
        /// The program's value of the ring's `head`.
        0: head: u32,
        /// The program's value of the ring's `cur`.
        4: cur: u32,
        /// Not 0 if the program wants to be woken by the sync loop.
        8: appl_need_kick: u32,
        /// Flags of the program's next sync.
        12: sync_flags: u32,
        /// Pads the block to a cache line.
        16: pad: [u32; 12],
    }

    /// The control block of a ring that the sync loop writes and the program reads.
    #[repr(align(64))]
    struct NmCsbKtoa: 64 {
        /// Index of the first slot that the loop has not consumed.
        0: hwcur: u32,
        /// The sync loop's value of the ring's `tail`.
        4: hwtail: u32,
        /// Not 0 if the sync loop wants to be woken by the program.
        8: kern_need_kick: u32,
        /// Pads the block to a cache line.
        12: pad: [u32; 13],
    }
}
