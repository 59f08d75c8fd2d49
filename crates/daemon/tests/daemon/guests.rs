//! Tests of virtual machines in switches: QEMU, with an unmodified Debian kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use slipring_cli::Verb;
use slipring_datapath::captured_run::run_captured;
use slipring_test_support::{Namespace, Program, Sandbox, eventually, skip};

use crate::SLIPRING;

static VERBS: [Verb; 1] = [slipring_vale::VERB];

/// Runs `slipring vale` with these arguments; returns its report.
pub(crate) fn vale(site: &Sandbox, words: &str) -> serde_json::Value {
    let (device, run_dir) = (site.run_dir().join("netmap"), site.run_dir());
    let (device, run_dir) = (device.display(), run_dir.display());
    let args = format!("{words} --device {device} --run-dir {run_dir} --json");
    let outcome = site.inside.run(move || {
        let outcome = run_captured(&VERBS, "vale", &args, Path::new(""));
        (outcome.status, outcome.stdout, outcome.stderr)
    });
    assert_eq!(outcome.0, 0, "{}", outcome.2);
    serde_json::from_str(&outcome.1).expect(&outcome.2)
}

/// Returns the directory with kernel and initrd, or the reason why there is none.
pub(crate) fn kit() -> Result<PathBuf, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/kit.sh");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let done = Command::new("sh").arg(script).arg(&dir).output().unwrap();
    let why = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).trim().to_owned();
    match done.status.code() {
        Some(0) if !is_there("qemu-system-x86_64") => Err("no qemu-system-x86_64".into()),
        Some(0) => Ok(dir),
        Some(77) => Err(why),
        code => panic!("kit.sh: {code:?}: {why}"),
    }
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()))
}

/// Boots a virtual machine that pings the others. It is connected through a socket.
pub(crate) fn boot(site: &Sandbox, kit: &Path, socket: &Path, host: u8, peers: &str) -> Program {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(
        "-accel tcg -cpu max -nodefaults -no-user-config -display none -no-reboot".split(' '),
    );
    qemu.args(["-serial", "stdio", "-m", "128M", "-M", "pc,memory-backend=memory"]);
    qemu.args(["-object", "memory-backend-memfd,id=memory,size=128M,share=on"]);
    qemu.arg("-chardev").arg(format!("socket,id=port,path={},reconnect=1", socket.display()));
    qemu.args(["-netdev", "vhost-user,id=net,chardev=port"]);
    // The device must have no MSI-X vectors. With them, QEMU 7.2 crashes if it has neither KVM nor
    // its own virtqueues.
    let device = format!("virtio-net-pci,netdev=net,mac=52:54:00:00:00:{host:02x}");
    qemu.arg("-device").arg(format!("{device},romfile=,vectors=0"));
    qemu.arg("-kernel").arg(kit.join("kernel")).arg("-initrd").arg(kit.join("initrd"));
    let words =
        format!("console=ttyS0 quiet no_timer_check panic=-1 address=10.9.8.{host} peers={peers}");
    qemu.arg("-append").arg(words);
    Program::launch(&site.inside, qemu)
}

/// Returns whether a virtual machine answers a ping within a second. A busy machine may take
/// longer.
fn answers(from: &Namespace, host: u8) -> bool {
    from.attempt("ping", &format!("-q -c 1 -W 1 10.9.8.{host}")).0
}

/// Pings a virtual machine until it answers.
pub(crate) fn answers_in_time(from: &Namespace, host: u8) {
    eventually("an answer of the guest", || answers(from, host).then_some(()));
}

#[test]
fn virtual_machines_and_a_namespace_reach_each_other_through_a_switch() {
    let kit = match kit() {
        Ok(kit) => kit,
        Err(why) => return skip!("{why}"),
    };
    let (Some(site), Some(outside)) = (Sandbox::new(SLIPRING), Namespace::new()) else { return };
    site.inside.veth("e0", &outside, "e1", "");
    outside.silence("e1");
    outside.ip("addr add 10.9.8.9/24 dev e1");
    outside.ip("link set e1 up");
    let daemon = site.daemon("");
    let sockets = [site.path("g1"), site.path("g2")];
    vale(&site, "-a vale0:e0");
    for socket in &sockets {
        vale(&site, &format!("-a vale0:vhost:{}", socket.display()));
    }
    let first = boot(&site, &kit, &sockets[0], 1, "10.9.8.2,10.9.8.9");
    let second = boot(&site, &kit, &sockets[1], 2, "10.9.8.1,10.9.8.9");
    for guest in [&first, &second] {
        guest.wait_for_text("guest: up");
        guest.wait_for_text("guest: has pinged");
        guest.wait_for_text("guest: done");
        let output = guest.so_far().stdout;
        let whole = output.matches("3 packets transmitted, 3").count();
        assert_eq!(whole, 6, "nothing is lost, whatever its length: {output}");
    }
    outside.ping_all(20, "-s 1472", "10.9.8.2");

    // If a virtual machine is killed, no other port is affected, and another virtual machine can
    // connect in its place.
    drop(second);
    eventually("its silence", || (!answers(&outside, 2)).then_some(()));
    answers_in_time(&outside, 1);
    let third = boot(&site, &kit, &sockets[1], 3, "10.9.8.1,10.9.8.9");
    third.wait_for_text("guest: up");
    third.wait_for_text("guest: done");
    answers_in_time(&outside, 3);

    let listed = vale(&site, "");
    assert_eq!(listed["switch_ports"].as_array().map(Vec::len), Some(3), "{listed}");
    vale(&site, &format!("-d vale0:vhost:{}", sockets[0].display()));
    assert!(!sockets[0].exists(), "the socket goes with the port");
    answers_in_time(&outside, 3);
    daemon.stop(Signal::TERM).well();
    assert!(!sockets[1].exists());

    // The virtual machine reconnects as soon as there is a socket to connect to.
    let _next = site.daemon("");
    vale(&site, "-a vale0:e0");
    vale(&site, &format!("-a vale0:vhost:{}", sockets[1].display()));
    answers_in_time(&outside, 3);
}
