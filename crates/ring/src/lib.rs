//! Shared memory regions, buffers, netmap rings and the index protocol between two parties.
//!
//! ```text
//!            region (one memfd)
//!   +--------+-----------+-------------------------+------------------------------+
//!   | header | netmap_if | netmap_ring + slots ... | buffer 0 | 1 | 2 | ...   N-1 |
//!   +--------+-----------+-------------------------+------------------------------+
//!                              |  slot.buf_idx ------------------------^
//!
//!   application half (app.rs)                       port driver half (kern.rs)
//!   TxRing / RxRing: owns slots head..tail  <---->  KernRing: owns tail..head
//! ```
//!
//! A frame lives in one buffer of one [`Region`]. Rings hold *slots*, and a slot names a buffer
//! by index, so moving a frame between two rings of one region exchanges two integers
//! ([`forward()`]); between regions the bytes are copied.
//!
//! # Invariants
//! 1. Every buffer has one owner: a slot of one ring, a driver, an extra list, or the free list.
//! 2. Of a ring, the slots `head..tail` belong to the application and all others to the driver.
//! 3. A value that the other party can write is read once into a local variable, checked, then
//!    used.
//!
//! # Private and shared memory
//! A region is private ([`Region::create`]: no other process can map it) or shared for its whole
//! life. Only buffers of private regions are lent as references:
//!
//! | | private | shared |
//! |---|---|---|
//! | the program's half ([`AppRing`]) | lends slices of the buffers | lends slices of copies |
//! | the driver's half ([`KernRing`]) | [`SharedBuf`], of its own slots | [`SharedBuf`] |
//! | by buffer index ([`Region::copy_out`], [`RingView`]) | nothing | copies |
//!
//! A [`SharedBuf`] is accessed by copying only. [`AppRing::write_back`] stores a program's changes
//! to a lent copy in the buffer. Drivers do not need to know which kind of region they work in.
//!
//! In a private region safe code cannot break invariant 1: buffers move by exchange or as an
//! [`OwnedBuf`], a ring has one half of each kind, and a half accesses only its own slots. In a
//! shared region a peer can put a buffer into two slots, but it cannot make another party panic or
//! access memory outside the region: indices are clamped, and an impossible index fails the sync.
//!
//! This crate does no network I/O: `slipring-port` connects rings to devices.
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(target_endian = "little"))]
compile_error!("slots are moved as little-endian words: x86-64, aarch64 and riscv64 only");

mod app;
mod arena;
mod doorbell;
mod forward;
mod hosted;
mod index;
mod interface;
mod kern;
mod layout;
mod mem;
#[cfg(test)]
mod models;
mod offsets;
mod owned;
mod peer_copy;
mod persistent_words;
mod pipe;
mod protocol;
#[doc(hidden)]
#[cfg(feature = "raw")]
pub mod raw;
mod region;
mod revocable;
mod secret;
mod shared;
mod sync_words;
mod view;

pub use app::{AppRing, BatchFrames, FrameMut, RingDirection, Rx, RxBatch, RxRing, Tx, TxRing};
pub use doorbell::{Doorbell, SleepAnnouncement};
pub use forward::{copy, forward};
pub use hosted::{
    DirectionLayout, HostedRx, HostedSyncError, HostedTx, SyncReport, WakeSignals,
    hosted_direction, share,
};
pub use index::{BufIdx, SlotIdx};
pub use interface::InterfaceRecord;
pub use kern::{KernRing, KernSlots, Reinit, RingHalves};
pub use mem::{Slot, SlotFlags, ring_bytes};
pub use offsets::RingOffsets;
pub use owned::OwnedBuf;
pub use persistent_words::{AttachedWords, PersistentWords};
pub use pipe::{PipeEnd, PipePair, SyncFault};
pub use protocol::{DirectionStorage, PeerFault, PipeReceiver, PipeSender, SharedWord};
pub use region::{
    BUF_SIZE, BUF_SIZE_FOR_DEVICES, DeviceMapping, FreeBufs, Geometry, HugePages, Region,
    RegionError, is_buf_size,
};
pub use revocable::RevocableMapping;
pub use secret::secret_word;
pub use shared::SharedBuf;
pub use slipring_simd::prefetch;
pub use view::RingView;
