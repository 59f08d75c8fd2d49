//! Tests of the file of `--config`: its settings, and the effect of a reload.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::program::output;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};
use crate::topology::{SLIPRING, launch};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    a_router_starts_by_a_file_alone,
    a_reload_changes_the_rates_of_packets_for_the_kernel,
    a_reload_changes_the_limits_of_icmp_errors,
    a_mistake_in_the_file_is_told_with_its_line_and_nothing_changes,
    a_setting_that_needs_a_restart_is_named_and_nothing_changes
}

/// A router with a file of settings.
pub(crate) struct SettingsRig {
    pub(crate) rig: Rig,
    file: PathBuf,
    dir: tempfile::TempDir,
}

pub(crate) fn start(setup: Setup, text: &str) -> SettingsRig {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edge.toml");
    std::fs::write(&file, text).unwrap();
    let rig = setup.with_flags(&format!("--config {}", file.display())).start();
    SettingsRig { rig, file, dir }
}

impl SettingsRig {
    pub(crate) fn reload(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
        self.rig.tell(&["reload"]).well();
    }

    /// Writes `text` to the file, and returns the error of the reload, which must fail.
    pub(crate) fn refusal(&self, text: &str) -> String {
        std::fs::write(&self.file, text).unwrap();
        let refused = self.rig.tell(&["reload"]);
        assert_ne!(refused.code(), 0);
        refused.stderr
    }

    /// Returns the number of ICMP packets for the kernel that exceeded the rate of their class, and
    /// so were not given to it.
    fn limited(&self) -> u64 {
        let status = self.rig.ask(&["status"]);
        let workers = status["workers"].as_array().unwrap().iter();
        workers.map(|worker| worker["limited"]["icmp"].as_u64().unwrap_or_default()).sum()
    }

    /// Sends packets that only the kernel can forward. With rules, it gets them from a worker.
    fn send_to_kernel(&self) {
        for seq in 0..50 {
            let optional = |packet: &mut Packet| packet.options = vec![1; 4];
            self.rig.a.send(&Packet::echo(v4().a, v4().b, seq).with(optional));
        }
        self.rig.observe([0; 3]);
    }
}

fn to_port(port: u16) -> Packet {
    Packet::udp_ports(v4().a, v4().b, [4000, port], b"settings")
}

fn a_router_starts_by_a_file_alone(setup: Setup) {
    let rules = "add 10 allow ip from any to any 9\nadd deny udp from any to any 53\n\
                 add allow ip from any to any\n";
    let started = start(setup, "");
    let text =
        "interfaces = [\"e0\", \"e1\"]\nrules = \"edge.rules\"\n[control]\nname = \"edge\"\n";
    std::fs::write(&started.file, text).unwrap();
    std::fs::write(started.dir.path().join("edge.rules"), rules).unwrap();
    let SettingsRig { rig, file, dir: _dir } = started;
    rig.take_program().stop(Signal::INT).well();
    let words = format!("--config {}", file.display());
    let program = launch(&rig.router, rig.subject, &words, rig.run_dir()).unwrap();
    rig.until(|| rig.all_arrive_at_b(&[to_port(54)]));
    // While the worker does not run, the kernel forwards, without rules.
    rig.until(|| {
        rig.a.send(&to_port(53));
        rig.observe([0; 3]).b.is_empty().then_some(())
    });
    rig.tell(&["status", "--name", "edge"]).well();
    program.stop(Signal::INT).well();
}

fn a_reload_changes_the_rates_of_packets_for_the_kernel(setup: Setup) {
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rules.path(), "add allow ip from any to any\n").unwrap();
    let text = |rate| format!("rules = {:?}\n[punt]\nicmp = {rate}\n", rules.path());
    let started = start(setup, &text(1));
    started.rig.until(|| {
        started.send_to_kernel();
        (started.limited() > 0).then_some(())
    });
    started.reload(&text(100_000));
    let before = started.limited();
    started.send_to_kernel();
    assert_eq!(started.limited(), before);
}

fn a_reload_changes_the_limits_of_icmp_errors(setup: Setup) {
    let started = start(setup, "[icmp]\nerrors_per_s = 0\n");
    let rig = &started.rig;
    let last_hop = Packet::udp(v4().a, v4().b, b"last hop").hops(1);
    // While the worker does not run, the kernel answers.
    rig.until(|| {
        rig.a.send(&last_hop);
        rig.observe([0; 3]).a.is_empty().then_some(())
    });
    started.reload("[icmp]\nerrors_per_s = 1000\n");
    rig.refuses(&last_hop);
}

