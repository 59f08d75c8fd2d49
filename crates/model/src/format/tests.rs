//! Tests of which inputs each reader accepts and rejects, listed in tables. Also tests that no text
//! makes a reader panic.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn refusal<T: fmt::Debug>(result: Result<T, FormatError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_netem_table_is_signed_numbers_with_comments() {
    let text = "# normal\n -32768 -1 0\n12 # end\n28858 32767\n";
    assert_eq!(netem_table(text), Ok(vec![-32768, -1, 0, 12, 28858, 32767]));
}

#[test]
fn a_netem_table_that_is_none_is_refused_with_its_place() {
    for (text, why) in [
        ("", "the table is empty at line 1, column 1"),
        ("# only\n#comments", "the table is empty at line 1, column 1"),
        ("1 2\n3 32768", "`32768` is no entry at line 2, column 3"),
        ("1\tnan", "`nan` is no entry at line 1, column 3"),
        ("1.5", "`1.5` is no entry at line 1, column 1"),
        ("\u{e4} 1", "`\u{e4}` is no entry at line 1, column 1"),
    ] {
        assert_eq!(refusal(netem_table(text)), why, "{text:?}");
    }
    assert_eq!(netem_table(&"7 ".repeat(16_384)).unwrap().len(), 16_384);
    let why = refusal(netem_table(&"7 ".repeat(16_385)));
    assert_eq!(why, "more than 16384 entries at line 1, column 32769");
}

#[test]
fn a_mahimahi_trace_counts_ms_and_repeats_lines_for_more_packets() {
    let trace = opportunities("0\n1\n1\n3\n", TimeUnit::Millis);
    assert_eq!(trace, Ok(vec![0, 1_000_000, 1_000_000, 3_000_000]));
    assert_eq!(opportunities("0.5\n1.25ms\n", TimeUnit::Millis), Ok(vec![500_000, 1_250_000]));
    assert_eq!(opportunities("0.3333333333333\n1", TimeUnit::Millis), Ok(vec![333_333, 1_000_000]));
    assert_eq!(
        opportunities("7us\n7500ns\n1ms", TimeUnit::Millis),
        Ok(vec![7_000, 7_500, 1_000_000])
    );
    assert_eq!(opportunities("1\n20", TimeUnit::Micros), Ok(vec![1_000, 20_000]));
    assert_eq!(opportunities("1\n20\n", TimeUnit::Nanos), Ok(vec![1, 20]));
    assert_eq!(opportunities("# measured\r\n5\r\n", TimeUnit::Millis), Ok(vec![5_000_000]));
}

#[test]
fn a_mahimahi_trace_that_falls_is_empty_or_has_no_length_is_refused_with_its_line() {
    for (text, why) in [
        ("", "the trace is empty at line 1, column 1"),
        ("0", "the trace ends at 0, so it has no length at line 1, column 1"),
        ("0\n0\n", "the trace ends at 0, so it has no length at line 2, column 1"),
        ("1\n\n2", "an empty line at line 2, column 1"),
        ("1\n  \n2", "an empty line at line 2, column 1"),
        ("5\n4", "`4` goes back in time at line 2, column 1"),
        ("1 2", "`2` is one word too many at line 1, column 3"),
        ("-1", "`-1` is no time at line 1, column 1"),
        ("NaN", "`NaN` is no time at line 1, column 1"),
        ("1\ninf", "`inf` is no time at line 2, column 1"),
        ("1h", "`1h` is no time at line 1, column 1"),
        ("99999999999999999999999", "`99999999999999999999999` is too large at line 1, column 1"),
    ] {
        assert_eq!(refusal(opportunities(text, TimeUnit::Millis)), why, "{text:?}");
    }
}

