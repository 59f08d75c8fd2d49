//! A simulated guest. It sends the messages of its front-end to a port, and uses the virtqueues as
//! a driver would.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// The features of a port: VERSION_1, MRG_RXBUF, EVENT_IDX, INDIRECT_DESC, and vhost-user's own.
pub(crate) const FEATURES: u64 = 1 << 32 | 1 << 15 | 1 << 29 | 1 << 28 | 1 << 30;
/// Size of the guest's memory in bytes.
pub(crate) const MEMORY: u64 = 8 << 20;
/// Start of the memory in the guest's address space.
pub(crate) const BASE: u64 = 0x4000_0000;
/// Start of the memory in the front-end's address space.
const FRONTEND_BASE: u64 = 0x7f00_0000_0000;
/// Offset of the buffers in the memory.
const BUFFERS: u64 = 1 << 20;
/// Distance between two buffers in bytes.
pub(crate) const BUFFER: u64 = 4096;
/// Number of descriptors of each queue, unless [`Setup`] says another one.
pub(crate) const SIZE: u16 = 256;

pub(crate) const WRITE: u16 = 2;
pub(crate) const NEXT: u16 = 1;
pub(crate) const INDIRECT: u16 = 4;

/// The driver's side of a virtqueue.
pub(crate) struct Ring {
    memory: Arc<GuestMemoryMmap>,
    index: usize,
    /// Number of descriptors.
    size: u16,
    pub(crate) offered: u16,
    pub(crate) taken: u16,
    pub(crate) kick: EventFd,
    pub(crate) call: EventFd,
}

impl Ring {
    fn new(memory: &Arc<GuestMemoryMmap>, index: usize, size: u16) -> Self {
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        let (kick, call) = (event(), event());
        Self { memory: memory.clone(), index, size, offered: 0, taken: 0, kick, call }
    }

    fn base_address(&self) -> u64 {
        BASE + 0x1_0000 * self.index as u64
    }

    fn avail(&self) -> GuestAddress {
        GuestAddress(self.base_address() + 0x4000)
    }

    fn used(&self) -> GuestAddress {
        GuestAddress(self.base_address() + 0x8000)
    }

    /// Address of a descriptor's buffer.
    pub(crate) fn buffer(&self, i: u16) -> GuestAddress {
        GuestAddress(BASE + BUFFERS + BUFFER * (u64::from(i) + u64::from(SIZE) * self.index as u64))
    }

    pub(crate) fn describe(&self, i: u16, at: GuestAddress, len: u32, flags: u16, next: u16) {
        self.describe_at(GuestAddress(self.base_address()), i, at, len, flags, next);
    }

    /// Writes a descriptor of any table.
    pub(crate) fn describe_at(
        &self,
        table: GuestAddress,
        i: u16,
        at: GuestAddress,
        len: u32,
        flags: u16,
        next: u16,
    ) {
        let rest = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
        let at = u128::from(at.0) | u128::from(rest) << 64;
        self.memory.write_obj(at, GuestAddress(table.0 + 16 * u64::from(i))).unwrap();
    }

    /// Offers the chain that begins with a descriptor.
    pub(crate) fn offer(&mut self, head: u16) {
        let at = self.avail().0 + 4 + 2 * u64::from(self.offered % self.size);
        self.memory.write_obj(head, GuestAddress(at)).unwrap();
        self.offered = self.offered.wrapping_add(1);
        self.set_offered(self.offered);
    }

    pub(crate) fn set_offered(&self, index: u16) {
        let at = GuestAddress(self.avail().0 + 2);
        self.memory.store(index, at, Ordering::Release).unwrap();
    }

    /// Kicks the port if it wants to be notified of the last chain. Returns whether it was kicked.
    pub(crate) fn tell(&self) -> bool {
        fence(Ordering::SeqCst);
        let at = GuestAddress(self.used().0 + 4 + 8 * u64::from(self.size));
        let event: u16 = self.memory.load(at, Ordering::Relaxed).unwrap();
        let wanted = event == self.offered.wrapping_sub(1);
        if wanted {
            self.kick.write(1).unwrap();
        }
        wanted
    }

    /// Takes a chain that was returned. Returns its head, and how many bytes were written to it.
    pub(crate) fn take(&mut self) -> Option<(u16, u32)> {
        let at = GuestAddress(self.used().0 + 2);
        let index: u16 = self.memory.load(at, Ordering::Acquire).unwrap();
        if index == self.taken {
            return None;
        }
        let at = self.used().0 + 4 + 8 * u64::from(self.taken % self.size);
        let [head, len]: [u32; 2] = self.memory.read_obj(GuestAddress(at)).unwrap();
        self.taken = self.taken.wrapping_add(1);
        // This requests a notification of the next chain that is returned.
        let wish = GuestAddress(self.avail().0 + 4 + 2 * u64::from(self.size));
        self.memory.store(self.taken, wish, Ordering::Relaxed).unwrap();
        Some((head as u16, len))
    }

    pub(crate) fn bytes(&self, at: GuestAddress, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, at).unwrap();
        bytes
    }

    pub(crate) fn write(&self, at: GuestAddress, bytes: &[u8]) {
        self.memory.write_slice(bytes, at).unwrap();
    }
}

/// The properties of a guest.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) features: u64,
    pub(crate) pairs: usize,
    /// Number of descriptors of each queue, at most [`SIZE`].
    pub(crate) size: u16,
    pub(crate) memory: Memory,
}

impl Default for Setup {
    fn default() -> Self {
        Self { features: FEATURES, pairs: 1, size: SIZE, memory: Memory::Sealed }
    }
}

