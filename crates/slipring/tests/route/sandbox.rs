//! A router that becomes another user before it forwards (`--user`, `[sandbox]`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use slipring_bpf::{BpfAttachType, attached_programs};
use slipring_port::iface::Iface;
use slipring_test_support::{Program, eventually, skip};

use crate::continuity::{Stream, is_forwarding};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, Subject, v4};

crate::program_checks! {
    for crate::sandbox::UnprivilegedSetup:
    all_threads_are_the_user_without_privileges,
    a_router_of_another_user_forwards_answers_and_leaves_nothing_behind,
    a_router_of_another_user_is_taken_over_by_one,
    what_the_user_cannot_read_is_reloaded_after_the_command_that_the_error_names,
}

crate::instances! {
    once: crate::sandbox::UnprivilegedSetup = crate::rig::Subject::Slipring("xdp"),
    a_router_of_another_user_that_is_killed_leaves_no_file_behind,
    an_unknown_user_is_found_by_a_check,
    a_port_that_the_user_cannot_have_is_found_by_a_check
}

/// A user without an entry in the list of users.
const USER: u32 = 4711;

/// A rig on a machine where a process may become another user.
struct UnprivilegedSetup(Setup);

impl UnprivilegedSetup {
    fn new(subject: Subject) -> Option<Self> {
        let words =
            [&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "true"];
        let changed = Command::new("setpriv").args(words).output();
        if !changed.as_ref().is_ok_and(|it| it.status.success()) {
            skip!("a process cannot become another user here: {changed:?}");
            return None;
        }
        Setup::new(subject).map(Self)
    }

    fn start(self) -> Rig {
        self.0.with_flags(&format!("--user {USER} --name edge")).start()
    }
}

/// The kernel's status of each thread of a program.
fn statuses(program: &Program) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.pid())).unwrap();
    // A thread may end between the listing and this read.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok()).collect()
}

fn value<'s>(status: &'s str, key: &str) -> &'s str {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| *name == key).unwrap().1.trim()
}

/// Asserts that the threads of the program have no capability, except one thread that keeps
/// CAP_NET_ADMIN, without which the kernel does not list nftables and IPsec. This thread reads the
/// list of the tables of iptables-legacy through the helper, so it needs no CAP_DAC_READ_SEARCH.
fn assert_confined(program: &Program) {
    let mut privileged = Vec::new();
    let threads = statuses(program);
    assert!(threads.len() > 3, "{threads:?}");
    for status in &threads {
        for key in ["Uid", "Gid"] {
            let ids: BTreeSet<_> = value(status, key).split_ascii_whitespace().collect();
            assert_eq!(ids, [&*USER.to_string()].into(), "{status}");
        }
        assert_eq!(value(status, "Groups"), "", "{status}");
        assert_eq!((value(status, "NoNewPrivs"), value(status, "Seccomp")), ("1", "2"), "{status}");
        if value(status, "CapEff") != "0".repeat(16) {
            privileged.push(value(status, "CapEff"));
        }
    }
    assert_eq!(privileged, [format!("{:016x}", 1 << 12)]);
}

fn all_threads_are_the_user_without_privileges(setup: UnprivilegedSetup) {
    let rig = setup.start();
    let program = rig.take_program();
    assert_confined(&program);
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"as the user")]);
    rig.ask(&["status"]);
    assert_confined(&program);
    program.stop(Signal::INT).well();
}

/// Files of the run directory, except the lock.
fn run_files(dir: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(dir).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "control.lock").collect()
}

/// Returns whether a BPF program is attached to an interface of the router, at XDP or at tcx. ip(8)
/// does not show programs at tcx, which [`Subject::Slipring`] uses with `packet`.
fn has_program(rig: &Rig, ifname: &'static str) -> bool {
    let tcx = rig.router.run(move || {
        let ifindex = Iface::find(ifname).unwrap().index;
        // A kernel without tcx has no such program.
        [BpfAttachType::TcxIngress, BpfAttachType::TcxEgress]
            .map(|hook| attached_programs(ifindex, hook).unwrap_or(0))
    });
    let link = rig.router.ip(&format!("-d link show dev {ifname}"));
    link.contains("xdp") || tcx != [0, 0]
}

/// Asserts that a BPF program is attached to each interface of the router.
fn is_attached(rig: &Rig) {
    assert!(["e0", "e1"].iter().all(|ifname| has_program(rig, ifname)));
}

/// Waits until no BPF program is attached to an interface of the router any more.
fn is_detached(rig: &Rig) {
    for ifname in ["e0", "e1"] {
        eventually("the interface without program", || (!has_program(rig, ifname)).then_some(()));
    }
}

