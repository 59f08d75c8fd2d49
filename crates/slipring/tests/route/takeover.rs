//! A second router that takes over from the running one, while numbered datagrams cross it.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::{Value, json};
use slipring_test_support::{Program, eventually};

use crate::continuity::{Stream, is_forwarding};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};

crate::program_checks! {
    for crate::rig::Setup:
    a_takeover_loses_and_doubles_no_packet,
    a_name_moves_to_the_router_that_has_taken_over,
    a_router_with_other_interfaces_does_not_take_over,
    a_router_of_another_version_does_not_take_over,
    without_a_running_router_nothing_is_taken_over,
    a_router_that_is_killed_while_it_takes_over_changes_nothing,
    a_router_that_is_killed_while_it_is_taken_over_doubles_no_packet,
    a_second_router_at_once_is_refused,
    a_router_that_ended_while_it_took_over_is_no_obstacle,
    a_router_with_other_queues_does_not_take_over,
    a_router_that_is_ended_while_it_is_taken_over_ends,
}

macro_rules! without_a_gap {
    ($($check:ident),* $(,)?) => {
        crate::instances!(in_xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"), $($check),*);
        crate::instances!(in_packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"), $($check),*);
    };
}

without_a_gap! {
    a_takeover_keeps_the_order_of_each_flow,
    twenty_takeovers_in_a_row_lose_and_reorder_nothing,
    what_both_routers_have_counted_is_what_was_sent,
}

crate::instances! {
    auto: crate::rig::Setup = crate::rig::Subject::Slipring("auto"),
    policers_go_and_come_by_a_takeover_that_keeps_the_engine,
    a_router_in_xdp_is_not_taken_over_by_one_with_policers
}

crate::instances! {
    rules_in_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    states_of_rules_move
}

/// Starts a router that takes over. Packets flow until it forwards and the running router has
/// ended.
fn take_over(rig: &Rig, running: Program, stream: &mut Stream<'_>) -> Program {
    let next = rig.launch_program("--takeover");
    let lacks = |program: &Program| {
        assert!(!program.has_ended(), "{:#?}", program.so_far());
        !is_forwarding(program)
    };
    stream.flow_until("a takeover", |_| !lacks(&next) && running.has_ended());
    running.finish().well();
    next
}

/// Asserts that the datagrams of each family have arrived in their order.
fn assert_in_order(arrived: &[u32]) {
    for family in [0, 1] {
        let of: Vec<_> = arrived.iter().filter(|number| **number % 2 == family).collect();
        let late: Vec<_> = of.windows(2).filter(|pair| pair[0] > pair[1]).collect();
        assert!(late.is_empty(), "out of order: {late:?}");
    }
}

fn a_takeover_loses_and_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    let next = take_over(&rig, rig.take_program(), &mut stream);
    stream.flow(1000);
    stream.each_has_arrived_once();
    next.stop(Signal::INT).well();
}

fn a_takeover_keeps_the_order_of_each_flow(setup: Setup) {
    let rig = setup.start();
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    let next = take_over(&rig, rig.take_program(), &mut stream);
    stream.flow(1000);
    assert_in_order(&stream.each_has_arrived_once());
    next.stop(Signal::INT).well();
}

fn twenty_takeovers_in_a_row_lose_and_reorder_nothing(setup: Setup) {
    let rig = setup.start();
    let mut stream = Stream::new(&rig);
    let mut running = rig.take_program();
    for _ in 0..20 {
        stream.flow(100);
        running = take_over(&rig, running, &mut stream);
    }
    assert_in_order(&stream.each_has_arrived_once());
    running.stop(Signal::INT).well();
}

/// Returns how many packets have arrived on e0, from the counters that a router prints when it
/// ends.
fn counted_at_the_end(output: &str) -> u64 {
    let lines = output.lines().filter_map(|line| line.strip_prefix("e0: "));
    let count = |line: &str| {
        let words = ["forwarded ", "to the kernel ", "dropped "];
        let rest = words.iter().find_map(|word| line.strip_prefix(word))?;
        rest.split(' ').next()?.parse::<u64>().ok()
    };
    lines.filter_map(count).sum()
}

/// Returns how many packets have arrived on e0, as the running router has counted them.
pub(crate) fn counted(rig: &Rig) -> u64 {
    let answer = rig.ask(&["interface", "e0"]);
    let interface = &answer["interfaces"][0];
    let sum = |counters: &Value| {
        counters.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    let forwarded = interface["forwarded"]["packets"].as_u64().unwrap();
    forwarded + sum(&interface["passed"]) + sum(&interface["dropped"])
}

fn what_both_routers_have_counted_is_what_was_sent(setup: Setup) {
    let rig = setup.start();
    let (before, sent) = (counted(&rig), rig.a.sent());
    let mut stream = Stream::new(&rig);
    stream.flow(1000);
    let running = rig.take_program();
    let next = rig.launch_program("--takeover");
    stream.flow_until("a takeover", |_| is_forwarding(&next) && running.has_ended());
    let first = counted_at_the_end(&running.finish().well().stdout);
    assert!(counted(&rig) >= first, "the new router goes on from {first}");
    stream.flow(1000);
    stream.each_has_arrived_once();
    eventually("the count of all frames", || {
        let (both, sent) = (counted(&rig) - before, rig.a.sent() - sent);
        assert!(both <= sent, "{both} counted, {sent} sent");
        (both == sent).then_some(())
    });
    next.stop(Signal::INT).well();
}

fn a_name_moves_to_the_router_that_has_taken_over(setup: Setup) {
    let rig = setup.with_flags("--name edge").start();
    let mut stream = Stream::new(&rig);
    let next = take_over(&rig, rig.take_program(), &mut stream);
    let pid = |words: &[&str]| rig.ask(words)["pid"].as_u64();
    assert_eq!(pid(&["hello", "--name", "edge"]), Some(next.pid().into()));
    next.stop(Signal::INT).well();
    let left: Vec<_> = std::fs::read_dir(rig.run_dir()).unwrap().flatten().collect();
    let sockets =
        left.iter().filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock"));
    assert_eq!(sockets.count(), 0, "{left:?}");
    stream.each_has_arrived_once();
}

fn a_router_with_other_interfaces_does_not_take_over(setup: Setup) {
    let rig = setup.with_c().start();
    let running = rig.take_program();
    let other = rig.launch_with("e0 e1 --takeover").finish();
    assert_ne!(other.code(), 0);
    for part in ["cannot be taken over", "interfaces", "slipring route ctl shutdown"] {
        assert!(other.stderr.contains(part), "no `{part}` in {}", other.stderr);
    }
    is_untouched(&rig, running);
}

/// Asserts that the running router still forwards, and that another router can still take over.
fn is_untouched(rig: &Rig, running: Program) {
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"as before")]);
    let mut stream = Stream::new(rig);
    let next = take_over(rig, running, &mut stream);
    stream.each_has_arrived_once();
    next.stop(Signal::INT).well();
}

