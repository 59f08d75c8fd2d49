//! Tests of unmodified clients on the real device. The client is a static C program that uses only
//! system calls.
//!
//! Needs root, /dev/fuse and a C compiler. Each test starts its own servers in separate processes,
//! because a server must not open its own mount. There is one server for each way in which requests
//! can arrive.
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};

use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{CpuSet, sched_setaffinity};
use slipring_fuse::{FuseConfig, FuseDevice, RequestTransport, UringMode};
use slipring_netmap::{Adapter, AdapterRequest, Errno, MemoryParams, Netmap, Parameters, Provider};
use slipring_test_support::program::copy_into;

#[derive(Debug)]
struct PipesOnly;

impl Provider for PipesOnly {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

const DIR: &str = "SLIPRING_DOOR_TEST_DIR";
const REQUESTS: &str = "SLIPRING_DOOR_TEST_REQUESTS";
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// How requests arrive at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    Device,
    Rings,
    /// Requests arrive by io_uring, but the server may only run on one processor. This simulates a
    /// machine on which some possible processors are missing.
    RingsOnOne,
}

impl Requests {
    const ALL: [Self; 3] = [Self::Device, Self::Rings, Self::RingsOnOne];

    /// Returns the variants that this machine's kernel supports.
    fn possible() -> impl Iterator<Item = Self> {
        let has_rings = Path::new(PARAMETER).exists();
        if !has_rings {
            slipring_test_support::skip!("FUSE over io_uring needs Linux 6.14");
        }
        Self::ALL.into_iter().filter(move |&one| has_rings || one == Self::Device)
    }

    /// Returns how requests must arrive at this process, which is the server of a test. The test
    /// has set an environment variable for this.
    fn asked() -> Self {
        let asked = std::env::var(REQUESTS).unwrap();
        Self::ALL.into_iter().find(|one| format!("{one:?}") == asked).unwrap()
    }
}

/// This is not a test. It is the server, which a test starts by running this program again.
#[test]
fn serve() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let requests = Requests::asked();
    if requests == Requests::RingsOnOne {
        let mut first = CpuSet::new();
        first.set(0);
        sched_setaffinity(None, &first).unwrap();
    }
    let permissions = Arc::new(slipring_fuse::Permissions::default());
    permissions.set(0o666, 0, 0);
    let config = FuseConfig {
        dir: dir.into(),
        permissions,
        workers: 2,
        uring: if requests == Requests::Device { UringMode::Off } else { UringMode::On },
        parameters: Parameters::new(&MemoryParams::default()),
    };
    let fuse_device = FuseDevice::open(&config, Netmap::new(Box::new(PipesOnly))).unwrap();
    assert_eq!(
        matches!(fuse_device.transport(), RequestTransport::Device { .. }),
        requests == Requests::Device
    );
    eprintln!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    fuse_device.close();
    std::process::exit(0);
}

/// A device that a server serves.
struct Device {
    dir: tempfile::TempDir,
    server: Child,
    requests: Requests,
}

impl Device {
    /// Starts one server for each way in which requests can arrive.
    fn each() -> impl Iterator<Item = Self> {
        Requests::possible().map(|requests| {
            let dir = tempfile::tempdir().unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
            let server = start(&dir.path().join("fuse"), requests);
            Self { dir, server, requests }
        })
    }

    /// Runs a scenario of the C program on each server.
    fn run_each(scenario: &str) {
        Self::each().for_each(|device| drop(device.run(scenario)));
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("fuse")
    }

    fn client(&self, scenario: &str) -> Command {
        self.client_from(program(), scenario)
    }

    fn client_from(&self, program: &Path, scenario: &str) -> Command {
        let mut client = Command::new("timeout");
        client.arg("300").arg(program).arg(self.mount().join("netmap")).arg(scenario);
        client
    }

    /// Runs a scenario of the C program, which must succeed. Returns its output.
    fn run(&self, scenario: &str) -> String {
        eprintln!("{scenario}, requests {:?}", self.requests);
        good(self.client(scenario).output().unwrap())
    }

    /// Starts a client that binds `x}1` and runs until the server has ended.
    fn run_forever(&self) -> Child {
        let mut client = self.client("forever").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut output).unwrap();
        assert_eq!(output, "bound\n");
        client
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = unmount(self.mount(), UnmountFlags::DETACH);
    }
}

