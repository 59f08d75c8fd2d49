//! Tests that the output of commands with `--json` and `--json=lines` matches the schemas in
//! `docs/schema`. The schema of a command lists every key, so a new key is an error until it is
//! added there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_port::capture::FileWriter;
use slipring_test_support::{
    FinishedProgram, Namespace, Program, accepts, eventually, oracle, skip,
};

use super::{commands, help_of, listed_commands, with_links};
use crate::support::{SLIPRING, build_bench_program};

/// Command lines that end by themselves, and that need neither privileges nor other running
/// programs. `@@` stands for the path of a capture with three frames, and `@` for `pcap:` and that
/// path.
const ALONE: [&str; 47] = [
    "gen -i null: -f tx -n 10",
    "gen -i pcap:@@.gen.pcap -f tx -n 10",
    "gen -i pcap:@@.gen.pcap -f rx",
    "bridge -i @ -i null:",
    "dedup -i @ -i null:",
    "lb -i @ --outputs null:",
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
    "doctor null:^",
    "explain SR0104",
    "explain",
    "firewall --bench null --no-such-flag",
    "firewall --bench=10x64 -t 0.1",
    "daemon ctl hello",
    "nic list",
    "nic doctor here",
    "nic bind here --dry-run",
    "nic confirm here",
    "nic set here",
    "nic restore --all",
    "nic report here",
    "vale --device /no/such/device",
    "vale --show",
    "top",
    "serve --listen 1.2.3.4:1",
    "extcap --no-such-flag",
    "bench no-such-row",
    "bench --list memory-",
    "bench pipe-2p-swap-64-32 --runs 1 --seconds 20ms",
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

/// Requests on control sockets; the last one of each list is invalid.
const EMULATOR_REQUESTS: [&str; 9] = [
    r#"{"id":1,"do":"hello"}"#,
    r#"{"id":2,"do":"config"}"#,
    r#"{"id":3,"do":"set","changes":{"up.delay":"2ms"}}"#,
    r#"{"id":4,"do":"script","text":"[[at]]\nt = \"9s\"\nset = { \"up.delay\" = \"3ms\" }\n"}"#,
    r#"{"id":5,"do":"stats","text":true}"#,
    r#"{"id":6,"do":"explain"}"#,
    r#"{"id":7,"do":"stop-script"}"#,
    r#"{"id":8,"do":"history"}"#,
    r#"{"id":9,"do":"nonsense"}"#,
];
const FIREWALL_REQUESTS: [&str; 8] = [
    r#"{"id":1,"do":"hello"}"#,
    r#"{"id":2,"do":"ipfw","text":"show","json":true}"#,
    r#"{"id":3,"do":"ipfw","text":"no such command"}"#,
    r#"{"id":4,"do":"events"}"#,
    r#"{"id":5,"do":"metrics"}"#,
    r#"{"id":6,"do":"save"}"#,
    r#"{"id":7,"do":"explain","frames":["nonsense"],"out":false}"#,
    r#"{"id":8"#,
];
const DAEMON_REQUESTS: [&str; 7] = [
    r#"{"id":"a","do":"hello"}"#,
    r#"{"id":"b","do":"params","name":"buf_num"}"#,
    r#"{"id":"c","do":"ports"}"#,
    r#"{"id":"d","do":"memory"}"#,
    r#"{"id":"e","do":"reload"}"#,
    r#"{"id":"f","do":"switches"}"#,
    r#"[]"#,
];

/// Commands that are tested elsewhere: they are checked while they run, or print no report.
const ELSEWHERE: [(&str, &str); 5] = [
    ("emulate ctl watch", "looks_that_come_again_and_again_match_the_schema"),
    ("daemon", "what_a_daemon_answers_matches_the_schema"),
    ("demo", "demo.rs reads its document, which takes seconds to make"),
    ("completions", "prints a script, and has no --json"),
    ("daemon ctl help", "prints a help text"),
];

/// Writes a capture of three frames.
pub(super) fn write_capture(path: &str) {
    let mut writer = FileWriter::create(path, &["test"]).unwrap();
    (0..3).for_each(|at| writer.packet(0, at, &[0x5a; 60], None).unwrap());
}

/// Schemas of output that no command writes by `--json`: the part that all commands have in common,
/// the lines of `lb` under its classic name, and the control socket.
const OTHER_SCHEMAS: [&str; 3] = ["report-1.json", "lb-classic-1.json", "control-1.json"];

/// Returns the file name of a command's schema.
fn schema_of(command: &str) -> String {
    // `dnctl` is a part of `ipfw`, and answers the same.
    format!("{}-1.json", if command == "dnctl" { "ipfw" } else { command })
}

/// A directory to run in, and the JSON objects that programs wrote.
struct SchemaSandbox {
    namespace: Namespace,
    dir: tempfile::TempDir,
    written: RefCell<Vec<WrittenObject>>,
}

/// An object, and the command line that wrote it.
struct WrittenObject {
    line: String,
    schema: String,
    value: Value,
}

impl SchemaSandbox {
    fn new() -> Option<Self> {
        let (namespace, dir) = (with_links()?, tempfile::tempdir().unwrap());
        let site = Self { namespace, dir, written: RefCell::default() };
        write_capture(&site.capture());
        let script = format!("{}.toml", site.capture());
        std::fs::write(script, "[[at]]\nt = \"10s\"\nset = { \"up.delay\" = \"3ms\" }\n").unwrap();
        Some(site)
    }

    fn capture(&self) -> String {
        self.dir.path().join("in.pcap").display().to_string()
    }

    fn run_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("run")
    }

    /// Starts a command line with `--json` or `--json=lines` after its command. Replaces `@d` by
    /// the run directory, `@@` by the path of a capture, and `@` by `pcap:` and that path.
    fn start(&self, line: &str, form: &str) -> Program {
        let path = self.capture();
        let words = line.replace("@d", &self.run_dir().display().to_string());
        let words = words.replace("@@", &path).replace('@', &format!("pcap:{path}"));
        let (verb, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let mut command = Command::new(SLIPRING);
        command.arg(verb);
        // The flags of `ctl` come after its subcommand, so they are put at the end.
        let rest: Vec<_> = rest.split_ascii_whitespace().collect();
        match rest.first() {
            Some(&"ctl") => command.args(&rest).args([form]),
            _ => command.args([form]).args(rest),
        };
        command.env("SLIPRING_RUN", self.run_dir());
        Program::launch(&self.namespace, command)
    }

    /// Takes the objects of an output, for [`Self::judge`]; returns their number.
    fn take(&self, line: &str, ended: &FinishedProgram) -> usize {
        let objects = ended.stdout.lines().chain(ended.stderr.lines());
        let objects = objects.filter(|text| text.starts_with('{'));
        let objects = objects.map(|object| WrittenObject {
            line: line.to_owned(),
            schema: schema_of(line.split(' ').next().unwrap()),
            value: serde_json::from_str(object)
                .unwrap_or_else(|error| panic!("{line}: {error}: {object}")),
        });
        let mut written = self.written.borrow_mut();
        let before = written.len();
        written.extend(objects);
        written.len() - before
    }

    /// Asserts that every object matches its schema, and that no copy of [`spoilt_copies`] does.
    fn judge(self) {
        let written = self.written.take();
        let objects = written.iter().map(|one| (one.schema.as_str(), &one.value));
        let Some(faults) = oracle::schema_faults(objects) else { return };
        let faulty = faults.iter().zip(&written).filter(|(fault, _)| !fault.is_empty());
        let faulty: Vec<_> =
            faulty.map(|(fault, one)| format!("{}: {fault}: {}", one.line, one.value)).collect();
        assert!(faulty.is_empty(), "{}", faulty.join("\n"));
        let spoilt = spoilt_copies(&written);
        let objects = spoilt.iter().map(|(one, _)| (one.schema.as_str(), &one.value));
        let faults = oracle::schema_faults(objects).expect("it was there a moment ago");
        let missed = faults.iter().zip(&spoilt).filter(|(fault, _)| fault.is_empty());
        let missed: Vec<_> =
            missed.map(|(_, (one, place))| format!("{}: /{place}", one.line)).collect();
        assert!(missed.is_empty(), "any key is allowed in {}", missed.join("\n"));
    }

    /// Sends requests to a control socket, and takes the answers.
    fn ask(&self, socket: &str, requests: &[&str]) {
        let stream = UnixStream::connect(self.run_dir().join(socket)).unwrap();
        let mut answers = BufReader::new(&stream).lines();
        for request in requests {
            writeln!(&stream, "{request}").unwrap();
            let answer = answers.next().unwrap().unwrap();
            self.take_value(request, "control-1.json", &answer);
        }
    }

    fn take_value(&self, line: &str, schema: &str, text: &str) {
        let value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"));
        let (line, schema) = (line.to_owned(), schema.to_owned());
        self.written.borrow_mut().push(WrittenObject { line, schema, value });
    }

    /// Runs these lines in both forms. Each must write at least one object, except those that end
    /// with `monitor` or `quit`.
    fn all(&self, lines: &[&str]) {
        for line in lines {
            for form in ["--json", "--json=lines"] {
                let program = self.start(line, form);
                let ended = match line.ends_with("monitor") || line.ends_with("quit") {
                    true => program.stop(Signal::TERM),
                    false => program.finish(),
                };
                let written = self.take(line, &ended);
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
            (failed || accepts(&socket)).then_some(())
        });
        if Path::exists(&socket) {
            return Some(program);
        }
        let ended = program.finish();
        assert!(self.take(line, &ended) > 0);
        skip!("{line}: {}", ended.stderr);
        None
    }
}

/// Returns copies of objects, each with one additional key, and the place of this key. There is one
/// copy for each place in a command's output whose schema lists all allowed keys.
fn spoilt_copies(written: &[WrittenObject]) -> Vec<(WrittenObject, String)> {
    let (mut spoilt, mut known) = (Vec::new(), BTreeSet::new());
    for one in written {
        let mut pointers = Vec::new();
        objects_in(&one.value, String::new(), &mut pointers);
        for pointer in pointers {
            let place = place_of(&pointer);
            if takes_any_key(&one.schema, &place)
                || !known.insert((one.line.clone(), place.clone()))
            {
                continue;
            }
            let mut value = one.value.clone();
            value.pointer_mut(&pointer).unwrap()["no such key"] = Value::Array(Vec::new());
            let (line, schema) = (one.line.clone(), one.schema.clone());
            spoilt.push((WrittenObject { line, schema, value }, place));
        }
    }
    spoilt
}

/// Appends the JSON pointer of each object in `value` to `found`. `pointer` is that of `value`
/// itself.
fn objects_in(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                objects_in(member, format!("{pointer}/{key}"), found);
            }
            found.push(pointer);
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                objects_in(item, format!("{pointer}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Returns a JSON pointer without its first slash, in which `#` stands for each index of an array.
fn place_of(pointer: &str) -> String {
    let keys = pointer.split('/').skip(1);
    let keys = keys.map(|key| if key.parse::<usize>().is_ok() { "#" } else { key });
    keys.collect::<Vec<_>>().join("/")
}

/// Returns whether a place holds settings of links with the keys of a configuration file, which
/// that file's documentation defines instead of the schemas.
fn takes_any_key(schema: &str, place: &str) -> bool {
    let answer = match schema {
        "emulate-1.json" if place.starts_with("settings/") => return true,
        "emulate-1.json" => place.strip_prefix("answer/"),
        "control-1.json" => place.strip_prefix("ok/"),
        _ => None,
    };
    answer.is_some_and(|place| {
        place.starts_with("link/")
            || place == "#/changes"
            || place == "ports"
            || place.starts_with("ports/") && !place.starts_with("ports/#")
    })
}

#[test]
fn what_every_command_writes_as_json_matches_the_schema() {
    build_bench_program();
    let Some(site) = SchemaSandbox::new() else { return };
    site.all(&ALONE);
    site.judge();
}

#[test]
fn what_a_generator_that_measures_latency_writes_matches_the_schema() {
    let Some(site) = SchemaSandbox::new() else { return };
    let line = "gen -i packet:there -f rx -n 5 --latency";
    let receiver = site.start(line, "--json=lines");
    receiver.wait_for("its start", |output| output.stdout.contains("start").then_some(()));
    site.start("gen -i packet:here -f tx -n 5", "--json").finish().well();
    let ended = receiver.finish().well();
    assert!(site.take(line, &ended) >= 2 && ended.stdout.contains("latency_ns"), "{ended:#?}");
    site.judge();
}

#[test]
fn what_a_running_emulator_answers_matches_the_schema() {
    let Some(site) = SchemaSandbox::new() else { return };
    let line = "emulate -i packet:here -i null: --name lab -D 1ms -T 10ms";
    let Some(emulator) = site.serve(line, "lab.sock") else { return };
    site.all(&EMULATOR[..12]);
    site.ask("lab.sock", &EMULATOR_REQUESTS);
    let quit = site.start(EMULATOR[12], "--json").finish();
    site.take(EMULATOR[12], &quit);
    let ended = emulator.finish().well();
    assert!(site.take(line, &ended) > 2);
    site.judge();
}

#[test]
fn looks_that_come_again_and_again_match_the_schema() {
    let Some(site) = SchemaSandbox::new() else { return };
    let line = "emulate -i packet:here -i null: --name lab -D 1ms";
    let Some(emulator) = site.serve(line, "lab.sock") else { return };
    for line in ["emulate ctl watch --period 50ms", "top lab -T 50ms"] {
        let program = site.start(line, "--json=lines");
        program.wait_for("two looks", |output| (output.stdout.lines().count() >= 2).then_some(()));
        let ended = program.stop(Signal::TERM);
        assert!(site.take(line, &ended) >= 2, "{ended:#?}");
    }
    let gateway = site.start("serve --listen 127.0.0.1:0", "--json");
    gateway.wait_for("its address", |output| output.stdout.contains("http://").then_some(()));
    let started: Value = serde_json::from_str(&gateway.so_far().stdout).unwrap();
    let url = started["url"].as_str().unwrap();
    for what in ["running", "presets"] {
        let fetch = format!("-s {url}api/v1/{what}");
        let answer = Program::start(&site.namespace, "curl", &fetch).finish().well().stdout;
        site.take_value(what, &format!("control-1.json#/$defs/{what}"), &answer);
    }
    assert_eq!(site.take("serve", &gateway.stop(Signal::TERM)), 1);
    emulator.stop(Signal::TERM).well();
    site.judge();
}

#[test]
fn what_a_running_firewall_answers_matches_the_schema() {
    let Some(site) = SchemaSandbox::new() else { return };
    let line = "firewall packet:here null: --name edge -T 10ms";
    let Some(firewall) = site.serve(line, "edge.sock") else { return };
    site.all(&FIREWALL);
    site.ask("edge.sock", &FIREWALL_REQUESTS);
    let ended = firewall.stop(Signal::TERM).well();
    assert!(site.take(line, &ended) > 2);
    site.judge();
}

#[test]
fn what_a_daemon_answers_matches_the_schema() {
    let Some(site) = SchemaSandbox::new() else { return };
    let line = "daemon --link off";
    let Some(daemon) = site.serve(line, "slipringd.sock") else { return };
    for form in ["--json", "--json=lines"] {
        for line in DAEMON {
            let ended = site.start(line, form).finish();
            let written = site.take(line, &ended);
            assert!(written > 0, "{line} {form} wrote no object: {ended:#?}");
        }
    }
    site.ask("slipringd.sock", &DAEMON_REQUESTS);
    let ended = daemon.stop(Signal::TERM).well();
    assert_eq!(site.take(line, &ended), 1, "{ended:#?}");
    site.judge();
}

/// Returns whether a case begins with these words, ignoring flags.
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
    let Some(site) = SchemaSandbox::new() else { return };
    let namespace = &site.namespace;
    for command in commands(namespace) {
        let help = help_of(namespace, &command);
        assert!(help.contains("--json") || command == "completions", "{command} has no --json");
        if !has_case(&command) {
            // A command without a case is run as in the first example of its help.
            let example = help.lines().find_map(|line| line.trim().strip_prefix("slipring "));
            site.all(&[example.unwrap_or_else(|| panic!("{command} has no case"))]);
        }
    }
    for group in ["emulate ctl", "daemon ctl", "nic"] {
        let words = listed_commands(&help_of(namespace, group));
        assert!(words.len() > 4, "{group}: {words:?}");
        for word in words {
            assert!(has_case(&format!("{group} {word}")), "{group} {word} has no case");
        }
    }
    site.judge();
}

#[test]
fn every_command_names_its_schema_and_every_schema_is_of_a_command() {
    let Some(namespace) = with_links() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let mut named = BTreeSet::from(OTHER_SCHEMAS.map(str::to_owned));
    let with_json = commands(&namespace).into_iter().filter(|command| command != "completions");
    for command in with_json.chain(["emulate ctl", "daemon ctl"].map(str::to_owned)) {
        let schema = schema_of(command.split(' ').next().unwrap());
        let help = help_of(&namespace, &command);
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("schema: {schema}")), "{command}: {help}");
        named.insert(schema);
    }
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<_>>(), named);
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
