//! Tests of the capture formats that are accepted, and of invalid captures.

use slipring_pcap::{InterfaceInfo, LinkType, PacketRecord, PcapWriter, PcapngWriter, SectionInfo};

use super::{EPOCH, Lab, MS, capture, data, times};

const ARGS: &str = "--virtual @in.pcap @out.pcap -D uniform,1ms,9ms -L 10% --seed 7";

/// Builds a capture in a given byte order, with nanoseconds or microseconds.
fn classic(frames: &[(u64, u32)], big_endian: bool, micros: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(if micros { 0xa1b2_c3d4 } else { 0xa1b2_3c4d }).to_vec();
    bytes.extend([half(2), half(4)].concat());
    bytes.extend([0, 0, 65_535, 1].map(word).concat());
    for (id, &(at_ns, len)) in (0u64..).zip(frames) {
        let (ts_ns, data) = (EPOCH + at_ns, data(id, len));
        let fraction = (ts_ns % 1_000_000_000) as u32 / if micros { 1000 } else { 1 };
        let head = [(ts_ns / 1_000_000_000) as u32, fraction, data.len() as u32, len];
        bytes.extend(head.map(word).concat());
        bytes.extend(data);
    }
    bytes
}

fn next_generation(frames: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PcapngWriter::begin(&mut bytes, &SectionInfo::default()).unwrap();
    let info = InterfaceInfo { link_type: LinkType::ETHERNET, ..InterfaceInfo::default() };
    let interface = writer.interface(&mut bytes, &info).unwrap();
    for (id, &(at_ns, len)) in (0u64..).zip(frames) {
        let data = data(id, len);
        let (ts_ns, orig_len) = (EPOCH + at_ns, len);
        let record =
            PacketRecord { interface, ts_ns, orig_len, data: &data, ..PacketRecord::default() };
        writer.packet(&mut bytes, &record).unwrap();
    }
    bytes
}

#[test]
fn every_form_of_capture_gives_the_same_output() {
    let frames: Vec<_> = (0..5000).map(|i| (i * 1_234_000, 60 + i as u32 % 1400)).collect();
    let lab = Lab::new();
    let output = |bytes: &[u8]| {
        lab.write("in.pcap", bytes);
        let run = lab.run(ARGS);
        assert_eq!(run.status, 0, "{}", run.stderr);
        lab.bytes("out.pcap")
    };
    let plain = output(&capture(frames.iter().copied()));
    for (big_endian, micros) in [(false, false), (false, true), (true, false), (true, true)] {
        assert!(output(&classic(&frames, big_endian, micros)) == plain, "{big_endian} {micros}");
    }
    assert!(output(&next_generation(&frames)) == plain);
}

/// Creates a directory with a capture of three frames, which the program must not change.
fn kept() -> (Lab, Vec<u8>) {
    let (lab, good) = (Lab::new(), capture([(0, 100), (MS, 200), (2 * MS, 300)]));
    lab.write("in.pcap", &good);
    (lab, good)
}

#[test]
fn an_output_that_is_the_input_is_refused_and_the_input_stays() {
    let (lab, good) = kept();
    std::fs::hard_link(lab.path("in.pcap"), lab.path("hard.pcap")).unwrap();
    std::os::unix::fs::symlink("in.pcap", lab.path("soft.pcap")).unwrap();
    for args in [
        "--virtual @in.pcap @in.pcap -D 1ms",
        "--virtual @in.pcap @hard.pcap -D 1ms",
        "--virtual @in.pcap @soft.pcap -D 1ms",
        "--virtual @in.pcap @out.pcap --log @in.pcap",
        "--virtual @in.pcap @out.pcap @hard.pcap @in.pcap",
    ] {
        let output = lab.run(args);
        assert_eq!(output.status, 2, "{args}: {}", output.stderr);
        assert!(
            output.stderr.contains("would overwrite what is read"),
            "{args}: {}",
            output.stderr
        );
        assert!(lab.bytes("in.pcap") == good, "{args}");
        assert!(!lab.path("out.pcap").exists(), "{args}: nothing is created");
    }
}

#[test]
fn two_outputs_to_one_file_are_refused_before_anything_is_created() {
    let (lab, _) = kept();
    for args in [
        "--virtual @in.pcap @out.pcap @in.pcap @out.pcap",
        "--virtual @in.pcap @out.pcap --log @out.pcap",
        "--virtual @in.pcap @out.up --mahimahi-log @out",
    ] {
        let output = lab.run(args);
        assert_eq!(output.status, 2, "{args}: {}", output.stderr);
        assert!(
            output.stderr.contains("two outputs would be written to"),
            "{args}: {}",
            output.stderr
        );
        assert!(!lab.path("out.pcap").exists() && !lab.path("out.up").exists(), "{args}");
    }
}

#[test]
fn what_was_written_before_stays_when_the_input_is_no_capture() {
    let (lab, good) = kept();
    lab.write("out.pcap", &good);
    for bad in [&b"no capture at all, but long enough"[..], &good[..good.len() - 1]] {
        lab.write("in.pcap", bad);
        assert_eq!(lab.run("--virtual @in.pcap @out.pcap").status, 2);
        assert!(lab.bytes("out.pcap") == good);
    }
}

