//! Tests the privileges of running programs, which docs/privileges.md lists, by the kernel's status
//! of each thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use slipring_test_support::tree::root;
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
    let commands = [
        "bridge -i netmap:la -i netmap:ra".to_owned(),
        "bridge -i netmap:la".to_owned(),
        "bridge -i packet:la -i packet:ra".to_owned(),
        "bridge -i tap:ta -i null:".to_owned(),
        format!("bridge -i vhost:{at}/guest.sock -i null:"),
        "gen -i netmap:la -f tx -R 100".to_owned(),
        "gen -i null: -f tx -R 100 --spin".to_owned(),
        "emulate -i netmap:la -i netmap:ra -D 1ms".to_owned(),
        "emulate -i tap:ta -i tap:tb -D 1ms --metrics 127.0.0.1:80".to_owned(),
        format!("replay -f {capture} -i null: --loops 0 --loop-gap 1ms"),
        format!("firewall -i netmap:la -i netmap:ra --rules {rules}"),
        "lb -i netmap:la --outputs netmap:ra".to_owned(),
        "dedup -i netmap:la -i netmap:ra".to_owned(),
        "trace -i netmap:la".to_owned(),
        "trace -i packet:la --metrics 127.0.0.1:81".to_owned(),
        "dump -i netmap:la".to_owned(),
        "dump -i packet:la".to_owned(),
        format!("dump -i packet:la -w {at}/out.pcap -G 1"),
        "serve --listen 127.0.0.1:0".to_owned(),
    ];
    let table = DocumentedTable::read();
    // `extcap` needs a FIFO that Wireshark reads, and the others have tests of their own.
    let tested = commands.iter().filter_map(|words| words.split(' ').next());
    let others = table.programs_without(&tested.collect());
    assert_eq!(others, ["bench", "daemon", "demo", "extcap", "route", "run", "top"]);
    for words in commands {
        let kept = table.kept_by(&words);
        let program = Program::start(&lab.mid, SLIPRING, &words);
        wait_until_confined(&words, &program, kept);
        program.stop(Signal::INT);
    }
}

/// The table in docs/privileges.md: the commands of each row, and what they keep with ports of
/// interfaces, and with others.
struct DocumentedTable(Vec<(Vec<String>, [String; 2])>);

impl DocumentedTable {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("docs/privileges.md")).unwrap();
        let table = text.lines().skip_while(|line| !line.starts_with("| program |"));
        let rows = table.take_while(|line| line.starts_with("|")).skip(2);
        let row = |line: &str| {
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            let commands = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
            (commands, [cells[2].clone(), cells[3].clone()])
        };
        Self(rows.map(row).collect())
    }

    /// Returns the programs of the table that are not in `tested`, in alphabetical order.
    fn programs_without(&self, tested: &BTreeSet<&str>) -> Vec<&str> {
        let commands = self.0.iter().flat_map(|(commands, _)| commands);
        let programs = commands.filter_map(|command| command.split(' ').next());
        let others = programs.filter(|name| !name.starts_with('-') && !tested.contains(name));
        others.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns what a command keeps by the row for its program, and by the reasons below the table.
    fn kept_by(&self, words: &str) -> CapabilitySet {
        let all: Vec<_> = words.split(' ').collect();
        let fits = |command: &String| command.split(' ').all(|word| all.contains(&word));
        // The row for `dump -w` precedes that for `dump`.
        let longest = |commands: &[String]| {
            commands.iter().filter(|command| fits(command)).map(|command| command.len()).max()
        };
        let rows = self.0.iter().filter_map(|(names, kept)| Some((longest(names)?, kept)));
        let (_, kept) = rows.rev().max_by_key(|(len, _)| *len).expect(words);
        let has_interface = ["netmap:", "packet:"].iter().any(|kind| words.contains(kind));
        let text = &kept[usize::from(!has_interface)];
        assert!(text.starts_with("nothing") || text.starts_with("CAP_DAC_OVERRIDE"), "{text}");
        let mut kept = if text.starts_with("nothing") { NOTHING } else { FILES };
        if words.contains("vhost:") {
            kept |= FILES;
        }
        if words.contains("--metrics 127.0.0.1:8") {
            kept |= CapabilitySet::NET_BIND_SERVICE;
        }
        if words.starts_with("emulate") {
            kept |= priorities();
        }
        kept
    }
}

/// Command lines of programs with host rings.
const WITH_HOST_RINGS: [&str; 8] = [
    "bridge -i netmap:la",
    "gen -i netmap:la^ -f rx",
    "lb -i netmap:la^ --outputs netmap:ra",
    "dedup -i netmap:la^ -i netmap:ra",
    "trace -i netmap:la^",
    "dump -i netmap:la^",
    "emulate -i netmap:la -i netmap:la^ -D 1ms",
    "firewall -i netmap:la -i netmap:la^",
];

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
    for words in WITH_HOST_RINGS {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin", SLIPRING]).args(words.split(' '));
        let program = Program::launch(&lab.mid, command);
        wait_until_confined(words, &program, DocumentedTable::read().kept_by(words));
        assert!(left_on(&lab).is_some(), "`{words}` takes an interface");
        program.stop(Signal::INT).well();
        assert_eq!(left_on(&lab), None, "`{words}` leaves it");
    }
}

#[test]
fn a_killed_program_without_capabilities_leaves_its_interfaces_as_they_were() {
    let Some(lab) = Lab::quiet(LabPort::Best) else { return };
    for words in WITH_HOST_RINGS {
        let program = Program::start(&lab.mid, SLIPRING, words);
        wait_until_confined(words, &program, DocumentedTable::read().kept_by(words));
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
    wait_until_confined("top", &top, DocumentedTable::read().kept_by("top"));
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