fn a_mistake_in_the_file_is_told_with_its_line_and_nothing_changes(setup: Setup) {
    let started = start(setup, "[punt]\nicmp = 5\n");
    let refused = started.refusal("[punt]\nicmp = 6\n[icmp]\nerors_per_s = 5\n");
    for part in
        ["SR0010", "icmp has no key `erors_per_s`", "line 4", "did you mean `errors_per_s`?"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let program = started.rig.take_program();
    program.signal(Signal::HUP);
    program.wait_for_text("did you mean `errors_per_s`?");
    started.rig.until(|| started.rig.all_arrive_at_b(&[to_port(5000)]));
    std::fs::write(&started.file, "").unwrap();
    program.signal(Signal::HUP);
    program.wait_for_text(&format!("{} was read again", started.file.display()));
    program.stop(Signal::INT).well();
}

fn a_setting_that_needs_a_restart_is_named_and_nothing_changes(setup: Setup) {
    let started = start(setup, "[fib]\nmax_routes = 1000\n");
    let refused = started.refusal("rules = \"no\"\n[fib]\nmax_routes = 2000\n[punt]\nicmp = 1\n");
    for part in ["SR0010", "started again for rules, fib.max_routes", "nothing has changed"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    started.reload("[fib]\nmax_routes = 1000\n[punt]\nicmp = 1\n");
}

/// Runs `slipring route` in a directory with a file of settings. No port is opened.
fn run(dir: &Path, words: &str) -> (bool, String, String) {
    let mut command = Command::new(SLIPRING);
    command.arg("route").args(words.split_ascii_whitespace()).current_dir(dir);
    let ended = output(command.env("SLIPRING_RUN", "/dev/null/run"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.success(), text(ended.stdout), text(ended.stderr))
}

const FILE: &str = "interfaces = [\"e0\", \"e1\"]\nio = \"xsk\"\nfallback = false\n\
                    [threads]\nworkers = 3\nbusy_poll = \"never\"\n[punt]\nbgp = 7\n\
                    [vlan]\npriorities = [0, 1, 2, 3, 4, 5, 6, 7]\n[control]\nname = \"edge\"\n\
                    [metrics]\nlisten = \"./edge.sock\"\n\
                    [urpf]\n\"e0\" = \"strict\"\n\
                    [[vrf]]\nname = \"red\"\ntable = 100\ninterfaces = [\"e1\"]\n";

#[test]
fn printed_settings_are_a_file_that_means_the_same() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("edge.toml"), FILE).unwrap();
    let (_, printed, _) = run(dir.path(), "--config edge.toml --print-config");
    for line in FILE.lines() {
        assert!(printed.contains(line), "no {line} in {printed}");
    }
    std::fs::write(dir.path().join("again.toml"), &printed).unwrap();
    let (is_good, again, _) = run(dir.path(), "--config again.toml --print-config");
    assert!(is_good);
    assert_eq!(again, printed);
}

#[test]
fn the_command_line_wins_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("edge.toml"), FILE).unwrap();
    let words = "e1 e0 --config edge.toml --io packet --threads 2 --name x --print-config";
    let (_, printed, _) = run(dir.path(), words);
    for line in ["interfaces = [\"e1\", \"e0\"]", "io = \"packet\"", "workers = 2", "name = \"x\""]
    {
        assert!(printed.contains(line), "no {line} in {printed}");
    }
}

#[test]
fn a_file_and_its_rules_are_checked_without_a_router() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let check = || run(dir.path(), "--config edge.toml --check");
    write("edge.toml", FILE);
    assert_eq!(check(), (true, String::new(), String::new()));
    write("edge.toml", &FILE.replacen("interfaces", "interface", 1));
    let (is_good, _, refused) = check();
    assert!(!is_good && refused.contains("did you mean `interfaces`?"), "{refused}");
    write("edge.toml", "interfaces = [\"e0\", \"e1\"]\nrules = \"edge.rules\"\n");
    write("edge.rules", "add allow ip from any to any\nadd permit everything\n");
    let (is_good, _, refused) = check();
    assert!(!is_good && refused.contains("line 2"), "{refused}");
    write("edge.rules", "add 400 fwd port:e1 ip from any to any\n");
    let (is_good, _, refused) = check();
    assert!(!is_good && refused.contains("rule 400: a router sends to next hops"), "{refused}");
}
