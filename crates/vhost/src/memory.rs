//! The memory of a guest. It has the mapped regions, and translates addresses of the front-end.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_get_seals, fstatfs};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// File system type of hugetlbfs (linux/magic.h).
const HUGETLBFS_MAGIC: u32 = 0x9584_58f6;

/// The mapping through which virtqueues are accessed.
pub(crate) type GuestMapping = Arc<GuestMemoryMmap>;

/// All regions of a guest.
#[derive(Debug, Clone)]
pub(crate) struct VhostMemory {
    pub(crate) mapped: GuestMapping,
    regions: Vec<VhostRegion>,
}

/// Where a region starts in the address space of the front-end and in that of the guest, and its
/// size in bytes.
#[derive(Debug, Clone, Copy)]
struct VhostRegion {
    frontend: u64,
    guest: u64,
    size: u64,
}

impl VhostMemory {
    /// Maps the regions of a table.
    ///
    /// # Errors
    /// An error if a file may shrink, is too short or has huge pages, if regions overlap, or if
    /// the kernel refuses to map a region.
    pub(crate) fn map(table: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<Self> {
        let mapped = table.iter().zip(files).map(|(region, file)| map(region, file));
        let mapped = mapped.collect::<io::Result<Vec<_>>>()?;
        let mapped = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
        let regions = table.iter().map(|region| VhostRegion {
            frontend: region.user_addr,
            guest: region.guest_phys_addr,
            size: region.memory_size,
        });
        Ok(Self { mapped: Arc::new(mapped), regions: regions.collect() })
    }

    /// Translates an address of the front-end to an address of the guest; `None` if it is in no
    /// region.
    pub(crate) fn guest_address(&self, frontend: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = frontend.checked_sub(region.frontend)?;
            (offset < region.size).then(|| GuestAddress(region.guest.wrapping_add(offset)))
        })
    }
}

fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<GuestRegionMmap> {
    require_sealed(&file)?;
    let end = region.mmap_offset.checked_add(region.memory_size);
    if end.is_none_or(|end| end > file.metadata().map_or(0, |facts| facts.len())) {
        return Err(refused("the guest's memory is shorter than said"));
    }
    let size = usize::try_from(region.memory_size).map_err(io::Error::other)?;
    let file = FileOffset::new(file, region.mmap_offset);
    let mapping = MmapRegion::from_file(file, size).map_err(io::Error::other)?;
    GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| refused("the guest's memory ends beyond the last address"))
}

/// Checks that accesses to the memory cannot raise SIGBUS. So the file must not be able to shrink.
/// Huge pages are also refused, because the kernel may run out of them.
fn require_sealed(file: &File) -> io::Result<()> {
    if fstatfs(file)?.f_type as u32 == HUGETLBFS_MAGIC {
        return Err(refused("the guest's memory is of huge pages: leave hugetlb out"));
    }
    match fcntl_get_seals(file) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => Ok(()),
        _ => Err(refused("the guest's memory is not sealed: take memory-backend-memfd,share=on")),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
