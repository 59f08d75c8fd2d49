//! The messages of vfio-user, version 0.1. Numbers are little-endian.

use std::fmt;

/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 16;
/// Maximum size of a message in bytes, header included. Both sides refuse longer messages.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum number of descriptors in a message.
pub const MAX_FDS: usize = 16;
/// The version that both sides use: major and minor number.
pub const VERSION: [u16; 2] = [0, 1];
/// The region of the configuration space; BARs are regions 0 to 5.
pub const CONFIG_REGION: u32 = 7;
/// Number of regions of a PCI device (`VFIO_PCI_NUM_REGIONS`).
pub const NUM_REGIONS: u32 = 9;

/// Flags of a header.
pub mod header_flags {
    /// Bits that distinguish a reply from a command.
    pub const TYPE_MASK: u32 = 0xf;
    /// The message is a reply.
    pub const REPLY: u32 = 1;
    /// The command requests no reply.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The command failed; the header contains the error number.
    pub const ERROR: u32 = 1 << 5;
}

/// Flags of [`DeviceInfo`].
pub mod device_flags {
    /// The device can be reset.
    pub const RESET: u32 = 1;
    /// The device is a PCI device.
    pub const PCI: u32 = 2;
}

/// Flags of [`RegionInfo`].
pub mod region_flags {
    /// The region can be read.
    pub const READ: u32 = 1;
    /// The region can be written.
    pub const WRITE: u32 = 2;
    /// The region can be mapped, by the descriptor that comes with the reply.
    pub const MMAP: u32 = 4;
    /// Capabilities follow, such as the areas that can be mapped.
    pub const CAPS: u32 = 8;
}

/// Flags of [`DmaMap`].
pub mod dma_flags {
    /// The device may read.
    pub const READ: u32 = 1;
    /// The device may write.
    pub const WRITE: u32 = 2;
}

/// Flags of [`SetIrqs`].
pub mod irq_flags {
    /// The command has no data.
    pub const DATA_NONE: u32 = 1;
    /// The command has eventfds.
    pub const DATA_EVENTFD: u32 = 4;
    /// The interrupt is masked.
    pub const MASK: u32 = 8;
    /// The interrupt is unmasked.
    pub const UNMASK: u32 = 16;
    /// The interrupt is triggered, or gets its eventfd.
    pub const TRIGGER: u32 = 32;
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
pub enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    DeviceGetInfo = 4,
    DeviceGetRegionInfo = 5,
    DeviceGetRegionIoFds = 6,
    DeviceGetIrqInfo = 7,
    DeviceSetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DmaRead = 11,
    DmaWrite = 12,
    DeviceReset = 13,
}

impl Command {
    /// Returns the command with this number; `None` if there is no such command.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        use Command::*;
        let all = [
            Version,
            DmaMap,
            DmaUnmap,
            DeviceGetInfo,
            DeviceGetRegionInfo,
            DeviceGetRegionIoFds,
            DeviceGetIrqInfo,
            DeviceSetIrqs,
            RegionRead,
            RegionWrite,
            DmaRead,
            DmaWrite,
            DeviceReset,
        ];
        all.into_iter().find(|&command| command as u16 == number)
    }
}

/// The error if a message does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedMessage;

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message is too short for its kind")
    }
}

/// Defines a record of little-endian integers, and its conversion from and to bytes.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $int:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct $name { $($(#[$field_doc])* pub $field: $int,)* }

            impl $name {
                /// Size in bytes.
                pub const BYTES: usize = 0 $(+ size_of::<$int>())*;

                /// Reads the record from the start of `bytes`. Also returns the bytes after it.
                ///
                /// # Errors
                /// [`MalformedMessage`] if there are fewer bytes.
                pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), MalformedMessage> {
                    $(
                        let (field, bytes) = bytes.split_first_chunk().ok_or(MalformedMessage)?;
                        let $field = <$int>::from_le_bytes(*field);
                    )*
                    Ok((Self { $($field,)* }, bytes))
                }

                /// Appends the record to `bytes`.
                pub fn write(&self, bytes: &mut Vec<u8>) {
                    $(bytes.extend_from_slice(&self.$field.to_le_bytes());)*
                }
            }
        )*
    };
}

