//! Tests of bad input and failures. Most tests compare the exit status and the texts with a
//! transcript.
//!
//! `SLIPRING_BLESS=1` rewrites the transcripts; read the diff before you commit it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_test_support::{
    FinishedProgram, Lab, LabPort, Namespace, Program, golden, installed, skip,
};

use crate::support::bridge::{Bridge, Report};
use crate::support::{SLIPRING, build_bench_program, copy_to};

/// Command lines with their errors and exit statuses.
struct Transcript {
    name: &'static str,
    text: String,
    /// Texts that differ from run to run, each with the text that replaces it.
    volatile: Vec<(String, &'static str)>,
}

impl Transcript {
    fn new(name: &'static str) -> Self {
        Self { name, text: String::new(), volatile: Vec::new() }
    }

    /// Runs `slipring` with these arguments.
    fn run(&mut self, namespace: &Namespace, words: &str) {
        let words: Vec<_> = words.split_ascii_whitespace().collect();
        let ended = Program::start_with(namespace, SLIPRING, &words).finish();
        self.record(&words.join(" "), &ended);
    }

    fn record(&mut self, words: &str, ended: &FinishedProgram) {
        let errors = ended.stderr.lines().filter(|line| !is_talk(line));
        let errors: String = errors.map(|line| format!("{line}\n")).collect();
        write!(self.text, "$ slipring {words}\n{errors}exit {}\n\n", ended.code()).unwrap();
    }

    fn check(mut self) {
        for (what, stands_for) in &self.volatile {
            self.text = self.text.replace(what, stands_for);
        }
        for usage in self.text.split("\n\n").filter(|run| run.ends_with("exit 2")) {
            let message = usage.contains("cause") && usage.contains("help");
            assert!(message, "a wrong command is told why and what to try:\n{usage}");
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/golden").join(self.name);
        golden::check(path, &self.text);
    }
}

/// Returns whether the line is not part of an error: a message of the bridge, or the notice that a
/// program takes an interface.
fn is_talk(line: &str) -> bool {
    let notice = line.contains(" takes the interface from its host ");
    line.starts_with("zerocopy ") || line == "Ready to go" || notice
}

#[test]
fn wrong_names_flags_and_values_exit_2_and_say_where() {
    let Some(namespace) = Namespace::new() else { return };
    build_bench_program();
    let mut transcript = Transcript::new("usage.txt");
    for words in [
        "brigde -i null: -i null:",
        "bridge",
        "bridge -i null:",
        "bridge -i null: -i null: -i null:",
        "bridge -L -i null: -i null:",
        "bridge -i xdp:eth0/q -i null:",
        "bridge -i xdp:eth0- -i null:",
        "bridge -i xdp:eth0-99999 -i null:",
        "bridge -i netmap:eth0@conf:slots= -i null:",
        "bridge -i netmap:eth0@conf:bogus=1 -i null:",
        "bridge -i xdp: -i null:",
        "bridge -i a{ -i null:",
        "bridge -i nosuchkind:eth0 -i null:",
        "bridge -i tap:a-name-that-is-too-long -i null:",
        "bridge -i null: -i null: --bogus",
        "bridge -i null: -i null: --busrt 3",
        "bridge -i null: -i null: -b 0",
        "bridge -i null: -i null: -b 99999999999999999999",
        "bridge -i null: -i null: -p 0",
        "bridge -i null: -i null: -T 5parsec",
        "bridge -i null: -i null: -t -1",
        "bridge -i null: -i null: -t -1.5s",
        "bridge -i null: -i null: --duration=-1",
        "bridge -i null: -i null: -b -64",
        "bridge -i null: -i null: -T 1us",
        "bridge -i null:@conf:slots=1 -i null:",
        "bridge -i null:@conf:rings=4096 -i null:",
        "bridge -i null: -i null: -t 99999999999999h",
        "bridge -i null: -i null: --slots 63",
        "bridge -i null: -i null: --slots 65537",
        "bridge -i null: -i null: --buf-size 1000",
        "bridge -i null: -i null: --mode fast",
        "bridge -i null: -i null: --fault-loss 101%",
        "bridge -i null: -i null: --fault-loss lots",
        "bridge -i null: -i null: --spin --sleep",
        "bridge -i null: -i null: --json=xml",
        "bridge -i null: -i null: --config /no/such/file",
        "bridge -i null: -i null: --capture /no/such/directory/x.pcap",
        "bridge -i",
        "gen -i null: -f jump",
        "gen -f tx",
        "gen -i null: -f tx -n 1 -R 10Gbot",
        "gen -i null: -f tx -n 1 -l 0",
        "gen -i null: -f tx -n 1 -l 99999999",
        "gen -i null: -f tx -n 1 -d 10.0.0.256",
        "gen -i null: -f tx -n 1 -D 00:11:22",
        "gen -i null: -f tx -n 1 --vlan 4096",
        "gen -i null: -f tx -n many",
        "gen -i null: -f tx -n -5",
        "gen -i null: -f tx -R -1Mpps",
        "gen -i null: -f tx -l -60",
        "gen -i null: -f tx -l 60 -l 70 -l 80",
        "gen -i null: -f tx -a -2",
        "gen -i null: -f tx -T 0.5",
        "gen -i null: -f tx -C 0",
        "gen -i null: -f tx -o 128",
        "gen -i null: -f tx -H 12",
        "gen -i tap:t0 -f tx -H 11",
        "gen -i null: -f tx -p 2",
        "gen -i null: -f txseq -l 44",
        "gen -i null: -f tx -4 -6",
        "gen -i null: -f tx -4 -d [fd00::9]:7",
        "gen -i null: -f tx -F 2 -M 64",
        "gen -i null: -f rx --sink null:",
        "gen -i pcap:x -f ping",
        "gen -i null: -f tx -n 1 -P /no/such.pcap",
        "gen -i null: -f tx -n 1 --max-loss 2",
        "explain SR9999",
        "p",
        "trace",
        "trace -i null: hots 10.0.0.1",
        "trace -i null: -c -5",
        "bench --seconds 0",
        "bench nosuchrow",
    ] {
        transcript.run(&namespace, words);
    }
    transcript.check();
}

/// Creates files that are not valid captures of Ethernet frames, and returns their paths.
fn bad_files(dir: &Path) -> Vec<PathBuf> {
    let whole = {
        let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0]);
        bytes.extend([0; 8]);
        bytes.extend(65_535_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        for word in [1_u32, 0, 60, 60] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0x55; 60]);
        bytes
    };
    let mut absurd = whole.clone();
    absurd[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut other_link = whole.clone();
    other_link[20] = 113;
    let files: [(&str, &[u8]); 7] = [
        ("empty.pcap", b""),
        ("text.pcap", b"hello, this is no capture at all"),
        ("header-cut.pcap", &whole[..10]),
        ("record-cut.pcap", &whole[..whole.len() - 1]),
        ("absurd-length.pcap", &absurd),
        ("not-ethernet.pcap", &other_link),
        ("gzip.pcap", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]),
    ];
    let write = |(name, bytes): (&str, &[u8])| {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    files.map(write).into()
}

