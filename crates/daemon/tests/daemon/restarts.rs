//! Tests that kill a worker while programs run. The programs must continue.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use slipring_port::forward;
use slipring_test_support::sandbox::{NOBODY, output};
use slipring_test_support::{Namespace, Program, Sandbox, eventually, skip};

use crate::SLIPRING;
use crate::crowds::start;
use crate::guests::{answers_in_time, boot, kit, vale};
use crate::kernel::open;

/// A number of frames that takes seconds to send.
const LONG: u64 = 30_000_000;

/// The flag `NR_EXCLUSIVE`, as the C program takes it.
const EXCLUSIVE: &str = "0x800";

/// A supervisor and its workers.
struct Supervised {
    supervisor: Program,
    workers: usize,
}

impl Supervised {
    fn start(site: &Sandbox, words: &str) -> Self {
        Self { supervisor: site.daemon(&format!("--supervise {words}")), workers: 1 }
    }

    fn worker(&self) -> Pid {
        let pid = self.supervisor.pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        eventually("a worker", || {
            let children = fs::read_to_string(&children).unwrap();
            Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
        })
    }

    fn kill(&mut self) {
        kill_process(self.worker(), Signal::KILL).unwrap();
        self.workers += 1;
    }

    /// Waits until a worker runs that replaces the killed one.
    fn goes_on(&self) {
        let workers = self.workers;
        self.supervisor.wait_for("the next worker", |output| {
            (output.stdout.matches("transport=fuse").count() == workers).then_some(())
        });
    }

    fn kill_and_wait(&mut self) {
        self.kill();
        self.goes_on();
    }
}

/// A stopped worker stands for a worker that hangs: neither answers requests.
#[test]
fn a_worker_that_does_not_answer_is_replaced_and_programs_go_on() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let receiver = site.client(&format!("receive x}}1 {LONG}"));
    receiver.wait_for_text("bound");
    let sender = site.client(&format!("send x{{1 {LONG}"));
    let mut hung = Vec::new();
    for _ in 0..2 {
        let worker = daemon.worker();
        kill_process(worker, Signal::STOP).unwrap();
        hung.push(worker);
        daemon.workers += 1;
        daemon.goes_on();
    }
    assert!(!hung.contains(&daemon.worker()), "another one serves");
    sender.finish().well();
    assert_eq!(output(receiver.finish()), "bound\nreceived");
    let stopped = daemon.supervisor.stop(Signal::TERM).well();
    let silences: Vec<_> = stopped.stderr.lines().filter_map(silence).collect();
    assert_eq!(silences.len(), 2, "{stopped:?}");
    let is_long = |(length, counted): &(u64, u64)| (700..=*length).contains(counted);
    assert!(silences.iter().all(is_long), "{stopped:?}");
    site.is_clean();
}

/// Returns the length of the silence for which a worker was killed, and how much of it counted, in
/// ms, if the line says so.
fn silence(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("the worker has ended (killed after ")?;
    let (length, rest) = rest.split_once(" ms without an answer, in ")?;
    let (counted, rest) = rest.split_once(" ms of which it could have given one)")?;
    assert_eq!(rest, ": another takes over");
    Some((length.parse().unwrap(), counted.parse().unwrap()))
}

/// Returns how often the first thread of a process has gone to sleep.
fn wakes(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_supervisor_that_was_stopped_itself_blames_no_worker() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = Supervised::start(&site, "");
    let worker = daemon.worker();
    let supervisor = Pid::from_raw(daemon.supervisor.pid() as i32).unwrap();
    for _ in 0..3 {
        daemon.supervisor.signal(Signal::STOP);
        // The worker wakes each time it signals that it is alive. The stopped supervisor does not
        // read these signals.
        let before = wakes(worker);
        eventually("the worker to be long alive", || (wakes(worker) >= before + 8).then_some(()));
        site.exchange("x{1", "x}1", 500);
        daemon.supervisor.signal(Signal::CONT);
        // At most ten notifications of the worker can wait in the socket; one more would block the
        // worker. A supervisor that sleeps has read all of them, so the next round starts with an
        // empty socket.
        let before = wakes(supervisor);
        eventually("the supervisor to sleep", || (wakes(supervisor) > before).then_some(()));
    }
    site.exchange("x{1", "x}1", 500);
    assert_eq!(daemon.worker(), worker);
    let stopped = daemon.supervisor.stop(Signal::TERM).well();
    assert_eq!(stopped.stderr, "");
    site.is_clean();
}

