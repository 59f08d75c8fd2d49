//! Millions of lookups in a CPU-second, beside what is asked for: tables of prefixes, and rules
//! that want something of five fields.
//!
//! `cargo run --release -p slipring-classify --example classify_cost`

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use slipring_classify::prefixes::PrefixMap;
use slipring_classify::trie::Key;

const PREFIXES: u32 = 1_000_000;
const PROBES: usize = 1 << 20;

fn main() {
    let mut draw = Draw(1);
    let v4: Vec<(u32, u8)> = (0..PREFIXES)
        .map(|_| (draw.next() as u32, [16, 20, 22, 23, 24, 24, 24, 24, 24, 32][draw.below(10)]))
        .collect();
    prefixes("IPv4", &v4, |draw, near| near ^ (draw.next() as u32 & 0xff));
    let v6: Vec<(u128, u8)> = (0..PREFIXES)
        .map(|_| {
            let top = 0x2000_u128 << 112 | u128::from(draw.next() & 0xfff) << 112;
            (
                top | u128::from(draw.next()) << 48,
                [32, 40, 44, 48, 48, 48, 48, 56, 64][draw.below(9)],
            )
        })
        .collect();
    prefixes("IPv6", &v6, |draw, near| near ^ u128::from(draw.next()));
}

fn prefixes<K: Key>(name: &str, all: &[(K, u8)], near: impl Fn(&mut Draw, K) -> K) {
    let start = cpu_seconds();
    let mut map = PrefixMap::default();
    for (number, &(key, len)) in (0..).zip(all) {
        map.insert(key, len, number % 1000);
    }
    map.settle();
    let load = cpu_seconds() - start;
    row(&format!("{name}: load of {} prefixes, per second", map.len()), 1.0 / load, 0.5);
    println!(
        "{:52} {:8.1} MB",
        format!("{name}: lookups go through"),
        map.trie_bytes() as f64 / 1e6
    );
    let mut draw = Draw(2);
    let mut probe = |_| {
        let at = draw.below(all.len());
        near(&mut draw, all[at].0)
    };
    let probes: Vec<_> = (0..PROBES).map(&mut probe).collect();
    let one = rate(|| probes.iter().map(|&probe| u64::from(map.get(probe).unwrap_or(0))).sum());
    row(&format!("{name}: million lookups, one by one"), one, 30.0);
    let mut numbers = vec![0; PROBES];
    let many = rate(|| {
        map.get_many(&probes, &mut numbers);
        numbers[7].into()
    });
    row(&format!("{name}: million lookups, many at once"), many, 30.0);
}

/// Millions of probes in a CPU-second.
fn rate(mut all: impl FnMut() -> u64) -> f64 {
    let start = cpu_seconds();
    for _ in 0..8 {
        black_box(all());
    }
    8.0 * PROBES as f64 / (cpu_seconds() - start) / 1e6
}

fn row(name: &str, rate: f64, floor: f64) {
    println!("{name:52} {rate:8.1}   floor {floor:5.1}   x {:.2}", rate / floor);
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Marsaglia's xorshift: the same numbers every time.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }
}
