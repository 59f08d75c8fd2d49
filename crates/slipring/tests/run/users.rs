//! Tests of ordinary users: `run` works without privileges, including network access.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use slipring_core::netns;
use slipring_test_support::{
    FinishedProgram, Namespace, Program, installed, skip, user_namespaces_allowed,
};

use crate::support::copy_to;
use crate::{command, forward, round_trip_takes, things, world};

/// An ordinary user with a copy of the binary, and a directory of programs.
pub(crate) struct OrdinaryUser {
    dir: tempfile::TempDir,
    path: String,
}

/// Returns an ordinary user; `None` if this process cannot become one.
pub(crate) fn as_ordinary_user() -> Option<OrdinaryUser> {
    if !rustix::process::geteuid().is_root() || !installed("setpriv") {
        skip!("only root can become an ordinary user");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    copy_to(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    Some(OrdinaryUser { dir, path })
}

impl OrdinaryUser {
    /// Returns a user for whom all programs are hidden except `program` and those that every test
    /// needs.
    pub(crate) fn with_only(&self, program: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy_to(dir.path());
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["sh", "ping", "getent", "cat", "curl", "id", "setpriv", program] {
            let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
            let place = places.iter().map(|place| Path::new(place).join(name));
            if let Some(found) = place.into_iter().find(|path| path.exists()) {
                symlink(found, dir.path().join(name)).unwrap();
            }
        }
        let path = dir.path().to_str().unwrap().to_owned();
        Self { dir, path }
    }

    /// Returns the command, without arguments, that runs slipring as this user.
    pub(crate) fn words(&self) -> String {
        format!(
            "/usr/bin/env PATH={} setpriv --reuid 65534 --regid 65534 --clear-groups {}",
            self.path,
            self.dir.path().join("slipring").display()
        )
    }

    /// Starts `slipring WORDS` as this user.
    pub(crate) fn slipring(&self, world: &Namespace, words: &str) -> Program {
        let mut slipring = self.program();
        slipring.args(words.split_ascii_whitespace());
        Program::launch(world, slipring)
    }

    /// Starts `slipring run FLAGS -- sh -c SCRIPT` as this user.
    pub(crate) fn start(&self, world: &Namespace, flags: &str, script: &str) -> Program {
        Program::launch(world, command(self.program(), flags, script))
    }

    pub(crate) fn run(&self, world: &Namespace, flags: &str, script: &str) -> FinishedProgram {
        self.start(world, flags, script).finish()
    }

    fn program(&self) -> Command {
        let words = self.words();
        let mut words = words.split(' ');
        let mut slipring = Command::new(words.next().unwrap());
        slipring.args(words);
        slipring
    }

    /// Creates a directory that belongs to this user.
    pub(crate) fn own_dir(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
        dir
    }
}

/// Returns the world, which does not forward, and an ordinary user; `None` if this process cannot
/// make them, or the system forbids user namespaces.
pub(crate) fn both() -> Option<(Namespace, OrdinaryUser)> {
    let (world, person) = (world()?, as_ordinary_user()?);
    forward(&world, false);
    if !user_namespaces_allowed() {
        return None;
    }
    // Ping uses ICMP sockets, which the outer namespace must allow.
    let allow = || std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    world.run(allow).unwrap();
    Some((world, person))
}

#[test]
fn a_server_outside_is_reached_with_the_delay_by_either_program() {
    let Some((world, person)) = both() else { return };
    for program in ["pasta", "slirp4netns"] {
        if !installed(program) {
            continue;
        }
        let person = person.with_only(program);
        let before = things(&world);
        let ping = "ping -n -q -c 3 -i 0.2 10.9.0.1";
        round_trip_takes(&(50.0..100.0), || {
            let ended = person.run(&world, "--delay 25ms", ping);
            assert!(ended.stderr.contains(program), "{ended:#?}");
            ended
        });
        assert_eq!(things(&world), before);
    }
}

#[test]
fn a_download_of_an_ordinary_user_gets_the_rate_of_its_direction() {
    let Some((world, person)) = both() else { return };
    if !installed("iperf3") || !installed("slirp4netns") {
        return;
    }
    let server = Program::start(&world, "iperf3", "-s -1 -B 10.9.0.1 --forceflush");
    server.wait_for_text("Server listening");
    let ended =
        person.run(&world, "-q --rate 10Mbit --delay 10ms", "iperf3 -R -c 10.9.0.1 -t 3 -J");
    let report: serde_json::Value = serde_json::from_str(&ended.well().stdout).unwrap();
    let bps = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    // How close the transfer comes to the configured rate depends on the load of this machine, so
    // the bounds are wide.
    assert!((1e5..10e6).contains(&bps), "{bps}");
}

#[test]
fn the_command_is_who_it_was_and_its_status_is_passed_through() {
    let Some((world, person)) = both() else { return };
    let ended = person.run(&world, "-q", "id -u; exit 9");
    assert_eq!((ended.stdout.as_str(), ended.code()), ("65534\n", 9), "{ended:#?}");
}

#[test]
fn runs_of_an_ordinary_user_nest() {
    let Some((world, person)) = both() else { return };
    let inner = person.dir.path().join("slipring");
    let script =
        format!("{} run -q --delay 20ms -- ping -n -q -c 3 -i 0.2 10.9.0.1", inner.display());
    round_trip_takes(&(70.0..140.0), || person.run(&world, "-q --delay 15ms", &script));
}

#[test]
fn without_either_program_both_are_named_with_the_way_to_get_them() {
    let Some((world, person)) = both() else { return };
    let ended = person.with_only("true").run(&world, "-q", "true");
    assert_eq!(ended.code(), 3, "{ended:#?}");
    for part in ["SR0302", "pasta", "slirp4netns", "apt-get install passt"] {
        assert!(ended.stderr.contains(part), "{ended:#?}");
    }
}

#[test]
fn who_may_not_open_the_tun_device_is_told_how_to() {
    let Some((world, person)) = both() else { return };
    world.run(|| netns::become_private_mounts().unwrap());
    world.command("mount", "-t tmpfs -o mode=755 none /dev/net");
    world.command("mknod", "-m 600 /dev/net/tun c 10 200");
    let ended = person.run(&world, "", "true");
    assert_eq!(ended.code(), 4, "{ended:?}");
    assert!(ended.stderr.contains("sudo chmod 0666 /dev/net/tun"), "{ended:?}");
    assert!(!ended.stderr.contains("default route"), "{ended:?}");
}
