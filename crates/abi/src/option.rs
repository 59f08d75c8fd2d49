//! The options of a request. They form a list that is linked by addresses of the program. Each
//! element starts with an [`NmreqOption`].

use crate::layout::abi_structs;
use crate::request::NmreqPoolsInfo;

/// The value of `nro_reqtype` that stands for [`NmreqOptExtmem`].
pub const NETMAP_REQ_OPT_EXTMEM: u32 = 1;
/// The value of `nro_reqtype` that stands for [`NmreqOptSyncKloopEventfds`].
pub const NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS: u32 = 2;
/// The value of `nro_reqtype` that stands for [`NmreqOptCsb`].
pub const NETMAP_REQ_OPT_CSB: u32 = 3;
/// The value of `nro_reqtype` that stands for [`NmreqOptSyncKloopMode`].
pub const NETMAP_REQ_OPT_SYNC_KLOOP_MODE: u32 = 4;
/// The value of `nro_reqtype` that stands for [`NmreqOptOffsets`].
pub const NETMAP_REQ_OPT_OFFSETS: u32 = 5;

/// Bit of [`NmreqOptSyncKloopMode::mode`]: frames are transmitted by the thread that signals the
/// eventfd, not by the loop's thread.
pub const NM_OPT_SYNC_KLOOP_DIRECT_TX: u32 = 1;
/// Bit of [`NmreqOptSyncKloopMode::mode`]: frames are received by the thread that signals the
/// eventfd, not by the loop's thread.
pub const NM_OPT_SYNC_KLOOP_DIRECT_RX: u32 = 2;

abi_structs! {
    /// The fields with which all options start.
    struct NmreqOption: 24 {
        /// Address of the next option; 0 ends the list.
        0: nro_next: u64,
        /// Type of the option, one of `NETMAP_REQ_OPT_*`.
        8: nro_reqtype: u32,
        /// Output: 0, or the error number that says why the option was refused.
        12: nro_status: u32,
        /// Size of the option, including its body, in bytes. 0 if the type of the option implies
        /// the size.
        16: nro_size: u64,
    }

    /// Requests that the memory region consists of the program's own memory.
    struct NmreqOptExtmem: 96 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// Address of the program's memory.
        24: nro_usrptr: u64,
        /// Number and size of the objects in the memory. 0 means the default.
        32: nro_info: NmreqPoolsInfo,
    }

    /// Requests syncs through shared control blocks. The rings must be bound exclusively.
    struct NmreqOptCsb: 40 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// Address of the [`crate::NmCsbAtok`] array, tx rings first.
        24: csb_atok: u64,
        /// Address of the [`crate::NmCsbKtoa`] array, tx rings first.
        32: csb_ktoa: u64,
    }

    /// Requests that payloads may start at an offset in their buffers.
    struct NmreqOptOffsets: 56 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// Largest offset that will be used, in bytes.
        24: nro_max_offset: u64,
        /// The offset in bytes that every slot has at first.
        32: nro_initial_offset: u64,
        /// How many bits of a slot's `ptr` contain the offset. 0 means all bits.
        40: nro_offset_bits: u32,
        /// Alignment of transmitted payloads, in bytes; 0 means any.
        44: nro_tx_align: u32,
        /// Minimum space between the largest offset and the buffer's end, in bytes.
        48: nro_min_gap: u64,
    }

    /// Selects the thread that moves frames: the loop's thread, or the thread that signals the
    /// eventfd.
    struct NmreqOptSyncKloopMode: 32 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// The directions in which the signalling thread moves frames, as
        /// `NM_OPT_SYNC_KLOOP_DIRECT_*` bits.
        24: mode: u32,
        /// Pads the structure to a multiple of 8 bytes.
        28: pad1: u32,
    }

    /// The event descriptors for the sync loop. One [`KloopEventfds`] per ring follows.
    struct NmreqOptSyncKloopEventfds: 24 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
    }

    /// The event descriptors of one ring. -1 means none.
    struct KloopEventfds: 8 {
        /// The application signals this descriptor to wake the loop.
        0: ioeventfd: i32,
        /// The loop signals this descriptor to wake the application.
        4: irqfd: i32,
    }
}