/// Waits for a pseudo-random time, so that the worker is killed at different moments of the
/// traffic.
fn some_time(random: &mut u64) {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    std::thread::sleep(Duration::from_micros((*random >> 33) % 30_000));
}

#[test]
fn every_frame_of_a_pipe_arrives_once_though_the_worker_is_killed_again_and_again() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let receiver = site.client(&format!("receive x}}1 {LONG}"));
    receiver.wait_for_text("bound");
    let sender = site.client(&format!("send x{{1 {LONG}"));
    let mut random = 5;
    for _ in 0..6 {
        some_time(&mut random);
        daemon.kill_and_wait();
    }
    assert_eq!(sender.so_far().stdout, "", "it was under way");
    sender.finish().well();
    assert_eq!(output(receiver.finish()), "bound\nreceived");
    let stopped = daemon.supervisor.stop(Signal::TERM).well();
    assert_eq!(stopped.stderr.matches("another takes over").count(), 6, "{stopped:?}");
    site.is_clean();
}

/// A program that sends bursts from one port to another, and checks that no frame arrives twice or
/// out of order.
struct SequenceChecker {
    program: Program,
    asked: usize,
}

impl SequenceChecker {
    fn start(site: &Sandbox, words: &str) -> Self {
        let program = site.client(&format!("shuttle {words}"));
        program.wait_for_text("bound");
        Self { program, asked: 0 }
    }

    /// Waits until many bursts in a row have arrived completely.
    fn is_whole_again(&mut self) {
        self.asked += 1;
        self.program.signal(Signal::USR1);
        self.program.wait_for("whole bursts", |output| {
            (output.stdout.matches("through").count() == self.asked).then_some(())
        });
    }

