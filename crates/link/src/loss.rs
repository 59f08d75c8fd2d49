//! Loss stages.
//!
//! The fate of a frame is a function of the seed, the link, the stage and the frame's identity; in
//! some models, also of the time. Chains of states make one step per frame number, whether or not
//! that frame reached the stage. They remember recent results, since held or queued frames come out
//! of order. Frames that entered by different links, and copies, are counted separately: each
//! branch has a separate chain of states. A user model may depend on anything.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use slipring_model::{Chance, Draws, FourState, GilbertElliott, TimedGilbertElliott};

use crate::bits::BitErrorSampler;
use crate::carrier::{Carrier, FrameArrival, LinkDropCause, LinkFrame};
use crate::frame_id::{FirstFrameNumbers, FrameId};
use crate::schedule::TraceSchedule;
use crate::spec::{LossModel, LossWindow, TraceEnd};
use crate::user::{LossVerdict, ModelPacket, UserLossModel};

/// A loss model with its state and its random draws.
pub(crate) struct LossStage {
    model: LossProcess,
    draws: Draws,
    /// Random draws that decide changes of state in models of two states; `draws` decide all else.
    state_draws: Draws,
    /// The first frame number that the stage judges, for each link of entry.
    first_numbers: FirstFrameNumbers,
    start_ns: u64,
}

enum LossProcess {
    Bernoulli(Chance),
    Ber(BitErrorSampler),
    Chain(Box<LossChains>),
    Timed(TimedGilbertElliott),
    Pattern(Vec<bool>),
    Nth { every: u64, nth: u64 },
    Numbers(Vec<u64>),
    ByTime { windows: Vec<LossWindow>, schedule: TraceSchedule },
    User(Box<dyn UserLossModel>),
}

/// The chains of all branches.
struct LossChains {
    /// The chain of frames that enter the network by this link.
    local: LossChain,
    /// The chains of other frames, by branch.
    by_branch: BTreeMap<u64, LossChain>,
    template: LossChainKind,
}

/// A chain that makes one step per frame number.
struct LossChain {
    states: LossChainKind,
    /// The branch that the numbers belong to: [`FrameId::branch`].
    branch: u64,
    /// The number of the next step.
    next: u64,
    /// Results of the last [`MAX_REMEMBERED`] numbers, one bit each; 1 is lost. The results of
    /// batches and of [`Self::catch_up`] are not recorded, because no frame needs them later.
    recent_losses: Vec<u64>,
}

#[derive(Clone, Copy)]
enum LossChainKind {
    Two(GilbertElliott),
    Four(FourState),
}

/// Number of results that a chain remembers. A frame whose result was forgotten counts as not lost.
const MAX_REMEMBERED: u64 = 1 << 16;

impl LossChains {
    fn new(fresh: LossChainKind, first: u64) -> Box<Self> {
        let here = LossChain { states: fresh, branch: 0, next: first, recent_losses: Vec::new() };
        Box::new(Self { local: here, by_branch: BTreeMap::new(), template: fresh })
    }

    /// Whether a frame is lost; `first` holds the first number that the stage judges, for each link
    /// of entry.
    #[inline]
    fn lost(
        &mut self,
        frame: FrameId,
        first: &FirstFrameNumbers,
        draws: Draws,
        state_draws: Draws,
    ) -> bool {
        let (branch, fresh) = (frame.branch(), self.template);
        if branch == 0 {
            return self.local.lost(frame.number, draws, state_draws);
        }
        let chain = self.by_branch.entry(branch).or_insert_with(|| LossChain {
            states: fresh,
            branch,
            next: first.of(frame),
            recent_losses: Vec::new(),
        });
        chain.lost(frame.number, draws, state_draws)
    }
}

impl LossChain {
    #[inline]
    fn step(&mut self, draws: Draws, state_draws: Draws) -> bool {
        let draw = FrameId::on_branch(self.next, self.branch).draw();
        self.next += 1;
        match &mut self.states {
            LossChainKind::Two(chain) => chain.lost_by(draws.at(draw), state_draws.at(draw)),
            LossChainKind::Four(chain) => chain.lost_by(draws.at(draw)),
        }
    }

