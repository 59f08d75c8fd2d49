//! Tests of the frames that replay sends and of their times: with its own flags, into captures and
//! into ports.

use std::path::PathBuf;

use slipring_pcap::{LinkType, PcapFileReader, PcapWriter};

use slipring_datapath::captured_run::{CapturedRun, run_captured};

const MS: u64 = 1_000_000;
const EPOCH: u64 = 1_700_000_000_000_000_000;

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// Creates a lab whose capture has frames with these times (in ns) and lengths (in bytes),
    /// numbered from 0.
    fn new(frames: &[(u64, u32)]) -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(lab.path("in.pcap"), capture(frames)).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run_as(&self, verb: &str, args: &str) -> CapturedRun {
        // Each lab has its own run directory, in which no other test of this process has a socket.
        run_captured(crate::VERBS, verb, &format!("{args} --run-dir @run"), self.dir.path())
    }

    fn run(&self, args: &str) -> CapturedRun {
        self.run_as("replay", args)
    }

    /// Returns the number of each frame that would be sent, and its time in ns after the start of
    /// the capture.
    fn sent(&self, args: &str) -> Vec<(u8, u64)> {
        let run = self.run(&format!("-f @in.pcap --virtual @out.pcap --seed 3 {args}"));
        assert_eq!(run.status, 0, "{args}: {}", run.stderr);
        sent(&std::fs::read(self.path("out.pcap")).unwrap())
    }
}

fn capture(frames: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    for (id, &(at_ns, len)) in (0u8..).zip(frames) {
        writer.packet(&mut bytes, EPOCH + at_ns, len, &[id; 20]).unwrap();
    }
    bytes
}

fn sent(capture: &[u8]) -> Vec<(u8, u64)> {
    let packet = |packet: slipring_pcap::CapturedPacket<'_>| (packet.data[0], packet.ts_ns - EPOCH);
    PcapFileReader::new(capture).map(|one| packet(one.unwrap())).collect()
}

/// Three frames at 0, 10 and 25 ms.
const THREE: [(u64, u32); 3] = [(0, 60), (10 * MS, 60), (25 * MS, 60)];

#[test]
fn a_capture_is_sent_as_it_was_recorded() {
    let lab = Lab::new(&THREE);
    assert_eq!(lab.sent(""), [(0, 0), (1, 10 * MS), (2, 25 * MS)]);
    assert_eq!(lab.sent("-B real"), lab.sent(""));
}

#[test]
fn stamps_that_go_back_are_told_for_people_and_machines() {
    let lab = Lab::new(&[(0, 60), (10 * MS, 60), (5 * MS, 60)]);
    for target in ["--virtual @out.pcap", "-i null:"] {
        let run = lab.run(&format!("-f @in.pcap {target}"));
        let text = run.stdout + &run.stderr;
        assert!(text.contains("1 frames are stamped before"), "{target}: {text}");
        let run = lab.run(&format!("-f @in.pcap {target} --json"));
        let last = run.stdout.lines().last().unwrap();
        let report: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(report["unordered"], 1, "{target}: {last}");
    }
}

#[test]
fn twice_as_fast_three_times_ends() {
    let lab = Lab::new(&THREE);
    let sent = lab.sent("--speed 2 --loops 3");
    // The pause between two loops is the average gap: 6.25 ms.
    let times: Vec<_> = (0..3u64)
        .flat_map(|pass| [0, 5_000_000, 12_500_000].map(|at| at + pass * 18_750_000))
        .collect();
    assert_eq!(sent.iter().map(|one| one.1).collect::<Vec<_>>(), times);
    assert_eq!(sent.iter().map(|one| one.0).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(lab.sent("-B real,2 --loops 3"), sent);
}

#[test]
fn the_pause_between_two_loops_can_be_named() {
    let lab = Lab::new(&THREE);
    assert_eq!(lab.sent("--loops 2 --loop-gap 100ms")[3], (0, 125 * MS));
}

#[test]
fn losses_leave_the_times_of_the_others_alone() {
    let frames: Vec<_> = (0..200).map(|i| (i * i * 1000, 60)).collect();
    let lab = Lab::new(&frames);
    let (all, some) = (lab.sent(""), lab.sent("-L 50%"));
    assert!((70..130).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|one| all.contains(one)));
}

#[test]
fn every_loop_loses_other_frames() {
    let frames: Vec<_> = (0..100).map(|i| (i * MS, 60)).collect();
    let lab = Lab::new(&frames);
    let sent = lab.sent("-L 50% --loops 2");
    let pass = 100 * MS;
    let of = |pass_number: u64| {
        let here = sent.iter().filter(|one| one.1 / pass == pass_number);
        here.map(|one| one.0).collect::<Vec<_>>()
    };
    assert_ne!(of(0), of(1));
}

#[test]
fn a_fixed_rate_counts_framing_only_where_asked() {
    let lab = Lab::new(&[(0, 1226), (7, 601), (9 * MS, 60)]);
    let times = |args: &str| lab.sent(args).iter().map(|one| one.1).collect::<Vec<_>>();
    assert_eq!(times("-B 10m"), [0, 980_800, 1_461_600]);
    assert_eq!(times("-B const,10m"), times("--rate 10Mbit"));
    assert_eq!(times("-B ether,10m"), [0, MS, 1_500_000]);
    assert_eq!(times("-B 1kpps"), [0, MS, 2 * MS]);
}

