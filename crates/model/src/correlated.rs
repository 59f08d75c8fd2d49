//! A random process in time whose values are uniformly distributed, to feed
//! the quantile function of any [`Dist`](crate::Dist).
//!
//! Two exponential filters in a row smooth white noise into a standard normal
//! process `y`, whose distribution function makes it uniform:
//!
//! ```text
//!   dx = -a x dt + noise        a = 1.678 / half-life
//!   dy =  a (x - y) dt          correlation over a time t: (1 + a t) e^(-a t)
//! ```
//!
//! The half-life is where that correlation is a half. That is so of a delay of
//! any normal law; of other laws it is near (0.48 of a uniform one), since they
//! bend the process.
//!
//! One filter would give a path with corners everywhere, which falls faster
//! than time passes however small the jitter; behind the second one the path
//! has a slope, of deviation `a`. So a delay of deviation `sd` driven by it
//! hardly ever lets a later packet overtake, once the half-life is 6.6 `sd` or
//! more. The process runs in time, not in packets: its shape does not depend on
//! the packet rate.
//!
//! The process is drawn exactly on a grid of 32 points per half-life, and is a
//! cubic with the right value and slope at both ends between two of them. Over
//! a gap it jumps to the grid point before the time asked for, by the exact
//! transition of the pair (x, y), at one price however long the gap.
//!
//! Not for: processes of other correlation, or going back in time.

use crate::dist::{Tail, normal};
use crate::{ParameterError, Stream};

/// A smooth random process, uniformly distributed at each single time.
///
/// ```
/// use slipring_model::{Correlated, Dist, Stream};
///
/// let delay = Dist::normal(5e6, 1.5e6)?;
/// let mut drift = Correlated::new(10_000_000, Stream::new(7, "example/drift"))?;
/// let first = delay.at(drift.draw_at(0));
/// let soon = delay.at(drift.draw_at(1_000));
/// assert!(first.abs_diff(soon) < 1_000, "a microsecond changes it little");
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Correlated {
    stream: Stream,
    /// The filters' rate, per nanosecond.
    rate: f64,
    step_ns: u64,
    step: Transition,
    /// The current one.
    cell: Cell,
    /// The state at its end.
    end: State,
}

/// The time between two points of the grid.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    start_ns: u64,
    /// A step; 0 before the first draw.
    len_ns: u64,
    /// Steps in a nanosecond.
    per_ns: f64,
    path: Cubic,
}

impl Correlated {
    /// Grid points in a half-life.
    const GRID: u64 = 32;

    /// Where `(1 + k) e^(-k)` is a half.
    const HALVED: f64 = 1.678_346_990_016_660_6;

    /// Makes the process whose correlation has halved after `half_life_ns`.
    ///
    /// # Errors
    /// If `half_life_ns` is 0.
    pub fn new(half_life_ns: u64, stream: Stream) -> Result<Self, ParameterError> {
        let half_life = ParameterError::positive("half_life", half_life_ns as f64)?;
        let rate = Self::HALVED / half_life;
        let step_ns = (half_life_ns / Self::GRID).max(1);
        Ok(Self {
            stream,
            rate,
            step_ns,
            step: Transition::over(rate * step_ns as f64),
            cell: Cell::default(),
            end: State::default(),
        })
    }

    /// The value at `t_ns`, as one of 2⁶⁴ equally likely numbers: what
    /// [`Stream::next_u64`] is for independent draws.
    ///
    /// A time before the grid point that was reached already counts as that
    /// point's.
    #[inline]
    pub fn draw_at(&mut self, t_ns: u64) -> u64 {
        if !self.cell.has(t_ns) {
            self.advance(t_ns);
        }
        self.cell.draw_at(t_ns)
    }

    /// The values at some times, one after another: the same as [`Self::draw_at`] for each.
    #[inline]
    pub fn draws_at(&mut self, times_ns: &[u64], draws: &mut [u64]) {
        // At hand, and not where the process keeps it.
        let mut cell = self.cell;
        for (draw, &t_ns) in draws.iter_mut().zip(times_ns) {
            if !cell.has(t_ns) {
                cell = self.advance(t_ns);
            }
            *draw = cell.draw_at(t_ns);
        }
    }

