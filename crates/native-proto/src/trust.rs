//! Checks whether the files of a run directory, and the processes that listen on its sockets, can
//! be trusted.
//!
//! ```text
//!   run directory        owned by root or by this user, writable by no other
//!   lock files           mode 0600: other users cannot open them, so cannot lock them
//!   sockets              the listener is root or this user (SO_PEERCRED), otherwise the client
//!                        disconnects
//! ```
//!
//! Every program that creates or uses a run directory performs these checks first. An empty path
//! means that the run directory is not known. It is never trusted, so that no program uses the
//! current directory by mistake.
//!
//! Not for deciding who may use a server, which each server decides itself.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use rustix::process::geteuid;

/// The permission bits that allow other users to create files in a directory.
const OTHERS_WRITE_MODE: u32 = 0o022;
/// The permission bits of a lock file, which only its owner can open.
const PRIVATE_FILE_MODE: u32 = 0o600;

/// Why a run directory, or the listener on a socket in it, is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The location of the run directory is not known.
    #[error("there is no run directory: XDG_RUNTIME_DIR is not set")]
    NoDirectory,
    /// The directory or file belongs to a user who is neither root nor this user.
    #[error("{} belongs to user {uid}, who is neither root nor this user", path.display())]
    Owner {
        /// The path of the directory or file.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
    },
    /// Users other than the owner may write to the directory.
    #[error("others than its owner may write to {} (mode {mode:03o})", path.display())]
    Writable {
        /// The path of the directory.
        path: PathBuf,
        /// The directory's permission bits.
        mode: u32,
    },
    /// A process of a user who is neither root nor this user listens on the socket.
    #[error("user {uid}, who is neither root nor this user, listens on {}", path.display())]
    Peer {
        /// The path of the socket.
        path: PathBuf,
        /// The user id of the listener.
        uid: u32,
    },
}

impl TrustError {
    /// Returns the `TrustError` inside an I/O error; `None` if the error has another cause.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns a suggestion of what the user can try next.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NoDirectory => {
                "set XDG_RUNTIME_DIR, or name a directory of yours: export SLIPRING_RUN=DIR"
                    .to_owned()
            }
            Self::Writable { path, .. } => {
                format!(
                    "chmod go-w {}, or name a directory of yours: export SLIPRING_RUN=DIR",
                    path.display()
                )
            }
            Self::Owner { uid, .. } | Self::Peer { uid, .. } => format!(
                "name a directory of yours: export SLIPRING_RUN=DIR; what runs there is asked as its user: \
                 sudo -u '#{uid}' ..."
            ),
        }
    }
}

impl From<TrustError> for io::Error {
    fn from(why: TrustError) -> Self {
        let kind = match why {
            TrustError::NoDirectory => io::ErrorKind::NotFound,
            _ => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, why)
    }
}

/// Checks that only root and this user can create files in `dir`. If `dir` is a symbolic link, it
/// is followed only if it belongs to root or this user.
///
/// # Errors
/// [`TrustError`] if other users can create files in `dir`, or if `dir` is empty; otherwise the
/// kernel's error, for example if `dir` does not exist.
pub fn check_dir(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() {
        return Err(TrustError::NoDirectory.into());
    }
    let itself = fs::symlink_metadata(dir)?;
    let meant = fs::metadata(dir)?;
    if !meant.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let own = geteuid().as_raw();
    if let Some(stranger) = [&itself, &meant].into_iter().find(|one| !is_trusted(one.uid(), own)) {
        return Err(TrustError::Owner { path: dir.to_owned(), uid: stranger.uid() }.into());
    }
    let mode = meant.mode() & 0o7777;
    if mode & OTHERS_WRITE_MODE != 0 {
        return Err(TrustError::Writable { path: dir.to_owned(), mode }.into());
    }
    Ok(())
}

/// Creates `dir` and its missing parents if they do not exist, with the permission bits `mode` less
/// the umask. Then checks `dir` with [`check_dir`].
///
/// # Errors
/// The errors of [`check_dir`]; the kernel's error if the directory cannot be created.
pub fn make_dir(dir: &Path, mode: u32) -> io::Result<()> {
    if dir.as_os_str().is_empty() {
        return Err(TrustError::NoDirectory.into());
    }
    DirBuilder::new().recursive(true).mode(mode).create(dir)?;
    check_dir(dir)
}

/// Connects to a socket in a trusted directory, and checks that root or this user listens on it.
///
/// # Errors
/// [`TrustError`] if the directory or the listener is not trusted; otherwise the kernel's error,
/// for example if no process listens.
pub fn connect_to(path: &Path, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    connect_with(path, kind, flags, None)
}

/// Like [`connect_to`], but the socket waits no longer than `timeout`, neither for the connection
/// nor later.
///
/// # Errors
/// The errors of [`connect_to`]; `EAGAIN` after the timeout.
pub fn connect_within(
    path: &Path,
    kind: SocketType,
    flags: SocketFlags,
    timeout: Duration,
) -> io::Result<OwnedFd> {
    connect_with(path, kind, flags, Some(timeout))
}

fn connect_with(
    path: &Path,
    kind: SocketType,
    flags: SocketFlags,
    timeout: Option<Duration>,
) -> io::Result<OwnedFd> {
    check_dir(path.parent().unwrap_or(Path::new("")))?;
    let socket = socket_with(AddressFamily::UNIX, kind, flags | SocketFlags::CLOEXEC, None)?;
    // On a Unix socket, the send timeout also limits how long connecting takes.
    if timeout.is_some() {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, timeout)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, timeout)?;
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    check_peer(path, &socket)?;
    Ok(socket)
}

