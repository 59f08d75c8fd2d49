//! A random process in time with uniformly distributed values, which feeds the quantile function of
//! any [`Dist`](crate::Dist).
//!
//! Two exponential filters in a row smooth white noise into a standard normal process `y`. The
//! distribution function of `y` makes it uniform:
//!
//! ```text
//!   dx = -a x dt + noise        a = 1.678 / half-life
//!   dy =  a (x - y) dt          correlation over a time t: (1 + a t) e^(-a t)
//! ```
//!
//! The half-life is the time after which the correlation is one half. This is exact for a delay
//! with a normal distribution. For other distributions the correlation after one half-life is close
//! to one half (0.48 for a uniform distribution).
//!
//! With one filter the path would not be smooth: however small the jitter, the delay would at times
//! fall faster than time passes, so packets would overtake. The second filter gives the path a
//! slope, whose standard deviation is `a`. If the half-life is at least 6.6 times the standard
//! deviation of the delay that this process drives, a later packet hardly ever overtakes. The
//! process runs in time, not in packets: its shape does not depend on the packet rate.
//!
//! The process is drawn exactly on a grid of 32 points per half-life. Between two points it is a
//! cubic with the right value and slope at both ends. Values are a function of time: every 32
//! half-lives there is a point drawn independently of all others. The 1023 points between two
//! independent points are drawn by repeated halving, from the exact distribution of the pair (x, y)
//! conditioned on the two points at the ends of the halved interval. So a value does not depend on
//! earlier draws, and the cost of a draw has a limit, however far it is from the previous draw.
//!
//! ```text
//!   0                                                  1024     independent
//!   |                        512                        |       between those
//!   |            256          |           768           |       ...
//! ```
//!
//! Not for: processes with another correlation function.

use crate::dist::{Tail, normal};
use crate::{Draws, ParameterError};

/// A smooth random process, uniformly distributed at each point in time.
///
/// ```
/// use slipring_model::{Correlated, Dist, Draws};
///
/// let delay = Dist::normal(5e6, 1.5e6)?;
/// let mut drift = Correlated::new(10_000_000, Draws::new(7, "example/drift"), 0)?;
/// let first = delay.at(drift.draw_at(0));
/// let soon = delay.at(drift.draw_at(1_000));
/// assert!(first.abs_diff(soon) < 1_500, "a microsecond changes it little");
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Correlated {
    draws: Draws,
    start_ns: u64,
    step_ns: u64,
    /// Factor that converts a slope to a slope per grid step: the filters' rate `a` times the grid
    /// step.
    slope_scale: f64,
    bridges: [MidpointBridge; LEVELS],
    /// A cache of grid points: the two points drawn last on each level, each with its number. Point
    /// `n` is at `n` grid steps; its level is the number of trailing zero bits of `n`, at most
    /// [`LEVELS`].
    recent_points: [[(u64, FilterPairState); 2]; LEVELS + 1],
    /// The grid interval that contains the time of the most recent draw.
    cell: GridCell,
}

/// How many times the interval between two independent points, which has 2^10 grid steps, is
/// halved.
const LEVELS: usize = 10;
/// Marks an empty entry of `recent_points`; no point has this number.
const NO_POINT: u64 = u64::MAX;
/// Greatest time in ns, so that all sums of times fit into 64 bits. Later times are treated as this
/// time.
const MAX_TIME_NS: u64 = 1 << 62;

/// The interval between two neighbouring grid points. Its times count from the start of the
/// process.
#[derive(Clone, Copy, Debug, Default)]
struct GridCell {
    start_ns: u64,
    /// Length of a grid step in ns; 0 before the first draw.
    len_ns: u64,
    /// Reciprocal of `len_ns`: grid steps per nanosecond.
    per_ns: f64,
    path: Cubic,
}

impl Correlated {
    /// Grid points in a half-life.
    const POINTS_PER_HALF_LIFE: u64 = 32;

    /// The `k` for which `(1 + k) e^(-k)` is one half.
    const HALF_LIFE_RATE: f64 = 1.678_346_990_016_660_6;

    /// Upper limit of the half-life: 104 days. Longer half-lives are reduced to it.
    const MAX_HALF_LIFE_NS: u64 = 1 << 53;

    /// Creates the process whose correlation has halved after `half_life_ns`, and whose grid begins
    /// at `start_ns`.
    ///
    /// # Errors
    /// [`ParameterError`] if `half_life_ns` is 0.
    pub fn new(half_life_ns: u64, draws: Draws, start_ns: u64) -> Result<Self, ParameterError> {
        let half_life_ns = half_life_ns.min(Self::MAX_HALF_LIFE_NS);
        let half_life = ParameterError::positive("half_life", half_life_ns as f64)?;
        let step_ns = (half_life_ns / Self::POINTS_PER_HALF_LIFE).max(1);
        let slope_scale = Self::HALF_LIFE_RATE / half_life * step_ns as f64;
        Ok(Self {
            draws,
            start_ns,
            step_ns,
            slope_scale,
            bridges: core::array::from_fn(|level| {
                MidpointBridge::over(slope_scale * (1 << level) as f64)
            }),
            recent_points: [[(NO_POINT, FilterPairState::default()); 2]; LEVELS + 1],
            cell: GridCell::default(),
        })
    }