    /// Makes the cell around `t_ns` the current one and returns it.
    #[cold]
    fn advance(&mut self, t_ns: u64) -> Cell {
        let (start_ns, start) = match self.cell.len_ns {
            0 => (t_ns, self.stationary()),
            _ => {
                let steps = (t_ns - self.cell.start_ns) / self.step_ns;
                let start = match (steps - 1) * self.step_ns {
                    0 => self.end,
                    gap_ns => self.moved(self.end, Transition::over(self.rate * gap_ns as f64)),
                };
                (self.cell.start_ns + steps * self.step_ns, start)
            }
        };
        self.end = self.moved(start, self.step);
        let (per_ns, slope_scale) = (1.0 / self.step_ns as f64, self.rate * self.step_ns as f64);
        let path = Cubic::between(start.uniform(slope_scale), self.end.uniform(slope_scale));
        self.cell = Cell { start_ns, len_ns: self.step_ns, per_ns, path };
        self.cell
    }

    /// A state from the process's distribution at any one time.
    fn stationary(&mut self) -> State {
        let y = self.normal();
        State { x: y + self.normal(), y }
    }

    fn moved(&mut self, from: State, by: Transition) -> State {
        let (first, second) = (self.normal(), self.normal());
        State {
            x: by.keep * from.x + by.noise_x * first,
            y: by.keep * from.y + by.feed * from.x + by.noise_shared * first + by.noise_y * second,
        }
    }

    fn normal(&mut self) -> f64 {
        let draw = self.stream.next_u64() >> 11;
        normal::quantile(Tail::Low((draw as f64 + 0.5) / (1u64 << 53) as f64))
    }
}

impl Cell {
    /// Whether it tells the value at `t_ns`; what lies before it counts as its start.
    #[inline(always)]
    const fn has(&self, t_ns: u64) -> bool {
        t_ns.saturating_sub(self.start_ns) < self.len_ns
    }

    #[inline(always)]
    fn draw_at(&self, t_ns: u64) -> u64 {
        // Less than a step, so it fits a signed number, which is converted faster.
        let inside = t_ns.saturating_sub(self.start_ns) as i64 as f64 * self.per_ns;
        // Signed from the median, and then moved to count from the bottom. The
        // cast saturates where the cubic overshoots the last draws.
        (self.path.at(inside) as i64 as u64) ^ (1 << 63)
    }
}

/// The two filters: variances 2 and 1, covariance 1.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    x: f64,
    y: f64,
}

impl State {
    /// The uniform value, counted in draws from the median, and its slope per
    /// cell; `slope_scale` is the filters' rate per cell.
    fn uniform(self, slope_scale: f64) -> (f64, f64) {
        const TWO_64: f64 = 18_446_744_073_709_551_616.0;
        let value = 0.5 * libm::erf(self.y * core::f64::consts::FRAC_1_SQRT_2);
        let slope = normal::density(self.y) * (self.x - self.y) * slope_scale;
        (value * TWO_64, slope * TWO_64)
    }
}

/// How the state changes over a span of time: what it keeps, what the first
/// filter feeds to the second, and the deviations of what is new.
#[derive(Clone, Copy, Debug)]
struct Transition {
    keep: f64,
    feed: f64,
    noise_x: f64,
    noise_shared: f64,
    noise_y: f64,
}

impl Transition {
    /// Over a time of `k` over the filters' rate.
    fn over(k: f64) -> Self {
        let keep = libm::exp(-k);
        let kept = keep * keep;
        // What the old state leaves of the stationary covariance is new.
        let xx = 2.0 * (1.0 - kept);
        let xy = 1.0 - kept * (1.0 + 2.0 * k);
        let yy = 1.0 - kept * (1.0 + 2.0 * k + 2.0 * k * k);
        let noise_x = libm::sqrt(xx);
        let noise_shared = xy / noise_x;
        let noise_y = libm::sqrt((yy - noise_shared * noise_shared).max(0.0));
        // The product of zero and infinity after an endless gap is zero here.
        let feed = if keep > 0.0 { k * keep } else { 0.0 };
        Self { keep, feed, noise_x, noise_shared, noise_y }
    }
}

/// A cubic over the unit interval, lowest power first.
#[derive(Clone, Copy, Debug, Default)]
struct Cubic([f64; 4]);

impl Cubic {
    /// The cubic with these values and slopes at 0 and 1 (Hermite's).
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
