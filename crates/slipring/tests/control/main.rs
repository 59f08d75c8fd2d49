//! Tests of `slipring emulate ctl` and running emulators, in the tests' own network namespaces and
//! run directories. No round trip may be shorter than the links' delays. A busy machine may make
//! round trips late, so an upper bound only has to hold for one of them.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

use std::ops::Range;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::lab::RIGHT;
use slipring_test_support::{
    FinishedProgram, Lab, LabPort, Program, accepts, eventually, installed, skip,
};

use support::{SLIPRING, ping};

/// An emulator between the two sides of a lab, with its run directory.
struct EmulatorLab {
    lab: Lab,
    run_dir: tempfile::TempDir,
}

impl EmulatorLab {
    /// Returns `None`, and prints why, if namespaces are not permitted.
    fn new() -> Option<Self> {
        Some(Self { lab: Lab::new(LabPort::Packet)?, run_dir: tempfile::tempdir().unwrap() })
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(SLIPRING);
        command.arg("emulate").args(words.split_ascii_whitespace());
        command.env("SLIPRING_RUN", self.run_dir.path());
        command
    }

    /// Starts an emulator and waits until it answers.
    fn emulate(&self, words: &str) -> Program {
        let words = format!("-T 0 {} {words}", self.lab.ports());
        let program = Program::launch(&self.lab.mid, self.command(&words));
        let socket = self.run_dir.path().join(format!("{}.sock", program.pid()));
        eventually("the control socket", || accepts(&socket).then_some(()));
        // The emulator listens before its ports are open; it answers once they are.
        self.ctl(&format!("hello --name {}", program.pid())).well();
        program
    }

    fn ctl(&self, words: &str) -> FinishedProgram {
        Program::launch(&self.lab.mid, self.command(&format!("ctl {words}"))).finish()
    }

    fn json(&self, words: &str) -> Value {
        let ended = self.ctl(&format!("{words} --json")).well();
        let mut value: Value = serde_json::from_str(&ended.stdout).unwrap();
        for key in ["time_ns", "command", "version"] {
            assert!(value.get(key).is_some(), "{words}: every report has {key}: {value}");
        }
        match value.get_mut("answer") {
            Some(answer) => answer.take(),
            None => value,
        }
    }

    fn refused(&self, words: &str) -> String {
        let ended = self.ctl(words);
        assert_eq!(ended.code(), 2, "{ended:?}");
        ended.stderr
    }

    /// Returns the shortest of some round trips, in ms.
    fn ping_ms(&self) -> f64 {
        ping::shortest(&self.lab.left, RIGHT, 5)
    }

    /// Waits until a round trip is in `range`, in ms. Asserts that none is shorter.
    fn ping_takes(&self, range: Range<f64>) {
        ping::takes(&self.lab.left, RIGHT, &range);
    }
}