records! {
    /// The header of each message.
    Header {
        /// The number of the command; its reply has the same number.
        id: u16,
        /// The kind of the message: a [`Command`].
        command: u16,
        /// Size of the message in bytes, header included.
        size: u32,
        /// Flags of the message: [`header_flags`].
        flags: u32,
        /// The error number of a reply with [`header_flags::ERROR`].
        error: u32,
    }

    /// [`Command::Version`] and its reply; a JSON text that ends with a zero byte follows.
    Version {
        /// Sides with different major numbers cannot communicate.
        major: u16,
        /// The lower minor number of the two sides is used.
        minor: u16,
    }

    /// [`Command::DmaMap`], with the descriptor of the memory. The reply is empty.
    DmaMap {
        /// Size of this record in bytes.
        argsz: u32,
        /// Flags of the mapping: [`dma_flags`].
        flags: u32,
        /// Offset of the memory in the file.
        offset: u64,
        /// The device's address of the first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
    }

    /// [`Command::DmaUnmap`]; the reply is the same record.
    DmaUnmap {
        /// Size of this record in bytes.
        argsz: u32,
        /// 0 to unmap this range, or 2 to unmap all memory.
        flags: u32,
        /// The device's address of the first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
    }

    /// [`Command::DeviceGetInfo`] and its reply.
    DeviceInfo {
        /// Size of this record in bytes.
        argsz: u32,
        /// Flags of the device: [`device_flags`].
        flags: u32,
        /// Number of regions.
        num_regions: u32,
        /// Number of kinds of interrupts.
        num_irqs: u32,
    }

    /// [`Command::DeviceGetRegionInfo`] and its reply, which may contain capabilities and
    /// descriptors.
    RegionInfo {
        /// Maximum size of the reply that the client accepts, without the header.
        argsz: u32,
        /// Flags of the region: [`region_flags`].
        flags: u32,
        /// Index of the region.
        index: u32,
        /// Offset of the first capability from the start of this record; 0 if there is none.
        cap_offset: u32,
        /// Size of the region in bytes; 0 if the device does not have this region.
        size: u64,
        /// Offset of the region in the file of the descriptor.
        offset: u64,
    }

    /// The start of a capability of a region.
    CapabilityHeader {
        /// [`SPARSE_MMAP`], or another number. Other capabilities are skipped.
        id: u16,
        /// Version of the capability.
        version: u16,
        /// Offset of the next capability from the start of the [`RegionInfo`]; 0 if there is none.
        next: u32,
    }

    /// The rest of the capability [`SPARSE_MMAP`]. An [`MmapArea`] follows for each area.
    SparseMmap {
        /// Number of areas.
        areas: u32,
        /// Always 0.
        reserved: u32,
    }

    /// A part of a region that can be mapped.
    MmapArea {
        /// Offset in the region, in bytes.
        offset: u64,
        /// Number of bytes.
        size: u64,
    }

    /// [`Command::DeviceGetIrqInfo`] and its reply.
    IrqInfo {
        /// Size of this record in bytes.
        argsz: u32,
        /// Bit 0: the interrupts are signalled by eventfds.
        flags: u32,
        /// 0 for INTx, 1 for MSI, 2 for MSI-X.
        index: u32,
        /// Number of interrupts.
        count: u32,
    }

    /// [`Command::DeviceSetIrqs`], with the eventfds. The reply is empty.
    SetIrqs {
        /// Size of this record and its data in bytes.
        argsz: u32,
        /// Flags of the command: [`irq_flags`].
        flags: u32,
        /// 0 for INTx, 1 for MSI, 2 for MSI-X.
        index: u32,
        /// The first interrupt.
        start: u32,
        /// Number of interrupts; 0 turns all interrupts of this kind off.
        count: u32,
    }

    /// [`Command::RegionRead`] and [`Command::RegionWrite`], and their replies. The data follow
    /// the command of a write and the reply to a read.
    RegionAccess {
        /// Offset in the region, in bytes.
        offset: u64,
        /// Index of the region.
        region: u32,
        /// Number of bytes.
        count: u32,
    }
}

/// The number of the capability that lists which parts of a region can be mapped.
pub const SPARSE_MMAP: u16 = 1;
/// Maximum number of mapped areas of a region; further areas are accessed by messages.
pub const MAX_AREAS: usize = 16;

