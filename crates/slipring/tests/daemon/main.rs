//! Tests of `slipring daemon` and programs written for netmap, in the tests' own namespaces and run
//! directories: the machine's `/dev` and `/run` are never touched.
#![allow(clippy::unwrap_used)]

mod balance;
mod ends;
mod kipfw;
mod links;
mod listed;
mod nics;
mod owners;
mod squatters;
#[path = "../support/mod.rs"]
mod support;
mod vale;

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::sandbox::{FRAMES_BEYOND_RING, FRAMES_WITHIN_RING, NOBODY};
use slipring_test_support::{Namespace, Program, Sandbox, skip};

use support::SLIPRING;

#[test]
fn two_programs_exchange_frames_as_soon_as_the_mode_line_is_there() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--uring off");
    let line = daemon.so_far().stdout;
    let device = site.run_dir().join("fuse/netmap").display().to_string();
    assert!(line.starts_with(&format!("# slipringd {device} transport=fuse ")), "{line}");
    assert!(line.contains(" memory=passthrough ") && line.ends_with(" nics=root\n"), "{line}");
    site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
    site.exchange("x}1", "x{1", FRAMES_BEYOND_RING);
}

#[test]
fn the_mode_line_is_an_object_where_json_is_asked_for() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.launch("--json --uring off --workers 3 --mode 640 --nics-for-all");
    let line = daemon.wait_for("its start", |output| {
        output.stdout.split_once('\n').map(|(line, _)| line.to_owned())
    });
    let start: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&start["event"], &start["workers"]), (&"start".into(), &3.into()));
    assert_eq!((&start["mode"], &start["nics"]), (&"640".into(), &"all".into()));
    assert_eq!(start["device"], site.run_dir().join("fuse/netmap").display().to_string());
    assert_eq!(site.bind("x{1"), "bound");
}

/// Waits until no daemon of another test changes the kernel's parameter `enable_uring`, and returns
/// its value. Returns `None` if the kernel does not have the parameter or does not show it.
fn uring_parameter() -> Option<String> {
    let held = std::fs::File::options().write(true).open("/sys/bus/platform/uevent");
    let held = held.ok().and_then(|file| {
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared).ok().map(|()| file)
    });
    let parameter = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").ok();
    drop(held);
    if parameter.is_none() {
        skip!("FUSE over io_uring needs Linux 6.14");
    }
    parameter
}

#[test]
fn calls_come_by_io_uring_where_the_kernel_has_that_and_nothing_is_kept_for_restarts() {
    let Some(before) = uring_parameter() else { return };
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    for (words, transport) in [
        ("", " transport=fuse-uring "),
        ("--uring auto", " transport=fuse-uring "),
        ("--uring off", " transport=fuse "),
        ("--supervise", " transport=fuse "),
    ] {
        let daemon = site.daemon(words);
        assert!(daemon.so_far().stdout.contains(transport), "{words}: {:?}", daemon.so_far());
        assert_eq!(uring_parameter().as_ref(), Some(&before), "{words}");
        site.exchange("x{1", "x}1", FRAMES_WITHIN_RING);
        let ended = daemon.stop(Signal::TERM);
        assert!(!ended.stderr.contains("io_uring"), "{words}: what goes without saying: {ended:?}");
    }
    site.is_clean();
}

#[test]
fn calls_come_by_io_uring_where_that_is_asked_for() {
    let Some(before) = uring_parameter() else { return };
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--uring on");
    assert!(daemon.so_far().stdout.contains(" transport=fuse-uring "));
    assert_eq!(uring_parameter().as_ref(), Some(&before));
    site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
    let ended = daemon.stop(Signal::TERM);
    let message = ended.stderr.contains("enabled for the start of this device only");
    assert_eq!(message, before.starts_with('N'), "{ended:?}");
    site.is_clean();
}