#[test]
fn a_link_is_put_behind_the_schedule() {
    let lab = Lab::new(&[(0, 1250), (0, 1250), (50 * MS, 1250)]);
    let times: Vec<_> = lab.sent("-D 20ms --link-rate 10m").iter().map(|one| one.1).collect();
    assert_eq!(times, [21 * MS, 22 * MS, 71 * MS]);
}

#[test]
fn what_delays_mean_follows_the_manual() {
    // exp,MIN,MEAN: never below the minimum, and the average is MEAN.
    let frames: Vec<_> = (0..250).map(|i| (i * 1000 * MS, 60)).collect();
    let lab = Lab::new(&frames);
    let delays: Vec<_> =
        lab.sent("-D exp,1ms,5ms --loops 20").iter().map(|one| one.1 % (1000 * MS)).collect();
    assert!(delays.iter().all(|delay| *delay >= MS));
    let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
    assert!((mean / 5e6 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn long_pauses_can_be_cut() {
    let lab = Lab::new(&[(0, 60), (3600 * 1000 * MS, 60), (3600 * 1000 * MS + 5, 60)]);
    assert_eq!(lab.sent("--max-gap 1s").last(), Some(&(2, 1000 * MS + 5)));
}

#[test]
fn unordered_frames_go_with_their_predecessors() {
    let lab = Lab::new(&[(0, 60), (20 * MS, 60), (10 * MS, 60), (30 * MS, 60)]);
    let times: Vec<_> = lab.sent("").iter().map(|one| one.1).collect();
    assert_eq!(times, [0, 20 * MS, 20 * MS, 30 * MS]);
}

#[test]
fn a_capture_that_cannot_be_played_is_refused() {
    let lab = Lab::new(&THREE);
    let whole = std::fs::read(lab.path("in.pcap")).unwrap();
    let mut longer = whole.clone();
    longer[24 + 8..][..4].copy_from_slice(&61u32.to_le_bytes());
    for (bytes, why) in [
        (&whole[..24], "holds no frame to send"),
        (&whole[..whole.len() - 1], "the file ends inside a packet record"),
        (&longer[..], "61 bytes captured of a packet of 60"),
        (b"not a capture", "neither a pcap nor a pcapng file"),
    ] {
        std::fs::write(lab.path("in.pcap"), bytes).unwrap();
        for target in ["--virtual @out.pcap", "-i null:"] {
            let run = lab.run(&format!("-f @in.pcap {target}"));
            assert_eq!(run.status, 2, "{why} {target}: {}", run.stderr);
            assert!(run.stderr.contains(why), "{why}: {}", run.stderr);
        }
    }
}

#[test]
fn wrong_flags_are_refused_before_anything_is_opened() {
    let lab = Lab::new(&THREE);
    for (args, why) in [
        ("-i null:", "no capture is named"),
        ("-f @in.pcap", "neither a port nor a capture"),
        ("-f @in.pcap -i null: -B bogus,3", "`bogus` is not known"),
        ("-f @in.pcap -i null: -B 0", "a rate of 0 sends nothing"),
        ("-f @in.pcap -i null: -B real,0", "it must be above 0"),
        ("-f @in.pcap -i null: -D bogus", "bogus"),
        ("-f @in.pcap -i null: -L 2", "2"),
        ("-f @in.pcap --virtual @out.pcap --loops 0", "never ends"),
        ("-f @in.pcap --virtual @in.pcap", "would overwrite what is read"),
        ("-f @in.pcap -i pcap:@in.pcap", "would overwrite what is read"),
        ("-f @in.pcap --virtual @out.pcap --fault-loss 1%", "does not go together with --virtual"),
        ("-f @in.pcap -i null: --late-drop 1ms", "--late-drop does not go together"),
        ("-f @in.pcap --virtual @out.pcap --metrics 127.0.0.1:0", "--metrics does not go together"),
    ] {
        let run = lab.run(args);
        assert_eq!(run.status, 2, "{args}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{args}: {}", run.stderr);
        assert!(!lab.path("out.pcap").exists());
    }
}

#[test]
fn an_end_stops_a_replay_without_one_in_virtual_time_too() {
    let lab = Lab::new(&THREE);
    // Each pass takes 37.5 ms: the average gap follows the last frame.
    let sent = lab.sent("--loops 0 -t 0.1");
    assert_eq!(sent.len(), 8, "{sent:?}");
    assert!(sent.iter().all(|(_, at_ns)| *at_ns < 100 * MS), "{sent:?}");
}

#[test]
fn nmreplays_flags_are_known_and_its_failures_are_1() {
    let lab = Lab::new(&THREE);
    let flags = "-f @in.pcap -B ether,10g -D const,1m -L plr,0.1 -b 64 -w 0 -C 0,1 -v";
    let run = lab.run_as("nmreplay", &format!("{flags} --virtual @out.pcap"));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(lab.run_as("nmreplay", "-f @missing.pcap --virtual @out.pcap").status, 1);
}

#[test]
fn flags_that_say_nothing_are_refused() {
    let lab = Lab::new(&THREE);
    for (flags, why) in [
        ("--down delay=5ms", "--down says nothing here"),
        ("-D 1ms -D 2ms", "-D is given twice"),
        ("--link-rate 1m --link-rate 2m", "--link-rate is given twice"),
        ("--loop-gap 1", "--loop-gap says nothing here"),
        ("--loop-gap 1 --loops 2 -B 10m", "--loop-gap says nothing beside a fixed rate"),
        ("--max-gap 1 -B 1Mpps", "--max-gap says nothing beside a fixed rate"),
    ] {
        for verb in ["replay", "nmreplay"] {
            let run = lab.run_as(verb, &format!("-f @in.pcap --virtual @out.pcap {flags}"));
            assert_ne!(run.status, 0, "{verb} {flags}");
            assert!(run.stderr.contains(why), "{verb} {flags}: {}", run.stderr);
        }
    }
    for flags in ["--up delay=5ms", "--loop-gap 1 --loops 2", "--max-gap 1 -B real,2"] {
        lab.sent(flags);
    }
}

#[test]
fn a_port_gets_every_frame_and_the_timing_is_told() {
    let frames: Vec<_> = (0..200).map(|i| (i * 100_000, 60 + i as u32)).collect();
    let lab = Lab::new(&frames);
    let run = lab.run("-f @in.pcap -i null: --loops 2 --seed 3 --json");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["ports"][0]["tx"]["packets"], 400);
    let error = &report["links"][0]["delay_error_ns"];
    assert_eq!(error["count"], 400);
    for quantile in ["p50", "p99", "p999", "max"] {
        assert!(error[quantile].is_u64(), "{report}");
    }
}

#[test]
fn what_the_port_gets_is_what_was_captured_and_zeros_for_what_was_not() {
    let lab = Lab::new(&[(0, 60), (MS, 64), (2 * MS, 1500)]);
    let run = lab.run("-f @in.pcap -i pcap:@sent.pcap --seed 1");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let bytes = std::fs::read(lab.path("sent.pcap")).unwrap();
    let packets: Vec<_> = PcapFileReader::new(&bytes).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 3);
    for (id, (packet, len)) in (0u8..).zip(packets.iter().zip([60, 64, 1500])) {
        assert_eq!(packet.data.len(), len);
        assert!(packet.data[..20].iter().all(|&byte| byte == id));
        assert!(packet.data[20..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn for_ever_ends_with_the_time_that_was_given() {
    let lab = Lab::new(&[(0, 60), (1000, 60)]);
    let run = lab.run("-f @in.pcap -i null: --loops 0 -t 200ms --seed 1");
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout.contains("in = "), "{}", run.stdout);
}

#[test]
fn every_frame_to_a_port_is_logged_where_it_came_and_where_it_went_or_was_lost() {
    let frames: Vec<_> = (0..20).map(|i| (i * MS, 60)).collect();
    let lab = Lab::new(&frames);
    let run = lab.run("-f @in.pcap -i null: -L nth,4 -D 2ms --log @log.pcapng --seed 1");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let bytes = std::fs::read(lab.path("log.pcapng")).unwrap();
    let packets: Vec<_> = PcapFileReader::new(&bytes).map(Result::unwrap).collect();
    let of = |id: u8, interface: u32| {
        let is_it = |packet: &&slipring_pcap::CapturedPacket<'_>| {
            packet.data[0] == id && packet.interface == interface
        };
        packets.iter().filter(is_it).map(|packet| packet.ts_ns).collect::<Vec<_>>()
    };
    for id in 0..20 {
        let (came, left) = (of(id, 0), of(id, 1));
        match left[..] {
            // A lost frame is logged twice: on arrival, and when it is dropped.
            [] => assert_eq!(came.len(), 2, "{id}"),
            [left_ns] => assert!(left_ns >= came[0] + 2 * MS, "{id}: {left_ns} {came:?}"),
            _ => panic!("{id} left twice"),
        }
    }
    let left = packets.iter().filter(|packet| packet.interface == 1).count();
    assert_eq!(left, 15, "every fourth is lost");
}

#[test]
fn a_burst_of_replay_is_frames_or_bytes_that_hold_a_frame() {
    let lab = Lab::new(&THREE);
    let check = |burst: &str| lab.run(&format!("-f @in.pcap -i null: --burst {burst} --check"));
    for burst in ["1", "8192", "60B", "64KiB"] {
        let run = check(burst);
        assert_eq!(run.status, 0, "{burst}: {}", run.stderr);
    }
    for burst in ["0", "1B", "64k", "8193"] {
        let run = check(burst);
        assert_eq!(run.status, 2, "{burst}: {}", run.stderr);
    }
    let run = lab.run("-f @in.pcap -i null: --burst 100B");
    assert_eq!(run.status, 0, "{}", run.stderr);
}
