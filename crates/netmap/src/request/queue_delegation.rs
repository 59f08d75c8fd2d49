//! Interface queues that programs sync in their own processes.
//!
//! ```text
//!   program                                      this process
//!   NIOCLENDQ on the device       ----------->   Adapter::lend_queues, sockets wait under a token
//!                                 <-----------   layout of rings and words, and the token
//!   token over the native socket  ----------->   Netmap::take_sockets
//!                                 <-----------   a socket for each queue
//! ```
//!
//! An ioctl cannot return a descriptor, so the program fetches the sockets over the daemon's native
//! socket. Sockets that were not fetched are closed when the loan ends.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use slipring_abi::{
    DELEGATED_QUEUES_SIZE, DELEGATION_VERSION, DelegatedQueueLayout, MAX_DELEGATED_RINGS,
    encode_delegated_queues,
};

use crate::open::handle::{Netmap, OpenHandle};
use crate::port::delegation::DelegationGuard;
use crate::port::delegation::PendingSockets;
use crate::types::lock::lock;

/// A loan of queues, with the sockets that were not fetched yet.
#[derive(Debug)]
struct QueueLoan {
    _loan: DelegationGuard,
    pending: PendingSockets,
    token: u64,
}

impl Drop for QueueLoan {
    fn drop(&mut self) {
        lock(&self.pending).remove(&self.token);
    }
}

impl Netmap {
    /// Handles `NIOCLENDQ`: lends interface queues to a program that has the device open.
    pub(crate) fn lend_queues(&self, open: &OpenHandle, arg: &mut [u8]) -> Result<i32, Errno> {
        let version = arg.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
        if version != Some(DELEGATION_VERSION) || arg.len() != DELEGATED_QUEUES_SIZE {
            return Err(Errno::INVAL);
        }
        let binding = open.check_device_delegation()?;
        let mut loan = lock(&binding.delegation);
        if loan.is_some() {
            return Err(Errno::BUSY);
        }
        let client_id = self.kicks()?.next_client();
        let (lent, made) = binding.port.lend_queues(&binding.rings, client_id)?;
        if lent.len() > MAX_DELEGATED_RINGS {
            return Err(Errno::OPNOTSUPP);
        }
        let at = binding.port.memory().region().file_offset();
        let in_file = |offset: u64| if offset == 0 { 0 } else { offset + at };
        let layout = |one: DelegatedQueueLayout| {
            let [words, tx, rx] = [one.words, one.tx, one.rx].map(in_file);
            DelegatedQueueLayout { words, tx, rx, ..one }
        };
        let layouts: Vec<_> = lent.iter().map(|one| layout(one.layout)).collect();
        let token = slipring_ring::secret_word();
        let stamps = !open.domain.params().no_timestamp;
        let answer =
            encode_delegated_queues(client_id, stamps, token, &layouts).ok_or(Errno::OPNOTSUPP)?;
        let sockets = lent.into_iter().map(|one| one.socket).collect();
        lock(&self.pending_sockets).insert(token, (open.uid(), sockets));
        *loan =
            Some(Box::new(QueueLoan { _loan: made, pending: self.pending_sockets.clone(), token }));
        arg.copy_from_slice(&answer);
        Ok(0)
    }

    /// Returns the sockets of the queues that were lent with `token` to a program of the user
    /// `uid`. They can be taken once.
    ///
    /// # Errors
    /// [`Errno::NOENT`] if no sockets wait under this token for this user.
    pub fn take_sockets(&self, uid: u32, token: u64) -> Result<Vec<OwnedFd>, Errno> {
        let mut waiting = lock(&self.pending_sockets);
        if waiting.get(&token).is_none_or(|(owner, _)| *owner != uid) {
            return Err(Errno::NOENT);
        }
        waiting.remove(&token).map(|(_, sockets)| sockets).ok_or(Errno::NOENT)
    }
}