#[test]
fn steps_take_units_from_the_header_or_behind_the_value() {
    let step = |from_ns, value| TraceStep { from_ns, value };
    let wanted = vec![step(0, 12_500_000), step(500_000_000, 2_000_000)];
    for text in [
        "time_s,rate_mbit\n0,12.5\n0.5,2\n",
        "# train\ntime[s];rate[Mbit/s]\n0;12.5\n0.5;2",
        "0s,12.5Mbit\n500ms,2000kbit\n",
        "0s 12.5Mbit/s\n\n500ms 250kB/s # slow\n",
        "t_ms rate\n0 12500000bps\n5e2 0.002Gbps\n",
    ] {
        assert_eq!(rate_steps(text), Ok(wanted.clone()), "{text:?}");
    }
    let delays = delay_steps("t_s,delay_ms\n0,20\n1.5,0.25\n");
    assert_eq!(delays, Ok(vec![step(0, 20_000_000), step(1_500_000_000, 250_000)]));
}

#[test]
fn steps_without_unit_order_or_second_column_are_refused() {
    for (text, why) in [
        ("", "the file has no row at line 1, column 1"),
        ("time_s,rate_mbit\n", "the file has no row at line 1, column 1"),
        ("0,10Mbit", "`0` has no unit at line 1, column 1"),
        ("0s,10", "`10` has no unit at line 1, column 4"),
        ("0s,10M", "unknown unit `M` in `10M` at line 1, column 4"),
        ("0s,10ms", "unknown unit `ms` in `10ms` at line 1, column 4"),
        ("0s,1Mbit\n0s,2Mbit", "`0s` is not after the row above at line 2, column 1"),
        ("1s,1Mbit\n0.5s,2Mbit", "`0.5s` is not after the row above at line 2, column 1"),
        ("0s,1Mbit,7", "3 columns instead of 2 at line 1, column 10"),
        ("0s", "1 columns instead of 2 at line 1, column 1"),
        ("0s,-1Mbit", "`-1Mbit` is no number at line 1, column 4"),
        ("0s,nan", "`nan` is no number at line 1, column 4"),
        ("nan,inf", "`nan` is no number at line 1, column 1"),
        ("0s,", "`` is no number at line 1, column 4"),
        ("0s,1e30Gbit", "`1e30Gbit` is too large at line 1, column 4"),
    ] {
        assert_eq!(refusal(rate_steps(text)), why, "{text:?}");
    }
}

#[test]
fn decimals_beyond_those_that_matter_change_nothing() {
    let step = |from_ns, value| TraceStep { from_ns, value };
    let (zeros, nines) = ("0".repeat(40), "9".repeat(40));
    for text in [
        format!("0s,1.5{zeros}Gbit\n0.25{zeros}s,2{zeros}e-40Tbit"),
        format!("0.{zeros}{nines}s,1.4{nines}Gbit\n0.24{nines}s,1.{nines}TB/s"),
    ] {
        let last = if text.contains("TB") { 16_000_000_000_000 } else { 2_000_000_000_000 };
        let steps = vec![step(0, 1_500_000_000), step(250_000_000, last)];
        assert_eq!(rate_steps(&text), Ok(steps), "{text}");
    }
}

#[test]
fn an_error_in_a_row_of_theaterq_names_the_column_of_its_field() {
    for (text, why) in [
        ("2,2,12,4,2x", "`2x` does not fit at line 1, column 10"),
        ("3,1,4,-3,-3", "`-3` does not fit at line 1, column 7"),
        ("1,11,3,4,-1", "`-1` does not fit at line 1, column 10"),
        ("1,2,3,-1,5,6,7,8,-1,10", "`-1` does not fit at line 1, column 18"),
        ("1, 2,3,4,5,6,7,8,9,x", "`x` does not fit at line 1, column 20"),
        ("1,2,3,4,5,6,7,8,9,", "`` does not fit at line 1, column 19"),
    ] {
        assert_eq!(refusal(theaterq(text)), why, "{text:?}");
    }
}

