//! Tests of every classic flag, of contradictory flags, and of values that are out of range.

use std::num::NonZeroU32;

use slipring_cli::Diagnose;
use slipring_traffic::{EndpointOrder, Sizes, TrafficProtocol};
use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, VlanTag};
use slipring_wire::view::IpVersion;

use super::*;

fn plan(words: &str) -> Result<GenPlan, String> {
    let words = ["gen"].into_iter().chain(words.split_ascii_whitespace());
    let matches = super::super::flags::command().try_get_matches_from(words);
    let matches = matches.map_err(|error| error.to_string())?;
    GenPlan::of(&matches).map_err(|failure| match failure {
        Failure::Error(error) => format!("{} {error}", Diagnose::code(&*error)),
        Failure::ReaderLeft => "the reader left".to_owned(),
    })
}

fn tx(words: &str) -> GenPlan {
    plan(&format!("-i null: -f tx {words}")).unwrap()
}

fn pattern(plan: GenPlan) -> TrafficPattern {
    match plan.frames {
        GenFrames::Pattern(pattern) => *pattern,
        other => panic!("{other:?}"),
    }
}

fn refused(words: &str, with: &str) {
    let error = plan(words).map(|_| ()).unwrap_err();
    assert!(error.contains(with), "{words}: {error}");
}

#[test]
fn without_flags_it_does_as_pkt_gen_does() {
    let plan = plan("-i eth0").unwrap();
    assert_eq!(plan.port.to_string(), "netmap:eth0");
    assert_eq!(plan.function, GenFunction::Rx);
    assert_eq!((plan.packets, plan.threads, plan.send_options.burst), (u64::MAX, 1, 512));
    assert_eq!(plan.rate, slipring_model::Rate::PacketsPerSec(0));
    assert_eq!(
        (plan.period, plan.link_wait),
        (Some(Duration::from_secs(1)), Duration::from_secs(2))
    );
    assert!(
        plan.pinning.is_none() && !plan.exit_when_idle && plan.mac_of_port && plan.framing == 0
    );
    let pattern = pattern(plan);
    assert_eq!(pattern, TrafficPattern { src_mac: DEFAULT_SRC_MAC, ..TrafficPattern::default() });
}

#[test]
fn every_function_has_its_name() {
    for name in ["tx", "rx", "ping", "pong", "txseq", "rxseq"] {
        assert_eq!(plan(&format!("-i null: -f {name}")).unwrap().function.name(), name);
    }
    for name in ["ping", "pong"] {
        assert_eq!(plan(&format!("-i null: -f {name}")).unwrap().send_options.burst, 1);
    }
}

#[test]
fn classic_letters_mean_what_they_meant() {
    let plan = tx("-n 1000 -b 64 -R 14880952 -p 4 -c 4 -a 2 -T 500 -w 4 -X -N -A -B");
    assert_eq!((plan.packets, plan.send_options.burst, plan.threads), (1000, 64, 4));
    assert_eq!(plan.rate, slipring_model::Rate::PacketsPerSec(14_880_952));
    assert_eq!(plan.pinning, Some(CpuPinning { first: 2, count: 4 }));
    assert_eq!(
        (plan.period, plan.link_wait),
        (Some(Duration::from_millis(500)), Duration::from_secs(4))
    );
    assert!(plan.send_options.dump && plan.style.raw && plan.style.statistics);
    assert_eq!(plan.framing, 24);
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    assert!(super::tests::plan("-i null: -W").unwrap().exit_when_idle);
    assert!(tx("-a -1").pinning.is_none());
    assert_eq!(tx("-T 0").period, None);
    assert_eq!(tx("-F 3").send_options.split, SlotSplit::Slots(3));
    assert_eq!(tx("-M 64").send_options.split, SlotSplit::Bytes(64));
}