fn a_router_of_another_version_does_not_take_over(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let socket = rig.run_dir().join(format!("{}.sock", running.pid()));
    let own = env!("CARGO_PKG_VERSION");
    for (version, protocol, part) in [
        ("0.0.1", json!(null), "the new one 0.0.1"),
        // A state of the program in between two versions.
        (own, json!(2), "version 3 of the takeover protocol, the new one 2"),
        (own, json!(null), "version 3 of the takeover protocol, the new one none"),
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let request =
            json!({ "id": 1, "do": "takeover", "version": version, "protocol": protocol });
        writeln!(stream, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let (cause, help) = (answer["error"]["cause"].as_str(), answer["error"]["help"].as_str());
        assert!(cause.is_some_and(|cause| cause.contains(part)), "{answer}");
        assert!(help.is_some_and(|help| help.contains("slipring route ctl shutdown")), "{answer}");
    }
    is_untouched(&rig, running);
}

fn without_a_running_router_nothing_is_taken_over(setup: Setup) {
    let rig = setup.start();
    rig.take_program().stop(Signal::INT).well();
    let refused = rig.launch_program("--takeover").finish();
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("no router runs"), "{}", refused.stderr);
}

fn a_router_that_is_killed_while_it_takes_over_changes_nothing(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let request = request_of(&rig, 1);
    let mut stream = Stream::new(&rig);
    for step in 0..8 {
        let next = rig.launch_program("--takeover");
        stream.flow(step * 40);
        if is_forwarding(&next) || running.has_ended() {
            // The takeover was complete before the router could be killed.
            stream.flow_until("a takeover", |_| is_forwarding(&next) && running.has_ended());
            stream.each_has_arrived_once();
            next.stop(Signal::INT).well();
            return;
        }
        next.signal(Signal::KILL);
        next.finish();
        if !still_runs(&rig, &running, &request) {
            // The new router was killed after its takeover, but before it reported this. The
            // packets that it held are lost.
            stream.give_up_window();
            running.finish().well();
            rig.start_program();
            stream.flow(200);
            stream.each_has_arrived_once();
            rig.take_program().stop(Signal::INT).well();
            return;
        }
    }
    let next = take_over(&rig, running, &mut stream);
    stream.each_has_arrived_once();
    next.stop(Signal::INT).well();
}

