//! The memory of one user: one file that all of the user's programs map, and the memories in it.
//!
//! ```text
//!   file   | memory 1 (global) | memory 2 | free | memory 4 | free ...            (sparse)
//!          0                                                          domain_bytes
//! ```
//!
//! The memory that a client will use is known only when it binds, but the contents of its `mmap`
//! are fixed when it opens. So the client maps the whole file, and `nr_offset` counts from the
//! file's start. Memories are allocated lowest address first, so that `nr_memsize` (the end of the
//! bound memory) stays small.

mod usage;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use slipring_ring::{FreeBufs, Geometry, Region};

use crate::memory::external::{ExtmemLayout, SharedPages};
use crate::memory::netmap_memory::{GLOBAL_MEM_ID, MemoryNeeds, NetmapMemory};
use crate::types::lock::lock;
use crate::types::parameters::Parameters;
use crate::types::params::{MemoryParams, ObjectPools};

pub use usage::MemoryUse;

/// Divisor of the free space: a new memory may get 1/16 of it for spare buffers.
const SPARE_SHARE_DIVISOR: u64 = 16;

/// The file of one user and the memories in it.
#[derive(Debug)]
pub struct UserMemory {
    uid: u32,
    file: Arc<OwnedFd>,
    parameters: Arc<Parameters>,
    space: Arc<Mutex<FileSpace>>,
    memories: Mutex<HashMap<u16, Weak<NetmapMemory>>>,
}

/// The allocated ranges of the file: the length of each range, by its start.
#[derive(Debug)]
struct FileSpace {
    allocated: BTreeMap<u64, u64>,
    end: u64,
}

/// An allocated range of the file, released when its region is dropped.
#[derive(Debug)]
struct SpaceLease {
    space: Arc<Mutex<FileSpace>>,
    offset: u64,
}

impl Drop for SpaceLease {
    fn drop(&mut self) {
        lock(&self.space).allocated.remove(&self.offset);
    }
}

impl FileSpace {
    /// Allocates the `len` bytes at `at`. Returns false and does nothing if not all of them are
    /// free, or if the range is empty or beyond the end of the file.
    fn alloc_at(&mut self, at: u64, len: u64) -> bool {
        let Some(end) = at.checked_add(len).filter(|&end| end <= self.end && len > 0) else {
            return false;
        };
        let before = self.allocated.range(..end).next_back();
        let is_free = before.is_none_or(|(&start, &taken)| start + taken <= at);
        if is_free {
            self.allocated.insert(at, len);
        }
        is_free
    }

    fn alloc(&mut self, len: u64) -> Option<u64> {
        let mut at = 0;
        for (&start, &taken) in &self.allocated {
            if start - at >= len {
                break;
            }
            at = start + taken;
        }
        let fits = at.checked_add(len).is_some_and(|end| end <= self.end);
        fits.then(|| self.allocated.insert(at, len)).map(|_| at)
    }
}

