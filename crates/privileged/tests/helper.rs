//! Tests of a helper process: which requests it carries out, which it refuses, and when it ends.
//! This executable is also the helper, so it has its own `main`.
#![allow(clippy::unwrap_used)]

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use slipring_confine::{FORBIDDEN_CALLS, SETUP_ONLY_CALLS, confine};
use slipring_port::iface::{Feature, Iface, set_feature_by_index, set_settings_keeper};
use slipring_port::netlink::Netlink;
use slipring_port::netns::Netns;
use slipring_privileged::{
    HelperOperation, HelperPolicy, HelperRequest, MAX_REQUESTS, PrivilegedHelper, REQUEST_LEN,
    RunFiles, serve_if_started_as_helper,
};

const ALL: [HelperOperation; 7] = [
    HelperOperation::SetFeature,
    HelperOperation::RemoveHiddenLink,
    HelperOperation::SetUp,
    HelperOperation::AddAddress,
    HelperOperation::RemoveAddress,
    HelperOperation::OpenPacketSocket,
    HelperOperation::AttachXdp,
];

type Test = (&'static str, fn(&Lab));

const TESTS: [Test; 13] = [
    ("settings_change_on_allowed_interfaces_only", settings_change_on_allowed_interfaces_only),
    ("operations_that_were_not_allowed_are_refused", operations_that_were_not_allowed_are_refused),
    ("descriptors_are_passed", descriptors_are_passed),
    ("a_broken_message_ends_the_helper", a_broken_message_ends_the_helper),
    ("too_many_requests_end_the_helper", too_many_requests_end_the_helper),
    ("the_helper_has_no_more_capabilities_than_it_needs", the_helper_has_few_capabilities),
    ("hidden_links_of_other_programs_stay", hidden_links_of_other_programs_stay),
    ("the_helper_closes_descriptors_that_it_inherited", the_helper_closes_inherited_descriptors),
    ("lists_of_legacy_tables_are_opened", lists_of_legacy_tables_are_opened),
    ("the_files_of_a_run_are_moved_and_removed", the_files_of_a_run_are_moved_and_removed),
    ("a_helper_that_is_dropped_ends_and_is_reaped", a_helper_that_is_dropped_is_reaped),
    ("a_helper_that_is_killed_ends_its_program", a_helper_that_is_killed_ends_its_program),
    // This must be the last test, because from then on this process has a helper that restores
    // settings.
    ("a_program_without_capabilities_restores_its_interface", a_program_restores_its_interface),
];

fn main() -> ExitCode {
    if let Some(code) = serve_if_started_as_helper() {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    let chosen: Vec<_> = TESTS
        .iter()
        .filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter)))
        .collect();
    println!("\nrunning {} tests", chosen.len());
    let failed: Vec<_> =
        chosen.iter().filter(|(name, test)| !passes(name, *test)).map(|(name, _)| name).collect();
    let (verdict, code) = match failed.is_empty() {
        true => ("ok", ExitCode::SUCCESS),
        false => ("FAILED", ExitCode::FAILURE),
    };
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|name| println!("    {name}"));
    }
    let passed = chosen.len() - failed.len();
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        failed.len()
    );
    code
}

/// Runs a test in its own network namespace; prints its name, and whether it passed, as the usual
/// harness does.
fn passes(name: &str, test: fn(&Lab)) -> bool {
    let run = || {
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(why) => return println!("skipped: no network namespace: {why}"),
        };
        netns
            .run(|| {
                test(&Lab::new());
                Ok(())
            })
            .unwrap();
    };
    let has_passed = std::panic::catch_unwind(run).is_ok();
    println!("test {name} ... {}", if has_passed { "ok" } else { "FAILED" });
    has_passed
}

/// Two links in the calling thread's own namespace.
struct Lab {
    netlink: Netlink,
    allowed: Iface,
    other: Iface,
}

impl Lab {
    fn new() -> Self {
        let netlink = Netlink::open().unwrap();
        netlink.add_veth("allowed", "other", None).unwrap();
        let find = |name| Iface::find(name).unwrap();
        Self { netlink, allowed: find("allowed"), other: find("other") }
    }

    /// Starts a helper for one interface.
    fn helper(&self, operations: &[HelperOperation]) -> PrivilegedHelper {
        PrivilegedHelper::start(&HelperPolicy {
            program: 1234,
            operations: operations.to_vec(),
            interfaces: vec![self.allowed.index],
            run_files: None,
        })
        .unwrap()
    }
}

