//! Tests the privileges of running programs, which docs/privileges.md lists, by the kernel's status
//! of each thread.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use slipring_test_support::{Lab, LabPort, Namespace, Program, eventually, installed, skip};

use crate::support::SLIPRING;

const NOTHING: CapabilitySet = CapabilitySet::empty();
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// The kernel's status of a thread.
#[derive(Debug)]
struct Status(BTreeMap<String, String>);

impl Status {
    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect())
    }

    fn capabilities(&self, set: &str) -> CapabilitySet {
        CapabilitySet::from_bits_retain(u64::from_str_radix(&self.0[set], 16).unwrap())
    }

    /// Returns whether the thread has `no_new_privs` and a seccomp filter, and none of its
    /// capability sets contains a capability that is not in `kept`.
    fn is_confined_to(&self, kept: CapabilitySet) -> bool {
        let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
        let nothing_more = |set: &&str| kept.contains(self.capabilities(set));
        self.0["NoNewPrivs"] == "1" && self.0["Seccomp"] == "2" && sets.iter().all(nothing_more)
    }
}

/// Returns the capabilities that threads with a raised priority keep: CAP_SYS_NICE if this process
/// may not raise resource limits, otherwise none.
fn priorities() -> CapabilitySet {
    let own = of_this_process().capabilities("CapEff");
    let raises = own.contains(CapabilitySet::SYS_RESOURCE);
    if raises { NOTHING } else { CapabilitySet::SYS_NICE }
}

/// Returns the status of each thread of a program.
fn statuses(program: &Program) -> Vec<Status> {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.pid())).into_iter().flatten();
    // A thread may end between the listing and this read.
    let texts = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    texts.map(|text| Status::parse(&text)).collect()
}

/// Waits until no thread of a program has more than `kept`, and the first thread has all of `kept`
/// that this process has.
fn wait_until_confined(words: &str, program: &Program, kept: CapabilitySet) {
    let own = of_this_process().capabilities("CapEff");
    eventually(&format!("`{words}` to be confined to {kept:?}"), || {
        assert!(!program.so_far().stderr.contains("error["), "`{words}` does not start");
        let threads = statuses(program);
        let first = threads.first()?;
        let confined = threads.iter().all(|thread| thread.is_confined_to(kept));
        (confined && first.capabilities("CapEff") == kept & own).then_some(())
    });
}

fn of_this_process() -> Status {
    Status::parse(&fs::read_to_string("/proc/self/status").unwrap())
}

/// Writes a capture of one frame, and returns its path. The frame is to be sent again and again.
fn capture(dir: &Path) -> String {
    let path = dir.join("in.pcap");
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x0004_0000, 1];
    let packet = [0, 0, 60, 60].into_iter().chain([0; 15]);
    let words = header.into_iter().chain(packet);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_running_program_has_given_up_what_it_does_not_need() {
    let Some(lab) = Lab::quiet(LabPort::Best) else { return };
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules");
    fs::write(&rules, "add allow ip from any to any\n").unwrap();
    let capture = capture(dir.path());
    let (rules, at) = (rules.display(), dir.path().display());
    for (words, kept) in [
        ("bridge -i netmap:la -i netmap:ra".to_owned(), NOTHING),
        ("bridge -i netmap:la".to_owned(), NOTHING),
        ("bridge -i packet:la -i packet:ra".to_owned(), NOTHING),
        ("bridge -i tap:ta -i null:".to_owned(), NOTHING),
        (format!("bridge -i vhost:{at}/guest.sock -i null:"), FILES),
        ("gen -i netmap:la -f tx -R 100".to_owned(), NOTHING),
        ("gen -i null: -f tx -R 100 --spin".to_owned(), NOTHING),
        ("emulate -i netmap:la -i netmap:ra -D 1ms".to_owned(), FILES | priorities()),
        (
            "emulate -i tap:ta -i tap:tb -D 1ms --metrics 127.0.0.1:80".to_owned(),
            FILES | CapabilitySet::NET_BIND_SERVICE | priorities(),
        ),
        (format!("replay -f {capture} -i null: --loops 0 --loop-gap 1ms"), FILES),
        (format!("firewall -i netmap:la -i netmap:ra --rules {rules}"), FILES),
        ("lb -i netmap:la --outputs netmap:ra".to_owned(), NOTHING),
        ("dedup -i netmap:la -i netmap:ra".to_owned(), NOTHING),
        ("trace -i netmap:la".to_owned(), NOTHING),
        ("trace -i packet:la --metrics 127.0.0.1:81".to_owned(), CapabilitySet::NET_BIND_SERVICE),
        ("dump -i netmap:la".to_owned(), NOTHING),
        ("dump -i packet:la".to_owned(), NOTHING),
        (format!("dump -i packet:la -w {at}/out.pcap -G 1"), FILES),
        ("serve --listen 127.0.0.1:0".to_owned(), FILES),
    ] {
        let program = Program::start(&lab.mid, SLIPRING, &words);
        wait_until_confined(&words, &program, kept);
        program.stop(Signal::INT);
    }
}

