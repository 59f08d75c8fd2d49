//! Decides when an interface is probed again after its driver has refused redirected frames.
//!
//! A driver may take the probe's frames and refuse others, such as frames in several buffers.
//! Without a back-off, each such frame would switch the interface's packets from the router to the
//! kernel, and each probe would switch them back.

use slipring_fib::FibPortIndex;
use slipring_port::Nanos;

/// The wait before the second probe of an interface that keeps refusing frames. Before the first
/// probe there is no wait; each further wait is twice the previous one, up to [`MAX_DELAY_NS`].
const FIRST_DELAY_NS: Nanos = 1_000_000_000;
const MAX_DELAY_NS: Nanos = 300_000_000_000;
/// If an interface takes frames for this long after a probe before it refuses some, it is probed
/// again without a wait.
const CALM_NS: Nanos = 60_000_000_000;

/// The probe times of the interfaces that have refused frames, by port.
#[derive(Debug, Default)]
pub(crate) struct ProbeBackoff {
    ports: Vec<PortBackoff>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PortBackoff {
    /// When [`ProbeBackoff::take_due`] last returned the port; `None` before the first time.
    probed_at: Option<Nanos>,
    delay: Nanos,
    /// When the next probe is due; `None` if none is due.
    due: Option<Nanos>,
}

impl ProbeBackoff {
    /// Notes that the driver of a port has refused frames.
    pub(crate) fn refuse(&mut self, port: FibPortIndex, now: Nanos) {
        let at = usize::from(port.0);
        if self.ports.len() <= at {
            self.ports.resize(at + 1, PortBackoff::default());
        }
        let of = &mut self.ports[at];
        let is_calm = of.probed_at.is_none_or(|probed| now >= probed + CALM_NS);
        of.delay = if is_calm { 0 } else { (2 * of.delay).clamp(FIRST_DELAY_NS, MAX_DELAY_NS) };
        of.due = Some(now + of.delay);
    }

    /// Takes the ports that are to be probed now.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Vec<FibPortIndex> {
        let take = |(of, port): (&mut PortBackoff, FibPortIndex)| {
            of.due.take_if(|due| *due <= now)?;
            of.probed_at = Some(now);
            Some(port)
        };
        self.ports.iter_mut().zip((0..).map(FibPortIndex)).filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: FibPortIndex = FibPortIndex(1);

    /// The wait after a refusal at this time.
    fn wait(backoff: &mut ProbeBackoff, now: Nanos) -> Nanos {
        backoff.refuse(PORT, now);
        let steps = (0..).map(|step| step * FIRST_DELAY_NS / 2);
        let mut steps = steps.take_while(|wait| *wait <= 2 * MAX_DELAY_NS);
        steps.find(|wait| backoff.take_due(now + wait) == [PORT]).unwrap()
    }

    #[test]
    fn each_refusal_soon_after_another_one_makes_the_next_wait_longer() {
        let mut backoff = ProbeBackoff::default();
        let mut now = CALM_NS;
        let mut waits = Vec::new();
        for _ in 0..12 {
            waits.push(wait(&mut backoff, now));
            now += waits.last().unwrap() + 1;
        }
        assert_eq!(waits[..4], [0, FIRST_DELAY_NS, 2 * FIRST_DELAY_NS, 4 * FIRST_DELAY_NS]);
        assert_eq!(waits[11], MAX_DELAY_NS);
        assert_eq!(wait(&mut backoff, now + CALM_NS), 0, "it has sent for a while");
    }

    #[test]
    fn a_port_is_probed_once_for_a_refusal_and_others_are_not() {
        let mut backoff = ProbeBackoff::default();
        assert!(backoff.take_due(7).is_empty());
        backoff.refuse(PORT, 7);
        assert_eq!((backoff.take_due(7), backoff.take_due(8)), (vec![PORT], vec![]));
    }
}
