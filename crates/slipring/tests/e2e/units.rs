//! Tests of the units in `packaging/systemd`: systemd's rating of them, and whether the programs
//! work with the remaining privileges.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use slipring_test_support::{Lab, LabPort, Program, installed, skip};

use crate::support::SLIPRING;

/// The limit for every service except the daemon: 4.0 in systemd's rating.
const MAX_EXPOSURE_FLAG: &str = "--threshold=40";
/// The limit for the daemon, which mounts file systems: 5.5.
const MAX_DAEMON_EXPOSURE_FLAG: &str = "--threshold=55";

/// Maximum time to wait for the next action of a service.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the paths of the service units.
fn services() -> Vec<PathBuf> {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let files = fs::read_dir(units).unwrap().map(|unit| unit.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "service")).collect()
}

/// Copies each unit in a form that systemd can read; a template becomes the instance `edge`.
/// Returns the paths of the copies.
fn copies(dir: &Path) -> Vec<PathBuf> {
    let copy = |unit: &PathBuf| {
        let text = fs::read_to_string(unit).unwrap().replace("@BIN@/slipring", SLIPRING);
        let name = unit.file_name().unwrap().to_str().unwrap().replace('@', "@edge");
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    services().iter().map(copy).collect()
}

fn setting<'t>(unit: &'t str, key: &str) -> &'t str {
    let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.next_back().unwrap_or_else(|| panic!("no {key}= in\n{unit}"))
}

#[test]
fn every_service_is_exposed_as_little_as_is_promised() {
    let dir = tempfile::tempdir().unwrap();
    for unit in copies(dir.path()) {
        let is_daemon = unit.ends_with("slipringd.service");
        let threshold = if is_daemon { MAX_DAEMON_EXPOSURE_FLAG } else { MAX_EXPOSURE_FLAG };
        let mut command = Command::new("systemd-analyze");
        let Ok(judged) =
            command.args(["security", "--offline=true", threshold]).arg(&unit).output()
        else {
            return skip!("systemd-analyze is not here to judge the units");
        };
        let message = String::from_utf8_lossy(&judged.stdout);
        if !message.contains("Overall exposure level") {
            return skip!("this systemd-analyze judges no files");
        }
        assert!(judged.status.success(), "{}: {message}", unit.display());
    }
}

#[test]
fn every_service_is_what_systemd_takes() {
    let dir = tempfile::tempdir().unwrap();
    for unit in copies(dir.path()) {
        let mut command = Command::new("systemd-analyze");
        let Ok(output) = command.args(["--man=no", "verify"]).arg(&unit).output() else {
            return skip!("systemd-analyze is not here to verify the units");
        };
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("slipring"), "{}: {message}", unit.display());
    }
}

/// Programs install their own seccomp filter; `@system-service` alone would not allow that.
#[test]
fn every_service_may_confine_itself_and_is_not_killed_for_a_call() {
    for unit in services() {
        let text = fs::read_to_string(&unit).unwrap();
        let mut filters = text.lines().filter_map(|line| line.strip_prefix("SystemCallFilter="));
        let allows = filters.any(|calls| calls.split(' ').any(|call| call == "seccomp"));
        assert!(allows, "{}", unit.display());
        assert_eq!(setting(&text, "SystemCallErrorNumber"), "EPERM", "{}", unit.display());
    }
}

/// Only templates are checked, because the daemon's unit has its own rules.
#[test]
fn every_template_is_tried_again_for_ever_but_for_mistakes() {
    for unit in services().iter().filter(|unit| unit.to_string_lossy().contains('@')) {
        let text = fs::read_to_string(unit).unwrap();
        assert_eq!(setting(&text, "StartLimitIntervalSec"), "0", "{}", unit.display());
        assert_eq!(setting(&text, "Restart"), "on-failure", "{}", unit.display());
        assert_eq!(setting(&text, "RestartPreventExitStatus"), "2", "{}", unit.display());
    }
}

/// Returns a command with the capabilities of a unit.
fn with_capabilities_of(unit: &str, words: &str) -> Command {
    let capabilities = setting(unit, "CapabilityBoundingSet").to_lowercase();
    let names = capabilities.split(' ').map(|name| name.replace("cap_", ",+"));
    let bounds = format!("-all{}", names.collect::<String>());
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &bounds, "--inh-caps=-all", "--no-new-privs"]);
    command.args(words.split_ascii_whitespace());
    command
}