#[test]
fn classic_letters_describe_frames() {
    let frames = pattern(tx(
        "-d 10.0.0.0/24:80 -s 10.9.0.1:5-10.9.0.7:9 -D 02:00:00:00:00:09 -S 2:0:0:0:0:8 -l 128",
    ));
    assert_eq!(frames.dst, "10.0.0.0/24:80".parse().unwrap());
    assert_eq!(frames.src.count(), 35);
    assert_eq!(frames.dst_mac, MacAddr([2, 0, 0, 0, 0, 9]));
    assert_eq!(frames.src_mac, MacAddr([2, 0, 0, 0, 0, 8]));
    assert_eq!(frames.sizes, Sizes::fixed(128).unwrap());
    let random = pattern(tx("-z -Z"));
    assert_eq!(
        (random.src_order, random.dst_order),
        (EndpointOrder::Random, EndpointOrder::Random)
    );
    assert!(random.src.count() > 1 << 40);
}

#[test]
fn a_second_length_is_a_random_minimum() {
    assert_eq!(pattern(tx("-l 1500 -l 60")).sizes, Sizes::random(60, 1500).unwrap());
    assert_eq!(pattern(tx("-l imix")).sizes, Sizes::imix());
    refused("-i null: -f tx -l imix -l 60", "SR0002");
    refused("-i null: -f tx -l 60 -l 70 -l 80", "SR0003");
}

#[test]
fn the_family_follows_flag_or_addresses() {
    let v6 = pattern(tx("-6"));
    assert_eq!((v6.src.family(), v6.dst.family()), (IpVersion::V6, IpVersion::V6));
    // Header bytes and the timestamp: 14 + 40 + 8 + 18.
    assert_eq!(v6.sizes, Sizes::fixed(80).unwrap());
    assert_eq!(pattern(tx("-d [fd00::9]:7")).src.family(), IpVersion::V6);
    refused("-i null: -f tx -4 -d [fd00::9]:7", "SR0003");
    refused("-i null: -f tx -4 -6", "cannot be used with");
}

#[test]
fn new_flags_describe_frames() {
    let frames = pattern(tx("--proto tcp --vlan 5 --vlan 7:3 --ttl 3 --tos 8"));
    assert!(matches!(frames.protocol, TrafficProtocol::Tcp { .. }));
    assert_eq!((frames.ttl, frames.tos), (3, 8));
    assert_eq!(frames.tags[0].ethertype, EtherType::QINQ);
    assert_eq!(
        (frames.tags[1].ethertype, frames.tags[1].tag),
        (EtherType::VLAN, VlanTag::new(7, 3))
    );
    assert_eq!(pattern(tx("--proto icmp")).protocol, TrafficProtocol::Echo);
    assert_eq!(tx("-R 10Gbit").rate, slipring_model::Rate::BitsPerSec(10_000_000_000));
    for bad in ["4096", "1:8", "x", "1:", "-1"] {
        refused(&format!("-i null: -f tx --vlan={bad}"), "SR0002");
    }
    refused("-i null: -f tx --vlan 1 --vlan 2 --vlan 3", "SR0002");
}

#[test]
fn option_bits_are_their_flags() {
    let plan = tx(&format!("-o {}", 16 | 64 | 512 | 1024 | 2048 | 4096));
    assert!(
        plan.latency && plan.send_options.dump && plan.style.statistics && plan.warnings.is_empty()
    );
    assert_eq!(pattern(plan).src_order, EndpointOrder::Random);
    assert!(matches!(tx("-o 256").frames, GenFrames::Unwritten(60)));
    assert!(tx("-o 3").warnings[0].contains("no effect"));
    refused("-i null: -o 128", "SR0002");
    refused("-i null: -o 65536", "bits of 65536");
}

#[test]
fn old_ring_sizes_go_into_the_name() {
    assert_eq!(
        tx("-C 512,256,2,4").port.to_string(),
        "null:@conf:tx-rings=2,rx-rings=4,tx-slots=512,rx-slots=256"
    );
    assert_eq!(
        plan("-i null:@conf:tx-slots=64 -C 512").unwrap().port.conf.tx_slots,
        NonZeroU32::new(64)
    );
    for bad in ["", "0", "1,2,3,4,5", "x", "1,1,70000"] {
        refused(&format!("-i null: -C={bad}"), "SR0002");
    }
}