/// Returns command lines of programs with host rings, and the capabilities that each program keeps.
fn programs_with_host_rings() -> [(&'static str, CapabilitySet); 8] {
    [
        ("bridge -i netmap:la", NOTHING),
        ("gen -i netmap:la^ -f rx", NOTHING),
        ("lb -i netmap:la^ --outputs netmap:ra", NOTHING),
        ("dedup -i netmap:la^ -i netmap:ra", NOTHING),
        ("trace -i netmap:la^", NOTHING),
        ("dump -i netmap:la^", NOTHING),
        ("emulate -i netmap:la -i netmap:la^ -D 1ms", FILES | priorities()),
        ("firewall -i netmap:la -i netmap:la^", FILES),
    ]
}

/// Returns a word that `ip link` shows only if a program has left something on the interfaces;
/// `None` if there is none.
fn left_on(lab: &Lab) -> Option<&'static str> {
    let links = lab.mid.ip("-d link show");
    ["xdp", "PROMISC", ": sr", "promiscuity 1"].into_iter().find(|trace| links.contains(trace))
}

/// Without CAP_SYS_ADMIN, a program cannot put the veth pair of its host rings into a separate
/// namespace. So the kernel does not remove the pair when the program ends; the program itself
/// must.
#[test]
fn a_program_without_capabilities_restores_its_interfaces_when_it_ends() {
    let Some(lab) = Lab::quiet(LabPort::Best) else { return };
    if !installed("setpriv") {
        return;
    }
    for (words, kept) in programs_with_host_rings() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin", SLIPRING]).args(words.split(' '));
        let program = Program::launch(&lab.mid, command);
        wait_until_confined(words, &program, kept);
        assert!(left_on(&lab).is_some(), "`{words}` takes an interface");
        program.stop(Signal::INT).well();
        assert_eq!(left_on(&lab), None, "`{words}` leaves it");
    }
}

#[test]
fn a_killed_program_without_capabilities_leaves_its_interfaces_as_they_were() {
    let Some(lab) = Lab::quiet(LabPort::Best) else { return };
    for (words, kept) in programs_with_host_rings() {
        let program = Program::start(&lab.mid, SLIPRING, words);
        wait_until_confined(words, &program, kept);
        program.stop(Signal::KILL);
        // The kernel removes namespaces in the background.
        eventually(&format!("all of `{words}` to go"), || left_on(&lab).is_none().then_some(()));
    }
}

#[test]
fn top_has_given_up_what_it_does_not_need() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let slipring = |words: &str| {
        let mut command = Command::new(SLIPRING);
        command.args(words.split(' ')).env("SLIPRING_RUN", &run);
        command
    };
    let watched = Program::launch(&namespace, slipring("gen -i null: -f tx -R 100 --json=lines"));
    watched.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
    let top = Program::launch(&namespace, slipring("top --json=lines"));
    wait_until_confined("top", &top, FILES);
    top.stop(Signal::INT).well();
}

#[test]
fn the_command_of_a_run_may_do_all_that_its_caller_may() {
    let Some(namespace) = Namespace::new() else { return };
    let own = of_this_process();
    let ended = Program::start(
        &namespace,
        SLIPRING,
        "run -q --nat user --delay 1ms -- cat /proc/self/status",
    )
    .finish();
    if ended.code() != 0 {
        return skip!("no run here: {}", ended.stderr);
    }
    for key in ["NoNewPrivs", "Seccomp", "CapInh", "CapBnd", "CapAmb"] {
        let message = ended.stdout.lines().find_map(|line| line.strip_prefix(&format!("{key}:\t")));
        assert_eq!(message, Some(&*own.0[key]), "{key}: {ended:#?}");
    }
}
