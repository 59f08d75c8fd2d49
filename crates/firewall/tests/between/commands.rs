//! Tests of exit codes, of files, and of how one of several firewalls is chosen.

use std::net::UdpSocket;

use slipring_test_support::eventually;

use super::*;

#[test]
fn mistakes_are_told_with_column_and_exit_code_and_need_no_firewall() {
    let Some(site) = FirewallLab::new() else { return };
    for (words, code, output) in [
        ("-n add 400 alow ip from any to any", 65, "column 9: `alow`"),
        ("-n frobnicate", 64, "frobnicate"),
        ("-n pipe 1 config bw fast", 65, "column 18: `fast`"),
        ("", 64, "there is no command"),
        ("show", 69, "no firewall, and no router with rules, runs"),
        ("-n sysctl net.inet.ip.fw.nosuch=1", 69, "net.inet.ip.fw.nosuch"),
        ("-n sysctl net.inet.ip.fw.autoinc_step=0", 65, "autoinc_step"),
        ("-n /nowhere/rules", 66, "/nowhere/rules"),
    ] {
        let ended = site.try_ipfw(words);
        assert_eq!(ended.code(), code, "{words}: {ended:?}");
        assert!(ended.stderr.contains(output), "{words}: {}", ended.stderr);
    }
    assert_eq!(
        site.ipfw("-n add 400 deny tcp from any to any 80"),
        "00400 deny tcp from any to any dst-port 80\n"
    );
}

#[test]
fn a_file_is_loaded_wholly_or_not_at_all() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("");
    let good = site.write("good", "# rules\n-f flush\npipe 1 config bw 1Mbit/s\nadd 100 pipe 1 udp from any to any\nadd 200 allow ip from any to any\n");
    assert_eq!(
        site.ipfw(&good),
        "Flushed all rules.\n00100 pipe 1 udp from any to any\n00200 allow ip from any to any\n"
    );
    for (text, code, output) in [
        (
            "add 300 allow ip from any to any\nadd 400 allow ip frm any to any\n",
            65,
            "line 2, column 18",
        ),
        ("add 300 allow ip from any to any\ndelete 999\n", 65, "line 2: rule 999 not found"),
        (
            "pipe 1 delete\nadd 300 allow ip from any to any\nqueue 5 config weight 3\n",
            65,
            "line 3: queue 5",
        ),
    ] {
        let ended = site.try_ipfw(&site.write("bad", text));
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.stderr.contains(output), "{}", ended.stderr);
        assert_eq!(site.ipfw("list").lines().count(), 3, "nothing of it was done");
        assert!(site.ipfw("pipe show").contains("1.000 Mbit/s"));
    }
}

#[test]
fn a_run_directory_of_a_stranger_is_no_mistake_in_a_command() {
    let Some(site) = FirewallLab::new() else { return };
    let open = site.dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for words in ["list", "--name edge list"] {
        let mut command = std::process::Command::new(SLIPRING);
        command.arg("ipfw").arg("--run-dir").arg(&open).args(words.split(' '));
        let ended = Program::launch(&site.lab.mid, command).finish();
        assert_eq!(ended.code(), 69, "{words}: {ended:?}");
        assert!(ended.stderr.contains("error[SR0204]"), "{words}: {ended:?}");
        assert!(ended.stderr.contains("export SLIPRING_RUN=DIR"), "{words}: {ended:?}");
    }
}

#[test]
fn a_check_tells_mistakes_that_show_only_as_rules_are_carried_out() {
    let Some(site) = FirewallLab::new() else { return };
    let text = "table tt create\ntable tt create\nadd 100 fwd port:nosuch ip from any to any\n\
        queue 4 config weight 3\n";
    let rules = site.write("rules", text);
    let words = format!("null: null: --check --rules {rules}");
    let ended = Program::launch(&site.lab.mid, site.command("firewall", &words)).finish();
    assert_ne!(ended.code(), 0, "{ended:?}");
    for output in
        ["line 2: Table tt: File exists", "line 3: there is no port nosuch", "line 4: queue 4"]
    {
        assert!(ended.stderr.contains(output), "{ended:?}");
    }
    // `-n` does not know which ports the firewall will have, so it accepts all names.
    let ended = site.try_ipfw(&format!("-n {rules}"));
    assert_eq!(ended.code(), 65, "{ended:?}");
    assert!(ended.stderr.contains("line 2: Table tt: File exists"), "{ended:?}");
    assert!(!ended.stderr.contains("nosuch"), "{ended:?}");
}

