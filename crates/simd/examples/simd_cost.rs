//! Prints nanoseconds per call of `sum_words`, `rank` and `matching_tags` at each level, the least
//! of many runs.
//!
//! `cargo run --release -p slipring-simd --example simd_cost`

use std::hint::black_box;
use std::time::Instant;

use slipring_simd::Simd;

const CALLS: u32 = 20_000;
const RUNS: usize = 60;

fn main() {
    let levels = [Simd::detect(), Simd::detect_avx2(), Simd::scalar()];
    let [best, avx2, scalar] = levels.map(Simd::name);
    println!("{:32}{best:>10}{avx2:>10}{scalar:>10}", "ns per call");
    let blocks = vec![[7_u8; 32]; 2048];
    for len in [64, 256, 1472, 65536] {
        let part = &blocks[..len / 32];
        row(
            &format!("sum of {len} bytes"),
            levels.map(|simd| nanos(|| simd.sum_words(black_box(part)))),
        );
    }
    let node: [u64; 16] = std::array::from_fn(|at| at as u64 * 1000);
    let eight: [u64; 8] = std::array::from_fn(|at| at as u64 * 1000);
    row(
        "rank among 8",
        levels.map(|simd| nanos(|| simd.rank(black_box(&eight), black_box(3500)) as u64)),
    );
    row(
        "rank among 16",
        levels.map(|simd| nanos(|| simd.rank(black_box(&node), black_box(7500)) as u64)),
    );
    let tags: [u8; 16] = std::array::from_fn(|at| at as u8);
    row(
        "matching of 16 tags",
        levels.map(|simd| nanos(|| simd.matching_tags(black_box(&tags), black_box(9)).into())),
    );
}

fn row(name: &str, nanos: [f64; 3]) {
    println!("{name:32}{:10.2}{:10.2}{:10.2}", nanos[0], nanos[1], nanos[2]);
}

fn nanos(mut work: impl FnMut() -> u64) -> f64 {
    let run = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(work());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}
