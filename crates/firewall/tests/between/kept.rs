//! Tests of saved rules and states, of links that go down, of runs without ports, and of captures
//! that are not overwritten.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use slipring_test_support::{TIMEOUT, eventually};

use super::*;

#[test]
fn rules_made_at_run_time_are_there_again_after_a_restart_with_the_state_file() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = site.write("rules", "add 100 allow ip from any to any\n");
    let state = site.dir.path().join("state").display().to_string();
    let words = format!("--rules {rules} --state {state}");
    let firewall = site.firewall(&words);
    for command in [
        "-q add 50 set 3 deny udp from table(bad) to any",
        "-q table bad add 192.0.2.0/24 7",
        "pipe 1 config bw 10Mbit/s delay 20ms",
        "set disable 3",
        "sysctl net.inet.ip.fw.one_pass=0",
    ] {
        site.ipfw(command);
    }
    let listings = ["-S list", "table all list", "pipe show", "set show", "sysctl -a"];
    let before = listings.map(|listing| site.ipfw(listing));
    // The rules must be saved no matter how the firewall ends.
    firewall.signal(Signal::KILL);
    drop(firewall);
    let firewall = site.firewall(&words);
    assert_eq!(listings.map(|listing| site.ipfw(listing)), before);
    let saved = site.ipfw("save");
    assert_eq!(saved, std::fs::read_to_string(&state).unwrap());
    site.ipfw(&site.write("saved", &saved));
    assert_eq!(listings.map(|listing| site.ipfw(listing)), before, "it loads over what runs");
    firewall.stop(Signal::INT).well();
}

#[test]
fn an_open_connection_goes_on_after_a_restart_that_keeps_states_and_not_after_one_that_does_not() {
    const RULES: &str = "add 100 check-state\n\
                         add 200 allow tcp from 10.9.0.1 to any 80 setup keep-state\n";
    for (threads, flag, goes_on) in
        [(1, "--state-dynamic", true), (3, "--state-dynamic", true), (1, "", false)]
    {
        let Some(site) = FirewallLab::new() else { return };
        let rules = site.write("rules", RULES);
        let state = site.dir.path().join("state").display().to_string();
        let words = format!("--rules {rules} --state {state} {flag} --threads {threads}");
        let firewall = site.firewall(&words);
        let (near, far) = connection(&site);
        assert!(says(&near, &far, true) && says(&far, &near, true));
        firewall.stop(Signal::TERM).well();
        let kept = std::fs::read_to_string(&state).unwrap_or_default();
        assert_eq!(kept.matches("\nstate ").count(), usize::from(goes_on), "{kept}");
        let firewall = site.firewall(&words);
        // If the rules deny the connection, no byte may arrive before the timeout.
        assert_eq!(says(&far, &near, goes_on), goes_on, "{}", site.ipfw("-ad list"));
        assert_eq!(says(&near, &far, goes_on), goes_on);
        firewall.stop(Signal::INT).well();
    }
}

#[test]
fn a_state_file_that_has_lost_its_end_is_told_at_the_start_and_the_command_named_mends_it() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = site.write("rules", "add 100 allow ip from any to any\n");
    let state = site.dir.path().join("state").display().to_string();
    let words = format!("--rules {rules} --state {state}");
    let firewall = site.firewall(&words);
    for n in 1..9 {
        site.ipfw(&format!("-q add {n} deny udp from any to any {n}"));
    }
    firewall.stop(Signal::INT).well();
    let whole = std::fs::read(&state).unwrap();
    let zeros = vec![0; whole.len()];
    for cut in [&whole[..whole.len() / 2], &whole[..9], &[], &zeros] {
        std::fs::write(&state, cut).unwrap();
        let line = format!("-T 0 {} {words}", site.lab.ports());
        let ended = Program::launch(&site.lab.mid, site.command("firewall", &line)).finish();
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.stderr.contains("the rules that were kept are not whole"), "{ended:?}");
        let (_, help) = ended.stderr.split_once("set it aside: ").expect("the next command");
        let help = help.lines().next().unwrap();
        assert!(Command::new("sh").args(["-c", help]).status().unwrap().success(), "{help}");
        let firewall = site.firewall(&words);
        assert!(site.ipfw("list").starts_with("00100 allow ip from any to any\n65535"));
        firewall.stop(Signal::INT).well();
    }
    std::fs::write(&state, &whole).unwrap();
    let firewall = site.firewall(&words);
    assert_eq!(site.ipfw("list").lines().count(), 10);
    firewall.stop(Signal::INT).well();
}

#[test]
fn writers_at_once_leave_a_state_file_that_is_whole_while_frames_pass_and_rules_are_saved() {
    let Some(site) = FirewallLab::new() else { return };
    let state = site.dir.path().join("state").display().to_string();
    let words = format!("--default accept --state {state} --state-dynamic");
    let firewall = site.firewall(&words);
    site.ipfw("-q add 60000 count ip from any to any keep-state");
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let site = &site;
            scope.spawn(move || {
                for n in 1..=10 {
                    site.ipfw(&format!(
                        "-q add {}{n:03} count udp from any to any {n}",
                        writer + 1
                    ));
                    let saved = site.ipfw("save");
                    assert!(saved.ends_with(" wrote.\n") && saved.contains(&format!("port {n}\n")));
                }
            });
        }
        for _ in 0..5 {
            assert!(site.pings());
        }
    });
    let listed = site.ipfw("list");
    assert_eq!(listed.lines().count(), 32, "{listed}");
    firewall.stop(Signal::TERM).well();
    let firewall = site.firewall(&words);
    assert_eq!(site.ipfw("list"), listed);
    firewall.stop(Signal::INT).well();
}

