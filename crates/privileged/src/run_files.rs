//! The files of a run that the helper moves and removes, for a program that has become another user
//! and therefore cannot.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, unlinkat};
use rustix::process::geteuid;
use slipring_native_proto::run_names;

use crate::directory::open_directory;

/// The files of a run. Requests name none of them: the program determines them when it starts the
/// helper, before it reads its first frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFiles {
    /// The run directory, with the program's control socket and counters.
    pub dir: PathBuf,
    /// The name that the run takes over when it is requested.
    pub name: Option<String>,
    /// Files elsewhere, such as a file with the process ID.
    pub others: Vec<PathBuf>,
}

impl RunFiles {
    /// Whether the run directory belongs to another user.
    pub(crate) fn is_foreign(&self) -> bool {
        let owner = fs::metadata(&self.dir).map(|found| found.uid());
        owner.is_ok_and(|owner| owner != geteuid().as_raw())
    }

    /// Opens the directories of the files.
    ///
    /// # Errors
    /// If a directory cannot be opened, or a symbolic link of another user is in its path.
    pub(crate) fn open(&self) -> io::Result<OpenRunFiles> {
        let open = |path: &PathBuf| {
            let (dir, file) =
                path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
            Ok((open_directory(dir)?, file.to_owned()))
        };
        Ok(OpenRunFiles {
            dir: open_directory(&self.dir)?,
            name: self.name.clone(),
            others: self.others.iter().map(open).collect::<io::Result<_>>()?,
        })
    }

    /// Returns the files as arguments; `None` if a path is not text.
    pub(crate) fn to_args(&self) -> Option<Vec<String>> {
        let name = self.name.clone().unwrap_or_default();
        let paths = [&self.dir].into_iter().chain(&self.others);
        let mut args =
            paths.map(|path| path.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
        args.insert(1, name);
        Some(args)
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
        let [dir, name, others @ ..] = args else { return None };
        Some(Self {
            dir: dir.into(),
            name: Some(name.clone()).filter(|name| !name.is_empty()),
            others: others.iter().map(PathBuf::from).collect(),
        })
    }
}

/// The files of a run. Their directories were opened before the program became another user. That
/// user may own such a directory, or one of its parents, and may move it or put a link in its
/// place. The descriptor still refers to the original directory.
#[derive(Debug)]
pub(crate) struct OpenRunFiles {
    dir: OwnedFd,
    name: Option<String>,
    others: Vec<(OwnedFd, OsString)>,
}

impl OpenRunFiles {
    /// Returns a path that leads to the open run directory by its descriptor.
    fn dir(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string())
    }

    /// Gives the run [`RunFiles::name`], and takes that name away from any other run.
    pub(crate) fn take_name(&self, program: u32) -> io::Result<()> {
        let name = self.name.as_deref().ok_or(io::ErrorKind::InvalidInput)?;
        run_names::take_name(&self.dir(), program, name)
    }

    /// Removes the files. It does not matter if some no longer exist. If one is a link, the link is
    /// removed, not the file that it names.
    pub(crate) fn remove(&self, program: u32) {
        run_names::remove_socket(&self.dir(), program);
        let stats = (&self.dir, &OsString::from(format!("{program}.stats")));
        let others = self.others.iter().map(|(dir, file)| (dir, file));
        for (dir, file) in [stats].into_iter().chain(others) {
            let _ = unlinkat(dir, file, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_removed_where_they_were_when_a_link_takes_the_place_of_their_directory() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let (own, victim, moved) = (root.join("own"), root.join("victim"), root.join("moved"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&victim).unwrap();
        let files = ["7.sock", "7.stats", "fwd.pid"];
        for (dir, file) in [&own, &victim].into_iter().flat_map(|dir| files.map(|it| (dir, it))) {
            fs::write(dir.join(file), "").unwrap();
        }
        let others = vec![own.join("fwd.pid")];
        let open = RunFiles { dir: own.clone(), name: Some("edge".into()), others }.open().unwrap();
        fs::rename(&own, &moved).unwrap();
        symlink(&victim, &own).unwrap();
        open.take_name(7).unwrap();
        assert!(moved.join("edge.sock").is_symlink());
        open.remove(7);
        let left = |dir| fs::read_dir(dir).unwrap().count();
        assert_eq!((left(&moved), left(&victim)), (0, files.len()));
    }
}
