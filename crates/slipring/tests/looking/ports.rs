//! Tests of `slipring ports`.

use serde_json::Value;
use slipring_test_support::{Program, installed, program, skip};

use super::{document, slipring, with_links};
use crate::support::SLIPRING;

fn row(document: &Value, interface: &str) -> Value {
    let rows = document["interfaces"].as_array().unwrap();
    rows.iter().find(|row| row["interface"] == interface).unwrap().clone()
}

#[test]
fn a_link_is_listed_with_what_it_can_do() {
    let Some(namespace) = with_links() else { return };
    namespace.ip("link set there mtu 1400");
    let ended = slipring(&namespace, "ports --json").well();
    let there = row(&document(&ended), "there");
    assert_eq!(there["port"], "netmap:there");
    assert_eq!((&there["driver"], &there["link_kind"]), (&"veth".into(), &"veth".into()));
    assert_eq!((&there["mtu"], &there["up"]), (&1400.into(), &true.into()));
    assert_eq!(there["default_route"], false);
    let modes = there["modes"].as_array().unwrap();
    // In a user namespace `packet` is the only mode.
    assert!(modes.contains(&"packet".into()), "{modes:?}");
    assert_eq!(modes.contains(&"generic".into()), modes.len() > 1, "{modes:?}");
}

#[test]
fn the_interface_of_the_default_route_is_marked() {
    let Some(namespace) = with_links() else { return };
    namespace.ip("address add 10.9.0.1/24 dev here");
    namespace.ip("route add default via 10.9.0.2");
    let ended = slipring(&namespace, "ports").well();
    let marked: Vec<_> =
        ended.stdout.lines().filter(|line| line.contains("default route")).collect();
    assert!(matches!(marked[..], [line] if line.starts_with("netmap:here ")), "{marked:?}");
}

#[test]
fn names_stand_alone_for_completion() {
    let Some(namespace) = with_links() else { return };
    namespace.ip("link add br-lan type veth peer name x9");
    let ended = slipring(&namespace, "ports --names").well();
    let mut names: Vec<_> = ended.stdout.lines().collect();
    names.sort_unstable();
    let all = ["netmap:br--lan", "netmap:here", "netmap:lo", "netmap:there", "netmap:x9"];
    assert_eq!(names, all);
}

#[test]
fn who_holds_an_interface_is_named() {
    let Some(namespace) = with_links() else { return };
    let holder = Program::start(&namespace, SLIPRING, "trace -i xdp:here");
    holder.wait_for_text("# xdp:here kind=xdp");
    let listed = document(&slipring(&namespace, "ports --json").well());
    let owners = row(&listed, "here")["owners"].clone();
    assert!(
        owners.as_array().unwrap().iter().any(|owner| owner["pid"] == holder.pid()),
        "{owners}"
    );
    assert_eq!(row(&listed, "there")["owners"], Value::Array(vec![]));
}

#[test]
fn in_a_user_namespace_only_the_way_that_needs_no_bpf_is_listed() {
    let listed = |json: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        program::output(command.args(["-rn", SLIPRING, "ports"]).args(json))
    };
    if !installed("unshare") {
        return;
    }
    let (table, document) = (listed(&[]), listed(&["--json"]));
    if !table.status.success() {
        return skip!("user namespaces may not be made here");
    }
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("in a user namespace: as packet: with --shared only"), "{text}");
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(row(&document, "lo")["modes"], serde_json::json!(["packet"]));
}