#[test]
fn a_distribution_function_rises_to_one() {
    let point = |ns, p| crate::CdfPoint { ns, p };
    let points = cdf("delay_ms,p\n10,0\n20,0.5\n20,0.75\n40,1\n");
    let wanted = [point(10e6, 0.0), point(20e6, 0.5), point(20e6, 0.75), point(40e6, 1.0)];
    assert_eq!(points.unwrap(), wanted);
    for (text, why) in [
        ("1ms 0\n2ms 0.9", "the last probability is not 1 at line 2, column 5"),
        ("1ms 0.5\n2ms 0.4\n3ms 1", "`0.4` is less than in the row above at line 2, column 5"),
        ("2ms 0.5\n1ms 1", "`1ms` is less than in the row above at line 2, column 1"),
        ("1ms 1.5", "`1.5` is no probability at line 1, column 5"),
        ("1ms -0.5", "`-0.5` is no number at line 1, column 5"),
        ("1ms NaN", "`NaN` is no number at line 1, column 5"),
        ("1 1", "`1` has no unit at line 1, column 1"),
    ] {
        assert_eq!(refusal(cdf(text)), why, "{text:?}");
    }
}

#[test]
fn samples_keep_the_order_of_the_file() {
    assert_eq!(samples("delay_us\n20\n10\n30.5\n"), Ok(vec![20_000, 10_000, 30_500]));
    assert_eq!(samples("20ms\n1s"), Ok(vec![20_000_000, 1_000_000_000]));
    assert_eq!(refusal(samples("20ms\n-1s")), "`-1s` is no number at line 2, column 1");
    assert_eq!(refusal(samples("rtt\n20")), "`20` has no unit at line 2, column 1");
}

#[test]
fn a_loss_pattern_keeps_ones_and_loses_zeros() {
    assert_eq!(loss_bits("1 0, keep\n1"), Ok(vec![false, true, false]));
    assert_eq!(refusal(loss_bits("none")), "the pattern is empty at line 1, column 1");
}

/// The example profile from dummynet's manual. It is known which values dummynet computes from it.
const MANUAL: &str = "\
name    bla_bla_bla
samples 100
loss-level    0.86
prob    delay
0       200     # minimum overhead is 200ms
0.5     200
0.5     300
0.8     1000
0.9     1300
1       1300
";

#[test]
fn the_profile_of_dummynets_manual_gives_dummynets_values() {
    let profile = DummynetProfile::parse(MANUAL).unwrap();
    let extra = &profile.extra_ms;
    assert_eq!(extra.len(), 100);
    assert!(extra[..50].iter().all(|ms| *ms == 200));
    assert_eq!(
        (extra[50], extra[65], extra[79], extra[80], extra[89]),
        (300, 650, 976, 1000, 1270)
    );
    assert!(extra[90..].iter().all(|ms| *ms == 1300));
    assert!((profile.mean_ms() - 534.9).abs() < 0.05, "{}", profile.mean_ms());
    assert_eq!(profile.first_lost(), 86);
    assert_eq!(profile.name.as_deref(), Some("bla_bla_bla"));
    assert_eq!(profile.bits_per_sec, None);
}

#[test]
fn the_points_of_a_profile_may_be_unsorted_and_the_other_way_round() {
    let turned = "delay prob\n1300 1\n200 0\n1000 0.8\n300 0.5\n1300 0.9\n200 0.5\nsamples 100\n\
                  loss-level .86\nname bla_bla_bla";
    assert_eq!(DummynetProfile::parse(turned), DummynetProfile::parse(MANUAL));
}

#[test]
fn a_profiles_bandwidth_is_read_as_dummynet_reads_it() {
    for (text, bps) in [
        ("10Mbit/s", 10_000_000),
        ("300KBit/s", 300_000),
        ("100KByte/s", 800_000),
        ("1.5Mbit/s", 1_500_000),
        ("64000", 64_000),
    ] {
        let profile = DummynetProfile::parse(&format!("bw {text}\nprob delay\n0 1\n1 2")).unwrap();
        assert_eq!(profile.bits_per_sec, Some(bps), "{text}");
    }
}

