//! Frames for the kernel, limited by class (RFC 6192): the kernel receives them on the interface on
//! which they arrived.

use std::sync::Arc;

use slipring_model::bucket::TokenBucket;
use slipring_port::Nanos;
use slipring_route::PuntClass;
use slipring_route_bpf::FrameInjector;

use crate::live::LiveSettings;

/// The limits and counters of a worker.
pub(super) struct KernelPunts {
    injector: Arc<FrameInjector>,
    /// Number of workers that share the rates.
    workers: u64,
    rates: [u64; PuntClass::COUNT],
    /// Token buckets in which each packet costs one byte, by class.
    buckets: [TokenBucket; PuntClass::COUNT],
    figures: PuntFigures,
}

/// Packets that the kernel did not get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PuntFigures {
    /// Packets that were not given to the kernel because of the limit of their class, by class, in
    /// the order of [`PuntClass::ALL`].
    pub(crate) limited: [u64; PuntClass::COUNT],
    /// Packets that the kernel or a device did not accept.
    pub(crate) failed: u64,
}

impl KernelPunts {
    /// Creates the limits of a worker. Its share is the rate of a class divided by `workers`.
    pub(super) fn new(injector: Arc<FrameInjector>, workers: usize) -> Self {
        let (workers, rates) = (workers as u64, LiveSettings::default().punt_rates);
        let buckets = rates.map(|rate| bucket(rate / workers, 0));
        Self { injector, workers, rates, buckets, figures: PuntFigures::default() }
    }

    /// Sets the total rates of all workers. A class whose rate does not change keeps its tokens.
    pub(super) fn set_rates(&mut self, rates: [u64; PuntClass::COUNT], now_ns: Nanos) {
        for (class, rate) in rates.into_iter().enumerate() {
            if rate != self.rates[class] {
                self.buckets[class] = bucket(rate / self.workers, now_ns);
            }
        }
        self.rates = rates;
    }

    /// Makes the kernel receive a frame, unless the frame's class has exceeded its rate.
    pub(super) fn punt(
        &mut self,
        frame: &[u8],
        ifindex: u32,
        class: Option<PuntClass>,
        now_ns: Nanos,
    ) {
        if self.admits(class, now_ns) && self.injector.receive(frame, ifindex).is_err() {
            self.figures.failed += 1;
        }
    }

    /// Returns whether a packet of this class may go to the kernel, and counts it if not. A packet
    /// without a class may always go.
    pub(super) fn admits(&mut self, class: Option<PuntClass>, now_ns: Nanos) -> bool {
        let Some(class) = class else { return true };
        let admits = self.buckets[class as usize].take(now_ns, 1);
        self.figures.limited[class as usize] += u64::from(!admits);
        admits
    }

    /// If `has_failed`, counts a packet that a device did not accept.
    pub(super) fn count_failed(&mut self, has_failed: bool) {
        self.figures.failed += u64::from(has_failed);
    }

    pub(super) fn figures(&self) -> &PuntFigures {
        &self.figures
    }
}

/// Returns a full bucket for a rate in packets per second. Its burst is what the rate permits in a
/// tenth of a second, but at least 16 packets.
fn bucket(rate: u64, now_ns: Nanos) -> TokenBucket {
    let rate = rate.max(1);
    TokenBucket::new(8 * rate, (rate / 10).max(16), now_ns).expect("the burst is not 0")
}
