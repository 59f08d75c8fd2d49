//! Loss stages.

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_model::{Chance, FourState, GilbertElliott, Stream, TimedGilbertElliott};

use crate::bits::BitErrorGaps;
use crate::carrier::{Arrival, Carrier, Cause};
use crate::schedule::Schedule;
use crate::spec::{LossModel, LossWindow, TraceEnd};
use crate::user::{Loss, Packet, Verdict};

/// A loss model with its state and its stream.
pub(crate) struct LossStage {
    model: Model,
    stream: Stream,
}

enum Model {
    Bernoulli(Chance),
    Ber(BitErrorGaps),
    GilbertElliott(GilbertElliott),
    Timed(TimedGilbertElliott),
    FourState(FourState),
    Pattern { pattern: Vec<bool>, next: usize },
    Nth { every: u64, nth: u64, number: u64 },
    Numbers { numbers: Vec<u64>, next: usize, number: u64 },
    ByTime { windows: Vec<LossWindow>, schedule: Schedule },
    User { model: Box<dyn Loss>, number: u64 },
}

impl LossStage {
    pub(crate) fn new(spec: &LossModel, mut stream: Stream, start_ns: u64) -> Self {
        Self { model: Model::new(spec, &mut stream, start_ns), stream }
    }

    /// Goes over to another model; the stream goes on.
    pub(crate) fn change(&mut self, spec: &LossModel, at_ns: u64) {
        self.model = Model::new(spec, &mut self.stream, at_ns);
    }

    /// Judges a frame that is here at `at_ns`.
    #[inline(always)]
    pub(crate) fn judge(
        &mut self,
        frame: Arrival,
        at_ns: u64,
        carrier: &mut impl Carrier,
    ) -> Verdict {
        let stream = &mut self.stream;
        let lost = match &mut self.model {
            Model::Bernoulli(chance) => stream.chance(*chance),
            Model::GilbertElliott(chain) => chain.lost(stream),
            Model::Timed(chain) => chain.lost_at(at_ns, stream),
            Model::FourState(chain) => chain.lost(stream),
            Model::Ber(gaps) => {
                let hit = gaps.next_within(u64::from(frame.len) * 8, stream).is_some();
                return if hit { Verdict::Drop(Cause::Ber) } else { Verdict::Keep };
            }
            Model::User { model, number } => {
                let data = carrier.frame(frame.handle);
                let mut packet = Packet { data, len: frame.len, at_ns, number: *number };
                *number += 1;
                return model.judge(&mut packet, stream);
            }
            Model::ByTime { windows, schedule } => {
                stream.chance(chance_at(windows, schedule, at_ns))
            }
            listed => listed.lists_next(),
        };
        if lost { Verdict::Drop(Cause::Loss) } else { Verdict::Keep }
    }

    /// Whether it looks at no frame's bytes, and loses or keeps without another answer.
    pub(crate) fn is_blind(&self) -> bool {
        !matches!(self.model, Model::User { .. })
    }

    /// Which of the frames `among` these are lost, as [`Self::judge`] would say of each, one after
    /// another; none if it is not [blind](Self::is_blind).
    #[inline]
    fn judge_all(&mut self, frames: &[Arrival], at_ns: impl Fn(usize) -> u64, among: u64) -> u64 {
        let stream = &mut self.stream;
        match &mut self.model {
            Model::Bernoulli(chance) => filter(among, |_| stream.chance(*chance)),
            Model::GilbertElliott(chain) => filter(among, |_| chain.lost(stream)),
            Model::Timed(chain) => filter(among, |index| chain.lost_at(at_ns(index), stream)),
            Model::FourState(chain) => filter(among, |_| chain.lost(stream)),
            Model::Ber(gaps) => filter(among, |index| {
                gaps.next_within(u64::from(frames[index].len) * 8, stream).is_some()
            }),
            Model::ByTime { windows, schedule } => {
                filter(among, |index| stream.chance(chance_at(windows, schedule, at_ns(index))))
            }
            Model::User { .. } => 0,
            listed => filter(among, |_| listed.lists_next()),
        }
    }
}

/// Frames that losses take, a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Losses {
    lost: u64,
    ber: u64,
}

impl Losses {
    /// Judges those of at most 64 frames that are `among` them by stages that look at no bytes;
    /// `at_ns` tells when which one is there.
    #[inline]
    pub(crate) fn of(
        stages: &mut [LossStage],
        frames: &[Arrival],
        at_ns: impl Fn(usize) -> u64 + Copy,
        among: u64,
    ) -> Self {
        let mut losses = Self::default();
        for stage in stages {
            let hit = stage.judge_all(frames, at_ns, among & !losses.all());
            match stage.model {
                Model::Ber(_) => losses.ber |= hit,
                _ => losses.lost |= hit,
            }
        }
        losses
    }

