//! Opens a directory, so that no later change of its path leads elsewhere.
//!
//! A path is resolved name by name. Each symbolic link on the way must belong to root or to this
//! process's user. Otherwise another user could choose, by a link, the directory in which this
//! process works.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How many symbolic links a path may have, as in Linux.
const MAX_LINKS: usize = 40;

/// Opens the directory of an absolute path (`O_PATH`).
///
/// # Errors
/// The kernel's error; PermissionDenied if a symbolic link on the way belongs neither to root nor
/// to this process's user.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let mut names = Vec::new();
    push_names(&mut names, path);
    let mut dir = open_root()?;
    let mut links = 0;
    while let Some(name) = names.pop() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&dir, &name, flags, Mode::empty())?;
        let stat = fstat(&found)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => dir = found,
            FileType::Symlink if links == MAX_LINKS => return Err(Errno::LOOP.into()),
            FileType::Symlink => {
                is_trusted(stat.st_uid).then_some(()).ok_or(io::ErrorKind::PermissionDenied)?;
                links += 1;
                let target = readlinkat(&found, "", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    dir = open_root()?;
                }
                push_names(&mut names, &target);
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(dir)
}

/// Pushes the names of a path, so that the first one is popped first.
fn push_names(names: &mut Vec<OsString>, path: &Path) {
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts: Vec<_> = path.components().filter(is_name).collect();
    names.extend(parts.iter().rev().map(|part| part.as_os_str().to_owned()));
}

fn open_root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, "/", flags, Mode::empty())?)
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    /// The inode number of the directory that is opened by a path.
    fn opened(path: &Path) -> io::Result<u64> {
        Ok(fstat(open_directory(path)?)?.st_ino)
    }

    #[test]
    fn a_path_with_links_of_this_user_leads_where_the_kernel_says() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("relative")).unwrap();
        symlink(root.join("relative/b"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for path in ["a/b", "relative/b", "absolute", "absolute/../../relative/./b"] {
            let path = root.join(path);
            assert_eq!(opened(&path).unwrap(), fs::metadata(&path).unwrap().ino(), "{path:?}");
        }
        for (path, errno) in [
            ("loop", Errno::LOOP),
            ("file", Errno::NOTDIR),
            ("file/b", Errno::NOTDIR),
            ("x", Errno::NOENT),
        ] {
            let error = opened(&root.join(path)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{path}");
        }
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        symlink("/", &link).unwrap();
        assert!(opened(&link).is_ok());
        // Only root can give a link to another user.
        if lchown(&link, Some(4711), None).is_ok() {
            assert_eq!(opened(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