#[test]
fn what_is_not_there_is_refused_as_the_documentation_says() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    // Words for the bind: name, mode, flags.
    for (words, answer) in [
        ("nosuch0", "ENXIO"),
        ("vale0:x", "bound"),
        ("vale0", "EINVAL"),
        ("{1", "EINVAL"),
        ("e0 5", "EINVAL"),
        ("x{1 2", "EINVAL"),
        ("x{1 3", "EINVAL"),
        ("e0 1 0x100", "EINVAL"),
        ("e0 1 0x200", "EINVAL"),
        ("x{1", "bound"),
    ] {
        assert_eq!(site.bind(words), answer, "{words}");
    }
}

#[test]
fn who_may_open_the_device_is_for_the_mode_to_say() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--mode 600");
    assert_eq!(site.bind_as_nobody("x{1"), "EACCES");
    daemon.stop(Signal::TERM).well();
    let _daemon = site.daemon("--mode 666");
    let held = site.client("hold x{1");
    held.wait_for_text("bound");
    // A bind of a pipe with the exclusive flag fails if the pipe is bound already. Another user's
    // `x{1` is a different pipe, so binding it succeeds.
    assert_eq!(site.bind("x{1 1 0x800"), "EBUSY");
    assert_eq!(site.bind_as_nobody("x{1 1 0x800"), "bound");
}

/// Returns what doctor reports for a port of the device, as user `uid`: state and text.
fn doctors_word(site: &Sandbox, uid: u32, port: &str) -> (String, String) {
    let copy = support::copy_to(site.path("").as_path());
    let mut command = Command::new(copy);
    let device = site.run_dir().join("netmap").display().to_string();
    command.args(["doctor", "--json", &format!("{port}@{device}")]).uid(uid).gid(uid);
    let ended = Program::launch(&site.inside, command).finish();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == "port").unwrap();
    assert_eq!(ended.code() == 3, document["healthy"] == false, "{ended:?}");
    (found["state"].as_str().unwrap().to_owned(), found["finding"].as_str().unwrap().to_owned())
}

#[test]
fn doctor_asks_the_device_whether_it_would_give_a_port() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    if !rustix::process::geteuid().is_root() {
        skip!("only root can be somebody else");
        return;
    }
    let daemon = site.daemon("--mode 666");
    for (uid, port, state, words) in [
        (0, "kernel:e0", "ok", "gives it"),
        (NOBODY, "kernel:e0", "fail", "to nobody like you"),
        (NOBODY, "kernel:x{1", "ok", "gives it"),
        (NOBODY, "kernel:vale0:a", "ok", "gives it"),
        (0, "kernel:nosuch0", "fail", "no interface `nosuch0`"),
    ] {
        let message = doctors_word(&site, uid, port);
        assert!(message.0 == state && message.1.contains(words), "{uid} {port}: {message:?}");
    }
    // Doctor has not bound the port, so another program can bind it.
    assert_eq!(site.bind("e0"), "bound");
    daemon.stop(Signal::TERM).well();
    let _daemon = site.daemon("--mode 600");
    let message = doctors_word(&site, NOBODY, "kernel:x{1");
    assert!(message.0 == "fail" && message.1.contains("ermission denied"), "{message:?}");
}

#[test]
fn the_classic_name_serves_as_the_verb_does() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let mut command = Command::new(SLIPRING);
    command.arg0("slipringd").args(["--link", "none", "--run-dir"]).arg(site.run_dir());
    let daemon = Program::launch(&site.inside, command);
    daemon.wait_for_text("transport=fuse");
    assert_eq!(site.bind("x{1"), "bound");
    daemon.stop(Signal::INT).well();
    site.is_clean();
}

#[test]
fn wrong_flags_are_told_why_and_what_to_try() {
    let Some(namespace) = Namespace::new() else { return };
    for words in [
        "--mode rwx",
        "--mode 999",
        "--mode 7777",
        "--workers 1",
        "--workers 65",
        "--workers many",
        "--uring yes",
        "--lnk none",
        "eth0",
        "--run-dir",
    ] {
        let ended = Program::start(&namespace, SLIPRING, &format!("daemon {words}")).finish();
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        let output = &ended.stderr;
        assert!(output.starts_with("error[SR"), "{words}: {output}");
        assert!(output.contains("cause: ") && output.contains("help: "), "{words}: {output}");
    }
}