#[test]
fn files_that_are_no_captures_exit_2_and_say_why() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut transcript = Transcript::new("files.txt");
    transcript.volatile.push((dir.path().display().to_string(), "DIR"));
    for path in bad_files(dir.path()) {
        let path = path.display();
        transcript.run(&namespace, &format!("bridge -i pcap:{path} -i null:"));
        transcript.run(&namespace, &format!("gen -i null: -f tx -P {path}"));
    }
    transcript.run(&namespace, &format!("bridge -i pcap:{} -i null:", dir.path().display()));
    let read = format!("pcap:{}", dir.path().join("read.pcap").display());
    transcript.run(&namespace, &format!("gen -i {read} -f tx -n 1"));
    transcript.run(&namespace, &format!("bridge -i {read} -i {read}"));
    transcript.run(&namespace, &format!("bridge -L -i {read}"));
    transcript.run(&namespace, &format!("bridge -i null: -i {read}"));
    transcript.run(&namespace, &format!("dedup -i null: -i {read}"));
    transcript.check();
}

#[test]
fn what_cannot_be_done_here_says_what_to_do_and_mostly_exits_3() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let mid = &lab.mid;
    mid.ip("link add down0 type veth peer name down1");
    mid.veth("jumbo0", &lab.left, "jumbo1", "mtu 65000");
    let mut transcript = Transcript::new("machine.txt");
    for kind in ["netmap", "xdp", "packet"] {
        transcript.run(mid, &format!("bridge -i {kind}:none0 -i null:"));
        transcript.run(mid, &format!("bridge -i {kind}:down0 -i null: --exit-on-link-down"));
        transcript.run(mid, &format!("bridge -i {kind}:la-7 -i null:"));
    }
    for words in [
        "bridge -i tap:la -i null:",
        "bridge -i tap:lo -i null:",
        "bridge -i xdp:jumbo0 -i null:",
        "bridge -i xdp:jumbo0 -i null: --mode generic",
        "bridge -i netmap:jumbo0 -i null: --mode native",
        "bridge -i xdp:la -i null: --mode zerocopy",
        "bridge -i xdp:lo -i null:",
        "bridge -i kernel:vale0:a@/nowhere/netmap -i null:",
        "bridge -i a{1 -i a{1",
        "bridge -i null:^ -i null:",
    ] {
        transcript.run(mid, words);
    }
    mid.ip("addr add 10.9.0.9/24 dev la");
    mid.ip("route add default via 10.9.0.1");
    for kind in ["netmap", "xdp", "packet"] {
        transcript.run(mid, &format!("bridge -i {kind}:la -i null:"));
    }
    transcript.check();
}