#[test]
fn a_profile_with_an_unknown_word_or_too_few_points_is_refused() {
    for (text, why) in [
        ("", "less than two points at line 1, column 1"),
        ("prob delay\n0 1", "less than two points at line 2, column 1"),
        ("burst 12\nprob delay", "unknown keyword `burst` at line 1, column 1"),
        ("name", "a word without its value at line 1, column 1"),
        ("name a b", "one word too many at line 1, column 8"),
        ("samples 0", "`0` does not fit at line 1, column 9"),
        ("samples 1025", "`1025` does not fit at line 1, column 9"),
        ("name a\nname b", "a second `name` at line 2, column 1"),
        ("loss-level 1.1", "`1.1` is no probability at line 1, column 12"),
        ("bw 10Mbat", "`10Mbat` is no bandwidth at line 1, column 4"),
        ("prob delay\n0 1\n2 3", "`2` is no probability at line 3, column 1"),
        ("prob delay\n0 nan\n1 3", "`nan` is no delay at line 2, column 3"),
        ("prob delay\n0 1\n1 3e2", "`3e2` has an exponent at line 3, column 3"),
        ("loss-level 1e-1", "`1e-1` has an exponent at line 1, column 12"),
        ("prob delay\n0 1\n1 -3", "`-3` is no delay at line 3, column 3"),
    ] {
        assert_eq!(refusal(DummynetProfile::parse(text)), why, "{text:?}");
    }
}

#[test]
fn theaterq_rows_come_in_two_widths() {
    let rows = theaterq("keep,latency,rate,loss,limit\n1000,5000,-1,4294967295,100\n").unwrap();
    let row = TheaterqRow {
        keep_ns: 1_000_000,
        latency_ns: 5_000,
        loss: u32::MAX,
        limit: 100,
        ..TheaterqRow::default()
    };
    assert_eq!(rows, [row]);
    let rows = theaterq("1,2,3,4,5,6,7,8,9,10").unwrap();
    let row = TheaterqRow {
        keep_ns: 1_000,
        latency_ns: 2,
        jitter_ns: 3,
        bits_per_sec: Some(4),
        loss: 5,
        limit: 6,
        duplicated: 7,
        duplicate_delay_ns: 8,
        route: 9,
    };
    assert_eq!(rows, [row]);
    for (text, why) in [
        ("", "the trace has no length at line 1, column 1"),
        ("0,1,1,1,1", "the trace has no length at line 1, column 1"),
        ("1,2,3", "3 fields at line 1, column 1"),
        ("1,2,-2,4,5", "`-2` does not fit at line 1, column 5"),
        ("1,2,3,4294967296,5", "`4294967296` does not fit at line 1, column 7"),
        ("1,2,3,x,5", "`x` does not fit at line 1, column 7"),
    ] {
        assert_eq!(refusal(theaterq(text)), why, "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_a_reader(text in "(\\PC|[-0-9.eE,;#\\n\\t munsMbit/_]){0,80}") {
        let _ = netem_table(&text);
        for unit in [TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos] {
            let _ = opportunities(&text, unit);
        }
        let _ = rate_steps(&text);
        let _ = delay_steps(&text);
        let _ = cdf(&text);
        let _ = samples(&text);
        let _ = loss_bits(&text);
        let _ = theaterq(&text);
        let _ = DummynetProfile::parse(&text);
        let _ = DummynetProfile::parse(&format!("prob delay\n{text}"));
    }

    #[test]
    fn a_written_trace_reads_back(mut times in prop::collection::vec(0..1_u64 << 40, 1..50)) {
        times.sort_unstable();
        prop_assume!(times.last() != Some(&0));
        let text: Vec<String> = times.iter().map(|time| format!("{time}ns")).collect();
        prop_assert_eq!(opportunities(&text.join("\n"), TimeUnit::Millis), Ok(times.clone()));
        // This text has the same times in ms, with all six decimals.
        let text: Vec<String> = times
            .iter()
            .map(|time| format!("{}.{:06}", time / 1_000_000, time % 1_000_000))
            .collect();
        prop_assert_eq!(opportunities(&text.join("\n"), TimeUnit::Millis), Ok(times));
    }

    #[test]
    fn a_written_table_reads_back(table: Vec<i16>) {
        prop_assume!(!table.is_empty());
        let text: Vec<String> = table.iter().map(ToString::to_string).collect();
        prop_assert_eq!(netem_table(&text.join(" ")), Ok(table));
    }
}
