//! Where a chain of rates is after a long time, without a visit to each state on the way.
//!
//! States last exponentially distributed times, so the chain has no memory: where it is after a
//! time follows from where it was alone. The chances are the matrix exponential of the rates from
//! state to state, here by scaling and squaring (Moler and Van Loan, "Nineteen dubious ways to
//! compute the exponential of a matrix", method 3).
//!
//! Not for: short times, for which a walk is cheaper.

use alloc::vec::Vec;

use slipring_model::Stream;

use crate::spec::MarkovState;

/// Changes that are walked rather than jumped over.
const NEAR: u64 = 1024;
/// Terms of the series; beyond them nothing is left of an `f64` at [`SHORT`].
const TERMS: u32 = 9;
/// Changes to expect in the time for which the series is summed.
const SHORT: f64 = 1.0 / 64.0;

/// Whether a jump costs less than a walk.
pub(super) fn is_far(states: &[MarkovState], ahead_ns: u64) -> bool {
    let size = states.len() as u64;
    ahead_ns / shortest_ns(states) > NEAR.max(size.saturating_pow(3))
}

/// The state that follows `state` after that time.
pub(super) fn after(
    states: &[MarkovState],
    state: usize,
    ahead_ns: u64,
    stream: &mut Stream,
) -> usize {
    let mut time_ns = ahead_ns as f64;
    let mut doublings = 0;
    while time_ns > SHORT * shortest_ns(states) as f64 {
        time_ns /= 2.0;
        doublings += 1;
    }
    let mut chances = Matrix::series(&Matrix::changes(states, time_ns));
    for _ in 0..doublings {
        chances = chances.times(&chances).normalised();
    }
    draw(chances.row(state), stream)
}

fn shortest_ns(states: &[MarkovState]) -> u64 {
    states.iter().map(|state| state.mean_ns).min().unwrap_or(1).max(1)
}

fn draw(chances: &[f64], stream: &mut Stream) -> usize {
    let mut left = stream.next_f64();
    let chosen = chances.iter().position(|&chance| {
        left -= chance;
        left < 0.0
    });
    // Rounding may leave a trace of the sum: the last possible one has it.
    chosen.or_else(|| chances.iter().rposition(|&chance| chance > 0.0)).unwrap_or(0)
}

/// A square matrix, row by row.
struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    fn of(size: usize, cell: impl Fn(usize, usize) -> f64) -> Self {
        let cell = |at| cell(at / size, at % size);
        Self { size, cells: (0..size * size).map(cell).collect() }
    }

    /// How many changes from which state to which other to expect in a short time; leaving a state
    /// counts against it.
    fn changes(states: &[MarkovState], time_ns: f64) -> Self {
        let others = (states.len() - 1).max(1) as f64;
        let sums: Vec<f64> = states.iter().map(|state| state.next.iter().sum()).collect();
        Self::of(states.len(), |from, to| {
            let state = &states[from];
            let leaving = time_ns / state.mean_ns as f64;
            match state.next.get(to) {
                _ if states.len() == 1 => 0.0,
                _ if from == to => -leaving,
                Some(weight) => leaving * (weight / sums[from]),
                None => leaving / others,
            }
        })
    }

    /// The exponential of a matrix that is small.
    fn series(small: &Self) -> Self {
        let one = |row, column| f64::from(u8::from(row == column));
        let mut sum = Self::of(small.size, one);
        for term in (1..=TERMS).rev() {
            let product = small.times(&sum);
            sum = Self::of(small.size, |row, column| {
                one(row, column) + product.row(row)[column] / f64::from(term)
            });
        }
        sum.normalised()
    }

    fn times(&self, other: &Self) -> Self {
        Self::of(self.size, |row, column| {
            let cells = self.row(row).iter().enumerate();
            cells.map(|(middle, cell)| cell * other.row(middle)[column]).sum()
        })
    }

    /// Takes away what rounding added: rows of chances have the sum 1.
    fn normalised(mut self) -> Self {
        for row in self.cells.chunks_exact_mut(self.size) {
            row.iter_mut().for_each(|cell| *cell = cell.max(0.0));
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|cell| *cell /= sum);
        }
        self
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.size..][..self.size]
    }
}
