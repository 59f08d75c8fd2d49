//! Pipe ends that programs sync in their own processes, in turn with this process.
//!
//! ```text
//!   program that syncs itself        memory of the user          this process, for all others
//!   HostedTx::attach, sync  ------>  words, rings, slots  <----  HostedRx::sync
//!     bell of the other half  ---------------------------------> another program that syncs itself
//!     kick  ---------------------------------------------------> KickDispatcher: wakes pollers
//! ```
//!
//! A ring is lent to one program at a time, for as long as that program has it bound. This process
//! syncs the ring for other programs that bind it, through the same words. While an end is
//! monitored, this process does all syncs of the pipe.

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::{
    DELEGATION_SIZE, DELEGATION_VERSION, DelegatedRingLayout, MAX_DELEGATED_RINGS, NR_EXCLUSIVE,
};

use crate::open::handle::{Netmap, OpenHandle};
use crate::port::binding::Binding;
use crate::port::delegation::{DelegatedHalf, PipeDelegation};
use crate::port::kicks::KickDispatcher;
use crate::types::lock::lock;
use crate::types::shape::TxRx;

impl OpenHandle {
    /// Lends the bound rings to the program that has bound them. The loan ends when the file is
    /// closed.
    ///
    /// # Errors
    /// [`Errno::NXIO`] if nothing is bound; [`Errno::OPNOTSUPP`] if only the daemon may sync these
    /// rings; [`Errno::BUSY`] if a ring is lent already.
    pub fn lend(&self, kicks: &Arc<KickDispatcher>) -> Result<PipeDelegation, Errno> {
        let binding = self.check_socket_delegation()?;
        let region = binding.port.memory().region();
        let mut loan = lock(&binding.delegation);
        if loan.is_some() {
            return Err(Errno::BUSY);
        }
        let (mut lent, made) = binding.port.lend(&binding.rings, kicks)?;
        lent.writes_timestamps = !self.domain.params().no_timestamp;
        for half in &mut lent.halves {
            let layout = &mut half.layout;
            for at in [&mut layout.words, &mut layout.tx, &mut layout.rx] {
                *at += region.file_offset();
            }
        }
        *loan = Some(made);
        Ok(lent)
    }
}

impl OpenHandle {
    /// Returns the bind, if a program on the native socket may sync it.
    fn check_socket_delegation(&self) -> Result<&Binding, Errno> {
        let binding = self.bound.get().ok_or(Errno::NXIO)?;
        // Refused with control blocks, because a sync loop syncs the rings then. Refused with a
        // store, because a successor process would not know the progress of programs that sync
        // themselves.
        if self.csb.get().is_some() || self.domain.commit_log.has_store() {
            return Err(Errno::OPNOTSUPP);
        }
        let region = binding.port.memory().region();
        // The program has mapped only the user's file, so rings in other memory cannot be lent to
        // it.
        if rustix::fs::fstat(region.fd())?.st_ino != rustix::fs::fstat(self.domain.file())?.st_ino {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(binding)
    }

    /// Returns the bind, if a program that has the device open may sync it.
    pub(crate) fn check_device_delegation(&self) -> Result<&Binding, Errno> {
        // With an exclusive bind, the program may still start a sync loop for the rings, and then
        // it must not sync them too.
        if self.bound_rings() > MAX_DELEGATED_RINGS || self.is_exclusive() {
            return Err(Errno::OPNOTSUPP);
        }
        self.check_socket_delegation()
    }
}

impl Netmap {
    /// Returns the dispatcher that wakes programs for which this process syncs.
    ///
    /// # Errors
    /// The kernel's error, if this process has no descriptors left.
    pub fn kicks(&self) -> Result<Arc<KickDispatcher>, Errno> {
        let mut kicks = lock(&self.kick_dispatcher);
        if let Some(kicks) = &*kicks {
            return Ok(kicks.clone());
        }
        Ok(kicks.insert(KickDispatcher::new()?).clone())
    }

    /// Handles `NIOCLEND`: lends the bound rings to a program that has the device open.
    pub(crate) fn lend(&self, open: &OpenHandle, arg: &mut [u8]) -> Result<i32, Errno> {
        let version = arg.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
        if version != Some(DELEGATION_VERSION) || arg.len() != DELEGATION_SIZE {
            return Err(Errno::INVAL);
        }
        open.check_device_delegation()?;
        let lent = open.lend(&self.kicks()?)?;
        let ring = |half: &DelegatedHalf| DelegatedRingLayout {
            words: half.layout.words,
            tx: half.layout.tx,
            rx: half.layout.rx,
            num_slots: half.layout.num_slots,
            receives: half.dir == TxRx::Rx,
            ring: half.ring as u32,
        };
        let rings: Vec<_> = lent.halves.iter().map(ring).collect();
        let answer =
            slipring_abi::encode_delegated_rings(lent.client_id, lent.writes_timestamps, &rings);
        arg.copy_from_slice(&answer.ok_or(Errno::OPNOTSUPP)?);
        Ok(0)
    }
}

impl OpenHandle {
    fn bound_rings(&self) -> usize {
        self.bound.get().map_or(0, |binding| binding.rings.iter().map(Range::len).sum())
    }

    fn is_exclusive(&self) -> bool {
        self.bound.get().is_some_and(|binding| binding.flags & NR_EXCLUSIVE != 0)
    }

    /// Handles `NIOCKICK`, which a program sends when it has synced in its own process and a
    /// program at the other end sleeps: wakes the other program.
    pub(crate) fn kick(&self) -> Result<i32, Errno> {
        self.bound.get().ok_or(Errno::NXIO)?.port.kick();
        Ok(0)
    }
}
