//! Sets of values of a field, as ranges.
//!
//! # Invariants of a [`RangeSet`]
//! Its ranges are sorted, do not overlap, and do not touch.

use alloc::vec;
use alloc::vec::Vec;

/// A value of a field, in one of several families: for example an IPv4 address, an IPv6 address, or
/// no address.
///
/// Points are ordered by family first. One set of ranges can therefore hold values of all families,
/// and its complement contains all other values of the field, of every family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPoint {
    /// The kind of the value; the caller assigns the numbers.
    pub family: u8,
    /// The value.
    pub value: u128,
}

impl FieldPoint {
    /// The first of all points.
    pub const MIN: Self = Self { family: 0, value: 0 };
    /// The last of all points.
    pub const MAX: Self = Self { family: u8::MAX, value: u128::MAX };

    /// Makes a value of a family.
    #[must_use]
    pub const fn new(family: u8, value: u128) -> Self {
        Self { family, value }
    }

    /// The next point; `None` after [`Self::MAX`].
    #[must_use]
    pub fn after(self) -> Option<Self> {
        match self.value.checked_add(1) {
            Some(value) => Some(Self { value, ..self }),
            None => Some(Self { family: self.family.checked_add(1)?, value: 0 }),
        }
    }

    fn before(self) -> Option<Self> {
        match self.value.checked_sub(1) {
            Some(value) => Some(Self { value, ..self }),
            None => Some(Self { family: self.family.checked_sub(1)?, value: u128::MAX }),
        }
    }
}

/// All points between a first and a last one, inclusive.
pub type PointRange = (FieldPoint, FieldPoint);

/// A set of points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(Vec<PointRange>);

impl RangeSet {
    /// Every point.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![(FieldPoint::MIN, FieldPoint::MAX)])
    }

    /// All values of a family.
    #[must_use]
    pub fn family(family: u8) -> Self {
        Self(vec![(FieldPoint::new(family, 0), FieldPoint::new(family, u128::MAX))])
    }

    /// The values from `first` to `last` of a family; empty if `last` is before `first`.
    #[must_use]
    pub fn of(family: u8, first: u128, last: u128) -> Self {
        [(FieldPoint::new(family, first), FieldPoint::new(family, last))].into_iter().collect()
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[PointRange] {
        &self.0
    }

    /// Returns whether the set has no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains a point.
    #[must_use]
    pub fn contains(&self, point: FieldPoint) -> bool {
        let at = self.0.partition_point(|range| range.1 < point);
        self.0.get(at).is_some_and(|range| range.0 <= point)
    }

    /// The points that are not in the set.
    #[must_use]
    pub fn complement(&self) -> Self {
        let (mut free, mut gaps) = (Some(FieldPoint::MIN), Vec::new());
        for &(first, last) in &self.0 {
            if let (Some(from), Some(to)) = (free, first.before())
                && from <= to
            {
                gaps.push((from, to));
            }
            free = last.after();
        }
        gaps.extend(free.map(|from| (from, FieldPoint::MAX)));
        Self(gaps)
    }

    /// The points that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut here, mut there, mut both) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.0.get(here), other.0.get(there)) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                both.push((first, last));
            }
            if a.1 <= b.1 {
                here += 1;
            } else {
                there += 1;
            }
        }
        Self(both)
    }

    /// The points that are in at least one of the sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect()
    }
}

impl FromIterator<PointRange> for RangeSet {
    /// Accepts ranges in any order; merges those that overlap or touch, and drops empty ones.
    fn from_iter<I: IntoIterator<Item = PointRange>>(ranges: I) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|range| range.0 <= range.1).collect();
        ranges.sort_unstable();
        let mut merged: Vec<PointRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if last.1.after().is_none_or(|next| range.0 <= next) => {
                    last.1 = last.1.max(range.1);
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets() -> impl Strategy<Value = RangeSet> {
        let point = (0..3_u8, prop_oneof![0..12_u128, Just(u128::MAX), Just(u128::MAX - 1)]);
        let point = point.prop_map(|(family, value)| FieldPoint { family, value });
        prop::collection::vec((point.clone(), point), 0..6)
            .prop_map(|all| all.into_iter().collect())
    }

    fn probes() -> impl Iterator<Item = FieldPoint> {
        let values = || (0..14).chain([u128::MAX - 2, u128::MAX - 1, u128::MAX]);
        (0..4).flat_map(move |family| values().map(move |value| FieldPoint { family, value }))
    }

    fn is_normal(set: &RangeSet) -> bool {
        set.0.windows(2).all(|pair| pair[0].1.after().is_some_and(|next| next < pair[1].0))
    }

    proptest! {
        #[test]
        fn sets_are_what_their_points_are(a in sets(), b in sets()) {
            let (not, and, or) = (a.complement(), a.intersection(&b), a.union(&b));
            prop_assert!([&a, &not, &and, &or].into_iter().all(is_normal));
            for point in probes() {
                let (in_a, in_b) = (a.contains(point), b.contains(point));
                prop_assert_eq!(not.contains(point), !in_a);
                prop_assert_eq!(and.contains(point), in_a && in_b);
                prop_assert_eq!(or.contains(point), in_a || in_b);
            }
        }
    }

    #[test]
    fn a_family_is_apart_from_all_others() {
        let v4 = RangeSet::family(1);
        assert!(v4.contains(FieldPoint::new(1, u128::MAX)) && !v4.contains(FieldPoint::new(2, 0)));
        assert_eq!(v4.complement().complement(), v4);
        assert_eq!(RangeSet::all().complement(), RangeSet::default());
        assert!(RangeSet::of(0, 2, 1).is_empty());
        let few = RangeSet::of(1, 2, 4);
        let found = [1, 2, 4, 5].map(|value| few.contains(FieldPoint::new(1, value)));
        assert_eq!((few.is_empty(), found), (false, [false, true, true, false]));
    }
}