/// Returns the parts of a region that can be mapped, from the payload of a reply to
/// [`Command::DeviceGetRegionInfo`].
///
/// # Errors
/// [`MalformedMessage`] if the reply is truncated, or its capabilities form a loop.
pub fn mappable_areas(reply: &[u8]) -> Result<Vec<MmapArea>, MalformedMessage> {
    let (info, _) = RegionInfo::read(reply)?;
    if info.flags & region_flags::MMAP == 0 {
        return Ok(Vec::new());
    }
    let mut at = if info.flags & region_flags::CAPS != 0 { info.cap_offset } else { 0 };
    let whole = vec![MmapArea { offset: 0, size: info.size }];
    while at != 0 {
        let (header, rest) =
            CapabilityHeader::read(reply.get(at as usize..).ok_or(MalformedMessage)?)?;
        if header.id == SPARSE_MMAP {
            return sparse_areas(rest);
        }
        // The offsets must increase, so the list ends.
        if header.next != 0 && header.next <= at {
            return Err(MalformedMessage);
        }
        at = header.next;
    }
    Ok(whole)
}

fn sparse_areas(bytes: &[u8]) -> Result<Vec<MmapArea>, MalformedMessage> {
    let (sparse, mut rest) = SparseMmap::read(bytes)?;
    let mut areas = Vec::new();
    for _ in 0..(sparse.areas as usize).min(MAX_AREAS) {
        let (area, after) = MmapArea::read(rest)?;
        areas.push(area);
        rest = after;
    }
    Ok(areas)
}

/// Returns the text in the first message of each side, with its zero byte.
#[must_use]
pub fn capabilities_text() -> Vec<u8> {
    let capabilities = serde_json::json!({
        "capabilities": {
            "max_msg_fds": MAX_FDS,
            "max_data_xfer_size": MAX_MESSAGE_BYTES - HEADER_BYTES - RegionAccess::BYTES,
            "pgsizes": 4096,
        }
    });
    let mut text = capabilities.to_string().into_bytes();
    text.push(0);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(flags: u32, cap_offset: u32, rest: &[u8]) -> Vec<u8> {
        let info = RegionInfo { argsz: 64, flags, index: 2, cap_offset, size: 8192, offset: 0 };
        let mut bytes = Vec::new();
        info.write(&mut bytes);
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn records_have_the_sizes_of_the_protocol() {
        let sizes = [Header::BYTES, DmaMap::BYTES, DmaUnmap::BYTES, RegionInfo::BYTES];
        assert_eq!(sizes, [16, 32, 24, 32]);
        assert_eq!([SetIrqs::BYTES, RegionAccess::BYTES, IrqInfo::BYTES], [20, 16, 16]);
    }

    #[test]
    fn a_region_without_a_list_of_areas_is_mapped_as_a_whole_or_not_at_all() {
        let areas = |flags| mappable_areas(&region(flags, 0, &[])).unwrap();
        assert_eq!(areas(3), []);
        assert_eq!(areas(7), [MmapArea { offset: 0, size: 8192 }]);
    }

    #[test]
    fn the_listed_areas_are_found_behind_other_capabilities() {
        let mut caps = Vec::new();
        CapabilityHeader { id: 9, version: 1, next: 40 }.write(&mut caps);
        CapabilityHeader { id: SPARSE_MMAP, version: 1, next: 0 }.write(&mut caps);
        SparseMmap { areas: 1, reserved: 0 }.write(&mut caps);
        MmapArea { offset: 4096, size: 4096 }.write(&mut caps);
        let areas = mappable_areas(&region(15, 32, &caps)).unwrap();
        assert_eq!(areas, [MmapArea { offset: 4096, size: 4096 }]);
    }

    #[test]
    fn a_loop_of_capabilities_and_a_list_that_is_cut_short_are_refused() {
        let mut caps = Vec::new();
        CapabilityHeader { id: 9, version: 1, next: 32 }.write(&mut caps);
        assert_eq!(mappable_areas(&region(15, 32, &caps)), Err(MalformedMessage));
        assert_eq!(mappable_areas(&region(15, 32, &[1, 0])), Err(MalformedMessage));
        assert_eq!(mappable_areas(&region(15, u32::MAX, &[])), Err(MalformedMessage));
    }

    proptest! {
        #[test]
        fn no_reply_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = mappable_areas(&bytes);
        }

        #[test]
        fn a_record_reads_as_it_was_written(offset: u64, region: u32, count: u32) {
            let access = RegionAccess { offset, region, count };
            let mut bytes = Vec::new();
            access.write(&mut bytes);
            bytes.push(1);
            prop_assert_eq!(RegionAccess::read(&bytes), Ok((access, &[1][..])));
        }
    }
}
