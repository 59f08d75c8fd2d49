//! Mounts and unmounts the device, and replaces a mount that a killed server has left.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

use crate::error::FuseError;

/// The name of the device's file in the mounted directory.
pub(crate) const FILE_NAME: &str = "netmap";

/// A mounted device. It is unmounted on drop.
#[derive(Debug)]
pub(crate) struct Mount {
    dir: PathBuf,
    file: PathBuf,
    removed: bool,
}

/// What was found when a mount was removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MountRemoval {
    /// Whether a file on the mount was still open.
    pub(crate) in_use: bool,
    /// Whether the connection has ended. All reads of requests end with it. The connection does not
    /// end if another process has removed the mount, and a copy of the mount still exists.
    pub(crate) has_ended: bool,
}

impl Mount {
    /// Mounts the device on `dir`. Returns the descriptor from which requests are read. If a killed
    /// server has left a mount on `dir`, it is removed first.
    pub(crate) fn new(dir: &Path) -> Result<(Self, OwnedFd), FuseError> {
        remove_stale(dir);
        fs::create_dir_all(dir)
            .map_err(|source| FuseError::Step { step: "make the directory to mount on", source })?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())
            .map_err(FuseError::step("open /dev/fuse"))?;
        mount(&device, dir).map_err(FuseError::step("mount a FUSE file system"))?;
        Ok((Self { dir: dir.to_owned(), file: dir.join(FILE_NAME), removed: false }, device))
    }

    /// Takes over the mount that the previous daemon has made on `dir`. The mount exists as long as
    /// its descriptor is open. It is not accessed here, because nothing answers requests yet.
    pub(crate) fn adopt(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: dir.join(FILE_NAME), removed: false }
    }

    /// Ends the mount on `dir` and its connection, which another process may hold open. Programs
    /// that have a file on it open get errors immediately. The mount is not accessed here, because
    /// nothing would answer.
    pub(crate) fn abort(dir: &Path) {
        // If nothing is mounted, there is nothing to end.
        let _ = unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Ends the connection and unmounts. Returns whether a file was still open, and whether the
    /// connection has ended. Other mount namespaces may have copies of the mount, which would keep
    /// the connection open for ever. So the connection is aborted, and programs that have the
    /// device open get errors immediately.
    pub(crate) fn remove(mut self) -> MountRemoval {
        self.removed = true;
        // The first EXPIRE only marks the mount as expired. If the mount is in use, it fails.
        let in_use = unmount(&*self.dir, UnmountFlags::EXPIRE) == Err(Errno::BUSY);
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        MountRemoval { in_use, has_ended: unmount(&*self.dir, flags).is_ok() }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.removed {
            let _ = unmount(&*self.dir, UnmountFlags::DETACH);
        }
    }
}

fn mount(device: &OwnedFd, dir: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    fsconfig_set_string(context, "source", "slipringd")?;
    fsconfig_set_string(context, "subtype", "slipring")?;
    fsconfig_set_string(context, "fd", device.as_raw_fd().to_string())?;
    fsconfig_set_string(context, "rootmode", "40000")?;
    fsconfig_set_string(context, "user_id", "0")?;
    fsconfig_set_string(context, "group_id", "0")?;
    // All users may access the mount; the kernel checks owner, group and mode of the file.
    fsconfig_set_flag(context, "allow_other")?;
    fsconfig_set_flag(context, "default_permissions")?;
    fsconfig_create(context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    let mounted = fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(mounted.as_fd(), "", rustix::fs::CWD, dir, how)
}

/// Unmounts what a killed server has left on `dir`.
fn remove_stale(dir: &Path) {
    // Each round removes one mount. The first round that has none to remove ends the function.
    // Usually few rounds are needed; 16 is only a limit.
    for _ in 0..16 {
        // On a mount without a server, `stat` fails with ENOTCONN, or with ECONNABORTED if the
        // server ended while `stat` was waiting for it.
        let answer = rustix::fs::stat(dir);
        if !matches!(answer, Err(Errno::NOTCONN | Errno::CONNABORTED)) {
            return;
        }
        if unmount(dir, UnmountFlags::DETACH).is_err() {
            return;
        }
    }
}
