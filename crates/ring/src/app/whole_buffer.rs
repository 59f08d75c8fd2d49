//! A whole buffer of a private region as a slice.

use crate::index::BufIdx;
use crate::mem::PrivateMem;

/// All bytes of a buffer.
#[inline(always)]
pub(super) fn whole_buffer<'a>(mem: PrivateMem<'a>, buf: BufIdx) -> &'a mut [u8] {
    let data = mem.data(buf);
    // SAFETY: as in `bytes_of`.
    unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), mem.buf_size() as usize) }
}
