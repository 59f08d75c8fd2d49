//! A request after it was read from the caller.

use rustix::io::Errno;
use slipring_abi::PlainData;

use crate::memory::caller::bytes_of;
use crate::request::options::RequestOptions;

/// A request that has been read, by whichever interface it arrived.
#[derive(Debug)]
pub(crate) struct NetmapRequest {
    pub(crate) kind: u16,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    pub(crate) options: RequestOptions,
    /// The largest offset in bytes at which a mapping may end, so that the request's fields can
    /// hold it.
    pub(crate) map_limit: u64,
    /// The number of the call; `None` if the kernel does not repeat calls after a restart.
    pub(crate) call: Option<u64>,
}

impl NetmapRequest {
    /// Replaces the body by the answer.
    pub(crate) fn reply<T: PlainData>(&mut self, body: &T) {
        self.body = bytes_of(body);
    }

    /// Returns the body; its size was checked when it was read.
    pub(crate) fn read<T: PlainData>(&self) -> Result<T, Errno> {
        T::read_from(&self.body).ok_or(Errno::INVAL)
    }
}

/// Returns the text of a fixed-size name; the last byte counts as NUL whatever its value.
pub(crate) fn text(name: &[u8]) -> Result<String, Errno> {
    let name = &name[..name.len() - 1];
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    // No port has a name that is not UTF-8.
    String::from_utf8(name.to_vec()).map_err(|_| Errno::NXIO)
}

/// Returns a fixed-size name, truncated if it does not fit.
pub(crate) fn fixed<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let len = name.len().min(N - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}
