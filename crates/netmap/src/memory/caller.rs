//! The memory of the program that makes a call.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::PlainData;

use crate::memory::external::SharedPages;
use crate::types::cancel::Cancel;

/// Reads and writes the caller's address space. A transfer that fails may have been made in part.
pub trait CallerMemory {
    /// Fills `out` from address `addr`.
    ///
    /// # Errors
    /// [`Errno::FAULT`] if part of the range cannot be read.
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno>;

    /// Writes `bytes` at address `addr`.
    ///
    /// # Errors
    /// [`Errno::FAULT`] if part of the range cannot be written.
    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Returns the pages that contain the `len` bytes at `addr`, so that other processes can map
    /// them.
    ///
    /// # Errors
    /// [`Errno::FAULT`] if the range is not mapped writable and in one piece; [`Errno::OPNOTSUPP`]
    /// if no other process can map it; [`Errno::NOMEM`] if this process lacks memory or
    /// descriptors.
    fn shared(&mut self, _addr: u64, _len: u64) -> Result<SharedPages, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Duplicates an eventfd of the program.
    ///
    /// # Errors
    /// [`Errno::BADF`] if no descriptor has this number; [`Errno::INVAL`] if it is not an eventfd.
    fn eventfd(&mut self, _number: i32) -> Result<OwnedFd, Errno> {
        Err(Errno::BADF)
    }

    /// Returns the handle with which another thread can cancel this call; `None` if the call cannot
    /// be cancelled.
    fn cancel(&self) -> Option<Arc<Cancel>> {
        None
    }

    /// Returns the unique number of this call. A call that is repeated after a restart keeps its
    /// number. `None` if calls have no numbers.
    fn call(&self) -> Option<u64> {
        None
    }
}

/// The caller memory of requests that only access their argument.
pub(crate) struct NoCallerMemory;

impl CallerMemory for NoCallerMemory {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}

/// Reads a structure at `addr`.
pub(crate) fn read_plain<T: PlainData>(
    caller: &mut dyn CallerMemory,
    addr: u64,
) -> Result<T, Errno> {
    let mut bytes = vec![0; T::SIZE];
    caller.read(addr, &mut bytes)?;
    T::read_from(&bytes).ok_or(Errno::FAULT)
}

/// Returns the bytes of a structure.
pub(crate) fn bytes_of<T: PlainData>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; T::SIZE];
    value.write_to(&mut bytes);
    bytes
}
