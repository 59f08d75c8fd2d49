//! Tests of links with exact results: times and counts.

use std::io::Write;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use slipring_pcap::{LinkType, PcapFileReader, PcapWriter};

use super::{EPOCH, Lab, MS, SECOND, capture, data, frames, link, times, up};

/// Returns `count` frames of one length at time 0.
fn burst(count: usize, len: u32) -> Vec<(u64, u32)> {
    vec![(0, len); count]
}

#[test]
fn a_frame_leaves_when_its_last_bit_is_through() {
    for (args, len, expected_ns) in [
        ("-B 10m", 1250, MS),
        ("-B 1k -Q none", 1500, 12 * SECOND),
        ("-B ether,10g", 60, 68),
        ("-B 1bit -Q none", 100, 800 * SECOND),
        ("-B 400g", 1500, 30),
        // 480 bits at 7 Gbit/s take 68 4/7 ns, which is rounded up.
        ("-B 7g", 60, 69),
    ] {
        let (out, _) = link(args, [(0, len)]);
        assert_eq!(times(&out), [expected_ns], "{args}");
    }
}

#[test]
fn a_thousand_frames_leave_a_millisecond_apart() {
    let (out, _) = link("-B 10m -Q none", burst(1000, 1250));
    assert_eq!(times(&out), (1..=1000).map(|k| k * MS).collect::<Vec<_>>());
}

#[test]
fn a_million_short_frames_fill_ten_gigabits_of_ethernet() {
    let (out, report) = link("-B ether,10g -Q none", burst(1_000_000, 60));
    assert_eq!(out.len(), 1_000_000);
    assert_eq!(out.last().unwrap().at_ns, 67_200_000);
    assert_eq!(up(&report)["output"]["packets"], 1_000_000);
}

#[test]
fn a_queue_admits_what_fits_and_as_tlem_what_begins_to() {
    for (args, expected) in [("-Q 10000", 10), ("-Q 10000 --admit tlem", 11)] {
        let (out, report) = link(&format!("-B 1m {args}"), burst(20, 1000));
        assert_eq!(out.len(), expected, "{args}");
        assert_eq!(up(&report)["lost"]["queue"]["packets"], 20 - expected, "{args}");
    }
}

#[test]
fn each_direction_has_its_own_queue() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(burst(20, 1000)));
    let args = "--virtual @in.pcap @up.pcap @in.pcap @down.pcap -B 1m -Q 5000 -Q 8000 --seed 1";
    assert_eq!(lab.run(args).status, 0);
    assert_eq!((lab.frames("up.pcap").len(), lab.frames("down.pcap").len()), (5, 8));
}

#[test]
fn flags_given_twice_apply_first_to_the_first_capture() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([(0, 100)]));
    lab.write("in2.pcap", &capture([(3 * MS, 100)]));
    let args = "--virtual @in.pcap @up.pcap @in2.pcap @down.pcap -D 20ms -D 1ms";
    assert_eq!(lab.run(args).status, 0);
    assert_eq!(times(&lab.frames("up.pcap")), [20 * MS]);
    assert_eq!(times(&lab.frames("down.pcap")), [4 * MS]);
}