    /// Ends the program. Returns how many frames have never arrived.
    fn missing(self) -> u64 {
        let output = output(self.program.stop(Signal::TERM));
        output.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Returns how many frames a port of a switch counts as lost because of the restart that started
/// this worker.
fn lost_by_restart(site: &Sandbox, port: &str) -> u64 {
    let shown = vale(site, "--show");
    let ports = shown["switches"][0]["ports"].as_array().unwrap();
    let port = ports.iter().find(|one| one["port"] == port).unwrap();
    port["drops"].get("restart").map_or(0, |count| count.as_u64().unwrap())
}

#[test]
fn a_frame_of_a_switch_arrives_at_most_once_and_in_order_and_what_is_missing_is_counted() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let mut shuttle = SequenceChecker::start(&site, "vale0:a vale0:b 0");
    let (mut random, mut counted) = (11, 0);
    for _ in 0..8 {
        some_time(&mut random);
        daemon.kill_and_wait();
        counted += lost_by_restart(&site, "vale0:a");
        shuttle.is_whole_again();
    }
    let missing = shuttle.missing();
    assert!(missing <= counted, "{missing} frames, of which {counted} are counted");
    daemon.supervisor.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn programs_go_on_with_their_interfaces() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let mut shuttle = SequenceChecker::start(&site, "e0 e1 100");
    let mut random = 13;
    for _ in 0..6 {
        some_time(&mut random);
        daemon.kill_and_wait();
        shuttle.is_whole_again();
    }
    shuttle.missing();
    assert_eq!(site.bind("e0"), "bound", "it is found by its name");
    daemon.supervisor.stop(Signal::TERM).well();
    let left = site.inside.ip("-d link show");
    assert!(!left.contains("xdp") && !left.contains("PROMISC"), "{left}");
    site.is_clean();
}

#[test]
fn a_program_between_an_interface_and_its_host_goes_on() {
    let (Some(site), Some(outside)) = (Sandbox::new(SLIPRING), Namespace::new()) else { return };
    site.inside.veth("e0", &outside, "e1", "");
    site.inside.silence("e0");
    site.inside.ip("addr add 10.9.8.1/24 dev e0");
    site.inside.ip("link set e0 up");
    outside.ip("addr add 10.9.8.2/24 dev e1");
    outside.ip("link set e1 up");
    site.inside.wait_for_carrier("e0");
    let mut daemon = Supervised::start(&site, "");
    let (mut nic, mut host) = (open(&site, "e0"), open(&site, "e0^"));
    let is_over = Arc::new(AtomicBool::new(false));
    let outcome = is_over.clone();
    let program = std::thread::spawn(move || {
        while !outcome.load(Ordering::Relaxed) {
            forward(&mut nic, &mut host, u32::MAX).unwrap();
            forward(&mut host, &mut nic, u32::MAX).unwrap();
        }
    });
    let reach = || {
        eventually("an answer of the host", || {
            outside.attempt("ping", "-q -c 1 -W 1 10.9.8.1").0.then_some(())
        });
    };
    reach();
    for _ in 0..3 {
        daemon.kill_and_wait();
        reach();
    }
    is_over.store(true, Ordering::Relaxed);
    program.join().unwrap();
    daemon.supervisor.stop(Signal::TERM).well();
    assert!(!site.inside.ip("link show").contains(": sr"), "the ways to the host are gone");
}

#[test]
fn host_rings_that_differ_in_number_each_way_go_on() {
    for rings in ["1 3", "3 1"] {
        let Some(site) = Sandbox::new(SLIPRING) else { return };
        site.inside.silence("default");
        site.inside.ip("link add e0 numrxqueues 3 numtxqueues 3 type veth peer name e1");
        site.inside.ip("addr add 10.9.8.1/24 dev e0");
        site.inside.ip("link set e0 up");
        site.inside.ip("link set e1 up");
        let mut daemon = Supervised::start(&site, "");
        let client = site.client(&format!("echo e0 {rings}"));
        client.wait_for_text("bound");
        // The host asks for the MAC address of an IP address that no one uses.
        let asks = |received: usize| {
            eventually("frames of the host", || {
                site.inside.attempt("ping", "-q -c 1 -W 1 10.9.8.9");
                (client.so_far().stdout.matches("echoed").count() > received).then_some(())
            });
            client.so_far().stdout.matches("echoed").count()
        };
        let mut received = asks(0);
        for _ in 0..2 {
            daemon.kill_and_wait();
            received = asks(received);
        }
        let stopped = daemon.supervisor.stop(Signal::TERM).well();
        assert!(!stopped.stderr.contains("outlive"), "{rings}: {stopped:?}");
        client.stop(Signal::KILL);
    }
}

#[test]
fn an_interface_in_a_switch_stays_there() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    vale(&site, "-a vale0:e0");
    let mut shuttle = SequenceChecker::start(&site, "vale0:a e1 100");
    let mut random = 17;
    for _ in 0..4 {
        some_time(&mut random);
        daemon.kill_and_wait();
        shuttle.is_whole_again();
    }
    let shown = vale(&site, "--show");
    let ports = shown["switches"][0]["ports"].as_array().unwrap();
    let names: Vec<_> = ports.iter().map(|port| port["port"].as_str().unwrap()).collect();
    assert_eq!(names, ["vale0:e0", "vale0:a"]);
    shuttle.missing();
    vale(&site, "-d vale0:e0");
    assert_eq!(site.bind("e0"), "bound", "it can be had again");
    daemon.supervisor.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn an_interface_that_was_polled_for_a_switch_is_polled_again() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    vale(&site, "-a vale0:e0");
    vale(&site, "-p vale0:e0");
    let mut shuttle = SequenceChecker::start(&site, "vale0:a e1 100");
    let mut random = 19;
    for _ in 0..4 {
        some_time(&mut random);
        daemon.kill_and_wait();
        shuttle.is_whole_again();
    }
    shuttle.missing();
    // This fails unless the interface is being polled.
    vale(&site, "-P vale0:e0");
    vale(&site, "-d vale0:e0");
    assert_eq!(site.bind("e0"), "bound", "it can be had again");
    daemon.supervisor.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn a_virtual_machine_in_a_switch_is_there_again() {
    let kit = match kit() {
        Ok(kit) => kit,
        Err(why) => return skip!("{why}"),
    };
    let (Some(site), Some(outside)) = (Sandbox::new(SLIPRING), Namespace::new()) else { return };
    site.inside.veth("e0", &outside, "e1", "");
    outside.silence("e1");
    outside.ip("addr add 10.9.8.9/24 dev e1");
    outside.ip("link set e1 up");
    let mut daemon = Supervised::start(&site, "");
    let socket = site.path("guest");
    vale(&site, "-a vale0:e0");
    vale(&site, &format!("-a vale0:vhost:{}", socket.display()));
    let guest = boot(&site, &kit, &socket, 1, "10.9.8.9");
    guest.wait_for_text("guest: done");
    for _ in 0..3 {
        daemon.kill_and_wait();
        answers_in_time(&outside, 1);
    }
    let listed = vale(&site, "");
    assert_eq!(listed["switch_ports"].as_array().map(Vec::len), Some(2), "{listed}");
    daemon.supervisor.stop(Signal::TERM).well();
    assert!(!socket.exists(), "the socket goes with the port");
}

#[test]
fn an_interface_that_is_gone_when_the_next_worker_comes_is_a_port_that_is_gone() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let client = site.client("outlive e0");
    client.wait_for_text("bound");
    daemon.supervisor.signal(Signal::STOP);
    daemon.kill();
    site.inside.ip("link del e0");
    daemon.supervisor.signal(Signal::CONT);
    daemon.goes_on();
    assert_eq!(output(client.finish()), "bound\ngone");
    daemon.supervisor.wait_for_text("1 of 1 files had a port open that does not outlive a restart");
}

