//! Options of a request: a list linked by user addresses, each element starting with an
//! [`NmreqOption`].

use crate::layout::abi_structs;
use crate::request::NmreqPoolsInfo;

/// `nro_reqtype` of [`NmreqOptExtmem`].
pub const NETMAP_REQ_OPT_EXTMEM: u32 = 1;
/// `nro_reqtype` of [`NmreqOptSyncKloopEventfds`].
pub const NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS: u32 = 2;
/// `nro_reqtype` of [`NmreqOptCsb`].
pub const NETMAP_REQ_OPT_CSB: u32 = 3;
/// `nro_reqtype` of [`NmreqOptSyncKloopMode`].
pub const NETMAP_REQ_OPT_SYNC_KLOOP_MODE: u32 = 4;
/// `nro_reqtype` of [`NmreqOptOffsets`].
pub const NETMAP_REQ_OPT_OFFSETS: u32 = 5;

/// [`NmreqOptSyncKloopMode::mode`]: transmit in the context of the thread that kicks, not in the
/// loop.
pub const NM_OPT_SYNC_KLOOP_DIRECT_TX: u32 = 1;
/// [`NmreqOptSyncKloopMode::mode`]: receive in the context of the thread that kicks, not in the
/// loop.
pub const NM_OPT_SYNC_KLOOP_DIRECT_RX: u32 = 2;

abi_structs! {
    /// Common head of all options.
    struct NmreqOption: 24 {
        /// Address of the next option; 0 ends the list.
        0: nro_next: u64,
        /// Type of the option, one of `NETMAP_REQ_OPT_*`.
        8: nro_reqtype: u32,
        /// Written back: 0, or why the option was refused (an errno).
        12: nro_status: u32,
        /// Size of the option with its body, in bytes; 0 if the type implies it.
        16: nro_size: u64,
    }

    /// Requests that the region is the program's own memory.
    struct NmreqOptExtmem: 96 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// Address of the program's memory.
        24: nro_usrptr: u64,
        /// Number and size of the objects in the memory; 0 means the default.
        32: nro_info: NmreqPoolsInfo,
    }

    /// Requests syncs through shared control blocks; needs an exclusive bind.
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
        /// Offset that every slot starts with, in bytes.
        32: nro_initial_offset: u64,
        /// Number of bits of a slot's `ptr` to use; 0 means as many as needed.
        40: nro_offset_bits: u32,
        /// Alignment of transmitted payloads, in bytes; 0 for any.
        44: nro_tx_align: u32,
        /// Minimum space between the largest offset and the buffer's end, in bytes.
        48: nro_min_gap: u64,
    }

    /// Configures whether the sync loop itself or the kick's sender moves frames.
    struct NmreqOptSyncKloopMode: 32 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
        /// `NM_OPT_SYNC_KLOOP_*` bits.
        24: mode: u32,
        /// Pads the structure to a multiple of 8 bytes.
        28: pad1: u32,
    }

    /// Event descriptors for the sync loop; one [`KloopEventfds`] per ring follows.
    struct NmreqOptSyncKloopEventfds: 24 {
        /// The common head of all options.
        0: nro_opt: NmreqOption,
    }

    /// The event descriptors of one ring; -1 for none.
    struct KloopEventfds: 8 {
        /// Signalled by the application to wake the loop.
        0: ioeventfd: i32,
        /// Signalled by the loop to wake the application.
        4: irqfd: i32,
    }
}
