//! Prints nanoseconds per frame, by frame size and window length; every tenth frame is a copy.

use std::time::Instant;

use slipring_dedup::{Dedup, DedupLimits, DedupVerdict};

const FRAMES: u64 = 1_000_000;

fn main() {
    for len in [60, 256, 1514] {
        for frames in [10, 1000, 100_000] {
            let limits = DedupLimits { window_ns: None, frames: Some(frames), bytes: 1 << 30 };
            let mut dedup = Dedup::new(limits, [1, 2]).expect("limits are in order");
            let mut frame = vec![7; len];
            let (start, mut duplicates) = (Instant::now(), 0u64);
            for i in 0..FRAMES {
                if i % 10 != 9 {
                    frame[20..28].copy_from_slice(&i.to_le_bytes());
                }
                duplicates += u64::from(dedup.offer(i, &frame) == DedupVerdict::Duplicate);
            }
            let ns = start.elapsed().as_nanos() as f64 / FRAMES as f64;
            println!(
                "{len:5} bytes, window {frames:6}: {ns:6.1} ns/frame, {duplicates} duplicates"
            );
        }
    }
}
