//! Tests of `slipring doctor`.

use serde_json::Value;
use slipring_test_support::{FinishedProgram, Namespace, Program, close, user_namespaces_allowed};

use super::{as_ordinary_user, document, link_names, slipring, with_links};

fn findings(ended: &FinishedProgram) -> Vec<Value> {
    document(ended)["findings"].as_array().unwrap().clone()
}

/// Asserts that exit status and document agree on whether something failed.
fn follows_the_rule(ended: &FinishedProgram) {
    let failed: Vec<_> =
        findings(ended).into_iter().filter(|finding| finding["state"] == "fail").collect();
    // Wrong names and options have SR0101, files that cannot be opened SR0201, and files that are
    // not captures SR0202.
    let usage = ["SR0101", "SR0201", "SR0202"];
    let is_usage =
        |finding: &Value| finding["code"].as_str().is_some_and(|code| usage.contains(&code));
    let code = match &failed[..] {
        [] => 0,
        failed if failed.iter().any(is_usage) => 2,
        _ => 3,
    };
    assert_eq!(ended.code(), code, "{ended:#?}");
    assert_eq!(document(ended)["healthy"], failed.is_empty());
}

#[test]
fn the_exit_status_follows_the_findings() {
    let Some(namespace) = with_links() else { return };
    let ended = slipring(&namespace, "doctor --json");
    follows_the_rule(&ended);
    for finding in findings(&ended) {
        let known = ["ok", "warn", "fail"].contains(&finding["state"].as_str().unwrap());
        assert!(known && finding["check"].is_string() && finding["finding"].is_string());
    }
    // A process that may create namespaces can try these features in a namespace of its own.
    let tried = |check| findings(&ended).iter().any(|finding| finding["check"] == check);
    assert!(tried("xdp") && tried("tcx") && tried("af_xdp") && tried("bpf"));
}

#[test]
fn an_interface_that_is_down_fails_with_the_command_that_mends_it() {
    let Some(namespace) = with_links() else { return };
    namespace.ip("link set here down");
    let ended = slipring(&namespace, "doctor netmap:here --json");
    assert_eq!(ended.code(), 3);
    let link = findings(&ended).into_iter().find(|finding| finding["check"] == "link").unwrap();
    assert_eq!((&link["state"], &link["mend"]), (&"fail".into(), &"ip link set here up".into()));
    namespace.ip("link set here up");
    namespace.wait_for_carrier("here");
    assert_eq!(slipring(&namespace, "doctor netmap:here").code(), 0);
}

#[test]
fn a_port_that_does_not_exist_fails_and_says_which_do() {
    let Some(namespace) = with_links() else { return };
    let ended = slipring(&namespace, "doctor xdp:nowhere");
    assert_eq!(ended.code(), 3);
    assert!(ended.stdout.contains("nowhere") && ended.stdout.contains("there"), "{ended:#?}");
}

#[test]
fn a_name_that_no_command_takes_has_the_exit_status_of_wrong_usage() {
    let Some(namespace) = with_links() else { return };
    for port in ["null:^", "netmap:here@conf:slots=1", "tap:here", "xdp:", "pcap:/nowhere/x.pcap"] {
        assert_eq!(slipring(&namespace, &format!("doctor {port}")).code(), 2, "{port}");
        assert_eq!(slipring(&namespace, &format!("gen -i {port} -f tx -n 1")).code(), 2, "{port}");
    }
}

#[test]
fn a_port_that_needs_no_interface_is_well() {
    let Some(namespace) = with_links() else { return };
    let ended = slipring(&namespace, "doctor null: --json");
    follows_the_rule(&ended);
    assert_eq!(ended.code(), 0);
}

#[test]
fn an_ordinary_user_gets_a_report_and_the_way_to_more() {
    let dir = tempfile::tempdir().unwrap();
    let (Some(namespace), Some(mut command)) = (with_links(), as_ordinary_user(&dir)) else {
        return;
    };
    command.args(["doctor", "--json"]);
    let ended = Program::launch(&namespace, command).finish();
    follows_the_rule(&ended);
    let findings = findings(&ended);
    let capabilities = findings.iter().find(|finding| finding["check"] == "capabilities").unwrap();
    assert_eq!(capabilities["state"], "warn");
    assert!(capabilities["mend"].as_str().unwrap().contains("setcap cap_net_raw"));
}

/// Returns the state and the finding of `doctor` for a port, and checks the exit status.
fn of_port(ended: &FinishedProgram) -> (String, String) {
    follows_the_rule(ended);
    let found = findings(ended).into_iter().find(|finding| finding["check"] == "port").unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    assert!(text("state") == "ok" || !text("mend").is_empty(), "{found}");
    (text("state"), text("finding"))
}