    /// Whether the frame with this number is lost.
    #[inline]
    fn lost(&mut self, number: u64, draws: Draws, state_draws: Draws) -> bool {
        if self.recent_losses.is_empty() {
            self.recent_losses.resize((MAX_REMEMBERED / 64) as usize, 0);
        }
        let index = |number: u64| ((number % MAX_REMEMBERED / 64) as usize, number % 64);
        while self.next <= number {
            let (word, bit) = index(self.next);
            let lost = self.step(draws, state_draws);
            self.recent_losses[word] =
                self.recent_losses[word] & !(1 << bit) | u64::from(lost) << bit;
        }
        let (word, bit) = index(number);
        self.next - number <= MAX_REMEMBERED && self.recent_losses[word] >> bit & 1 == 1
    }

    /// Makes the steps for all numbers before `number`.
    #[inline]
    fn catch_up(&mut self, number: u64, draws: Draws, state_draws: Draws) {
        while self.next < number {
            self.step(draws, state_draws);
        }
    }
}

impl LossStage {
    pub(crate) fn new(
        spec: &LossModel,
        draws: Draws,
        state_draws: Draws,
        first_numbers: FirstFrameNumbers,
        start_ns: u64,
    ) -> Self {
        let model = LossProcess::new(spec, first_numbers.local, start_ns);
        Self { model, draws, state_draws, first_numbers, start_ns }
    }

    /// Judges a frame that reaches the stage at `at_ns`.
    #[inline(always)]
    pub(crate) fn judge(
        &mut self,
        frame: LinkFrame,
        at_ns: u64,
        carrier: &mut impl Carrier,
    ) -> LossVerdict {
        let (number, draw, draws) = (frame.id.number, frame.id.draw(), self.draws);
        let lost = match &mut self.model {
            LossProcess::Bernoulli(chance) => draws.chance(draw, *chance),
            LossProcess::Chain(chain) => {
                chain.lost(frame.id, &self.first_numbers, draws, self.state_draws)
            }
            LossProcess::Timed(chain) => {
                let since_ns = at_ns.saturating_sub(self.start_ns);
                chain.lost_at(since_ns, self.state_draws, draws.at(draw))
            }
            LossProcess::Ber(errors) => {
                let hit = errors.first(u64::from(frame.len) * 8, draws.at(draw)).is_some();
                return if hit { LossVerdict::Drop(LinkDropCause::Ber) } else { LossVerdict::Keep };
            }
            LossProcess::User(model) => {
                let data = carrier.frame(frame.handle);
                let mut packet = ModelPacket { data, len: frame.len, at_ns, number };
                return model.judge(&mut packet, &mut draws.stream(draw));
            }
            LossProcess::ByTime { windows, schedule } => {
                draws.chance(draw, chance_at(windows, schedule, at_ns))
            }
            listed => {
                let first = self.first_numbers.of(frame.id);
                number >= first && listed.lists(number - first)
            }
        };
        if lost { LossVerdict::Drop(LinkDropCause::Loss) } else { LossVerdict::Keep }
    }

