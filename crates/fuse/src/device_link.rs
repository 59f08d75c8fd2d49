//! `/dev/netmap`, a symbolic link to the device. It is not created if a real device exists.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A symbolic link. On drop, it is removed if it still points to this daemon's device.
#[derive(Debug)]
pub struct DeviceLink {
    link: PathBuf,
    target: PathBuf,
}

impl DeviceLink {
    /// Creates the symbolic link `link` to `target`. If `link` is a symbolic link that leads
    /// nowhere or to `target`, it is replaced.
    ///
    /// # Errors
    /// `AlreadyExists` if anything else is at `link`, because a real device is never replaced.
    pub fn new(link: &Path, target: &Path) -> io::Result<Self> {
        let old = fs::symlink_metadata(link);
        let is_link = old.as_ref().is_ok_and(|old| old.file_type().is_symlink());
        let ours = is_link && fs::read_link(link).is_ok_and(|leads| leads == target);
        // A link to `target` is not followed, because it leads into the mount that is served here.
        if ours || is_link && fs::metadata(link).is_err() {
            fs::remove_file(link)?;
        }
        symlink(target, link)?;
        Ok(Self { link: link.to_owned(), target: target.to_owned() })
    }
}

impl Drop for DeviceLink {
    fn drop(&mut self) {
        if fs::read_link(&self.link).is_ok_and(|leads| leads == self.target) {
            // An error does no harm: the link then leads nowhere, and the next start replaces it.
            let _ = fs::remove_file(&self.link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_and_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("netmap"), dir.path().join("gone"));
        drop(DeviceLink::new(&link, &target).unwrap());
        assert!(fs::symlink_metadata(&link).is_err());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("netmap"), dir.path().join("new"));
        symlink("/nowhere/at/all", &link).unwrap();
        let made = DeviceLink::new(&link, &target).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), target);
        drop(made);
    }

    #[test]
    fn a_real_file_is_never_replaced_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("netmap");
        fs::write(&link, "device").unwrap();
        let refused = DeviceLink::new(&link, dir.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&link).unwrap(), b"device");
    }

    #[test]
    fn a_link_that_leads_to_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("netmap");
        symlink(dir.path(), &link).unwrap();
        assert!(DeviceLink::new(&link, Path::new("/new")).is_err());
        assert_eq!(fs::read_link(&link).unwrap(), dir.path());
    }
}