/// The tests must not use a daemon that runs on the machine. The programs of the test above once
/// opened pipes of that daemon instead of pipes of their own.
#[test]
fn tests_pass_beside_a_daemon_in_the_machines_run_directory() {
    let Some(namespace) = Namespace::new() else { return };
    if !Path::new("/dev/fuse").exists() {
        return skip!("there is no /dev/fuse");
    }
    namespace.run(|| slipring_core::netns::become_private_mounts().unwrap());
    namespace.command("mount", "-t tmpfs none /run");
    let daemon = "daemon --link none --run-dir /run/slipring";
    let daemon = Program::start(&namespace, SLIPRING, daemon);
    daemon.wait_for_text("transport=fuse");
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.arg("what_cannot_be_done_here").env_remove("SLIPRING_RUN");
    let ended = Program::launch(&namespace, tests).finish().well();
    assert!(ended.stdout.contains("1 passed"), "{ended:?}");
    daemon.stop(rustix::process::Signal::TERM).well();
}

#[test]
fn a_busy_queue_exits_3_and_names_its_holder() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    let bridge = Bridge::between(&lab, "");
    let mut transcript = Transcript::new("busy.txt");
    transcript.volatile.push((format!("({})", bridge.program().pid()), "(PID)"));
    for words in [
        "bridge -i xdp:la -i null:",
        "bridge -i xdp:la-0 -i null:",
        "gen -i xdp:ra -f tx",
        "bridge -i netmap:la -i null:",
    ] {
        transcript.run(&lab.mid, words);
    }
    transcript.check();
    bridge.stop();
}

#[test]
fn an_ordinary_user_is_told_which_capability_is_missing() {
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    if !installed("setpriv") {
        return;
    }
    let dir = tempfile::Builder::new().permissions(open_to_all()).tempdir().unwrap();
    let program = copy_to(dir.path());
    let program = program.to_str().unwrap();
    let mut transcript = Transcript::new("privilege.txt");
    for words in [
        "bridge -i xdp:la -i null:",
        "bridge -i packet:la -i null:",
        "bridge -i netmap:la -i null:",
        "bridge -i netmap:la",
        "bridge -i tap:new0 -i null:",
    ] {
        let drop =
            ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", program];
        let args: Vec<_> = drop.into_iter().chain(words.split_ascii_whitespace()).collect();
        let ended = Program::start_with(&lab.mid, "setpriv", &args).finish();
        transcript.record(words, &ended);
    }
    transcript.check();
}

fn open_to_all() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// Causes the loss of a port of this kind with `ip LOSS`, and records how the bridge ends. It must
/// print a report before it ends.
fn lost(port: LabPort, words: &str, loss: &str, transcript: &mut Transcript) {
    let Some(lab) = Lab::quiet(port) else { return };
    let bridge = Bridge::between(&lab, words);
    let namespace = if port == LabPort::Tap { &lab.left } else { &lab.mid };
    namespace.ip(loss);
    let ended = bridge.finish();
    assert_eq!(Report::last(&ended).0["event"], "end", "{ended:?}");
    transcript.text += &format!("# {port:?}: ip {loss}\n");
    transcript.record(&format!("bridge {words}..."), &ended);
}

#[test]
fn a_port_that_vanishes_in_use_ends_with_a_summary_a_cause_and_4() {
    let mut transcript = Transcript::new("lost.txt");
    if Namespace::new().is_none() {
        return;
    }
    for port in [LabPort::Native, LabPort::Generic, LabPort::Packet, LabPort::Best] {
        lost(port, "", "link del la", &mut transcript);
        lost(port, "--exit-on-link-down ", "link set la down", &mut transcript);
    }
    lost(LabPort::Tap, "", "link del e0", &mut transcript);
    transcript.check();
}

#[test]
fn a_generator_whose_port_vanishes_ends_with_a_summary_and_4() {
    for port in [LabPort::Native, LabPort::Packet] {
        let Some(lab) = Lab::quiet(port) else { return };
        let words = format!("gen -i {}:la -f tx -R 1000 -T 10 --json=lines", port.prefix());
        let generator = Program::start(&lab.mid, SLIPRING, &words);
        generator.wait_for("an interval", |output| {
            (output.stdout.matches('\n').count() > 1).then_some(())
        });
        lab.mid.ip("link del la");
        let ended = generator.finish();
        assert_eq!(
            (ended.code(), &Report::last(&ended).0["event"]),
            (4, &"end".into()),
            "{ended:?}"
        );
        assert!(ended.stderr.contains("SR0401"), "{ended:?}");
    }
}

#[test]
fn errors_are_one_json_object_where_json_was_asked_for() {
    let Some(namespace) = Namespace::new() else { return };
    let ended =
        Program::start(&namespace, SLIPRING, "bridge --json -i xdp:none0 -i null:").finish();
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((ended.code(), ended.stdout.as_str()), (3, ""));
    assert!(error.to_string().contains("SR0102"), "{error}");
}
