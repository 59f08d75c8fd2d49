//! Tests with large numbers of programs. They are killed during traffic, are hostile, or are very
//! many. With `SLIPRING_SOAK_SECONDS`, the hostile programs run longer (`make soak`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use slipring_test_support::frames::Xorshift;
use slipring_test_support::sandbox::NOBODY;
use slipring_test_support::{FinishedProgram, Program, Sandbox};

use crate::SLIPRING;
use crate::settings::vale;

/// The id of a user that no other test uses.
const NOBODY_ELSE: u32 = NOBODY - 1;

/// Returns the path of the C program, which is compiled only once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/daemon/crowd.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("netmap-crowd");
        let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o"];
        let done = Command::new("cc").args(flags).arg(&program).arg(source).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    })
}

fn command(site: &Sandbox, program: &Path, words: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(site.run_dir().join("netmap")).args(words.split_ascii_whitespace());
    command
}

pub(crate) fn start(site: &Sandbox, words: &str) -> Program {
    Program::launch(&site.inside, command(site, program(), words))
}

fn start_as(site: &Sandbox, uid: u32, words: &str) -> Program {
    let mut command = command(site, &site.copy_of(program()), words);
    command.uid(uid).gid(uid);
    Program::launch(&site.inside, command)
}

/// Returns the longest time, in milliseconds, in which a well-behaved pair of programs received
/// nothing.
fn worst_ms(ended: &FinishedProgram) -> u64 {
    let words = ended.stdout.split_whitespace();
    words.skip_while(|word| *word != "worst").nth(1).unwrap().parse().unwrap()
}

/// Returns a value of `/proc/PID/status` of the daemon, in KiB.
fn kib(daemon: &Program, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn programs_and_persistent_ports_take_no_descriptors_of_the_daemon() {
    const LIMIT: usize = 64;
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut few = Command::new("sh");
    few.args(["-c", &format!("ulimit -n {LIMIT} && exec \"$0\" \"$@\""), SLIPRING, "daemon"]);
    few.args(["--link", "none", "--mode", "666", "--run-dir"]).arg(site.run_dir());
    let daemon = Program::launch(&site.inside, few);
    daemon.wait_for_text("transport=fuse");
    let held: Vec<_> = (0..LIMIT).map(|i| site.client(&format!("hold x{i}{{1"))).collect();
    held.iter().for_each(|client| client.wait_for_text("bound"));
    for i in 0..LIMIT {
        assert_eq!(vale(&site, &format!("-n v{i}")), "");
    }
    assert_eq!(site.bind("v7"), "bound");
    assert_eq!(site.bind_as_nobody("x{1"), "bound", "others have room, too");
    daemon.stop(Signal::KILL);
    held.into_iter().for_each(|client| drop(client.finish().well()));
}

const PIPES: usize = 3;

/// Starts programs on both ends of some pipes, and kills each of them during traffic. Does this
/// several times.
fn kill_many(site: &Sandbox, extra: u32) {
    let mut random = 7u64;
    for round in 0..25 {
        let begin = |i: usize| {
            let (pipe, end) = (i / 2, ["{", "}"][i % 2]);
            start(site, &format!("doomed d{pipe}{end}1 {round}{i} {extra}"))
        };
        let mut doomed: Vec<_> = (0..2 * PIPES).map(begin).collect();
        while !doomed.is_empty() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 33) % 4000));
            let one = doomed.swap_remove((random >> 40) as usize % doomed.len());
            one.stop(Signal::KILL);
        }
    }
}

/// Returns the number of buffers that can be allocated, and the names that cannot be bound.
fn whole(site: &Sandbox) -> String {
    start(site, &format!("whole {PIPES}")).finish().well().stdout
}

#[test]
fn programs_killed_in_mid_traffic_leave_no_buffer_ring_or_name() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    // This program keeps the user's memory in use. Otherwise each program would get new memory.
    let keeper = site.client("hold keep{1");
    keeper.wait_for_text("bound");
    let before = whole(&site);
    assert!(!before.contains(':'), "{before}");
    kill_many(&site, 0);
    assert_eq!(whole(&site), before);
    start(&site, "pair d0 0.3").finish().well();
    assert_eq!(daemon.so_far().stderr, "");
}

#[test]
fn buffers_that_killed_programs_held_outside_of_rings_come_back_with_the_memory() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let before = whole(&site);
    kill_many(&site, 64);
    assert_eq!(whole(&site), before);
    assert_eq!(daemon.so_far().stderr, "");
}