    pub(crate) const fn all(self) -> u64 {
        self.lost | self.ber
    }

    /// Whether the frame of that number is lost.
    pub(crate) fn has(self, number: usize) -> bool {
        number < 64 && self.all() >> number & 1 == 1
    }

    /// Why it is.
    pub(crate) const fn cause(self, number: usize) -> Cause {
        if self.ber >> number & 1 == 1 { Cause::Ber } else { Cause::Loss }
    }
}

/// Asks for each of the bits that are set; those of which the answer was yes.
#[inline(always)]
fn filter(mut bits: u64, mut yes: impl FnMut(usize) -> bool) -> u64 {
    let mut filtered = 0;
    if bits & bits.wrapping_add(1) == 0 {
        // All from the first one on, as usual: nothing is to be searched for.
        let count = bits.trailing_ones();
        for index in 0..count {
            filtered = filtered >> 1 | u64::from(yes(index as usize)) << 63;
        }
        return filtered.checked_shr(64 - count).unwrap_or(0);
    }
    while bits != 0 {
        let index = bits.trailing_zeros();
        filtered |= u64::from(yes(index as usize)) << index;
        bits &= bits - 1;
    }
    filtered
}

impl Model {
    fn new(spec: &LossModel, stream: &mut Stream, start_ns: u64) -> Self {
        match spec {
            LossModel::Bernoulli(chance) => Self::Bernoulli(*chance),
            LossModel::Ber(ber) => Self::Ber(BitErrorGaps::new(*ber, stream)),
            LossModel::GilbertElliott { p, r, bad, good } => Self::GilbertElliott(
                GilbertElliott::new(chance(*p), chance(*r), chance(*bad), chance(*good)),
            ),
            LossModel::TimedGilbertElliott { good_ns, bad_ns, bad, good } => Self::Timed(
                TimedGilbertElliott::new(
                    *good_ns as f64,
                    *bad_ns as f64,
                    chance(*bad),
                    chance(*good),
                )
                .expect(CHECKED),
            ),
            LossModel::FourState { p13, p31, p32, p23, p14 } => Self::FourState(
                FourState::new(
                    chance(*p13),
                    chance(*p31),
                    chance(*p32),
                    chance(*p23),
                    chance(*p14),
                )
                .expect(CHECKED),
            ),
            LossModel::Pattern(pattern) => Self::Pattern { pattern: pattern.clone(), next: 0 },
            LossModel::Nth { every, nth } => Self::Nth { every: *every, nth: *nth, number: 0 },
            LossModel::Numbers(numbers) => {
                Self::Numbers { numbers: numbers.clone(), next: 0, number: 0 }
            }
            LossModel::ByTime { windows, period_ns } => {
                let (length_ns, end) = match period_ns {
                    Some(period_ns) => (*period_ns, TraceEnd::Loop),
                    None => (u64::MAX, TraceEnd::Once),
                };
                let schedule = Schedule::new(start_ns, length_ns, end);
                Self::ByTime { windows: windows.clone(), schedule }
            }
            LossModel::User(maker) => Self::User { model: maker.make(), number: 0 },
        }
    }

    /// Whether a list of frames to lose holds the next one.
    fn lists_next(&mut self) -> bool {
        match self {
            Self::Pattern { pattern, next } => {
                let lost = pattern[*next];
                *next = (*next + 1) % pattern.len();
                lost
            }
            Self::Nth { every, nth, number } => {
                *number = *number % *every + 1;
                number == nth
            }
            Self::Numbers { numbers, next, number } => {
                *number += 1;
                let lost = numbers.get(*next) == Some(number);
                *next += usize::from(lost);
                lost
            }
            _ => false,
        }
    }
}

const CHECKED: &str = "specifications are judged before anything is built";

fn chance(p: f64) -> Chance {
    Chance::from_f64(p).expect(CHECKED)
}

fn chance_at(windows: &[LossWindow], schedule: &Schedule, at_ns: u64) -> Chance {
    let Some(place) = schedule.place(at_ns) else { return Chance::NEVER };
    let after = windows.partition_point(|window| window.from_ns <= place.offset_ns);
    match windows[..after].last() {
        Some(window) if place.offset_ns < window.until_ns => window.chance,
        _ => Chance::NEVER,
    }
}
