//! Tests that values are parsed exactly, and that a printed value is parsed as the same value.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Diagnostic;

fn packets(text: &str) -> Result<RateWithUnit, UnitError> {
    RateWithUnit::parse(text, RateUnit::Packets)
}

fn seconds(text: &str) -> Result<u64, UnitError> {
    TimeSpan::parse(text, Duration::from_secs(1)).map(TimeSpan::nanos)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, UnitError>) -> (usize, UnitErrorReason) {
    let error = result.unwrap_err();
    (error.column, error.reason)
}

#[test]
fn rates_are_read_in_packets_bits_and_bytes() {
    for (text, rate) in [
        ("1.5Mpps", RateWithUnit::Packets(1_500_000)),
        ("14.88Mpps", RateWithUnit::Packets(14_880_000)),
        ("14.88 Mpps", RateWithUnit::Packets(14_880_000)),
        ("7pps", RateWithUnit::Packets(7)),
        ("64k", RateWithUnit::Packets(64_000)),
        ("0", RateWithUnit::Packets(0)),
        ("10Gbit", RateWithUnit::Bits(10_000_000_000)),
        ("10Gbit/s", RateWithUnit::Bits(10_000_000_000)),
        ("10gbps", RateWithUnit::Bits(10_000_000_000)),
        ("1Mibit", RateWithUnit::Bits(1 << 20)),
        ("125MB/s", RateWithUnit::Bits(1_000_000_000)),
        ("0.125B/s", RateWithUnit::Bits(1)),
    ] {
        assert_eq!(packets(text), Ok(rate), "{text}");
    }
}

#[test]
fn a_bare_rate_counts_what_the_command_says() {
    let bits = RateWithUnit::parse("10G", RateUnit::Bits);
    assert_eq!(bits, Ok(RateWithUnit::Bits(10_000_000_000)));
    let packets = RateWithUnit::parse("10Mpps", RateUnit::Bits);
    assert_eq!(packets, Ok(RateWithUnit::Packets(10_000_000)));
}

#[test]
fn times_are_read_to_the_nanosecond() {
    for (text, nanos) in [
        ("250us", 250_000),
        ("250\u{b5}s", 250_000),
        ("2ms", 2_000_000),
        ("5s", 5_000_000_000),
        ("5", 5_000_000_000),
        ("0.000000001s", 1),
        ("1.5min", 90_000_000_000),
        ("1h", 3_600_000_000_000),
    ] {
        assert_eq!(seconds(text), Ok(nanos), "{text}");
    }
    let bare = TimeSpan::parse("1000", Duration::from_millis(1)).unwrap();
    assert_eq!(bare.duration(), Duration::from_secs(1));
}

#[test]
fn a_part_of_one_needs_no_zero_before_the_point() {
    assert_eq!(seconds(".3"), Ok(300_000_000));
    assert_eq!(seconds(".5ms"), Ok(500_000));
    assert_eq!(".5%".parse::<Ratio>().map(Ratio::ppb), Ok(5_000_000));
}

#[test]
fn k_is_1000_and_ki_is_1024() {
    for (text, bytes) in [
        ("1500", 1_500),
        ("64k", 64_000),
        ("64kB", 64_000),
        ("64KiB", 65_536),
        ("1KiB", 1_024),
        ("0.5KiB", 512),
        ("2MiB", 2 << 20),
        ("1500B", 1_500),
    ] {
        assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
    }
    assert_eq!("64Ki".parse(), Ok(Count(65_536)));
}

#[test]
fn shares_are_read_in_every_notation() {
    for (text, ppb) in [
        ("0.1%", 1_000_000),
        ("1e-3", 1_000_000),
        ("1.5E-6", 1_500),
        ("250ppm", 250_000),
        ("100%", 1_000_000_000),
        ("0", 0),
    ] {
        assert_eq!(text.parse::<Ratio>().map(Ratio::ppb), Ok(ppb), "{text}");
    }
    assert_eq!(refusal("100.1%".parse::<Ratio>()), (1, UnitErrorReason::TooLarge));
}

#[test]
fn a_share_of_a_number_alone_is_refused_with_both_readings() {
    for text in ["1", "0.1", ".5", "20"] {
        let error = text.parse::<Ratio>().unwrap_err();
        assert_eq!(error.reason, UnitErrorReason::TwoReadings, "{text}");
        let both = format!("it could be {text}% or {text} of the whole at column 1");
        assert_eq!(error.to_string(), both);
    }
}

#[test]
fn a_loss_bound_is_compared_without_rounding() {
    let bound: Ratio = "0.1%".parse().unwrap();
    assert!(!bound.is_exceeded_by(u64::MAX / 1_000, u64::MAX));
    assert!(bound.is_exceeded_by(u64::MAX / 1_000 + 1, u64::MAX));
    assert!(!bound.is_exceeded_by(0, 0));
}