/// A program that has become another user cannot change the files of its run itself.
fn the_files_of_a_run_are_moved_and_removed(_: &Lab) {
    let dir = std::env::temp_dir().join(format!("slipring-helper-{}", std::process::id()));
    let names = || {
        let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name());
        files.collect::<std::collections::BTreeSet<_>>()
    };
    let start = |operations: &[HelperOperation]| {
        for name in ["1234.sock", "1234.stats", "a.pid", "77.sock"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let run_files = RunFiles {
            dir: dir.clone(),
            name: Some("edge".to_owned()),
            others: vec![dir.join("a.pid")],
        };
        PrivilegedHelper::start(&HelperPolicy {
            program: 1234,
            operations: operations.to_vec(),
            interfaces: Vec::new(),
            run_files: Some(run_files),
        })
        .unwrap()
    };
    std::fs::create_dir(&dir).unwrap();
    let left = ["77.sock".into()].into();
    // The helper removes the files when the program asks for this at its end, and also when the
    // program was killed.
    for asks in [true, false] {
        let helper = start(&[HelperOperation::TakeName, HelperOperation::RemoveRunFiles]);
        helper.request(&HelperRequest::TakeName, None).unwrap();
        assert_eq!(std::fs::read_link(dir.join("edge.sock")).unwrap().to_str(), Some("1234.sock"));
        if asks {
            helper.request(&HelperRequest::RemoveRunFiles, None).unwrap();
            assert_eq!(names(), left);
            assert!(helper.request(&HelperRequest::TakeName, None).is_err(), "the run has ended");
        }
        drop(helper);
        assert_eq!(names(), left, "{asks}");
    }
    let helper = start(&[HelperOperation::TakeName]);
    assert_eq!(errno(helper.request(&HelperRequest::RemoveRunFiles, None)), Some(1));
    drop(helper);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The helper opens the lists of legacy tables, which only root may read, for a program that may
/// not open them.
fn lists_of_legacy_tables_are_opened(lab: &Lab) {
    use std::io::Read;
    let both = [HelperOperation::OpenLegacyTables, HelperOperation::OpenLegacyTables6];
    let requests = [HelperRequest::OpenLegacyTables, HelperRequest::OpenLegacyTables6];
    let read = |mut file: std::fs::File| {
        let mut names = String::new();
        file.read_to_string(&mut names).map(|_| names)
    };
    let helper = lab.helper(&both);
    for (request, name) in requests.iter().zip(["ip_tables_names", "ip6_tables_names"]) {
        let path = format!("/proc/thread-self/net/{name}");
        // A kernel without iptables-legacy has no list.
        let own = std::fs::File::open(path).and_then(read).map_err(|error| error.kind());
        let opened = helper.request(request, None).map(|file| file.unwrap().into());
        assert_eq!(opened.and_then(read).map_err(|error| error.kind()), own, "{name}");
    }
    // A program that watches the tables asks every second, so these requests do not count towards
    // `MAX_REQUESTS`.
    (0..=MAX_REQUESTS).for_each(|_| drop(helper.request(&requests[0], None)));
    assert_ne!(helper.request(&requests[0], None).map_err(|it| it.kind()).err(), Some(BROKEN));
    for (allowed, other) in both.iter().zip(requests.iter().rev()) {
        assert_eq!(errno(lab.helper(&[*allowed]).request(other, None)), Some(libc::EPERM));
    }
}

/// The error of a request to a helper that has ended.
const BROKEN: io::ErrorKind = io::ErrorKind::BrokenPipe;

/// The error number of a request that must fail.
fn errno(answer: io::Result<Option<std::os::fd::OwnedFd>>) -> Option<i32> {
    answer.unwrap_err().raw_os_error()
}

fn settings_change_on_allowed_interfaces_only(lab: &Lab) {
    let helper = lab.helper(&ALL);
    let switch = |iface: &Iface, on| {
        let request = HelperRequest::SetFeature { ifindex: iface.index, feature: Feature::Gro, on };
        helper.request(&request, None)
    };
    switch(&lab.allowed, true).unwrap();
    assert!(lab.allowed.feature(Feature::Gro).unwrap());
    switch(&lab.allowed, false).unwrap();
    assert!(!lab.allowed.feature(Feature::Gro).unwrap());
    assert_eq!(errno(switch(&lab.other, true)), Some(libc::EPERM));
    assert!(!lab.other.feature(Feature::Gro).unwrap());
    let (address, prefix_len) = ("10.9.8.7".parse().unwrap(), 24);
    let ifindex = lab.allowed.index;
    let has = || lab.netlink.addresses(ifindex).unwrap().contains(&(address, prefix_len));
    helper.request(&HelperRequest::AddAddress { ifindex, address, prefix_len }, None).unwrap();
    assert!(has());
    helper.request(&HelperRequest::RemoveAddress { ifindex, address, prefix_len }, None).unwrap();
    assert!(!has());
    helper.request(&HelperRequest::SetUp { ifindex }, None).unwrap();
    assert!(Iface::find("allowed").unwrap().up);
    assert_eq!(
        errno(helper.request(&HelperRequest::SetUp { ifindex: lab.other.index }, None)),
        Some(libc::EPERM)
    );
    assert!(!Iface::find("other").unwrap().up);
}

fn operations_that_were_not_allowed_are_refused(lab: &Lab) {
    let helper = lab.helper(&[HelperOperation::SetFeature]);
    let ifindex = lab.allowed.index;
    for request in [HelperRequest::SetUp { ifindex }, HelperRequest::OpenPacketSocket { ifindex }] {
        assert_eq!(errno(helper.request(&request, None)), Some(libc::EPERM), "{request:?}");
    }
    assert!(!Iface::find("allowed").unwrap().up);
}

fn descriptors_are_passed(lab: &Lab) {
    use slipring_bpf::insn::{BpfReg, exit, mov_imm};
    use slipring_bpf::{BpfProgram, BpfProgramFlags, BpfProgramKind};
    let helper = lab.helper(&ALL);
    let ifindex = lab.allowed.index;
    let socket = helper.request(&HelperRequest::OpenPacketSocket { ifindex }, None).unwrap();
    let kind = rustix::net::sockopt::socket_domain(socket.unwrap()).unwrap();
    assert_eq!(kind, rustix::net::AddressFamily::PACKET);
    let pass = [mov_imm(BpfReg::R0, 2), exit()];
    let loaded = BpfProgram::load(BpfProgramKind::Xdp, "pass", &pass, BpfProgramFlags::default());
    let program = match loaded {
        Ok(program) => program,
        Err(why) => return println!("skipped: {why}"),
    };
    let attach = HelperRequest::AttachXdp { ifindex, native: true };
    let link = helper.request(&attach, Some(program.as_fd())).unwrap();
    assert!(link.is_some());
    let busy = helper.request(&attach, Some(program.as_fd()));
    assert_eq!(errno(busy), Some(libc::EBUSY), "the program is attached");
    drop(link);
    let no_program = io::stdout();
    assert_eq!(errno(helper.request(&attach, Some(no_program.as_fd()))), Some(libc::EINVAL));
}

/// Each of these messages is the last one that its helper reads.
fn a_broken_message_ends_the_helper(lab: &Lab) {
    let ifindex = lab.allowed.index;
    let good = HelperRequest::SetUp { ifindex };
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_bytes().to_vec();
        bytes[at] = byte;
        bytes
    };
    let stdout = io::stdout();
    let cases = [
        ("another version", with(0, 9), None),
        ("an unknown operation", with(2, 99), None),
        ("a field out of range", with(9, 7), None),
        ("oversize", vec![0; 65_536], None),
        ("one byte too many", [&good.to_bytes()[..], &[0]].concat(), None),
        ("one byte too few", good.to_bytes()[..REQUEST_LEN - 1].to_vec(), None),
        ("a descriptor for nothing", good.to_bytes().to_vec(), Some(stdout.as_fd())),
    ];
    for (what, bytes, descriptor) in cases {
        let helper = lab.helper(&ALL);
        let broken = helper.exchange(&bytes, descriptor).unwrap_err();
        let over = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(over.contains(&broken.kind()), "{what}: {broken}");
        assert!(helper.request(&good, None).is_err(), "{what}: it still answers");
    }
    assert!(!Iface::find("allowed").unwrap().up, "nothing was done");
}