#[test]
fn a_change_is_met_by_the_next_frames_and_undo_takes_it_back() {
    let Some(site) = EmulatorLab::new() else { return };
    let emulator = site.emulate("-D 5ms --name lab");
    site.ping_takes(10.0..60.0);
    let set = site.ctl("set link.up.delay=100ms down.delay=50ms").well();
    assert!(set.stdout.starts_with("version 2 holds from "), "{set:?}");
    assert!(site.ping_ms() >= 150.0, "both directions changed");
    let get = site.ctl("get up.delay --name lab").well();
    assert!(get.stdout.contains("link.up.delay.mean = \"100ms\""), "{get:?}");
    let same = site.ctl("set up.delay=100ms").well();
    assert!(same.stdout.starts_with("nothing changed: version 2 holds"), "{same:?}");
    let undo = site.ctl("undo").well();
    assert!(undo.stdout.starts_with("version 2 taken back: version 1 holds at "), "{undo:?}");
    site.ping_takes(10.0..150.0);
    let history = site.json("history");
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert!(history[1]["taken_back_at_ns"].is_u64(), "{history}");
    let output = site.ctl("history").well().stdout;
    assert!(output.lines().nth(1).is_some_and(|line| line.contains("(taken back at ")), "{output}");
    let asked = emulator.stop(Signal::INT).well();
    assert_eq!(std::fs::read_dir(site.run_dir.path()).unwrap().count(), 0, "{asked:?}");
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator = site.emulate("-B 10m -D 20ms -M 1s,1g");
    let before = site.json("get");
    for (words, why) in [
        ("set up.rate.bps=20Mbit down.rate.bps=x", "`x` does not fit link.down.rate.bps"),
        ("set up.rate.bps=20", "it could be 20bit or 20Mbit"),
        ("set sideways.delay=1ms", "there is no link.sideways.delay"),
        ("set up.delay=2s", "the delay of up is beyond its bound"),
        ("set up.delay=uniform(1ms,2s)", "the delay of up is beyond its bound"),
        ("set up.rate=none", "the rate of up is beyond its bound"),
        ("set up.rate=sine(900Mbit,200Mbit,1s)", "the rate of up is beyond its bound"),
        ("set third.rate=1Mbit", "links are neither added nor removed while they run"),
        ("set up=none", "link.up cannot be set as a whole"),
        ("set up.from=right", "start again: slipring emulate --config link.toml"),
        ("set up.delay=20ms --at tomorrow", "`tomorrow` does not fit --at"),
        ("set up.delay=20ms --at -5s", "it is negative at column 1 of --at"),
        ("set up.delay=20ms --at 1ns", "1 ns from the start has passed"),
        ("set up.delay", "`up.delay` is no PATH=VALUE"),
        ("undo", "there is nothing to undo"),
    ] {
        let error = site.refused(words);
        assert!(error.contains(why), "{words}: {error}");
        assert_eq!(site.json("get"), before, "{words}");
    }
    let history = site.json("history");
    assert_eq!(history.as_array().unwrap().len(), 1, "{history}");
}

#[test]
fn a_script_that_goes_beyond_a_bound_is_refused_whole() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator = site.emulate("-B 10m -D 20ms -M 1s,1g");
    let script = site.run_dir.path().join("steps.toml");
    let text = "[[at]]\nt = \"1h\"\nset = { \"up.delay\" = \"60ms\" }\n\
                [[at]]\nt = \"2h\"\nset = { \"up.delay\" = \"2s\" }\n";
    std::fs::write(&script, text).unwrap();
    let error = site.refused(&format!("script {}", script.display()));
    assert!(error.contains("the delay of up is beyond its bound"), "{error}");
    assert_eq!(site.json("history").as_array().unwrap().len(), 1);
}

#[test]
fn what_is_got_starts_the_same_links_again() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator =
        site.emulate("-B 10m -D normal,20ms,3ms -L nth,3 --up rate=markov(1m:2s,2m:3s)");
    let file = site.run_dir.path().join("link.toml");
    std::fs::write(&file, site.ctl("get").well().stdout).unwrap();
    let words = format!("--config {} --virtual a b --explain --seed 1", file.display());
    let again = Program::launch(&site.lab.mid, site.command(&words)).finish().well();
    let explained = site.ctl("explain").well();
    // A settings file lists the links by name, so the order of the lines may differ.
    let links = |text: &str| {
        let mut lines: Vec<_> = text.lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(links(&again.stdout), links(&explained.stdout));
}

/// Runs `slipring emulate ctl WORDS` as user nobody.
fn ctl_of_another_user(site: &EmulatorLab, words: &str) -> FinishedProgram {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let copy = support::copy_to(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(copy);
    command.args(["emulate", "ctl"]).args(words.split_ascii_whitespace());
    command.env("SLIPRING_RUN", site.run_dir.path());
    Program::launch(&site.lab.mid, command).finish()
}

#[test]
fn another_user_is_refused_with_a_reason_however_open_the_socket_is() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() || !installed("setpriv") {
        skip!("only root can become another user");
        return;
    }
    let Some(site) = EmulatorLab::new() else { return };
    let emulator = site.emulate("-D 5ms --name lab");
    let dir = site.run_dir.path();
    let socket = dir.join(format!("{}.sock", emulator.pid()));
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let refused = |words: &str| {
        let ended = ctl_of_another_user(&site, words);
        assert_ne!(ended.code(), 0, "{words}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{words}: {ended:?}");
        assert!(ended.stderr.contains("SR0204"), "{words}: {ended:?}");
        assert!(ended.stderr.contains("ask as that user, with sudo"), "{words}: {ended:?}");
        ended.stderr
    };
    for words in ["stats", "stats --name lab", "set up.delay=1s --name lab"] {
        assert!(refused(words).contains("it is another user's"), "a directory that is closed");
    }
    open(dir, 0o755);
    assert!(refused("stats --name lab").contains("it is another user's"), "its socket is closed");
    open(&socket, 0o666);
    let output = refused("set up.delay=1s --name lab");
    assert!(output.contains("only user 0, whose it is, and root are answered"), "{output}");
    assert_eq!(site.json("history").as_array().unwrap().len(), 1, "nothing has changed");
}

