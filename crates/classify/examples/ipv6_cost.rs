//! Prints what tables of IPv6 prefixes cost as an interval tree (`PrefixMap<u128>`), compared with
//! a trie of the upper halves of the same prefixes (`PrefixMap<u64>`): million lookups per
//! CPU-second, microseconds for a change of one prefix, bytes for each prefix. The measurements of
//! the two alternate, and the best of several runs counts.
//!
//! `cargo run --release -p slipring-classify --example ipv6_cost [PREFIXES...]`

use std::env;
use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use slipring_classify::prefixes::PrefixMap;
use slipring_classify::trie::TrieKey;

const PROBES: usize = 1 << 18;
const ROUNDS: usize = 9;
const CHANGES: usize = 500;

fn main() {
    let counts: Vec<usize> = env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let counts =
        if counts.is_empty() { vec![1, 1000, 100_000, 210_000, 1_000_000] } else { counts };
    println!(
        "{:>9}{:28}{:28}{:28}{:>19}",
        "",
        "  many: trie  tree   ratio",
        "   one: trie  tree   ratio",
        " change: trie  tree  ratio",
        "bytes"
    );
    counts.into_iter().for_each(table);
}

fn table(count: usize) {
    let mut draw = Draw(3);
    let prefixes: Vec<(u64, u8)> = (0..count)
        .map(|_| {
            (0x2001 << 48 | draw.next() >> 16, [32, 40, 44, 48, 48, 48, 56, 64][draw.below(8)])
        })
        .collect();
    let probe = |_| prefixes[draw.below(count)].0;
    let probes: Vec<u64> = (0..PROBES).map(probe).collect();
    let mut trie = Subject::new(&prefixes, &probes, |upper| upper);
    let mut tree = Subject::new(&prefixes, &probes, |upper| u128::from(upper) << 64 | 0x5107);
    let best = (0..ROUNDS).fold([[f64::INFINITY; 2]; 3], |best, round| {
        let now = [trie.costs(round), tree.costs(round)];
        std::array::from_fn(|row| std::array::from_fn(|of| best[row][of].min(now[of][row])))
    });
    print!("{count:>9}");
    for [trie, tree] in &best[..2] {
        print!("  {:10.1}{:6.1}{:8.2} ", 1.0 / trie, 1.0 / tree, trie / tree);
    }
    let [trie_change, tree_change] = best[2];
    print!("  {trie_change:10.2}{tree_change:6.2}{:8.2} ", trie_change / tree_change);
    println!("{:10.0}{:9.0}", trie.bytes(), tree.bytes());
}

struct Subject<K> {
    map: PrefixMap<K>,
    probes: Vec<K>,
    changes: Vec<(K, u8)>,
    numbers: Vec<u32>,
}

impl<K: TrieKey> Subject<K> {
    fn new(prefixes: &[(u64, u8)], probes: &[u64], key: impl Fn(u64) -> K) -> Self {
        let mut map = PrefixMap::default();
        for (number, &(upper, len)) in (0..).zip(prefixes) {
            map.insert(key(upper), len, number % 1000);
        }
        map.settle();
        let probes: Vec<K> = probes.iter().map(|&upper| key(upper)).collect();
        let changes = (0..CHANGES).map(|at| (probes[at], 52)).collect();
        Self { map, probes, changes, numbers: vec![0; PROBES] }
    }

    /// Returns microseconds per lookup in a batch, per single lookup, and per change.
    fn costs(&mut self, round: usize) -> [f64; 3] {
        let Self { map, probes, changes, numbers } = self;
        let many = micros_each(PROBES, || map.get_many(black_box(probes), numbers));
        let one = micros_each(PROBES, || {
            black_box(
                probes.iter().map(|&probe| u64::from(map.get(probe).unwrap_or(0))).sum::<u64>(),
            );
        });
        let change = micros_each(CHANGES, || {
            for &(key, len) in &*changes {
                match round % 2 {
                    0 => map.insert(key, len, 7),
                    _ => map.remove(key, len),
                };
                map.settle();
            }
        });
        [many, one, change]
    }

    fn bytes(&self) -> f64 {
        self.map.lookup_bytes() as f64 / self.map.len() as f64
    }
}

fn micros_each(count: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_seconds();
    work();
    (cpu_seconds() - start) * 1e6 / count as f64
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
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
