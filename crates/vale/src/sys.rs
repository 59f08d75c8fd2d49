//! The one ioctl that has no wrapper elsewhere.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use slipring_abi::{NETMAP_REQ_MAXSIZE, NIOCCTRL, NmreqHeader, Plain};

/// Performs a request: `header` without options, and `body`, which the answer replaces. An empty
/// body is none.
pub(crate) fn control(
    device: BorrowedFd<'_>,
    header: &NmreqHeader,
    body: &mut [u8; NETMAP_REQ_MAXSIZE],
    with_body: bool,
) -> Result<NmreqHeader, Errno> {
    let nr_body = if with_body { body.as_mut_ptr() as u64 } else { 0 };
    let header = NmreqHeader { nr_options: 0, nr_body, ..*header };
    let mut bytes = [0; NmreqHeader::SIZE];
    header.write_to(&mut bytes);
    // SAFETY:
    // - The opcode is NIOCCTRL, which reads and writes a header; `Call` points at its bytes, alive
    //   and ours during the call.
    // - The header leads to `body`, which is as long as any request may be with its options, is
    //   borrowed mutably meanwhile, and may hold any bytes afterwards.
    unsafe { rustix::ioctl::ioctl(device, Call(&mut bytes)) }?;
    NmreqHeader::read_from(&bytes).ok_or(Errno::INVAL)
}

struct Call<'h>(&'h mut [u8; NmreqHeader::SIZE]);

// SAFETY:
// - `as_ptr` points at as many bytes as the opcode says that the call reads and writes, and any
//   bytes are fine there.
unsafe impl Ioctl for Call<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        NIOCCTRL as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<(), Errno> {
        Ok(())
    }
}
