//! Tests of the router as a program: its start, end, death and counters. When the router does not
//! forward, the kernel forwards with its own tables.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use serde_json::Value;
use slipring_test_support::{Namespace, Program, eventually};

use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, v4, v6};

crate::program_checks! {
    for crate::rig::Setup:
    packets_take_the_fast_path_in_both_families,
    what_is_received_is_forwarded_or_given_to_the_kernel_and_counted_once,
    what_is_to_leave_by_an_interface_that_is_left_to_the_kernel_is_counted_once,
    threads_have_no_privileges,
    the_tables_agree_with_the_kernels_after_many_changes,
    a_table_of_thousands_of_routes_is_shown_whole,
    forwarding_goes_on_when_the_router_is_killed,
    forwarding_goes_on_when_the_router_is_stopped,
    an_idle_router_forwards_at_once_and_its_stop_leaves_all_to_the_kernel,
    a_stopped_router_forwards_by_no_table_that_is_out_of_date,
    a_router_that_is_started_again_forwards,
    the_end_of_a_router_leaves_the_machine_as_it_was,
    the_death_of_a_router_leaves_no_program_behind,
    an_interface_without_address_is_accepted,
    routes_beyond_the_limit_are_left_to_the_kernel,
    routes_beyond_the_limit_raise_an_alarm,
    a_rule_of_netfilter_that_is_added_later_is_obeyed,
    an_interface_that_was_deleted_stays_out_even_if_a_new_one_has_its_name_and_index,
    a_renamed_interface_is_still_the_routers,
}

/// Returns packets of both families from A to B, each with its own data.
fn packets(count: u32) -> Vec<Packet> {
    let packet = |i: u32| {
        let net = families()[i as usize % 2];
        Packet::udp(net.a, net.b, &i.to_be_bytes())
    };
    (0..count).map(packet).collect()
}

/// Returns the router's counters of an interface: packets forwarded, and packets left to the kernel
/// or dropped.
fn counted(rig: &Rig, ifname: &str) -> [u64; 2] {
    let answer = rig.ask(&["interface", ifname]);
    let interface = &answer["interfaces"][0];
    let forwarded = interface["forwarded"]["packets"].as_u64();
    let sum = |counters: &str| {
        let causes = interface[counters].as_object()?;
        Some(causes.values().map(|count| count.as_u64().unwrap()).sum::<u64>())
    };
    let others = sum("passed").zip(sum("dropped")).map(|(passed, dropped)| passed + dropped);
    [forwarded, others].map(|count| count.unwrap_or_else(|| panic!("no counters in {answer}")))
}

/// Without this check, most checks would pass even if the kernel forwarded everything.
fn packets_take_the_fast_path_in_both_families(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let before = counted(&rig, "e0");
        rig.forwards(&(0..100).map(|i| Packet::udp(net.a, net.b, &[i])).collect::<Vec<_>>());
        let [forwarded, _] = counted(&rig, "e0");
        assert!(forwarded - before[0] >= 100, "{} of 100 packets", forwarded - before[0]);
    }
}

fn what_is_received_is_forwarded_or_given_to_the_kernel_and_counted_once(setup: Setup) {
    let rig = setup.start();
    let (before, sent) = ([counted(&rig, "e0"), counted(&rig, "e1")], [rig.a.sent(), rig.b.sent()]);
    rig.forwards(&packets(200));
    for net in families() {
        rig.refuses(&Packet::udp(net.a, net.b, b"last hop").hops(1));
        rig.a.send(&Packet::echo(net.a, net.router_a, 1));
        assert_eq!(rig.observe([1, 0, 0]).a.len(), 1);
    }
    rig.ignores(&[Packet::udp(ip("127.0.0.1"), v4().b, b"martian")]);
    assert_all_counted(&rig, before, sent);
}

fn what_is_to_leave_by_an_interface_that_is_left_to_the_kernel_is_counted_once(setup: Setup) {
    let rig = setup.start();
    rig.router.command("tc", "qdisc add dev e1 root tbf rate 1gbit burst 100k latency 100ms");
    rig.until(|| {
        let left = rig.ask(&["status"])["left_to_kernel"].to_string();
        left.contains("e1").then_some(())
    });
    let (before, sent) = ([counted(&rig, "e0"), counted(&rig, "e1")], [rig.a.sent(), rig.b.sent()]);
    rig.forwards(&packets(200));
    assert_all_counted(&rig, before, sent);
}

