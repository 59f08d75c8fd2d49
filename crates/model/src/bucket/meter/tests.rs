use std::vec::Vec;

use Colour::{Green, Red, Yellow};
use proptest::prelude::*;

use super::*;

fn spec(kind: MeterKind, mode: ColourMode) -> TwoRateSpec {
    TwoRateSpec {
        kind,
        mode,
        committed_bps: 8_000_000,
        committed_bytes: 2000,
        other_bps: 16_000_000,
        other_bytes: 3000,
    }
}

/// Returns the resulting colours of packets of 1000 bytes. The packets arrive at the same time,
/// with the colours in `came`.
fn burst(spec: &TwoRateSpec, came: &[Colour]) -> Vec<Colour> {
    let mut meter = TwoRateThreeColour::new(spec, 0).unwrap();
    came.iter().map(|&came| meter.colour(0, 1000, came)).collect()
}

#[test]
fn rfc2698_blind_counts_green_against_the_peak_as_well() {
    let spec = spec(MeterKind::Rfc2698, ColourMode::Blind);
    assert_eq!(burst(&spec, &[Red; 5]), [Green, Green, Yellow, Red, Red]);
}

#[test]
fn rfc4115_blind_has_the_excess_on_top() {
    let spec = spec(MeterKind::Rfc4115, ColourMode::Blind);
    assert_eq!(burst(&spec, &[Red; 6]), [Green, Green, Yellow, Yellow, Yellow, Red]);
}

#[test]
fn aware_meters_never_improve_a_colour() {
    for kind in [MeterKind::Rfc2698, MeterKind::Rfc4115] {
        let spec = spec(kind, ColourMode::Aware);
        assert_eq!(burst(&spec, &[Red, Yellow, Green]), [Red, Yellow, Green]);
    }
}

#[test]
fn yellow_on_arrival_leaves_the_committed_bucket_to_green() {
    let came = [Yellow, Yellow, Yellow, Yellow, Green, Green];
    // The peak bucket is empty after three packets, so even packets that arrive green become red.
    let peak = spec(MeterKind::Rfc2698, ColourMode::Aware);
    assert_eq!(burst(&peak, &came), [Yellow, Yellow, Yellow, Red, Red, Red]);
    let excess = spec(MeterKind::Rfc4115, ColourMode::Aware);
    assert_eq!(burst(&excess, &came), [Yellow, Yellow, Yellow, Red, Green, Green]);
}

#[test]
fn long_run_shares_are_the_rates() {
    // For 10 s, a packet of 1000 bytes is offered every 200 us, which is 40 Mbit/s.
    for (kind, yellow_bps) in [(MeterKind::Rfc2698, 8_000_000u64), (MeterKind::Rfc4115, 16_000_000)]
    {
        let mut meter = TwoRateThreeColour::new(&spec(kind, ColourMode::Blind), 0).unwrap();
        let mut seen = [0u64; 3];
        for n in 0..50_000 {
            seen[meter.colour(n * 200_000, 1000, Green) as usize] += 1;
        }
        let packets = |bps: u64| 10 * bps / 8000;
        assert!(seen[0].abs_diff(packets(8_000_000)) <= 2, "{seen:?}");
        assert!(seen[1].abs_diff(packets(yellow_bps)) <= 4, "{seen:?}");
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let good = spec(MeterKind::Rfc2698, ColourMode::Blind);
    let bad = |spec: TwoRateSpec| TwoRateThreeColour::new(&spec, 0).unwrap_err().parameter;
    assert_eq!(bad(TwoRateSpec { committed_bytes: 0, ..good }), "committed_bytes");
    assert_eq!(bad(TwoRateSpec { other_bytes: 0, ..good }), "other_bytes");
    assert_eq!(bad(TwoRateSpec { other_bps: 7_999_999, ..good }), "other_bps");
    let excess = TwoRateSpec { kind: MeterKind::Rfc4115, other_bps: 0, ..good };
    assert!(TwoRateThreeColour::new(&excess, 0).is_ok());
}

proptest! {
    /// No packet gets a better colour than the one with which it arrived.
    #[test]
    fn colours_only_get_worse(
        kind in prop_oneof![Just(MeterKind::Rfc2698), Just(MeterKind::Rfc4115)],
        packets in prop::collection::vec((0u64..1_000_000, 1u32..2000, 0usize..3), 1..200),
    ) {
        let mut meter = TwoRateThreeColour::new(&spec(kind, ColourMode::Aware), 0).unwrap();
        let mut now_ns = 0;
        for (step_ns, bytes, came) in packets {
            now_ns += step_ns;
            let came = [Green, Yellow, Red][came];
            prop_assert!(meter.colour(now_ns, bytes, came) >= came);
        }
    }
}