impl UserMemory {
    /// Creates an empty sparse file, sealed against growing and shrinking.
    ///
    /// # Errors
    /// The kernel's error, if the file cannot be created or sealed.
    pub(crate) fn new(uid: u32, parameters: &Arc<Parameters>) -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("slipring-domain", flags)?;
        rustix::fs::ftruncate(&file, parameters.current().domain_bytes)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Self::with_file(uid, file, parameters)
    }

    /// Adopts a new memory file, or that of a previous process. The memories of a previous process
    /// are then restored one by one with [`Self::resume_memory`].
    pub(crate) fn with_file(
        uid: u32,
        file: OwnedFd,
        parameters: &Arc<Parameters>,
    ) -> Result<Self, Errno> {
        let end = rustix::fs::fstat(&file)?.st_size as u64;
        let space = FileSpace { allocated: BTreeMap::new(), end };
        Ok(Self {
            uid,
            file: Arc::new(file),
            parameters: parameters.clone(),
            space: Arc::new(Mutex::new(space)),
            memories: Mutex::default(),
        })
    }

    /// Keeps all memories that now exist allocated until this process ends, even if programs close
    /// their files before that. So programs that outlive the daemon can still read the memory that
    /// they have mapped.
    pub fn keep_memory_mapped(&self) {
        let memories = lock(&self.memories);
        memories.values().filter_map(Weak::upgrade).for_each(std::mem::forget);
    }

    /// Returns the user's ID.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the file that clients map.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the parameters, which can change.
    pub(crate) fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// Returns the current values of the parameters.
    #[must_use]
    pub fn params(&self) -> MemoryParams {
        self.parameters.current()
    }

    /// Returns the memory with this number. The global memory is created if it does not exist, and
    /// freed when nothing refers to it any more.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if no memory has this number; [`Errno::NOMEM`] if the global memory cannot
    /// be created.
    pub fn memory(&self, id: u16) -> Result<Arc<NetmapMemory>, Errno> {
        let mut memories = lock(&self.memories);
        match memories.get(&id).and_then(Weak::upgrade) {
            Some(memory) => Ok(memory),
            None if id == GLOBAL_MEM_ID => {
                let params = self.params();
                self.parameters.set_current_sizes(&params);
                self.make(&mut memories, id, params.global(), params.objects())
            }
            None => Err(Errno::INVAL),
        }
    }

    /// Creates a private memory for one port, or for several ports that belong together.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the user's file has no space for the memory, or no number is left.
    pub fn private_memory(&self, room: MemoryNeeds) -> Result<Arc<NetmapMemory>, Errno> {
        let mut memories = lock(&self.memories);
        let id = free_id(&mut memories)?;
        let least = self.parameters.private_geometry();
        let geometry = Geometry {
            ring_bytes: room.ring_bytes.max(least.ring_bytes),
            bufs: room.bufs.saturating_add(2).max(least.bufs),
            buf_size: least.buf_size,
        };
        self.make(&mut memories, id, geometry, self.parameters.private_pools())
    }

    /// Returns the external memory in a program's pages. If a memory in the same bytes of the same
    /// file is still in use, returns that memory; otherwise creates a new one.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if a memory that overlaps these bytes, but is not in exactly these bytes, is
    /// still in use; [`Errno::INVAL`] if the range does not begin at a page boundary;
    /// [`Errno::NOMEM`] if it cannot be mapped, or has too few pages for these sizes.
    pub(crate) fn external_memory(
        &self,
        pages: &SharedPages,
        split: &ExtmemLayout,
    ) -> Result<Arc<NetmapMemory>, Errno> {
        let (mut memories, location) = (lock(&self.memories), pages.location(split.len));
        let known = memories.values().filter_map(Weak::upgrade);
        let known: Vec<_> = known.filter(|one| !one.region.is_revoked()).collect();
        if let Some(same) = known.iter().find(|one| one.external == Some(location)) {
            return Ok(same.clone());
        }
        if known.iter().filter_map(|one| one.external).any(|one| one.overlaps(&location)) {
            return Err(Errno::BUSY);
        }
        let id = free_id(&mut memories)?;
        let lent = pages.map(split.len)?;
        let region =
            Region::from_revocable(lent, split.len, split.geometry).map_err(|_| Errno::NOMEM)?;
        let objects = split.objects;
        let memory = Arc::new(NetmapMemory { id, region, objects, external: Some(location) });
        memories.insert(id, Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Returns the global memory if it has enough free buffers and space for the rings, otherwise a
    /// private one.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the user's file has no space for a private memory.
    pub fn memory_with(&self, room: MemoryNeeds) -> Result<Arc<NetmapMemory>, Errno> {
        match self.memory(GLOBAL_MEM_ID) {
            Ok(global) if room.fits(global.region()) => Ok(global),
            _ => self.private_memory(room),
        }
    }

    /// Returns how many spare buffers a memory may have. Each takes the buffer size plus `overhead`
    /// bytes. Spare buffers get 1/16 of the free space, because untouched buffers cost only address
    /// space. Free space is counted within half of the file, or within 2 GiB if the file exceeds
    /// the 4 GiB that legacy requests can address. So the result is 0 once memories occupy that
    /// much of the file.
    pub(crate) fn spare_bufs(&self, overhead: u64) -> u32 {
        let buf_size = self.parameters.private_geometry().buf_size;
        let space = lock(&self.space);
        let ours = space.end.min(1 << 32) / 2;
        let left = ours.saturating_sub(space.allocated.values().sum());
        (left / SPARE_SHARE_DIVISOR / (u64::from(buf_size) + overhead)) as u32
    }

    /// Returns the memories that are in use.
    pub(crate) fn memories(&self) -> Vec<Arc<NetmapMemory>> {
        lock(&self.memories).values().filter_map(Weak::upgrade).collect()
    }

    /// Restores a memory of the previous process at its offset `at` in the file; `None` if that is
    /// impossible.
    pub(crate) fn resume_memory(
        &self,
        id: u16,
        at: u64,
        geometry: Geometry,
        left: &FreeBufs,
        objects: ObjectPools,
    ) -> Option<Arc<NetmapMemory>> {
        let mut memories = lock(&self.memories);
        let len = Region::size_of(geometry).ok()?;
        if id == 0 || memories.contains_key(&id) || !lock(&self.space).alloc_at(at, len) {
            return None;
        }
        let lease = Box::new(SpaceLease { space: self.space.clone(), offset: at });
        let region = Region::resume(&self.file, at, geometry, left, lease).ok()?;
        let memory = Arc::new(NetmapMemory { id, region, objects, external: None });
        memories.insert(id, Arc::downgrade(&memory));
        Some(memory)
    }

    fn make(
        &self,
        memories: &mut HashMap<u16, Weak<NetmapMemory>>,
        id: u16,
        geometry: Geometry,
        objects: ObjectPools,
    ) -> Result<Arc<NetmapMemory>, Errno> {
        let len = Region::size_of(geometry).map_err(|_| Errno::NOMEM)?;
        let at = lock(&self.space).alloc(len).ok_or(Errno::NOMEM)?;
        let lease = Box::new(SpaceLease { space: self.space.clone(), offset: at });
        let region = Region::within(&self.file, at, geometry, lease);
        let region = region.map_err(|_| Errno::NOMEM)?;
        let memory = Arc::new(NetmapMemory { id, region, objects, external: None });
        memories.insert(id, Arc::downgrade(&memory));
        Ok(memory)
    }
}

/// Returns an unused number; removes the entries of freed memories.
fn free_id(memories: &mut HashMap<u16, Weak<NetmapMemory>>) -> Result<u16, Errno> {
    memories.retain(|_, memory| memory.strong_count() > 0);
    let id = (GLOBAL_MEM_ID + 1..=u16::MAX).find(|id| !memories.contains_key(id));
    id.ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_ring::{RingHalves, Tx};

    fn domain() -> UserMemory {
        with(&MemoryParams::default())
    }

    fn with(params: &MemoryParams) -> UserMemory {
        UserMemory::new(0, &Parameters::new(params)).unwrap()
    }

    #[test]
    fn memories_are_placed_lowest_first_and_their_places_are_used_again() {
        let domain = domain();
        let room = MemoryNeeds::rings(2, 64, true);
        let [a, b, c] = [(); 3].map(|()| domain.private_memory(room).unwrap());
        assert_eq!([a.id(), b.id(), c.id()], [2, 3, 4]);
        assert_eq!(a.region().file_offset(), 0);
        assert_eq!(b.region().file_offset(), a.map_len());
        let offset = b.region().file_offset();
        drop(b);
        assert_eq!(domain.private_memory(room).unwrap().region().file_offset(), offset);
    }

    #[test]
    fn the_global_memory_has_netmaps_size_and_lives_while_it_is_used() {
        let domain = domain();
        let global = domain.memory(1).unwrap();
        assert_eq!(global.region().num_bufs(), 163_840);
        assert!(Arc::ptr_eq(&global, &domain.memory(1).unwrap()));
        let taken = global.region().alloc_bufs(3).unwrap();
        drop(global);
        let again = domain.memory(1).unwrap();
        assert_eq!(again.region().alloc_bufs(3).unwrap(), taken, "it started afresh");
    }

    #[test]
    fn a_number_that_no_memory_has_is_refused() {
        assert_eq!(domain().memory(7).err(), Some(Errno::INVAL));
    }

    #[test]
    fn a_port_that_the_global_memory_has_no_room_for_gets_its_own() {
        let params = MemoryParams { buf_num: 100, ..MemoryParams::default() };
        let domain = with(&params);
        assert_eq!(domain.memory_with(MemoryNeeds::rings(1, 64, true)).unwrap().id(), 1);
        assert_eq!(domain.memory_with(MemoryNeeds::rings(2, 64, true)).unwrap().id(), 2);
    }

    #[test]
    fn a_port_whose_rings_the_global_memory_has_no_space_for_gets_its_own() {
        let domain = with(&MemoryParams { ring_num: 2, if_num: 1, ..MemoryParams::default() });
        let room = MemoryNeeds::rings(1, 2048, true);
        let global = domain.memory_with(room).unwrap();
        assert_eq!(global.id(), 1);
        let ring = |memory: &NetmapMemory| RingHalves::<Tx>::create(memory.region(), 0, 2048);
        let rings = [(); 2].map(|()| ring(&global).unwrap());
        let own = domain.memory_with(room).unwrap();
        assert_eq!(own.id(), 2);
        assert!(ring(&own).is_ok());
        drop(rings);
    }

    #[test]
    fn a_port_gets_its_own_memory_if_the_file_has_no_space_for_the_global_one() {
        let domain = with(&MemoryParams { domain_bytes: 16 << 20, ..MemoryParams::default() });
        let memory = domain.memory_with(MemoryNeeds::rings(1, 64, true)).unwrap();
        assert!(memory.is_private());
    }

    #[test]
    fn a_domain_that_is_full_says_so() {
        let params = MemoryParams { domain_bytes: 16 << 20, ..MemoryParams::default() };
        let domain = with(&params);
        assert_eq!(domain.memory(1).err(), Some(Errno::NOMEM));
        assert!(domain.private_memory(MemoryNeeds::rings(1, 64, true)).is_ok());
    }
}
