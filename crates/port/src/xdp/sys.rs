//! AF_XDP's system calls and the rings that the kernel shares with us.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use slipring_ring::{BufIdx, Region};

use super::HEADROOM;
use crate::nic::dma::BufferArea;

/// Socket option that sets how many frames one system call sends: `XDP_MAX_TX_SKB_BUDGET`, since
/// Linux 6.17.
const MAX_TX_SKB_BUDGET: c_int = 9;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;

/// Creates an unbound AF_XDP socket.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (value, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: `value` leads to `len` live bytes, which the kernel only reads.
    let rc = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads a socket option. `value` is any value of its type.
///
/// # Safety
/// `T` must be valid for any bytes that the kernel writes.
unsafe fn get<T>(socket: BorrowedFd<'_>, option: c_int, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as u32;
    let at: *mut c_void = (&raw mut value).cast();
    // SAFETY: `at` leads to `len` live, exclusive bytes; the kernel writes no more than that.
    let rc =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, &raw mut len) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Registers a buffer area as the memory of a socket.
///
/// From now on, the kernel may write into a chunk while it has the chunk: from the moment at which
/// the chunk is in the fill ring until the kernel returns it. This module's protocol keeps such
/// chunks out of all slots that a program owns.
pub(super) fn register_umem(socket: BorrowedFd<'_>, area: BufferArea) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: area.start,
        len: area.len,
        chunk_size: area.buf_size,
        headroom: 0,
        flags: if area.buf_size.is_power_of_two() {
            0
        } else {
            libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG
        },
        tx_metadata_len: 0,
    };
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// The sizes of the four rings, in entries; each is a power of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingSizes {
    pub(super) fill: u32,
    pub(super) completion: u32,
    pub(super) rx: u32,
    pub(super) tx: u32,
}

/// The four rings of a socket, mapped. Entries of `fill` and `completion` are addresses; entries of
/// the RX and TX rings are descriptors.
#[derive(Debug)]
pub(super) struct KernelRings {
    pub(super) fill: SharedRing<1>,
    pub(super) completion: SharedRing<1>,
    pub(super) rx: SharedRing<2>,
    pub(super) tx: SharedRing<2>,
}

pub(super) fn make_rings(socket: BorrowedFd<'_>, sizes: RingSizes) -> io::Result<KernelRings> {
    let xdp = |option, size: u32| set(socket, libc::SOL_XDP, option, &size);
    xdp(libc::XDP_UMEM_FILL_RING, sizes.fill)?;
    xdp(libc::XDP_UMEM_COMPLETION_RING, sizes.completion)?;
    xdp(libc::XDP_RX_RING, sizes.rx)?;
    xdp(libc::XDP_TX_RING, sizes.tx)?;
    map_rings(socket, sizes)
}

/// Maps the rings of a socket.
pub(super) fn map_rings(socket: BorrowedFd<'_>, sizes: RingSizes) -> io::Result<KernelRings> {
    // SAFETY: plain integers.
    let zeros = unsafe { std::mem::zeroed::<libc::xdp_mmap_offsets>() };
    // SAFETY: plain integers.
    let at = unsafe { get(socket, libc::XDP_MMAP_OFFSETS, zeros) }?;
    Ok(KernelRings {
        fill: SharedRing::map(socket, libc::XDP_UMEM_PGOFF_FILL_RING, sizes.fill, &at.fr)?,
        completion: SharedRing::map(
            socket,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            sizes.completion,
            &at.cr,
        )?,
        rx: SharedRing::map(socket, libc::XDP_PGOFF_RX_RING as u64, sizes.rx, &at.rx)?,
        tx: SharedRing::map(socket, libc::XDP_PGOFF_TX_RING as u64, sizes.tx, &at.tx)?,
    })
}

/// Binds a socket to a queue. If `umem` is given, the socket uses the memory of that socket.
pub(super) fn bind(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: u16,
    umem: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: umem.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    // SAFETY: the address is a live `sockaddr_xdp` of `len` bytes, which is only read.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns whether the socket works in zero-copy mode.
pub(super) fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: plain integers.
    let options = unsafe { get(socket, libc::XDP_OPTIONS, libc::xdp_options { flags: 0 }) }?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The kernel's counters of the socket.
pub(super) fn statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: plain integers.
    let zeros = unsafe { std::mem::zeroed::<libc::xdp_statistics>() };
    // SAFETY: plain integers.
    unsafe { get(socket, libc::XDP_STATISTICS, zeros) }
}

/// Raises two limits of the kernel, so that one system call sends as many frames as the TX ring
/// holds. The second limit is the send buffer (`bytes`), which limits the frames in flight. If the
/// kernel does not have the option for the first limit, several calls are needed.
pub(super) fn widen_tx(socket: BorrowedFd<'_>, tx_ring: u32, bytes: i32) {
    let _ = set(socket, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &tx_ring);
    if set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

/// Makes the kernel poll the device during system calls, instead of waiting for interrupts.
pub(super) fn busy_poll(socket: BorrowedFd<'_>, micros: u32, budget: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1i32)?;
    set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &(micros as i32))?;
    set(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &(budget as i32))
}

/// Makes the kernel process the TX ring.
#[inline]
pub(super) fn kick_tx(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, none) = (socket.as_raw_fd(), std::ptr::null());
    // SAFETY: no bytes and no address are passed, so the null pointers are not followed.
    let rc = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the kernel process the fill ring; fails when the interface is down or no longer exists.