fn too_many_requests_end_the_helper(lab: &Lab) {
    let helper = lab.helper(&[HelperOperation::SetFeature]);
    let request = HelperRequest::SetUp { ifindex: lab.allowed.index };
    for _ in 0..MAX_REQUESTS {
        assert_eq!(errno(helper.request(&request, None)), Some(libc::EPERM));
    }
    assert_ne!(errno(helper.request(&request, None)), Some(libc::EPERM));
}

fn the_helper_has_few_capabilities(lab: &Lab) {
    let _helper = lab.helper(&[HelperOperation::SetFeature]);
    let statuses: Vec<_> = running_helpers()
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .collect();
    if statuses.is_empty() {
        return println!("skipped: this kernel does not list children");
    }
    for status in statuses {
        assert!(status.starts_with("Name:\tslipring-privil\n"), "{status}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let line = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
            let bits = u64::from_str_radix(line.trim_start_matches(":\t"), 16).unwrap();
            assert_eq!(bits & !CapabilitySet::NET_ADMIN.bits(), 0, "{set}: {status}");
        }
        assert!(status.contains("\nNoNewPrivs:\t1\n") && status.contains("\nSeccomp:\t2\n"));
    }
}

fn hidden_links_of_other_programs_stay(lab: &Lab) {
    let helper = lab.helper(&ALL);
    let ifindex = lab.allowed.index;
    // The numbers in these names are in base 36. YA is 1234, the helper's program, and YB is 1235.
    let number = base_36(ifindex);
    let names = [format!("srYAh{number}k"), format!("srYBh{number}k")];
    for (name, peer) in names.iter().zip(["p1", "p2"]) {
        lab.netlink.add_veth(name, peer, None).unwrap();
    }
    helper.request(&HelperRequest::RemoveHiddenLink { ifindex }, None).unwrap();
    assert!(Iface::find(&names[0]).is_err());
    assert!(Iface::find(&names[1]).is_ok());
    helper.request(&HelperRequest::RemoveHiddenLink { ifindex }, None).unwrap();
}

