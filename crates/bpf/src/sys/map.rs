//! Commands on maps, with the sizes of keys and values checked before the kernel reads or writes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{BpfCommand, address, bpf, kernel_name, owned};

/// The structure of BPF_MAP_CREATE.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapCreate {
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
    pub(crate) inner_map: u32,
    pub(crate) numa_node: u32,
    pub(crate) name: [u8; 16],
}

const _: () = assert!(size_of::<MapCreate>() == 44);

// SAFETY: `repr(C)`, seven u32 and 16 bytes, no gaps; BPF_MAP_CREATE begins with exactly these.
unsafe impl BpfCommand for MapCreate {
    const NUMBER: libc::c_long = 0;
}

/// The structure of commands on elements: map_fd, then 8-aligned addresses of a key and of a value
/// or the next key, and flags.
#[repr(C)]
struct MapElement<const COMMAND: libc::c_long> {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: `repr(C)` without gaps; commands 1 to 4 take exactly these.
unsafe impl<const COMMAND: libc::c_long> BpfCommand for MapElement<COMMAND> {
    const NUMBER: libc::c_long = COMMAND;
}

const LOOKUP_ELEM: libc::c_long = 1;
const UPDATE_ELEM: libc::c_long = 2;
const DELETE_ELEM: libc::c_long = 3;
const GET_NEXT_KEY: libc::c_long = 4;

/// The structure of BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct ObjectInfo {
    object: u32,
    len: u32,
    info: u64,
}

// SAFETY: `repr(C)`, two u32 and a u64 at 8; BPF_OBJ_GET_INFO_BY_FD begins with exactly these.
unsafe impl BpfCommand for ObjectInfo {
    const NUMBER: libc::c_long = 15;
}

/// Returns the number that identifies a map in the kernel.
pub(crate) fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // `struct bpf_map_info` begins with its type and its id, so only these are read.
    let mut info = [0_u32; 2];
    let mut attr = ObjectInfo {
        object: map.as_raw_fd() as u32,
        len: size_of_val(&info) as u32,
        info: info.as_mut_ptr().addr() as u64,
    };
    // SAFETY: `info` leads to `len` bytes that nothing else uses during the call.
    unsafe { bpf(&mut attr) }?;
    Ok(info[1])
}

#[repr(C)]
struct MapBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    elem_flags: u64,
    flags: u64,
}

const _: () = assert!(size_of::<MapBatch>() == 56);

// SAFETY: `repr(C)` without gaps; BPF_MAP_UPDATE_BATCH takes exactly these.
unsafe impl BpfCommand for MapBatch {
    const NUMBER: libc::c_long = 26;
}

/// A map's descriptor, with the sizes of keys and values that the kernel copies.
///
/// # Invariants
/// The kernel reads or writes `key_len` bytes for one key and `value_len` bytes for one value of
/// this map, as long as the map exists.
#[derive(Debug)]
pub(crate) struct MapFd {
    fd: OwnedFd,
    key_len: usize,
    value_len: usize,
}

impl MapFd {
    /// Creates a map. `copies` is the number of values per key, each padded to 8 bytes; for maps
    /// per CPU, the number of possible CPUs, else `None`.
    pub(crate) fn create(
        mut attr: MapCreate,
        name: &str,
        copies: Option<usize>,
    ) -> io::Result<Self> {
        attr.name = kernel_name(name);
        let (key_len, value_size) = (attr.key_size as usize, attr.value_size as usize);
        let value_len = copies.map_or(value_size, |n| value_size.next_multiple_of(8) * n);
        // SAFETY: `attr` contains no addresses.
        let fd = unsafe { bpf(&mut attr) }.map(owned)?;
        Ok(Self { fd, key_len, value_len })
    }

    /// Bytes of a value in system calls.
    pub(crate) fn value_len(&self) -> usize {
        self.value_len
    }

    pub(crate) fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        expect_len(key, self.key_len)?;
        expect_len(value, self.value_len)?;
        let out = value.as_mut_ptr().addr() as u64;
        // SAFETY: `key` has the bytes that the kernel reads, and `out` those that it writes, by the
        // invariant; `value` is exclusive during the call.
        unsafe { bpf(&mut self.element::<LOOKUP_ELEM>(address(key), out, 0)) }.map(drop)
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
        expect_len(key, self.key_len)?;
        expect_len(value, self.value_len)?;
        let mut attr = self.element::<UPDATE_ELEM>(address(key), address(value), flags);
        // SAFETY: `key` and `value` have the bytes that the kernel reads, by the invariant.
        unsafe { bpf(&mut attr) }.map(drop)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        expect_len(key, self.key_len)?;
        // SAFETY: `key` has the bytes that the kernel reads, by the invariant.
        unsafe { bpf(&mut self.element::<DELETE_ELEM>(address(key), 0, 0)) }.map(drop)
    }

    /// Puts the key after `key`, or the first one, into `next`.
    pub(crate) fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<()> {
        expect_len(key.unwrap_or(next), self.key_len)?;
        expect_len(next, self.key_len)?;
        let out = next.as_mut_ptr().addr() as u64;
        let mut attr = self.element::<GET_NEXT_KEY>(key.map_or(0, address), out, 0);
        // SAFETY: `key` has the bytes that the kernel reads, or its address is 0, which the command
        // takes as "none". `out` has the bytes that the kernel writes, by the invariant, and is
        // exclusive.
        unsafe { bpf(&mut attr) }.map(drop)
    }

    /// Sets the values of several keys. `keys` and `values` contain them one after the other.
    pub(crate) fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        let count = keys.len() / self.key_len;
        expect_len(keys, count * self.key_len)?;
        expect_len(values, count * self.value_len)?;
        let mut attr = MapBatch {
            in_batch: 0,
            out_batch: 0,
            keys: address(keys),
            values: address(values),
            count: u32::try_from(count).map_err(|_| io::ErrorKind::InvalidInput)?,
            map: self.fd.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: `keys` and `values` have `count` keys and values, checked above, which are only
        // read; the command takes no batch positions.
        unsafe { bpf(&mut attr) }.map(drop)
    }

    fn element<const COMMAND: libc::c_long>(
        &self,
        key: u64,
        value: u64,
        flags: u64,
    ) -> MapElement<COMMAND> {
        MapElement { map: self.fd.as_raw_fd() as u32, zero: 0, key, value, flags }
    }
}

impl AsFd for MapFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn expect_len(bytes: &[u8], len: usize) -> io::Result<()> {
    if bytes.len() == len {
        return Ok(());
    }
    let text = format!("the map takes {len} bytes here, not {}", bytes.len());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