fn start(dir: &Path, requests: Requests) -> Child {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["serve", "--exact", "--nocapture"])
        .env(DIR, dir)
        .env(REQUESTS, format!("{requests:?}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(server.stderr.take().unwrap()).lines();
    let lines: Vec<String> =
        output.map_while(Result::ok).take_while(|line| line != "ready").collect();
    assert!(server.try_wait().unwrap().is_none(), "the server ended: {lines:?}");
    server
}

/// Returns the path of the C program, which is compiled only once.
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
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn errors_reach_the_program_as_netmap_gives_them() {
    Device::run_each("faults");
}

#[test]
fn frames_go_to_and_fro_by_poll() {
    Device::run_each("ping_pong");
}

#[test]
fn a_level_triggered_program_is_woken() {
    Device::run_each("epoll_level");
}

#[test]
fn an_edge_triggered_program_is_woken() {
    Device::run_each("epoll_edge");
}

#[test]
fn select_works_as_poll_does() {
    Device::run_each("select");
}

#[test]
fn a_forked_child_shares_the_binding() {
    Device::run_each("fork");
}

#[test]
fn a_passed_descriptor_keeps_the_port_after_its_sender_closed_it() {
    Device::run_each("scm_rights");
}

#[test]
fn a_killed_client_leaves_its_name_and_its_rings_free() {
    Device::run_each("killed");
}

#[test]
fn a_port_can_be_bound_at_once_when_it_was_closed() {
    Device::run_each("close_then_bind");
}

#[test]
fn many_frames_arrive_in_order_and_none_is_lost() {
    for device in Device::each() {
        let output = device.run("rate");
        assert!(output.contains("Mpps"), "{output}");
    }
}

#[test]
fn clients_of_a_killed_server_are_told_and_a_new_one_takes_over() {
    for mut device in Device::each() {
        let mut client = device.run_forever();
        device.server.kill().unwrap();
        device.server.wait().unwrap();
        assert!(client.wait().unwrap().success());
        device.server = start(&device.mount(), device.requests);
        device.run("fork");
    }
}

#[test]
fn users_have_names_and_memory_of_their_own() {
    for device in Device::each() {
        let mut client = device.run_forever();
        // `forever` has bound the `x}1` of root. The `x}1` of the other user is another pipe, in
        // that user's memory.
        let copy = copy_into(device.dir.path(), program());
        let output = device.client_from(&copy, "fork").uid(65_534).gid(65_534).output().unwrap();
        good(output);
        client.kill().unwrap();
        client.wait().unwrap();
    }
}

#[test]
fn a_server_that_ends_takes_its_mount_away() {
    for mut device in Device::each() {
        let mount = device.mount();
        let outside = fs::metadata(device.dir.path()).unwrap().dev();
        assert_ne!(fs::metadata(&mount).unwrap().dev(), outside);
        drop(device.server.stdin.take());
        assert!(device.server.wait().unwrap().success());
        assert_eq!(fs::metadata(&mount).unwrap().dev(), outside);
    }
}

#[test]
fn a_server_that_ends_leaves_no_client_waiting() {
    for mut device in Device::each() {
        let mut client = device.run_forever();
        drop(device.server.stdin.take());
        assert!(device.server.wait().unwrap().success());
        assert!(client.wait().unwrap().success());
    }
}

#[test]
fn the_kernels_parameter_is_as_it_was_when_the_device_is_served() {
    // The server of another test may have switched the parameter on for a moment. The lock waits
    // until that server has switched it off again.
    let parameter = || {
        let held = fs::File::options().write(true).open("/sys/bus/platform/uevent").unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
        fs::read_to_string(PARAMETER).unwrap()
    };
    if !Path::new(PARAMETER).exists() {
        return slipring_test_support::skip!("FUSE over io_uring needs Linux 6.14");
    }
    let before = parameter();
    for _device in Device::each() {
        assert_eq!(parameter(), before);
    }
}

#[test]
fn the_directory_shows_the_device_and_nothing_can_be_made_in_it() {
    for device in Device::each() {
        let entries = fs::read_dir(device.mount()).unwrap();
        let listed: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(listed, ["netmap", "parameters"]);
        assert!(fs::write(device.mount().join("other"), "x").is_err());
        assert!(fs::remove_file(device.mount().join("netmap")).is_err());
    }
}

#[test]
fn parameters_are_read_and_written_whole() {
    for device in Device::each() {
        let file = device.mount().join("parameters/generic_ringsize");
        fs::write(&file, "256\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "256\n");
        assert_eq!(fs::write(&file, "-1").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn the_c_header_has_netmaps_layout() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/layout.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    good(compiler.arg(format!("-I{root}/include")).arg(source).output().unwrap());
}