#[test]
fn programs_that_poll_see_no_error_and_stand_still_for_a_moment_only() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let pair = start(&site, "pair good 3");
    let mut random = 9;
    for _ in 0..3 {
        some_time(&mut random);
        daemon.kill_and_wait();
    }
    let pair = pair.finish().well();
    println!("three kills: {}", pair.stdout.trim_end());
}

#[test]
fn names_claims_users_and_buffers_are_as_before_and_closing_frees_them() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "--mode 666");
    let keeper = site.client("hold keep{1");
    keeper.wait_for_text("bound");
    let before = start(&site, "whole 3").finish().well().stdout;
    let alone = site.client("hold x{1");
    alone.wait_for_text("bound");
    daemon.kill_and_wait();
    assert_eq!(site.bind(&format!("x{{1 1 {EXCLUSIVE}")), "EBUSY");
    assert_eq!(
        site.bind_as_nobody(&format!("x{{1 1 {EXCLUSIVE}")),
        "bound",
        "{NOBODY} has his own"
    );
    alone.stop(Signal::KILL);
    eventually("the name", || (site.bind(&format!("x{{1 1 {EXCLUSIVE}")) == "bound").then_some(()));
    daemon.kill_and_wait();
    assert_eq!(start(&site, "whole 3").finish().well().stdout, before);
}

