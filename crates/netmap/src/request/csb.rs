//! The request CSB_ENABLE.

use rustix::io::Errno;
use slipring_abi::{NETMAP_REQ_OPT_CSB, NmreqOptCsb};

use crate::memory::caller::CallerMemory;
use crate::open::csb::Csb;
use crate::open::handle::OpenHandle;
use crate::request::message::NetmapRequest;
use crate::types::lock::lock;

/// Handles `CSB_ENABLE`: opens control blocks for the rings that are already bound.
pub(crate) fn enable(
    open: &OpenHandle,
    request: &mut NetmapRequest,
    caller: &mut dyn CallerMemory,
) -> Result<(), Errno> {
    let option = request.options.take::<NmreqOptCsb>(NETMAP_REQ_OPT_CSB).ok_or(Errno::INVAL)?;
    request.options.all_used()?;
    let _one_at_a_time = lock(&open.binding);
    let binding = open.bound.get().ok_or(Errno::NXIO);
    let blocks = binding.and_then(|binding| match open.csb.get() {
        Some(_) => Err(Errno::BUSY),
        None => Csb::new(binding, &option, caller),
    });
    let blocks = request.options.record_result(NETMAP_REQ_OPT_CSB, blocks)?;
    // The bind's lock is held and `csb` was empty, so setting it cannot fail.
    let _ = open.csb.set(blocks);
    Ok(())
}