/// Like [`of_port`], but runs `doctor` itself, as an ordinary user. Before that, root runs the
/// shell commands `around` in a private mount namespace, in which `doctor` then runs. Returns
/// `None` if this process cannot become an ordinary user.
fn of_port_to_user(namespace: &Namespace, around: &str, port: &str) -> Option<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let user = as_ordinary_user(&dir)?;
    let words: Vec<_> = user.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let script = format!("{around}\nexec setpriv {} doctor --json '{port}'", words.join(" "));
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &script]);
    Some(of_port(&Program::launch(namespace, command).finish()))
}

#[test]
fn a_capture_is_well_only_where_it_can_be_read_or_made() {
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("text"), "no capture").unwrap();
    slipring(&namespace, &format!("gen -i pcap:{} -f tx -n 1", path("good"))).well();
    let message =
        |place: &str| of_port(&slipring(&namespace, &format!("doctor pcap:{place} --json")));
    for (place, words) in [
        (path(""), "is a directory"),
        (path("text"), "not a capture"),
        (path("nowhere/x.pcap"), "nothing can be made in"),
        (path("text/x.pcap"), "ot a directory"),
    ] {
        let (state, finding) = message(&place);
        assert!(state == "fail" && finding.contains(words), "{place}: {state}: {finding}");
    }
    for place in [path("good"), path("new"), "/dev/null".to_owned(), "-".to_owned()] {
        assert_eq!(message(&place).0, "ok", "{place}");
    }
}

#[test]
fn a_capture_that_an_ordinary_user_can_neither_read_nor_make_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let closed = dir.path().join("closed");
    std::fs::write(&closed, "").unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).unwrap();
    for (name, words) in [("new.pcap", "nothing can be made in"), ("closed", "ermission denied")] {
        let port = format!("pcap:{}", dir.path().join(name).display());
        let Some((state, finding)) = of_port_to_user(&namespace, "", &port) else { return };
        assert!(state == "fail" && finding.contains(words), "{port}: {state}: {finding}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_or_is_in_use_is_told() {
    let Some(namespace) = with_links() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let message = |port: &str| of_port(&slipring(&namespace, &format!("doctor {port} --json")));
    let long = path(&"x".repeat(120));
    for kind in ["vhost", "vhostclient"] {
        let (state, finding) = message(&format!("{kind}:{long}"));
        assert!(state == "fail" && finding.contains("bytes"), "{kind}: {state}: {finding}");
    }
    let used = path("used.sock");
    let place = used.clone();
    let listener = namespace.run(move || std::os::unix::net::UnixListener::bind(place).unwrap());
    let (state, finding) = message(&format!("vhost:{used}"));
    assert!(state == "fail" && finding.contains("another program listens"), "{finding}");
    assert_eq!(message(&format!("vhostclient:{used}")).0, "ok");
    close(listener);
    assert_eq!(
        message(&format!("vhost:{used}")).0,
        "ok",
        "what a killed program left is taken over"
    );
}

#[test]
fn a_tap_device_is_well_only_where_this_user_can_make_or_use_it() {
    let Some(namespace) = with_links() else { return };
    let closed = "mount -t tmpfs none /mnt; mknod -m 600 /mnt/tun c 10 200
        mount --bind /mnt/tun /dev/net/tun";
    let own = "mount -t sysfs none /sys; ip tuntap add dev own mode tap user 65534";
    let cases = [
        (closed, "tap:new", "fail", "/dev/net/tun"),
        ("", "tap:new", "fail", "cap_net_admin"),
        ("", "tap:here", "fail", "no TAP device"),
        (own, "tap:own", "ok", "can be used"),
        ("", "tap:own", "warn", "whose it is"),
    ];
    for (around, port, state, words) in cases {
        let Some(message) = of_port_to_user(&namespace, around, port) else { return };
        assert!(message.0 == state && message.1.contains(words), "{port}: {message:?}");
    }
    let (state, finding) = of_port(&slipring(&namespace, "doctor tap:new --json"));
    assert!(state == "ok" && finding.contains("will be made"), "{finding}");
    assert!(!link_names(&namespace).contains(&"new".to_owned()), "it was not made for this");
}

#[test]
fn nothing_of_the_trials_stays() {
    let Some(namespace) = with_links() else { return };
    let before = link_names(&namespace);
    slipring(&namespace, "doctor");
    assert_eq!(link_names(&namespace), before);
}

#[test]
fn where_no_program_can_be_loaded_nothing_is_said_of_links_that_could_be_made() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(user) = as_ordinary_user(&dir).filter(|_| user_namespaces_allowed()) else { return };
    let words: Vec<_> = user.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let (binary, rest) = words.split_last().unwrap();
    let mut command = std::process::Command::new("setpriv");
    command.args(rest).args(["unshare", "-rn", binary, "doctor", "--json"]);
    let ended = Program::launch(&namespace, command).finish();
    let findings = findings(&ended);
    let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);
    assert!(of("capabilities").unwrap()["finding"].as_str().unwrap().contains("no BPF"));
    assert!(of("xdp").is_none(), "{ended:#?}");
}
