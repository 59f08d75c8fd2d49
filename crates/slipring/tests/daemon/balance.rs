//! Tests of `slipring lb`, which sends frames to programs written for netmap, through pipes of the
//! device.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, output};
use slipring_test_support::{Program, Sandbox};

use crate::support::SLIPRING;

#[test]
fn programs_at_pipes_of_the_device_get_what_a_port_of_it_receives() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let mut lb = Command::new(SLIPRING);
    lb.args(["lb", "--json", "-p", "out:1", "-p", "copy:1", "-i"]);
    lb.arg(format!("kernel:in}}1@{}", site.run_dir().join("netmap").display()));
    let lb = Program::launch(&site.inside, lb);
    let bound = |end: &str| {
        let receiver = site.client(&format!("receive {end} {FRAMES_WITHIN_RING}"));
        receiver.wait_for_text("bound");
        receiver
    };
    let receivers = ["out}0", "copy}0"].map(bound);
    site.client(&format!("send in{{1 {FRAMES_WITHIN_RING}")).finish().well();
    for receiver in receivers {
        assert_eq!(output(receiver.finish()), "bound\nreceived");
    }
    let report: Value = serde_json::from_str(&output(lb.stop(Signal::TERM))).unwrap();
    assert_eq!(report["received"], FRAMES_WITHIN_RING);
    for output in report["outputs"].as_array().unwrap() {
        assert_eq!(
            (&output["forwarded"], &output["dropped"]),
            (&FRAMES_WITHIN_RING.into(), &0.into())
        );
    }
}
