//! How long frames travel.

use slipring_link::{DelaySpec, LinkSpec};

use crate::support::releases;

#[test]
fn a_constant_delay_keeps_order_and_gaps() {
    let spec = LinkSpec { delay: DelaySpec::constant(20_000_000), ..LinkSpec::wire("up") };
    let out = releases(spec, 1000, 60, 777);
    let expected: Vec<u64> = (0..1000).map(|k| k * 777 + 20_000_000).collect();
    assert_eq!(out, expected);
}
