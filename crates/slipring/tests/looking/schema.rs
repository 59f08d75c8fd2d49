//! The output of commands with `--json` and `--json=lines` matches `docs/schema/report-1.json`,
//! which lists every key: a new key is an error until it is added there.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_port::capture::FileWriter;
use slipring_test_support::{Ended, Namespace, Program, eventually, schema, skip};

use super::{commands, help_of, listed_commands, with_links};
use crate::support::{SLIPRING, build_bench_program};

/// Command lines that end by themselves and need nothing, with @ for a capture of three frames and
/// @@ for its path.
const ALONE: [&str; 34] = [
    "gen -i null: -f tx -n 10",
    "bridge -i @ -i null:",
    "dedup -i @ -i null:",
    "lb -i @ -p null: -t 1",
    "replay -f @@ -i null:",
    "run -D 1ms -- true",
    "emulate --virtual @@ @@.out.pcap -D 1ms",
    "emulate -D 1ms --explain",
    "emulate -D 1ms --print-config",
    "emulate -D 1ms --no-such-flag",
    "emulate ctl stats",
    "dump -r @@ -n",
    "dump -r @@ -n -x",
    "dump -r @@ -w @@.copy.pcap",
    "dump -D",
    "dump -L",
    "dump -d icmp",
    "trace -i @ -n 2",
    "trace -i @ -x",
    "ports",
    "doctor",
    "doctor here",
    "doctor pcap:/no/such/file",
    "explain SR0104",
    "explain",
    "firewall --bench null --no-such-flag",
    "firewall --bench=10x64 -t 0.1",
    "daemon ctl hello",
    "vale --device /no/such/device",
    "vale --show",
    "top",
    "serve --listen 1.2.3.4:1",
    "extcap --no-such-flag",
    "bench no-such-row",
];

/// Requests to a running emulator.
const EMULATOR: [&str; 13] = [
    "emulate ctl hello",
    "emulate ctl get",
    "emulate ctl get link",
    "emulate ctl set up.delay=2ms",
    "emulate ctl set up.delay=never",
    "emulate ctl script @@.toml",
    "emulate ctl stats",
    "emulate ctl explain",
    "emulate ctl stop-script",
    "emulate ctl undo",
    "emulate ctl history",
    "top lab --once -T 10ms",
    "emulate ctl quit",
];

/// Requests to a running firewall, and commands checked without one.
const FIREWALL: [&str; 44] = [
    "ipfw -n add 100 allow ip from any to any",
    "ipfw -n add 100 no such action",
    "ipfw add 100 count log ip from any to any // counted",
    "ipfw add 200 skipto 300 tag 7 udp from any to any 53 keep-state",
    "ipfw add 300 pipe 1 ip from any to any",
    "ipfw list",
    "ipfw show",
    "ipfw -a -t -d list",
    "ipfw list 100-200",
    "ipfw set show",
    "ipfw set disable 5",
    "ipfw set 5 list",
    "ipfw table t create type addr",
    "ipfw table t add 10.0.0.0/8 1",
    "ipfw table t list",
    "ipfw table t info",
    "ipfw table t lookup 10.0.0.1",
    "ipfw table all list",
    "ipfw pipe 1 config bw 1Mbit/s delay 5ms",
    "ipfw pipe show",
    "ipfw queue 1 config pipe 1 weight 3",
    "ipfw queue show",
    "ipfw sched 1 config type fq_codel",
    "ipfw sched show",
    "ipfw nat 1 config ip 192.0.2.1",
    "ipfw nat 1 show config",
    "ipfw nat 1 show stats",
    "ipfw nptv6 N create int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 48",
    "ipfw nptv6 all list",
    "ipfw nptv6 N stats",
    "ipfw enable verbose",
    "ipfw disable verbose",
    "ipfw sysctl -a",
    "ipfw sysctl net.inet.ip.fw.one_pass",
    "ipfw explain udp 10.0.0.1:1024 10.1.0.1:53",
    "ipfw metrics",
    "ipfw save",
    "ipfw zero",
    "ipfw resetlog",
    "ipfw delete 100",
    "ipfw delete 100",
    "dnctl pipe show",
    "ipfw -f flush",
    "ipfw monitor",
];

/// Requests to a running daemon.
const DAEMON: [&str; 20] = [
    "daemon ctl hello",
    "daemon ctl params",
    "daemon ctl params buf_num",
    "daemon ctl params no_such=1",
    "daemon ctl ports",
    "daemon ctl memory",
    "daemon ctl reload",
    "vale -n p0 --device @d/netmap",
    "vale -a vale0:p0 --device @d/netmap",
    "vale --device @d/netmap",
    "vale -l vale0:p0 --device @d/netmap",
    "vale -g p0 --device @d/netmap",
    "vale --show",
    "vale --show vale0",
    "vale --set vale0 ageing=10s",
    "vale --set vale0:p0 isolated=on",
    "vale --flush vale0",
    "vale -d vale0:p0 --device @d/netmap",
    "vale -r p0 --device @d/netmap",
    "vale -r nothing --device @d/netmap",
];