/// Opens a connection from the left side to the right one.
fn connection(site: &FirewallLab) -> (TcpStream, TcpStream) {
    let listener = site.lab.right.run(|| TcpListener::bind("10.9.0.2:80").unwrap());
    let near = site.lab.left.run(|| TcpStream::connect("10.9.0.2:80").unwrap());
    (near, listener.accept().unwrap().0)
}

/// Returns whether a byte that is sent at `from` arrives at `to`. If the byte is allowed, waits up
/// to the usual timeout of tests; if it is denied, waits two seconds.
fn says(mut from: &TcpStream, mut to: &TcpStream, is_allowed: bool) -> bool {
    from.write_all(b"x").unwrap();
    let time = if is_allowed { TIMEOUT } else { Duration::from_secs(2) };
    to.set_read_timeout(Some(time)).unwrap();
    loop {
        match to.read(&mut [0]) {
            // With a timeout, the kernel does not restart the call after a signal, so it is
            // repeated here.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.is_ok_and(|bytes| bytes == 1),
        }
    }
}

#[test]
fn a_link_that_goes_down_and_up_leaves_rules_states_and_counters_as_they_were() {
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("");
    site.ipfw("-q add 100 allow icmp from any to any icmptypes 8 keep-state");
    site.ipfw("-q pipe 1 config delay 1ms");
    site.ipfw("sysctl net.inet.ip.fw.dyn_short_lifetime=600");
    assert!(site.pings());
    let (counted, states) = (site.count(100), site.ipfw("-D list").lines().count());
    for interface in ["la", "ra"] {
        site.lab.mid.ip(&format!("link set {interface} down"));
        assert!(site.is_cut_off());
        site.lab.mid.ip(&format!("link set {interface} up"));
        eventually("frames behind the link", || (!site.is_cut_off()).then_some(()));
    }
    assert!(site.count(100) > counted, "it counts on");
    assert!(site.ipfw("-D list").lines().count() >= states, "states stay");
    assert!(site.ipfw("pipe show").starts_with("00001: unlimited         1 ms"));
    firewall.stop(Signal::INT).well();
}

#[test]
fn an_endless_source_without_ports_answers_show_and_zero_in_a_loop_and_kipfw_accepts() {
    let Some(site) = FirewallLab::new() else { return };
    let command = site.command("kipfw", "--bench=16 -t 0 --json");
    let source = Program::launch(&site.lab.mid, command);
    eventually("the control socket", || (site.try_ipfw("show").code() == 0).then_some(()));
    for _ in 0..5 {
        eventually("packets that the last rule accepts", || (site.count(65535) > 0).then_some(()));
        assert_eq!(site.ipfw("zero"), "Accounting cleared.\n");
    }
    assert!(site.ipfw("list").contains("65535 allow ip from any to any"));
    site.ipfw("-q add 100 deny ip from any to any");
    eventually("packets that a rule denies", || (site.count(100) > 0).then_some(()));
    let ended = source.stop(Signal::INT).well();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let (packets, sent) = (&report["bench"]["packets"], &report["bench"]["sent"]);
    let denied = report["bench"]["lost"]["denied"].as_u64().unwrap();
    assert_eq!(packets.as_u64().unwrap(), sent.as_u64().unwrap() + denied, "{report}");
}

#[test]
fn kipfw_denies_where_that_is_asked_for() {
    let Some(site) = FirewallLab::new() else { return };
    let command = site.command("kipfw", "--bench -t 1ms --default deny --json");
    let ended = Program::launch(&site.lab.mid, command).finish().well();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["bench"]["sent"], 0, "{report}");
}

#[test]
fn a_capture_that_frames_go_to_is_never_read_and_is_written_anew_only_if_that_is_said() {
    let Some(site) = FirewallLab::new() else { return };
    let (from, to) = (site.write("a.pcap", ""), site.write("b.pcap", "precious"));
    let words = format!("null: pcap:{to} -t 1ms");
    let run =
        |words: &str| Program::launch(&site.lab.mid, site.command("firewall", words)).finish();
    for words in [words.clone(), format!("pcap:{from} pcap:{to} -t 1ms")] {
        let refused = run(&words);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains("--overwrite"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "precious");
    }
    run(&format!("{words} --overwrite")).well();
    assert_eq!(std::fs::metadata(&to).unwrap().len(), 24, "the header of a capture");
}

#[test]
fn the_rules_of_the_readme_are_accepted() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let text = readme.lines().find_map(|line| {
        line.strip_prefix("printf '")?
            .strip_suffix("' > rules")
            .map(|text| text.replace("\\n", "\n"))
    });
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules");
    std::fs::write(&rules, text.expect("the line that makes the file")).unwrap();
    let mut command = std::process::Command::new(SLIPRING);
    let checked = command.args(["ipfw", "-n"]).arg(&rules).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
