//! An io_uring with which the kernel delivers requests and takes replies, and the buffers for both.
//!
//! ```text
//!   register --->  the kernel has the entry  --- a request ----->  ours: read, answered later
//!                        ^                                            |
//!                        '------------------ commit ------------------'
//! ```
//!
//! # Invariants
//! 1. This process accesses a buffer only while it owns the buffer's entry (`is_ours`). The kernel
//!    accesses it only while it owns the entry.
//! 2. Buffers are unmapped only when this process owns all entries.
//! 3. Only the thread that made the ring submits to it and reads it. The kernel refuses other
//!    threads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use crate::proto::uring::{self, COMMIT_AND_FETCH, REGISTER};

mod slab;

use slab::Slab;

/// Maximum number of commands that are submitted to the kernel together.
const SUBMISSION_ENTRIES: u32 = 64;
/// Number of entries of the completion ring. If it is full, the kernel keeps further completions
/// until there is space.
const COMPLETION_ENTRIES: u32 = 512;
/// User data of the command that polls the wake-up descriptor. Only this command belongs to no
/// entry.
const WAKEUP_TOKEN: u64 = u64::MAX;

/// The index of a ring entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UringEntryId(usize);

#[cfg(test)]
impl UringEntryId {
    pub(crate) fn first() -> Self {
        Self(0)
    }
}

/// An event from the ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UringEvent {
    /// A request has arrived. This process owns its entry until [`FuseUring::commit`].
    Request(UringEntryId),
    /// The descriptor passed to [`FuseUring::poll_wakeup`] is readable.
    Wakeup,
    /// The kernel has ended the entry, because the device was unmounted or a command was invalid.
    Ended(Errno),
}

/// The ring and its entries.
pub(crate) struct FuseUring {
    uring: IoUring<Entry128>,
    device: RawFd,
    entries: Vec<UringEntry>,
    /// For each of the kernel's queues, the number of entries that the kernel owns.
    kernel_entries: Vec<u32>,
    slabs: Vec<Slab>,
    payload: usize,
}

#[derive(Debug, Clone, Copy)]
struct UringEntry {
    /// The queue of the kernel to which the entry belongs.
    queue: u16,
    is_ours: bool,
    /// The number by which the kernel identifies the current request when it is answered.
    commit: u64,
}

impl FuseUring {
    /// Creates a ring for the connection `device`, which must stay open. Only the calling thread
    /// may use the ring.
    ///
    /// # Errors
    /// The kernel's error if io_uring is not available.
    pub(crate) fn new(device: BorrowedFd<'_>) -> io::Result<Self> {
        let mut builder = IoUring::<Entry128>::builder();
        // With these settings, the kernel processes completions only while this thread waits for
        // them.
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
        let uring = builder.setup_cqsize(COMPLETION_ENTRIES).build(SUBMISSION_ENTRIES)?;
        let payload = uring::payload(rustix::param::page_size());
        let device = device.as_raw_fd();
        let (entries, lent, slabs) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { uring, device, entries, kernel_entries: lent, slabs, payload })
    }

    /// Registers one more entry for `queue` with the kernel.
    ///
    /// # Errors
    /// The system's error if no memory is left or the kernel refuses the entry.
    pub(crate) fn register_entry(&mut self, queue: u16) -> io::Result<()> {
        let slot = UringEntryId(self.entries.len());
        if slot.0 == self.slabs.len() * Slab::PLACES_PER_SLAB {
            self.slabs.push(Slab::new(self.payload)?);
        }
        self.entries.push(UringEntry { queue, is_ours: false, commit: 0 });
        let queue = usize::from(queue);
        self.kernel_entries.resize(self.kernel_entries.len().max(queue + 1), 0);
        self.kernel_entries[queue] += 1;
        let (slab, index) = self.slab_place(slot);
        let parts = slab.parts(index);
        self.command(slot, REGISTER, Some(parts))?;
        self.submit()
    }

    /// Requests one [`UringEvent::Wakeup`], which is reported when `bell` becomes readable.
    ///
    /// # Errors
    /// The kernel's error if it refuses the command.
    pub(crate) fn poll_wakeup(&mut self, bell: BorrowedFd<'_>) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(bell.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(&poll.user_data(WAKEUP_TOKEN).into())
    }

    /// Submits pending commands and sleeps until an event arrives.
    ///
    /// # Errors
    /// The kernel's error if it refuses to wait. A signal is not an error.
    #[inline]
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        match self.uring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Submits pending commands.
    ///
    /// # Errors
    /// The kernel's error if it refuses the commands.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.uring.submit().map(drop)
    }

    /// Returns the next event; `None` if there is none.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<UringEvent> {
        let done = self.uring.completion().next()?;
        if done.user_data() == WAKEUP_TOKEN {
            return Some(UringEvent::Wakeup);
        }
        let slot = UringEntryId(done.user_data() as usize);
        let entry = &mut self.entries[slot.0];
        // Whatever the result of the command is, the kernel no longer accesses the entry.
        entry.is_ours = true;
        self.kernel_entries[usize::from(entry.queue)] -= 1;
        match done.result() {
            0.. => Some(UringEvent::Request(slot)),
            error => Some(UringEvent::Ended(Errno::from_raw_os_error(-error))),
        }
    }

    /// Returns the number of entries of a queue that the kernel owns.
    #[inline]
    pub(crate) fn kernel_entries(&self, queue: u16) -> u32 {
        self.kernel_entries[usize::from(queue)]
    }

    /// Returns the kernel's queue to which an entry belongs; `None` if the kernel owns the entry.
    #[inline]
    pub(crate) fn owned_queue(&self, slot: UringEntryId) -> Option<u16> {
        let entry = self.entries[slot.0];
        entry.is_ours.then_some(entry.queue)
    }

    /// Writes the request in `slot` to `message`, in the form in which the device would deliver it.
    #[inline]
    pub(crate) fn read(&mut self, slot: UringEntryId, message: &mut Vec<u8>) {
        message.clear();
        if self.owned_queue(slot).is_none() {
            return;
        }
        let (slab, index) = self.slab_place(slot);
        let mut head = [0; uring::HEAD_LEN];
        slab.read(index, 0, &mut head);
        let head = uring::UringHead(&head);
        message.extend(head.header());
        message.extend(head.arguments());
        let start = message.len();
        message.resize(start + head.payload().min(self.payload), 0);
        slab.read(index, uring::HEAD_LEN, &mut message[start..]);
        self.entries[slot.0].commit = head.commit();
    }

    /// Answers the request in `slot`. At the next submit, the entry goes back to the kernel.
    ///
    /// # Errors
    /// The kernel's error if it refuses the command.
    #[inline]
    pub(crate) fn commit(
        &mut self,
        slot: UringEntryId,
        header: [u8; 16],
        body: &[u8],
    ) -> io::Result<()> {
        if self.owned_queue(slot).is_none() {
            return Ok(());
        }
        let body = &body[..body.len().min(self.payload)];
        let (slab, index) = self.slab_place(slot);
        slab.write(index, 0, &header);
        slab.write(index, uring::PAYLOAD_LEN_OFFSET, &(body.len() as u32).to_ne_bytes());
        slab.write(index, uring::HEAD_LEN, body);
        let entry = &mut self.entries[slot.0];
        entry.is_ours = false;
        self.kernel_entries[usize::from(entry.queue)] += 1;
        self.command(slot, COMMIT_AND_FETCH, None)
    }
}

