//! The receive ring that an AF_PACKET socket shares with this process (TPACKET_V2).
//!
//! ```text
//!   block 0                      block 1
//!   | frame | frame | (unused) | frame | frame | (unused) | ...
//!
//!   frame   | tpacket2_hdr | sockaddr_ll | ... | virtio-net header | Ethernet frame |
//!                                              ^ tp_mac - 10       ^ tp_mac
//! ```
//!
//! A frame belongs to the kernel until its status is `TP_STATUS_USER`, and then to us until we
//! reset the status. Version 2 shows each frame as it arrives. Version 3 would gather frames in
//! blocks, and show a single frame only after one to two milliseconds.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::{SocketSetting, VNET_LEN, set, tag};
use crate::succession::SocketRing;

/// Maximum bytes before a frame in the ring: header, address, padding and offload header.
const FRAME_OVERHEAD_BYTES: u32 = 96;
const PAGE_BYTES: u32 = 4096;
/// Bytes of a block; the kernel allocates each block as contiguous pages if it can.
const BLOCK_BYTES: u32 = 16 * PAGE_BYTES;
/// Maximum bytes of a frame in the ring. Longer frames go through the socket's queue.
const MAX_FRAME_BYTES: u32 = 16 << 10;

/// The sizes of a ring: bytes per frame, frames per block, number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct PacketRingGeometry {
    frame_size: u32,
    frames_per_block: u32,
    blocks: u32,
}

impl PacketRingGeometry {
    /// Returns the sizes for at least `frames` frames of up to `max_frame` bytes each. Frames
    /// longer than [`MAX_FRAME_BYTES`] do not fit.
    pub(in super::super) fn new(frames: u32, max_frame: u32) -> Self {
        let frame_size =
            (FRAME_OVERHEAD_BYTES + max_frame.min(MAX_FRAME_BYTES)).next_multiple_of(128);
        let frames_per_block = BLOCK_BYTES / frame_size;
        Self { frame_size, frames_per_block, blocks: frames.div_ceil(frames_per_block).max(1) }
    }

    fn frames(self) -> u32 {
        self.frames_per_block * self.blocks
    }

    fn bytes(self) -> usize {
        self.blocks as usize * BLOCK_BYTES as usize
    }
}

/// The two headers before each frame in the ring.
#[repr(C)]
#[derive(Clone, Copy)]
struct PacketFrameHeader {
    packet: libc::tpacket2_hdr,
    address: libc::sockaddr_ll,
}

const _: () = assert!(offset_of!(PacketFrameHeader, address) == libc::TPACKET_ALIGNMENT * 2);
const _: () = assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0);
const _: () = assert!(size_of::<PacketFrameHeader>() + VNET_LEN <= FRAME_OVERHEAD_BYTES as usize);

/// A receiving socket and its ring.
///
/// # Invariants
/// 1. `base` leads to `shape.bytes()` mapped bytes, unmapped in `Drop` and not before.
/// 2. `block` and `frame` are below the counts in `shape`.
/// 3. The frame at `block`, `frame` is the first that we have not returned.
#[derive(Debug)]
pub(in super::super) struct RxSocket {
    socket: OwnedFd,
    base: NonNull<u8>,
    shape: PacketRingGeometry,
    block: u32,
    frame: u32,
}

// SAFETY: the mapping belongs to this value alone on our side; the kernel's side is synchronised
// by the status words.
unsafe impl Send for RxSocket {}

/// A frame in the ring, until [`RxSocket::release`].
#[derive(Debug)]
pub(in super::super) struct RxFrame<'r> {
    /// The bytes of the frame, without the VLAN tag that the kernel removed. If the frame was too
    /// long for the ring, only the beginning.
    pub(in super::super) bytes: &'r mut [u8],
    /// The offloaded work that the kernel left to hardware, as a virtio-net header.
    pub(in super::super) vnet: [u8; VNET_LEN],
    /// The VLAN tag that the kernel removed, if any.
    pub(in super::super) tag: Option<[u8; 4]>,
    /// Length of the whole frame in bytes, without the tag.
    pub(in super::super) len: u32,
    /// Whether the whole frame is in the socket's queue, because it was too long for the ring.
    pub(in super::super) queued: bool,
    /// Whether this machine has sent the frame, rather than received it.
    pub(in super::super) outgoing: bool,
}

