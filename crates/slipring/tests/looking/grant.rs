//! Tests of missing privileges: the commands that errors and `doctor` advise must fix the problem.

use std::process::Command;

use slipring_test_support::{
    FinishedProgram, Namespace, Program, installed, skip, user_namespaces_allowed,
};

use super::document;
use crate::support::SLIPRING;

/// The environment of the commands: a private /etc and /usr/local/bin, and a `sudo` that only runs
/// its command.
const AROUND: &str = r#"set -e
mount -t tmpfs none /mnt
mkdir /mnt/up /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work /etc || exit 99
mount -t tmpfs -o mode=755 none /usr/local/bin
mknod /mnt/tun c 10 200
chmod 0666 /mnt/tun
mount --bind /mnt/tun /dev/net/tun
install -m 755 "$BINARY" /usr/local/bin/slipring
sudo() { "$@"; }
USER=nobody
# The shell between: setpriv itself still has root's capabilities when it executes a program.
as_member() { setpriv --reuid nobody --regid nogroup --init-groups sh -c '"$@"' sh "$@"; }
as_stranger() { setpriv --reuid 12345 --regid 12345 --clear-groups sh -c '"$@"' sh "$@"; }
"#;

/// Runs the advised commands, and then `script`; `None` if this machine cannot.
fn granted(script: &str) -> Option<FinishedProgram> {
    let tools = ["setpriv", "setcap", "groupadd", "usermod"];
    let there = tools.iter().all(|tool| installed(tool));
    if !rustix::process::geteuid().is_root() || !there {
        skip!("takes root, and {}", tools.join(", "));
        return None;
    }
    let namespace = Namespace::new()?;
    let mut command = Command::new("unshare");
    let script = format!("{AROUND}{}\n{script}", slipring_port::GRANT_COMMANDS);
    command.args(["--mount", "sh", "-c", &script]).env("BINARY", SLIPRING);
    let ended = Program::launch(&namespace, command).finish();
    if ended.code() == 99 {
        skip!("no overlay can be mounted here");
        return None;
    }
    Some(ended)
}

#[test]
fn the_copy_that_is_advised_opens_interfaces_for_an_ordinary_user_of_the_group() {
    let Some(ended) = granted("as_member slipring-net doctor --json || true") else { return };
    let found = document(&ended);
    let findings = found["findings"].as_array().unwrap();
    let capabilities = findings.iter().find(|finding| finding["check"] == "capabilities").unwrap();
    assert_eq!(capabilities["state"], "ok", "{ended:#?}");
}

#[test]
fn the_copy_that_is_advised_is_of_no_use_to_others() {
    let Some(ended) = granted("as_stranger slipring-net ports && exit 1 || exit 0") else { return };
    assert_eq!(ended.code(), 0, "{ended:#?}");
    assert!(ended.stderr.contains("ermission denied"), "{ended:#?}");
}

#[test]
fn run_and_demo_work_with_the_copy_that_is_advised() {
    let Some(ended) = granted("as_member slipring-net demo --json --duration 1s") else { return };
    assert_eq!(ended.code(), 0, "{ended:#?}");
    assert_eq!(document(&ended)["ping"]["received"], 5, "{ended:#?}");
    if !installed("slirp4netns") {
        skip!("run as an ordinary user takes slirp4netns");
        return;
    }
    let ended = granted("as_member slipring-net run --nat user --delay 1ms true").unwrap();
    assert_eq!(ended.code(), 0, "{ended:#?}");
}

#[test]
fn a_closed_tun_node_is_opened_by_the_command_that_is_advised() {
    let script = r#"
chmod 0600 /dev/net/tun
send() { as_member slipring-net gen -i tap:zz -f tx -n 1; }
send 2> /mnt/said && exit 90
cat /mnt/said >&2
advised=$(sed -n 's/.*: \(sudo chmod .*\)$/\1/p' /mnt/said)
eval "${advised:-exit 91}"
send"#;
    let Some(ended) = granted(script) else { return };
    assert_eq!(ended.code(), 0, "{ended:#?}");
    assert!(ended.stderr.contains("SR0104"), "{ended:#?}");
    assert!(!ended.stderr.contains("setcap"), "{ended:#?}");
}

#[test]
fn in_a_rootless_container_doctor_and_the_error_tell_what_can_be_had() {
    let Some(namespace) = Namespace::new().filter(|_| user_namespaces_allowed()) else { return };
    let inside = |words: &str| {
        let script = format!(
            "ip link add va type veth peer name vb && ip link set va up && ip link set vb up && \
             exec {SLIPRING} {words}"
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--user", "--net", "sh", "-c", &script]);
        Program::launch(&namespace, command).finish()
    };
    let doctor = inside("doctor --json");
    let found = document(&doctor);
    let findings = found["findings"].as_array().unwrap();
    let capabilities = findings.iter().find(|finding| finding["check"] == "capabilities").unwrap();
    assert_eq!(capabilities["state"], "warn", "{capabilities}");
    assert!(capabilities["mend"].as_str().unwrap().contains("--shared"), "{capabilities}");
    let refused = inside("gen -i xdp:va -f tx -n 1");
    assert_eq!(refused.code(), 3, "{refused:#?}");
    assert!(
        refused.stderr.contains("SR0104") && refused.stderr.contains("--shared"),
        "{refused:#?}"
    );
    assert!(!refused.stderr.contains("setcap"), "{refused:#?}");
    let sent = inside("gen -i packet:va --shared -f tx -n 1");
    assert_eq!(sent.code(), 0, "{sent:#?}");
}
