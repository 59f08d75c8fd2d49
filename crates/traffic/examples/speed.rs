//! Measures how many frames one core writes, patches and tracks per second. It uses as many buffers
//! as a large ring has. Prints the median of nine rounds.

use std::hint::black_box;
use std::time::Instant;

use slipring_traffic::{
    EndpointOrder, Generator, GeneratorShare, StampCheck, Tracker, TrafficPattern,
};

const BUFFERS: usize = 1024;
const BUFFER_LEN: usize = 2048;
const FRAMES: u32 = 4_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sweep = || -> Result<TrafficPattern, Box<dyn std::error::Error>> {
        Ok(TrafficPattern {
            src: "10.0.0.1:1000-10.0.0.9:2000".parse()?,
            ..TrafficPattern::default()
        })
    };
    let random = TrafficPattern {
        src: "10.0.0.0/8:0-65535".parse()?,
        src_order: EndpointOrder::Random,
        ..TrafficPattern::default()
    };
    let ipv6 = TrafficPattern {
        src: "fd00::1".parse()?,
        dst: "fd00::2".parse()?,
        sizes: "80".parse()?,
        ..TrafficPattern::default()
    };
    for (name, pattern, sizes) in [
        ("one flow, 60", TrafficPattern::default(), "60"),
        ("one flow, 1514", TrafficPattern::default(), "1514"),
        ("one flow, imix", TrafficPattern::default(), "imix"),
        ("one flow, 60-1514", TrafficPattern::default(), "60-1514"),
        ("sweep, 60", sweep()?, "60"),
        ("random source, 60", random, "60"),
        ("IPv6, 80", ipv6, "80"),
    ] {
        let pattern = TrafficPattern { sizes: sizes.parse()?, ..pattern };
        report(name, &pattern)?;
    }
    Ok(())
}

fn report(name: &str, pattern: &TrafficPattern) -> Result<(), Box<dyn std::error::Error>> {
    let mut buffers = vec![0; BUFFERS * BUFFER_LEN];
    let mut generator = Generator::new(pattern, 1, GeneratorShare::ONLY)?;
    let write = mpps(&mut buffers, |buffer, now_ns| {
        black_box(generator.write(now_ns, buffer));
    });
    buffers.chunks_exact_mut(BUFFER_LEN).for_each(|buffer| generator.prepare(buffer));
    let patch = mpps(&mut buffers, |buffer, now_ns| {
        black_box(generator.patch(now_ns, buffer));
    });
    // Each frame has a new number, because the tracker handles a number that it has already seen in
    // a different way.
    let mut trackers = [StampCheck::Mark, StampCheck::Checksum].map(Tracker::new);
    let [mark, checksum] = trackers.each_mut().map(|tracker| {
        mpps(&mut buffers, |buffer, now_ns| {
            let len = generator.patch(now_ns, buffer).unwrap_or(0);
            black_box(tracker.observe(&buffer[..len], now_ns));
        })
    });
    println!(
        "{name:<18} write {write:>6.1}  patch {patch:>6.1}  \
         patch and track {mark:>6.1}  with checksum {checksum:>6.1}  Mpps"
    );
    Ok(())
}

fn mpps(buffers: &mut [u8], mut work: impl FnMut(&mut [u8], u64)) -> f64 {
    let mut rounds = [0.0; 9];
    for round in &mut rounds {
        let start = Instant::now();
        for n in 0..FRAMES {
            let at = n as usize % BUFFERS * BUFFER_LEN;
            work(&mut buffers[at..at + BUFFER_LEN], u64::from(n));
        }
        *round = f64::from(FRAMES) / start.elapsed().as_secs_f64() / 1e6;
    }
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
