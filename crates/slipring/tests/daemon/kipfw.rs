//! Tests of netmap-ipfw's chain `pkt-gen -> valeA -> kipfw -> valeB -> pkt-gen`. All its ports are
//! the device's.

use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, output};
use slipring_test_support::{Program, Sandbox};

use crate::support::SLIPRING;

/// Starts a firewall command with the daemon's run directory.
fn firewall(site: &Sandbox, verb: &str, words: &str) -> Program {
    let mut command = Command::new(SLIPRING);
    command.arg(verb).args(words.split_ascii_whitespace());
    command.env("SLIPRING_RUN", site.run_dir());
    Program::launch(&site.inside, command)
}

/// Returns how many packets the last rule has counted.
fn accepted(site: &Sandbox) -> u64 {
    let row = output(firewall(site, "ipfw", "show 65535").finish());
    row.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn kipfw_between_two_switches_passes_what_programs_on_the_device_send() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let device = site.run_dir().join("netmap").display().to_string();
    let kipfw =
        firewall(&site, "kipfw", &format!("kernel:valeA:f@{device} kernel:valeB:f@{device}"));
    kipfw.wait_for_text("Ready to go");
    site.exchange("valeA:s", "valeB:d", FRAMES_WITHIN_RING);
    assert!(accepted(&site) >= u64::from(FRAMES_WITHIN_RING), "the last rule accepts");
    assert_eq!(output(firewall(&site, "ipfw", "zero").finish()), "Accounting cleared.");
    assert_eq!(accepted(&site), 0);
    site.exchange("valeA:s", "valeB:d", FRAMES_WITHIN_RING);
    assert!(accepted(&site) >= u64::from(FRAMES_WITHIN_RING));
    kipfw.stop(Signal::INT).well();
}