    /// The value at `t_ns`, as one of 2⁶⁴ equally likely numbers, like
    /// [`Stream::next_u64`](crate::Stream::next_u64) for independent draws.
    ///
    /// A time before the start counts as the start.
    #[inline]
    pub fn draw_at(&mut self, t_ns: u64) -> u64 {
        let t_ns = self.since_start(t_ns);
        if !self.cell.has(t_ns) {
            self.advance(t_ns);
        }
        self.cell.draw_at(t_ns)
    }

    /// Writes the value at each of `times_ns`, as [`Self::draw_at`] returns it, to the same index
    /// of `draws`.
    #[inline]
    pub fn draws_at(&mut self, times_ns: &[u64], draws: &mut [u64]) {
        // The local copy can stay in registers.
        let mut cell = self.cell;
        for (draw, &t_ns) in draws.iter_mut().zip(times_ns) {
            let t_ns = self.since_start(t_ns);
            if !cell.has(t_ns) {
                cell = self.advance(t_ns);
            }
            *draw = cell.draw_at(t_ns);
        }
    }

    #[inline(always)]
    fn since_start(&self, t_ns: u64) -> u64 {
        t_ns.saturating_sub(self.start_ns).min(MAX_TIME_NS)
    }

    /// Makes the interval that contains `t_ns` the current cell and returns it.
    #[cold]
    fn advance(&mut self, t_ns: u64) -> GridCell {
        let number = t_ns / self.step_ns;
        let (start, end) = (self.point(number), self.point(number + 1));
        let path = Cubic::between(start.uniform(self.slope_scale), end.uniform(self.slope_scale));
        let start_ns = number * self.step_ns;
        let (len_ns, per_ns) = (self.step_ns, 1.0 / self.step_ns as f64);
        self.cell = GridCell { start_ns, len_ns, per_ns, path };
        self.cell
    }

    /// The state of the filters at grid point `number`.
    fn point(&mut self, number: u64) -> FilterPairState {
        let level = (number.trailing_zeros() as usize).min(LEVELS);
        let known = self.recent_points[level].iter().find(|(other, _)| *other == number);
        if let Some((_, state)) = known {
            return *state;
        }
        let state = match self.bridges.get(level).copied() {
            None => self.stationary(number),
            Some(bridge) => {
                let half = 1 << level;
                let (from, to) = (self.point(number - half), self.point(number + half));
                bridge.middle(from, to, self.normals(number))
            }
        };
        self.recent_points[level] = [self.recent_points[level][1], (number, state)];
        state
    }

    /// Draws the state of an independent point from the stationary distribution of the filters.
    fn stationary(&self, number: u64) -> FilterPairState {
        let (y, more) = self.normals(number);
        FilterPairState { x: y + more, y }
    }

