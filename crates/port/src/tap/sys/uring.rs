//! Writing many frames with one system call, by io_uring.
//!
//! Every call waits until all its submitted requests are done, so nothing is in flight between
//! calls. A submission that has failed leaves requests in the queue, and the queue is not used any
//! more.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::Entry;
use io_uring::types::Fixed;
use io_uring::{IoUring, opcode};
use slipring_ring::Region;

use crate::gather::{GatherList, IoVec};

/// Maximum number of frames per system call.
pub(in super::super) const MAX_BATCH: usize = 64;
/// Bytes of the largest buffer that the kernel lets a program register.
const CHUNK: usize = 1 << 30;

/// An io_uring whose file 0 is a queue of a TAP device.
pub(in super::super) struct TapUring {
    ring: IoUring,
    registered: Option<RegisteredChunks>,
    /// Whether a submission has failed.
    failed: bool,
}

/// The part of the region that is registered: chunks of [`CHUNK`] bytes, numbered from 0.
#[derive(Debug, Clone, Copy)]
struct RegisteredChunks {
    start: usize,
    len: usize,
}

impl RegisteredChunks {
    /// Returns the number of the chunk that contains all of `part`; `None` if no chunk does.
    fn chunk(self, part: IoVec) -> Option<u16> {
        let first = part.address().checked_sub(self.start)?;
        let last = first + part.len() - 1;
        (last < self.len && first / CHUNK == last / CHUNK).then_some((first / CHUNK) as u16)
    }
}

impl TapUring {
    /// Creates a ring for frames in `region`.
    ///
    /// # Errors
    /// The kernel's error, if it does not have io_uring or does not allow it.
    pub(in super::super) fn new(tun: BorrowedFd<'_>, region: &Region) -> io::Result<Self> {
        let ring = IoUring::builder().setup_coop_taskrun().build(MAX_BATCH as u32)?;
        ring.submitter().register_files(&[tun.as_raw_fd()])?;
        // Registering fails if the limit of locked memory is too low. Then buffers are not
        // registered.
        let registered = register(&ring, region).ok();
        Ok(Self { ring, registered, failed: false })
    }

    /// Writes frames of `run` from number `first` on, at most [`MAX_BATCH`]; returns their number.
    /// `results` gets the kernel's result for each frame; a negative number is an error.
    ///
    /// # Errors
    /// The kernel's error, if the requests could not be submitted. All later calls fail, too.
    pub(in super::super) fn write(
        &mut self,
        run: &GatherList,
        first: usize,
        results: &mut [i32; MAX_BATCH],
    ) -> io::Result<usize> {
        if self.failed {
            return Err(io::Error::other("an earlier submission has failed"));
        }
        let count = (run.len() - first).min(MAX_BATCH);
        let mut queue = self.ring.submission();
        for i in 0..count {
            let entry = entry(run.iovecs(first + i), self.registered).user_data(i as u64);
            // SAFETY:
            // - The parts lie in a region that `run` keeps mapped (its invariant 1), and are only
            //   read. `run` itself is borrowed until `wait` has seen all entries done.
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok(), "the queue has BATCH entries and was empty");
        }
        drop(queue);
        self.wait(count, results)?;
        Ok(count)
    }

    /// Submits the requests and waits for `count` completions.
    fn wait(&mut self, count: usize, results: &mut [i32; MAX_BATCH]) -> io::Result<()> {
        let mut done = 0;
        while done < count {
            match self.ring.submit_and_wait(count - done) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.abandon(count - done);
                    return Err(error);
                }
                _ => {}
            }
            for completion in self.ring.completion() {
                if let Some(result) = results.get_mut(completion.user_data() as usize) {
                    *result = completion.result();
                }
                done += 1;
            }
        }
        Ok(())
    }

    /// Gives up the ring after a failed submission. `open` is the number of requests whose
    /// completions have not been read. Waits for the completions of those among them that the
    /// kernel has taken, because the kernel may still read their buffers.
    #[cold]
    fn abandon(&mut self, open: usize) {
        self.failed = true;
        let mut in_flight = open - self.ring.submission().len();
        while in_flight > 0 {
            // The kernel completes requests when this thread leaves a system call.
            std::thread::yield_now();
            in_flight -= self.ring.completion().count();
        }
    }
}

/// Builds the request to write one frame.
#[inline(always)]
fn entry(parts: &[IoVec], registered: Option<RegisteredChunks>) -> Entry {
    let tun = Fixed(0);
    let [part] = *parts else {
        return opcode::Writev::new(tun, parts.as_ptr().cast(), parts.len() as u32).build();
    };
    let address = std::ptr::with_exposed_provenance(part.address());
    match registered.and_then(|registered| registered.chunk(part)) {
        Some(chunk) => opcode::WriteFixed::new(tun, address, part.len() as u32, chunk).build(),
        None => opcode::Write::new(tun, address, part.len() as u32).build(),
    }
}

impl Drop for TapUring {
    fn drop(&mut self) {
        // The kernel frees an io_uring later than this process drops it, and would keep the device
        // in use until then.
        let _ = self.ring.submitter().unregister_files();
    }
}

fn register(ring: &IoUring, region: &Region) -> io::Result<RegisteredChunks> {
    let start = region.base().as_ptr().expose_provenance() + region.buf_start() as usize;
    let len = (region.size() - region.buf_start()) as usize;
    let chunks = (0..len).step_by(CHUNK).map(|at| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(start + at),
        iov_len: CHUNK.min(len - at),
    });
    let chunks = chunks.collect::<Vec<_>>();
    // SAFETY:
    // - All chunks lie in the region's mapping: they end where it does.
    // - The kernel holds the pages themselves, so they outlive the mapping; it only reads them.
    unsafe { ring.submitter().register_buffers(&chunks) }?;
    Ok(RegisteredChunks { start, len })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use slipring_ring::{Geometry, HugePages};
    use slipring_test_support::skip;

    use super::*;

    #[test]
    fn a_failed_submission_leaves_nothing_that_a_later_call_would_submit() {
        let region = Region::create(Geometry::default(), HugePages::Never).unwrap();
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let Ok(mut uring) = TapUring::new(null.as_fd(), &region) else {
            return skip!("no io_uring here");
        };
        let mut queue = uring.ring.submission();
        for i in 0..3 {
            // SAFETY: the request has no memory.
            unsafe { queue.push(&opcode::Nop::new().build().user_data(i)) }.unwrap();
        }
        drop(queue);
        uring.abandon(3);
        assert!(uring.failed);
        assert_eq!(uring.ring.submission().len(), 3, "the kernel has not taken them");
        let run = GatherList::new(&region, 4);
        assert!(uring.write(&run, 0, &mut [0; MAX_BATCH]).is_err());
        assert_eq!(uring.ring.submission().len(), 3);
    }

    #[test]
    fn a_failed_submission_waits_for_the_requests_that_the_kernel_has_taken() {
        let region = Region::create(Geometry::default(), HugePages::Never).unwrap();
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let Ok(mut uring) = TapUring::new(null.as_fd(), &region) else {
            return skip!("no io_uring here");
        };
        // SAFETY: the request has no memory.
        unsafe { uring.ring.submission().push(&opcode::Nop::new().build()) }.unwrap();
        uring.ring.submit().unwrap();
        uring.abandon(1);
        assert_eq!(uring.ring.completion().count(), 0, "its completion was taken");
    }
}
