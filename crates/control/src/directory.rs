//! The run directory. It contains sockets named by process id, and names of runs, which are links
//! to sockets.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};
use slipring_native_proto::run_names::{self, LOCK_FILE, leads_to, sockets};
use slipring_native_proto::trust::{self, FileLock, TrustError};

use crate::ControlError;

/// Permissions of a new directory: private to its user.
const DIR_MODE: u32 = 0o700;

/// A running program that listens on a control socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningProgram {
    /// The program's process id.
    pub pid: u32,
    /// The names of the run.
    pub names: Vec<String>,
}

impl fmt::Display for RunningProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names[..] {
            [] => write!(f, "{}", self.pid),
            names => write!(f, "{} ({})", self.pid, names.join(", ")),
        }
    }
}

/// Returns every run that listens in `dir`, sorted by process id. A directory that cannot be read,
/// or is not trusted, counts as empty.
#[must_use]
pub fn running(dir: &Path) -> Vec<RunningProgram> {
    if trust::check_dir(dir).is_err() {
        return Vec::new();
    }
    let paths = sockets(dir);
    let mut runs: Vec<_> =
        paths.iter().filter_map(|path| pid_of(path).map(|pid| (pid, path))).collect();
    runs.retain(|(_, path)| !matches!(connect(path), Err(error) if is_dead(&error)));
    runs.sort();
    let names = |socket: &Path| {
        let points = |path: &&PathBuf| leads_to(path, socket);
        let mut names: Vec<_> = paths.iter().filter(points).filter_map(|path| stem(path)).collect();
        names.sort();
        names
    };
    runs.into_iter().map(|(pid, path)| RunningProgram { pid, names: names(path) }).collect()
}

/// A control socket of this process. On drop, its files are removed, unless another process owns
/// them.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    pub(crate) listener: UnixListener,
    /// The user who opened the socket. Only clients of this user and of root are answered, even if
    /// the process becomes another user later.
    pub(crate) owner: u32,
    /// The directory with the socket's file; `None` if another process owns the file.
    dir: Option<PathBuf>,
}

impl ControlSocket {
    /// Listens in `dir`, and under `name` if it is given. Also removes sockets of ended processes.
    pub(crate) fn open(dir: &Path, name: Option<&str>) -> Result<Self, ControlError> {
        trust::make_dir(dir, DIR_MODE).map_err(refused("make", dir))?;
        // The socket is declared before the lock and thus dropped after it, because dropping the
        // socket takes the same lock.
        let socket;
        // Without this lock, another process that removes dead sockets could find this socket
        // between bind and listen, and remove it.
        let _lock = FileLock::lock(&dir.join(LOCK_FILE)).map_err(refused("lock", dir))?;
        remove_dead(dir);
        let name = name.map(|name| available_name(dir, name)).transpose()?;
        let path = run_names::socket_of(dir, std::process::id());
        let listener = UnixListener::bind(&path)
            .map_err(|error| ControlError::system("listen on", &path, error))?;
        socket = Self { listener, owner: own_user(), dir: Some(dir.to_owned()) };
        let only_own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, only_own)
            .map_err(|error| ControlError::system("protect", &path, error))?;
        if let Some(link) = name {
            let target = path.file_name().unwrap_or_default();
            symlink(target, &link).map_err(|error| ControlError::system("make", &link, error))?;
        }
        Ok(socket)
    }

    /// Wraps a socket that another process created. That process also removes the socket's files.
    pub(crate) fn of_another(listener: UnixListener) -> Self {
        Self { listener, owner: own_user(), dir: None }
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            run_names::remove_socket(dir, std::process::id());
        }
    }
}

/// Gives this process's socket in `dir` the name `name`, even if another run has this name; that
/// run then loses the name.
///
/// # Errors
/// [`ControlError`] if the name is invalid, or a system call fails.
pub fn take_name(dir: &Path, name: &str) -> Result<(), ControlError> {
    check_name(name)?;
    let taken = run_names::take_name(dir, std::process::id(), name);
    taken.map_err(refused("name the run in", dir))
}

