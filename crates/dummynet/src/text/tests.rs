//! Tests of parsing and printing commands, and of invalid commands.

use std::string::{String, ToString};

use proptest::prelude::*;

use super::*;
use crate::flow::FlowMask;
use crate::spec::*;

fn config(text: &str) -> ShaperConfig {
    match DummynetCommand::parse(text) {
        Ok(DummynetCommand::Config(config)) => config,
        other => panic!("{text}: {other:?}"),
    }
}

fn pipe(parameters: &str) -> PipeSpec {
    match config(&std::format!("pipe 1 config {parameters}")) {
        ShaperConfig::Pipe(1, spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn error(text: &str) -> (usize, String) {
    let error = DummynetCommand::parse(text).unwrap_err();
    (error.column, error.to_string())
}

#[test]
fn rates_have_all_units() {
    for (text, bits_per_sec) in [
        ("0", 0),
        ("9600", 9600),
        ("10Mbit/s", 10_000_000),
        ("10MBit/s", 10_000_000),
        ("300Kbit/s", 300_000),
        ("30Byte/s", 240),
        ("100KByte/s", 800_000),
        ("1Gbit/s", 1_000_000_000),
        ("2.5G", 2_500_000_000),
        ("5000Mbit/s", 5_000_000_000),
        ("400Gbit/s", 400_000_000_000),
        ("10Mb", 10_000_000),
        ("400Mb", 400_000_000),
        ("2MB", 16_000_000),
    ] {
        assert_eq!(pipe(&std::format!("bw {text}")).link.bits_per_sec, bits_per_sec, "{text}");
    }
}

#[test]
fn times_are_milliseconds_unless_they_say_otherwise() {
    for (text, delay_ns) in
        [("20", 20_000_000), ("250ms", 250_000_000), ("50us", 50_000), ("1s", 1_000_000_000)]
    {
        assert_eq!(pipe(&std::format!("delay {text}")).link.delay_ns, delay_ns);
    }
    assert!(DummynetCommand::parse("pipe 1 config delay 10001").is_err());
}

#[test]
fn bursts_and_queues_count_by_1024() {
    assert_eq!(pipe("burst 10k").link.burst_bytes, 10_240);
    assert_eq!(pipe("queue 50KBytes").policy.limit, QueueLimit::Bytes(51_200));
    assert_eq!(pipe("queue 1000KBytes").policy.limit, QueueLimit::Bytes(1_024_000));
    assert_eq!(pipe("queue 100").policy.limit, QueueLimit::Slots(100));
    assert_eq!(pipe("queue 10B").policy.limit, QueueLimit::Bytes(1500));
    assert!(DummynetCommand::parse("pipe 1 config queue 101").is_err());
    let caps = QueueCaps { slots: 1000, ..QueueCaps::default() };
    assert!(DummynetCommand::parse_within("pipe 1 config queue 1000", &caps).is_ok());
}

#[test]
fn lengths_of_masks_are_low_bits_for_ipv4_and_prefixes_for_ipv6() {
    assert_eq!(pipe("mask src-ip /8").mask, FlowMask { src4: 0xff, ..FlowMask::NONE });
    assert_eq!(pipe("mask src-ip /32 dst-port 0xff").mask.src4, u32::MAX);
    let mask = pipe("mask dst-ip6 /64").mask;
    assert_eq!((mask.dst6, mask.shown_as_v6), (u128::MAX << 64, true));
    assert_eq!(pipe("mask all").mask, FlowMask::ALL);
    assert_eq!(pipe("mask all queue 20").policy.limit, QueueLimit::Slots(20));
    assert!(pipe("mask src-port 0xffff queue").mask.queue);
}

#[test]
fn algorithms_take_all_words_that_follow() {
    let AqmSpec::CoDel(codel) = pipe("codel target 7 interval 200ms ecn").policy.aqm else {
        panic!()
    };
    assert_eq!((codel.target_ns, codel.interval_ns, codel.ecn), (7_000_000, 200_000_000, true));
    let (column, text) = error("pipe 1 config codel target 7ms bw 1Mbit/s");
    assert_eq!(column, 32);
    assert!(text.contains("come last"), "{text}");
    let AqmSpec::Pie(pie) = pipe("pie beta 0.5 nocapdrop dre onoff").policy.aqm else { panic!() };
    assert!(!pie.cap && pie.wake_bytes > 0 && pie.beta == 0.5);
}

#[test]
fn errors_say_where_and_what_would_be_right() {
    for (text, column, what) in [
        ("pip 1 config", 1, "unexpected `pip`"),
        ("pipe 0 config", 6, "unexpected `0`"),
        ("pipe 1 config bw", 17, "the command ends early"),
        ("pipe 1 config bw 10Mbits/h", 18, "unexpected `10Mbits/h`"),
        ("pipe 1 config bw tun0", 18, "no device sets the pace"),
        ("pipe 1 config  delay x", 22, "unexpected `x`"),
        ("pipe 1 config weight 3", 15, "`weight` is only for queues"),
        ("sched 1 config bw 3", 16, "`bw` is only for pipes"),
        ("sched 2 config pipe 1", 21, "scheduler 2 has the link of pipe 2, not of pipe 1"),
        ("queue 1 config type rr", 16, "`type` is only for schedulers"),
        ("pipe 1 config ecn", 15, "ecn without an algorithm"),
        ("pipe 1 config red 0.002/80/30/0.1", 19, "min_th 80 is not below max_th 30"),
        ("pipe 1 config red 0.002/80/30", 19, "unexpected"),
        ("pipe 1 config plr 1.5", 19, "unexpected `1.5`"),
        ("pipe 1 config mask foo", 20, "unexpected `foo`"),
        ("queue 1 config pipe 70000", 21, "unexpected `70000`"),
        ("sched 1 config type cbq", 21, "unexpected `cbq`"),
        ("pipe delete", 12, "the command ends early"),
        ("pipe show 3-1", 11, "unexpected `3-1`"),
    ] {
        let (at, message) = error(text);
        assert_eq!(at, column, "{text}: {message}");
        assert!(message.contains(what), "{text}: {message}");
    }
}

#[test]
fn parameters_stay_within_dummynets_ranges() {
    for text in [
        "pipe 1 config burst 256T",
        "pipe 1 config queue 2048KBytes",
        "pipe 1 config red 0/1/2/0.1",
        "pipe 1 config red 1.1/1/2/0.1",
        "pipe 1 config mask src-port 0x10000",
        "pipe 1 config mask proto 256",
        "pipe 1 config mask flow-id 0x100000",
        "pipe 1 config mask src-ip6 /129",
        "pipe 1 config mask src-ip /33",
        "queue 1 config pipe 1 weight 65537",
        "queue 1 config pipe 1 pri 64",
        "sched 1 config type fq_codel quantum 9001",
        "sched 1 config type fq_codel limit 20481",
        "sched 1 config type fq_pie flows 65537",
        "sched 1 config type fq_codel target 200ms",
        "pipe 1 config pie alpha 8",
    ] {
        assert!(DummynetCommand::parse(text).is_err(), "{text}");
    }
    assert_eq!(pipe("mask all buckets 3").buckets, Some(16));
    assert_eq!(pipe("mask all buckets 100000").buckets, Some(65536));
}

#[test]
fn number_and_verb_come_in_any_order() {
    assert_eq!(DummynetCommand::parse("pipe config 3"), DummynetCommand::parse("pipe 3 config"));
    assert_eq!(DummynetCommand::parse("queue 3 delete"), DummynetCommand::parse("queue delete 3"));
    let Ok(DummynetCommand::Show(ObjectKind::Sched, ranges)) =
        DummynetCommand::parse("sched show 1,3-5 7")
    else {
        panic!()
    };
    assert_eq!(ranges, [1..=1, 3..=5, 7..=7]);
    assert_eq!(DummynetCommand::parse("pipe flush"), Ok(DummynetCommand::Flush));
}

#[test]
fn a_scheduler_may_name_its_own_pipe() {
    assert_eq!(
        config("sched 1 config pipe 1 type fq_codel"),
        config("sched 1 config type fq_codel")
    );
}

#[test]
fn profiles_are_named_for_the_caller_to_load() {
    let command = DummynetCommand::parse("pipe 1 config profile a.txt bw 1Mbit/s").unwrap();
    assert!(
        matches!(command, DummynetCommand::ConfigWithProfile(ShaperConfig::Pipe(1, _), file) if file == "a.txt")
    );
}

#[test]
fn configurations_print_as_commands_that_mean_the_same() {
    for text in [
        "pipe 7 config bw 10Mbit/s delay 50us burst 10k mask src-ip 0xff queue 20 plr 0.05",
        "pipe 7 config red 0.002/30/80/0.1 ecn queue 50KBytes",
        "pipe 7 config gred 0.5/3/8/1 buckets 100 noerror mask proto 0xff dst-ip 0xff src-ip6 /64",
        "pipe 1 config mask all plr 0.1,0.02,0.9,0.25 codel ecn",
        "queue 7 config sched 3 weight 5 lmax 900 pri 2 mask flow-id 0xfffff dst-port 80",
        "queue 7 config pie target 3ms onoff dre nodrand ecn max_ecnth 0.3",
        "sched 2 config type rr mask src-ip6 /56 queue",
        "pipe 1 config bw 10Mbit/s queue 50 type fq_codel target 5ms quantum 300 limit 600",
        "pipe 1 config bw 10Mb mask dst-ip 0xffffffff type wf2q+",
        "sched 2 config type fq_codel target 300us flows 100",
        "sched 2 config mask src-port 1 type FQ_PIE limit 77 alpha 2",
    ] {
        let first = config(text);
        assert_eq!(config(&first.to_string()), first, "{text}\n{first}");
    }
}

#[test]
fn configurations_print_as_they_were_typed() {
    for text in [
        "pipe 1 config bw 10Mbit/s delay 20ms burst 10K queue 50KBytes plr 0.1",
        "pipe 1 config bw 2.5Gbit/s delay 1.5s queue 300 plr 0.01,0.25,0.9,0.333",
        "pipe 1 config bw 9.6Kbit/s delay 50us queue 2000Bytes plr 0.000001 noerror",
        "pipe 1 config bw 56Kbit/s queue 1MBytes red 0.002/30/80/0.1",
        "queue 7 config sched 3 weight 5 lmax 900 gred 0.5/3/8/0.7 ecn",
        "sched 2 config type fq_codel quantum 1514 limit 10240 flows 1024 target 5ms interval 100ms ecn",
        "sched 2 config pie target 15ms tupdate 15ms alpha 0.125 beta 1.25 max_burst 150ms \
         max_ecnth 0.1 noecn capdrop drand ts",
    ] {
        let caps = QueueCaps::NONE;
        let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse_within(text, &caps) else {
            panic!("{text}")
        };
        assert_eq!(config.to_string(), text);
    }
}

prop_compose! {
    /// A number as people type it: with few digits, and with the decimal point at any position.
    fn typed()(whole in 0u32..1000, rest in 0u32..10_000, digits in 0usize..=4) -> String {
        let rest = rest % 10_u32.pow(digits as u32);
        if digits == 0 { whole.to_string() } else { std::format!("{whole}.{rest:0digits$}") }
    }
}

prop_compose! {
    fn typed_share()(rest in 1u32..1_000_000_000, digits in 1usize..=9) -> String {
        std::format!("0.{:0digits$}", rest % 10_u32.pow(digits as u32))
    }
}

#[test]
fn values_of_a_profile_are_refused_where_they_make_no_profile() {
    for (word, column) in [
        ("", 29),
        ("a", 31),
        ("a/1", 31),
        ("a/1/", 31),
        ("a/2/5", 31),
        ("a/0/5x0", 31),
        ("a/0/5x1025", 31),
        ("a/0/5x1024,6", 31),
        ("a/0/5x18446744073709551615", 31),
        ("a/0/4294967296", 31),
        ("a/-1/5", 31),
        ("a/0/5/6", 31),
        ("%/0/5", 31),
        ("%+f/0/5", 31),
        ("%ff/0/5", 31),
        ("%é/0/5", 31),
        ("a23456789012345678901234567890123/0/5", 31),
    ] {
        let text = std::format!("pipe 1 config profile-values  {word}");
        assert_eq!(error(&text).0, column, "{text}");
    }
    assert!(error("sched 1 config profile-values a/1/5").1.contains("only for pipes"));
    let profile = pipe("profile-values %c3%a9%2f/1/7x2,0x3 bw 1Mbit/s").link.profile.unwrap();
    assert_eq!((profile.name.as_str(), profile.first_lost), ("é/", 1));
    assert_eq!(profile.extra_ms, [7, 7, 0, 0, 0]);
}

proptest! {
    #[test]
    fn any_profile_survives_printing(
        name in "[a-z%/ #é]{0,15}",
        runs in proptest::collection::vec((any::<u32>(), 1usize..100), 1..11),
        lost in any::<prop::sample::Index>(),
    ) {
        let extra_ms: Vec<_> =
            runs.into_iter().flat_map(|(ms, times)| std::iter::repeat_n(ms, times)).collect();
        let first_lost = lost.index(extra_ms.len() + 1) as u32;
        let profile = Some(PipeProfile { name, extra_ms, first_lost });
        let link = PipeLinkSpec { profile, ..PipeLinkSpec::default() };
        let first = ShaperConfig::Pipe(1, PipeSpec { link, ..PipeSpec::default() });
        prop_assert_eq!(config(&first.to_string()), first);
    }

    /// A printed command is parsed to the same configuration, and is printed as the same text
    /// again. Its value of `plr` is not longer than in the command from which it was parsed.
    #[test]
    fn any_configuration_prints_as_one_that_means_the_same_and_prints_the_same(
        bw in (typed(), prop_oneof![Just("bit/s"), Just("Kbit/s"), Just("Mbit/s"), Just("Gbit/s")]),
        delay in (0u32..10_000, 0u32..1000, prop_oneof![Just("ms"), Just("us")]),
        burst in (0u64..100_000, prop_oneof![Just(""), Just("K"), Just("M")]),
        queue in prop_oneof![(1u32..=100).prop_map(|n| n.to_string()), (2u32..1000).prop_map(|n| std::format!("{n}KBytes"))],
        plr in proptest::collection::vec(typed_share(), 4),
        is_burst in any::<bool>(),
        red in (1u32..10_000, 1u32..50, 51u32..100, 0u32..=10_000),
        pie in (typed_share(), typed_share(), 1u32..10_000),
        is_red in any::<bool>(),
    ) {
        let plr = if is_burst { plr.join(",") } else { plr[0].clone() };
        let (w, min, max, p) = red;
        let aqm = match is_red {
            true => std::format!("red 0.{w:04}1/{min}/{max}/{}", f64::from(p) / 10_000.0),
            false => std::format!("pie alpha {} beta {} target {}us", pie.0, pie.1, pie.2),
        };
        let text = std::format!(
            "pipe 1 config bw {}{} delay {}.{}{} burst {}{} queue {queue} plr {plr} {aqm}",
            bw.0, bw.1, delay.0, delay.1, delay.2, burst.0, burst.1
        );
        let Ok(DummynetCommand::Config(first)) = DummynetCommand::parse_within(&text, &QueueCaps::NONE) else {
            panic!("{text}");
        };
        let printed = first.to_string();
        let Ok(DummynetCommand::Config(again)) = DummynetCommand::parse_within(&printed, &QueueCaps::NONE) else {
            panic!("{text}\n{printed}");
        };
        prop_assert_eq!(&again, &first, "{}\n{}", text, printed);
        prop_assert_eq!(again.to_string(), printed.clone());
        let share = |text: &str| text.split(" plr ").nth(1).map_or(0, |rest| rest.split(' ').next().unwrap().len());
        prop_assert!(share(&printed) <= share(&text), "{}\n{}", text, printed);
    }

    #[test]
    fn any_fraction_survives_printing(loss in 1u32..=ShaperLoss::SCALE, weight in 1u32..=ShaperRedSpec::SCALE) {
        let red = ShaperRedSpec { weight, min: 1, max: 2, max_p: weight, gentle: false, ecn: false };
        let aqm = AqmSpec::Red(red);
        let policy = PolicySpec { loss: ShaperLoss::Uniform(loss), aqm, ..PolicySpec::default() };
        let first = ShaperConfig::Pipe(1, PipeSpec { policy, ..PipeSpec::default() });
        prop_assert_eq!(config(&first.to_string()), first);
    }

    #[test]
    fn no_text_panics(text in "(pipe|queue|sched) [0-9]{1,3} config( (bw|delay|plr|mask|all|queue|red|pie|type|fq_pie|0?x?[0-9./,]{1,6}[KMGBbs/]{0,2}|[a-zé]{1,5})){0,6}") {
        _ = DummynetCommand::parse(&text);
    }
}
