//! Stores when frames entered their current link, in networks where frames pass several links.
//!
//! On its first link, a frame's entry time is its arrival time, which the frame's storage records.
//! So networks with single links store nothing here.

use std::collections::HashMap;

use slipring_link::FrameHandle;

/// The entry times, by handle. [`HopTimes::take`] must be called for frames that leave or are lost,
/// since their handles are reused.
#[derive(Debug, Default)]
pub struct HopTimes(HashMap<FrameHandle, HopEntry>);

/// How a frame entered its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopEntry {
    /// When the frame entered the link, in ns.
    pub at_ns: u64,
    /// Whether the link created the frame as a copy.
    pub is_copy: bool,
}

impl HopTimes {
    /// Records that a frame enters another link. Returns how it entered the previous link; `None`
    /// if that was the frame's first link.
    pub fn enter_next(&mut self, handle: FrameHandle, at_ns: u64) -> Option<HopEntry> {
        self.0.insert(handle, HopEntry { at_ns, is_copy: false })
    }

    /// Records that a link made `copy` from frame `handle`.
    pub fn copied(&mut self, handle: FrameHandle, copy: FrameHandle) {
        if let Some(&entered) = self.0.get(&handle) {
            self.0.insert(copy, HopEntry { is_copy: true, ..entered });
        }
    }

    /// Removes a frame that leaves its last link or is lost. Returns how it entered that link;
    /// `None` if that was the frame's first link.
    #[inline]
    pub fn take(&mut self, handle: FrameHandle) -> Option<HopEntry> {
        if self.0.is_empty() { None } else { self.0.remove(&handle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_was_on_its_link_as_long_as_the_original_and_is_a_frame_on_the_next() {
        let (frame, copy) = (FrameHandle(1), FrameHandle(2));
        let mut hops = HopTimes::default();
        hops.copied(frame, copy);
        assert_eq!(hops.enter_next(frame, 100), None);
        hops.copied(frame, copy);
        assert_eq!(hops.enter_next(copy, 300), Some(HopEntry { at_ns: 100, is_copy: true }));
        assert_eq!(hops.take(copy), Some(HopEntry { at_ns: 300, is_copy: false }));
        assert_eq!(hops.take(frame), Some(HopEntry { at_ns: 100, is_copy: false }));
        assert_eq!(hops.take(frame), None);
    }
}
