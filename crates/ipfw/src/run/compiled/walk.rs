//! A packet's way from candidate to candidate.

use alloc::vec::Vec;

use super::super::interpret::{Denied, End, MAX_STEPS, Run, Step, Verdict};
use super::check::Check;
use super::memo::{Key, Memo};
use super::plan::{Does, Plan};
use super::program::{Classes, Index, Program};

/// The candidates of a packet, band by band. Its room is used again for each packet.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Candidates {
    found: Vec<u16>,
    /// The band of `found`.
    band: usize,
    /// How many of `found` are behind.
    passed: usize,
}

impl Candidates {
    /// Forgets those of the packet before.
    #[inline(always)]
    fn start(&mut self) {
        self.band = usize::MAX;
    }

    /// The first candidate at `at` or behind it. There is always one: the default rule.
    #[inline(always)]
    fn from(&mut self, index: &Index, classes: &Classes, at: usize) -> usize {
        let bits = index.matcher.band_bits();
        let (mut band, mut place) = (at >> bits, (at & ((1 << bits) - 1)) as u16);
        loop {
            if band != self.band {
                self.found.clear();
                index.matcher.candidates(classes, band, &mut self.found);
                (self.band, self.passed) = (band, 0);
            } else if self.passed > 0 && self.found[self.passed - 1] >= place {
                // A jump back.
                self.passed = 0;
            }
            while let Some(&found) = self.found.get(self.passed) {
                if found >= place {
                    return (band << bits) + usize::from(found);
                }
                self.passed += 1;
            }
            (band, place) = (band + 1, 0);
        }
    }
}

/// What a rule made of a packet; [`Step`] without a verdict in it.
enum Went {
    Next,
    Jump(usize),
    Ended(End),
}

impl Run<'_> {
    /// How the list ends that `program` was made of.
    #[inline]
    pub(in super::super) fn searched(
        &mut self,
        program: &Program,
        (classes, key): (&Classes, Key),
        candidates: &mut Candidates,
        memo: &mut Memo,
    ) -> End {
        let Some(index) = &program.index else { return self.walk(program, |at| at) };
        candidates.start();
        if !program.remembers() {
            return self.walk(program, |at| candidates.from(index, classes, at));
        }
        let mut next = Some(0);
        let mut known = memo.recall(key, || {
            let found = candidates.from(index, classes, next?);
            next = (!program.plans[found].ends_all()).then_some(found + 1);
            Some(found as u32)
        });
        self.walk(program, |at| {
            known.from(at).unwrap_or_else(|| candidates.from(index, classes, at))
        })
    }

    /// Goes from rule to rule; `next` leaves out those that would do nothing.
    #[inline(always)]
    fn walk(&mut self, program: &Program, mut next: impl FnMut(usize) -> usize) -> End {
        let (mut at, mut steps_left) = (self.start(), MAX_STEPS as usize);
        loop {
            let here = next(at);
            // Rules that were left out count as shown, as the plain interpreter shows them.
            let steps = here - at + 1;
            if steps > steps_left {
                return self.end(Verdict::Deny(Denied::CallLoop));
            }
            steps_left -= steps;
            match self.follow(program, &program.plans[here], here) {
                Went::Next => at = here + 1,
                Went::Jump(to) => at = to,
                Went::Ended(end) => return end,
            }
        }
    }

    #[inline(always)]
    fn follow(&mut self, program: &Program, plan: &Plan, at: usize) -> Went {
        let checks = &program.checks[plan.checks.start as usize..plan.checks.end as usize];
        if plan.does == Does::Nothing || !checks.is_empty() && !self.all_hold(checks, at) {
            return Went::Next;
        }
        if plan.does == Does::Step {
            return self.full_step(at);
        }
        self.count(at);
        match plan.does {
            Does::Accept => Went::Ended(End::Accept),
            Does::Deny => Went::Ended(End::Deny),
            Does::Jump(to) => Went::Jump(to as usize),
            Does::Nothing | Does::Count | Does::Step => Went::Next,
        }
    }

    #[inline(never)]
    fn full_step(&mut self, at: usize) -> Went {
        match self.step(at) {
            Step::Next => Went::Next,
            Step::Jump(to) => Went::Jump(to),
            Step::Done(verdict) => Went::Ended(self.end(verdict)),
        }
    }

    #[inline]
    fn all_hold(&self, checks: &[Check], at: usize) -> bool {
        Check::all_hold(checks, &mut self.question(&self.entries[at]))
    }
}