fn base_36(number: u32) -> String {
    let rest = if number < 36 { String::new() } else { base_36(number / 36) };
    rest + &char::from_digit(number % 36, 36).unwrap().to_ascii_uppercase().to_string()
}

/// Opens a descriptor that child processes inherit, as if this process had got it from a careless
/// parent.
fn the_helper_closes_inherited_descriptors(lab: &Lab) {
    let file = std::fs::File::open("/dev/null").unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    let before = running_helpers();
    let _helper = lab.helper(&[HelperOperation::SetFeature]);
    let Some(pid) = started_since(&before) else {
        return println!("skipped: this kernel does not list children");
    };
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut numbers: Vec<i32> = entries
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
}

fn a_helper_that_is_dropped_is_reaped(lab: &Lab) {
    let before = children();
    let helper = lab.helper(&[HelperOperation::SetFeature]);
    if started_since(&before).is_none() {
        return println!("skipped: this kernel does not list children");
    }
    drop(helper);
    assert_eq!(children(), before);
}

/// Returns the id of the running helper that is not in the earlier list `before`; `None` if the
/// kernel does not list children.
fn started_since(before: &[i32]) -> Option<i32> {
    let started: Vec<_> =
        running_helpers().into_iter().filter(|pid| !before.contains(pid)).collect();
    assert!(started.len() < 2, "{started:?}");
    started.first().copied()
}

/// The ids of this process's helpers that are still running.
fn running_helpers() -> Vec<i32> {
    let is_running = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    children().into_iter().filter(is_running).collect()
}

/// The ids of this process's children that it has not reaped.
fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
    });
    pids.collect()
}

fn a_helper_that_is_killed_ends_its_program(lab: &Lab) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let asked_to_end = Arc::new(AtomicBool::new(false));
    let handler =
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&asked_to_end));
    let before = running_helpers();
    let helper = lab.helper(&[HelperOperation::SetFeature]);
    helper.end_with_it().unwrap();
    let Some(pid) = started_since(&before) else {
        return println!("skipped: this kernel does not list children");
    };
    assert!(!asked_to_end.load(Ordering::Relaxed));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !asked_to_end.load(Ordering::Relaxed) {
        assert!(std::time::Instant::now() < deadline, "SIGTERM does not come");
        std::thread::yield_now();
    }
    assert!(!children().contains(&pid), "it was reaped before SIGTERM was sent");
    assert!(helper.request(&HelperRequest::SetUp { ifindex: 1 }, None).is_err());
    signal_hook::low_level::unregister(handler.unwrap());
}

fn a_program_restores_its_interface(lab: &Lab) {
    let helper = lab.helper(&[HelperOperation::SetFeature]);
    let was = lab.allowed.feature(Feature::Gro).unwrap();
    let changed = lab.allowed.with_features(&[(Feature::Gro, !was)]);
    assert_eq!(lab.allowed.feature(Feature::Gro).unwrap(), !was);
    assert!(set_settings_keeper(Box::new(helper)));
    let not_dropped = confine(CapabilitySet::empty(), &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
    assert!(not_dropped.is_empty(), "{not_dropped:?}");
    let by_itself = set_feature_by_index(lab.allowed.index, Feature::Gro, was).unwrap_err();
    assert_eq!(by_itself.kind(), io::ErrorKind::PermissionDenied);
    drop(changed);
    assert_eq!(lab.allowed.feature(Feature::Gro).unwrap(), was, "the helper has restored it");
}
