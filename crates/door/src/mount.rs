//! The mount: made, found stale, taken away.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

use crate::DoorError;

/// The name of the one file.
pub(crate) const FILE: &str = "netmap";

/// A mounted device; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    dir: PathBuf,
    file: PathBuf,
    removed: bool,
}

impl Mount {
    /// Mounts on `dir` and gives the descriptor that requests come from. What a killed server
    /// left there is taken away first.
    pub(crate) fn new(dir: &Path) -> Result<(Self, OwnedFd), DoorError> {
        remove_stale(dir);
        fs::create_dir_all(dir)
            .map_err(|source| DoorError::Step { step: "make the directory to mount on", source })?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())
            .map_err(DoorError::step("open /dev/fuse"))?;
        mount(&device, dir).map_err(DoorError::step("mount a FUSE file system"))?;
        Ok((Self { dir: dir.to_owned(), file: dir.join(FILE), removed: false }, device))
    }

    /// The mount that a process which is no more made on `dir`: it lives by its descriptor. It is
    /// not looked at, since nobody would answer yet.
    pub(crate) fn adopt(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: dir.join(FILE), removed: false }
    }

    /// Ends a mount whose connection somebody may hold open, and the connection with it: whoever has
    /// a file open there is told at once. It is not looked into, since nobody would answer.
    pub(crate) fn abort(dir: &Path) {
        // Where nothing is mounted, there is nothing to end.
        let _ = unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Unmounts; whether somebody still has it open, and so still needs answers.
    pub(crate) fn remove(mut self) -> bool {
        self.removed = true;
        if unmount(&*self.dir, UnmountFlags::empty()) != Err(Errno::BUSY) {
            return false;
        }
        // Hidden at once; gone with the last client or with this process.
        let _ = unmount(&*self.dir, UnmountFlags::DETACH);
        true
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
    // Owner, group and mode of the file are checked by the kernel.
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

/// Unmounts what nobody serves any more: its server was killed.
fn remove_stale(dir: &Path) {
    // Bounded: each round takes one mount away or ends.
    for _ in 0..16 {
        if rustix::fs::stat(dir).err() != Some(Errno::NOTCONN) {
            return;
        }
        if unmount(dir, UnmountFlags::DETACH).is_err() {
            return;
        }
    }
}
