//! The contents of a port's shared memory: interface, rings, slots.
//!
//! ```text
//! NetmapIf ─ ring_ofs[i] ─▶ NetmapRing │ slot[0] slot[1] … slot[num_slots-1]
//!                           └─ buf_ofs + slot.buf_idx * nr_buf_size ─▶ buffer
//! ```
//! The trailing arrays (`ring_ofs` after [`NetmapIf`], `slot` after [`NetmapRing`]) are not
//! part of the structures here: their lengths are known at run time only. Ring offsets come
//! in the order tx, host tx, rx, host rx; an offset of 0 means "not bound by this opener".

use crate::layout::abi_structs;

/// Version of netmap's API that these structures and requests have.
pub const NETMAP_API: u16 = 14;
/// The lowest version that a request may carry.
pub const NETMAP_MIN_API: u16 = 14;
/// The highest version that a request may carry.
pub const NETMAP_MAX_API: u16 = 15;

/// Bytes reserved for an interface name, the final NUL included.
pub const IFNAMSIZ: usize = 16;

/// Offset of slot 0 from the start of its ring, in bytes.
pub const NETMAP_RING_SLOTS_OFS: usize = size_of::<NetmapRing>();
/// Offset of `ring_ofs[0]` (each an `i64`) from the start of its interface, in bytes.
pub const NETMAP_IF_RING_OFS: usize = size_of::<NetmapIf>();

/// [`NetmapRing::dir`] of a transmit ring.
pub const NETMAP_RING_TX: u16 = 0;
/// [`NetmapRing::dir`] of a receive ring.
pub const NETMAP_RING_RX: u16 = 1;

/// [`NetmapSlot::flags`]: `buf_idx` was changed; must be set after every swap.
pub const NS_BUF_CHANGED: u16 = 0x0001;
/// [`NetmapSlot::flags`]: report completion of this slot promptly.
pub const NS_REPORT: u16 = 0x0002;
/// [`NetmapSlot::flags`]: pass this received frame on, from the NIC to the host or from the host to
/// the NIC.
pub const NS_FORWARD: u16 = 0x0004;
/// [`NetmapSlot::flags`]: the switch must not learn the source MAC address of this frame.
pub const NS_NO_LEARN: u16 = 0x0008;
/// [`NetmapSlot::flags`]: `ptr` is the address of the payload (switch transmission only).
pub const NS_INDIRECT: u16 = 0x0010;
/// [`NetmapSlot::flags`]: the frame continues in the next slot.
pub const NS_MOREFRAG: u16 = 0x0020;
/// [`NetmapSlot::flags`]: on a monitor's ring, the frame was transmitted, not received.
pub const NS_TXMON: u16 = 0x0040;
/// Lowest bit of the upper byte of [`NetmapSlot::flags`], which holds the number of fragments (rx)
/// or the output port (tx).
pub const NS_PORT_SHIFT: u32 = 8;
/// The bits of [`NetmapSlot::flags`] above [`NS_PORT_SHIFT`].
pub const NS_PORT_MASK: u16 = 0xff << NS_PORT_SHIFT;
/// Maximum number of slots of one frame.
pub const NETMAP_MAX_FRAGS: u16 = 64;

/// [`NetmapRing::flags`]: write `ts` at every rx sync.
pub const NR_TIMESTAMP: u32 = 0x0002;
/// [`NetmapRing::flags`]: honour [`NS_FORWARD`] on this ring.
pub const NR_FORWARD: u32 = 0x0004;

/// [`NetmapIf::ni_flags`]: the port has a memory region of its own.
pub const NI_PRIV_MEM: u32 = 0x1;

/// Returns the number of fragments of a received frame, from the [`NetmapSlot::flags`] of any of
/// its slots.
#[must_use]
pub const fn slot_rfrags(flags: u16) -> u16 {
    flags >> NS_PORT_SHIFT
}

abi_structs! {
    /// One slot of a ring: a buffer, and the length of the frame in it.
    struct NetmapSlot: 16 {
        /// Index of the buffer, counted in buffers from the start of the region's pool.
        0: buf_idx: u32,
        /// Number of bytes of the frame in this slot; less than the whole frame if it has several
        /// slots.
        4: len: u16,
        /// `NS_*` bits.
        6: flags: u16,
        /// Address of the payload with [`NS_INDIRECT`], else the payload's offset in the
        /// buffer under the ring's `offset_mask`.
        8: ptr: u64,
    }

    /// `struct timeval` of 64-bit platforms.
    struct Timeval: 16 {
        /// Whole seconds.
        0: tv_sec: i64,
        /// Microseconds, 0 to 999,999.
        8: tv_usec: i64,
    }

    /// The head of a ring; its slots follow at [`NETMAP_RING_SLOTS_OFS`].
    ///
    /// The program owns `head`, `cur` and the slots in the cyclic range `head..tail`; the other
    /// side owns `tail` and all other slots.
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
        /// [`NETMAP_RING_TX`] or [`NETMAP_RING_RX`].
        18: dir: u16,
        /// Index of the first slot that the program owns.
        20: head: u32,
        /// Wake-up point: the program waits until `tail` has passed this index.
        24: cur: u32,
        /// Index of the first slot that the other side owns.
        28: tail: u32,
        /// [`NR_TIMESTAMP`] and [`NR_FORWARD`].
        32: flags: u32,
        /// Aligns `ts` to 8 bytes.
        36: pad1: u32,
        /// Time of the last rx sync.
        40: ts: Timeval,
        /// Bits of a slot's `ptr` that hold the payload's offset; 0 without offsets.
        56: offset_mask: u64,
        /// Alignment in bytes that payloads must have in their buffers.
        64: buf_align: u64,
        /// Reserved; part of the space up to `sem`.
        72: pad2: [u64; 6],
        /// An extension; netmap leaves this 0. Number of frames for which a monitor's rx ring had
        /// no slots, modulo 2^32.
        120: lost: u32,
        /// Aligns `sem` to 128 bytes, a pair of cache lines.
        124: pad3: u32,
        /// Reserved for the side that does not run the program: the kernel or the daemon.
        128: sem: [u8; 128],
    }

    /// Describes a bound port; its ring offsets follow at [`NETMAP_IF_RING_OFS`].
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
        /// Index of the first extra buffer. The first four bytes of each extra buffer hold the
        /// index of the next; 0 ends the list.
        32: ni_bufs_head: u32,
        /// Number of transmit rings towards the host.
        36: ni_host_tx_rings: u32,
        /// Number of receive rings from the host.
        40: ni_host_rx_rings: u32,
        /// Reserved by netmap.
        44: ni_spare1: [u32; 3],
    }
}