    /// Whether the stage never accesses the bytes of a frame, and only keeps or loses frames.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        !matches!(self.model, LossProcess::User(_))
    }

    /// Computes which of the frames in the mask `among` are lost, as [`Self::judge`] would for
    /// each; none if the stage is not [payload-agnostic](Self::is_payload_agnostic). `first` is the
    /// number of `frames[0]`.
    #[inline]
    fn judge_all(
        &mut self,
        frames: &[FrameArrival],
        first: u64,
        at_ns: impl Fn(usize) -> u64,
        among: u64,
    ) -> u64 {
        let (draws, state_draws, start_ns) = (self.draws, self.state_draws, self.start_ns);
        let number = |index: usize| first + index as u64;
        match &mut self.model {
            LossProcess::Bernoulli(chance) => {
                filter(among, |index| draws.chance(number(index), *chance))
            }
            LossProcess::Chain(chain) => {
                // Only frames that enter the network by this link come in batches.
                let chain = &mut chain.local;
                chain.catch_up(first, draws, state_draws);
                let all = u64::MAX >> (64 - frames.len());
                filter(all, |_| chain.step(draws, state_draws)) & among
            }
            LossProcess::Timed(chain) => filter(among, |index| {
                let since_ns = at_ns(index).saturating_sub(start_ns);
                chain.lost_at(since_ns, state_draws, draws.at(number(index)))
            }),
            LossProcess::Ber(errors) => filter(among, |index| {
                errors.first(u64::from(frames[index].len) * 8, draws.at(number(index))).is_some()
            }),
            LossProcess::ByTime { windows, schedule } => filter(among, |index| {
                draws.chance(number(index), chance_at(windows, schedule, at_ns(index)))
            }),
            LossProcess::User(_) => 0,
            listed => {
                let from = self.first_numbers.local;
                filter(among, |index| number(index) >= from && listed.lists(number(index) - from))
            }
        }
    }
}

/// Lost frames of a batch, a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct LossMask {
    lost: u64,
    ber: u64,
}

impl LossMask {
    /// Applies payload-agnostic stages to the frames in the mask `among`, and returns which of them
    /// are lost. `frames` has at most 64 entries; `first` is the number of `frames[0]`. `at_ns`
    /// returns when the frame at an index reaches the stages.
    #[inline]
    pub(crate) fn of(
        stages: &mut [LossStage],
        frames: &[FrameArrival],
        first: u64,
        at_ns: impl Fn(usize) -> u64 + Copy,
        among: u64,
    ) -> Self {
        let mut losses = Self::default();
        for stage in stages {
            let hit = stage.judge_all(frames, first, at_ns, among & !losses.all());
            match stage.model {
                LossProcess::Ber(_) => losses.ber |= hit,
                _ => losses.lost |= hit,
            }
        }
        losses
    }

    pub(crate) const fn all(self) -> u64 {
        self.lost | self.ber
    }

    /// Whether the frame at index `number` is lost.
    pub(crate) fn has(self, number: usize) -> bool {
        number < 64 && self.all() >> number & 1 == 1
    }

    /// Cause of the loss of the frame at index `number`.
    pub(crate) const fn cause(self, number: usize) -> LinkDropCause {
        if self.ber >> number & 1 == 1 { LinkDropCause::Ber } else { LinkDropCause::Loss }
    }
}

