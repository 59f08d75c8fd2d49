//! Tests of the daemon under a service manager. The tests play the role of this manager.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use slipring_test_support::{Program, Sandbox, TIMEOUT, skip};

use crate::SLIPRING;

struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn new(site: &Sandbox) -> Self {
        let socket = UnixDatagram::bind(site.path("notify")).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { socket }
    }

    fn start(&self, site: &Sandbox, variables: &[(&str, &str)]) -> Program {
        let mut command = Command::new(SLIPRING);
        command.args(["daemon", "--link", "none", "--run-dir"]).arg(site.run_dir());
        command.env("NOTIFY_SOCKET", site.path("notify")).envs(variables.iter().copied());
        Program::launch(&site.inside, command)
    }

    /// Receives a message and returns its length, even if signals arrive. With a timeout set, the
    /// kernel does not restart the interrupted call.
    fn recv(&self, message: &mut [u8]) -> usize {
        loop {
            match self.socket.recv(message) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return received.unwrap(),
            }
        }
    }

    /// Waits for the next message that contains `text`. Skips all others.
    fn hears(&self, text: &str) {
        let mut message = [0; 4096];
        loop {
            let len = self.recv(&mut message);
            let output = String::from_utf8_lossy(&message[..len]);
            if output.contains(text) {
                return;
            }
            assert!(!output.contains("STOPPING"), "{text} was not said: {output}");
        }
    }
}

#[test]
fn a_manager_is_told_of_start_reload_and_end() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let manager = Manager::new(&site);
    let daemon = manager.start(&site, &[]);
    manager.hears("READY=1");
    assert_eq!(site.bind("x{1"), "bound", "ready is ready");
    daemon.signal(Signal::HUP);
    manager.hears("RELOADING=1\nMONOTONIC_USEC=");
    manager.hears("READY=1");
    daemon.signal(Signal::TERM);
    manager.hears("STOPPING=1");
    daemon.finish().well();
}

#[test]
fn a_watchdog_hears_of_the_daemon_again_and_again() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let manager = Manager::new(&site);
    let daemon = manager.start(&site, &[("WATCHDOG_USEC", "20000")]);
    manager.hears("READY=1");
    for _ in 0..3 {
        manager.hears("WATCHDOG=1");
    }
    daemon.stop(Signal::TERM).well();
}

#[test]
fn a_watchdog_of_another_process_hears_nothing() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let manager = Manager::new(&site);
    let daemon = manager.start(&site, &[("WATCHDOG_USEC", "20000"), ("WATCHDOG_PID", "1")]);
    manager.hears("READY=1");
    daemon.stop(Signal::TERM).well();
    let mut message = [0; 4096];
    let len = manager.recv(&mut message);
    assert_eq!(&message[..len], b"STOPPING=1");
}

#[test]
fn a_control_socket_that_a_manager_holds_is_answered() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let path = site.path("held.sock");
    let listener = OwnedFd::from(UnixListener::bind(&path).unwrap());
    let mut command = Command::new("sh");
    let script = "exec 3<&0 </dev/null; \
                  LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=control exec \"$0\" \"$@\"";
    command.args(["-c", script, SLIPRING, "daemon", "--link", "none", "--run-dir"]);
    command.arg(site.run_dir()).stdin(Stdio::from(listener)).stdout(Stdio::piped());
    let mut daemon = site.inside.spawn(command);
    let asked = ask(&path, "{\"id\":7,\"do\":\"hello\"}\n");
    assert!(asked.contains("\"id\":7") && asked.contains("slipringd"), "{asked}");
    // Only the socket of the native API may exist, which is not a control socket.
    let names = fs::read_dir(site.run_dir()).unwrap().flatten().map(|entry| entry.path());
    let mut sockets = names.filter(|path| path.extension().is_some_and(|end| end == "sock"));
    assert!(sockets.all(|path| path.ends_with("native.sock")), "it makes no other");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

fn ask(path: &Path, line: &str) -> String {
    use std::io::{BufRead, BufReader, Write};
    // The manager's socket listens already, so the client can connect before the daemon runs. Its
    // request then waits for the daemon.
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn the_units_are_what_systemd_takes() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let dir = tempfile::tempdir().unwrap();
    for name in ["slipringd.service", "slipringd.socket"] {
        let text = fs::read_to_string(units.join(name)).unwrap();
        fs::write(dir.path().join(name), text.replace("@BIN@/slipring", SLIPRING)).unwrap();
        let sections = ["[Unit]", "[Install]"];
        assert!(sections.iter().all(|section| text.contains(section)), "{name}");
    }
    let verified = Command::new("systemd-analyze")
        .args(["--man=no", "verify"])
        .args(["slipringd.service", "slipringd.socket"].map(|name| dir.path().join(name)))
        .output();
    match verified {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("slipringd"), "{said}");
        }
        Err(_) => println!("systemd is not here to verify them"),
    }
}

#[test]
fn the_service_is_exposed_no_more_than_a_daemon_that_mounts_has_to_be() {
    // The unit may have an exposure level of at most 5.5 in `systemd-analyze security`. The flag
    // takes ten times this level.
    const MAX_EXPOSURE_FLAG: &str = "--threshold=55";
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(units.join("slipringd.service")).unwrap();
    let unit = dir.path().join("slipringd.service");
    fs::write(&unit, text.replace("@BIN@/slipring", SLIPRING)).unwrap();
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", MAX_EXPOSURE_FLAG])
        .arg(&unit)
        .output();
    let Ok(judged) = judged else {
        return skip!("systemd-analyze is not here to judge the unit");
    };
    let output = String::from_utf8_lossy(&judged.stdout);
    if !output.contains("Overall exposure level") {
        return skip!("this systemd-analyze judges no files");
    }
    assert!(judged.status.success(), "{output}");
}