#[test]
fn two_captures_that_begin_at_time_zero_enter_together() {
    let lab = Lab::new();
    let at_zero = |ids: [u64; 2]| {
        let mut bytes = Vec::new();
        let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
        for (ts_ns, id) in [0, 2 * MS].into_iter().zip(ids) {
            writer.packet(&mut bytes, ts_ns, 100, &data(id, 100)).unwrap();
        }
        bytes
    };
    lab.write("in.pcap", &at_zero([0, 1]));
    lab.write("in2.pcap", &at_zero([2, 3]));
    let args = "--virtual @in.pcap @up.pcap @in2.pcap @down.pcap -D 1ms";
    let output = lab.run(args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for name in ["up.pcap", "down.pcap"] {
        let bytes = lab.bytes(name);
        let packets = PcapFileReader::new(&bytes[..]);
        let times: Vec<_> = packets.map(|packet| packet.unwrap().ts_ns).collect();
        assert_eq!(times, [MS, 3 * MS], "{name}");
    }
}

#[test]
fn a_constant_delay_keeps_order_and_gaps() {
    let input: Vec<_> = (0..10_000).map(|i| (i * i % 977 + i * 1000, 60)).collect();
    let (out, report) = link("-D 20ms", input.iter().copied());
    let expected: Vec<_> = input.iter().map(|(at_ns, _)| at_ns + 20 * MS).collect();
    assert_eq!(times(&out), expected);
    let delay = &up(&report)["delay_ns"];
    assert_eq!((&delay["min"], &delay["max"]), (&(20 * MS).into(), &(20 * MS).into()));
}

#[test]
fn a_pattern_loses_exactly_its_zeros_and_repeats() {
    let pattern = "1101011101001011100";
    let input = (0..19 * 7).map(|i| (i * 1000, 60));
    let (out, _) = link(&format!("-L pattern,{pattern}"), input);
    let kept = (0..19 * 7).filter(|i| pattern.as_bytes()[i % 19] == b'1');
    let kept: Vec<_> = kept.map(|i| i as u64).collect();
    assert_eq!(out.iter().map(|frame| frame.id).collect::<Vec<_>>(), kept);
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    let after = (1..=200).map(|i| (i * MS, 1000));
    let input = burst(100, 1000).into_iter().chain(after);
    let (out, report) = link("-B avg,8m,10000", input);
    let at_once = out.iter().filter(|frame| frame.at_ns == 0).count();
    assert_eq!((at_once, out.len()), (10, 210));
    assert_eq!(up(&report)["lost"]["police"]["packets"], 90);
}

#[test]
fn a_mahimahi_trace_gives_its_opportunities() {
    let lab = Lab::new();
    lab.write("trace", b"0\n1\n2\n3\n4\n5\n");
    // Each 5 ms have 6 opportunities. So 10 rounds carry 60 full frames, or 120 frames of half
    // that length.
    for (len, per_opportunity) in [(1504, 1), (752, 2)] {
        lab.write("in.pcap", &capture(burst(600, len)));
        let trace = lab.path("trace");
        lab.emulate(&format!("-B trace,{},mtu=1504 -Q none", trace.display()));
        let before = lab.frames("out.pcap");
        let first = before.iter().filter(|frame| frame.at_ns < 50 * MS).count();
        // The last opportunity of the tenth round is at 50 ms, so it is not counted.
        assert_eq!(first, 59 * per_opportunity, "{len}");
        let at_5_ms = before.iter().filter(|frame| frame.at_ns == 5 * MS).count();
        assert_eq!(at_5_ms, 2 * per_opportunity, "two coincide at the seam");
    }
}

#[test]
fn opportunities_that_nobody_uses_are_lost() {
    let lab = Lab::new();
    lab.write("trace", b"1\n2\n3\n4\n5\n");
    lab.write("in.pcap", &capture([(0, 100), (3 * MS + 1, 1504), (3 * MS + 1, 1504)]));
    lab.emulate(&format!("-B trace,{},mtu=1504 -Q none", lab.path("trace").display()));
    assert_eq!(times(&lab.frames("out.pcap")), [MS, 4 * MS, 5 * MS]);
}

#[test]
fn a_trace_that_cannot_be_is_refused_with_its_line() {
    for (trace, line) in [("0\n", "1"), ("3\n2\n", "2"), ("1\n\n2\n", "2"), ("", "")] {
        let lab = Lab::new();
        lab.write("trace", trace.as_bytes());
        lab.write("in.pcap", &capture([(0, 100)]));
        let path = lab.path("trace");
        let args = format!("--virtual @in.pcap @out.pcap -B trace,{}", path.display());
        let output = lab.run(&args);
        assert_eq!(output.status, 2, "{trace:?}");
        assert!(output.stderr.contains(line), "{trace:?}: {}", output.stderr);
        assert!(!lab.path("out.pcap").exists(), "nothing was started");
    }
}

#[test]
fn held_frames_are_overtaken_by_exactly_the_hold_time() {
    let input = (0..10_000u64).map(|i| (i * 100_000, 60));
    let (out, report) = link("-R 10%,5ms", input);
    assert_eq!(out.len(), 10_000);
    let held = |frame: &&super::Frame| frame.at_ns != frame.id * 100_000;
    assert!(out.iter().filter(held).all(|frame| frame.at_ns == frame.id * 100_000 + 5 * MS));
    let count = out.iter().filter(held).count();
    assert!((900..1100).contains(&count), "{count}");
    // RFC 4737: a frame is reordered if it arrives after a frame that was sent later.
    let mut expected = 0;
    let reordered = out.iter().filter(|frame| {
        let late = frame.id < expected;
        expected = expected.max(frame.id + 1);
        late
    });
    assert_eq!(up(&report)["reordered"], reordered.count());
    assert_eq!(up(&report)["held"]["packets"], count);
}

#[test]
fn a_change_takes_effect_at_its_time() {
    let lab = Lab::new();
    let file = "
        [ports.left]
        [ports.right]
        [link.up]
        from = \"left\"
        to = \"right\"
        delay = { dist = \"const\", mean = \"20ms\" }
        [[at]]
        t = \"10s\"
        set = { \"link.up.delay.mean\" = \"50ms\" }
    ";
    lab.write("link.toml", file.as_bytes());
    lab.write(
        "in.pcap",
        &capture([0, 10 * SECOND - 1, 10 * SECOND, 11 * SECOND].map(|at| (at, 60))),
    );
    let output = lab.run("--virtual @in.pcap @out.pcap --config @link.toml");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let expected =
        [20 * MS, 10 * SECOND - 1 + 20 * MS, 10 * SECOND + 50 * MS, 11 * SECOND + 50 * MS];
    assert_eq!(times(&lab.frames("out.pcap")), expected);
}

#[test]
fn a_trace_that_is_gone_at_the_end_does_not_fail_the_report() {
    let lab = Lab::new();
    let file = "
        [ports.left]
        [ports.right]
        [link.up]
        from = \"left\"
        to = \"right\"
        rate = { trace = \"trace\" }
        [[at]]
        t = \"1ms\"
        set = { \"link.up.delay\" = \"20ms\" }
    ";
    lab.write("link.toml", file.as_bytes());
    lab.write("trace", b"1\n2\n3\n");
    mknodat(CWD, lab.path("in"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The pipe is opened once the settings have been read.
            let mut pipe = std::fs::File::options().write(true).open(lab.path("in")).unwrap();
            std::fs::remove_file(lab.path("trace")).unwrap();
            pipe.write_all(&capture([(0, 60), (2 * MS, 60)])).unwrap();
        });
        lab.run("--virtual @in @out.pcap --config @link.toml --json")
    });
    assert_eq!(output.status, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(up(&report)["delay_ns"]["max"], 20 * MS);
}

#[test]
fn changes_behind_the_last_frame_do_not_hold_the_end_up() {
    let lab = Lab::new();
    let file = "
        [ports.left]
        [ports.right]
        [link.up]
        from = \"left\"
        to = \"right\"
        rate = { bps = \"8kbit\" }
        [[at]]
        t = \"1500ms\"
        set = { \"link.up.rate.bps\" = \"16kbit\" }
        [[at]]
        t = \"3600s\"
        set = { \"link.up.rate.bps\" = \"8kbit\" }
    ";
    lab.write("link.toml", file.as_bytes());
    // At first the line takes 1 s per frame; frames that begin after the change take half a second.
    lab.write("in.pcap", &capture(burst(4, 1000)));
    let output = lab.run("--virtual @in.pcap @out.pcap --config @link.toml --json");
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(times(&lab.frames("out.pcap")), [1000, 2000, 2500, 3000].map(|ms| ms * MS));
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["elapsed_ns"], 3 * SECOND);
}

#[test]
fn frames_stamped_before_their_predecessors_arrive_with_them() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([10, 30, 20, 40].map(|ms| (ms * MS, 60))));
    let output = lab.run("--virtual @in.pcap @out.pcap -D 5ms");
    assert_eq!(times(&lab.frames("out.pcap")), [15, 35, 35, 45].map(|ms| ms * MS));
    assert!(output.stdout.contains("1 frames are stamped before"), "{}", output.stdout);
    assert_eq!(lab.emulate("-D 5ms")["unordered"], 1);
}

#[test]
fn the_size_of_what_is_read_at_a_time_changes_nothing() {
    // The second capture has the same frames, with long comments between them. So its chunks
    // differ, but the times do not.
    use slipring_pcap::{InterfaceInfo, LinkType, PacketRecord, PcapngWriter, SectionInfo};
    let input: Vec<_> = (0..60_000u64).map(|i| (i / 7 * 100_000, 60 + (i % 1400) as u32)).collect();
    let mut padded = Vec::new();
    let mut writer = PcapngWriter::begin(&mut padded, &SectionInfo::default()).unwrap();
    let info = InterfaceInfo { link_type: LinkType::ETHERNET, ..InterfaceInfo::default() };
    let interface = writer.interface(&mut padded, &info).unwrap();
    let comment = "x".repeat(300);
    for (id, &(at_ns, len)) in (0u64..).zip(&input) {
        let data = super::data(id, len);
        let record = PacketRecord {
            interface,
            ts_ns: EPOCH + at_ns,
            orig_len: len,
            data: &data,
            comment: &comment,
            ..PacketRecord::default()
        };
        writer.packet(&mut padded, &record).unwrap();
    }
    let args = "-B 400m -Q 20k -L 1% -D uniform,1ms,3ms --order free";
    let (plain, _) = link(args, input);
    let lab = Lab::new();
    lab.write("in.pcap", &padded);
    lab.emulate(args);
    assert!(frames(&lab.bytes("out.pcap")) == plain, "the same frames at the same times");
}
