//! The registers of a device.

use std::fmt;
use std::sync::Arc;

use crate::sys::mapping::Mapping;

/// The number of bytes of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte = 1,
    /// Two bytes, at an even address.
    Word = 2,
    /// Four bytes, at a multiple of four.
    Long = 4,
}

impl Width {
    /// Number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// The value of this width with all bits set, which reads of a removed device return.
    #[must_use]
    pub const fn all_ones(self) -> u32 {
        u32::MAX >> (32 - 8 * self as u32)
    }
}

/// Access to registers by function calls, if they cannot be mapped: I/O ports, pages that the
/// kernel does not map, models in other processes.
pub trait RegisterAccess: Send + Sync {
    /// Reads a register. Returns all ones if the device does not answer.
    fn read(&self, at: u64, width: Width) -> u32;

    /// Writes a register. The write is lost if the device does not answer.
    fn write(&self, at: u64, width: Width, value: u32);
}

/// Registers that are mapped into this process: bytes `start..start + len` of a BAR.
pub struct MappedRegisters {
    start: u64,
    memory: Mapping,
}

impl MappedRegisters {
    /// Wraps a mapping of the registers from byte `start` of a BAR.
    pub(crate) fn new(start: u64, memory: Mapping) -> Self {
        Self { start, memory }
    }

    /// Returns the offset of a register in the mapping; `None` if the register is not completely in
    /// the mapping, or is not aligned to its width.
    #[inline(always)]
    fn locate(&self, at: u64, width: Width) -> Option<usize> {
        let offset = at.checked_sub(self.start)?;
        let fits = offset.checked_add(width.bytes())? <= self.memory.len() as u64;
        (fits && offset.is_multiple_of(width.bytes())).then_some(offset as usize)
    }
}

/// The registers of one base address register.
///
/// An access to mapped registers is one load or store, after a comparison of the offset with the
/// bounds. All other accesses within the BAR are calls. Reads beyond the end of the BAR return all
/// ones, and writes there do nothing. Accesses are volatile and in program order.
#[derive(Clone)]
pub struct Bar {
    shared: Arc<BarParts>,
}

struct BarParts {
    len: u64,
    mapped: Vec<MappedRegisters>,
    rest: Box<dyn RegisterAccess>,
}

impl Bar {
    /// Creates a BAR of `len` bytes. Accesses outside of `mapped`, and unaligned ones, are calls of
    /// `rest`.
    #[must_use]
    pub fn new(len: u64, mapped: Vec<MappedRegisters>, rest: Box<dyn RegisterAccess>) -> Self {
        Self { shared: Arc::new(BarParts { len, mapped, rest }) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shared.len
    }

    /// Returns whether there are no registers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the register at byte `at` is mapped, so that an access to it makes no call.
    #[must_use]
    pub fn is_mapped(&self, at: u64) -> bool {
        self.shared.mapped.iter().any(|part| part.locate(at, Width::Byte).is_some())
    }

    /// Reads the 32-bit register at byte `at` of the BAR.
    #[inline]
    #[must_use]
    pub fn read32(&self, at: u64) -> u32 {
        match self.locate(at, Width::Long) {
            Some((memory, offset)) => memory.read_u32(offset),
            None => self.call_read(at, Width::Long),
        }
    }

    /// Writes the 32-bit register at byte `at` of the BAR.
    #[inline]
    pub fn write32(&self, at: u64, value: u32) {
        match self.locate(at, Width::Long) {
            Some((memory, offset)) => memory.write_u32(offset, value),
            None => self.call_write(at, Width::Long, value),
        }
    }

    /// Reads the 16-bit register at byte `at` of the BAR.
    #[inline]
    #[must_use]
    pub fn read16(&self, at: u64) -> u16 {
        match self.locate(at, Width::Word) {
            Some((memory, offset)) => memory.read_u16(offset),
            None => self.call_read(at, Width::Word) as u16,
        }
    }

    /// Writes the 16-bit register at byte `at` of the BAR.
    #[inline]
    pub fn write16(&self, at: u64, value: u16) {
        match self.locate(at, Width::Word) {
            Some((memory, offset)) => memory.write_u16(offset, value),
            None => self.call_write(at, Width::Word, value.into()),
        }
    }

    /// Reads the 8-bit register at byte `at` of the BAR.
    #[inline]
    #[must_use]
    pub fn read8(&self, at: u64) -> u8 {
        match self.locate(at, Width::Byte) {
            Some((memory, offset)) => memory.read_u8(offset),
            None => self.call_read(at, Width::Byte) as u8,
        }
    }

    /// Writes the 8-bit register at byte `at` of the BAR.
    #[inline]
    pub fn write8(&self, at: u64, value: u8) {
        match self.locate(at, Width::Byte) {
            Some((memory, offset)) => memory.write_u8(offset, value),
            None => self.call_write(at, Width::Byte, value.into()),
        }
    }

    #[inline(always)]
    fn locate(&self, at: u64, width: Width) -> Option<(&Mapping, usize)> {
        // A BAR usually has one mapping. The BARs of most device models have none.
        let mut parts = self.shared.mapped.iter();
        parts.find_map(|part| Some((&part.memory, part.locate(at, width)?)))
    }

    #[cold]
    fn call_read(&self, at: u64, width: Width) -> u32 {
        if self.contains(at, width) { self.shared.rest.read(at, width) } else { width.all_ones() }
    }

    #[cold]
    fn call_write(&self, at: u64, width: Width, value: u32) {
        if self.contains(at, width) {
            self.shared.rest.write(at, width, value);
        }
    }

    fn contains(&self, at: u64, width: Width) -> bool {
        at.checked_add(width.bytes()).is_some_and(|end| end <= self.len())
    }
}

impl fmt::Debug for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bar({} bytes, {} mappings)", self.len(), self.shared.mapped.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    type Calls = Arc<Mutex<Vec<(u64, Width, u32)>>>;

