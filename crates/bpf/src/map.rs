//! Maps: what programs look things up in, and what they share with this process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::array::MappedArray;
use crate::error::BpfError;
use crate::sys::map::{MapCreate, MapFd};

/// Kinds of maps (`BPF_MAP_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfMapKind {
    /// Any keys, in no order.
    Hash = 1,
    /// Values by index, all present and zero at first.
    Array = 2,
    /// Programs by index, for tail calls.
    ProgramArray = 3,
    /// An array with a value per CPU.
    PerCpuArray = 6,
    /// Values by the longest prefix. A key is a `u32` number of bits in host byte order, then the
    /// bytes of the prefix.
    LpmTrie = 11,
    /// Maps by index, all made like a given one.
    ArrayOfMaps = 12,
    /// Interfaces by index, to redirect to.
    DevMap = 14,
    /// AF_XDP sockets by queue, to redirect to.
    XskMap = 17,
}

/// What a map is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfMapSpec {
    /// How values are found.
    pub kind: BpfMapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Capacity, in values.
    pub max_entries: u32,
    /// Values can be mapped with [`BpfMap::map_values`] (`BPF_F_MMAPABLE`); arrays only.
    pub mappable: bool,
}

const F_NO_PREALLOC: u32 = 1 << 0;
const F_MMAPABLE: u32 = 1 << 10;

impl BpfMapSpec {
    /// A map of `max_entries` values of any size by keys of any size.
    #[must_use]
    pub const fn new(kind: BpfMapKind, key_size: u32, value_size: u32, max_entries: u32) -> Self {
        Self { kind, key_size, value_size, max_entries, mappable: false }
    }

    /// An array that this process can map.
    #[must_use]
    pub const fn mappable_array(value_size: u32, max_entries: u32) -> Self {
        Self { mappable: true, ..Self::new(BpfMapKind::Array, 4, value_size, max_entries) }
    }

    /// An index of sockets, interfaces, programs or maps.
    #[must_use]
    pub const fn of_descriptors(kind: BpfMapKind, max_entries: u32) -> Self {
        Self::new(kind, 4, 4, max_entries)
    }

    fn flags(&self) -> u32 {
        // The kernel allocates the nodes of a trie one at a time, and insists that we know.
        let trie = if self.kind == BpfMapKind::LpmTrie { F_NO_PREALLOC } else { 0 };
        trie | if self.mappable { F_MMAPABLE } else { 0 }
    }
}

/// Whether an update may make a new entry, replace one, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpdateMode {
    /// A new entry, or another value for an old one.
    #[default]
    Any = 0,
    /// EEXIST if there is one (`BPF_NOEXIST`).
    OnlyNew = 1,
    /// ENOENT if there is none (`BPF_EXIST`).
    OnlyExisting = 2,
}

/// A map in the kernel. It exists as long as this, a program or a mapping that uses it.
#[derive(Debug)]
pub struct BpfMap {
    fd: MapFd,
    spec: BpfMapSpec,
}

impl BpfMap {
    /// Creates a map. `name` has at most 15 letters, digits, dots and underscores.
    ///
    /// # Errors
    /// The kernel's: EPERM without CAP_BPF.
    pub fn create(name: &str, spec: BpfMapSpec) -> Result<Self, BpfError> {
        Self::create_with(name, spec, None)
    }

    /// Creates an array of `max_entries` maps, which all have to be made like `inner`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create_of_maps(name: &str, max_entries: u32, inner: &Self) -> Result<Self, BpfError> {
        let spec = BpfMapSpec::of_descriptors(BpfMapKind::ArrayOfMaps, max_entries);
        Self::create_with(name, spec, Some(inner))
    }

    fn create_with(name: &str, spec: BpfMapSpec, inner: Option<&Self>) -> Result<Self, BpfError> {
        let what = "create a BPF map";
        let refused = |source| BpfError::System { what, source };
        let per_cpu = spec.kind == BpfMapKind::PerCpuArray;
        let copies = per_cpu.then(possible_cpus).transpose().map_err(refused)?;
        let attr = MapCreate {
            kind: spec.kind as u32,
            key_size: spec.key_size,
            value_size: spec.value_size,
            max_entries: spec.max_entries,
            flags: spec.flags(),
            inner_map: inner.map_or(0, |inner| inner.raw_fd() as u32),
            ..MapCreate::default()
        };
        Ok(Self { fd: MapFd::create(attr, name, copies).map_err(refused)?, spec })
    }

    /// What it was created as.
    #[must_use]
    pub fn spec(&self) -> BpfMapSpec {
        self.spec
    }

    /// Returns a value, if there is one. With a value per CPU it is all of them, each padded to 8
    /// bytes.
    ///
    /// # Errors
    /// A key of the wrong size, or the kernel's.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.fd.value_len()];
        match self.fd.lookup(key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets a value.
    ///
    /// # Errors
    /// A key or value of the wrong size, or the kernel's: E2BIG when the map is full.
    pub fn update(&self, key: &[u8], value: &[u8], mode: UpdateMode) -> io::Result<()> {
        self.fd.update(key, value, mode as u64)
    }

    /// Sets many values with one call: keys one after the other, and values likewise.
    ///
    /// # Errors
    /// As [`Self::update`]; values before the one that failed are set.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        self.fd.update_batch(keys, values)
    }

    /// Removes a value; returns whether there was one.
    ///
    /// # Errors
    /// A key of the wrong size, or the kernel's.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        match self.fd.delete(key) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns all keys at this moment. While others change a hash, some may be missing or double.
    ///
    /// # Errors
    /// The kernel's.
    pub fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut next = vec![0; self.spec.key_size as usize];
        // A hash that is changed meanwhile may start over again; it has no more than its capacity.
        while keys.len() < self.spec.max_entries as usize {
            match self.fd.next_key(keys.last().map(Vec::as_slice), &mut next) {
                Ok(()) => keys.push(next.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    /// Puts a socket, program or map into an index of these.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_descriptor(&self, index: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.set_number(index, fd.as_raw_fd() as u32)
    }

    /// Sets a value of 4 bytes by an index: an interface of a [`BpfMapKind::DevMap`], for example.
    ///
    /// # Errors
    /// The kernel's, or the map's keys or values have another size.
    pub fn set_number(&self, index: u32, value: u32) -> io::Result<()> {
        self.update(&index.to_ne_bytes(), &value.to_ne_bytes(), UpdateMode::Any)
    }

    /// Maps the values of an array that is [`BpfMapSpec::mappable`].
    ///
    /// # Errors
    /// The kernel's, if it is no such array.
    pub fn map_values(&self) -> io::Result<MappedArray> {
        MappedArray::map(self.as_fd(), &self.spec)
    }

    /// The descriptor, for instructions that name the map.
    #[must_use]
    pub fn raw_fd(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }
}

impl AsFd for BpfMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// CPUs that this machine may ever have: values of maps per CPU are as many.
fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    last_cpu(&text).map(|last| last + 1).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The last number of a list such as `0-3,8-11`.
fn last_cpu(text: &str) -> Option<usize> {
    text.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cpu_of_a_list_is_its_last_number() {
        assert_eq!(last_cpu("0\n"), Some(0));
        assert_eq!(last_cpu("0-3,8-11\n"), Some(11));
        assert_eq!(last_cpu("0-3,8\n"), Some(8));
        assert_eq!(last_cpu("\n"), None);
    }
}
