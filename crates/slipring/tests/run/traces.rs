//! Tests that a run leaves nothing behind however it ends, and changes no setting outside its own
//! namespaces.

use rustix::process::Signal;
use slipring_test_support::eventually;

use crate::{forward, run, start, things, world};

#[test]
fn nothing_is_left_after_a_run_and_no_setting_was_changed() {
    let Some(world) = world() else { return };
    let before = things(&world);
    let settings = || {
        std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap()
            + &std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").unwrap()
    };
    let settings_before = world.run(settings);
    let ended = run(&world, "--nat kernel", "cat /proc/sys/net/ipv4/ip_forward").well();
    assert_eq!(ended.stdout, "1\n");
    // The kernel removes a device some time after its last descriptor is closed.
    eventually("the devices to go", || (things(&world) == before).then_some(()));
    assert_eq!(world.run(settings), settings_before);
}

#[test]
fn a_killed_run_takes_devices_tables_and_the_command_along() {
    let Some(world) = world() else { return };
    let before = things(&world);
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        let program = start(&world, "-q --nat kernel", "echo $$ ready; exec sleep 600");
        let pid = program.wait_for("the command's number", |output| {
            output.stdout.strip_suffix(" ready\n").map(str::to_owned)
        });
        assert_ne!(things(&world).0, before.0);
        program.stop(signal);
        eventually("the end of the command", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(Some(()), |stat| stat.contains(") Z ").then_some(()))
        });
        eventually("the devices to go", || (things(&world) == before).then_some(()));
    }
}

#[test]
fn what_the_command_left_running_is_ended_too() {
    let Some(world) = world() else { return };
    let ended = run(&world, "-q", "setsid sleep 600 & echo $!").well();
    let pid = ended.stdout.trim();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is there");
}

#[test]
fn two_runs_at_a_time_do_not_meet() {
    let Some(world) = world() else { return };
    let first = start(&world, "-q --nat kernel", "echo ready; exec sleep 600");
    first.wait_for_text("ready");
    let script = "ping -n -q -c 1 -W 60 10.9.0.1";
    run(&world, "-q --nat kernel", script).well();
    first.stop(Signal::TERM);
}

#[test]
fn where_nothing_forwards_the_kernel_says_what_it_lacks() {
    let Some(world) = world() else { return };
    forward(&world, false);
    let ended = run(&world, "--nat kernel", "ping -n -q -c 1 -W 60 10.9.0.1").well();
    for part in ["net.ipv4.ip_forward is 0", "sysctl -w net.ipv4.ip_forward=1", "slirp4netns"] {
        assert!(ended.stderr.contains(part), "{ended:#?}");
    }
}
