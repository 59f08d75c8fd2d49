//! Unmodified clients on the real device: a static C program that knows nothing but system calls.
//!
//! Needs root, /dev/fuse and a C compiler. Each test has a server of its own, in a process of its
//! own, since a server must not open its own mount.
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};

use rustix::mount::{UnmountFlags, unmount};
use slipring_door::{Config, Door};
use slipring_netmap::{Adapter, Errno, Netmap, Parameters, Params, Provider, Wanted};

#[derive(Debug)]
struct PipesOnly;

impl Provider for PipesOnly {
    fn find(&self, _: &Wanted<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

const DIR: &str = "SLIPRING_DOOR_TEST_DIR";

/// Not a test: what this program does when a test starts it again as a server.
#[test]
fn serve() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let permissions = Arc::new(slipring_door::Permissions::default());
    permissions.set(0o666, 0, 0);
    let config = Config {
        dir: dir.into(),
        permissions,
        workers: 2,
        parameters: Parameters::new(&Params::default()),
    };
    let door = Door::open(&config, Netmap::new(Box::new(PipesOnly))).unwrap();
    eprintln!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    door.close();
    std::process::exit(0);
}

/// A served device.
struct Device {
    dir: tempfile::TempDir,
    server: Child,
}

impl Device {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let server = start(&dir.path().join("fuse"));
        Self { dir, server }
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("fuse")
    }

    fn client(&self, scenario: &str) -> Command {
        let mut client = Command::new("timeout");
        client.arg("60").arg(program()).arg(self.mount().join("netmap")).arg(scenario);
        client
    }

    /// Runs a scenario to its end.
    fn run(&self, scenario: &str) -> String {
        good(self.client(scenario).output().unwrap())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = unmount(self.mount(), UnmountFlags::DETACH);
    }
}

fn start(dir: &Path) -> Child {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["serve", "--exact", "--nocapture"])
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stderr.take().unwrap()).lines();
    let lines: Vec<String> =
        said.map_while(Result::ok).take_while(|line| line != "ready").collect();
    assert!(server.try_wait().unwrap().is_none(), "the server ended: {lines:?}");
    server
}

/// The C program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/client.c");
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("client-{}", std::process::id()));
        let flags = ["-O2", "-Wall", "-Werror", "-static", "-o"];
        good(Command::new("cc").args(flags).arg(&program).arg(source).output().unwrap());
        program
    })
}

fn good(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn errors_reach_the_program_as_netmap_gives_them() {
    Device::new().run("faults");
}

#[test]
fn frames_go_to_and_fro_by_poll() {
    Device::new().run("ping_pong");
}

#[test]
fn a_level_triggered_program_is_woken() {
    Device::new().run("epoll_level");
}

#[test]
fn an_edge_triggered_program_is_woken() {
    Device::new().run("epoll_edge");
}

#[test]
fn select_works_as_poll_does() {
    Device::new().run("select");
}

#[test]
fn a_forked_child_shares_the_binding() {
    Device::new().run("fork");
}

#[test]
fn a_passed_descriptor_keeps_the_port_after_its_sender_closed_it() {
    Device::new().run("scm_rights");
}

#[test]
fn a_killed_client_leaves_its_name_and_its_rings_free() {
    Device::new().run("killed");
}

#[test]
fn a_port_can_be_bound_at_once_when_it_was_closed() {
    Device::new().run("close_then_bind");
}

#[test]
fn many_frames_arrive_in_order_and_none_is_lost() {
    let said = Device::new().run("rate");
    assert!(said.contains("Mpps"), "{said}");
}

#[test]
fn clients_of_a_killed_server_are_told_and_a_new_one_takes_over() {
    let mut device = Device::new();
    let mut client = device.client("forever").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "bound\n");
    device.server.kill().unwrap();
    device.server.wait().unwrap();
    assert!(client.wait().unwrap().success());
    device.server = start(&device.mount());
    device.run("fork");
}

#[test]
fn users_have_names_and_memory_of_their_own() {
    let device = Device::new();
    let mut client = device.client("forever").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
    // `forever` has `x}1` of root; nobody's is another pipe, in another file.
    let output = device.client("fork").uid(65_534).gid(65_534).output().unwrap();
    good(output);
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn a_server_that_ends_takes_its_mount_away() {
    let mut device = Device::new();
    let mount = device.mount();
    let outside = fs::metadata(device.dir.path()).unwrap().dev();
    assert_ne!(fs::metadata(&mount).unwrap().dev(), outside);
    drop(device.server.stdin.take());
    assert!(device.server.wait().unwrap().success());
    assert_eq!(fs::metadata(&mount).unwrap().dev(), outside);
}

#[test]
fn the_directory_shows_the_device_and_nothing_can_be_made_in_it() {
    let device = Device::new();
    let listed: Vec<_> =
        fs::read_dir(device.mount()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(listed, ["netmap", "parameters"]);
    assert!(fs::write(device.mount().join("other"), "x").is_err());
    assert!(fs::remove_file(device.mount().join("netmap")).is_err());
}

#[test]
fn the_c_header_has_netmaps_layout() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/layout.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    good(compiler.arg(format!("-I{root}/include")).arg(source).output().unwrap());
}
