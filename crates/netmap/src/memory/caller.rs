//! The memory of the program that makes a call.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::Plain;

use crate::memory::external::SharedPages;
use crate::types::cancel::Cancel;

/// Reads and writes addresses of the caller. A transfer is whole or it is an error.
pub trait CallerMemory {
    /// Fills `out` from `addr` on.
    ///
    /// # Errors
    /// [`Errno::FAULT`] where not all of it can be read.
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno>;

    /// Writes `bytes` from `addr` on.
    ///
    /// # Errors
    /// [`Errno::FAULT`] where not all of it can be written.
    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// The pages in which `len` bytes from `addr` on lie, to be mapped by others as well.
    ///
    /// # Errors
    /// [`Errno::FAULT`] where not all of it is mapped, in one piece and to be written;
    /// [`Errno::OPNOTSUPP`] where nobody else can map it.
    fn shared(&mut self, _addr: u64, _len: u64) -> Result<SharedPages, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// A descriptor of our own for an eventfd of the program.
    ///
    /// # Errors
    /// [`Errno::BADF`] where nothing has this number; [`Errno::INVAL`] where it is something else.
    fn eventfd(&mut self, _number: i32) -> Result<OwnedFd, Errno> {
        Err(Errno::BADF)
    }

    /// What ends the call early, where something can.
    fn cancel(&self) -> Option<Arc<Cancel>> {
        None
    }

    /// The number of the call that is made, which no other call has; a call that comes again after
    /// a restart has it again. `None` where there are no numbers.
    fn call(&self) -> Option<u64> {
        None
    }
}

/// For requests that reach for nothing beside their argument.
pub(crate) struct NoCallerMemory;

impl CallerMemory for NoCallerMemory {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}

/// A structure at `addr`.
pub(crate) fn read_plain<T: Plain>(caller: &mut dyn CallerMemory, addr: u64) -> Result<T, Errno> {
    let mut bytes = vec![0; T::SIZE];
    caller.read(addr, &mut bytes)?;
    T::read_from(&bytes).ok_or(Errno::FAULT)
}

/// The bytes of a structure.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; T::SIZE];
    value.write_to(&mut bytes);
    bytes
}