/// Returns whether the running router goes on after a router that was taking over from it was
/// killed.
fn still_runs(rig: &Rig, running: &Program, request: &Value) -> bool {
    eventually("the end of a takeover", || match send(rig, running, request) {
        Ok((_, answer)) if answer["error"]["cause"] == "it ends" => None,
        Ok((lines, answer)) => {
            assert!(answer["ok"].is_object(), "{answer}");
            end(&lines);
            Some(true)
        }
        Err(_) => running.has_ended().then_some(false),
    })
}

fn a_router_that_is_killed_while_it_is_taken_over_doubles_no_packet(setup: Setup) {
    let rig = setup.start();
    let mut stream = Stream::new(&rig);
    stream.flow(200);
    let running = rig.take_program();
    let next = rig.launch_program("--takeover");
    stream.flow(100);
    running.signal(Signal::KILL);
    running.finish();
    stream.give_up_window();
    stream.push_until_arrival();
    stream.flow_until("a takeover or its failure", |_| is_forwarding(&next) || next.has_ended());
    if next.has_ended() {
        let failed = next.finish();
        assert_ne!(failed.code(), 0);
        // The second cause is reported if the new router had not yet connected.
        let causes = ["does not hand over", "no router runs"];
        assert!(causes.iter().any(|cause| failed.stderr.contains(cause)), "{}", failed.stderr);
        rig.start_program();
        stream.flow(200);
        rig.take_program().stop(Signal::INT).well();
    } else {
        stream.flow(200);
        next.stop(Signal::INT).well();
    }
    stream.each_has_arrived_once();
}

/// A takeover request like that of a new router that sees `queues` queues in each direction of each
/// interface.
pub(crate) fn request_of(rig: &Rig, queues: u32) -> Value {
    let answer = rig.ask(&["interface"]);
    let interfaces = answer["interfaces"].as_array().unwrap().iter();
    let interfaces: Vec<_> = interfaces.filter(|it| it["mode"] != "packet, tap").collect();
    let of = |key: &str| interfaces.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
    let queues = vec![[queues; 2]; interfaces.len()];
    let crate::rig::Subject::Slipring(io) = rig.subject else { unreachable!() };
    json!({
        "id": 1, "do": "takeover", "protocol": 3, "version": env!("CARGO_PKG_VERSION"),
        "interfaces": of("name"), "ifindexes": of("ifindex"), "queues": queues, "io": io, "threads": null,
        "rules": false,
    })
}

/// Sends a request to the running router. Returns the connection and the answer.
///
/// # Errors
/// The system's error, if the running router ends.
pub(crate) fn send(
    rig: &Rig,
    running: &Program,
    request: &Value,
) -> io::Result<(BufReader<UnixStream>, Value)> {
    let socket = rig.run_dir().join(format!("{}.sock", running.pid()));
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{request}")?;
    let (mut lines, mut line) = (BufReader::new(stream), String::new());
    lines.read_line(&mut line)?;
    Ok((lines, serde_json::from_str(&line)?))
}

/// Ends a connection, as the end of a process does. Only closing the descriptor might not end it,
/// because programs that other tests start may have a copy for a moment.
fn end(lines: &BufReader<UnixStream>) {
    lines.get_ref().shutdown(Shutdown::Both).unwrap();
}

/// Sends the request of [`request_of`] to the running router. Returns the connection and the
/// answer.
fn request(rig: &Rig, running: &Program, queues: u32) -> (BufReader<UnixStream>, Value) {
    send(rig, running, &request_of(rig, queues)).unwrap()
}

fn a_router_that_ended_while_it_took_over_is_no_obstacle(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let request = request_of(&rig, 1);
    for _ in 0..50 {
        let (lines, answer) = send(&rig, &running, &request).unwrap();
        assert!(answer["ok"].is_object(), "{answer}");
        end(&lines);
    }
    is_untouched(&rig, running);
}

fn a_second_router_at_once_is_refused(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let (first, answer) = request(&rig, &running, 1);
    assert_eq!(answer["ok"]["pid"].as_u64(), Some(running.pid().into()), "{answer}");
    let (_, answer) = eventually("the offer of the first", || {
        let (lines, answer) = request(&rig, &running, 1);
        answer["error"]["cause"].is_string().then_some((lines, answer))
    });
    let cause = answer["error"]["cause"].as_str();
    assert_eq!(cause, Some("another router is taking over"), "{answer}");
    drop(first);
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"as before")]);
    running.stop(Signal::INT).well();
}

