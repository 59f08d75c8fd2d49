//! Decides when frames may be sent.

use slipring_model::{Pacer, Rate};
use slipring_port::Nanos;

use super::progress::Progress;

/// Decides for each frame when it may leave.
pub(super) struct SendSchedule {
    start: Nanos,
    pace: SendPace,
}

enum SendPace {
    /// Frames have no rate. They leave as fast as the ring has space, or at the source's own times.
    Free,
    /// Frames have a rate. The second value is the number of bytes that count for each frame in
    /// addition to its length.
    Rate(Pacer, usize),
}

impl SendSchedule {
    /// Creates a schedule without a rate: as fast as there is space, or at the source's own times,
    /// which count from `start`.
    pub(super) fn free(start: Nanos) -> Self {
        Self { start, pace: SendPace::Free }
    }

    /// Creates the schedule of thread `index` of `sharers` threads that share `rate`, starting at
    /// `start`. `len` is the length of the first frame in bytes. In bit rates, each frame counts
    /// `framing` bytes in addition to its length.
    pub(super) fn at(
        rate: Rate,
        start: Nanos,
        framing: usize,
        len: usize,
        (index, sharers): (u32, u32),
    ) -> Self {
        if matches!(rate, Rate::PacketsPerSec(0) | Rate::BitsPerSec(0)) {
            return Self::free(start);
        }
        let pacer = Pacer::new(rate, start).with_share(index, sharers, wire_bits(len, framing));
        Self { start, pace: SendPace::Rate(pacer, framing) }
    }

    /// Makes the schedule send late frames however late they are, instead of skipping time.
    pub(super) fn never_forfeiting(self) -> Self {
        match self.pace {
            SendPace::Free => self,
            SendPace::Rate(pacer, framing) => {
                Self { pace: SendPace::Rate(pacer.with_catch_up(Nanos::MAX), framing), ..self }
            }
        }
    }

    /// Admits a frame of `len` bytes at `now`, if it is due. `own` is the source's own time for the
    /// frame. Returns the time at which the frame was due, in ns after the start, or 0 if there is
    /// neither a rate nor a time of the source. Returns `None` if the frame is not due yet.
    #[inline(always)]
    pub(super) fn admit(&mut self, now: Nanos, len: usize, own: Option<Nanos>) -> Option<Nanos> {
        match &mut self.pace {
            SendPace::Free => match own {
                None => Some(0),
                Some(own) => (self.start.saturating_add(own) <= now).then_some(own),
            },
            SendPace::Rate(pacer, framing) => {
                if pacer.due_ns() > now {
                    return None;
                }
                let due = pacer.next(now, wire_bits(len, *framing));
                Some(due.saturating_sub(self.start))
            }
        }
    }

    /// Returns when the next frame may be sent, which may be in the past; `None` if there is
    /// neither a rate nor a time of the source, so that no frame has to wait.
    pub(super) fn due(&self, own: Option<Nanos>) -> Option<Nanos> {
        match &self.pace {
            SendPace::Free => own.map(|own| self.start.saturating_add(own)),
            SendPace::Rate(pacer, _) => Some(pacer.due_ns()),
        }
    }

    /// If frames are paced, makes the measured duration begin at the start of the schedule.
    pub(super) fn begin(&self, progress: &Progress) {
        if self.is_paced() {
            progress.begin(self.start);
        }
    }

    /// Returns whether the frames have a rate, so that they may have to wait.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self.pace, SendPace::Rate(..))
    }

    /// Returns the scheduled time in ns that was skipped because the port could not keep up.
    pub(super) fn forfeited(&self) -> Nanos {
        match &self.pace {
            SendPace::Free => 0,
            SendPace::Rate(pacer, _) => pacer.forfeited_ns(),
        }
    }
}

fn wire_bits(len: usize, framing: usize) -> u32 {
    (len + framing) as u32 * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_rate_counts_the_framing_only_where_asked() {
        for (framing, second) in [(0, 480), (24, 672)] {
            let mut schedule =
                SendSchedule::at(Rate::BitsPerSec(1_000_000_000), 0, framing, 60, (0, 1));
            assert_eq!(schedule.admit(0, 60, None), Some(0));
            assert_eq!(schedule.due(None), Some(second));
        }
    }

    #[test]
    fn a_patient_schedule_gives_nothing_up() {
        let late = 3_600_000_000_000;
        let second = |mut schedule: SendSchedule| {
            schedule.admit(late, 60, None);
            schedule.admit(late, 60, None)
        };
        let schedule = || SendSchedule::at(Rate::PacketsPerSec(1000), 0, 0, 60, (0, 1));
        assert_eq!(second(schedule().never_forfeiting()), Some(1_000_000));
        assert_ne!(second(schedule()), Some(1_000_000));
    }

    #[test]
    fn threads_take_turns() {
        let at = |index| SendSchedule::at(Rate::PacketsPerSec(1000), 10, 0, 60, (index, 2));
        assert_eq!(at(0).due(None), Some(10));
        assert_eq!(at(1).due(None), Some(1_000_010));
    }

    #[test]
    fn a_free_schedule_keeps_the_times_of_the_source() {
        let mut schedule = SendSchedule::free(100);
        assert_eq!(schedule.admit(100, 60, None), Some(0));
        assert_eq!(schedule.admit(149, 60, Some(50)), None);
        assert_eq!(schedule.admit(150, 60, Some(50)), Some(50));
    }
}
