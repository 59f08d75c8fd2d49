//! An Ornstein–Uhlenbeck rate as a function of time.
//!
//! A *point* is the deviation of the rate from its mean during one step. At a fixed distance, a
//! power of two so large that the correlation is negligible, steps are drawn independently. The
//! steps in between are drawn from the exact distribution conditioned on both neighbours, the
//! middle one first, as for a [correlated delay](slipring_model::Correlated). So a step does not
//! depend on earlier queries and costs the same after any pause.

use alloc::vec::Vec;

use slipring_model::{Draws, Stream};

use crate::spec::RateSpec;

pub(super) struct OrnsteinUhlenbeckRate {
    mean: f64,
    sd: f64,
    min_bps: u64,
    max_bps: u64,
    start_ns: u64,
    step_ns: u64,
    draws: Draws,
    /// By level: entry 0 draws a step from its two neighbours, each further entry from steps at
    /// twice the distance.
    bridges: Vec<BrownianBridge>,
    /// For each level, the two points drawn last: the number of the step, and the deviation.
    recent_points: Vec<[(u64, f64); 2]>,
}

/// The distribution of the deviation in the middle, given the deviations at both ends: the weight
/// of each end, and the standard deviation of the independent part.
#[derive(Clone, Copy)]
struct BrownianBridge {
    weight: f64,
    innovation: f64,
}

/// Number of half-lives after which the correlation of two points is 2⁻³².
const INDEPENDENT_HALF_LIVES: f64 = 32.0;
/// Marks an unused entry: no step has this number.
const NO_POINT: u64 = u64::MAX;

impl OrnsteinUhlenbeckRate {
    pub(super) fn new(spec: &RateSpec, draws: Draws, start_ns: u64) -> Self {
        let RateSpec::OrnsteinUhlenbeck {
            mean_bps,
            sd_bps,
            half_life_ns,
            min_bps,
            max_bps,
            step_ns,
        } = *spec
        else {
            unreachable!("only made for a rate that wanders")
        };
        let step = step_ns as f64 / half_life_ns as f64;
        let levels = libm::ceil(libm::log2(INDEPENDENT_HALF_LIVES / step)).max(0.0) as u32;
        let bridge = |level| {
            let keep = libm::exp2(-step * (1_u64 << level) as f64);
            let both = 1.0 + keep * keep;
            BrownianBridge {
                weight: keep / both,
                innovation: libm::sqrt((1.0 - keep * keep) / both),
            }
        };
        Self {
            mean: mean_bps as f64,
            sd: sd_bps as f64,
            min_bps,
            max_bps,
            start_ns,
            step_ns,
            draws,
            bridges: (0..levels).map(bridge).collect(),
            recent_points: (0..=levels).map(|_| [(NO_POINT, 0.0); 2]).collect(),
        }
    }

    pub(super) const fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Returns the end and the rate of the step that begins at `now_ns`.
    pub(super) fn at(&mut self, now_ns: u64) -> (u64, u64) {
        let deviation = self.deviation((now_ns - self.start_ns) / self.step_ns);
        let bps = libm::round((self.mean + self.sd * deviation).max(0.0)) as u64;
        (now_ns.saturating_add(self.step_ns), bps.clamp(self.min_bps, self.max_bps))
    }

    /// Returns the deviation of a step from the mean, in standard deviations.
    fn deviation(&mut self, number: u64) -> f64 {
        if number == 0 {
            return 0.0;
        }
        let level = (number.trailing_zeros() as usize).min(self.bridges.len());
        let known = self.recent_points[level].iter().find(|(other, _)| *other == number);
        if let Some((_, deviation)) = known {
            return *deviation;
        }
        let fresh = normal(&mut self.draws.stream(number));
        let deviation = match self.bridges.get(level).copied() {
            None => fresh,
            Some(bridge) => {
                let half = 1 << level;
                let ends = self.deviation(number - half) + self.deviation(number + half);
                bridge.weight * ends + bridge.innovation * fresh
            }
        };
        self.recent_points[level] = [self.recent_points[level][1], (number, deviation)];
        deviation
    }
}

/// Draws a standard normal number, by Box and Muller.
fn normal(stream: &mut Stream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.next_f64()));
    radius * libm::cos(core::f64::consts::TAU * stream.next_f64())
}
