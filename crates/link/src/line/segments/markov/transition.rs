//! The transition probabilities of a Markov chain of rates over a given time.
//!
//! The probabilities are the matrix exponential of the transition rates, computed by scaling and
//! squaring (Moler and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix",
//! method 3).

use alloc::vec::Vec;

use crate::spec::MarkovState;

/// Number of terms of the series. At [`SERIES_TIME`], the remainder is below the precision of
/// `f64`.
const SERIES_TERMS: u32 = 9;
/// Maximum expected number of transitions in the time for which the series is summed.
const SERIES_TIME: f64 = 1.0 / 64.0;

/// Chooses a state by the states' `weights` and returns its index. `own` is the random number of
/// this choice, in [0, 1).
pub(super) fn draw(
    weights: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone,
    own: f64,
) -> usize {
    let mut left = own * weights.clone().sum::<f64>();
    let chosen = weights.clone().position(|weight| {
        left -= weight;
        left < 0.0
    });
    // If rounding leaves a remainder, the last possible state is chosen.
    chosen.or_else(|| weights.clone().rposition(|weight| weight > 0.0)).unwrap_or(0)
}

/// A square matrix, row by row.
pub(super) struct TransitionMatrix {
    size: usize,
    cells: Vec<f64>,
}

impl TransitionMatrix {
    fn of(size: usize, cell: impl Fn(usize, usize) -> f64) -> Self {
        let cell = |at| cell(at / size, at % size);
        Self { size, cells: (0..size * size).map(cell).collect() }
    }

    /// Returns the probabilities of each state after `time_ns` (columns), given the state before
    /// (rows).
    pub(super) fn over(states: &[MarkovState], time_ns: u64) -> Self {
        let shortest_ns = states.iter().map(|state| state.mean_ns).min().unwrap_or(1).max(1);
        let (mut time_ns, mut doublings) = (time_ns as f64, 0);
        while time_ns > SERIES_TIME * shortest_ns as f64 {
            time_ns /= 2.0;
            doublings += 1;
        }
        let mut chances = Self::series(&Self::changes(states, time_ns));
        for _ in 0..doublings {
            chances = chances.times(&chances).normalised();
        }
        chances
    }

    /// For a matrix that covers a time t: returns the weights of the states at t, given the states
    /// at 0 and at 2t.
    pub(super) fn between(
        &self,
        before: usize,
        after: usize,
    ) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone {
        (0..self.size).map(move |middle| self.row(before)[middle] * self.row(middle)[after])
    }

    /// Expected number of transitions from each state (row) to each other state (column) within
    /// `time_ns`, which is much shorter than the mean time in any state. Each element of the
    /// diagonal is minus the expected number of transitions out of its state.
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

    /// Computes the exponential of a matrix with small entries by its power series.
    fn series(small: &Self) -> Self {
        let one = |row, column| f64::from(u8::from(row == column));
        let mut sum = Self::of(small.size, one);
        for term in (1..=SERIES_TERMS).rev() {
            let product = small.times(&sum);
            sum = Self::of(small.size, |row, column| {
                one(row, column) + product.row(row)[column] / f64::from(term)
            });
        }
        sum.normalised()
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        Self::of(self.size, |row, column| {
            let cells = self.row(row).iter().enumerate();
            cells.map(|(middle, cell)| cell * other.row(middle)[column]).sum()
        })
    }

    /// Removes rounding errors: each row of probabilities sums to 1.
    pub(super) fn normalised(mut self) -> Self {
        for row in self.cells.chunks_exact_mut(self.size) {
            row.iter_mut().for_each(|cell| *cell = cell.max(0.0));
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|cell| *cell /= sum);
        }
        self
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.size..][..self.size]
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn chances(states: &[(u64, &[f64])], time_ns: u64) -> Vec<f64> {
        let state =
            |&(mean_ns, next): &(u64, &[f64])| MarkovState { bps: 1, mean_ns, next: next.to_vec() };
        let states: Vec<_> = states.iter().map(state).collect();
        TransitionMatrix::over(&states, time_ns).cells
    }

    fn assert_near(found: &[f64], wanted: &[f64]) {
        let near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9);
        assert!(near && found.len() == wanted.len(), "{found:?} {wanted:?}");
    }

    /// The expected values are the closed-form solutions of Kolmogorov's forward equations for
    /// these chains.
    #[test]
    fn the_probabilities_over_a_time_are_those_of_the_closed_solutions() {
        for time_ns in [1, 10, 100, 1_000] {
            let time = time_ns as f64;
            // Two states with mean times of 100 ns and 300 ns.
            let decay = libm::exp(-time * (1.0 / 100.0 + 1.0 / 300.0));
            let two = [
                0.25 + 0.75 * decay,
                0.75 * (1.0 - decay),
                0.25 * (1.0 - decay),
                0.75 + 0.25 * decay,
            ];
            assert_near(&chances(&[(100, &[]), (300, &[])], time_ns), &two);
            assert_near(&chances(&[(100, &[0.0, 5.0]), (300, &[2.0, 0.0])], time_ns), &two);
            // A chain with one state stays in this state.
            assert_near(&chances(&[(100, &[])], time_ns), &[1.0]);
            // Three states with equal mean times; each of the other two states follows with equal
            // probability.
            let decay = libm::exp(-time * 1.5 / 100.0);
            let (stay, go) = ((1.0 + 2.0 * decay) / 3.0, (1.0 - decay) / 3.0);
            let three = [stay, go, go, go, stay, go, go, go, stay];
            let equal: [(u64, &[f64]); 3] = [(100, &[]); 3];
            assert_near(&chances(&equal, time_ns), &three);
        }
    }

    #[test]
    fn a_state_without_weight_is_never_chosen() {
        let drawn = |weights: &[f64], own| draw(weights.iter().copied(), own);
        let weights = vec![0.0, 1.0, 0.0, 3.0, 0.0];
        let chosen = [0.0, 0.24, 0.26, 0.99, 1.0].map(|own| drawn(&weights, own));
        assert_eq!(chosen, [1, 1, 3, 3, 3]);
    }
}