#[test]
fn hostile_programs_neither_stop_the_daemon_nor_see_what_is_not_theirs() {
    let seconds = std::env::var("SLIPRING_SOAK_SECONDS").map_or(20, |text| text.parse().unwrap());
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--mode 666");
    let secret = start(&site, "secret");
    let time = Duration::from_secs(seconds);
    let hostile: Vec<_> = [NOBODY, NOBODY, NOBODY_ELSE]
        .into_iter()
        .zip(1..)
        .map(|(uid, seed)| start_as(&site, uid, &format!("hostile {seconds} {seed}")))
        .collect();
    let control = Flooder::start(&site, seconds);
    let good = start(&site, &format!("pair good {}", seconds.saturating_sub(1))).finish_after(time);
    let good = good.well();
    println!("{}", good.stdout.trim_end());
    assert!(worst_ms(&good) < 15_000, "{good:?}");
    for one in hostile {
        let ended = one.finish_after(time);
        // A hostile program may be killed by a signal, because it damages memory that it uses
        // itself. But it must not find the secret, which a program of another user has written.
        assert!(!ended.stdout.contains("leak"), "{ended:?}");
    }
    control.join();
    secret.stop(Signal::KILL);
    assert_eq!(daemon.so_far().stderr, "");
    start(&site, "pair good 0.3").finish().well();
    start_as(&site, NOBODY, "pair good 0.3").finish().well();
    daemon.stop(Signal::TERM).well();
    site.is_clean();
}

/// A thread that writes nonsense to the control socket.
struct Flooder(std::thread::JoinHandle<()>);

impl Flooder {
    fn start(site: &Sandbox, seconds: u64) -> Self {
        let path = site.run_dir().join("slipringd.sock");
        Self(std::thread::spawn(move || {
            let start = std::time::Instant::now();
            let mut random = Xorshift::new(99);
            while start.elapsed() < Duration::from_secs(seconds) {
                let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
                for _ in 0..20 {
                    // The daemon may disconnect a client that sends too much.
                    if stream.write_all(&nonsense(random.next())).is_err() {
                        break;
                    }
                }
            }
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            stream.write_all(b"{\"id\":3,\"do\":\"hello\"}\n").unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            assert!(answer.contains("\"ok\""), "{answer}");
        }))
    }

    fn join(self) {
        self.0.join().unwrap();
    }
}

/// Returns a valid or invalid request, or bytes that are no request.
fn nonsense(random: u64) -> Vec<u8> {
    let words = ["params", "set-param", "reload", "switches", "flush", "set", "hello", "\u{1}"];
    let what = words[(random >> 8) as usize % words.len()];
    let number = random as i64;
    let text = match random % 8 {
        0 => format!("{{\"id\":{number},\"do\":\"{what}\"}}\n"),
        1 => format!("{{\"do\":\"{what}\",\"name\":{number},\"value\":\"x\"}}\n"),
        2 => format!("{{\"do\":\"{what}\",\"uid\":-1,\"netns\":\"\",\"switch\":[]}}\n"),
        3 => "[".repeat((random >> 20) as usize % 5000) + "\n",
        4 => format!("{{\"do\":\"set-param\",\"name\":\"no_such\",\"value\":{number}}}\n"),
        5 => "x".repeat((random >> 20) as usize % 3_000_000),
        6 => format!("{{\"id\":{{}},\"do\":{number}}}\n\n\n"),
        _ => return random.to_le_bytes().repeat(9),
    };
    text.into_bytes()
}

#[test]
fn many_programs_with_many_pipes_all_get_on_and_cost_little() {
    const CLIENTS: u64 = 200;
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    site.exchange("warm{1", "warm}1", 500);
    let keeper = site.client("hold keep{1");
    keeper.wait_for_text("bound");
    let before = kib(&daemon, "RssAnon");
    let mut command = command(&site, program(), &format!("many {CLIENTS} 5 3"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut crowd = site.inside.spawn(command);
    let mut output = BufReader::new(crowd.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let grown = kib(&daemon, "RssAnon").saturating_sub(before);
    let mut stdin = crowd.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    let least: Vec<u64> = (0..CLIENTS)
        .map(|_| {
            line.clear();
            output.read_line(&mut line).unwrap();
            line.trim_end().strip_prefix("least ").unwrap().parse().unwrap()
        })
        .collect();
    let (worst, best) = (least.iter().min().unwrap(), least.iter().max().unwrap());
    println!("1000 pipes: {worst} to {best} frames; {grown} KiB for {CLIENTS} clients");
    assert!(*worst > 0, "{least:?}");
    assert!(grown <= 64 * CLIENTS, "{grown} KiB");
    stdin.write_all(b"\n").unwrap();
    assert!(crowd.wait().unwrap().success());
}
