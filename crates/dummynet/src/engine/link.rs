//! A link: bandwidth, burst, profile and delay. All instances of a scheduler have the same
//! parameters, but each instance has its own line, which is the state of its link.

use core::num::NonZeroU64;

use slipring_model::{BitRate, LineClock, NANOS_PER_SEC, Stream};

use crate::spec::{PipeLinkSpec, PipeProfile};

#[derive(Clone, Debug)]
pub(crate) struct PipeLink {
    pub(crate) spec: PipeLinkSpec,
    rate: Option<BitRate>,
    /// The time in ns that a burst takes at the link's bandwidth.
    burst_ns: u64,
}

/// The state of one instance's line.
#[derive(Clone, Debug)]
pub(crate) struct PipeLinkState {
    /// The time at which the line becomes free; `None` if the bandwidth is unlimited.
    clock: Option<LineClock>,
    /// Time at which the latest packet leaves the delay, in ns. Packets that follow do not leave
    /// earlier.
    last_out_ns: u64,
    /// The random stream for draws from the profile; `None` if there is no profile.
    draws: Option<Stream>,
}

/// The fate of a packet that was put on the line.
pub(crate) struct LinkTransmission {
    /// Time at which the packet leaves the delay, in ns.
    pub(crate) out_ns: u64,
    /// Whether the profile loses the packet.
    pub(crate) lost: bool,
}

impl PipeLink {
    pub(crate) fn new(spec: &PipeLinkSpec) -> Self {
        let rate = NonZeroU64::new(spec.bits_per_sec).map(BitRate::new);
        let burst = u128::from(spec.burst_bytes) * 8 * u128::from(NANOS_PER_SEC);
        let burst_ns = rate.map_or(0, |rate| rate.divide_wide(burst).0);
        Self { spec: spec.clone(), rate, burst_ns }
    }

    /// Creates the state of a line that has always been idle. `stream` creates its random stream.
    pub(crate) fn line(&self, stream: impl FnOnce() -> Stream) -> PipeLinkState {
        let clock = self.rate.map(|rate| LineClock::new(rate, 0));
        PipeLinkState { clock, last_out_ns: 0, draws: self.spec.profile.as_ref().map(|_| stream()) }
    }

    /// Adapts the state of a line to this link's parameters at `now_ns`. A packet that is already
    /// on the line leaves at the time computed before the change. Later packets use the new
    /// bandwidth.
    pub(crate) fn relink(
        &self,
        line: &mut PipeLinkState,
        now_ns: u64,
        stream: impl FnOnce() -> Stream,
    ) {
        line.clock = match (line.clock.take(), self.rate) {
            (Some(mut clock), Some(rate)) => {
                clock.wait_for(now_ns.saturating_sub(self.burst_ns));
                clock.set_rate(rate);
                Some(clock)
            }
            (_, rate) => rate.map(|rate| LineClock::new(rate, now_ns)),
        };
        if self.spec.profile.is_none() {
            line.draws = None;
        } else if line.draws.is_none() {
            line.draws = Some(stream());
        }
    }

    /// Puts a packet of `len` bytes on the line at `now_ns`. The line must be free.
    #[inline]
    pub(crate) fn send(&self, line: &mut PipeLinkState, now_ns: u64, len: u32) -> LinkTransmission {
        let (extra_bits, lost) = match (&self.spec.profile, &mut line.draws) {
            (Some(profile), Some(draws)) => self.draw(profile, draws),
            _ => (0, false),
        };
        let sent_ns = match &mut line.clock {
            Some(clock) => {
                let rested_ns = now_ns.saturating_sub(self.burst_ns);
                // A line that has been free for longer than the burst time counts as free since
                // `rested_ns`. Otherwise, its clock keeps the exact time at which it became free,
                // with fractions of a nanosecond.
                if clock.free_ns() < rested_ns {
                    clock.wait_for(rested_ns);
                }
                clock.occupy(0, u64::from(len) * 8 + extra_bits).max(now_ns)
            }
            None => now_ns,
        };
        let out_ns = sent_ns.saturating_add(self.spec.delay_ns).max(line.last_out_ns);
        line.last_out_ns = out_ns;
        LinkTransmission { out_ns, lost }
    }

    #[cold]
    fn draw(&self, profile: &PipeProfile, draws: &mut Stream) -> (u64, bool) {
        let index = draws.below(profile.extra_ms.len() as u64) as u32;
        let ms = profile.extra_ms[index as usize];
        let bits = u128::from(ms) * u128::from(self.spec.bits_per_sec) / 1000;
        (u64::try_from(bits).unwrap_or(u64::MAX >> 8), index >= profile.first_lost)
    }

    /// Returns whether a line has been idle for so long that it behaves like a new line.
    pub(crate) fn is_as_new(&self, line: &PipeLinkState, now_ns: u64) -> bool {
        let rested = now_ns.saturating_sub(self.burst_ns);
        line.last_out_ns <= now_ns
            && line.clock.as_ref().is_none_or(|clock| clock.free_ns() <= rested)
    }
}

impl PipeLinkState {
    /// Returns the time at which the line becomes free, in ns, rounded up.
    #[inline]
    pub(crate) fn free_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, LineClock::free_ns)
    }
}