/// Checks that root or this user listens on the socket at `path`, to which `socket` is connected.
///
/// # Errors
/// [`TrustError`] if another user listens; otherwise the kernel's error.
pub fn check_peer(path: &Path, socket: impl AsFd) -> io::Result<()> {
    let uid = sockopt::socket_peercred(socket)?.uid.as_raw();
    if is_trusted(uid, geteuid().as_raw()) {
        return Ok(());
    }
    Err(TrustError::Peer { path: path.to_owned(), uid }.into())
}

/// Opens a file that only its owner can open. So only its owner can lock it. Creates the file if it
/// does not exist.
///
/// # Errors
/// `ELOOP` if `path` is a symbolic link; otherwise the kernel's error.
pub fn private_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE_MODE)
        .custom_flags(flags);
    let file = options.open(path)?;
    if file.metadata()?.mode() & 0o777 & !PRIVATE_FILE_MODE != 0 {
        // If an earlier version of slipring created the file, its permissions are wider.
        file.set_permissions(Permissions::from_mode(PRIVATE_FILE_MODE))?;
    }
    Ok(file)
}

/// A lock on a private file. Dropping the lock removes the file. If the process is killed, the file
/// stays.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// The locked file. It is closed after the file was removed, and closing gives up the lock.
    _file: File,
}

impl FileLock {
    /// Waits for the lock on `path`, which must be in a checked directory.
    ///
    /// # Errors
    /// The kernel's error if the file cannot be opened or locked.
    pub fn lock(path: &Path) -> io::Result<Self> {
        Self::with_flock(FlockOperation::LockExclusive, path)
    }

    /// Takes the lock on `path`; `None` if another process or thread holds it.
    ///
    /// # Errors
    /// The kernel's error if the file cannot be opened or locked.
    pub fn try_lock(path: &Path) -> io::Result<Option<Self>> {
        match Self::with_flock(FlockOperation::NonBlockingLockExclusive, path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn with_flock(operation: FlockOperation, path: &Path) -> io::Result<Self> {
        loop {
            let file = private_file(path)?;
            rustix::io::retry_on_intr(|| flock(&file, operation))?;
            // A holder removes the file before it gives up the lock, so this call may have locked a
            // file that no longer has a name.
            let (held, named) = (file.metadata()?, fs::symlink_metadata(path));
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
                return Ok(Self { path: path.to_owned(), _file: file });
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If the file cannot be removed, the next holder locks the existing file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether the user `own` trusts files and processes of the user `uid`.
fn is_trusted(uid: u32, own: u32) -> bool {
    uid == 0 || uid == own
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A user who is neither root nor the current user.
    const STRANGER: u32 = 4242;

    fn refusal(checked: io::Result<()>) -> Option<TrustError> {
        checked.err().and_then(|error| TrustError::of(&error).cloned())
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_root_and_the_user_are_believed() {
        assert!(is_trusted(0, 1000) && is_trusted(1000, 1000) && is_trusted(0, 0));
        assert!(!is_trusted(1001, 1000) && !is_trusted(1000, 0));
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o700, 0o755, 0o711, 0o500] {
            set_mode(dir.path(), mode);
            check_dir(dir.path()).unwrap();
        }
        for mode in [0o770, 0o702, 0o1777, 0o777] {
            set_mode(dir.path(), mode);
            let path = dir.path().to_owned();
            assert_eq!(refusal(check_dir(&path)), Some(TrustError::Writable { path, mode }));
        }
    }

    #[test]
    fn a_directory_or_link_of_a_stranger_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (theirs, ours, link) =
            (dir.path().join("theirs"), dir.path().join("ours"), dir.path().join("link"));
        fs::create_dir(&theirs).unwrap();
        fs::create_dir(&ours).unwrap();
        symlink(&ours, &link).unwrap();
        check_dir(&link).unwrap();
        if chown(&theirs, Some(STRANGER), None).is_err() {
            return slipring_test_support::skip!("to give a directory away needs root");
        }
        std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
        for path in [theirs, link] {
            let wanted = TrustError::Owner { path: path.clone(), uid: STRANGER };
            assert_eq!(refusal(check_dir(&path)), Some(wanted.clone()));
            assert_eq!(refusal(make_dir(&path, 0o700)), Some(wanted));
        }
    }

    #[test]
    fn where_no_directory_is_known_none_is_made_and_none_is_looked_into() {
        assert_eq!(refusal(check_dir(Path::new(""))), Some(TrustError::NoDirectory));
        assert_eq!(refusal(make_dir(Path::new(""), 0o700)), Some(TrustError::NoDirectory));
        let socket = Path::new("").join("native.sock");
        let connected = connect_to(&socket, SocketType::STREAM, SocketFlags::empty());
        assert_eq!(refusal(connected.map(drop)), Some(TrustError::NoDirectory));
    }

    #[test]
    fn a_socket_in_a_directory_of_a_stranger_hears_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let to = || connect_to(&path, SocketType::STREAM, SocketFlags::empty()).map(drop);
        to().unwrap();
        listener.accept().unwrap();
        set_mode(dir.path(), 0o1777);
        assert!(matches!(refusal(to()), Some(TrustError::Writable { .. })));
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_lock_file_is_for_its_owner_alone_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, target, link) =
            (dir.path().join("lock"), dir.path().join("target"), dir.path().join("link"));
        fs::write(&lock, "made by an earlier version").unwrap();
        set_mode(&lock, 0o644);
        assert_eq!(private_file(&lock).unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        symlink(&target, &link).unwrap();
        assert!(private_file(&link).is_err() && !target.exists());
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("lock"), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let lock = FileLock::lock(&path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0);
                        inside.fetch_sub(1, Ordering::AcqRel);
                        drop(lock);
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