    /// The two independent standard normal numbers that belong to grid point `number`.
    fn normals(&self, number: u64) -> (f64, f64) {
        let normal = |draw: u64| {
            normal::quantile(Tail::Low(((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64))
        };
        let first = number.wrapping_mul(2);
        (normal(self.draws.at(first)), normal(self.draws.at(first.wrapping_add(1))))
    }
}

impl GridCell {
    /// Returns whether `t_ns` is within the cell.
    #[inline(always)]
    const fn has(&self, t_ns: u64) -> bool {
        t_ns.wrapping_sub(self.start_ns) < self.len_ns
    }

    #[inline(always)]
    fn draw_at(&self, t_ns: u64) -> u64 {
        // The difference is less than one step, so it fits in a signed integer. The conversion of
        // a signed integer to a float is faster.
        let inside = (t_ns - self.start_ns) as i64 as f64 * self.per_ns;
        // The cubic returns a signed distance from the median. Flipping the top bit turns it into
        // a draw; the lowest draw is 0. If the cubic overshoots the lowest or the highest draw,
        // the cast saturates.
        (self.path.at(inside) as i64 as u64) ^ (1 << 63)
    }
}

/// The outputs of the two filters: `x` has variance 2, `y` variance 1, and their covariance is 1.
#[derive(Clone, Copy, Debug, Default)]
struct FilterPairState {
    x: f64,
    y: f64,
}

impl FilterPairState {
    /// Returns the uniform value, as a signed number of draws (of 2⁶⁴) from the median, and its
    /// slope per grid step. `slope_scale` is the filters' rate times the step.
    fn uniform(self, slope_scale: f64) -> (f64, f64) {
        const TWO_64: f64 = 18_446_744_073_709_551_616.0;
        let value = 0.5 * libm::erf(self.y * core::f64::consts::FRAC_1_SQRT_2);
        let slope = normal::density(self.y) * (self.x - self.y) * slope_scale;
        (value * TWO_64, slope * TWO_64)
    }
}

/// A 2×2 matrix, row by row.
type Matrix2 = [[f64; 2]; 2];

/// The distribution of the state halfway between two known states: the weights of the two states,
/// and the factors of the two standard normal numbers that are added as noise.
#[derive(Clone, Copy, Debug)]
struct MidpointBridge {
    from: Matrix2,
    to: Matrix2,
    noise_x: f64,
    noise_shared: f64,
    noise_y: f64,
}

impl MidpointBridge {
    /// The bridge over an interval whose halves each have the length `k` divided by the filters'
    /// rate.
    ///
    /// With F the transition over one half and Q its noise covariance, the gain of the later state
    /// is K = Q F' (F Q F' + Q)^-1. For the states `a` at the start and `b` at the end, the middle
    /// is F a + K (b - F F a), and the remaining covariance is Q - K F Q.
    fn over(k: f64) -> Self {
        let (change, new) = (transition(k), noise(k));
        let spread = product(new, transposed(change));
        let ahead = sum(product(change, spread), new, 1.0);
        let to = product(spread, inverse(ahead));
        let seen = product(to, change);
        let from = sum(change, product(seen, change), -1.0);
        let left = sum(new, product(seen, new), -1.0);
        let noise_x = libm::sqrt(left[0][0].max(0.0));
        let noise_shared = left[0][1] / noise_x;
        let noise_y = libm::sqrt((left[1][1] - noise_shared * noise_shared).max(0.0));
        Self { from, to, noise_x, noise_shared, noise_y }
    }

    fn middle(
        &self,
        from: FilterPairState,
        to: FilterPairState,
        (first, second): (f64, f64),
    ) -> FilterPairState {
        let at = |row: usize| {
            self.from[row][0] * from.x
                + self.from[row][1] * from.y
                + self.to[row][0] * to.x
                + self.to[row][1] * to.y
        };
        FilterPairState {
            x: at(0) + self.noise_x * first,
            y: at(1) + self.noise_shared * first + self.noise_y * second,
        }
    }
}

/// The transition matrix over a time of `k` divided by the filters' rate: how the state decays, and
/// what the first filter adds to the second.
fn transition(k: f64) -> Matrix2 {
    let keep = libm::exp(-k);
    [[keep, 0.0], [k * keep, keep]]
}

/// The covariance of the noise added over a time of `k` divided by the filters' rate: the
/// stationary covariance minus the contribution of the state at the start.
fn noise(k: f64) -> Matrix2 {
    let kept = libm::exp(-2.0 * k);
    let xy = 1.0 - kept * (1.0 + 2.0 * k);
    [[2.0 * (1.0 - kept), xy], [xy, 1.0 - kept * (1.0 + 2.0 * k + 2.0 * k * k)]]
}

fn product(a: Matrix2, b: Matrix2) -> Matrix2 {
    let at = |row: usize, column: usize| a[row][0] * b[0][column] + a[row][1] * b[1][column];
    [[at(0, 0), at(0, 1)], [at(1, 0), at(1, 1)]]
}

fn sum(a: Matrix2, b: Matrix2, times: f64) -> Matrix2 {
    let at = |row: usize, column: usize| a[row][column] + times * b[row][column];
    [[at(0, 0), at(0, 1)], [at(1, 0), at(1, 1)]]
}

fn transposed([[a, b], [c, d]]: Matrix2) -> Matrix2 {
    [[a, c], [b, d]]
}

fn inverse([[a, b], [c, d]]: Matrix2) -> Matrix2 {
    let over = 1.0 / (a * d - b * c);
    [[d * over, -b * over], [-c * over, a * over]]
}

/// A cubic polynomial on the interval 0 to 1; the coefficient of the lowest power comes first.
#[derive(Clone, Copy, Debug, Default)]
struct Cubic([f64; 4]);

impl Cubic {
    /// The cubic with the given values and slopes at 0 and 1 (Hermite interpolation).
    fn between((from, slope): (f64, f64), (to, end_slope): (f64, f64)) -> Self {
        let rise = to - from;
        Self([from, slope, 3.0 * rise - 2.0 * slope - end_slope, slope + end_slope - 2.0 * rise])
    }

    #[inline]
    fn at(&self, x: f64) -> f64 {
        let [a, b, c, d] = self.0;
        a + x * (b + x * (c + x * d))
    }
}

#[cfg(test)]
mod tests;
