//! Sends a million frames over a simulated wire, in virtual time. The wire loses 1 in 1000,
//! duplicates 1 in 2000, and delays frames by up to 40 us. Prints what the wire did, and what the
//! receiver detected.

use slipring_model::{Chance, DelayLine, Pacer, Rate, Stream};
use slipring_traffic::{
    Expectations, Generator, GeneratorShare, StampCheck, Tracker, TrafficOutcome, TrafficPattern,
};

const FRAMES: u64 = 1_000_000;
const SEED: u64 = 2026;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut generator = Generator::new(&TrafficPattern::default(), SEED, GeneratorShare::ONLY)?;
    let mut pacer = Pacer::new(Rate::PacketsPerSec(1_000_000), 0);
    let mut tracker = Tracker::new(StampCheck::Checksum);
    let mut wire = Wire::new();
    for _ in 0..FRAMES {
        let now_ns = pacer.next(0, 0);
        let mut frame = [0; 60];
        generator.write(now_ns, &mut frame).ok_or("60 bytes hold the frame")?;
        wire.carry(now_ns, frame);
        while let Some((arrival_ns, frame)) = wire.arrival(now_ns) {
            tracker.observe(&frame, arrival_ns);
        }
    }
    while let Some((arrival_ns, frame)) = wire.arrival(u64::MAX) {
        tracker.observe(&frame, arrival_ns);
    }
    let report = tracker.report();
    let lost = report.streams.iter().map(|stream| stream.lost_of(FRAMES)).sum();
    println!("the wire lost {} and doubled {}", wire.lost, wire.doubled);
    println!("{:#?}", report.total);
    judge(lost)
}

fn judge(lost: u64) -> Result<(), Box<dyn std::error::Error>> {
    let expectations = Expectations { max_loss: Some("0.05%".parse()?), ..Expectations::default() };
    let outcome = TrafficOutcome { sent: FRAMES, lost, ..TrafficOutcome::default() };
    for unmet in expectations.unmet(&outcome) {
        println!("not good enough: {unmet}");
    }
    Ok(())
}

struct Wire {
    line: DelayLine<[u8; 60]>,
    chance: Stream,
    jitter: Stream,
    lost: u64,
    doubled: u64,
}

impl Wire {
    const LOSS: (u64, u64) = (1, 1000);
    const DOUBLING: (u64, u64) = (1, 2000);

    fn new() -> Self {
        Self {
            line: DelayLine::new(),
            chance: Stream::new(SEED, "wire/chance"),
            jitter: Stream::new(SEED, "wire/jitter"),
            lost: 0,
            doubled: 0,
        }
    }

    fn happens(&mut self, (yes, of): (u64, u64)) -> bool {
        Chance::from_ratio(yes, of).is_some_and(|chance| self.chance.chance(chance))
    }

    fn carry(&mut self, now_ns: u64, frame: [u8; 60]) {
        if self.happens(Self::LOSS) {
            self.lost += 1;
            return;
        }
        if self.happens(Self::DOUBLING) {
            self.doubled += 1;
            self.put(now_ns, frame);
        }
        self.put(now_ns, frame);
    }

    fn put(&mut self, now_ns: u64, frame: [u8; 60]) {
        self.line.push(now_ns + self.jitter.below(40_000), frame);
    }

    fn arrival(&mut self, now_ns: u64) -> Option<(u64, [u8; 60])> {
        let arrival_ns = self.line.next_release_ns()?;
        Some((arrival_ns, self.line.pop_due(now_ns)?))
    }
}
