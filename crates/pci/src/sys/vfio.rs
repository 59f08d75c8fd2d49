//! The requests of VFIO (`linux/vfio.h`).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `_IO(';', 100)`, the first request.
const FIRST_REQUEST: libc::Ioctl = 0x3b64;

/// Requests with a number as argument, or without an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueRequest {
    /// The version of the interface.
    ApiVersion = 0,
    /// Makes the container translate addresses with an IOMMU of this type.
    SetIommu = 2,
    /// Resets the device.
    Reset = 11,
}

/// Requests whose argument is a record that begins with its own size. The kernel accesses no bytes
/// beyond that size.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordRequest {
    /// Returns whether all devices of a group are free.
    GroupStatus = 3,
    /// Returns the properties of the device.
    DeviceInfo = 7,
    /// Returns the properties of a region of the device.
    RegionInfo = 8,
    /// Returns the properties of a kind of interrupts.
    IrqInfo = 9,
    /// Sets the eventfds of interrupts, or masks or unmasks interrupts.
    SetIrqs = 10,
    /// Returns the addresses that the IOMMU can translate.
    IommuInfo = 12,
    /// Ends the access of the container's devices to a range of memory.
    UnmapDma = 14,
}

/// Executes a request with a number.
pub(crate) fn request(fd: &impl AsFd, request: ValueRequest, value: u64) -> io::Result<u32> {
    let number = FIRST_REQUEST + request as libc::Ioctl;
    // SAFETY: these requests take no pointer.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), number, value) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Executes a request with a record, whose first word, the size, is filled in here.
pub(crate) fn request_record(
    fd: &impl AsFd,
    request: RecordRequest,
    record: &mut [u32],
) -> io::Result<()> {
    let number = FIRST_REQUEST + request as libc::Ioctl;
    let size = size_of_val(record) as u32;
    *record.first_mut().ok_or(io::ErrorKind::InvalidInput)? = size;
    // SAFETY:
    // - The record is live and exclusive, and its size is in its first word. The kernel reads and
    //   writes no more than that many bytes.
    // - None of the requests has a pointer in its record.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), number, record.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct vfio_iommu_type1_dma_map`.
#[repr(C)]
struct DmaMapRecord {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

const _: () = assert!(size_of::<DmaMapRecord>() == 32);

/// The device may read and write.
const DMA_READ_WRITE: u32 = 3;

/// Gives the devices of a container access to a range of this process's memory, at the device
/// address `iova`.
pub(crate) fn map_dma(
    container: &impl AsFd,
    memory: &crate::memory::MemoryRange<'_>,
    iova: u64,
) -> io::Result<()> {
    let record = DmaMapRecord {
        argsz: size_of::<DmaMapRecord>() as u32,
        flags: DMA_READ_WRITE,
        vaddr: memory.start,
        iova,
        size: memory.len,
    };
    // SAFETY:
    // - The kernel reads the record, which is live, and keeps no pointer to it.
    // - It pins the pages behind `vaddr`, and fails if there are none. Only this crate makes such
    //   ranges: of a region's buffers, whose owners never trust their content, and of descriptors,
    //   which are accessed as atomics. Both stay in memory until the device has been closed.
    let result = unsafe {
        libc::ioctl(container.as_fd().as_raw_fd(), FIRST_REQUEST + 13, &raw const record)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Adds a group to a container.
pub(crate) fn set_container(group: &impl AsFd, container: &impl AsFd) -> io::Result<()> {
    let container: RawFd = container.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one `int` at the pointer, which is live.
    let result =
        unsafe { libc::ioctl(group.as_fd().as_raw_fd(), FIRST_REQUEST + 4, &raw const container) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens a device of a group.
pub(crate) fn device_fd(group: &impl AsFd, address: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads a string up to its zero byte, which is live.
    let fd = unsafe { libc::ioctl(group.as_fd().as_raw_fd(), FIRST_REQUEST + 6, address.as_ptr()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