#[test]
fn what_happens_while_there_is_no_worker_is_caught_up_on() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let doomed = site.client("hold x{1");
    doomed.wait_for_text("bound");
    daemon.supervisor.signal(Signal::STOP);
    daemon.kill();
    // Depending on the moment, the process ends immediately, or when the call that it is making is
    // answered.
    doomed.signal(Signal::KILL);
    let early = site.client("receive y}1 10");
    daemon.supervisor.signal(Signal::CONT);
    daemon.goes_on();
    doomed.finish();
    early.wait_for_text("bound");
    site.client("send y{1 10").finish().well();
    assert_eq!(output(early.finish()), "bound\nreceived");
    eventually("the name", || (site.bind(&format!("x{{1 1 {EXCLUSIVE}")) == "bound").then_some(()));
}

/// Returns the `/proc` path of the supervisor's descriptor for a file whose name contains `name`.
fn kept(daemon: &Supervised, name: &str) -> PathBuf {
    let fds = fs::read_dir(format!("/proc/{}/fd", daemon.supervisor.pid())).unwrap();
    let mut fds = fds.map(|fd| fd.unwrap().path());
    fds.find(|fd| fs::read_link(fd).is_ok_and(|file| file.to_string_lossy().contains(name)))
        .unwrap()
}

#[test]
fn what_was_kept_and_makes_no_sense_is_given_up_and_said() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut daemon = Supervised::start(&site, "");
    let client = site.client("hold x{1");
    client.wait_for_text("bound");
    let mut ledger =
        fs::File::options().write(true).open(kept(&daemon, "slipring-ledger")).unwrap();
    for head in [0, 512] {
        ledger.seek(SeekFrom::Start(head)).unwrap();
        ledger.write_all(b"nonsense").unwrap();
    }
    daemon.kill_and_wait();
    daemon.supervisor.wait_for_text("what was kept for them cannot be used");
    assert_eq!(output(client.finish()), "bound\ntold");
    site.exchange("x{1", "x}1", 500);
    daemon.kill_and_wait();
    site.exchange("x{1", "x}1", 500);
    daemon.supervisor.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn a_worker_that_cannot_start_is_not_tried_for_ever() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let first = Supervised::start(&site, "");
    let second = site.launch("--supervise").finish();
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    assert!(second.stderr.contains("another slipringd serves"), "{second:?}");
    first.supervisor.stop(Signal::TERM).well();
}

/// Kills one worker after another until `over` returns true for the supervisor's error output.
fn kill_until(daemon: &Supervised, over: impl Fn(&str) -> bool) {
    let pid = daemon.supervisor.pid();
    eventually("the supervisor to give up", || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let worker = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        if let Some(worker) = worker.and_then(Pid::from_raw) {
            // The process may have ended by itself.
            let _ = kill_process(worker, Signal::KILL);
        }
        over(&daemon.supervisor.so_far().stderr).then_some(())
    });
}

#[test]
fn a_supervisor_gives_up_what_was_kept_after_ten_deaths_in_ten_seconds_and_says_so() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = Supervised::start(&site, "");
    let client = site.client("hold x{1");
    client.wait_for_text("bound");
    kill_until(&daemon, |output| output.contains("another starts afresh"));
    let said_so_far = daemon.supervisor.so_far().stderr;
    assert!(said_so_far.matches("another takes over").count() >= 9, "{said_so_far}");
    assert_eq!(output(client.finish()), "bound\ntold");
    kill_until(&daemon, |output| output.contains("no worker stays alive"));
    let ended = daemon.supervisor.finish();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let _next = site.daemon("");
    site.exchange("x{1", "x}1", 500);
}

#[test]
fn hostile_messages_never_reach_a_supervisor() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = Supervised::start(&site, "");
    let pid = daemon.supervisor.pid();
    // An abstract socket would be writable by all users, so the supervisor must not use one.
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap();
    assert!(!sockets.contains(&format!("@slipring-{pid}")), "{sockets}");
    let dir = site.run_dir().join(format!("supervisor-{pid}"));
    let meta = fs::metadata(&dir).unwrap();
    assert_eq!((meta.permissions().mode() & 0o777, meta.uid()), (0o700, 0));
    assert!(dir.join("notify").exists());
    daemon.supervisor.stop(Signal::TERM).well();
    site.is_clean();
}