/// The guest and its front-end.
pub(crate) struct Guest {
    pub(crate) frontend: Frontend,
    /// The receive queue and the transmit queue of each pair.
    pub(crate) rings: Vec<Ring>,
    file: File,
    header: usize,
    /// The next descriptor of the first transmit queue.
    pub(crate) next: u16,
}

impl Guest {
    /// Connects to a port.
    pub(crate) fn plug(socket: &Path, setup: Setup) -> Result<Self, vhost::Error> {
        Self::plug_stream(UnixStream::connect(socket).unwrap(), setup)
    }

    pub(crate) fn plug_stream(socket: UnixStream, setup: Setup) -> Result<Self, vhost::Error> {
        let frontend = Frontend::from_stream(socket, 2 * setup.pairs as u64);
        let file = setup.memory.file();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let range = (GuestAddress(BASE), MEMORY as usize, Some(offset));
        let memory = Arc::new(GuestMemoryMmap::from_ranges_with_files([range]).unwrap());
        let rings = (0..2 * setup.pairs).map(|i| Ring::new(&memory, i, setup.size)).collect();
        let header = if setup.features & (1 << 32 | 1 << 15) == 0 { 10 } else { 12 };
        let mut guest = Self { frontend, rings, file, header, next: 0 };
        guest.set_up(setup)?;
        Ok(guest)
    }

    fn set_up(&mut self, setup: Setup) -> Result<(), vhost::Error> {
        let frontend = &mut self.frontend;
        frontend.set_owner()?;
        frontend.get_features()?;
        frontend.set_features(setup.features)?;
        frontend.get_protocol_features()?;
        let wanted = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
        frontend.set_protocol_features(wanted)?;
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        self.show_memory()?;
        (0..self.rings.len()).try_for_each(|i| self.start(i, 0))
    }

    pub(crate) fn show_memory(&mut self) -> Result<(), vhost::Error> {
        use std::os::fd::AsRawFd;
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: MEMORY,
            userspace_addr: FRONTEND_BASE,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.frontend.set_mem_table(&[region]).map(|_| ())
    }

    /// Starts a virtqueue whose next chain has the avail index `base`.
    pub(crate) fn start(&mut self, i: usize, base: u16) -> Result<(), vhost::Error> {
        let (frontend, ring) = (&mut self.frontend, &self.rings[i]);
        let frontend_address = |at: u64| FRONTEND_BASE + (at - BASE);
        frontend.set_vring_num(i, ring.size)?;
        frontend.set_vring_addr(
            i,
            &VringConfigData {
                queue_max_size: SIZE,
                queue_size: ring.size,
                flags: 0,
                desc_table_addr: frontend_address(ring.base_address()),
                used_ring_addr: frontend_address(ring.used().0),
                avail_ring_addr: frontend_address(ring.avail().0),
                log_addr: None,
            },
        )?;
        frontend.set_vring_base(i, base)?;
        frontend.set_vring_call(i, &ring.call)?;
        frontend.set_vring_kick(i, &ring.kick)?;
        frontend.set_vring_enable(i, true)
    }

    pub(crate) fn rx(&mut self) -> &mut Ring {
        &mut self.rings[0]
    }

    pub(crate) fn tx(&mut self) -> &mut Ring {
        &mut self.rings[1]
    }

    /// Offers `count` receive buffers of `len` bytes, from descriptor `first` on.
    pub(crate) fn offer(&mut self, first: u16, count: u16, len: u32) {
        let ring = self.rx();
        for i in first..first + count {
            ring.describe(i % ring.size, ring.buffer(i % ring.size), len, WRITE, 0);
            ring.offer(i % ring.size);
        }
        ring.tell();
    }

    /// Sends a frame in one segment. Returns whether this kicked the port.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.send_with(0, frame)
    }

    /// Sends a frame with these header flags.
    pub(crate) fn send_with(&mut self, flags: u8, frame: &[u8]) -> bool {
        let mut bytes = vec![0; self.header];
        bytes[0] = flags;
        bytes.extend_from_slice(frame);
        let i = self.next % self.tx().size;
        self.next += 1;
        let ring = self.tx();
        ring.write(ring.buffer(i), &bytes);
        ring.describe(i, ring.buffer(i), bytes.len() as u32, 0, 0);
        ring.offer(i);
        ring.tell()
    }

    /// Returns the received frames, each with the number of buffers in its header.
    pub(crate) fn received(&mut self) -> Vec<(Vec<u8>, u16)> {
        let (header, mut frames) = (self.header, Vec::new());
        let ring = self.rx();
        while let Some((head, len)) = ring.take() {
            let mut bytes = ring.bytes(ring.buffer(head), len as usize);
            let count = if header == 12 { u16::from_le_bytes([bytes[10], bytes[11]]) } else { 1 };
            for _ in 1..count {
                let (head, len) = ring.take().expect("all buffers of a frame come at once");
                bytes.extend(ring.bytes(ring.buffer(head), len as usize));
            }
            assert!(bytes[..10].iter().all(|byte| *byte == 0), "nothing is left undone");
            frames.push((bytes.split_off(header), count));
        }
        frames
    }
}

/// The kind of file used as memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Sealed,
    Unsealed,
    /// A sealed memfd of huge pages.
    Huge,
}

impl Memory {
    fn file(self) -> File {
        let huge = if self == Self::Huge { MemfdFlags::HUGETLB } else { MemfdFlags::empty() };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let file = memfd_create("guest", flags).unwrap();
        ftruncate(&file, MEMORY).unwrap();
        if self != Self::Unsealed {
            fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        }
        file.into()
    }
}