/// Returns the command line of a unit, with the directories of a test.
fn line(unit: &str, key: &str, dir: &Path, ports: &str) -> String {
    let dir = dir.to_str().unwrap();
    let line = setting(unit, key).replace("@BIN@/slipring", SLIPRING);
    let line = line.replace("/etc/slipring", dir).replace("/run/slipring", &format!("{dir}/run"));
    let line = line.replace("/var/lib/slipring-firewall", dir);
    line.replace("%i", "edge").replace("$PORTS", ports).replace("$ARGS", "")
}

#[test]
fn services_start_with_the_capabilities_of_their_units() {
    if !installed("setpriv") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for sub in ["firewall", "emulate", "route"] {
        fs::create_dir(dir.path().join(sub)).unwrap();
    }
    fs::write(dir.path().join("route/edge.toml"), ROUTER).unwrap();
    fs::write(dir.path().join("firewall/edge.rules"), "add allow ip from any to any\n").unwrap();
    let ports = "[ports.left]\ndev = \"netmap:la\"\n[ports.right]\ndev = \"netmap:ra\"\n";
    let links = format!("{ports}[link.up]\nfrom = \"left\"\nto = \"right\"\n");
    fs::write(dir.path().join("emulate/edge.toml"), links).unwrap();
    for unit in services() {
        if unit.ends_with("slipringd.service") {
            // Other tests start the daemon.
            continue;
        }
        let Some(lab) = Lab::quiet(LabPort::Best) else { return };
        let text = fs::read_to_string(&unit).unwrap();
        let words = line(&text, "ExecStart", dir.path(), "netmap:la netmap:ra");
        let mut command = with_capabilities_of(&text, &words);
        command.env("SLIPRING_RUN", dir.path().join("run"));
        let program = Program::launch(&lab.mid, command);
        program.wait_for("start", |output| {
            let text = format!("{}{}", output.stdout, output.stderr);
            let message = ["kind=", "Ready to go", "slipring serves", "forwarding"];
            message.iter().any(|start| text.contains(start)).then_some(())
        });
        program.stop(Signal::INT).well();
    }
}

/// The settings of the router's service. The kernel is not the fallback, because it is not set to
/// forward in the test's namespace.
const ROUTER: &str = "interfaces = [\"la\", \"ra\"]\nfallback = false\nbypass_netfilter = true\n";

/// systemd runs the command that reloads the router with the privileges of the service.
#[test]
fn the_routers_service_is_ready_once_it_forwards_and_a_reload_fails_for_a_mistake() {
    if !installed("setpriv") {
        return;
    }
    let Some(lab) = Lab::quiet(LabPort::Best) else { return };
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("route/edge.toml");
    fs::create_dir(dir.path().join("route")).unwrap();
    fs::write(&settings, ROUTER).unwrap();
    let unit = services().into_iter().find(|unit| unit.ends_with("slipring-route@.service"));
    let unit = fs::read_to_string(unit.unwrap()).unwrap();
    let notify = dir.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    let start = line(&unit, "ExecStart", dir.path(), "");
    let mut command = with_capabilities_of(&unit, &start);
    command.env("NOTIFY_SOCKET", &notify);
    let router = Program::launch(&lab.mid, command);
    router.wait_for_text("forwarding");
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut message = [0; 16];
    let len = manager.recv(&mut message).unwrap();
    assert_eq!(&message[..len], b"READY=1");
    let reload = || {
        let words = line(&unit, "ExecReload", dir.path(), "");
        Program::launch(&lab.mid, with_capabilities_of(&unit, &words)).finish()
    };
    reload().well();
    fs::write(&settings, format!("{ROUTER}[punt]\narpp = 5\n")).unwrap();
    let failed = reload();
    assert_eq!(failed.code(), 2, "{failed:?}");
    assert!(failed.stderr.contains("line 5") && failed.stderr.contains("`arp`?"), "{failed:?}");
    router.stop(Signal::INT).well();
}
