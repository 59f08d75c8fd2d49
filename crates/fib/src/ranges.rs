//! Computes the longest match of each address of a prefix, as ascending ranges.

use alloc::vec::Vec;

use crate::prefix::{AddressBits, RoutePrefix};
use crate::rib::{Rib, RouteRecord};

/// The first address of each range, and the value of the addresses in the range.
pub(crate) type AddressRanges<A, V> = Vec<(A, V)>;

/// Returns the ranges of one table within a prefix. The value is `uncovered` where the table has no
/// route.
pub(crate) fn table_ranges<A: AddressBits, V: Copy + PartialEq>(
    rib: &Rib<A>,
    within: RoutePrefix<A>,
    value: impl Fn(RoutePrefix<A>, RouteRecord) -> V,
    uncovered: Option<V>,
) -> AddressRanges<A, Option<V>> {
    let covering = rib.covering(within);
    let base = covering.and_then(|around| Some(value(around, rib.first(around)?))).or(uncovered);
    let mut sweep = Sweep { out: alloc::vec![(within.start, base)], open: Vec::new(), base };
    for (prefix, record) in rib.inside(within) {
        sweep.close_before(Some(prefix.start));
        sweep.push(prefix.start, Some(value(prefix, record)));
        sweep.open.push((prefix.last(), Some(value(prefix, record))));
    }
    let last = within.last();
    sweep.close_before(last.next());
    // A range that begins after the end of this prefix belongs to the next prefix.
    sweep.out.pop_if(|range| range.0 > last);
    sweep.out
}

/// The prefixes that contain the present address, and the ranges so far.
struct Sweep<A, V> {
    out: AddressRanges<A, V>,
    /// The last address and the value of each prefix that contains the present address. The
    /// innermost prefix is last.
    open: Vec<(A, V)>,
    base: V,
}

impl<A: AddressBits, V: Copy + PartialEq> Sweep<A, V> {
    /// Ends the prefixes whose last address is before `next`; all prefixes if it is `None`.
    fn close_before(&mut self, next: Option<A>) {
        while let Some((last, _)) = self.open.pop_if(|open| next.is_none_or(|next| open.0 < next)) {
            let outer = self.open.last().map_or(self.base, |open| open.1);
            if let Some(after) = last.next() {
                self.push(after, outer);
            }
        }
    }

    fn push(&mut self, start: A, value: V) {
        self.out.pop_if(|range| range.0 == start);
        if self.out.last().is_none_or(|range| range.1 != value) {
            self.out.push((start, value));
        }
    }
}

/// Overlays ranges: where an upper range has no value, the value of the lower range applies. Both
/// lists must begin at the same address.
pub(crate) fn overlay<A: AddressBits, V: Copy + PartialEq>(
    upper: &AddressRanges<A, Option<V>>,
    lower: AddressRanges<A, Option<V>>,
) -> AddressRanges<A, Option<V>> {
    if let [(_, None)] = upper[..] {
        return lower;
    }
    let mut out: AddressRanges<A, Option<V>> = Vec::with_capacity(upper.len() + lower.len());
    let (mut above, mut below) = (upper.iter().peekable(), lower.iter().peekable());
    let (mut top, mut bottom) = (None, None);
    while let Some(start) =
        [above.peek(), below.peek()].into_iter().flatten().map(|range| range.0).min()
    {
        if let Some(range) = above.next_if(|range| range.0 == start) {
            top = range.1;
        }
        if let Some(range) = below.next_if(|range| range.0 == start) {
            bottom = range.1;
        }
        let value = top.or(bottom);
        if out.last().is_none_or(|range| range.1 != value) {
            out.push((start, value));
        }
    }
    out
}

/// Returns `ranges`, which end at `last`, with the values of single addresses replaced. `ones` has
/// these addresses, in ascending order, and their values.
pub(crate) fn set_ones<A: AddressBits, V: Copy>(
    ranges: &AddressRanges<A, V>,
    ones: &[(A, V)],
    last: A,
) -> AddressRanges<A, V> {
    let mut out = Vec::with_capacity(ranges.len() + 2 * ones.len());
    let mut ones = ones.iter().peekable();
    for (at, &(start, value)) in ranges.iter().enumerate() {
        let next_range = ranges.get(at + 1).map(|next| next.0);
        let is_inside = |address: A| next_range.map_or(address <= last, |next| address < next);
        // The first address for which the range's value must still be written.
        let mut rest = Some(start);
        while let Some(&(one, special)) = ones.next_if(|one| is_inside(one.0)) {
            out.extend(rest.filter(|rest| *rest < one).map(|rest| (rest, value)));
            out.push((one, special));
            rest = one.next().filter(|next| is_inside(*next));
        }
        out.extend(rest.map(|rest| (rest, value)));
    }
    out
}