#[test]
fn two_firewalls_are_told_apart_by_name() {
    let Some(site) = FirewallLab::new() else { return };
    let start = |name: &str| {
        let words = format!("-T 0 null: null: --name {name}");
        let program = Program::launch(&site.lab.mid, site.command("firewall", &words));
        program.wait_for_text("Ready to go");
        program
    };
    let _programs = [start("one"), start("two")];
    let ended = site.try_ipfw("list");
    assert_eq!(ended.code(), 69);
    assert!(ended.stderr.contains("(one)") && ended.stderr.contains("(two)"), "{}", ended.stderr);
    let output = site.try_ipfw("-v --name one list").well();
    assert!(output.stderr.contains("asking one in "), "{}", output.stderr);
    site.ipfw("--name one add 7 allow ip from any to any");
    assert_eq!(site.ipfw("--name one list").lines().count(), 2);
    assert_eq!(site.ipfw("--name two list").lines().count(), 1);
}

#[test]
fn tables_sets_and_listings_are_as_ipfw_has_them() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("");
    site.ipfw("table hosts create type addr");
    assert_eq!(site.ipfw("table hosts add 10.0.0.0/8 1"), "added: 10.0.0.0/8 1\n");
    assert_eq!(site.ipfw("table hosts list"), "--- table(hosts), set(0) ---\n10.0.0.0/8 1\n");
    site.ipfw("add 100 set 5 count ip from table(hosts) to any");
    site.ipfw("set disable 5");
    assert_eq!(
        site.ipfw("set show"),
        format!(
            "disable 5 enable{}\n",
            (0..31).filter(|n| *n != 5).map(|n| format!(" {n}")).collect::<String>()
        )
    );
    assert_eq!(
        site.ipfw("-S list 100"),
        "# DISABLED 00100 set 5 count ip from table(hosts) to any\n"
    );
    let value: serde_json::Value = serde_json::from_str(&site.ipfw("--json show")).unwrap();
    assert_eq!(value["answer"][0]["rules"][0]["number"], 100);
    let ended =
        Program::launch(&site.lab.mid, site.command("dnctl", "add 1 allow ip from any to any"))
            .finish();
    assert_eq!(ended.code(), 64);
}

#[test]
fn metrics_are_text_and_values() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("--default accept");
    site.ipfw("add 100 count log icmp from any to any");
    assert!(site.pings());
    let text = site.ipfw("metrics");
    assert!(text.contains("rule_packets_total{rule=\"100\",nth=\"0\",set=\"0\"} 2"), "{text}");
    assert!(text.contains("log_lines_total 2\n") && text.ends_with("# EOF\n"), "{text}");
    let output: serde_json::Value = serde_json::from_str(&site.ipfw("--json metrics")).unwrap();
    let rule = output["metrics"].as_array().unwrap().iter().find(|metric| {
        metric["name"].as_str().unwrap().ends_with("rule_packets_total")
            && metric["labels"]["rule"] == "100"
    });
    assert_eq!(rule.unwrap()["value"], 2, "{output}");
}

#[test]
fn icmp_errors_beyond_the_limits_on_their_rate_are_counted() {
    const DATAGRAMS: u64 = 300;
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("--json --default accept");
    // After this ping, the neighbour's MAC address is known. So no datagram waits for address
    // resolution.
    assert!(site.pings());
    site.ipfw("add 50 unreach host udp from any to any");
    // `DATAGRAMS` is larger than the number of ICMP errors that the firewall sends to one host in a
    // burst.
    site.lab.left.run(|| {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        (0..DATAGRAMS).for_each(|_| _ = socket.send_to(b"x", "10.9.0.2:9").unwrap());
    });
    eventually("all datagrams", || {
        let rule = site.ipfw("show 50");
        (rule.split_whitespace().nth(1) == Some(&DATAGRAMS.to_string())).then_some(())
    });
    let metrics = site.ipfw("metrics");
    let ended = firewall.stop(Signal::INT).well();
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let value = |key: &str| report["firewall"][key].as_u64().unwrap();
    let suppressed = value("suppressed_errors");
    assert!(suppressed > 0 && value("made") + suppressed == DATAGRAMS, "{report}");
    let line = format!("slipring_firewall_suppressed_errors_total {suppressed}\n");
    assert!(metrics.contains(&line), "{metrics}");
}
