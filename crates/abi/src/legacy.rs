//! The requests that programs used before `NIOCCTRL`. All except [`crate::NIOCCONFIG`] have the
//! same structure.
//!
//! Old programs still use these requests, so they must be answered. New programs use
//! [`crate::NmreqHeader`].

use crate::layout::abi_structs;
use crate::ring::IFNAMSIZ;

/// `nr_ringid`: bind only the NIC ring pair whose number is in [`NETMAP_RING_MASK`].
pub const NETMAP_HW_RING: u16 = 0x4000;
/// `nr_ringid`: bind the host rings.
pub const NETMAP_SW_RING: u16 = 0x2000;
/// `nr_ringid`: a poll transmits only if it waits for `POLLOUT`.
pub const NETMAP_NO_TX_POLL: u16 = 0x1000;
/// `nr_ringid`: a poll receives even if it waits only for `POLLOUT`.
pub const NETMAP_DO_RX_POLL: u16 = 0x8000;
/// `nr_ringid`: the bits that contain the number of the ring.
pub const NETMAP_RING_MASK: u16 = 0x0fff;

/// `nr_cmd`: attach the interface to a switch.
pub const NETMAP_BDG_ATTACH: u16 = 1;
/// `nr_cmd`: detach the interface from its switch.
pub const NETMAP_BDG_DETACH: u16 = 2;
/// `nr_cmd`: replace the switch's lookup function (in the kernel only).
pub const NETMAP_BDG_REGOPS: u16 = 3;
/// `nr_cmd`: list switches and their ports.
pub const NETMAP_BDG_LIST: u16 = 4;
/// `nr_cmd`: set the length of the port's virtio-net header.
pub const NETMAP_BDG_VNET_HDR: u16 = 5;
/// `nr_cmd`: create a persistent switch port.
pub const NETMAP_BDG_NEWIF: u16 = 6;
/// `nr_cmd`: destroy a persistent switch port.
pub const NETMAP_BDG_DELIF: u16 = 7;
/// `nr_cmd`: an obsolete command, which is refused.
pub const NETMAP_PT_HOST_CREATE: u16 = 8;
/// `nr_cmd`: an obsolete command, which is refused.
pub const NETMAP_PT_HOST_DELETE: u16 = 9;
/// `nr_cmd`: poll an attached interface from dedicated threads.
pub const NETMAP_BDG_POLLING_ON: u16 = 10;
/// `nr_cmd`: stop polling a switch port's interface.
pub const NETMAP_BDG_POLLING_OFF: u16 = 11;
/// `nr_cmd`: get the length of the port's virtio-net header.
pub const NETMAP_VNET_HDR_GET: u16 = 12;
/// `nr_arg1` of [`NETMAP_BDG_ATTACH`]: also attach the host rings.
pub const NETMAP_BDG_HOST: u16 = 1;

abi_structs! {
    /// Argument of [`crate::NIOCREGIF`] and [`crate::NIOCGINFO`].
    struct Nmreq: 60 {
        /// Name of the port, NUL-terminated.
        0: nr_name: [u8; IFNAMSIZ],
        /// Version of netmap's API for which the program was built; 14 or more.
        16: nr_version: u32,
        /// Offset of the [`crate::NetmapIf`] in the mapping, in bytes.
        20: nr_offset: u32,
        /// Size of the mapping, in bytes.
        24: nr_memsize: u32,
        /// Number of slots of a transmit ring.
        28: nr_tx_slots: u32,
        /// Number of slots of a receive ring.
        32: nr_rx_slots: u32,
        /// Number of transmit rings.
        36: nr_tx_rings: u16,
        /// Number of receive rings.
        38: nr_rx_rings: u16,
        /// The number of the ring in the bits of [`NETMAP_RING_MASK`], and flags in the bits above.
        40: nr_ringid: u16,
        /// A command such as `NETMAP_BDG_ATTACH`; 0 for a plain bind.
        42: nr_cmd: u16,
        /// The command's argument, for example [`NETMAP_BDG_HOST`].
        44: nr_arg1: u16,
        /// Id of the memory region.
        46: nr_arg2: u16,
        /// Number of extra buffers: on input the requested number, on output the granted one.
        48: nr_arg3: u32,
        /// Mode in the bits of [`crate::NR_REG_MASK`], and `NR_*` flags.
        52: nr_flags: u32,
        /// Reserved by netmap; not used.
        56: spare2: [u32; 1],
    }

    /// Argument of [`crate::NIOCCONFIG`].
    struct NmIfreq: 272 {
        /// Name of the port, NUL-terminated.
        0: nifr_name: [u8; IFNAMSIZ],
        /// Data whose meaning is defined by the switch's module.
        16: data: [u8; 256],
    }
}