#[test]
fn errors_name_the_column_and_the_accepted_forms() {
    let unknown = |unit: &str| UnitErrorReason::UnknownUnit(unit.to_owned());
    assert_eq!(refusal(packets("10Gbot")), (3, unknown("Gbot")));
    assert_eq!(refusal(packets("10 Gbot")), (4, unknown("Gbot")));
    assert_eq!(refusal(packets("1.2.3")), (4, unknown(".3")));
    assert_eq!(refusal(seconds("5m")), (2, unknown("m")));
    for text in ["", "fast", "-1", "+1", ".", " 1"] {
        assert_eq!(refusal(packets(text)), (1, UnitErrorReason::NoNumber), "{text}");
    }
    for (text, why) in [
        ("-1", "it is negative"),
        ("-.5s", "it is negative"),
        ("-", "expected a number"),
        ("-soon", "expected a number"),
    ] {
        assert_eq!(seconds(text).unwrap_err().to_string(), format!("{why} at column 1"), "{text}");
    }
    let fine = packets("0.1bit").unwrap_err().to_string();
    assert_eq!(fine, "not a whole number of packets or bits per second at column 1");
    let text = Diagnostic::of(&packets("10Gbot").unwrap_err()).to_string();
    assert_eq!(
        text,
        "error[SR0007]: `10Gbot` is not a rate\n\
         \x20 cause: unknown unit `Gbot` for a rate at column 3\n\
         \x20  help: write it as 1.5Mpps, 14880952pps, 10Gbit, 9.5Gbit/s or 125MB/s\n\
         \x20  note: see `slipring explain SR0007`"
    );
}

#[test]
fn what_is_finer_than_the_smallest_unit_is_refused() {
    assert_eq!(refusal(packets("0.5pps")), (1, UnitErrorReason::NotWhole));
    assert_eq!(refusal(seconds("0.3ns")), (1, UnitErrorReason::NotWhole));
    assert_eq!(refusal("1e-10".parse::<Ratio>()), (1, UnitErrorReason::NotWhole));
    assert_eq!("0e-4000000000".parse::<Ratio>().map(Ratio::ppb), Ok(0));
}

#[test]
fn absurd_numbers_are_refused_without_overflow() {
    let nines = "9".repeat(60);
    assert_eq!(refusal(packets(&nines)), (1, UnitErrorReason::TooLarge));
    assert_eq!(refusal(packets("18446744073709551616")), (1, UnitErrorReason::TooLarge));
    assert_eq!(refusal(packets("18446744073709551615Tpps")), (1, UnitErrorReason::TooLarge));
    let fine = format!("0.{}1", "0".repeat(100));
    assert_eq!(refusal(seconds(&fine)), (1, UnitErrorReason::NotWhole));
}

proptest! {
    #[test]
    fn a_printed_rate_reads_back(value: u64, bits: bool) {
        let rate = if bits { RateWithUnit::Bits(value) } else { RateWithUnit::Packets(value) };
        for bare in [RateUnit::Bits, RateUnit::Packets] {
            prop_assert_eq!(RateWithUnit::parse(&rate.to_string(), bare), Ok(rate));
        }
    }

    #[test]
    fn a_printed_span_size_count_and_share_reads_back(value: u64, ppb in 0..=1_000_000_000_u64) {
        let span = TimeSpan::parse(&value.to_string(), Duration::from_nanos(1)).unwrap();
        prop_assert_eq!(seconds(&span.to_string()), Ok(value));
        prop_assert_eq!(ByteCount(value).to_string().parse(), Ok(ByteCount(value)));
        prop_assert_eq!(Count(value).to_string().parse(), Ok(Count(value)));
        let share: Ratio = format!("{ppb}ppb").parse().unwrap();
        prop_assert_eq!(share.to_string().parse(), Ok(share));
    }

    /// Compares with a naive model, in which the same number is written out in full.
    #[test]
    fn a_prefix_only_moves_the_point(whole in 0..1_000_000_u64, thousandths in 0..1000_u64) {
        let short = packets(&format!("{whole}.{thousandths:03}k"));
        let long = packets(&format!("{whole}{thousandths:03}"));
        prop_assert_eq!(short, long);
    }

    #[test]
    fn no_text_panics_a_reader(text in "\\PC{0,24}|[0-9.]{0,60}[a-zA-Z/%-]{0,6}") {
        let _ = packets(&text);
        let _ = seconds(&text);
        let _ = text.parse::<ByteCount>();
        let _ = text.parse::<Count>();
        let _ = text.parse::<Ratio>();
    }
}
