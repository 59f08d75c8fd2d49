//! Compares this crate's compiler with that of libpcap. For each expression, both programs must
//! accept the same frames. libpcap's programs come from `tcpdump -ddd` and run in our interpreter.

#![allow(clippy::unwrap_used)]

mod expressions;
mod frames;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use slipring_filter::{CbpfInsn, CbpfProgram, Filter};

use expressions::{ACCEPTED, CHECKED_RIGHT_OPERANDS, FAULTING, REFUSED, REFUSED_BY_US};

/// Returns the program that libpcap compiles; `None` if libpcap rejects the expression.
fn libpcap(expression: &str, flags: &[&str]) -> Option<CbpfProgram> {
    decimal(expression, flags).map(|text| decimal_program(&text))
}

/// Returns the output of `tcpdump -ddd`; `None` if tcpdump rejects the expression.
fn decimal(expression: &str, flags: &[&str]) -> Option<String> {
    printed(expression, flags, "-ddd")
}

fn printed(expression: &str, flags: &[&str], form: &str) -> Option<String> {
    let output = Command::new("tcpdump")
        .args(flags)
        .args(["-y", "EN10MB", form, "--", expression])
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Reads a line with a number of instructions, and then a line `code jt jf k` for each.
fn decimal_program(text: &str) -> CbpfProgram {
    let mut lines = text.lines();
    let count: usize = lines.next().unwrap().trim().parse().unwrap();
    let insns: Vec<CbpfInsn> = lines.map(decimal_insn).collect();
    assert_eq!(insns.len(), count);
    CbpfProgram::from_raw(insns).unwrap()
}

fn decimal_insn(line: &str) -> CbpfInsn {
    let fields: Vec<u32> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    let [code, jt, jf, k] = fields[..] else { panic!("{line}") };
    CbpfInsn { code: code as u16, jt: jt as u8, jf: jf as u8, k }
}

static HAS_TCPDUMP: LazyLock<bool> = LazyLock::new(|| {
    let found = Command::new("tcpdump").arg("--version").output().is_ok();
    if !found {
        slipring_test_support::skip!("tcpdump is not installed");
    }
    found
});

fn samples<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| samples(frames::frame(), 4000));
static SHORT: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| samples(frames::short_frame(), 2000));

/// Compares the verdicts on all frames. Returns `true` if at least one frame was accepted and at
/// least one rejected.
///
/// libpcap's optimizer removes loads of values that are not needed. So on short frames, libpcap's
/// program may differ before and after optimization. In that case, our program must have the same
/// verdict as one of the two.
fn compare(expression: &str) -> bool {
    let plain = compare_plain(expression, expression);
    // With its optimizer, libpcap also rejects expressions that match no frame. Then the
    // unoptimized program takes the place of the optimized one.
    let optimized = libpcap(expression, &[]).unwrap_or_else(|| plain.clone());
    let ours = slipring_filter::compile(expression).unwrap();
    let mut accepted = 0;
    for frame in FRAMES.iter() {
        let len = frame.len() as u32;
        let verdict = ours.run(frame, len);
        assert_eq!(verdict, optimized.run(frame, len), "`{expression}` on {frame:02x?}");
        accepted += usize::from(verdict != 0);
    }
    for frame in SHORT.iter() {
        let verdict = ours.run(frame, 160);
        let theirs = [plain.run(frame, 160), optimized.run(frame, 160)];
        assert!(theirs.contains(&verdict), "`{expression}` on the short {frame:02x?}");
    }
    0 < accepted && accepted < FRAMES.len()
}

/// Compares the verdicts on complete frames with those of libpcap's unoptimized program for the
/// expression `theirs`. Returns that program.
fn compare_plain(expression: &str, theirs: &str) -> CbpfProgram {
    let ours = slipring_filter::compile(expression)
        .unwrap_or_else(|error| panic!("`{expression}`: {error}"));
    let plain = libpcap(theirs, &["-O"]).unwrap_or_else(|| panic!("libpcap: `{theirs}`"));
    for frame in FRAMES.iter() {
        let len = frame.len() as u32;
        assert_eq!(ours.run(frame, len), plain.run(frame, len), "`{expression}` on {frame:02x?}");
    }
    plain
}

