//! Decides whether a packet may enter a queue. Tests random losses, limits and active queue
//! management (AQM), in dummynet's order.
//!
//! ```text
//!   packet --> plr --> RED --> size of the queue --> PIE --> in   CoDel decides when packets leave
//! ```

use alloc::boxed::Box;

use slipring_model::aqm::{
    Aqm, AqmArrival, AqmDeparture, AqmQueueView, AqmVerdict, CoDel, FifoAqm, Pie, PieSpec, Red,
    RedSpec as RedModel, RedUnit,
};
use slipring_model::{Chance, GilbertElliott, ParameterError, Stream};

use super::counters::ShaperDropCause;
use super::pool::PooledPacket;
use crate::spec::{AqmSpec, PolicySpec, QueueLimit, ShaperLoss, ShaperRedSpec};

/// The packet sizes that RED assumes. Each description begins with the name of the sysctl. As in
/// dummynet, a queue keeps the sizes that were set when it was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedSizes {
    /// `net.inet.ip.dummynet.red_avg_pkt_size`, default 512. While a queue is idle, its average
    /// length decreases as if packets of this size were leaving it.
    pub mean_len: u32,
    /// `net.inet.ip.dummynet.red_max_pkt_size`, default 1500. In a queue that is limited in bytes,
    /// a packet of this length is dropped with the full probability. The probability is lower for
    /// shorter packets, in proportion to their length.
    pub max_len: u32,
}

impl Default for RedSizes {
    fn default() -> Self {
        Self { mean_len: 512, max_len: 1500 }
    }
}

/// The packet length in bytes that PIE's `onoff` assumes if the queue's limit is in slots.
const PIE_MEAN_LEN: u64 = 1000;

/// The admission parameters that all queues of a flowset share.
#[derive(Clone, Debug)]
pub(crate) struct QueuePolicy {
    pub(crate) spec: PolicySpec,
    red: RedSizes,
    uniform: Chance,
    loss_draws: Stream,
    aqm_draws: Stream,
}

/// The admission state of a single queue. A queue with neither AQM nor the Gilbert-Elliott model
/// needs no such state.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionState {
    aqm: FifoAqm,
    loss_chain: Option<GilbertElliott>,
}

pub(crate) enum AdmissionDecision {
    In,
    InMarked,
    Lost(ShaperDropCause),
}

impl QueuePolicy {
    pub(crate) fn new(spec: &PolicySpec, red: RedSizes, seed: u64, number: u32) -> Self {
        let stream = |label| Stream::numbered(seed, label, number.into());
        Self {
            spec: *spec,
            red,
            uniform: uniform(spec.loss),
            loss_draws: stream("dummynet/plr"),
            aqm_draws: stream("dummynet/aqm"),
        }
    }

    pub(crate) fn change(&mut self, spec: &PolicySpec, red: RedSizes) {
        (self.spec, self.red) = (*spec, red);
        self.uniform = uniform(spec.loss);
    }

    /// Creates the admission state of a new queue whose link has the rate `bits_per_sec`. `None` if
    /// the queue needs none.
    ///
    /// # Errors
    /// [`ParameterError`] if a parameter is out of range.
    pub(crate) fn new_admission(
        &self,
        bits_per_sec: u64,
    ) -> Result<Option<Box<AdmissionState>>, ParameterError> {
        let aqm = aqm(&self.spec, self.red, bits_per_sec)?;
        let chain = loss_chain(self.spec.loss);
        let bare = chain.is_none() && matches!(aqm, FifoAqm::None);
        Ok((!bare).then(|| Box::new(AdmissionState { aqm, loss_chain: chain })))
    }

    /// Changes the admission state of a queue as this policy requires. The AQM algorithm keeps its
    /// state if the policy still uses the same algorithm.
    pub(crate) fn update_admission(
        &self,
        gate: &mut Option<Box<AdmissionState>>,
        bits_per_sec: u64,
    ) {
        let fresh = self.new_admission(bits_per_sec).expect("policies are judged when configured");
        let Some((old, mut fresh)) = gate.take().zip(fresh.clone()) else {
            *gate = fresh;
            return;
        };
        let mut aqm = old.aqm;
        let kept = match (&mut aqm, &fresh.aqm) {
            (FifoAqm::Red(red), FifoAqm::Red(new)) => red.retune(new.spec()).is_ok(),
            (FifoAqm::CoDel(codel), FifoAqm::CoDel(new)) => codel.retune(new.spec()).is_ok(),
            (FifoAqm::Pie(pie), FifoAqm::Pie(new)) => pie.retune(new.spec()).is_ok(),
            _ => false,
        };
        if kept {
            fresh.aqm = aqm;
        }
        *gate = Some(fresh);
    }

    /// Returns the stream of random numbers for AQM.
    pub(crate) const fn aqm_draws(&mut self) -> &mut Stream {
        &mut self.aqm_draws
    }

    /// Returns whether the packet is lost at random (`plr`). [`Self::admit`] calls this; flow
    /// queueing calls only this.
    #[inline]
    pub(crate) fn loses(&mut self, gate: Option<&mut AdmissionState>) -> bool {
        match self.spec.loss {
            ShaperLoss::None => false,
            ShaperLoss::Uniform(_) => self.loss_draws.chance(self.uniform),
            ShaperLoss::GilbertElliott { .. } => {
                let chain = gate.and_then(|gate| gate.loss_chain.as_mut());
                chain.is_some_and(|chain| chain.lost(&mut self.loss_draws))
            }
        }
    }

