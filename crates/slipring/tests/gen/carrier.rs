//! A link without a carrier: `gen` waits for it, reports that, and fails.

use crate::support::namespace::Namespace;
use crate::support::program::{Program, SLIPRING};

fn links() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.ip("link add va type veth peer name vb");
    namespace.ip("link set va up");
    Some(namespace)
}

#[test]
fn a_sender_whose_link_has_no_carrier_waits_says_so_and_fails() {
    let Some(namespace) = links() else { return };
    for kind in ["netmap", "packet"] {
        let words = format!("gen -i {kind}:va -f tx -n 10 -w 0.2");
        let ended = Program::start(&namespace, SLIPRING, &words).finish();
        assert_eq!(ended.code(), 3, "{ended:#?}");
        assert!(ended.stderr.contains("va has no carrier: waiting 200ms for it"), "{ended:#?}");
        assert!(ended.stderr.contains("error[SR0113]: va has no carrier"), "{ended:#?}");
    }
}

#[test]
fn a_carrier_that_comes_in_time_starts_the_sender() {
    let Some(namespace) = links() else { return };
    let words = "gen -i packet:va -f tx -n 10 -w 60 --json";
    let sender = Program::start(&namespace, SLIPRING, words);
    sender.wait_for("waiting", |output| output.stderr.contains("no carrier").then_some(()));
    namespace.ip("link set vb up");
    let report: serde_json::Value = serde_json::from_str(&sender.finish().well().stdout).unwrap();
    assert_eq!(report["packets"], 10, "{report}");
}