/// Asserts that each frame that A and B have sent since a certain moment is counted once. At that
/// moment, they had sent `sent` frames, and [`counted`] returned `before`.
fn assert_all_counted(rig: &Rig, before: [[u64; 2]; 2], sent: [u64; 2]) {
    for (at, now) in [rig.a.sent(), rig.b.sent()].into_iter().enumerate() {
        let ifname = ["e0", "e1"][at];
        // A repeated fence (see `rig`) may still be in flight, so the counters are read until they
        // agree.
        eventually(&format!("the count of all frames at {ifname}"), || {
            let counted: u64 = counted(rig, ifname).iter().sum();
            let counted = counted - before[at].iter().sum::<u64>();
            assert!(counted <= now - sent[at], "{counted} frames, {} sent", now - sent[at]);
            (counted == now - sent[at]).then_some(())
        });
    }
}

/// Exception: one thread keeps CAP_NET_ADMIN, without which the kernel does not list nftables and
/// IPsec.
fn threads_have_no_privileges(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.pid())).unwrap();
    let threads: Vec<_> = threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
        .collect();
    let value = |status: &str, key: &str| {
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim().to_owned()).unwrap()
    };
    for status in &threads {
        assert_eq!((&*value(status, "NoNewPrivs"), &*value(status, "Seccomp")), ("1", "2"));
    }
    let privileged = threads.iter().filter(|status| value(status, "CapEff") != "0".repeat(16));
    let capabilities: Vec<_> = privileged.map(|status| value(status, "CapEff")).collect();
    assert_eq!(capabilities, [format!("{:016x}", 1 << 12)]);
    program.stop(Signal::INT).well();
}

fn the_tables_agree_with_the_kernels_after_many_changes(setup: Setup) {
    let rig = setup.with_c().start();
    let lines: String = (0..500)
        .map(|i| {
            let (high, low, via) = (i / 250, i % 250, 2 + i % 2);
            format!(
                "route add 10.2{high}.{low}.0/24 via 10.3.0.{via}
                 route add fd20:{high}:{low}::/64 via fd03::{via}\n"
            )
        })
        .collect();
    rig.ip(&lines);
    rig.ip(&lines.replace("route add", "route replace").replace("3.0.2", "5.0.2"));
    rig.ip("link set e2 down");
    rig.until(|| {
        let answer = rig.ask(&["fib", "verify"]);
        let count = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{answer}"));
        assert!(count("checked") > 500, "{answer}");
        (count("missing") + count("extra") + count("different") == 0).then_some(())
    });
}

/// netmap-fwd closed the connection after 4096 bytes of an answer, which is about 75 routes.
fn a_table_of_thousands_of_routes_is_shown_whole(setup: Setup) {
    let prefix = |i: u32| format!("10.2{}.{}.{}/32", i / 1000, i / 200 % 5, i % 200);
    let lines: String =
        (0..5000).map(|i| format!("route add {} via 10.3.0.2\n", prefix(i))).collect();
    let rig = setup.ip(&lines).start();
    // The answer has several pages, which are printed as one document.
    let answer = rig.ask(&["route", "show"]);
    let routes = answer["routes"].as_array().unwrap().iter();
    let shown: HashSet<_> = routes.map(|route| &route["prefix"]).collect();
    for i in 0..5000 {
        assert!(shown.contains(&Value::from(prefix(i))), "{} of {}", prefix(i), shown.len());
    }
}

/// Sends windows of packets from A until one crosses completely.
fn crosses_again(rig: &Rig) {
    rig.until(|| rig.all_arrive_at_b(&packets(64)));
}

/// Kills the router, and waits until the kernel has removed its XDP programs, a moment after the
/// end of the process. Until then, and while the kernel removes them, packets may get lost. The
/// programs at tcx, which `packet` uses, are not waited for.
pub(crate) fn kill(rig: &Rig) {
    rig.take_program().stop(Signal::KILL);
    for ifname in ["e0", "e1"] {
        eventually("the interface without program", || {
            let link = rig.router.ip(&format!("-d link show dev {ifname}"));
            (!link.contains("xdp")).then_some(())
        });
    }
}

/// Stops a program, and waits until all of its threads have stopped. After 100 ms without
/// heartbeats, the kernel forwards.
pub(crate) fn pause(program: &Program) {
    crate::lapses::are_expected();
    program.signal(Signal::STOP);
    let pid = Pid::from_raw(program.pid() as i32).unwrap();
    waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
}

fn forwarding_goes_on_when_the_router_is_killed(setup: Setup) {
    let rig = setup.start();
    rig.forwards(&packets(64));
    kill(&rig);
    crosses_again(&rig);
    rig.forwards(&packets(256));
}

fn forwarding_goes_on_when_the_router_is_stopped(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    goes_on_when_stopped(&rig, program);
}

