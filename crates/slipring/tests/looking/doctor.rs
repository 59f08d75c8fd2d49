//! `slipring doctor`.

use serde_json::Value;

use super::support::program::{Ended, Program};
use super::{as_ordinary_user, document, link_names, slipring, with_links};

fn findings(ended: &Ended) -> Vec<Value> {
    document(ended)["findings"].as_array().unwrap().clone()
}

/// The exit status says whether something failed, and so does the document.
fn follows_the_rule(ended: &Ended) {
    let failed = findings(ended).iter().any(|finding| finding["state"] == "fail");
    assert_eq!(ended.code(), if failed { 3 } else { 0 }, "{ended:#?}");
    assert_eq!(document(ended)["healthy"], !failed);
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
    // Whoever may make namespaces may try these there.
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

#[test]
fn nothing_of_the_trials_stays() {
    let Some(namespace) = with_links() else { return };
    let before = link_names(&namespace);
    slipring(&namespace, "doctor");
    assert_eq!(link_names(&namespace), before);
}