/// Commands whose cases are elsewhere: they are checked while they run, or print no report.
const ELSEWHERE: [(&str, &str); 5] = [
    ("emulate ctl watch", "looks_that_come_again_and_again_match_the_schema"),
    ("daemon", "what_a_daemon_answers_matches_the_schema"),
    ("demo", "demo.rs reads its document, which takes seconds to make"),
    ("completions", "prints a script, and has no --json"),
    ("daemon ctl help", "prints a help text"),
];

/// Writes three frames without content.
pub(super) fn write_capture(path: &str) {
    let mut writer = FileWriter::create(path, &["test"]).unwrap();
    (0..3).for_each(|at| writer.packet(0, at, &[0x5a; 60], None).unwrap());
}

/// A directory to run in, and the number of objects checked.
struct Site {
    namespace: Namespace,
    dir: tempfile::TempDir,
    schema: Value,
}

impl Site {
    fn new() -> Option<Self> {
        let (namespace, dir) = (with_links()?, tempfile::tempdir().unwrap());
        let site = Self { namespace, dir, schema: schema::schema() };
        write_capture(&site.capture());
        let script = format!("{}.toml", site.capture());
        std::fs::write(script, "[[at]]\nt = \"10s\"\nset = { up.delay = \"3ms\" }\n").unwrap();
        Some(site)
    }

    fn capture(&self) -> String {
        self.dir.path().join("in.pcap").display().to_string()
    }

    fn run_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("run")
    }

    /// Starts a command line with `--json` or `--json=lines` after its command.
    fn start(&self, line: &str, form: &str) -> Program {
        let path = self.capture();
        let words = line.replace("@d", &self.run_dir().display().to_string());
        let words = words.replace("@@", &path).replace('@', &format!("pcap:{path}"));
        let (verb, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let mut command = Command::new(SLIPRING);
        command.arg(verb);
        // A command with subcommands has its flags after the innermost one.
        let rest: Vec<_> = rest.split_ascii_whitespace().collect();
        match rest.first() {
            Some(&"ctl") => command.args(&rest).args([form]),
            _ => command.args([form]).args(rest),
        };
        command.env("SLIPRING_RUN", self.run_dir());
        Program::launch(&self.namespace, command)
    }

    /// Checks every object of an output against the schema; returns their number.
    fn check(&self, line: &str, ended: &Ended) -> usize {
        let objects = ended.stdout.lines().chain(ended.stderr.lines());
        let objects = objects.filter(|text| text.starts_with('{'));
        let faults = objects.map(|object| {
            let value: Value = serde_json::from_str(object)
                .unwrap_or_else(|error| panic!("{line}: {error}: {object}"));
            let fault = schema::fault(&self.schema, &self.schema, &value);
            assert_eq!(fault, None, "{line}: {object}");
        });
        faults.count()
    }

    /// Runs these lines in both forms; each must write at least one object.
    fn all(&self, lines: &[&str]) {
        for line in lines {
            for form in ["--json", "--json=lines"] {
                let program = self.start(line, form);
                let ended = match line.ends_with("monitor") || line.ends_with("quit") {
                    true => program.stop(Signal::TERM),
                    false => program.finish(),
                };
                let written = self.check(line, &ended);
                let is_silent = line.ends_with("monitor") || line.ends_with("quit");
                assert!(written > 0 || is_silent, "{line} {form} wrote no object: {ended:#?}");
            }
        }
    }

    /// Starts a program that the lines query; `None` if it cannot run here.
    fn serve(&self, line: &str, socket: &str) -> Option<Program> {
        let program = self.start(line, "--json=lines");
        let socket = self.run_dir().join(socket);
        eventually(line, || {
            let failed = program.so_far().stderr.contains("\"event\":\"error\"");
            (failed || socket.exists()).then_some(())
        });
        if Path::exists(&socket) {
            return Some(program);
        }
        let ended = program.finish();
        assert!(self.check(line, &ended) > 0);
        skip!("{line}: {}", ended.stderr);
        None
    }
}

#[test]
fn what_every_command_writes_as_json_matches_the_schema() {
    build_bench_program();
    let Some(site) = Site::new() else { return };
    site.all(&ALONE);
}

#[test]
fn what_a_running_emulator_answers_matches_the_schema() {
    let Some(site) = Site::new() else { return };
    let line = "emulate -i packet:here -i null: --name lab -D 1ms -T 10ms";
    let Some(emulator) = site.serve(line, "lab.sock") else { return };
    site.all(&EMULATOR[..12]);
    let quit = site.start(EMULATOR[12], "--json").finish();
    site.check("quit", &quit);
    let ended = emulator.finish().well();
    assert!(site.check(line, &ended) > 2);
}

