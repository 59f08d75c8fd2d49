//! Tests of how a daemon ends, and of the state that its successor finds.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use slipring_test_support::Sandbox;
use slipring_test_support::sandbox::{FRAMES_BEYOND_RING, output};

use crate::SLIPRING;

#[test]
fn int_and_term_end_it_well_and_leave_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(site) = Sandbox::new(SLIPRING) else { return };
        let daemon = site.daemon("");
        assert_eq!((site.mounts(), site.bind("x{1")), (1, "bound".to_owned()));
        let ended = daemon.stop(signal).well();
        assert_eq!(ended.stderr, "");
        site.is_clean();
    }
}

#[test]
fn a_program_that_has_the_device_open_keeps_nobody_from_ending() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let client = site.client("hold x{1");
    client.wait_for_text("bound");
    let ended = daemon.stop(Signal::TERM).well();
    assert!(ended.stderr.contains("still have the device open"), "{ended:?}");
    assert_eq!(output(client.finish()), "bound\ntold");
    site.is_clean();
}

#[test]
fn one_run_directory_has_one_daemon() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let second = site.launch("").finish();
    let output = &second.stderr;
    assert_eq!(second.code(), 3, "{output}");
    assert!(output.starts_with("error[SR0303]: another slipringd serves "), "{output}");
    assert!(output.contains("cause: ") && output.contains("help: stop that one"), "{output}");
    assert_eq!(site.mounts(), 1);
    site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
}

#[test]
fn the_next_one_clears_away_what_a_killed_one_left() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let link = site.path("device");
    let words = format!("--link {}", link.display());
    let daemon = site.daemon(&words);
    let client = site.client("hold x{1");
    client.wait_for_text("bound");
    daemon.stop(Signal::KILL);
    assert_eq!(output(client.finish()), "bound\ntold");
    assert_eq!((site.mounts(), site.bind("x{1")), (1, "ENOTCONN".to_owned()));
    let daemon = site.daemon(&words);
    assert_eq!(daemon.so_far().stderr, "");
    assert_eq!(site.mounts(), 1);
    site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
    daemon.stop(Signal::TERM).well();
    site.is_clean();
    assert!(fs::symlink_metadata(link).is_err());
}

#[test]
fn programs_of_a_killed_daemon_are_told() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let names = ["x{1", "x}1", "vale0:a", "vale0:b"];
    let clients = names.map(|name| site.client(&format!("hold {name}")));
    clients.iter().for_each(|client| client.wait_for_text("bound"));
    let killed = Instant::now();
    daemon.stop(Signal::KILL);
    // Each client sleeps in poll, gets POLLERR, and then an error from either sync.
    for client in clients {
        client.wait_for_text("told");
        client.finish().well();
    }
    // The time is only printed, because a busy machine may be slow.
    println!("all were told {:?} after the daemon was killed", killed.elapsed());
}

#[test]
fn a_run_directory_is_opened_to_those_who_pass_and_otherwise_left_as_it_is() {
    for (before, after) in [(0o700, 0o755), (0o711, 0o755)] {
        let Some(site) = Sandbox::new(SLIPRING) else { return };
        fs::create_dir(site.run_dir()).unwrap();
        fs::set_permissions(site.run_dir(), Permissions::from_mode(before)).unwrap();
        let _daemon = site.daemon("");
        let mode = fs::metadata(site.run_dir()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, after, "{before:o}");
    }
}

#[test]
fn a_run_directory_that_cannot_be_one_is_refused() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    fs::write(site.run_dir(), "a file").unwrap();
    let ended = site.launch("").finish();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.stderr.starts_with("error[SR0303]: cannot write "), "{ended:?}");
    assert!(ended.stderr.contains("cause: ") && ended.stderr.contains("help: "), "{ended:?}");
    assert_eq!(fs::read(site.run_dir()).unwrap(), b"a file");
}

#[test]
fn a_run_directory_that_others_may_write_to_is_neither_served_nor_asked() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    fs::create_dir(site.run_dir()).unwrap();
    fs::set_permissions(site.run_dir(), Permissions::from_mode(0o1777)).unwrap();
    let ended = site.launch("").finish();
    assert_eq!(ended.code(), 3, "{ended:?}");
    let why = "others than its owner may write to ";
    assert!(ended.stderr.contains(&format!("cause: {why}")), "{ended:?}");
    assert!(ended.stderr.contains("help: chmod go-w "), "{ended:?}");
    assert_eq!(site.mounts(), 0);
    let asked = site.ask("daemon ctl hello");
    assert!(asked.stderr.contains(why), "{asked:?}");
}

/// Starts a process that has a copy of all mounts in its own namespace. `propagation` determines
/// whether later mounts and unmounts are made in the copy too.
fn copy_mounts(site: &Sandbox, propagation: &str) -> Child {
    let mut copier = Command::new("unshare");
    copier.args(["--mount", "--propagation", propagation, "sh", "-c"]);
    copier.args(["echo copied; exec sleep 1000"]).stdout(Stdio::piped());
    let mut copier = site.inside.spawn(copier);
    let mut output = [0; 6];
    copier.stdout.as_mut().unwrap().read_exact(&mut output).unwrap();
    copier
}

#[test]
fn hostile_copies_of_its_mount_keep_no_daemon_from_ending() {
    let has_uring = Path::new("/sys/module/fuse/parameters/enable_uring").exists();
    for words in ["--uring off", "--uring on"].into_iter().take(1 + usize::from(has_uring)) {
        let Some(site) = Sandbox::new(SLIPRING) else { return };
        let daemon = site.daemon(words);
        let copies = ["private", "slave", "unchanged"].map(|how| copy_mounts(&site, how));
        let holder = site.client("hold x{1");
        holder.wait_for_text("bound");
        daemon.stop(Signal::TERM).well();
        assert_eq!(output(holder.finish()), "bound\ntold");
        site.is_clean();
        // A program that uses a copy of the mount gets an error, too, and does not block.
        let device = site.run_dir().join("fuse/netmap").display().to_string();
        let copy = format!("/proc/{}/root{device}", copies[0].id());
        let error = fs::metadata(copy).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
        let next = site.daemon(words);
        site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
        next.stop(Signal::TERM).well();
        for mut copy in copies {
            copy.kill().unwrap();
            copy.wait().unwrap();
        }
    }
}

#[test]
fn a_second_term_ends_a_daemon_that_still_ends() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    // The first TERM stays pending until CONT. The daemon then usually needs more time to handle it
    // than this test needs to send the second TERM.
    daemon.signal(Signal::STOP);
    daemon.signal(Signal::TERM);
    daemon.signal(Signal::CONT);
    daemon.signal(Signal::TERM);
    let code = daemon.finish().code();
    assert!([0, 143].contains(&code), "{code}");
    site.daemon("").stop(Signal::TERM).well();
    site.is_clean();
}
