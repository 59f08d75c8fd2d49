//! Frames for the kernel, limited by class (RFC 6192): the kernel receives them on the interface on
//! which they arrived.

use std::sync::Arc;

use slipring_model::bucket::TokenBucket;
use slipring_port::Nanos;
use slipring_route::PuntClass;
use slipring_route_bpf::FrameInjector;

/// Packets per second of each class, in the order of [`PuntClass::ALL`].
const DEFAULT_RATES: [u64; PuntClass::COUNT] = [2000, 2000, 20_000, 5000, 5000, 1000, 1000];

/// The limits of a worker, and what it has counted.
pub(super) struct KernelPunts {
    injector: Arc<FrameInjector>,
    /// A packet costs a byte.
    buckets: [TokenBucket; PuntClass::COUNT],
    figures: PuntFigures,
}

/// Packets of each class, in the order of [`PuntClass::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PuntFigures {
    /// Not given to the kernel, because of the class's limit.
    pub(crate) limited: [u64; PuntClass::COUNT],
    /// Refused by the kernel, of any class.
    pub(crate) failed: u64,
}

impl KernelPunts {
    /// Each of `workers` threads may use its share of the rates.
    pub(super) fn new(injector: Arc<FrameInjector>, workers: usize) -> Self {
        let share = |rate: u64| (rate / workers as u64).max(1);
        let bucket = |rate| {
            let rate = share(rate);
            // A burst of a tenth of a second.
            TokenBucket::new(8 * rate, (rate / 10).max(16), 0).expect("the burst is not 0")
        };
        Self { injector, buckets: DEFAULT_RATES.map(bucket), figures: PuntFigures::default() }
    }

    /// Has the kernel receive a frame, unless its class has exceeded its rate.
    pub(super) fn punt(
        &mut self,
        frame: &[u8],
        ifindex: u32,
        class: Option<PuntClass>,
        now_ns: Nanos,
    ) {
        if let Some(class) = class
            && !self.buckets[class as usize].take(now_ns, 1)
        {
            self.figures.limited[class as usize] += 1;
        } else if self.injector.receive(frame, ifindex).is_err() {
            self.figures.failed += 1;
        }
    }

    pub(super) fn figures(&self) -> &PuntFigures {
        &self.figures
    }
}