#[test]
fn an_emulator_without_a_delay_refuses_one_that_it_cannot_hold() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator = site.emulate("-B 100g");
    let error = site.refused("set up.delay=1h");
    assert!(error.contains("the links cannot hold that much"), "{error}");
}

#[test]
fn a_script_changes_at_its_times_and_can_be_stopped() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator = site.emulate("-D 5ms");
    let script = site.run_dir.path().join("steps.toml");
    let text = "[[at]]\nt = \"1ms\"\nset = { \"up.delay\" = \"60ms\", \"down.delay\" = \"60ms\" }\n\
                [[at]]\nt = \"1h\"\nset = { \"up.delay\" = \"1s\" }\n";
    std::fs::write(&script, text).unwrap();
    let output = site.ctl(&format!("script {}", script.display())).well();
    assert_eq!(output.stdout.lines().count(), 2, "{output:?}");
    site.ping_takes(120.0..1000.0);
    // A change that takes effect immediately does not cancel the scheduled changes.
    site.ctl("set up.delay=1ms").well();
    // The change has taken effect.
    site.ping_takes(0.0..120.0);
    let history = site.json("history");
    assert!(history[3]["changes"].to_string().contains("\"1s\""), "{history}");
    assert_eq!(site.json("stop-script")["taken_back"], 1);
    std::fs::write(&script, "seed = 3\n").unwrap();
    let error = site.refused(&format!("script {}", script.display()));
    assert!(error.contains("a script has no `seed`"), "{error}");
    assert!(error.contains(&format!("at {}, line 1", script.display())), "{error}");
    std::fs::write(&script, [0x7f, b'E', 0xff]).unwrap();
    let error = site.refused(&format!("script {}", script.display()));
    assert!(error.contains("is no script") && error.contains("byte 2 is not UTF-8"), "{error}");
    let error = site.refused("set seed=4");
    assert!(error.contains("seed cannot change in a run"), "{error}");
    let error = site.refused("set --bogus");
    assert!(error.contains("`slipring emulate ctl set` has no such flag"), "{error}");
}

#[test]
fn a_change_to_come_can_be_undone() {
    let Some(site) = EmulatorLab::new() else { return };
    let _emulator = site.emulate("-D 5ms");
    site.ctl("set up.delay=2s --at +1h").well();
    let history = site.json("history");
    assert_eq!(history[1]["begun"], false, "{history}");
    site.ctl("undo").well();
    site.ctl("set up.delay=50ms").well();
    site.ping_takes(55.0..1000.0);
}

#[test]
fn emulators_are_told_apart_by_name() {
    let (Some(site), Some(other)) = (EmulatorLab::new(), EmulatorLab::new()) else { return };
    let _first = site.emulate("-D 1ms --name first");
    let mut command = Command::new(SLIPRING);
    command.args(["emulate", "-T", "0", "-D", "2ms", "--name", "second"]);
    command.args(other.lab.ports().split_ascii_whitespace());
    command.env("SLIPRING_RUN", site.run_dir.path());
    let second = Program::launch(&other.lab.mid, command);
    let socket = site.run_dir.path().join("second.sock");
    eventually("the second socket", || accepts(&socket).then_some(()));
    let error = site.refused("stats");
    assert!(error.contains("(first)") && error.contains("(second)"), "{error}");
    site.ctl("set up.delay=30ms --name second").well();
    assert_eq!(site.json("history --name first").as_array().unwrap().len(), 1);
    assert_eq!(site.json("history --name second").as_array().unwrap().len(), 2);
    assert_eq!(site.json("hello --name second")["pid"], second.pid());
    assert!(site.refused("stats --name third").contains("nothing called `third` runs"));
    site.ctl("quit --name second").well();
    second.finish().well();
    assert_eq!(site.json("hello")["name"], "first", "one is left, and needs no name");
}

