//! The entry point for ioctls: dispatches by request number.

use rustix::io::Errno;
use slipring_abi::{
    NETMAP_REQ_SYNC_KLOOP_START, NIOCCONFIG, NIOCCTRL, NIOCGINFO, NIOCKICK, NIOCLEND, NIOCLENDQ,
    NIOCREGIF, NIOCRXSYNC, NIOCTXSYNC, NmreqHeader, PlainData,
};

use crate::memory::caller::CallerMemory;
use crate::open::handle::{Netmap, OpenHandle};
use crate::types::shape::TxRx;

impl Netmap {
    /// Performs an ioctl. `arg` is its argument, if it has one. If the call succeeds, results are
    /// written to `arg`.
    ///
    /// # Errors
    /// netmap's error number for the failed request.
    pub fn ioctl(
        &self,
        open: &OpenHandle,
        cmd: u32,
        arg: &mut [u8],
        caller: &mut dyn CallerMemory,
    ) -> Result<i32, Errno> {
        match cmd {
            NIOCTXSYNC => {
                open.fetch_indirect(caller)?;
                open.sync(TxRx::Tx)
            }
            NIOCRXSYNC => open.sync(TxRx::Rx),
            NIOCKICK => open.kick(),
            NIOCLEND => self.lend(open, arg),
            NIOCLENDQ => self.lend_queues(open, arg),
            NIOCCTRL => self.control(open, arg, caller),
            NIOCREGIF | NIOCGINFO => self.legacy(open, cmd, arg, caller.call()),
            // In netmap, this configures a switch module of the user; such modules do not exist
            // here.
            NIOCCONFIG => Err(Errno::INVAL),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Returns whether an ioctl only syncs or kicks: it does not allocate, and accesses the
    /// caller's memory only for indirect frames ([`OpenHandle::has_indirect`]).
    #[must_use]
    pub fn is_sync(cmd: u32) -> bool {
        matches!(cmd, NIOCTXSYNC | NIOCRXSYNC | NIOCKICK)
    }

    /// Returns whether an ioctl with this argument runs until it is cancelled ([`crate::Cancel`]).
    /// Such a call needs a separate thread.
    #[must_use]
    pub fn runs_until_cancelled(cmd: u32, arg: &[u8]) -> bool {
        let header = || NmreqHeader::read_from(arg);
        cmd == NIOCCTRL && header().is_some_and(|it| it.nr_reqtype == NETMAP_REQ_SYNC_KLOOP_START)
    }

    /// Returns whether an ioctl may access the caller's memory in addition to its argument and
    /// indirect frames.
    #[must_use]
    pub fn touches_caller(cmd: u32) -> bool {
        cmd == NIOCCTRL
    }
}