impl RxSocket {
    /// Gives an unbound socket a ring.
    pub(in super::super) fn new(socket: OwnedFd, shape: PacketRingGeometry) -> io::Result<Self> {
        SocketSetting::Version.set(socket.as_fd(), 1)?;
        SocketSetting::VnetHeader.set(socket.as_fd(), 1)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES,
            tp_block_nr: shape.blocks,
            tp_frame_size: shape.frame_size,
            tp_frame_nr: shape.frames(),
        };
        set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        Self::map(socket, shape)
    }

    /// Maps the ring of a socket that another process has created and given a ring.
    pub(in super::super) fn inherit(socket: OwnedFd, ring: SocketRing) -> io::Result<Self> {
        let SocketRing { frame_size, frames_per_block, blocks, position } = ring;
        let is_possible = frame_size >= FRAME_OVERHEAD_BYTES
            && frame_size % 128 == 0
            && frames_per_block > 0
            && frames_per_block == BLOCK_BYTES / frame_size
            && (1..=1 << 16).contains(&blocks);
        if !is_possible {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let shape = PacketRingGeometry { frame_size, frames_per_block, blocks };
        // The kernel maps a ring only as a whole, so this fails if the number of blocks is wrong.
        let mut receiver = Self::map(socket, shape)?;
        receiver.resume(position);
        Ok(receiver)
    }

    /// Describes the ring, with the number of the first frame that was not returned to the kernel.
    pub(in super::super) fn ring(&self) -> SocketRing {
        let PacketRingGeometry { frame_size, frames_per_block, blocks } = self.shape;
        let position = self.block * frames_per_block + self.frame;
        SocketRing { frame_size, frames_per_block, blocks, position }
    }

    /// Continues with the frame of this number, counted from the start of the ring.
    pub(in super::super) fn resume(&mut self, position: u32) {
        let position = position % self.shape.frames();
        self.block = position / self.shape.frames_per_block;
        self.frame = position % self.shape.frames_per_block;
    }

    fn map(socket: OwnedFd, shape: PacketRingGeometry) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let null = std::ptr::null_mut();
        // SAFETY: a null hint lets the kernel choose, so no other mapping is replaced.
        let base = unsafe { rustix::mm::mmap(null, shape.bytes(), protection, flags, &socket, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { socket, base, shape, block: 0, frame: 0 })
    }

    /// Returns the address of the first byte of the next frame.
    #[inline(always)]
    fn current(&self) -> NonNull<u8> {
        let at = self.block as usize * BLOCK_BYTES as usize
            + self.frame as usize * self.shape.frame_size as usize;
        // SAFETY: in bounds by invariants 1 and 2.
        unsafe { self.base.add(at) }
    }

    #[inline(always)]
    fn status(&self) -> &AtomicU32 {
        // SAFETY:
        // - Aligned: blocks are page-aligned and frames multiples of 128 bytes. Mapped: as in
        //   `current`.
        // - The kernel writes it at any time, which an atomic allows.
        unsafe { self.current().cast().as_ref() }
    }

    /// Returns the next frame, if it has arrived.
    #[inline(always)]
    pub(in super::super) fn peek(&mut self) -> Option<RxFrame<'_>> {
        // Acquire: pairs with the barrier before the kernel writes the status.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: aligned and mapped as in `status`; ours now; any bytes are a valid header.
        let PacketFrameHeader { packet: header, address } = unsafe { self.current().cast().read() };
        let (data, len) = self.data(&header);
        // SAFETY: `data` left `VNET_LEN` bytes of this frame before the data.
        let vnet_at = unsafe { data.sub(VNET_LEN) };
        // SAFETY: mapped as above; an array of bytes needs no alignment.
        let vnet = unsafe { vnet_at.cast::<[u8; VNET_LEN]>().read() };
        // SAFETY:
        // - In bounds: `data` made sure that `len` bytes of this frame follow.
        // - Exclusive: the frame is ours until `release`, which this borrow of `self` excludes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), len) };
        Some(RxFrame {
            bytes,
            vnet,
            tag: tag(status, header.tp_vlan_tci, header.tp_vlan_tpid),
            len: header.tp_len,
            queued: status & libc::TP_STATUS_COPY != 0,
            outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
        })
    }

    /// Returns the address of the next frame's bytes, and their number. The number is 0 if the
    /// kernel's offsets are outside the frame.
    #[inline(always)]
    fn data(&self, header: &libc::tpacket2_hdr) -> (NonNull<u8>, usize) {
        let (mac, len) = (u32::from(header.tp_mac), header.tp_snaplen);
        let inside = mac >= size_of::<libc::tpacket2_hdr>() as u32 + VNET_LEN as u32
            && mac <= self.shape.frame_size
            && len <= self.shape.frame_size - mac;
        let (mac, len) = if inside { (mac, len) } else { (FRAME_OVERHEAD_BYTES, 0) };
        // SAFETY: in bounds: `mac` is at most a frame's size.
        (unsafe { self.current().add(mac as usize) }, len as usize)
    }

    /// Gives the frame that [`Self::peek`] showed back to the kernel.
    #[inline(always)]
    pub(in super::super) fn release(&mut self) {
        // Release: the kernel must not write the frame before we have read it.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.frame += 1;
        if self.frame == self.shape.frames_per_block {
            self.frame = 0;
            self.block = if self.block + 1 == self.shape.blocks { 0 } else { self.block + 1 };
        }
    }
}

impl AsFd for RxSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for RxSocket {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, of that size; nothing borrows from it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.shape.bytes()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}
