//! Maps pages of a caller's memory in this process. Only pages of a shared file mapping can be
//! mapped, by mapping the file here as well.
//!
//! `/proc/TID/map_files` leads to that file with the rights of this process, not with those of the
//! caller. So the file is first opened with `O_PATH`. *After that*, the kernel must list it as a
//! file that the caller has mapped as shared and writable. The caller can change its mappings at
//! any time, but it cannot change which file this process has open. Only files in memory are
//! accepted. Access to a page of another file might have to wait for a disk, a network, or a FUSE
//! file system that the caller serves itself.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{Mode, OFlags, fstat, fstatfs, major, minor, openat};
use slipring_netmap::{Errno, SharedPages};

use crate::caller::errno_of;

/// Magic number of tmpfs; the next constant is the magic number of hugetlbfs. Files of these two
/// file systems are in memory.
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

/// One line of `/proc/TID/maps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MapsEntry {
    start: u64,
    end: u64,
    /// Whether the mapping is shared, so that other processes see what is written to it.
    shared: bool,
    writable: bool,
    /// Offset in the file of the byte at address `start`.
    at: u64,
    device: (u32, u32),
    inode: u64,
}

impl MapsEntry {
    /// Parses `start-end perms offset major:minor inode path`. All numbers except the inode are
    /// hexadecimal.
    fn parse(line: &str) -> Option<Self> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?.as_bytes();
        let at = hex(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            shared: access.get(3) == Some(&b's'),
            writable: access.starts_with(b"rw"),
            at,
            device: (hex(major)? as u32, hex(minor)? as u32),
            inode: fields.next()?.parse().ok()?,
        })
    }

    fn holds(&self, addr: u64, len: u64) -> bool {
        let end = addr.checked_add(len);
        self.start <= addr && end.is_some_and(|end| end <= self.end)
    }

    /// Returns whether this is a shared and writable mapping of the given file.
    fn is_file(&self, device: (u32, u32), inode: u64) -> bool {
        self.shared && self.writable && self.device == device && self.inode == inode
    }
}

/// Returns the mapping that contains all `len` bytes at `addr`. `process` is the open directory
/// `/proc/TID` of the process.
fn find(process: &OwnedFd, addr: u64, len: u64) -> Result<MapsEntry, Errno> {
    let maps = openat(process, "maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let maps = maps.map_err(|error| errno_of(&error.into(), Errno::NOMEM, Errno::FAULT))?;
    let maps = io::read_to_string(fs::File::from(maps)).map_err(|_| Errno::FAULT)?;
    let mut mapped = maps.lines().filter_map(MapsEntry::parse);
    mapped.find(|one| one.holds(addr, len)).ok_or(Errno::FAULT)
}

/// Returns the pages that contain `len` bytes of the process from `addr` on.
///
/// # Errors
/// The errors of [`slipring_netmap::CallerMemory::shared`].
pub(crate) fn shared(process: &OwnedFd, addr: u64, len: u64) -> Result<SharedPages, Errno> {
    let mapped = find(process, addr, len)?;
    if !mapped.shared {
        return Err(Errno::OPNOTSUPP);
    }
    let link = format!("map_files/{:x}-{:x}", mapped.start, mapped.end);
    let target = openat(process, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let target = target.map_err(|error| refused(&error.into()))?;
    let stat = fstat(&target).map_err(|_| Errno::FAULT)?;
    let device = (major(stat.st_dev), minor(stat.st_dev));
    // The mapping is looked up once more, now that the file is open and can no longer be replaced
    // by another file.
    let mapped = find(process, addr, len)?;
    if !mapped.is_file(device, stat.st_ino) {
        return Err(Errno::FAULT);
    }
    let kind = fstatfs(&target).map_err(|_| Errno::FAULT)?;
    if !matches!(kind.f_type as i64, TMPFS | HUGETLBFS) {
        return Err(Errno::OPNOTSUPP);
    }
    let file = open(&target).map_err(|error| refused(&error))?;
    let at = mapped.at + (addr - mapped.start);
    Ok(SharedPages {
        file,
        identity: (stat.st_dev, stat.st_ino),
        offset: at,
        page: kind.f_bsize as u64,
    })
}

/// Opens a file again for reading and writing, after it was opened with `O_PATH`.
fn open(target: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", target.as_fd().as_raw_fd());
    let flags = OFlags::CLOEXEC.bits() as i32;
    Ok(fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?.into())
}

/// Returns the error number for an error of opening a mapped file. If this process has no right to
/// open it (it is not root in the initial user namespace), pages cannot be shared.
fn refused(error: &io::Error) -> Errno {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => Errno::OPNOTSUPP,
        _ => errno_of(error, Errno::NOMEM, Errno::FAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> OwnedFd {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::open("/proc/self", flags, Mode::empty()).unwrap()
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_file_is_called() {
        let line = "7f43408a9000-7f43409a9000 rw-s 00001000 00:1b 12   /dev/shm/a b";
        let mapped = MapsEntry::parse(line).unwrap();
        assert_eq!(
            (mapped.start, mapped.end, mapped.at),
            (0x7f43_408a_9000, 0x7f43_409a_9000, 4096)
        );
        assert!(mapped.is_file((0, 0x1b), 12) && !mapped.is_file((0, 0x1b), 13));
        let private = MapsEntry::parse("10-20 rw-p 0 08:01 9").unwrap();
        assert!(!private.is_file((8, 1), 9));
        let read_only = MapsEntry::parse("10-20 r--s 0 08:01 9").unwrap();
        assert!(!read_only.is_file((8, 1), 9));
        assert_eq!(MapsEntry::parse("10-20 rw-p 0"), None);
    }

    #[test]
    fn bytes_are_in_a_mapping_only_if_all_of_them_are() {
        let mapped = MapsEntry::parse("1000-3000 rw-s 0 0:1 9").unwrap();
        assert!(mapped.holds(0x1000, 0x2000) && mapped.holds(0x2fff, 1));
        assert!(!mapped.holds(0x0fff, 2) && !mapped.holds(0x2fff, 2));
        assert!(!mapped.holds(0x2000, u64::MAX));
    }

    #[test]
    fn private_memory_cannot_be_shared_and_a_hole_is_a_fault() {
        let mine = vec![0u8; 8192];
        assert_eq!(shared(&me(), mine.as_ptr() as u64, 8192).err(), Some(Errno::OPNOTSUPP));
        assert_eq!(shared(&me(), 8, 16).err(), Some(Errno::FAULT));
    }
}