#[test]
fn a_name_or_run_directory_that_cannot_be_had_is_told_before_a_port_is_opened() {
    let Some(site) = EmulatorLab::new() else { return };
    let _first = site.emulate("-D 1ms --name lab");
    let ports = "-D 1ms -w 0 -i netmap:nosuch0 -i null:";
    let refused = |words: &str, run_dir: &std::path::Path| {
        let mut command = site.command(&format!("{ports} {words}"));
        command.env("SLIPRING_RUN", run_dir);
        let ended = Program::launch(&site.lab.mid, command).finish();
        assert_ne!(ended.code(), 0, "{words}: {ended:?}");
        assert!(!ended.stderr.contains("takes the interface"), "{words}: {ended:?}");
        assert!(!ended.stderr.contains("nosuch0"), "{words}: the ports came first: {ended:?}");
        ended.stderr
    };
    let taken = refused("--name lab", site.run_dir.path());
    assert!(taken.contains("SR0013") && taken.contains("lab"), "{taken}");
    assert!(refused("--name a/b", site.run_dir.path()).contains("SR0013"));
    refused("--name new", std::path::Path::new("/dev/null/run"));
    // The name of a run that could not open its ports is free again.
    let command = site.command(&format!("{ports} --name gone"));
    let ended = Program::launch(&site.lab.mid, command).finish();
    assert!(ended.stderr.contains("SR0102"), "{ended:?}");
    assert!(!site.run_dir.path().join("gone.sock").is_symlink());
}

#[test]
fn figures_come_as_text_as_json_and_again_and_again() {
    let Some(site) = EmulatorLab::new() else { return };
    let emulator = site.emulate("-D 5ms --seed 7");
    site.ping_ms();
    let stats = site.json("stats");
    assert_eq!(stats["event"], "interval");
    assert!(stats["ports"][0]["rx"]["packets"].as_u64().unwrap() >= 5, "{stats}");
    assert!(!site.ctl("stats").well().stdout.is_empty());
    assert_eq!(site.json("explain")["seed"], 7);
    assert!(site.ctl("explain").well().stdout.starts_with("seed 7\n"));
    let watch = Program::launch(&site.lab.mid, site.command("ctl watch --period 1ms"));
    watch.wait_for("three looks", |output| (output.stdout.lines().count() > 3).then_some(()));
    emulator.stop(Signal::INT).well();
    watch.finish().well();
}

#[test]
fn hup_reads_the_file_again_and_refuses_it_whole_when_it_is_no_good() {
    let Some(site) = EmulatorLab::new() else { return };
    let file = site.run_dir.path().join("link.toml");
    let write = |delay: &str| {
        let link = |name: &str, from: &str, to: &str| {
            format!("[link.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\ndelay = \"{delay}\"\n")
        };
        let text = "[ports.left]\n[ports.right]\n".to_owned();
        let links = link("up", "left", "right") + &link("down", "right", "left");
        std::fs::write(&file, text + &links).unwrap();
    };
    write("5ms");
    let emulator = site.emulate(&format!("--config {}", file.display()));
    let delay = || site.json("stats")["links"][0]["asked"]["delay"].clone();
    assert_eq!(delay(), "5 ms");
    write("7ms");
    emulator.signal(Signal::HUP);
    eventually("the new delay", || (delay() == "7 ms").then_some(()));
    write("9");
    emulator.signal(Signal::HUP);
    emulator.wait_for_text("it could be 9s or 9ms");
    assert_eq!(delay(), "7 ms", "the run goes on as it was");
}
