//! Maps: tables for programs, which also share data with this process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::array::MappedArray;
use crate::error::BpfError;
use crate::sys::map::{self as sys, MapCreate, MapFd};

/// Kinds of maps (`BPF_MAP_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfMapKind {
    /// Any keys, in no particular order.
    Hash = 1,
    /// Values by index. All exist from the start and are zero.
    Array = 2,
    /// Programs by index, for tail calls.
    ProgramArray = 3,
    /// An array with a value per CPU.
    PerCpuArray = 6,
    /// Values by the longest prefix. A key is a `u32` number of bits in host byte order, then the
    /// bytes of the prefix.
    LpmTrie = 11,
    /// Maps by index. All have the same specification as the map that is given at creation.
    ArrayOfMaps = 12,
    /// Interfaces by index, to redirect to.
    DevMap = 14,
    /// AF_XDP sockets by queue, to redirect to.
    XskMap = 17,
}

/// The specification of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfMapSpec {
    /// The kind of the map, which determines how values are looked up.
    pub kind: BpfMapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Capacity, in values.
    pub max_entries: u32,
    /// Whether values can be mapped with [`BpfMap::map_values`] (`BPF_F_MMAPABLE`); arrays only.
    pub mappable: bool,
}

const F_NO_PREALLOC: u32 = 1 << 0;
const F_MMAPABLE: u32 = 1 << 10;

impl BpfMapSpec {
    /// The specification of a map with at most `max_entries` values, and with keys and values of
    /// these sizes.
    #[must_use]
    pub const fn new(kind: BpfMapKind, key_size: u32, value_size: u32, max_entries: u32) -> Self {
        Self { kind, key_size, value_size, max_entries, mappable: false }
    }

    /// The specification of an array that this process can map.
    #[must_use]
    pub const fn mappable_array(value_size: u32, max_entries: u32) -> Self {
        Self { mappable: true, ..Self::new(BpfMapKind::Array, 4, value_size, max_entries) }
    }

    /// The specification of a map of sockets, interfaces, programs or maps by index.
    #[must_use]
    pub const fn of_descriptors(kind: BpfMapKind, max_entries: u32) -> Self {
        Self::new(kind, 4, 4, max_entries)
    }

    fn flags(&self) -> u32 {
        // The kernel allocates the nodes of a trie one at a time, and requires this flag.
        let trie = if self.kind == BpfMapKind::LpmTrie { F_NO_PREALLOC } else { 0 };
        trie | if self.mappable { F_MMAPABLE } else { 0 }
    }
}

/// Whether an update may create an entry, replace an entry, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpdateMode {
    /// Creates a new entry, or replaces the value of an existing one.
    #[default]
    Any = 0,
    /// Fails with EEXIST if the entry exists (`BPF_NOEXIST`).
    OnlyNew = 1,
    /// Fails with ENOENT if the entry does not exist (`BPF_EXIST`).
    OnlyExisting = 2,
}

/// A map in the kernel. The map exists until this value is dropped and no program or mapping uses
/// the map.
#[derive(Debug)]
pub struct BpfMap {
    fd: MapFd,
    spec: BpfMapSpec,
}

impl BpfMap {
    /// Creates a map. `name` has at most 15 letters, digits, dots and underscores.
    ///
    /// # Errors
    /// The kernel's error: EPERM without CAP_BPF.
    pub fn create(name: &str, spec: BpfMapSpec) -> Result<Self, BpfError> {
        Self::create_with(name, spec, None)
    }

    /// Creates an array of `max_entries` maps, all of which must have the specification of `inner`.
    ///
    /// # Errors
    /// The kernel's error.
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

    /// The specification with which the map was created.
    #[must_use]
    pub fn spec(&self) -> BpfMapSpec {
        self.spec
    }

    /// Returns the number that identifies the map in the kernel, for example in tracepoints.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn id(&self) -> io::Result<u32> {
        sys::map_id(self.as_fd())
    }

    /// Returns the value of a key, if there is one. A map per CPU returns the values of all CPUs,
    /// each padded to 8 bytes.
    ///
    /// # Errors
    /// The kernel's error, or `InvalidInput` if the key has the wrong size.
    pub fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.fd.value_len()];
        match self.fd.lookup(key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// The kernel's error (E2BIG when the map is full), or `InvalidInput` if the key or value has
    /// the wrong size.
    pub fn update(&self, key: &[u8], value: &[u8], mode: UpdateMode) -> io::Result<()> {
        self.fd.update(key, value, mode as u64)
    }

    /// Sets the values of many keys with one call; `keys` and `values` are concatenated keys and
    /// values.
    ///
    /// # Errors
    /// As [`Self::update`]; values before the failed one are set.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        self.fd.update_batch(keys, values)
    }

    /// Removes `key` and its value; returns whether the key existed.
    ///
    /// # Errors
    /// The kernel's error, or `InvalidInput` if the key has the wrong size.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        match self.fd.delete(key) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns all keys at this moment. If another program changes a hash meanwhile, some keys may
    /// be missing or occur twice.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut next = vec![0; self.spec.key_size as usize];
        // A hash that is changed meanwhile may restart the iteration; the number of keys is limited
        // to the map's capacity.
        while keys.len() < self.spec.max_entries as usize {
            match self.fd.next_key(keys.last().map(Vec::as_slice), &mut next) {
                Ok(()) => keys.push(next.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    /// Puts a socket, program or map into a map of such objects.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_descriptor(&self, index: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.set_number(index, fd.as_raw_fd() as u32)
    }

    /// Sets a value of 4 bytes by an index, such as an interface of a [`BpfMapKind::DevMap`].
    ///
    /// # Errors
    /// The kernel's error, or `InvalidInput` if the map's keys or values do not have 4 bytes.
    pub fn set_number(&self, index: u32, value: u32) -> io::Result<()> {
        self.update(&index.to_ne_bytes(), &value.to_ne_bytes(), UpdateMode::Any)
    }

    /// Maps the values of an array that is [`BpfMapSpec::mappable`].
    ///
    /// # Errors
    /// The kernel's error, if the array cannot be mapped.
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

/// Number of CPUs that this machine may ever have: maps per CPU have as many values.
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