#[test]
fn instructions_read_as_tcpdump_prints_them() {
    if !*HAS_TCPDUMP {
        return;
    }
    for expression in ACCEPTED {
        let theirs = printed(expression, &[], "-d").unwrap_or_default();
        let program = decimal(expression, &[]).map(|text| decimal_program(&text));
        let insns = program.iter().flat_map(|program| program.insns()).enumerate();
        let ours: String = insns.map(|(at, insn)| format!("{}\n", insn.mnemonic(at))).collect();
        assert_eq!(ours, theirs, "`{expression}`");
    }
}

#[test]
fn accepts_the_frames_that_libpcap_accepts() {
    if !*HAS_TCPDUMP {
        return;
    }
    let telling = ACCEPTED.iter().filter(|expression| compare(expression)).count();
    // The frames are a useful test only if most expressions accept some of them and reject others.
    assert!(telling * 10 > ACCEPTED.len() * 8, "{telling} of {}", ACCEPTED.len());
}

#[test]
fn accepts_the_frames_that_tcpdump_itself_picks() {
    if !*HAS_TCPDUMP {
        return;
    }
    let capture = capture_of(&FRAMES);
    for expression in ACCEPTED.iter().step_by(3) {
        let program = slipring_filter::compile(expression).unwrap();
        let accepted = |frame: &Vec<u8>| program.run(frame, frame.len() as u32) != 0;
        let ours: Vec<_> = (0..FRAMES.len()).filter(|&i| accepted(&FRAMES[i])).collect();
        assert_eq!(ours, picked_by_tcpdump(&capture, expression), "`{expression}`");
    }
}

/// Returns a little-endian pcap file. The timestamp of each frame is its index.
fn capture_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x4_0000, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (i, frame) in frames.iter().enumerate() {
        let record = [i as u32, 0, frame.len() as u32, frame.len() as u32];
        file.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(frame);
    }
    file
}

/// Makes tcpdump filter a capture with an expression. Returns the numbers of the accepted frames.
fn picked_by_tcpdump(capture: &[u8], expression: &str) -> Vec<usize> {
    let mut child = Command::new("tcpdump")
        .args(["-r", "-", "-w", "-", "--", expression])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // The write may fail: if no frame can match, tcpdump exits before it has read all input.
        scope.spawn(move || drop(stdin.write_all(capture)));
        child.wait_with_output().unwrap()
    });
    numbers_in(&output.stdout)
}

/// Returns the timestamps in a pcap file, which are the numbers of its frames.
fn numbers_in(file: &[u8]) -> Vec<usize> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut numbers) = (24, Vec::new());
    while at < file.len() {
        numbers.push(word(at));
        at += 16 + word(at + 8);
    }
    numbers
}

#[test]
fn refuses_frames_on_faults_as_libpcap_does() {
    if !*HAS_TCPDUMP {
        return;
    }
    for expression in FAULTING {
        compare_plain(expression, expression);
    }
}

#[test]
fn checks_for_every_header_that_is_indexed() {
    if !*HAS_TCPDUMP {
        return;
    }
    for (expression, checked) in CHECKED_RIGHT_OPERANDS {
        compare_plain(expression, checked);
    }
}

#[test]
fn refuses_what_libpcap_refuses() {
    if !*HAS_TCPDUMP {
        return;
    }
    for expression in REFUSED {
        assert!(decimal(expression, &["-O"]).is_none(), "libpcap accepts `{expression}`");
        assert!(Filter::parse(expression).is_err(), "we accept `{expression}`");
    }
}

#[test]
fn refuses_by_name_what_libpcap_has_beyond_us() {
    for expression in REFUSED_BY_US {
        let error = Filter::parse(expression).unwrap_err();
        assert!(
            matches!(error, slipring_filter::FilterError::Refused { .. }),
            "`{expression}`: {error}"
        );
        if *HAS_TCPDUMP {
            assert!(decimal(expression, &["-O"]).is_some(), "libpcap refuses `{expression}`");
        }
    }
}

/// Generates random combinations of the expressions in the table.
fn joined() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(ACCEPTED[1..].to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} and {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} or {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and not ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn joined_expressions_mean_what_libpcap_means(expression in joined()) {
        if !*HAS_TCPDUMP {
            return Ok(());
        }
        let theirs = libpcap(&expression, &["-O"]).is_some();
        // A random combination may be invalid, for example with `vlan` after `mpls`. If so, both
        // compilers must reject it.
        prop_assert_eq!(Filter::parse(&expression).is_ok(), theirs, "`{}`", expression);
        if theirs {
            compare(&expression);
        }
    }
}
