//! A continuous law that is fast to draw from: its quantile function in a table.
//!
//! The 2⁶⁴ equally likely draws are folded at the median. Each half is divided into octaves towards
//! its end, and each octave into [`CELLS_PER_OCTAVE`] equal cells. The table holds the exact
//! quantiles at the edges of the cells; within a cell the quantile is a straight line. Cells get
//! narrower towards the tails, so a line is off by less than 1e-4 of the distance between the
//! quantiles of 16 % and 84 %, or, in heavy tails, by less than 5e-4 of the value. Laws with
//! even heavier tails are less accurate, such as Pareto with a shape below 0.7. Draws beyond the
//! last octave, once in 2¹⁶ draws, are computed from the law itself: the tails are exact.
//!
//! ```text
//!   draw  0 ............................ 2⁶² ............ 2⁶³ (median)
//!   cells  exact |||||||| | | | | |   |   |   |   |   |   |
//! ```
//!
//! Values are integers in units of 2⁻¹⁰ ns, so a draw costs one multiplication and rounds in the
//! same way on every machine.

use alloc::boxed::Box;

use super::law::{Tail, TruncatedLaw};

/// Number of cells in an octave. `CELL_BITS` is its binary logarithm.
const CELLS_PER_OCTAVE: u32 = 1 << CELL_BITS;
const CELL_BITS: u32 = 5;
/// Number of octaves in the table on each side of the median.
const OCTAVES: u32 = 16;
/// Binary logarithm of the first draw of the lowest octave.
const MIN_EXPONENT: u32 = 63 - OCTAVES;
/// Number of cell edges on each side of the median, which is one more than the number of cells.
const EDGES_PER_HALF: usize = (OCTAVES * CELLS_PER_OCTAVE) as usize + 1;
/// Number of fractional bits of a table value.
const FRACTION_BITS: u32 = 10;

/// The greatest value that a law returns, in ns: about 104 days.
pub(super) const MAX_NS: u64 = (1 << 53) - 1;

/// A truncated law, shifted up by `offset_ns`, and its table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LawTable {
    pub(super) law: TruncatedLaw,
    pub(super) offset_ns: u64,
    /// Quantiles at the cell edges, in units of 2⁻¹⁰ ns: first from the lower tail to the median,
    /// then from the upper tail to the median.
    table: Box<[u64; 2 * EDGES_PER_HALF]>,
}

impl LawTable {
    pub(super) fn new(law: TruncatedLaw, offset_ns: u64) -> Self {
        let edges = |side: fn(f64) -> Tail| {
            (0..EDGES_PER_HALF as u32).map(move |edge| side(edge_draw(edge) as f64 / TWO_64))
        };
        let tails = edges(Tail::Low).chain(edges(Tail::High));
        let fixed = |tail| to_fixed(law.quantile(tail) + offset_ns as f64);
        let mut table = Box::new([0; 2 * EDGES_PER_HALF]);
        for (edge, tail) in table.iter_mut().zip(tails) {
            *edge = fixed(tail);
        }
        Self { law, offset_ns, table }
    }

    /// Returns the value for `draw`, which is one of 2⁶⁴ equally likely numbers, in whole ns.
    #[inline]
    pub(super) fn at(&self, draw: u64) -> u64 {
        let side = draw >> 63;
        // The number of the draw, counted from the nearer end of the distribution.
        let folded = draw ^ side.wrapping_neg();
        // The lowest bit has no effect here. Setting it makes the number nonzero, and leading
        // zeros of a nonzero number are counted faster.
        let zeros = (folded | 1).leading_zeros();
        if zeros > OCTAVES {
            return self.exact(draw);
        }
        let octave = 63 - MIN_EXPONENT - zeros;
        // From the top bit on, `aligned` holds the leading one, the index of the cell, and the
        // offset within the cell.
        let aligned = folded << zeros;
        let cell = (aligned >> (63 - CELL_BITS)) as u32 & (CELLS_PER_OCTAVE - 1);
        let inside = (aligned << (1 + CELL_BITS)) >> 1;
        let edge = (octave * CELLS_PER_OCTAVE + cell) as usize + side as usize * EDGES_PER_HALF;
        let (from, to) = (self.table[edge], self.table[edge + 1]);
        // In the upper half, values decrease towards the median, so the step is negative.
        let step = i128::from(to.wrapping_sub(from) as i64) * i128::from(inside as i64);
        let value = from.wrapping_add((step >> 63) as u64);
        (value + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    }

    /// The value at `draw`, computed from the law.
    #[cold]
    fn exact(&self, draw: u64) -> u64 {
        let value = to_fixed(self.quantile_ns(tail_of(draw)));
        (value + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    }

    /// The exact quantile, not rounded.
    pub(super) fn quantile_ns(&self, tail: Tail) -> f64 {
        self.law.quantile(tail) + self.offset_ns as f64
    }

    /// Returns mean in ns and variance in ns² of the values that are drawn, which are at most
    /// [`MAX_NS`]. The quantile function is taken as straight lines between exact quantiles, as for
    /// draws. The integration ends at the outermost of the 2⁶⁴ draws.
    pub(super) fn moments(&self) -> (f64, f64) {
        // The moments are computed about the median, so that little precision is lost if the mean
        // is far from 0.
        let quantile = |tail| self.quantile_ns(tail).min(MAX_NS as f64);
        let about = quantile(Tail::High(0.5));
        let (mut first, mut second) = (0.0, 0.0);
        let mut add = |weight: f64, a: f64, b: f64| {
            first += weight * (a + b) / 2.0;
            second += weight * (a * a + a * b + b * b) / 3.0;
        };
        for side in [Tail::Low, Tail::High] {
            let at = |draw: f64| quantile(side(draw / TWO_64)) - about;
            let mut outer = at(0.5);
            add(0.5 / TWO_64, outer, outer);
            for octave in 0..64 {
                let start = if octave == 0 { 0.5 } else { (1u64 << (octave - 1)) as f64 };
                for step in 1..=STEPS_PER_OCTAVE {
                    let width = start / f64::from(STEPS_PER_OCTAVE);
                    let inner = at(start + width * f64::from(step));
                    add(width / TWO_64, outer, inner);
                    outer = inner;
                }
            }
        }
        (about + first, second - first * first)
    }
}

/// Number of straight lines per octave in the integration of moments.
const STEPS_PER_OCTAVE: u32 = 32;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// The first draw of the cell that begins at edge number `edge`, counted from the tail.
fn edge_draw(edge: u32) -> u64 {
    let (octave, cell) = (edge / CELLS_PER_OCTAVE, edge % CELLS_PER_OCTAVE);
    u64::from(CELLS_PER_OCTAVE + cell) << (MIN_EXPONENT - CELL_BITS + octave)
}

/// The probability between the middle of `draw` and the nearer end of the distribution.
pub(super) fn tail_of(draw: u64) -> Tail {
    if draw >> 63 == 0 {
        Tail::Low((draw as f64 + 0.5) / TWO_64)
    } else {
        Tail::High((!draw as f64 + 0.5) / TWO_64)
    }
}

fn to_fixed(ns: f64) -> u64 {
    libm::rint(ns.clamp(0.0, MAX_NS as f64) * f64::from(1u32 << FRACTION_BITS)) as u64
}
