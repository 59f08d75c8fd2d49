//! Prints the nanoseconds per frame, and the smallest and the largest share of the frames that one
//! of 16 outputs gets.

use std::hint::black_box;
use std::time::Instant;

use slipring_balance::{FlowSplitter, OutputSpread};
use slipring_wire::FrameSpec;

fn main() {
    let mut frame = FrameSpec::default().build(60).expect("a plain frame").bytes;
    let splitter = FlowSplitter::new([1, 2]);
    let names: Vec<u64> = (0..16).map(|i| splitter.split(&[i; 60]).hash).collect();
    for (name, spread) in
        [("even", OutputSpread::even(16)), ("table", OutputSpread::consistent(&names))]
    {
        for (inside, splitter) in [("", splitter), (", inside", splitter.decapsulating())] {
            let (mut shares, start) = ([0u64; 16], Instant::now());
            const FRAMES: u32 = 2_000_000;
            for i in 0..FRAMES {
                frame[26..30].copy_from_slice(&i.to_be_bytes());
                shares[spread.output(splitter.split(black_box(&frame)).hash)] += 1;
            }
            let ns = start.elapsed().as_nanos() as f64 / f64::from(FRAMES);
            let share = |count: Option<&u64>| {
                count.map_or(0.0, |count| *count as f64 * 100.0 / f64::from(FRAMES))
            };
            let (least, most) = (share(shares.iter().min()), share(shares.iter().max()));
            println!("{name}{inside}: {ns:.1} ns/frame, shares {least:.2} to {most:.2} %");
        }
    }
}
