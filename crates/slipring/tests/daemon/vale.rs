//! Tests of the device's switches, and of `slipring vale`, which shows them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, output};
use slipring_test_support::{FinishedProgram, Program, Sandbox};

use crate::support::SLIPRING;

/// Runs `slipring vale` with these arguments.
fn vale(site: &Sandbox, words: &str) -> FinishedProgram {
    vale_as(site, "slipring-vale", words)
}

fn vale_as(site: &Sandbox, name: &str, words: &str) -> FinishedProgram {
    let mut command = Command::new(SLIPRING);
    command.arg0(name).args(words.split_ascii_whitespace());
    command.arg("--device").arg(site.run_dir().join("netmap"));
    command.arg("--run-dir").arg(site.run_dir());
    Program::launch(&site.inside, command).finish()
}

#[test]
fn frames_pass_a_switch_and_the_cable_of_an_interface_in_it() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    site.exchange("vale0:a", "vale0:b", FRAMES_WITHIN_RING);
    assert_eq!(output(vale(&site, "-a vale0:e0")), "port_index: 0");
    site.exchange("vale0:a", "e1", FRAMES_WITHIN_RING);
    site.exchange("e1", "vale0:a", FRAMES_WITHIN_RING);
    assert_eq!(site.bind("e0"), "EBUSY");
    assert_eq!(output(vale(&site, "-p vale0:e0")), "");
    site.exchange("e1", "vale0:a", FRAMES_WITHIN_RING);
    assert_eq!(vale(&site, "-d vale0:e0").code(), 3);
    assert_eq!(output(vale(&site, "-P vale0:e0")), "");
    assert_eq!(output(vale(&site, "-d vale0:e0")), "port_index: 0");
    assert_eq!(site.bind("e0"), "bound");
}

#[test]
fn a_switch_reaches_the_host_stack_of_an_interface() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    site.inside.ip("addr add 10.1.0.1/24 dev e0");
    let _daemon = site.daemon("");
    assert_eq!(output(vale(&site, "-h vale0:e0")), "port_index: 0");
    let listed = output(vale(&site, ""));
    assert_eq!(listed, "vale0:e0 bridge_idx 0 port_idx 0\nvale0:e0^ bridge_idx 0 port_idx 1");
    assert_eq!(output(vale(&site, "-d vale0:e0")), "port_index: 0");
    let left = site.inside.ip("-d link show");
    assert!(!left.contains("xdp") && !left.contains("veth_peer"), "{left}");
}

#[test]
fn switches_and_ports_are_those_of_the_daemon_of_the_run_directory() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let daemon = site.daemon("");
    assert_eq!(output(site.ask("vale -a vale0:e0")), "port_index: 0");
    assert_eq!(output(site.ask("vale -n p0")), "");
    assert_eq!(output(site.ask("vale")), "vale0:e0 bridge_idx 0 port_idx 0");
    site.ask("gen -i kernel:x{1 -f tx -n 100 --json").well();
    let message = site.ask("doctor kernel:x{1").stdout;
    assert!(
        message.contains(&format!("{}/netmap gives it", site.run_dir().display())),
        "{message}"
    );
    daemon.stop(rustix::process::Signal::TERM).well();
    // The device ended with the daemon, and there is no other device.
    for words in ["vale -n p0", "gen -i kernel:x{1 -f tx -n 100"] {
        let ended = site.ask(words);
        assert!(ended.code() == 3 && ended.stderr.contains("/dev/netmap"), "{ended:?}");
    }
}

#[test]
fn vale_ctl_prints_and_ends_as_it_did() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    assert_eq!(output(vale(&site, "-n v0 -C 128,256,2,2")), "");
    assert_eq!(output(vale(&site, "-a vale3:v0")), "port_index: 0");
    let all = vale_as(&site, "vale-ctl", "");
    assert_eq!((all.code(), all.stdout.as_str()), (1, "vale3:v0 bridge_idx 0 port_idx 0\n"));
    assert_eq!(output(vale_as(&site, "vale-ctl", "-l vale3:v0")), "bridge_idx: 0\nport_idx: 0");
    let info = output(vale_as(&site, "vale-ctl", "-g v0"));
    assert!(info.contains("tx_slots: 128\nrx_slots: 256\ntx_rings: 2\nrx_rings: 2\n"), "{info}");
    let busy = vale_as(&site, "vale-ctl", "-r v0");
    assert_eq!(busy.code(), 1);
    assert!(busy.stderr.contains("failed to remove v0: Device or resource busy"), "{busy:?}");
    assert_eq!(output(vale(&site, "-d vale3:v0")), "port_index: 0");
    assert_eq!(output(vale_as(&site, "vale-ctl", "-r v0")), "");
}

#[test]
fn what_is_plugged_in_stays_when_nobody_has_the_device_open() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    // Each command opens the device and closes it again, so between them no program has it open.
    assert_eq!(output(vale(&site, "-n v0")), "");
    assert_eq!(output(vale(&site, "-a vale0:v0")), "port_index: 0");
    assert_eq!(output(vale(&site, "")), "vale0:v0 bridge_idx 0 port_idx 0");
}

#[test]
fn counters_and_addresses_are_shown_and_settings_changed() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    for words in ["-n a", "-a vale0:a", "-n b", "-a vale0:b"] {
        vale(&site, words).well();
    }
    site.client(&format!("send vale0:a {FRAMES_WITHIN_RING}")).finish().well();
    let shown = output(vale(&site, "--show vale0"));
    assert!(shown.starts_with("vale0: 2 ports, 1 addresses\n"), "{shown}");
    assert!(shown.contains("02:00:00:00:00:01 at vale0:a"), "{shown}");
    let shown: Value = serde_json::from_str(&output(vale(&site, "--show --json"))).unwrap();
    let ports = &shown["switches"][0]["ports"];
    assert_eq!(
        (&ports[0]["tx"]["packets"], &ports[1]["rx"]["packets"]),
        (&FRAMES_WITHIN_RING.into(), &FRAMES_WITHIN_RING.into())
    );
    let nothing = vale(&site, "--show vale7");
    assert_eq!(nothing.code(), 3);
    assert!(nothing.stderr.contains("there is no switch vale7"), "{nothing:?}");
    assert_eq!(output(vale(&site, "--flush vale0")), "1 addresses forgotten");
    assert_eq!(output(vale(&site, "--set vale0:a isolated=on")), "");
    assert_eq!(output(vale(&site, "--set vale0:b isolated=on")), "");
    site.client(&format!("send vale0:a {FRAMES_WITHIN_RING}")).finish().well();
    let shown: Value = serde_json::from_str(&output(vale(&site, "--show --json"))).unwrap();
    assert_eq!(shown["switches"][0]["ports"][0]["drops"]["no_destination"], FRAMES_WITHIN_RING);
    let wrong = vale(&site, "--set vale0:x isolated=on");
    assert!(wrong.stderr.contains("there is no port vale0:x"), "{wrong:?}");
}

#[test]
fn a_monitor_listens_to_a_program_that_runs() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let keep = site.client("hold x{1");
    keep.wait_for_text("bound");
    let monitor = site.client(&format!("receive x{{1 {FRAMES_WITHIN_RING} 0x100"));
    monitor.wait_for_text("bound");
    site.exchange("x{1", "x}1", FRAMES_WITHIN_RING);
    assert_eq!(output(monitor.finish()), "bound\nreceived");
}
