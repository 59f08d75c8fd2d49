//! Tests of the effect of the link on real traffic.

use serde_json::Value;
use slipring_test_support::{Program, installed};

use crate::{round_trip_takes, run, world};

#[test]
fn a_round_trip_takes_twice_the_delay() {
    let Some(world) = world() else { return };
    let ping = "ping -n -q -c 5 -i 0.2 10.9.0.1";
    round_trip_takes(&(50.0..75.0), || run(&world, "--delay 25ms", ping));
}

#[test]
fn each_direction_can_have_its_own_delay() {
    let Some(world) = world() else { return };
    let flags = "--up delay=40ms --down delay=5ms";
    let ping = "ping -n -q -c 3 -i 0.2 10.9.0.1";
    round_trip_takes(&(45.0..70.0), || run(&world, flags, ping));
}

#[test]
fn runs_nest_and_their_delays_add_up() {
    let Some(world) = world() else { return };
    let script =
        format!("{} run -q --delay 20ms -- ping -n -q -c 3 -i 0.2 10.9.0.1", crate::SLIPRING);
    round_trip_takes(&(70.0..110.0), || run(&world, "-q --delay 15ms", &script));
}

#[test]
fn a_tcp_transfer_gets_the_rate_of_its_direction() {
    let Some(world) = world() else { return };
    if !installed("iperf3") {
        return;
    }
    let server = Program::start(&world, "iperf3", "-s -1 -B 10.9.0.1 --forceflush");
    server.wait_for_text("Server listening");
    let flags = "-q --rate 20Mbit --delay 5ms --queue time=100ms";
    let ended = run(&world, flags, "iperf3 -c 10.9.0.1 -t 3 -J").well();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let bps = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    // How close the transfer comes to the configured rate depends on the load of this machine, so
    // the bounds are wide.
    assert!((1e5..20e6).contains(&bps), "{bps}");
}

#[test]
fn lost_frames_are_counted_by_cause_in_the_report() {
    let Some(world) = world() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let flags = format!("--seed 7 --up loss=50% --json --report {}", file.path().display());
    let ended = run(&world, &flags, "ping -n -q -c 40 -i 0.01 -W 1 10.9.0.1 || true").well();
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(file.path()).unwrap()).expect("a document");
    assert_eq!(report["seed"], 7);
    let up = &report["links"][0];
    let (input, lost) = (&up["input"]["packets"], &up["lost"]["loss"]["packets"]);
    let (input, lost) = (input.as_u64().unwrap(), lost.as_u64().unwrap());
    assert!(input >= 40 && (8..=36).contains(&lost), "{report}\n{ended:#?}");
}

#[test]
fn a_trace_gives_the_rate_and_a_wrong_flag_starts_nothing() {
    let Some(world) = world() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "1\n2\n3\n4\n").unwrap();
    let flags = format!("--rate trace,{}", file.path().display());
    let ended = run(&world, &flags, "ping -n -q -c 1 -W 60 10.9.0.1").well();
    assert!(ended.stdout.contains(" 0% packet loss"), "{ended:#?}");
    let ended = run(&world, "--rate 12parsec", "echo started");
    assert_eq!((ended.code(), ended.stdout.as_str()), (2, ""), "{ended:#?}");
}
