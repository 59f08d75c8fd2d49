//! A packet's way from candidate to candidate.

use alloc::vec::Vec;

use slipring_classify::rows::BAND;

use super::super::interpret::{Denied, MAX_STEPS, Run, Step, Verdict};
use super::check::Check;
use super::plan::{Does, Plan};
use super::program::{Classes, Index, Program};

/// Room for candidates, used again for each packet.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Scratch {
    found: Vec<u16>,
}

/// The candidates of a packet, band by band.
struct Candidates<'p> {
    index: Option<&'p Index>,
    classes: Classes,
    found: &'p mut Vec<u16>,
    /// The band of `found`.
    band: usize,
    /// How many of `found` are behind.
    passed: usize,
}

impl Candidates<'_> {
    /// The first candidate at `at` or behind it. There is always one: the default rule.
    #[inline(always)]
    fn from(&mut self, at: usize) -> usize {
        let Some(index) = self.index else { return at };
        let (mut band, mut place) = (at / BAND, (at % BAND) as u16);
        loop {
            if band != self.band {
                self.found.clear();
                index.matcher.candidates(&self.classes, band, self.found);
                (self.band, self.passed) = (band, 0);
            } else if self.passed > 0 && self.found[self.passed - 1] >= place {
                // A jump back.
                self.passed = 0;
            }
            while let Some(&found) = self.found.get(self.passed) {
                if found >= place {
                    return band * BAND + usize::from(found);
                }
                self.passed += 1;
            }
            (band, place) = (band + 1, 0);
        }
    }
}

impl Run<'_> {
    /// The verdict of the list that `program` was made of.
    #[inline]
    pub(in super::super) fn searched(mut self, program: &Program, room: &mut Scratch) -> Verdict {
        let classes = match &program.index {
            Some(index) => index.classes(&self.packet, self.crossing),
            None => Classes::default(),
        };
        let (index, found) = (program.index.as_ref(), &mut room.found);
        let mut candidates = Candidates { index, classes, found, band: usize::MAX, passed: 0 };
        let (mut at, mut steps_left) = (self.start(), MAX_STEPS as usize);
        loop {
            let next = candidates.from(at);
            // Rules that were left out count as shown, as the plain interpreter shows them.
            let steps = next - at + 1;
            if steps > steps_left {
                return Verdict::Deny(Denied::CallLoop);
            }
            steps_left -= steps;
            match self.do_plan(program, &program.plans[next], next) {
                Step::Next => at = next + 1,
                Step::Jump(to) => at = to,
                Step::Done(verdict) => return verdict,
            }
        }
    }

    #[inline(always)]
    fn do_plan(&mut self, program: &Program, plan: &Plan, at: usize) -> Step {
        let checks = &program.checks[plan.checks.start as usize..plan.checks.end as usize];
        if plan.does == Does::Nothing || !checks.is_empty() && !self.all_hold(checks, at) {
            return Step::Next;
        }
        if plan.does == Does::Step {
            return self.step(at);
        }
        self.count(at);
        match plan.does {
            Does::Accept => Step::Done(Verdict::Accept),
            Does::Deny => Step::Done(Verdict::Deny(Denied::Rule)),
            Does::Jump(to) => Step::Jump(to as usize),
            Does::Nothing | Does::Count | Does::Step => Step::Next,
        }
    }

    #[inline]
    fn all_hold(&self, checks: &[Check], at: usize) -> bool {
        let entry = &self.entries[at];
        Check::all_hold(checks, &mut self.question(entry))
    }
}
