//! The position of a time within a trace.

use crate::spec::TraceEnd;

/// A trace: when it begins, its length, and what follows its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSchedule {
    start_ns: u64,
    period_ns: u64,
    end: TraceEnd,
}

/// A time within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TracePosition {
    /// Start of the current round of the trace.
    pub(crate) round_ns: u64,
    /// Offset from the start of the round.
    pub(crate) offset_ns: u64,
}

impl TraceSchedule {
    pub(crate) const fn new(start_ns: u64, period_ns: u64, end: TraceEnd) -> Self {
        Self { start_ns, period_ns, end }
    }

    /// Returns the position of `now_ns`; `None` after the end of a trace that does not continue.
    /// Times before the beginning count as the beginning.
    #[inline]
    pub(crate) fn position(&self, now_ns: u64) -> Option<TracePosition> {
        let since_ns = now_ns.saturating_sub(self.start_ns);
        if since_ns < self.period_ns {
            return Some(TracePosition { round_ns: self.start_ns, offset_ns: since_ns });
        }
        match self.end {
            TraceEnd::Loop => {
                let offset_ns = since_ns % self.period_ns;
                let round_ns = self.start_ns.saturating_add(since_ns - offset_ns);
                Some(TracePosition { round_ns, offset_ns })
            }
            TraceEnd::Hold => Some(TracePosition { round_ns: self.start_ns, offset_ns: since_ns }),
            TraceEnd::Once => None,
        }
    }

    pub(crate) const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    pub(crate) const fn end(&self) -> TraceEnd {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_round_that_began_last() {
        let of = |end, now_ns| {
            let position = TraceSchedule::new(100, 10, end).position(now_ns)?;
            Some((position.round_ns, position.offset_ns))
        };
        for end in [TraceEnd::Loop, TraceEnd::Hold, TraceEnd::Once] {
            assert_eq!(
                [of(end, 7), of(end, 100), of(end, 109)],
                [(100, 0), (100, 0), (100, 9)].map(Some)
            );
        }
        assert_eq!(
            [of(TraceEnd::Loop, 110), of(TraceEnd::Loop, 125)],
            [(110, 0), (120, 5)].map(Some)
        );
        assert_eq!([of(TraceEnd::Hold, 125), of(TraceEnd::Once, 125)], [Some((100, 25)), None]);
    }
}