/// Calls `yes` for each set bit; returns the bits for which it returned `true`.
#[inline(always)]
fn filter(mut bits: u64, mut yes: impl FnMut(usize) -> bool) -> u64 {
    let mut filtered = 0;
    if bits & bits.wrapping_add(1) == 0 {
        // Usually, the mask is contiguous from bit 0, so its set bits need not be searched for.
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

impl LossProcess {
    fn new(spec: &LossModel, first: u64, start_ns: u64) -> Self {
        match spec {
            LossModel::Bernoulli(chance) => Self::Bernoulli(*chance),
            LossModel::Ber(ber) => Self::Ber(BitErrorSampler::new(*ber)),
            LossModel::GilbertElliott { p, r, bad, good } => {
                let [p, r, bad, good] = [p, r, bad, good].map(|p| chance(*p));
                Self::Chain(LossChains::new(
                    LossChainKind::Two(GilbertElliott::new(p, r, bad, good)),
                    first,
                ))
            }
            LossModel::TimedGilbertElliott { good_ns, bad_ns, bad, good } => Self::Timed(
                TimedGilbertElliott::new(
                    *good_ns as f64,
                    *bad_ns as f64,
                    chance(*bad),
                    chance(*good),
                )
                .expect(SPEC_IS_CHECKED),
            ),
            LossModel::FourState { p13, p31, p32, p23, p14 } => {
                let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(|p| chance(*p));
                let chain = FourState::new(p13, p31, p32, p23, p14).expect(SPEC_IS_CHECKED);
                Self::Chain(LossChains::new(LossChainKind::Four(chain), first))
            }
            LossModel::Pattern(pattern) => Self::Pattern(pattern.clone()),
            LossModel::Nth { every, nth } => Self::Nth { every: *every, nth: *nth },
            LossModel::Numbers(numbers) => Self::Numbers(numbers.clone()),
            LossModel::ByTime { windows, period_ns } => {
                let (length_ns, end) = match period_ns {
                    Some(period_ns) => (*period_ns, TraceEnd::Loop),
                    None => (u64::MAX, TraceEnd::Once),
                };
                let schedule = TraceSchedule::new(start_ns, length_ns, end);
                Self::ByTime { windows: windows.clone(), schedule }
            }
            LossModel::User(maker) => Self::User(maker.make()),
        }
    }

    /// Returns whether the model loses listed frames (`Pattern`, `Nth` or `Numbers`) and loses
    /// frame `number`. Here, the first frame that the stage judges has the number 0.
    fn lists(&self, number: u64) -> bool {
        match self {
            Self::Pattern(pattern) => pattern[(number % pattern.len() as u64) as usize],
            Self::Nth { every, nth } => number % every + 1 == *nth,
            Self::Numbers(numbers) => numbers.binary_search(&(number + 1)).is_ok(),
            _ => false,
        }
    }
}

const SPEC_IS_CHECKED: &str = "specifications are judged before anything is built";

fn chance(p: f64) -> Chance {
    Chance::from_f64(p).expect(SPEC_IS_CHECKED)
}

fn chance_at(windows: &[LossWindow], schedule: &TraceSchedule, at_ns: u64) -> Chance {
    let Some(index) = schedule.position(at_ns) else { return Chance::NEVER };
    let after = windows.partition_point(|window| window.from_ns <= index.offset_ns);
    match windows[..after].last() {
        Some(window) if index.offset_ns < window.until_ns => window.chance,
        _ => Chance::NEVER,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn chain(p: f64, r: f64) -> LossChain {
        let [p, r] = [p, r].map(|chance| Chance::from_f64(chance).unwrap());
        let states = LossChainKind::Two(GilbertElliott::new(p, r, Chance::ALWAYS, Chance::NEVER));
        LossChain { states, branch: 0, next: 0, recent_losses: Vec::new() }
    }

    #[test]
    fn a_frame_has_the_result_of_its_number_whatever_the_order_of_the_questions() {
        let (draws, state_draws) = (Draws::new(3, "loss"), Draws::new(3, "state"));
        let mut in_order = chain(0.3, 0.4);
        let expected: Vec<bool> =
            (0..1_000).map(|number| in_order.lost(number, draws, state_draws)).collect();
        assert!(expected.contains(&true) && expected.contains(&false));
        for first in [0, 63, 64, 127, 500, 999] {
            let mut other = chain(0.3, 0.4);
            let mut found = vec![false; 1_000];
            for number in (0..=first).rev().chain(first..1_000) {
                found[number] = other.lost(number as u64, draws, state_draws);
            }
            assert_eq!(found, expected, "{first}");
        }
        let mut late = chain(0.3, 0.4);
        late.catch_up(500, draws, state_draws);
        assert_eq!((late.next, late.lost(500, draws, state_draws)), (500, expected[500]));
    }

    #[test]
    fn results_are_remembered_for_65536_numbers() {
        let (draws, state_draws) = (Draws::new(3, "loss"), Draws::new(3, "state"));
        let mut always = chain(1.0, 0.0);
        assert!(always.lost(100_000, draws, state_draws));
        assert!(always.lost(100_000 - 65_535, draws, state_draws));
        assert!(!always.lost(100_000 - 65_536, draws, state_draws), "forgotten: not lost");
    }
}
