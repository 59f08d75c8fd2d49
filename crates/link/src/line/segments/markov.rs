//! A Markov chain of rates as a function of time.
//!
//! The times in states are exponentially distributed, so the chain is memoryless: the future
//! depends only on the current state. Time is cut into spans. The state at the beginning of a span
//! is called a *point*. Points are drawn from the exact probabilities. The points 1, 2, 4, 8, … are
//! drawn given the point at half their number, rounded down. Every other point is drawn given two
//! points at equal distances before and after it, as the drawing shows. Within a span, paths of the
//! chain are drawn until one ends in the state in which the next span begins (or
//! [`MAX_TRIED_CHANGES`] is reached).
//! So the path does not depend on earlier queries, contains only transitions that the weights
//! allow, and costs the same after any pause.
//!
//! ```text
//!   span   0      1      2      3      4             8
//!          given                       given 2       given 4      forward, twice as far each
//!                        given 1
//!                               between 2 and 4                   from both sides
//! ```

mod transition;

use alloc::vec::Vec;

use slipring_model::{Draws, Stream};

use crate::spec::MarkovState;
use transition::{TransitionMatrix, draw};

pub(super) struct MarkovRate {
    states: Vec<MarkovState>,
    start_ns: u64,
    span_ns: u64,
    /// Draws of the states at the beginnings of spans, and of the paths.
    draws: Draws,
    /// Transition probabilities over 1, 2, 4, … spans, computed when first needed.
    chances: Vec<TransitionMatrix>,
    /// For each level, the two points drawn last, each as its number and its state. The number of a
    /// point is that of the span that begins there. Its level is the number of trailing zero bits
    /// of this number.
    recent_points: Vec<[(u64, usize); 2]>,
    /// The current span.
    span: u64,
    /// The path of the current span: for each state, its end in ns from the beginning of the span,
    /// and the state.
    path: Vec<(u64, usize)>,
    /// Number of path entries already returned.
    emitted: usize,
}

/// Minimum length of a span, as a multiple of the shortest mean time in a state.
const SPAN_IN_SHORTEST_STATES: u64 = 32;
/// Maximum number of spans within the longest mean time in a state.
const MAX_SPANS_PER_STATE: u64 = 4096;
/// Maximum number of transitions tried for a span. The last path is then accepted, even if the next
/// span begins with a transition that the chain does not have.
const MAX_TRIED_CHANGES: u32 = 1 << 20;
/// Marks an unused entry: no point has this number.
const NO_POINT: u64 = u64::MAX;

impl MarkovRate {
    pub(super) fn new(states: &[MarkovState], draws: Draws, start_ns: u64) -> Self {
        let times = || states.iter().map(|state| state.mean_ns);
        let shortest_ns = times().min().unwrap_or(1);
        let longest_ns = times().max().unwrap_or(1);
        let span_ns = shortest_ns
            .saturating_mul(SPAN_IN_SHORTEST_STATES)
            .max(longest_ns / MAX_SPANS_PER_STATE);
        let chances = alloc::vec![TransitionMatrix::over(states, span_ns)];
        let known = alloc::vec![[(NO_POINT, 0); 2]; u64::BITS as usize];
        let (states, walk) = (states.to_vec(), Vec::new());
        let mut chain = Self {
            states,
            start_ns,
            span_ns,
            draws,
            chances,
            recent_points: known,
            span: 0,
            path: walk,
            emitted: 0,
        };
        chain.enter(0);
        chain
    }

    /// Returns the end and the rate of the state after the last one returned.
    pub(super) fn next(&mut self) -> (u64, u64) {
        if self.emitted == self.path.len() {
            self.enter(self.span + 1);
        }
        let (end_ns, state) = self.path[self.emitted];
        self.emitted += 1;
        (self.begin_ns().saturating_add(end_ns), self.states[state].bps)
    }

    /// Skips the spans before the span that contains `target_ns`. Returns when that span begins, in
    /// ns; 0 if no span was skipped.
    pub(super) fn skip_to(&mut self, target_ns: u64) -> u64 {
        let span = target_ns.saturating_sub(self.start_ns) / self.span_ns;
        if span <= self.span {
            return 0;
        }
        self.enter(span);
        self.begin_ns()
    }

    fn begin_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.span.saturating_mul(self.span_ns))
    }

    /// Draws the path of a span and makes it the current span.
    fn enter(&mut self, span: u64) {
        let (from, to) = (self.point(span), self.point(span + 1));
        // `!span` makes this random stream differ from the streams of the points.
        let mut stream = self.draws.stream(!span);
        let mut tried = 0;
        while tried < MAX_TRIED_CHANGES && self.try_walk(from, &mut tried, &mut stream) != to {}
        (self.span, self.emitted) = (span, 0);
    }

    /// Draws a path through a span; returns the state at its end. Adds the number of transitions to
    /// `tried`, and 1 for the end of the span.
    fn try_walk(&mut self, from: usize, tried: &mut u32, stream: &mut Stream) -> usize {
        let (mut state, mut at_ns) = (from, 0_u64);
        self.path.clear();
        loop {
            *tried += 1;
            at_ns = at_ns.saturating_add(exponential(self.states[state].mean_ns, stream));
            if at_ns >= self.span_ns || *tried >= MAX_TRIED_CHANGES {
                self.path.push((self.span_ns, state));
                return state;
            }
            self.path.push((at_ns, state));
            state = follow(&self.states, state, stream);
        }
    }

    /// Returns the state at the beginning of span `number`.
    fn point(&mut self, number: u64) -> usize {
        if number == 0 {
            return 0;
        }
        let level = number.trailing_zeros() as usize;
        let known = self.recent_points[level].iter().find(|(other, _)| *other == number);
        if let Some((_, state)) = known {
            return *state;
        }
        let own = self.draws.stream(number).next_f64();
        let state = if number.is_power_of_two() {
            let before = self.point(number / 2);
            let chances = self.chances(level.saturating_sub(1));
            draw(chances.row(before).iter().copied(), own)
        } else {
            let half = 1 << level;
            let (before, after) = (self.point(number - half), self.point(number + half));
            draw(self.chances(level).between(before, after), own)
        };
        self.recent_points[level] = [self.recent_points[level][1], (number, state)];
        state
    }

    /// Transition probabilities over 2^`level` spans.
    fn chances(&mut self, level: usize) -> &TransitionMatrix {
        while self.chances.len() <= level {
            let last = &self.chances[self.chances.len() - 1];
            let next = last.times(last).normalised();
            self.chances.push(next);
        }
        &self.chances[level]
    }
}

/// Draws the state that follows state `now`.
fn follow(states: &[MarkovState], now: usize, stream: &mut Stream) -> usize {
    if states.len() == 1 {
        return 0;
    }
    let weights = &states[now].next;
    if weights.is_empty() {
        let other = stream.below(states.len() as u64 - 1) as usize;
        return if other >= now { other + 1 } else { other };
    }
    let mut left = stream.next_f64() * weights.iter().sum::<f64>();
    let chosen = weights.iter().position(|&weight| {
        left -= weight;
        left < 0.0
    });
    // If rounding leaves a remainder, the last possible state is chosen.
    chosen.or_else(|| weights.iter().rposition(|&weight| weight > 0.0)).unwrap_or(0)
}

/// Draws an exponentially distributed time of at least one nanosecond.
fn exponential(mean_ns: u64, stream: &mut Stream) -> u64 {
    // 1 - x is in (0, 1]: its logarithm is finite.
    let time_ns = -libm::log(1.0 - stream.next_f64()) * mean_ns as f64;
    (libm::round(time_ns) as u64).max(1)
}