#[test]
fn looks_that_come_again_and_again_match_the_schema() {
    let Some(site) = Site::new() else { return };
    let line = "emulate -i packet:here -i null: --name lab -D 1ms";
    let Some(emulator) = site.serve(line, "lab.sock") else { return };
    for line in ["emulate ctl watch --period 50ms", "top lab -T 50ms"] {
        let program = site.start(line, "--json=lines");
        program.wait_for("two looks", |output| (output.stdout.lines().count() >= 2).then_some(()));
        let ended = program.stop(Signal::TERM);
        assert!(site.check(line, &ended) >= 2, "{ended:#?}");
    }
    let gateway = site.start("serve --listen 127.0.0.1:0", "--json");
    gateway.wait_for("its address", |output| output.stdout.contains("http://").then_some(()));
    assert_eq!(site.check("serve", &gateway.stop(Signal::TERM)), 1);
    emulator.stop(Signal::TERM).well();
}

#[test]
fn what_a_running_firewall_answers_matches_the_schema() {
    let Some(site) = Site::new() else { return };
    let line = "firewall packet:here null: --name edge -T 10ms";
    let Some(firewall) = site.serve(line, "edge.sock") else { return };
    site.all(&FIREWALL);
    let ended = firewall.stop(Signal::TERM).well();
    assert!(site.check(line, &ended) > 2);
}

#[test]
fn what_a_daemon_answers_matches_the_schema() {
    let Some(site) = Site::new() else { return };
    let line = "daemon --link off";
    let Some(daemon) = site.serve(line, "slipringd.sock") else { return };
    for form in ["--json", "--json=lines"] {
        for line in DAEMON {
            let ended = site.start(line, form).finish();
            let written = site.check(line, &ended);
            assert!(written > 0, "{line} {form} wrote no object: {ended:#?}");
        }
    }
    let ended = daemon.stop(Signal::TERM).well();
    assert_eq!(site.check(line, &ended), 1, "{ended:#?}");
}

/// Whether a case begins with these words, ignoring flags.
fn has_case(words: &str) -> bool {
    let all = ALONE.iter().chain(&EMULATOR).chain(&FIREWALL).chain(&DAEMON);
    let mut all = all.copied().chain(ELSEWHERE.iter().map(|(words, _)| *words));
    let words: Vec<_> = words.split(' ').collect();
    all.any(|line| {
        let line = line.split(' ').filter(|word| !word.starts_with('-'));
        line.zip(&words).filter(|(typed, wanted)| typed == *wanted).count() == words.len()
    })
}

#[test]
fn every_command_line_with_json_has_its_case() {
    let Some(site) = Site::new() else { return };
    let namespace = &site.namespace;
    for command in commands(namespace) {
        let help = help_of(namespace, &command);
        assert!(help.contains("--json") || command == "completions", "{command} has no --json");
        if !has_case(&command) {
            // One that needs nothing is tried by the first example of its help.
            let example = help.lines().find_map(|line| line.trim().strip_prefix("slipring "));
            site.all(&[example.unwrap_or_else(|| panic!("{command} has no case"))]);
        }
    }
    for group in ["emulate ctl", "daemon ctl"] {
        let words = listed_commands(&help_of(namespace, group));
        assert!(words.len() > 4, "{group}: {words:?}");
        for word in words {
            assert!(has_case(&format!("{group} {word}")), "{group} {word} has no case");
        }
    }
}

/// Returns the first words in a listing of ipfw's commands: `pipe|queue|sched N config ...` has
/// three.
fn words_of_ipfw(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let columns = lines.flat_map(|line| line.split("   "));
    let first = columns.filter_map(|column| column.split_whitespace().next());
    let words = first.flat_map(|first| first.split('|')).map(str::to_owned);
    words.filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric())).collect()
}

#[test]
fn every_word_of_ipfw_has_its_case() {
    let Some(namespace) = with_links() else { return };
    let words = words_of_ipfw(&help_of(&namespace, "ipfw"));
    assert!(words.len() > 15, "{words:?}");
    let asked = |word: &String| {
        let mut lines = FIREWALL.iter().map(|line| line.split(' '));
        lines.any(|mut line| line.any(|typed| typed == word))
    };
    let missing: Vec<_> = words.iter().filter(|word| !asked(word)).collect();
    assert!(missing.is_empty(), "without a case: {missing:?}");
}

#[test]
fn json_behind_the_command_of_ipfw_is_json() {
    let Some(namespace) = with_links() else { return };
    let line = "ipfw -n add 100 allow ip from any to any --json";
    let ended = Program::start(&namespace, SLIPRING, line).finish().well();
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(value["answer"].is_array(), "{value}");
}
