//! The contents of a port's shared memory: interface records, rings, slots.
//!
//! ```text
//! NetmapIf ─ ring_ofs[i] ─▶ NetmapRing │ slot[0] slot[1] … slot[num_slots-1]
//!                           └─ buf_ofs + slot.buf_idx * nr_buf_size ─▶ buffer
//! ```
//! The arrays at the end (`ring_ofs` after [`NetmapIf`], `slot` after [`NetmapRing`]) are not parts
//! of these structures, because their lengths are only known at run time. The order of the ring
//! offsets is: tx, host tx, rx, host rx. An offset of 0 means that this program has not bound the
//! ring.

use crate::layout::abi_structs;

/// The version of netmap's API to which these structures and requests belong.
pub const NETMAP_API: u16 = 14;
/// The lowest version that a request may carry.
pub const NETMAP_MIN_API: u16 = 14;
/// The highest version that a request may carry.
pub const NETMAP_MAX_API: u16 = 15;

/// Number of bytes for the name of an interface, including the final NUL.
pub const IFNAMSIZ: usize = 16;

/// Offset of slot 0 from the start of its ring, in bytes.
pub const NETMAP_RING_SLOTS_OFS: usize = size_of::<NetmapRing>();
/// Offset of `ring_ofs[0]` from the start of its interface record, in bytes. Each element is an
/// `i64`.
pub const NETMAP_IF_RING_OFS: usize = size_of::<NetmapIf>();

/// The value of [`NetmapRing::dir`] in a transmit ring.
pub const NETMAP_RING_TX: u16 = 0;
/// The value of [`NetmapRing::dir`] in a receive ring.
pub const NETMAP_RING_RX: u16 = 1;

/// [`NetmapSlot::flags`]: `buf_idx` has changed. It must be set after every swap of buffers.
pub const NS_BUF_CHANGED: u16 = 0x0001;
/// [`NetmapSlot::flags`]: the completion of this slot must be reported promptly.
pub const NS_REPORT: u16 = 0x0002;
/// [`NetmapSlot::flags`]: this received frame must be passed on, from the NIC to the host or from
/// the host to the NIC.
pub const NS_FORWARD: u16 = 0x0004;
/// [`NetmapSlot::flags`]: the switch must not learn the source MAC address of this frame.
pub const NS_NO_LEARN: u16 = 0x0008;
/// [`NetmapSlot::flags`]: `ptr` is the address of the payload. Only for transmission to a switch.
pub const NS_INDIRECT: u16 = 0x0010;
/// [`NetmapSlot::flags`]: the frame continues in the next slot.
pub const NS_MOREFRAG: u16 = 0x0020;
/// [`NetmapSlot::flags`], on the ring of a monitor: the monitored port transmitted this frame.
/// Without the flag, the port received the frame.
pub const NS_TXMON: u16 = 0x0040;
/// The lowest bit of the upper byte of [`NetmapSlot::flags`]. The upper byte contains the number of
/// fragments (rx) or the output port (tx).
pub const NS_PORT_SHIFT: u32 = 8;
/// The bits of [`NetmapSlot::flags`] from [`NS_PORT_SHIFT`] on.
pub const NS_PORT_MASK: u16 = 0xff << NS_PORT_SHIFT;
/// Maximum number of slots of one frame.
pub const NETMAP_MAX_FRAGS: u16 = 64;

/// [`NetmapRing::flags`]: every rx sync writes `ts`.
pub const NR_TIMESTAMP: u32 = 0x0002;
/// [`NetmapRing::flags`]: [`NS_FORWARD`] has an effect on this ring.
pub const NR_FORWARD: u32 = 0x0004;

/// [`NetmapIf::ni_flags`]: the port has its own memory region.
pub const NI_PRIV_MEM: u32 = 0x1;

/// Returns the number of fragments of a received frame, from the [`NetmapSlot::flags`] of any of
/// its slots.
#[must_use]
pub const fn slot_rfrags(flags: u16) -> u16 {
    flags >> NS_PORT_SHIFT
}