fn a_router_of_another_user_forwards_answers_and_leaves_nothing_behind(setup: UnprivilegedSetup) {
    let rig = setup.start();
    let program = rig.take_program();
    let pid = program.pid();
    let files = ["edge.sock".to_owned(), format!("{pid}.sock"), format!("{pid}.stats")];
    assert_eq!(run_files(rig.run_dir()), files.into());
    let packets: Vec<_> = (0..64).map(|i| Packet::udp(v4().a, v4().b, &[i])).collect();
    rig.forwards(&packets);
    assert_eq!(rig.ask(&["status", "--name", "edge"])["state"], "forwarding");
    rig.ip("route add 10.77.0.0/16 via 10.3.0.2");
    rig.until(|| {
        let verified = rig.ask(&["fib", "verify"]);
        (verified["missing"] == 0 && verified["different"] == 0).then_some(())
    });
    is_attached(&rig);
    program.stop(Signal::TERM).well();
    assert_eq!(run_files(rig.run_dir()), BTreeSet::new());
    is_detached(&rig);
    rig.forwards(&packets);
}

fn a_router_of_another_user_is_taken_over_by_one(setup: UnprivilegedSetup) {
    let rig = setup.start();
    let running = rig.take_program();
    let mut stream = Stream::new(&rig);
    stream.flow(500);
    let next = rig.launch_program("--takeover");
    stream.flow_until("a takeover", |_| {
        assert!(!next.has_ended(), "{:#?}", next.so_far());
        is_forwarding(&next) && running.has_ended()
    });
    running.finish().well();
    stream.flow(500);
    stream.each_has_arrived_once();
    assert_confined(&next);
    assert_eq!(rig.ask(&["hello", "--name", "edge"])["pid"].as_u64(), Some(next.pid().into()));
    is_attached(&rig);
    next.stop(Signal::INT).well();
    assert_eq!(run_files(rig.run_dir()), BTreeSet::new());
    is_detached(&rig);
}

/// The file of settings is in a directory that only root may enter, and only root may read it.
fn what_the_user_cannot_read_is_reloaded_after_the_command_that_the_error_names(
    setup: UnprivilegedSetup,
) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let path = dir.path().join("edge.toml");
    let settings = |errors: u32| {
        fs::write(
            &path,
            format!("[sandbox]\nuser = \"{USER}\"\n[icmp]\nerrors_per_s = {errors}\n"),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    settings(100);
    let rig = setup.0.with_flags(&format!("--config {}", path.display())).start();
    let program = rig.take_program();
    program.wait_for_text("so it cannot be reloaded: chmod o+x");
    assert_confined(&program);
    settings(200);
    let mut commands = Vec::new();
    loop {
        let reloaded = rig.tell(&["reload"]);
        if reloaded.code() == 0 {
            break;
        }
        let mut lines = reloaded.stderr.lines().map(str::trim);
        let command = lines.find_map(|line| line.strip_prefix("help: ")).unwrap().to_owned();
        assert!(commands.len() < 4, "{commands:?}: {}", reloaded.stderr);
        let done = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(done.success(), "{command}");
        commands.push(command);
    }
    let expected =
        [format!("chmod o+x {}", dir.path().display()), format!("chmod o+r {}", path.display())];
    assert_eq!(commands, expected);
    program.stop(Signal::INT).well();
}

fn a_router_of_another_user_that_is_killed_leaves_no_file_behind(setup: UnprivilegedSetup) {
    let rig = setup.start();
    crate::lifecycle::kill(&rig);
    eventually("the helper to remove the files", || {
        run_files(rig.run_dir()).is_empty().then_some(())
    });
}

fn an_unknown_user_is_found_by_a_check(setup: UnprivilegedSetup) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    fs::write(&path, "interfaces = [\"e0\", \"e1\"]\n\n[sandbox]\nuser = \"deamon\"\n").unwrap();
    let check = |words: &str| {
        let mut command = Command::new(crate::topology::SLIPRING);
        command.arg("route").args(words.split(' ')).arg("--check");
        Program::launch(&setup.0.router, command).finish()
    };
    let found = check(&format!("--config {}", path.display()));
    assert_eq!(found.code(), 2);
    for part in ["sandbox.user cannot be \"deamon\"", "line 4", "did you mean `daemon`?"] {
        assert!(found.stderr.contains(part), "no `{part}` in {}", found.stderr);
    }
    let found = check("e0 e1 --user deamon");
    assert_eq!(found.code(), 2);
    assert!(found.stderr.contains("did you mean `daemon`?"), "{}", found.stderr);
    assert_eq!(check(&format!("e0 e1 --user {USER}")).code(), 0);
}

fn a_port_that_the_user_cannot_have_is_found_by_a_check(setup: UnprivilegedSetup) {
    let mut command = Command::new(crate::topology::SLIPRING);
    command.args(["route", "e0", "e1", "--user", "4711", "--metrics", "127.0.0.1:80", "--check"]);
    let found = Program::launch(&setup.0.router, command).finish();
    assert_eq!(found.code(), 2);
    assert!(found.stderr.contains("ports below 1024"), "{}", found.stderr);
}