    /// Decides whether an arriving packet enters its queue. `queue` is the queue's content before
    /// the packet arrives.
    #[inline]
    pub(crate) fn admit<H>(
        &mut self,
        mut gate: Option<&mut AdmissionState>,
        queue: AqmQueueView,
        held: &PooledPacket<H>,
    ) -> AdmissionDecision {
        if self.loses(gate.as_deref_mut()) {
            return AdmissionDecision::Lost(ShaperDropCause::Loss);
        }
        let Some(gate) = gate else {
            return if self.is_full(queue) { QUEUE_FULL } else { AdmissionDecision::In };
        };
        let before = matches!(gate.aqm, FifoAqm::Red(_));
        if !before && self.is_full(queue) {
            return QUEUE_FULL;
        }
        let arriving = AqmArrival { now_ns: held.arrival_ns, len: held.len, queue };
        let verdict = gate.aqm.admit(&arriving, || held.ecn.is_capable(), &mut self.aqm_draws);
        match verdict {
            AqmVerdict::Drop => AdmissionDecision::Lost(ShaperDropCause::Aqm),
            _ if before && self.is_full(queue) => QUEUE_FULL,
            AqmVerdict::Mark => AdmissionDecision::InMarked,
            AqmVerdict::Keep => AdmissionDecision::In,
        }
    }

    #[inline]
    const fn is_full(&self, queue: AqmQueueView) -> bool {
        match self.spec.limit {
            QueueLimit::Slots(slots) => queue.packets >= slots as u64,
            QueueLimit::Bytes(bytes) => queue.bytes > bytes as u64,
        }
    }
}

const QUEUE_FULL: AdmissionDecision = AdmissionDecision::Lost(ShaperDropCause::Full);

impl AdmissionState {
    /// Decides whether a packet that was taken from its queue is sent, marked or dropped.
    #[inline]
    pub(crate) fn dequeue<H>(
        &mut self,
        now_ns: u64,
        held: &PooledPacket<H>,
        queue: AqmQueueView,
    ) -> AqmVerdict {
        let sojourn_ns = now_ns.saturating_sub(held.arrival_ns);
        let leaving = AqmDeparture { now_ns, len: held.len, sojourn_ns, queue };
        self.aqm.dequeue(&leaving, || held.ecn.is_capable())
    }
}

fn uniform(loss: ShaperLoss) -> Chance {
    match loss {
        ShaperLoss::Uniform(loss) => chance(loss),
        _ => Chance::NEVER,
    }
}

fn loss_chain(loss: ShaperLoss) -> Option<GilbertElliott> {
    let ShaperLoss::GilbertElliott { good, to_bad, bad, to_good } = loss else { return None };
    Some(GilbertElliott::new(chance(to_bad), chance(to_good), chance(bad), chance(good)))
}

fn chance(loss: u32) -> Chance {
    Chance::from_ratio(loss.into(), ShaperLoss::SCALE.into()).unwrap_or(Chance::ALWAYS)
}

/// Creates the AQM algorithm of a policy.
///
/// # Errors
/// [`ParameterError`] if a parameter is out of range.
pub(crate) fn aqm(
    spec: &PolicySpec,
    red_sizes: RedSizes,
    bits_per_sec: u64,
) -> Result<FifoAqm, ParameterError> {
    Ok(match &spec.aqm {
        AqmSpec::DropTail => FifoAqm::None,
        AqmSpec::Red(red) => {
            FifoAqm::Red(Red::new(&red_model(red, red_sizes, spec.limit, bits_per_sec))?)
        }
        AqmSpec::CoDel(codel) => FifoAqm::CoDel(CoDel::new(codel)?),
        AqmSpec::Pie(pie) => FifoAqm::Pie(Pie::new(&pie_model(pie, spec.limit))?),
    })
}

fn red_model(
    red: &ShaperRedSpec,
    sizes: RedSizes,
    limit: QueueLimit,
    bits_per_sec: u64,
) -> RedModel {
    let scale = |value: u32| f64::from(value) / f64::from(ShaperRedSpec::SCALE);
    let in_bytes = matches!(limit, QueueLimit::Bytes(_));
    let min = f64::from(red.min);
    // With `ecn`, every packet is marked or dropped while the average is above `min`. This has the
    // same effect as a `max` just above `min`.
    let max = if red.ecn { min + 1e-6 } else { f64::from(red.max) };
    RedModel {
        unit: if in_bytes { RedUnit::Bytes } else { RedUnit::Packets },
        min,
        max,
        max_p: scale(red.max_p).max(f64::MIN_POSITIVE),
        weight: scale(red.weight),
        gentle: red.gentle && !red.ecn,
        wait: false,
        ecn: red.ecn,
        hard_drop: false,
        by_length: in_bytes,
        mean_len: sizes.max_len,
        idle_packet_ns: idle_packet_ns(sizes, bits_per_sec),
    }
}

/// Returns the time in ns that a packet of the size `sizes.mean_len` takes on the link; 0 if the
/// rate is unlimited.
fn idle_packet_ns(sizes: RedSizes, bits_per_sec: u64) -> u64 {
    let ns = (u128::from(sizes.mean_len) * 8_000_000_000).checked_div(bits_per_sec.into());
    ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Returns PIE's parameters for a queue with this limit. With `onoff`, PIE becomes active when a
/// third of the limit is in use.
fn pie_model(pie: &PieSpec, limit: QueueLimit) -> PieSpec {
    let bytes = match limit {
        QueueLimit::Slots(slots) => u64::from(slots) * PIE_MEAN_LEN,
        QueueLimit::Bytes(bytes) => bytes.into(),
    };
    PieSpec { wake_bytes: if pie.wake_bytes == 0 { 0 } else { (bytes / 3).max(1) }, ..*pie }
}