#[inline]
pub(super) fn kick_rx(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, none) = (socket.as_raw_fd(), std::ptr::null_mut());
    let no_address = std::ptr::null_mut();
    // SAFETY: no room for bytes or address is passed, so the null pointers are not followed.
    let rc = unsafe {
        libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, no_address, std::ptr::null_mut())
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves a frame to the default payload position in its chunk, [`HEADROOM`] bytes from the start.
pub(super) fn move_to_start(region: &Region, buf: BufIdx, offset: u32, len: u32) {
    let chunk = region.buf_size();
    if !region.is_usable(buf) || offset > chunk || len > chunk - offset.max(HEADROOM) {
        return;
    }
    let at = region.buf_start() + u64::from(buf.0) * u64::from(chunk);
    // SAFETY:
    // - In bounds: `is_usable` checked the index, so the chunk is in the mapping.
    let chunk = unsafe { region.base().add(at as usize) };
    // SAFETY:
    // - In bounds: `offset + len` and `HEADROOM + len` do not pass the chunk's end, see above.
    let from = unsafe { chunk.add(offset as usize) };
    // SAFETY: as above.
    let to = unsafe { chunk.add(HEADROOM as usize) };
    // SAFETY:
    // - In bounds as above; `copy` allows overlap.
    // - Exclusive: the kernel has just given the chunk to us and it is in no slot yet.
    unsafe { from.copy_to(to, len as usize) };
}

/// Memory that the kernel shares with this process. It is unmapped when dropped.
#[derive(Debug)]
struct RingMapping {
    base: NonNull<u8>,
    len: usize,
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what mmap gave; pointers into it die with `SharedRing`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One kernel ring, with entries of `W` words.
#[derive(Debug)]
pub(super) struct SharedRing<const W: usize> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    cells: NonNull<[AtomicU64; W]>,
    mask: u32,
    _mapping: RingMapping,
}

// SAFETY: the pointers lead into `_mapping`, which moves along; all access is atomic.
unsafe impl<const W: usize> Send for SharedRing<W> {}

impl<const W: usize> SharedRing<W> {
    fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        size: u32,
        at: &libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let len = at.desc as usize + size as usize * size_of::<[AtomicU64; W]>();
        // SAFETY: a null hint lets the kernel choose, so no other mapping is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                page_offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mapping = RingMapping { base, len };
        let word = |offset: u64| {
            // SAFETY: the kernel's offsets lie before `desc`, within the mapping.
            unsafe { base.add(offset as usize) }.cast()
        };
        Ok(Self {
            producer: word(at.producer),
            consumer: word(at.consumer),
            flags: word(at.flags),
            cells: word(at.desc).cast(),
            mask: size - 1,
            _mapping: mapping,
        })
    }

    /// Number of entries of the ring.
    #[inline(always)]
    pub(super) fn size(&self) -> u32 {
        self.mask + 1
    }

    #[inline(always)]
    fn word(at: &NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY:
        // - In bounds and aligned: the kernel's offsets of 32-bit words, see `map`.
        // - Alive as long as the mapping, to whose owner the reference is tied.
        // - Atomic, so it may be shared with the kernel.
        unsafe { at.as_ref() }
    }

    #[inline(always)]
    pub(super) fn producer(&self) -> &AtomicU32 {
        Self::word(&self.producer)
    }

    #[inline(always)]
    pub(super) fn consumer(&self) -> &AtomicU32 {
        Self::word(&self.consumer)
    }

    /// Returns whether the kernel sleeps and must be woken by a system call.
    #[inline(always)]
    pub(super) fn needs_wakeup(&self) -> bool {
        Self::word(&self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline(always)]
    fn cell(&self, index: u32) -> &[AtomicU64; W] {
        // SAFETY:
        // - In bounds: the mask keeps the index below `size`, for which `map` made room.
        let cell = unsafe { self.cells.add((index & self.mask) as usize) };
        // SAFETY:
        // - Aligned: `desc` offsets are cache-line aligned in a page-aligned mapping.
        // - Alive as long as `self`; atomic, so it may be shared with the kernel.
        unsafe { cell.as_ref() }
    }

    /// Reads the entry at a free-running index, which is not wrapped at the ring's size.
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> [u64; W] {
        let cell = self.cell(index);
        std::array::from_fn(|i| cell[i].load(Ordering::Relaxed))
    }

    /// Writes the entry at a free-running index, which is not wrapped at the ring's size.
    #[inline(always)]
    pub(super) fn put(&self, index: u32, words: [u64; W]) {
        for (cell, word) in self.cell(index).iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_ring::{Geometry, HugePages};

    #[test]
    fn a_frame_is_moved_within_its_chunk_only() {
        let geometry = Geometry { ring_bytes: 4096, bufs: 8, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let pattern: Vec<u8> = (0..100).collect();
        let start = || {
            let mut bytes = [0; 50];
            region.copy_out(BufIdx(3), &mut bytes).unwrap();
            bytes
        };
        region.copy_in(BufIdx(3), &pattern).unwrap();
        for (offset, len) in [(2049, 1), (300, 2000), (100, 1800)] {
            move_to_start(&region, BufIdx(3), offset, len);
            assert_eq!(start()[..], pattern[..50], "impossible: {len} bytes at {offset}");
        }
        move_to_start(&region, BufIdx(3), HEADROOM + 44, 50);
        assert_eq!(start()[..], pattern[44..94]);
        move_to_start(&region, BufIdx(8), HEADROOM + 44, 50);
    }
}