abi_structs! {
    /// A slot of a ring: a buffer, and the length of the frame in it.
    struct NetmapSlot: 16 {
        /// Index of the buffer, counted in buffers from the start of the region's pool.
        0: buf_idx: u32,
        /// Number of bytes of the frame that are in this slot. If the frame has several slots, this
        /// is less than its length.
        4: len: u16,
        /// Requests for the slot, and properties of its frame: `NS_*` bits.
        6: flags: u16,
        /// If [`NS_INDIRECT`] is set, the address of the payload. Otherwise its bits under the
        /// ring's `offset_mask` are the offset of the payload in the buffer.
        8: ptr: u64,
    }

    /// A time, as `struct timeval` on 64-bit platforms.
    struct Timeval: 16 {
        /// Seconds since 1970.
        0: tv_sec: i64,
        /// Microseconds, 0 to 999,999.
        8: tv_usec: i64,
    }

    /// The head of a ring. Its slots follow at [`NETMAP_RING_SLOTS_OFS`].
    ///
    /// `head`, `cur` and the slots in the cyclic range `head..tail` belong to the program. `tail`
    /// and all other slots belong to the other side.
    #[repr(align(128))]
    struct NetmapRing: 256 {
        /// Distance from this ring to buffer 0, in bytes.
        0: buf_ofs: i64,
        /// Number of slots.
        8: num_slots: u32,
        /// Size of a buffer in bytes.
        12: nr_buf_size: u32,
        /// Number of the ring within its direction.
        16: ringid: u16,
        /// The direction: [`NETMAP_RING_TX`] or [`NETMAP_RING_RX`].
        18: dir: u16,
        /// Index of the first slot that the program owns.
        20: head: u32,
        /// The point up to which the program waits: it is woken when `tail` has passed this index.
        24: cur: u32,
        /// Index of the first slot that belongs to the other side.
        28: tail: u32,
        /// The flags [`NR_TIMESTAMP`] and [`NR_FORWARD`].
        32: flags: u32,
        /// Aligns `ts` to 8 bytes.
        36: pad1: u32,
        /// Time of the last rx sync.
        40: ts: Timeval,
        /// The bits of a slot's `ptr` that contain the offset of the payload; 0 if offsets are not
        /// used.
        56: offset_mask: u64,
        /// Alignment in bytes that payloads must have in their buffers.
        64: buf_align: u64,
        /// Reserved; fills a part of the space before `sem`.
        72: pad2: [u64; 6],
        /// Number of frames for which the rx ring of a monitor had no free slots, modulo 2^32. This
        /// is an extension: netmap leaves the field 0.
        120: lost: u32,
        /// Aligns `sem` to 128 bytes, a pair of cache lines.
        124: pad3: u32,
        /// Reserved for the side that provides the ring, which is the kernel or the daemon.
        128: sem: [u8; 128],
    }

    /// Describes a bound port. The offsets of its rings follow at [`NETMAP_IF_RING_OFS`].
    struct NetmapIf: 56 {
        /// Name of the interface, NUL-terminated.
        0: ni_name: [u8; IFNAMSIZ],
        /// Version of the structures, [`NETMAP_API`].
        16: ni_version: u32,
        /// Flags, such as [`NI_PRIV_MEM`].
        20: ni_flags: u32,
        /// Number of transmit rings of the NIC.
        24: ni_tx_rings: u32,
        /// Number of receive rings of the NIC.
        28: ni_rx_rings: u32,
        /// Index of the first extra buffer. The first four bytes of each extra buffer contain the
        /// index of the next one. 0 ends the list.
        32: ni_bufs_head: u32,
        /// Number of transmit rings towards the host.
        36: ni_host_tx_rings: u32,
        /// Number of receive rings from the host.
        40: ni_host_rx_rings: u32,
        /// Reserved by netmap; not used.
        44: ni_spare1: [u32; 3],
    }
}