impl FuseUring {
    fn slab_place(&self, slot: UringEntryId) -> (&Slab, usize) {
        (&self.slabs[slot.0 / Slab::PLACES_PER_SLAB], slot.0 % Slab::PLACES_PER_SLAB)
    }

    /// Pushes a command for an entry.
    fn command(
        &mut self,
        slot: UringEntryId,
        what: u32,
        parts: Option<*const libc::iovec>,
    ) -> io::Result<()> {
        let UringEntry { queue, commit, .. } = self.entries[slot.0];
        let mut command = opcode::UringCmd80::new(Fd(self.device), what)
            .cmd(uring::command(commit, queue))
            .addr(parts.map(|parts| parts.expose_provenance() as u64))
            .build()
            .user_data(slot.0 as u64);
        if parts.is_some() {
            set_len(&mut command, Slab::IOVECS_PER_PLACE);
        }
        self.push(&command)
    }

    fn push(&mut self, command: &Entry128) -> io::Result<()> {
        if self.uring.submission().is_full() {
            self.submit()?;
        }
        // SAFETY:
        // - All commands are made in this module. Their pointers refer to slabs, which stay mapped
        //   while the kernel has an entry (invariant 2). This process does not access them during
        //   that time (invariant 1).
        let pushed = unsafe { self.uring.submission().push(command) };
        pushed.map_err(io::Error::other)
    }
}

/// Sets the number of iovecs to which the command's address points. The io_uring crate has no
/// function for this.
fn set_len(command: &mut Entry128, parts: u32) {
    /// The offset of `len` in `struct io_uring_sqe`.
    const LEN: usize = 24;
    const { assert!(size_of::<Entry128>() == 128) };
    let start = std::ptr::from_mut(command).cast::<u8>();
    // SAFETY:
    // - As asserted, `Entry128` has 128 bytes in C's layout. It is borrowed for writing here.
    let len = unsafe { start.add(LEN) };
    // SAFETY:
    // - The four bytes at `LEN` are a plain integer of the first `struct io_uring_sqe`. They are
    //   aligned, because that struct is aligned to 8.
    unsafe { len.cast::<u32>().write(parts) };
}

impl Drop for FuseUring {
    fn drop(&mut self) {
        if self.entries.iter().any(|entry| !entry.is_ours) {
            // The slabs stay mapped for ever, because the kernel may release a ring later than this
            // process does (invariant 2).
            std::mem::forget(std::mem::take(&mut self.slabs));
        }
    }
}