/// Without packets, the routing thread seldom sends heartbeats. It also sends those of the workers
/// that sleep.
fn an_idle_router_forwards_at_once_and_its_stop_leaves_all_to_the_kernel(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    wait_until_idle(&program);
    crosses_again(&rig);
    wait_until_idle(&program);
    goes_on_when_stopped(&rig, program);
}

/// Waits until the routing thread runs less than 12 times a second. While packets arrive, it runs
/// 40 times a second.
fn wait_until_idle(program: &Program) {
    const PERIOD: Duration = Duration::from_secs(1);
    let mut since = (Instant::now(), turns_of_routing(program));
    eventually("seldom turns of an idle router", || {
        let (time, turns) = (Instant::now(), turns_of_routing(program));
        if time < since.0 + PERIOD {
            return None;
        }
        let before = std::mem::replace(&mut since, (time, turns));
        (turns - before.1 < 12).then_some(())
    });
}

/// Returns how often the routing thread has gone to sleep.
fn turns_of_routing(program: &Program) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.pid())).unwrap();
    let read = |thread: &Path, name: &str| std::fs::read_to_string(thread.join(name)).ok();
    let thread = threads.map(|thread| thread.unwrap().path());
    let routing = thread.filter(|it| read(it, "comm").is_some_and(|name| name.trim() == "routing"));
    let status = routing.filter_map(|thread| read(&thread, "status")).next().unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

fn goes_on_when_stopped(rig: &Rig, program: Program) {
    pause(&program);
    crosses_again(rig);
    rig.forwards(&packets(256));
    program.signal(Signal::CONT);
    crosses_again(rig);
    program.stop(Signal::INT).well();
    crosses_again(rig);
}

fn a_stopped_router_forwards_by_no_table_that_is_out_of_date(setup: Setup) {
    let rig = setup.start();
    let program = rig.take_program();
    pause(&program);
    rig.ip("route add blackhole 10.3.0.3/32
            route add blackhole fd03::3/128");
    let old = ["10.3.0.3", "fd03::3"].map(ip);
    for (net, to) in families().iter().zip(old) {
        rig.until(|| {
            rig.a.send(&Packet::udp(net.a, to, b"out of date"));
            rig.observe([0; 3]).b.is_empty().then_some(())
        });
    }
    // When the router continues, it must not forward such packets by its old tables either.
    program.signal(Signal::CONT);
    for _ in 0..20 {
        for (net, to) in families().iter().zip(old) {
            rig.ignores(&[Packet::udp(net.a, to, b"out of date")]);
        }
    }
    program.stop(Signal::INT).well();
}

fn a_router_that_is_started_again_forwards(setup: Setup) {
    let rig = setup.start();
    kill(&rig);
    rig.ip("route add 10.76.0.0/16 via 10.3.0.2");
    rig.start_program();
    let before = counted(&rig, "e0");
    rig.forwards(&[Packet::udp(v4().a, ip("10.76.0.1"), b"second life")]);
    assert!(counted(&rig, "e0")[0] > before[0]);
    rig.take_program().stop(Signal::INT).well();
    crosses_again(&rig);
}

/// Returns what the router could have changed in a namespace: network settings of the kernel,
/// routes, and the features, MAC addresses, XDP programs, modes and queueing disciplines of the
/// interfaces.
fn state(router: &Namespace) -> BTreeMap<String, String> {
    let mut state = router.run(|| {
        let mut found = BTreeMap::new();
        for family in ["ipv4", "ipv6"] {
            read_all(Path::new(&format!("/proc/sys/net/{family}")), &mut found);
        }
        found
    });
    for ifname in ["e0", "e1"] {
        state.insert(
            format!("features of {ifname}"),
            router.command("ethtool", &format!("-k {ifname}")),
        );
        let link = router.ip(&format!("-d link show dev {ifname}"));
        state.insert(format!("link {ifname}"), link);
        state.insert(
            format!("qdisc {ifname}"),
            router.command("tc", &format!("qdisc show dev {ifname}")),
        );
    }
    state.insert("routes".into(), router.ip("route show table all"));
    state.insert("routes 6".into(), router.ip("-6 route show table main"));
    state
}

/// Reads all readable files in a directory and its subdirectories.
fn read_all(dir: &Path, into: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            into.insert(path.display().to_string(), text);
        }
    }
}

#[track_caller]
fn assert_unchanged(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) {
    for (name, value) in before {
        // Values with this name are random. All other values must be the same as before.
        if !name.ends_with("stable_secret") {
            assert_eq!(after.get(name), Some(value), "{name}");
        }
    }
}

