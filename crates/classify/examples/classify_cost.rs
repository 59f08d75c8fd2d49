//! Prints how many million lookups a CPU-second allows, next to the required rates. Measures prefix
//! tables, and rules on five fields. Keys are already parsed. Keys for rules come in batches; keys
//! for prefixes are looked up one by one, and in batches.
//!
//! `cargo run --release -p slipring-classify --example classify_cost`

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use slipring_classify::matcher::Matcher;
use slipring_classify::prefixes::PrefixMap;
use slipring_classify::ranges::RangeSet;
use slipring_classify::trie::TrieKey;

const PREFIXES: u32 = 1_000_000;
const PROBES: usize = 1 << 20;

fn main() {
    for (count, floor) in [(100, 30.0), (1000, 20.0), (10_000, 5.0)] {
        rules(count, floor);
    }
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

/// Measures rules on source and destination prefixes, ports and protocols: for each batch of 64
/// keys, looks up the classes of all fields first, then searches the candidates of each key up to
/// the first match.
fn rules(count: usize, floor: f64) {
    const FIELDS: usize = 5;
    let mut draw = Draw(7);
    let all: Vec<[Option<(u128, u128)>; FIELDS]> = (0..count).map(|_| rule(&mut draw)).collect();
    let wants: Vec<Vec<_>> = (0..FIELDS)
        .map(|field| {
            all.iter().map(|rule| rule[field].map(|(a, b)| RangeSet::of(0, a, b))).collect()
        })
        .collect();
    let start = cpu_seconds();
    let (matcher, partitions) = Matcher::build(&wants);
    let wide: Vec<_> = partitions[..2].iter().map(|part| part.trie::<u32>(0)).collect();
    let narrow: Vec<_> = partitions[2..].iter().map(|part| part.direct(0)).collect();
    let build = cpu_seconds() - start;
    let keys: Vec<[u32; FIELDS]> = (0..4096)
        .map(|_| {
            let at = draw.below(count);
            core::array::from_fn(|field| {
                let last = if field < 2 { u32::MAX.into() } else { 65535 };
                let (low, high) = all[at][field].unwrap_or((0, last));
                (low + u128::from(draw.next()) % (high - low + 1)) as u32
            })
        })
        .collect();
    let (mut classes, mut found) = ([[0; FIELDS]; 64], Vec::new());
    let rate = rate_of(keys.len() * 64, || {
        for _ in 0..64 {
            for keys in keys.chunks(64) {
                for field in 0..FIELDS {
                    for (key, classes) in keys.iter().zip(&mut classes) {
                        classes[field] = match field {
                            0..2 => wide[field].get(key[field]),
                            _ => narrow[field - 2].get(key[field] as u16),
                        };
                    }
                }
                for classes in &classes {
                    found.clear();
                    let mut bands = 0..matcher.bands();
                    while let (true, Some(band)) = (found.is_empty(), bands.next()) {
                        matcher.candidates(classes, band, &mut found);
                    }
                    black_box(&found);
                }
            }
        }
    });
    let name = format!("{count} rules of five fields: million keys");
    row(&name, rate, floor);
    let size = matcher.size_bytes() as f64 / 1e6;
    println!("{:52} {:8.1} ms, {size:.1} MB", "   built in", build * 1e3);
}

fn rule(draw: &mut Draw) -> [Option<(u128, u128)>; 5] {
    let mut prefix = |open: usize| {
        let len = [8, 16, 20, 24, 24, 28, 32, 32][draw.below(8)];
        let first = draw.next() as u32 & u32::MAX << (32 - len);
        (draw.below(100) >= open).then_some((first.into(), first.last_of(len).into()))
    };
    let (src, dst) = (prefix(30), prefix(20));
    let mut ports = |open: usize, width: usize| {
        let first = draw.below(60_000);
        let last = first + draw.below(width);
        (draw.below(100) >= open).then_some((first as u128, last as u128))
    };
    let (dst_ports, src_ports) = (ports(30, 3), ports(90, 1000));
    let proto = if draw.below(2) == 0 { 6 } else { 17 };
    [src, dst, dst_ports, src_ports, Some((proto, proto))]
}

fn prefixes<K: TrieKey>(name: &str, all: &[(K, u8)], near: impl Fn(&mut Draw, K) -> K) {
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
        map.lookup_bytes() as f64 / 1e6
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

/// Returns the rate of `all`, which makes [`PROBES`] lookups, in millions per CPU-second.
fn rate(mut all: impl FnMut() -> u64) -> f64 {
    rate_of(PROBES, || {
        black_box(all());
    })
}

/// Returns the rate of `all`, which processes `count` items, in millions per CPU-second. This is
/// the best of several runs.
fn rate_of(count: usize, mut all: impl FnMut()) -> f64 {
    let go = |_| {
        let start = cpu_seconds();
        all();
        count as f64 / (cpu_seconds() - start) / 1e6
    };
    (0..8).map(go).fold(0.0, f64::max)
}

fn row(name: &str, rate: f64, floor: f64) {
    println!("{name:52} {rate:8.1}   floor {floor:5.1}   x {:.2}", rate / floor);
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Marsaglia's xorshift, which returns the same numbers in every run.
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
