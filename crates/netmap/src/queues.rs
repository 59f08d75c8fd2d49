//! Queues of an interface that programs sync in their own processes.
//!
//! ```text
//!   program                                          this process
//!   NIOCLENDQ on the device         ------------->   Adapter::lend_queues, sockets wait under a token
//!                                   <-------------   where rings and words lie, and the token
//!   token over the native door      ------------->   Netmap::sockets
//!                                   <-------------   a socket for each queue
//! ```
//!
//! The device itself cannot pass a descriptor. What nobody fetches goes with the loan.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use slipring_abi::{LENT_QUEUES_SIZE, LENT_RINGS, LENT_VERSION, LentQueue, lent_queues};

use crate::direct::Loan;
use crate::domain::lock;
use crate::open::{Netmap, Open};

/// One queue of an interface for a program that syncs it itself.
#[derive(Debug)]
pub struct QueueLent {
    /// The kernel's end.
    pub socket: OwnedFd,
    /// What the program has to know; offsets count from the start of the port's region.
    pub layout: LentQueue,
}

/// Sockets that wait for their programs, by token: whose they are, too.
pub(crate) type Waiting = Arc<Mutex<HashMap<u64, (u32, Vec<OwnedFd>)>>>;

/// What is lent, and what of it was not fetched.
#[derive(Debug)]
struct Queues {
    _loan: Loan,
    waiting: Waiting,
    token: u64,
}

impl Drop for Queues {
    fn drop(&mut self) {
        lock(&self.waiting).remove(&self.token);
    }
}

impl Netmap {
    /// `NIOCLENDQ`: for a program that has the device open.
    pub(crate) fn lend_queues(&self, open: &Open, arg: &mut [u8]) -> Result<i32, Errno> {
        let version = arg.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
        if version != Some(LENT_VERSION) || arg.len() != LENT_QUEUES_SIZE {
            return Err(Errno::INVAL);
        }
        let binding = open.may_be_lent()?;
        let mut loan = lock(&binding.loan);
        if loan.is_some() {
            return Err(Errno::BUSY);
        }
        let who = self.kicks()?.number();
        let (lent, made) = binding.port.lend_queues(&binding.rings, who)?;
        if lent.len() > LENT_RINGS {
            return Err(Errno::OPNOTSUPP);
        }
        let at = binding.port.memory().region().at();
        let in_file = |offset: u64| if offset == 0 { 0 } else { offset + at };
        let layout = |one: LentQueue| {
            let [words, tx, rx] = [one.words, one.tx, one.rx].map(in_file);
            LentQueue { words, tx, rx, ..one }
        };
        let layouts: Vec<_> = lent.iter().map(|one| layout(one.layout)).collect();
        let token = RandomState::new().hash_one(who);
        let stamps = !open.domain.params().no_timestamp;
        let answer = lent_queues(who, stamps, token, &layouts).ok_or(Errno::OPNOTSUPP)?;
        let sockets = lent.into_iter().map(|one| one.socket).collect();
        lock(&self.waiting).insert(token, (open.uid(), sockets));
        *loan = Some(Box::new(Queues { _loan: made, waiting: self.waiting.clone(), token }));
        arg.copy_from_slice(&answer);
        Ok(0)
    }

    /// The sockets of the queues that were lent with `token` to a program of the user `uid`; once.
    ///
    /// # Errors
    /// [`Errno::NOENT`]: there are none.
    pub fn sockets(&self, uid: u32, token: u64) -> Result<Vec<OwnedFd>, Errno> {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&token).is_none_or(|(owner, _)| *owner != uid) {
            return Err(Errno::NOENT);
        }
        waiting.remove(&token).map(|(_, sockets)| sockets).ok_or(Errno::NOENT)
    }
}
