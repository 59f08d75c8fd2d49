//! When frames entered the link that they are on, in networks where they pass several.
//!
//! A frame on its first link entered it when it arrived, which its storage knows: nothing is kept
//! of it. So where no frame passes from one link to another nothing is kept at all.

use std::collections::HashMap;

use slipring_link::Handle;

/// See the module. Frames that leave or are lost must be [taken out](Hops::leave), since others
/// get their handles.
#[derive(Debug, Default)]
pub struct Hops(HashMap<Handle, Entered>);

/// How a frame came to be on its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// When.
    pub at_ns: u64,
    /// Whether that link made it.
    pub is_copy: bool,
}

impl Hops {
    /// A frame enters another link; how it came to be on the one before, unless that was its
    /// first.
    pub fn pass(&mut self, handle: Handle, at_ns: u64) -> Option<Entered> {
        self.0.insert(handle, Entered { at_ns, is_copy: false })
    }

    /// A link made a copy of a frame.
    pub fn copied(&mut self, handle: Handle, copy: Handle) {
        if let Some(&entered) = self.0.get(&handle) {
            self.0.insert(copy, Entered { is_copy: true, ..entered });
        }
    }

    /// A frame leaves the last link; how it came to be there, unless that was its first.
    #[inline]
    pub fn leave(&mut self, handle: Handle) -> Option<Entered> {
        if self.0.is_empty() { None } else { self.0.remove(&handle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_was_on_its_link_as_long_as_the_original_and_is_a_frame_on_the_next() {
        let (frame, copy) = (Handle(1), Handle(2));
        let mut hops = Hops::default();
        hops.copied(frame, copy);
        assert_eq!(hops.pass(frame, 100), None);
        hops.copied(frame, copy);
        assert_eq!(hops.pass(copy, 300), Some(Entered { at_ns: 100, is_copy: true }));
        assert_eq!(hops.leave(copy), Some(Entered { at_ns: 300, is_copy: false }));
        assert_eq!(hops.leave(frame), Some(Entered { at_ns: 100, is_copy: false }));
        assert_eq!(hops.leave(frame), None);
    }
}
