//! Tests of interfaces that are down. Until they are up, their driver provides no AF_XDP queue.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, output};
use slipring_test_support::{Program, Sandbox};

use crate::SLIPRING;

/// Returns the path of a C program that starts other programs and denies AF_XDP queues to them. It
/// is compiled only once.
fn refuse() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/daemon/refuse.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("netmap-refuse");
        let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"];
        let done = Command::new("cc").args(flags).arg(&program).arg(source).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        program
    })
}

#[test]
fn an_interface_whose_driver_gives_no_queue_while_it_is_down_starts_when_it_comes_up() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let mut command = Command::new(refuse());
    command.arg(SLIPRING).args(["daemon", "--link", "none", "--run-dir"]).arg(site.run_dir());
    let daemon = Program::launch(&site.inside, command);
    daemon.wait_for_text("transport=fuse");
    site.inside.ip("link set e0 down");
    let receiver = site.client(&format!("receive e0 {FRAMES_WITHIN_RING}"));
    receiver.wait_for_text("bound");
    site.inside.ip("link set e0 up");
    site.inside.wait_for_carrier("e1");
    site.client(&format!("send e1 {FRAMES_WITHIN_RING}")).finish().well();
    assert_eq!(output(receiver.finish()), "bound\nreceived");
    daemon.stop(Signal::TERM).well();
    site.is_clean();
}
