//! Frames that wait because their output is full.
//!
//! All outputs share a fixed number of buffers. If no buffer is free, the output with the longest
//! queue loses its oldest frame. So an output that is stuck cannot take the buffers of the others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Queues of frames, one per output, over shared buffers.
///
/// ```
/// use slipring_balance::Backlog;
///
/// let mut backlog = Backlog::new(2, 3);
/// assert_eq!(backlog.push(0, b"a"), None);
/// assert_eq!(backlog.push(0, b"b"), None);
/// assert_eq!(backlog.push(1, b"c"), None);
/// // No buffer is left: output 0 waits for most, and loses `a`.
/// assert_eq!(backlog.push(1, b"d"), Some(0));
/// assert_eq!(backlog.front(0), Some(&b"b"[..]));
/// ```
#[derive(Debug)]
pub struct Backlog {
    queues: Vec<VecDeque<Vec<u8>>>,
    /// Buffers that hold no frame. They keep their allocated memory for reuse.
    free: Vec<Vec<u8>>,
    /// How many buffers have not been allocated yet.
    unallocated: usize,
    waiting: usize,
}

impl Backlog {
    /// Makes queues for `outputs` outputs that share `buffers` buffers. If `buffers` is 0, no frame
    /// can wait.
    #[must_use]
    pub fn new(outputs: usize, buffers: usize) -> Self {
        let queues = (0..outputs).map(|_| VecDeque::new()).collect();
        Self { queues, free: Vec::new(), unallocated: buffers, waiting: 0 }
    }

    /// The number of frames that wait, over all outputs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of frames that wait for this output.
    #[must_use]
    pub fn waiting_for(&self, output: usize) -> usize {
        self.queues[output].len()
    }

    /// The number of buffers that hold no frame.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len() + self.unallocated
    }

    /// Adds a frame to the queue of an output. If another frame had to be dropped for it, returns
    /// the output that lost that frame. If there are no buffers at all, `frame` itself is lost and
    /// `output` is returned.
    pub fn push(&mut self, output: usize, frame: &[u8]) -> Option<usize> {
        let (mut buffer, loser) = match self.take() {
            Some(buffer) => (buffer, None),
            None => match self.evict() {
                Some((buffer, loser)) => (buffer, Some(loser)),
                None => return Some(output),
            },
        };
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.queues[output].push_back(buffer);
        self.waiting += 1;
        loser
    }

    /// The oldest frame that waits for an output.
    #[must_use]
    pub fn front(&self, output: usize) -> Option<&[u8]> {
        self.queues[output].front().map(Vec::as_slice)
    }

    /// Removes the oldest frame of an output.
    pub fn pop(&mut self, output: usize) {
        if let Some(buffer) = self.queues[output].pop_front() {
            self.free.push(buffer);
            self.waiting -= 1;
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.free.pop().or_else(|| {
            self.unallocated = self.unallocated.checked_sub(1)?;
            Some(Vec::new())
        })
    }

    fn evict(&mut self) -> Option<(Vec<u8>, usize)> {
        // If several queues are equally long, the first one is taken.
        let longest = (0..self.queues.len()).rev().max_by_key(|&at| self.queues[at].len())?;
        let buffer = self.queues[longest].pop_front()?;
        self.waiting -= 1;
        Some((buffer, longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    #[test]
    fn without_buffers_the_frame_itself_is_lost() {
        let mut backlog = Backlog::new(2, 0);
        assert_eq!(backlog.push(1, b"a"), Some(1));
        assert_eq!(backlog.waiting(), 0);
    }

    proptest! {
        #[test]
        fn frames_wait_in_order_and_none_is_lost_uncounted(
            buffers in 0usize..10,
            steps in prop::collection::vec((0usize..3, any::<bool>()), 1..200),
        ) {
            let mut backlog = Backlog::new(3, buffers);
            let mut model = vec![VecDeque::new(); 3];
            for (number, (output, push)) in (0u8..).cycle().zip(steps) {
                if push {
                    model[output].push_back(number);
                    if let Some(loser) = backlog.push(output, &[number; 3]) {
                        let longest = model.iter().map(VecDeque::len).max().unwrap();
                        prop_assert!(model[loser].len() + 1 >= longest);
                        if buffers == 0 { model[loser].pop_back() } else { model[loser].pop_front() };
                    }
                } else {
                    backlog.pop(output);
                    model[output].pop_front();
                }
                for (output, queue) in model.iter().enumerate() {
                    let front = queue.front().map(|number| vec![*number; 3]);
                    prop_assert_eq!(backlog.front(output), front.as_deref());
                    prop_assert_eq!(backlog.waiting_for(output), queue.len());
                }
                prop_assert_eq!(backlog.waiting() + backlog.free(), buffers);
            }
        }
    }
}
