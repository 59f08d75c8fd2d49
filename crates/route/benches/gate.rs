//! Instruction counts of all stages together for one batch, measured by valgrind. Other load on the
//! machine does not affect them. A count that is more than 5 % above the expected one fails the
//! run. When a count shrinks, update the expected one here.
//!
//! One batch has 64 short frames to random destinations, which all have routes.
#![allow(missing_docs, reason = "the macros make public items")]

mod router;

use std::hint::black_box;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use gungraun::{library_benchmark, library_benchmark_group, main};
use router::Router;
use slipring_fib::FibPortIndex;
use slipring_route::{RouteBatch, RouteFrame, RouteVerdict};

/// Makes the benchmark fail if it executes over 5 % more instructions than `expected`.
fn limit(expected: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, expected + expected / 20)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// A router, a batch, and frames.
type Prepared = (Router, Box<RouteBatch>, Vec<Vec<u8>>);

fn prepared(router: Router) -> Prepared {
    let frames = router.frames(0);
    (router, Box::default(), frames)
}

fn v4(routes: usize) -> Prepared {
    prepared(Router::v4(routes, 64))
}

fn v6(routes: usize) -> Prepared {
    prepared(Router::v6(routes, 64))
}

#[library_benchmark]
#[bench::v4(args = (1), setup = v4, config = limit(22_545))]
#[bench::v4_of_10k(args = (10_000), setup = v4, config = limit(22_545))]
#[bench::v6(args = (1), setup = v6, config = limit(23_240))]
#[bench::v6_of_10k(args = (10_000), setup = v6, config = limit(30_098))]
fn process((mut router, mut batch, mut bytes): Prepared) -> Prepared {
    let mut frames: [RouteFrame<'_>; 64] =
        std::array::from_fn(|_| RouteFrame::new(&mut [], FibPortIndex(0)));
    for (frame, bytes) in frames.iter_mut().zip(&mut bytes) {
        frame.bytes = bytes;
    }
    router.engine.process(&mut batch, black_box(&mut frames), 0);
    assert!(matches!(batch.verdict(63), Some(RouteVerdict::Forward(_))));
    (router, batch, bytes)
}

library_benchmark_group!(name = route, benchmarks = [process]);
main!(library_benchmark_groups = route);