    struct Recorder(Calls);

    impl RegisterAccess for Recorder {
        fn read(&self, at: u64, width: Width) -> u32 {
            self.0.lock().unwrap().push((at, width, 0));
            7
        }

        fn write(&self, at: u64, width: Width, value: u32) {
            self.0.lock().unwrap().push((at, width, value));
        }
    }

    fn bar() -> (Bar, Calls) {
        let calls = Calls::default();
        let memory = Mapping::anonymous(4096).unwrap();
        let mapped = vec![MappedRegisters::new(4096, memory)];
        (Bar::new(12_288, mapped, Box::new(Recorder(calls.clone()))), calls)
    }

    #[test]
    fn mapped_registers_are_memory_and_all_others_are_calls() {
        let (bar, calls) = bar();
        bar.write32(4096, 0x0403_0201);
        bar.write8(8191, 0xee);
        bar.write16(4098, 0x0605);
        assert_eq!(bar.read32(4096), 0x0605_0201);
        assert_eq!((bar.read8(8191), bar.read16(8190)), (0xee, 0xee00));
        assert!(calls.lock().unwrap().is_empty());
        bar.write16(4094, 3);
        assert_eq!((bar.read32(8192), bar.read8(0)), (7, 7));
        let expected = [(4094, Width::Word, 3), (8192, Width::Long, 0), (0, Width::Byte, 0)];
        assert_eq!(*calls.lock().unwrap(), expected);
        assert!(bar.is_mapped(4096) && bar.is_mapped(8191) && !bar.is_mapped(8192));
    }

    #[test]
    fn a_register_beyond_the_bar_or_across_its_mapping_is_not_memory() {
        let (bar, calls) = bar();
        assert_eq!((bar.read32(12_288), bar.read16(u64::MAX)), (u32::MAX, u16::MAX));
        bar.write32(12_286, 1);
        assert!(calls.lock().unwrap().is_empty(), "nothing is passed on");
        // These accesses cross the end of the mapping or are not aligned, so they become calls of
        // `rest`.
        let _ = (bar.read32(8190), bar.read32(4097));
        assert_eq!(calls.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_device_that_is_gone_reads_as_all_ones_of_the_width() {
        assert_eq!(
            [Width::Byte, Width::Word, Width::Long].map(Width::all_ones),
            [0xff, 0xffff, 0xffff_ffff]
        );
    }
}