#[test]
fn a_configuration_that_never_ends_or_is_no_text_is_refused() {
    let (lab, _) = kept();
    lab.write("link.toml", b"name = \"\xff\"\n");
    for (config, why) in
        [("/dev/zero", "a configuration has at most 16 MiB"), ("@link.toml", "byte 8 is not UTF-8")]
    {
        let output = lab.run(&format!("--virtual @in.pcap @out.pcap --config {config}"));
        assert_eq!(output.status, 2, "{config}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{config}: {}", output.stderr);
    }
}

/// Returns the exit status and the message for a bad input.
fn refusal(bytes: &[u8]) -> (u8, String) {
    let lab = Lab::new();
    lab.write("in.pcap", bytes);
    let output = lab.run(ARGS);
    (output.status, output.stderr)
}

#[test]
fn a_damaged_capture_is_refused_with_file_and_offset() {
    let good = capture((0..10).map(|i| (i * MS, 60)));
    let record = 16 + super::KEPT;
    let mut absurd = good.clone();
    absurd[24 + record + 8..][..4].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let mut longer = good.clone();
    longer[24 + 8..][..8].copy_from_slice(&[70, 0, 0, 0, 60, 0, 0, 0]);
    let mut endless = good.clone();
    endless[24 + 12..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    for (bytes, offset, why) in [
        (&good[..good.len() - 1], 24 + 9 * record, "cut in a frame"),
        (&good[..24 + record + 7], 24 + record, "cut in a record's head"),
        (&absurd[..], 24 + record, "captured length beyond reason"),
        (&longer[..], 24, "more captured than there was"),
        (&endless[..], 24, "a frame of four gigabytes"),
        (&good[..20], 0, "cut in the file's head"),
        (b"", 0, "empty"),
        (b"hello, this is a text", 0, "a text"),
    ] {
        let (status, talk) = refusal(bytes);
        assert_eq!(status, 2, "{why}: {talk}");
        assert!(talk.contains(&format!("byte {offset}")), "{why}: {talk}");
        assert!(talk.contains("in.pcap"), "{why}: {talk}");
    }
}

#[test]
fn frames_of_another_kind_are_refused() {
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::LINUX_SLL, 0);
    writer.packet(&mut bytes, EPOCH, 60, &[0; 24]).unwrap();
    let (status, talk) = refusal(&bytes);
    assert_eq!(status, 2);
    assert!(talk.contains("link type 113"), "{talk}");
}

#[test]
fn a_missing_input_is_an_error_and_no_output_is_made() {
    let lab = Lab::new();
    assert_eq!(lab.run(ARGS).status, 2);
    assert!(!lab.path("out.pcap").exists());
}

#[test]
fn a_capture_without_frames_gives_one_without_frames() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([]));
    assert_eq!(lab.run(ARGS).status, 0);
    assert_eq!(lab.frames("out.pcap"), []);
}

#[test]
fn what_is_no_frame_is_counted_as_malformed() {
    let lab = Lab::new();
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    writer.packet(&mut bytes, EPOCH, 13, &[0; 13]).unwrap();
    writer.packet(&mut bytes, EPOCH + 1, 60, &data(1, 60)).unwrap();
    lab.write("in.pcap", &bytes);
    let report = lab.emulate("-D 1ms");
    assert_eq!(times(&lab.frames("out.pcap")), [MS + 1]);
    assert_eq!(report["ports"][0]["rx"]["packets"], 2);
    assert_eq!(report["ports"][0]["drops"]["malformed"], 1);
}

#[test]
fn short_frames_pass_and_are_counted() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([(0, 24), (1, 59), (2, 60)]));
    lab.emulate("-D 1ms");
    assert_eq!(lab.frames("out.pcap").len(), 3);
}

#[test]
fn snapped_frames_count_in_full_and_are_written_as_far_as_known() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([(0, 1250)]));
    lab.emulate("-B 10m");
    let out = lab.bytes("out.pcap");
    let packet = slipring_pcap::PcapFileReader::new(&out).next().unwrap().unwrap();
    assert_eq!((packet.orig_len, packet.data), (1250, &data(0, 1250)[..]));
    assert_eq!(packet.ts_ns, EPOCH + MS);
}

#[test]
fn frames_longer_than_a_chunk_pass() {
    let lab = Lab::new();
    let mut bytes = Vec::new();
    let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
    let long: Vec<u8> = (0..262_144u32).map(|i| (i * 7) as u8).collect();
    for i in 0..9 {
        writer.packet(&mut bytes, EPOCH + i, long.len() as u32, &long).unwrap();
    }
    lab.write("in.pcap", &bytes);
    lab.emulate("-D 1ms");
    let out = lab.bytes("out.pcap");
    let packets: Vec<_> = slipring_pcap::PcapFileReader::new(&out).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 9);
    assert!(packets.iter().all(|packet| packet.data == long));
}

#[test]
fn a_full_disk_is_an_error() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..100_000).map(|i| (i, 60))));
    let output = lab.run("--virtual @in.pcap /dev/full -D 1ms");
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("cannot write `/dev/full`"), "{}", output.stderr);
}