/// A router with rules in a file, which both routers read. An additional first rule admits the
/// packets of [`Packet::udp`], which go to port 9.
fn with_rules(setup: Setup, dir: &tempfile::TempDir, rules: &str) -> Rig {
    let path = dir.path().join("rules");
    std::fs::write(&path, format!("add 10 allow ip from any to any 9\n{rules}\n")).unwrap();
    let flags = format!("{} --rules {}", setup.flags, path.display());
    setup.with_flags(&flags).start()
}

fn a_router_with_other_queues_does_not_take_over(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let (_, answer) = request(&rig, &running, 2);
    let (cause, help) = (answer["error"]["cause"].as_str(), answer["error"]["help"].as_str());
    assert!(cause.is_some_and(|cause| cause.contains("numbers of queues")), "{answer}");
    assert!(help.is_some_and(|help| help.contains("slipring route ctl shutdown")), "{answer}");
    is_untouched(&rig, running);
}

/// Even during a takeover, the running router forwards, and a signal ends it.
fn a_router_that_is_ended_while_it_is_taken_over_ends(setup: Setup) {
    let rig = setup.start();
    let running = rig.take_program();
    let (_silent, answer) = request(&rig, &running, 1);
    assert_eq!(answer["ok"]["pid"].as_u64(), Some(running.pid().into()), "{answer}");
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"as before")]);
    running.stop(Signal::INT).well();
}

/// Writes a file with a policer that drops nothing. Returns the flags of a router with it.
fn with_policer(dir: &tempfile::TempDir) -> String {
    let path = dir.path().join("edge.toml");
    let policer = "[[policer]]\ninterface = 'e0'\nrate = '100Gbit'\nburst = '1GB'\n";
    std::fs::write(&path, policer).unwrap();
    format!("e0 e1 --config {}", path.display())
}

/// Without policers, `--io auto` would choose XDP.
fn policers_go_and_come_by_a_takeover_that_keeps_the_engine(setup: Setup) {
    let dir = tempfile::tempdir().unwrap();
    let with = with_policer(&dir);
    let flags = with.strip_prefix("e0 e1 ").unwrap().to_owned();
    let rig = setup.with_flags(&flags).start();
    let mut stream = Stream::new(&rig);
    let mut running = rig.take_program();
    for (words, says_so) in [("e0 e1", true), ("e0 e1", true), (with.as_str(), false)] {
        stream.flow(200);
        let next = rig.launch_with(&format!("{words} --takeover"));
        stream.flow_until("a takeover", |_| is_forwarding(&next) && running.has_ended());
        running.finish().well();
        let output = next.so_far();
        let text = [output.stdout, output.stderr].concat();
        assert_eq!(text.contains("keeps the running router's engine: xsk"), says_so, "{text}");
        assert!(text.contains("1 thread forwards"), "{text}");
        running = next;
    }
    stream.flow(200);
    stream.each_has_arrived_once();
    running.stop(Signal::INT).well();
}

fn a_router_in_xdp_is_not_taken_over_by_one_with_policers(setup: Setup) {
    let dir = tempfile::tempdir().unwrap();
    let rig = setup.start();
    let running = rig.take_program();
    let other = rig.launch_with(&format!("{} --takeover", with_policer(&dir))).finish();
    assert_ne!(other.code(), 0);
    for part in ["it forwards in XDP, which has no policers", "slipring route ctl shutdown"] {
        assert!(other.stderr.contains(part), "no `{part}` in {}", other.stderr);
    }
    is_untouched(&rig, running);
}

/// The router that takes over admits answers to a flow for which the earlier router had a state.
fn states_of_rules_move(setup: Setup) {
    let rules = "sysctl net.inet.ip.fw.dyn_udp_lifetime=600\n\
                 add 100 check-state\n\
                 add 200 allow udp from any to any 7000 recv e0 keep-state";
    let dir = tempfile::tempdir().unwrap();
    let rig = with_rules(setup, &dir, rules);
    let net = v4();
    let out = Packet::udp_ports(net.a, net.b, [4000, 7000], b"out");
    let back = Packet::udp_ports(net.b, net.a, [7000, 4000], b"back");
    rig.forwards(&[out]);
    let mut stream = Stream::new(&rig);
    let next = take_over(&rig, rig.take_program(), &mut stream);
    stream.each_has_arrived_once();
    rig.b.send(&back);
    let seen = rig.observe([1, 0, 0]);
    assert_eq!(seen.a.len(), 1, "{seen:?}");
    let other = Packet::udp_ports(net.b, net.a, [7000, 4001], b"back");
    rig.b.send(&other);
    rig.is_silent();
    next.stop(Signal::INT).well();
}