fn the_end_of_a_router_leaves_the_machine_as_it_was(setup: Setup) {
    setup.wait_until_settled();
    let before = state(setup.router());
    let rig = setup.start();
    rig.forwards(&packets(64));
    rig.take_program().stop(Signal::INT).well();
    assert_unchanged(&before, &state(&rig.router));
    crosses_again(&rig);
}

fn the_death_of_a_router_leaves_no_program_behind(setup: Setup) {
    kill(&setup.start());
}

/// netmap-fwd crashed at a VLAN whose parent had no IPv4 address.
fn an_interface_without_address_is_accepted(setup: Setup) {
    let rig = setup.with_c().ip("addr flush dev e2").start();
    rig.forwards(&packets(16));
    rig.c().send(&Packet::udp(v4().c, v4().b, b"from a link without subnet"));
    rig.c().send(&Packet::udp(v6().c, v6().b, b"from a link without subnet"));
    // Linux does not require that the source is in the interface's subnet, so B may receive the two
    // packets.
    let seen = rig.observe([0; 3]);
    assert!(seen.b.len() <= 2 && seen.a.is_empty(), "{seen:?}");
}

fn routes_beyond_the_limit_are_left_to_the_kernel(setup: Setup) {
    let lines: String =
        (0..200).map(|i| format!("route add 10.20.{i}.0/24 via 10.3.0.3\n")).collect();
    let rig =
        setup.ip(&lines).ip("route add default via 10.3.0.2").with_flags("--max-routes 50").start();
    for i in 0..200 {
        let packet = Packet::udp(v4().a, ip(&format!("10.20.{i}.1")), b"more than the limit");
        rig.a.send(&packet);
    }
    let seen = rig.observe([0, 200, 0]);
    let second = crate::rig::host_mac(3, 3);
    assert!(seen.b.iter().all(|arrival| arrival.dst == second), "not by the default route");
}

fn routes_beyond_the_limit_raise_an_alarm(setup: Setup) {
    let rig = setup.with_flags("--max-routes 50").start();
    let lines: String =
        (0..200).map(|i| format!("route add 10.20.{i}.0/24 via 10.3.0.3\n")).collect();
    rig.ip(&lines);
    rig.take_program().wait_for_text("has found no space in the tables");
}

fn a_rule_of_netfilter_that_is_added_later_is_obeyed(setup: Setup) {
    if !slipring_test_support::installed("nft") {
        return;
    }
    let rig = setup.start();
    let forbidden = Packet::udp_ports(v4().a, v4().b, [4000, 5353], b"forbidden");
    rig.forwards(std::slice::from_ref(&forbidden));
    rig.router.command("nft", "add table ip filter");
    rig.router
        .command("nft", "add chain ip filter forward { type filter hook forward priority 0 ; }");
    rig.router.command("nft", "add rule ip filter forward udp dport 5353 drop");
    rig.until(|| {
        rig.a.send(&forbidden);
        rig.observe([0; 3]).b.is_empty().then_some(())
    });
    rig.forwards(&packets(16));
}

/// If another device has got the index, frames redirected by the index would leave by the wrong
/// device.
fn an_interface_that_was_deleted_stays_out_even_if_a_new_one_has_its_name_and_index(setup: Setup) {
    let rig = setup.with_c().start();
    let link = rig.router.ip("-o link show dev e2");
    let index = link.split(':').next().unwrap();
    rig.ip(&format!(
        "link del e2
         link add e2 index {index} type veth peer name other
         link set other up
         link set e2 up
         addr add 10.5.0.1/24 dev e2"
    ));
    let program = rig.take_program();
    program.wait_for_text("e2 was deleted");
    let interface = rig.ask(&["interface", "e2"])["interfaces"][0].clone();
    assert_eq!(interface["state"], "deleted");
    assert_eq!(interface["up"], false);
    // The other interfaces still forward.
    rig.forwards(&packets(64));
    // The route to the new interface is in the tables a moment later.
    rig.until(|| {
        let route = rig.ask(&["route", "get", "10.5.0.2"]);
        (route["action"] == "to the kernel").then_some(())
    });
    program.stop(Signal::INT).well();
}

fn a_renamed_interface_is_still_the_routers(setup: Setup) {
    let rig = setup.start();
    rig.ip("link set e1 name x1");
    rig.until(|| {
        let before = counted(&rig, "e0");
        rig.all_arrive_at_b(&packets(64))?;
        (counted(&rig, "e0")[0] >= before[0] + 64).then_some(())
    });
    assert_eq!(rig.ask(&["interface", "e1"])["interfaces"][0]["state"], "forwarding");
}
