//! A packet's way from candidate to candidate.

use alloc::vec::Vec;

use super::super::crossing::Crossing;
use super::super::interpret::{End, Run, Step};
use super::check::Check;
use super::memo::{self, Key, Known, MAX_RULES, Memo, NO_KEY, Rules};
use super::near::Answers;
use super::plan::{Does, Plan};
use super::program::{Classes, Index, Program};
use crate::packet::Packet;

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
    /// It found no state; what it asks is still to be asked.
    Again,
    Next,
    Jump(usize),
    Ended(End),
}

/// What is known of a packet's way through the list, and how far it has gone.
#[derive(Clone, Debug)]
pub(in super::super) struct Sight {
    /// What its flow is known by.
    pub(super) flow: Key,
    pub(super) known: Known,
    pub(super) classes: Classes,
    pub(super) is_classified: bool,
    /// The rule that is next.
    pub(super) at: usize,
    /// What was found in tables.
    pub(in super::super) answers: Option<Answers>,
}

impl Default for Sight {
    fn default() -> Self {
        Self {
            flow: NO_KEY,
            known: Known::NOTHING,
            classes: Classes::default(),
            is_classified: false,
            at: 0,
            answers: None,
        }
    }
}

impl Sight {
    /// Forgets all: another packet, or one that has changed.
    #[inline(always)]
    pub(in super::super) fn forget(&mut self) {
        self.at = 0;
        self.is_classified = false;
        self.answers = None;
        self.known.clear();
    }

    /// Looks the fields up, unless that was done.
    pub(super) fn classify(&mut self, index: &Index, packet: &Packet, crossing: &Crossing) {
        if !self.is_classified {
            index.classes(packet, crossing, &mut self.classes);
            self.is_classified = true;
        }
    }
}

/// What finds candidates, used again and again.
#[derive(Debug, Default)]
pub(in super::super) struct Finders {
    pub(super) candidates: Candidates,
    /// By classes.
    pub(super) memo: Memo,
    /// By flow.
    pub(super) flows: Memo,
}

impl Finders {
    /// Forgets what belongs to a program.
    pub(in super::super) fn forget(&mut self) {
        self.memo.forget();
        self.flows.forget();
    }
}

impl Program {
    /// The first candidates for classes, up to one that ends every packet's way.
    #[inline(never)]
    pub(super) fn first_rules(
        &self,
        index: &Index,
        classes: &Classes,
        (candidates, memo): (&mut Candidates, &mut Memo),
    ) -> Rules {
        let mut search = || {
            let mut next = Some(0);
            candidates.start();
            memo::first_of(|| {
                let found = candidates.from(index, classes, next?);
                next = (!self.plans[found].ends_all()).then_some(found + 1);
                Some(found)
            })
        };
        match index.key(classes) {
            Some(key) => *memo.recall(key, search),
            None => search(),
        }
    }
}

impl Run<'_> {
    /// How the list ends that `program` was made of.
    #[inline]
    pub(in super::super) fn searched(
        &mut self,
        program: &Program,
        sight: &mut Sight,
        finders: &mut Finders,
    ) -> End {
        let at = if sight.at == 0 { self.start() } else { sight.at };
        let Some(index) = &program.index else { return self.walk(program, at, |_, at| at) };
        let Finders { candidates, memo, .. } = finders;
        candidates.start();
        let mut known = sight.known;
        let mut is_found = !known.is_empty() || program.plans.len() >= MAX_RULES;
        self.walk(program, at, |run, at| {
            if let Some(rule) = known.from(at) {
                return rule;
            }
            sight.classify(index, run.packet, run.crossing);
            if !is_found {
                is_found = true;
                known = Known::of(program.first_rules(index, &sight.classes, (candidates, memo)));
                if let Some(rule) = known.from(at) {
                    return rule;
                }
            }
            candidates.from(index, &sight.classes, at)
        })
    }

    /// Goes from rule to rule; `next` leaves out those that would do nothing.
    #[inline(always)]
    fn walk(
        &mut self,
        program: &Program,
        mut at: usize,
        mut next: impl FnMut(&Self, usize) -> usize,
    ) -> End {
        loop {
            let lookup = program.lookups.next(at, &self.crossing.search);
            let here = if lookup == at { at } else { next(self, at) };
            let (here, went) = if lookup <= here {
                (lookup, self.look_up_at(program, lookup))
            } else {
                (here, self.follow(program, &program.plans[here], here))
            };
            #[cfg(test)]
            if !matches!(went, Went::Again) {
                super::super::search::steps::count();
            }
            match went {
                Went::Again => at = here,
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
        match plan.does {
            Does::Step => self.full_step(at),
            does => self.plainly(does, at),
        }
    }

    /// Counts at a rule, and does what is no step.
    #[inline(always)]
    fn plainly(&mut self, does: Does, at: usize) -> Went {
        self.count(at);
        match does {
            Does::Accept => Went::Ended(End::Accept),
            Does::Deny => Went::Ended(End::Deny),
            Does::Jump(to) => Went::Jump(to as usize),
            Does::Nothing | Does::Count | Does::Step => Went::Next,
        }
    }

    /// Looks the packet's state up, and does what its rule says.
    #[inline(never)]
    fn look_up_at(&mut self, program: &Program, at: usize) -> Went {
        let entry = &self.entries[at];
        let Some(id) = entry.lookup.filter(|_| entry.rule.chance.is_none()) else {
            // By lot: drawn before anything else.
            return self.full_step(at);
        };
        let Some(place) = self.look_up(id, at) else { return Went::Again };
        let went = match program.plans[place].to_known {
            Does::Step => {
                let step = self.act_for_state(place);
                return self.went(step);
            }
            does => self.plainly(does, place),
        };
        match went {
            Went::Next => Went::Jump(place + 1),
            went => went,
        }
    }

    #[inline(never)]
    fn full_step(&mut self, at: usize) -> Went {
        let step = self.step(at);
        self.went(step)
    }

    #[inline]
    fn went(&mut self, step: Step) -> Went {
        match step {
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