/// Checks that only root and this user can have created sockets in `dir`. A directory that does not
/// exist passes.
///
/// # Errors
/// [`ControlError::Untrusted`] if other users can have created sockets in `dir`.
pub fn check_trust(dir: &Path) -> Result<(), ControlError> {
    match trust::check_dir(dir) {
        // Any other error will occur again when the directory is used, and is reported then.
        Err(error) if TrustError::of(&error).is_some() => Err(refused("look into", dir)(error)),
        _ => Ok(()),
    }
}

/// Connects to the run in `dir` that has the name or process id `target`. Without a target,
/// connects to the only run.
pub(crate) fn open(dir: &Path, target: Option<&str>) -> Result<UnixStream, ControlError> {
    check_trust(dir)?;
    let name = match target {
        Some(target) if is_name(target) || is_pid(target) => target.to_owned(),
        Some(target) => return Err(ControlError::BadName { name: target.to_owned() }),
        None => single(dir, |_| true)?.pid.to_string(),
    };
    let path = dir.join(format!("{name}.sock"));
    connect(&path).map_err(|error| match is_dead(&error) {
        true => ControlError::Unknown { target: name, running: running(dir) },
        false => refused("connect to", &path)(error),
    })
}

/// Returns the only run in `dir` for which `is_meant` returns true.
pub(crate) fn single(
    dir: &Path,
    is_meant: impl FnMut(&RunningProgram) -> bool,
) -> Result<RunningProgram, ControlError> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(ControlError::system("look into", dir, error));
        }
        _ => {}
    }
    let mut running = running(dir);
    running.retain(is_meant);
    match running.len() {
        0 => Err(ControlError::NothingRuns { dir: dir.to_owned(), program: None }),
        1 => Ok(running.remove(0)),
        _ => Err(ControlError::Several { running }),
    }
}

/// Checks the name of a run. This does not need the run directory.
///
/// # Errors
/// [`ControlError::BadName`] if the name is not valid.
pub fn check_name(name: &str) -> Result<(), ControlError> {
    match is_name(name) {
        true => Ok(()),
        false => Err(ControlError::BadName { name: name.to_owned() }),
    }
}

/// Returns whether a name is valid. It may contain only characters that need no quoting. It must
/// not be a number, because it would be taken for a process id.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let well = name.chars().all(allowed) && !name.starts_with(['.', '-']);
    well && !name.is_empty() && name.len() <= 64 && !is_pid(name)
}

fn is_pid(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn available_name(dir: &Path, name: &str) -> Result<PathBuf, ControlError> {
    check_name(name)?;
    let path = dir.join(format!("{name}.sock"));
    match path.symlink_metadata() {
        Ok(_) => Err(ControlError::NameTaken { name: name.to_owned() }),
        Err(_) => Ok(path),
    }
}

/// Returns a function that converts the I/O error of the operation `what` on `path` to a
/// [`ControlError`]. If the error says that the path is not trusted, the result is
/// [`ControlError::Untrusted`].
fn refused<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> ControlError + 'p {
    move |error| match TrustError::of(&error) {
        Some(why) => ControlError::Untrusted(why.clone()),
        None => ControlError::system(what, path, error),
    }
}

/// Removes sockets on which no process listens, and then names that point to no socket.
fn remove_dead(dir: &Path) {
    let paths = sockets(dir);
    for path in paths.iter().filter(|path| pid_of(path).is_some()) {
        if matches!(connect(path), Err(error) if is_dead(&error)) {
            let _ = fs::remove_file(path);
        }
    }
    for path in paths.iter().filter(|path| path.is_symlink() && !path.exists()) {
        let _ = fs::remove_file(path);
    }
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem()?.to_str().map(str::to_owned)
}

fn pid_of(path: &Path) -> Option<u32> {
    stem(path)?.parse().ok()
}

/// Connects without blocking. A program that is stopped (SIGSTOP) is alive but accepts no
/// connection, so connecting to it could block.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream =
        UnixStream::from(trust::connect_to(path, SocketType::STREAM, SocketFlags::NONBLOCK)?);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn is_dead(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::CONNREFUSED | Errno::NOENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_process_numbers() {
        for name in ["lab", "a-b_c.d", "7up"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "42", "../x", "a/b", ".hidden", "-x", "a b", "é", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
