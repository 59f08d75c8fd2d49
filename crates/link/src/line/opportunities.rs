//! A trace of delivery opportunities, counted in bytes.
//!
//! ```text
//!   opportunities   |      |      ||     |         each up to mtu bytes
//!   frames          [ 1504 ][ 700 ][700]...        several in one, one in several
//! ```
//!
//! # Invariants
//! 1. `bytes_left` of the opportunity at `now_ns` are unused; they are lost once time passes.
//! 2. `index` is the first opportunity not yet used or skipped, in the round of the trace that
//!    began at `round_ns`.

use alloc::vec::Vec;

use crate::schedule::TraceSchedule;
use crate::spec::TraceEnd;

pub(crate) struct OpportunityLine {
    at_ns: Vec<u64>,
    mtu: u64,
    schedule: TraceSchedule,
    round_ns: u64,
    index: usize,
    now_ns: u64,
    bytes_left: u64,
}

impl OpportunityLine {
    pub(super) fn new(at_ns: &[u64], mtu: u32, end: TraceEnd, start_ns: u64) -> Self {
        let period_ns = at_ns.last().copied().unwrap_or(1);
        Self {
            at_ns: at_ns.to_vec(),
            mtu: u64::from(mtu),
            schedule: TraceSchedule::new(start_ns, period_ns, end),
            round_ns: start_ns,
            index: 0,
            now_ns: 0,
            bytes_left: 0,
        }
    }

    pub(super) fn free_ns(&self) -> u64 {
        self.now_ns
    }

    /// Skips the opportunities before `ready_ns`, whose bytes are lost.
    pub(super) fn wait_for(&mut self, ready_ns: u64) {
        if ready_ns <= self.now_ns {
            return;
        }
        (self.now_ns, self.bytes_left) = (ready_ns, 0);
        self.skip_rounds(ready_ns);
        while self.next_at_ns().is_some_and(|at_ns| at_ns < ready_ns) {
            self.step();
        }
    }

    pub(super) fn begin_ns(&mut self, ready_ns: u64) -> u64 {
        if ready_ns <= self.now_ns && self.bytes_left > 0 {
            return self.now_ns;
        }
        self.wait_for(ready_ns);
        self.next_at_ns().unwrap_or(u64::MAX)
    }

    pub(super) fn serve(&mut self, ready_ns: u64, bytes: u64, extra_ns: u64) {
        self.wait_for(ready_ns);
        let mut missing = bytes;
        loop {
            let used = missing.min(self.bytes_left);
            missing -= used;
            self.bytes_left -= used;
            if missing == 0 {
                break;
            }
            let Some(at_ns) = self.next_at_ns() else {
                self.now_ns = u64::MAX;
                return;
            };
            (self.now_ns, self.bytes_left) = (at_ns, self.mtu);
            self.step();
        }
        if extra_ns > 0 {
            self.wait_for(self.now_ns.saturating_add(extra_ns));
        }
    }

    pub(super) fn estimate_ns(&self, bytes: u64) -> u64 {
        let rounds = u128::from(bytes.saturating_sub(self.bytes_left))
            * u128::from(self.schedule.period_ns());
        let per_round = u128::from(self.mtu) * self.at_ns.len() as u128;
        u64::try_from(rounds / per_round).unwrap_or(u64::MAX)
    }

    /// Returns the time of the next opportunity, in ns; `None` after the last one.
    fn next_at_ns(&self) -> Option<u64> {
        if let Some(offset_ns) = self.at_ns.get(self.index) {
            return Some(self.round_ns.saturating_add(*offset_ns));
        }
        // With [`TraceEnd::Hold`], opportunities continue after the last one.
        (self.schedule.end() == TraceEnd::Hold)
            .then(|| self.round_ns.saturating_add(held_opportunity_ns(&self.at_ns, self.index)))
    }

    fn step(&mut self) {
        self.index += 1;
        if self.index == self.at_ns.len() && self.schedule.end() == TraceEnd::Loop {
            self.round_ns = self.round_ns.saturating_add(self.schedule.period_ns());
            self.index = 0;
        }
    }

    /// Skips whole rounds of the trace up to `ready_ns`, and opportunities within the round,
    /// without visiting each opportunity.
    fn skip_rounds(&mut self, ready_ns: u64) {
        let since_ns = ready_ns.saturating_sub(self.round_ns);
        let period_ns = self.schedule.period_ns();
        if self.schedule.end() == TraceEnd::Loop && since_ns > period_ns {
            // Skips one round fewer, because the last opportunities of a round may be exactly at
            // `ready_ns`.
            self.round_ns += (since_ns / period_ns - 1) * period_ns;
            self.index = 0;
        }
        let offset_ns = ready_ns.saturating_sub(self.round_ns);
        let first = self.at_ns.partition_point(|&at_ns| at_ns < offset_ns);
        if first < self.at_ns.len() {
            self.index = self.index.max(first);
        } else if self.schedule.end() == TraceEnd::Hold && self.index >= self.at_ns.len() {
            self.skip_held(offset_ns);
        }
    }

    fn skip_held(&mut self, offset_ns: u64) {
        let (first_ns, index) = (held_opportunity_ns(&self.at_ns, self.index), self.index);
        let gap_ns = first_ns - self.schedule.period_ns();
        let gap_ns = gap_ns / ((index - self.at_ns.len()) as u64 + 1);
        if offset_ns > first_ns {
            self.index += ((offset_ns - first_ns) / gap_ns) as usize;
        }
    }
}

/// Returns the offset of opportunity `index` from the start of a trace with
/// [`TraceEnd::Hold`](crate::TraceEnd::Hold), in ns. `at_ns` has the trace's offsets, and `index`
/// is beyond them: opportunities continue at the distance between the last two different offsets
/// (from the start of the trace, if there is only one).
#[must_use]
pub fn held_opportunity_ns(at_ns: &[u64], index: usize) -> u64 {
    let last_ns = at_ns.last().copied().unwrap_or(1);
    let before_ns = at_ns.iter().rev().copied().find(|&at_ns| at_ns < last_ns).unwrap_or(0);
    let beyond = (index - at_ns.len()) as u64 + 1;
    last_ns.saturating_add((last_ns - before_ns).saturating_mul(beyond))
}
