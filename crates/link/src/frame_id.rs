//! The identity of a frame on each link that it passes.
//!
//! A frame keeps the number with which it entered the network; each entry link counts its own
//! frames. So a link's decision on a frame does not depend on which other frames were lost or
//! copied before.
//!
//! ```text
//!   enters by `a`     copied on `a`       on `b`
//!   number 7     ──>  number 7       ──>  number 7, entered by `a`
//!                └─>  number 7, copy ──>  number 7, entered by `a`, a copy's own trace
//! ```

use alloc::vec::Vec;

use slipring_model::Draws;

/// The identity of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameId {
    /// Position among the frames that entered by the same link, from 0. A copy has the number of
    /// its original.
    pub(crate) number: u64,
    /// Distinguishes frames of the same number. It is 0 on the entry link. On other links, the
    /// upper half is the key of the entry link. The lower half identifies the copy from which the
    /// frame descends, if an earlier link made one. Both are in one word, because frames are stored
    /// and loaded constantly.
    branch: u64,
}

impl FrameId {
    /// Identifies the frame of that number on its entry link.
    #[inline(always)]
    pub(crate) const fn entered(number: u64) -> Self {
        Self { number, branch: 0 }
    }

    /// Identifies the frame of that number on a [branch](Self::branch).
    #[inline(always)]
    pub(crate) const fn on_branch(number: u64, branch: u64) -> Self {
        Self { number, branch }
    }

    /// The key of the link by which the frame entered; 0 on that link.
    #[inline(always)]
    pub(crate) const fn entered_by(self) -> u32 {
        (self.branch >> 32) as u32
    }

    /// Returns the word that distinguishes frames of the same number; 0 on the entry link.
    #[inline(always)]
    pub(crate) const fn branch(self) -> u64 {
        self.branch
    }

    /// Returns the index by which the random numbers for this frame are drawn.
    #[inline(always)]
    pub(crate) const fn draw(self) -> u64 {
        // An odd factor maps different branches to different values. A large factor sets high
        // bits, which frame numbers do not use because they are small.
        self.number ^ self.branch.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Maps the identity of a frame to its identity on the next link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameIdMapper {
    /// The link's key, see [`FrameId::entered_by`]; not 0.
    pub(crate) key: u32,
    /// Distinguishes copies of one frame that different links made.
    pub(crate) copies: Draws,
}

impl FrameIdMapper {
    /// Returns the identity of a frame, or of its copy number `copy` (from 1), on the next link.
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

/// For each entry link, the number of the first frame for which a stage uses its current
/// specification.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstFrameNumbers {
    /// The first number for frames that enter by this link.
    pub(crate) local: u64,
    /// The first numbers for other frames: link keys in ascending order, each with its number; 0
    /// applies to a key that is not listed.
    pub(crate) by_link: Vec<(u32, u64)>,
}

impl FirstFrameNumbers {
    /// Returns the first number for the link by which this frame entered.
    #[inline]
    pub(crate) fn of(&self, frame: FrameId) -> u64 {
        if frame.entered_by() == 0 {
            return self.local;
        }
        let found = self.by_link.binary_search_by_key(&frame.entered_by(), |(key, _)| *key);
        found.map_or(0, |found| self.by_link[found].1)
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

    #[test]
    fn a_frame_is_on_branch_0_only_on_the_link_of_its_entry() {
        let link = FrameIdMapper { key: 9, copies: Draws::new(3, "a") };
        let original = FrameId::entered(7);
        let branches = [original, link.id(original, 0), link.id(original, 1)].map(FrameId::branch);
        assert_eq!(branches[..2], [0, 9 << 32]);
        assert_eq!(branches[2] >> 32, 9);
        assert_ne!(branches[2] as u32, 0, "a copy has a trace of its own");
        assert_eq!(FrameId::on_branch(7, branches[2]).branch(), branches[2]);
    }
}