#[test]
fn virtio_net_headers_go_with_taps_alone() {
    for header in [0, 10, 12] {
        for function in ["tx", "rx", "ping", "pong", "txseq", "rxseq"] {
            let plan = plan(&format!("-i tap:t0 -f {function} -H {header}")).unwrap();
            assert_eq!(plan.header(), header);
        }
    }
    assert_eq!(tx("-H 0").header(), 0);
    for port in ["null:", "netmap:eth0", "packet:eth0", "xdp:eth0", "pcap:x", "netmap:x{1"] {
        refused(&format!("-i {port} -f tx -H 12"), "SR0003");
        refused(
            &format!("-i {port} -f tx -H 12"),
            &format!("--vnet-header 12 does not go together with {port}"),
        );
    }
    refused("-i tap:t0 -f tx --sink null: -H 10", "does not go together with null:");
    refused("-i tap:t0 -H 7", "possible values");
}

#[test]
fn nothing_typed_is_ignored_in_silence() {
    assert!(tx("-I").warnings[0].starts_with("-I has no effect"));
    assert!(tx("-c 4").warnings[0].starts_with("-c has no effect"));
    assert!(tx("-W").warnings[0].contains("--exit-when-idle"));
    let warnings = plan("-i null: -f rx -l 60 -R 1k").unwrap().warnings;
    assert_eq!(warnings, ["--size has no effect on rx", "--rate has no effect on rx"]);
}

#[test]
fn captures_loop_unless_their_times_count() {
    let recorded = |words: &str| match tx(words).frames {
        GenFrames::Recorded { path, mut timeline, timed } => {
            let passes = (0..9).take_while(|_| timeline.next_pass()).count();
            (path, passes, timed)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(recorded("-P a.pcap"), ("a.pcap".to_owned(), 9, false));
    assert_eq!(recorded("-P a.pcap --timed"), ("a.pcap".to_owned(), 1, true));
    assert_eq!(recorded("-P a.pcap --timed --speed 2 --loops 3"), ("a.pcap".to_owned(), 3, true));
    for bad in ["--timed", "-P x --speed 2", "-P x -l 60", "-P x --timed -R 1k"] {
        assert!(plan(&format!("-i null: -f tx {bad}")).is_err(), "{bad}");
    }
}

#[test]
fn contradictions_are_refused() {
    for words in [
        "-i pcap:x -f rx --latency",
        "-i pcap:x -f ping",
        "-i null: -f rx --sink null:",
        "-i null: -f pong --max-loss 1%",
        "-i null: -f ping -P x",
        "-i null: -f ping -M 64",
        "-i null: -f tx -r -l imix",
    ] {
        refused(words, "SR0003");
    }
    assert!(plan("-i null: -f tx -F 2 -M 64").is_err());
}

#[test]
fn absurd_values_are_refused() {
    for words in [
        "-n 99999999999999999999999",
        "-n -1",
        "-l 0",
        "-l 41",
        "-l 70000",
        "-b 0",
        "-b 70000",
        "-p 0",
        "-p 2000",
        "-R fast",
        "-R 0.5pps",
        "-c -1",
        "-a 99999",
        "-a -2",
        "-T never",
        "-w -1",
        "-d 10.0.0.256",
        "-s 10.0.0.1:70000",
        "-D 02:00",
        "-F 0",
        "-F 65",
        "-M 1",
        "--ttl 256",
        "--max-loss 1x",
        "--min-rate slow",
        "--proto sctp",
        "-f up",
        "--duration 0.1ns",
    ] {
        assert!(plan(&format!("-i null: -f tx {words}")).is_err(), "{words}");
    }
    assert!(plan("").is_err());
}
