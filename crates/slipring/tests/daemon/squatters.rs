//! Tests with attackers that occupy the files for which our programs look: locks, run directories,
//! sockets. `make soak` selects these tests by name.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::Uid;
use rustix::process::Signal;
use slipring_test_support::sandbox::{FRAMES_BEYOND_RING, NOBODY};
use slipring_test_support::{Sandbox, skip};

use crate::support::SLIPRING;

/// Commands that use a run directory.
const CLIENTS: [&str; 7] = [
    "daemon ctl hello",
    "vale --show",
    "dump -i x}1 -c 1",
    "top --once",
    "emulate ctl stats",
    "ipfw show",
    "extcap --extcap-interfaces",
];

/// Runs a closure as another user. It runs in a separate thread, because the change of the user
/// cannot be undone.
fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let stranger = Uid::from_raw(NOBODY);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_res_uid(stranger, stranger, stranger).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

/// Sockets on which an attacker listens.
struct Squatter(Vec<UnixListener>);

impl Squatter {
    /// Listens in `dir`, under names of each kind that our programs look for.
    fn sit(dir: &Path) -> Self {
        let names = ["slipringd.sock", "1.sock", "lab.sock"].map(|name| dir.join(name));
        let listen = |path: PathBuf| {
            let listener = UnixListener::bind(path).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        };
        as_stranger(|| Self(names.into_iter().map(listen).collect()))
    }

    /// Asserts that no client has sent anything; returns the number of connections.
    fn heard_nothing(&self) -> usize {
        let mut came = 0;
        for listener in &self.0 {
            loop {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        let mut output = Vec::new();
                        stream.read_to_end(&mut output).unwrap();
                        assert_eq!(output, b"", "a stranger was told something");
                        came += 1;
                    }
                    Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
        came
    }
}

/// Starts a process of another user that tries to lock the file at `path` and to keep the lock.
fn squat_lock(site: &Sandbox, path: &Path) -> Child {
    use std::os::unix::process::CommandExt;
    let mut flock = Command::new("flock");
    flock.args(["--exclusive", "--nonblock"]).arg(path);
    flock.args(["sh", "-c", "echo held; exec sleep 1000"]);
    flock.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::null());
    site.inside.spawn(flock)
}

/// Returns whether the process that [`squat_lock`] started has got the lock.
fn has_lock(child: &mut Child) -> bool {
    let mut output = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut output).is_ok()
}

#[test]
fn hostile_locks_neither_end_nor_block_the_service() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let lock = site.run_dir().join("slipringd.lock");
    let mut on_lock = squat_lock(&site, &lock);
    assert!(!has_lock(&mut on_lock), "the lock file is open to strangers");
    on_lock.wait().unwrap();
    let mut on_dir = squat_lock(&site, &site.run_dir());
    assert!(has_lock(&mut on_dir), "whoever may read a directory may lock it");
    site.exchange("x{1", "x}1", FRAMES_BEYOND_RING);
    assert!(site.ask("daemon ctl hello").well().stdout.contains("slipringd"));
    daemon.stop(Signal::TERM).well();
    let daemon = site.daemon("");
    assert!(site.ask("daemon ctl hello").well().stdout.contains("slipringd"));
    daemon.stop(Signal::TERM).well();
    on_dir.kill().unwrap();
    on_dir.wait().unwrap();
    site.is_clean();
}

#[test]
fn hostile_lock_files_of_earlier_versions_are_closed_to_strangers() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    fs::create_dir(site.run_dir()).unwrap();
    let lock = site.run_dir().join("slipringd.lock");
    File::create(&lock).unwrap();
    fs::set_permissions(&lock, Permissions::from_mode(0o666)).unwrap();
    let _daemon = site.daemon("");
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn hostile_run_directories_are_neither_asked_nor_served() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    fs::create_dir(site.run_dir()).unwrap();
    if chown(site.run_dir(), Some(NOBODY), Some(NOBODY)).is_err() {
        return skip!("to give a directory away needs root");
    }
    let squatter = Squatter::sit(&site.run_dir());
    for words in CLIENTS {
        let ended = site.ask(words);
        let message = format!("belongs to user {NOBODY}, who is neither root nor this user");
        let silent = words.starts_with("extcap");
        assert!(ended.stderr.contains(&message) || silent, "{words}: {ended:?}");
        assert!(!ended.stdout.contains("kernel:"), "{words}: {ended:?}");
    }
    let ended = site.launch("").finish();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert_eq!(squatter.heard_nothing(), 0, "somebody has come");
}

#[test]
fn hostile_listeners_in_a_good_directory_hear_nothing() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    fs::create_dir(site.run_dir()).unwrap();
    if chown(site.run_dir(), Some(NOBODY), None).is_err() {
        return skip!("to give a directory away needs root");
    }
    let squatter = Squatter::sit(&site.run_dir());
    // The directory now belongs to root, as if root had created it; the sockets still belong to the
    // attacker.
    chown(site.run_dir(), Some(0), None).unwrap();
    for words in ["daemon ctl hello", "vale --show", "emulate ctl stats --name lab"] {
        let ended = site.ask(words);
        let message = format!("user {NOBODY}, who is neither root nor this user, listens on ");
        assert!(ended.stderr.contains(&message), "{words}: {ended:?}");
    }
    assert_eq!(squatter.heard_nothing(), 3);
}
