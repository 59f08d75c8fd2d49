//! Which frame it is: the same answer on every link that it passes.
//!
//! A frame has the number with which it entered the network, counted by the link that it entered, and
//! keeps it. So what becomes of it on a link is no matter of what others lose or copy on the way there.
//!
//! ```text
//!   enters by `a`     copied on `a`       on `b`
//!   number 7     ──>  number 7       ──>  number 7, entered by `a`
//!                └─>  number 7, copy ──>  number 7, entered by `a`, a copy's own trace
//! ```

use alloc::vec::Vec;

use slipring_model::Draws;

/// Which frame it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameId {
    /// Which one it was, from 0, of those that entered by one link. A copy has that of its original.
    pub(crate) number: u64,
    /// What sets frames of one number apart: 0 where they entered; elsewhere the key of the link by
    /// which they did and, in the lower half, of which copy made on links before this one it is a
    /// trace. In one word, as frames are stored and loaded all the time.
    branch: u64,
}

impl FrameId {
    /// The frame of that number that enters.
    #[inline(always)]
    pub(crate) const fn entered(number: u64) -> Self {
        Self { number, branch: 0 }
    }

    /// The frame of that number on a [branch](Self::branch).
    #[inline(always)]
    pub(crate) const fn on_branch(number: u64, branch: u64) -> Self {
        Self { number, branch }
    }

    /// The key of the link by which it entered; 0 while it is there.
    #[inline(always)]
    pub(crate) const fn entered_by(self) -> u32 {
        (self.branch >> 32) as u32
    }

    /// What sets frames of one number apart: 0 where they entered.
    #[inline(always)]
    pub(crate) const fn branch(self) -> u64 {
        self.branch
    }

    /// By which random numbers are drawn for it.
    #[inline(always)]
    pub(crate) const fn draw(self) -> u64 {
        // Odd, so that two branches never become one; far apart, as numbers are small.
        self.number ^ self.branch.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// How a link tells the next one which frame it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameIdMapper {
    /// The link's key, as [`FrameId::entered_by`]; not 0.
    pub(crate) key: u32,
    /// Tells copies of one frame apart that different links made.
    pub(crate) copies: Draws,
}

impl FrameIdMapper {
    /// The identity of a frame, or of its `copy`th copy from 1 on, behind this link.
    #[inline]
    pub(crate) fn id(self, frame: FrameId, copy: u32) -> FrameId {
        let entered_by = if frame.entered_by() == 0 { self.key } else { frame.entered_by() };
        let copy_trace = match copy {
            0 => frame.branch as u32,
            _ => (self.copies.at(frame.branch) as u32).wrapping_add(copy).max(1),
        };
        FrameId { branch: u64::from(entered_by) << 32 | u64::from(copy_trace), ..frame }
    }
}

/// The first frames that a stage counts, by the links that they entered by.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstFrameNumbers {
    /// Of those that enter by the link itself.
    pub(crate) local: u64,
    /// Of others, by the keys of their links, in order; 0 where one is not listed.
    pub(crate) by_link: Vec<(u32, u64)>,
}

impl FirstFrameNumbers {
    /// The number of the first one on the branch of this frame.
    #[inline]
    pub(crate) fn of(&self, frame: FrameId) -> u64 {
        if frame.entered_by() == 0 {
            return self.local;
        }
        let place = self.by_link.binary_search_by_key(&frame.entered_by(), |(key, _)| *key);
        place.map_or(0, |place| self.by_link[place].1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn copies_of_copies_are_told_apart_and_stay_who_they_are() {
        let link = |name| FrameIdMapper { key: 9, copies: Draws::new(3, name) };
        let (a, b) = (link("a"), link("b"));
        let original = FrameId::entered(7);
        let mut seen = BTreeSet::new();
        for first in 0..40 {
            let behind_a = a.id(original, first);
            assert_eq!((behind_a.number, behind_a.entered_by()), (7, 9));
            for second in 0..40 {
                assert!(seen.insert(b.id(behind_a, second).draw()), "{first} {second}");
            }
        }
        assert_eq!(b.id(a.id(original, 3), 0), a.id(original, 3));
    }
}
