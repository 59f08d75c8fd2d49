//! The files of netmap-fwd's interface: the command socket, and the file with the process ID.
//!
//! Another router may have files of these names until this router has taken over from it. If so,
//! this router's files have names with its process ID at the end until then.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use slipring_cli::Failure;

use super::server::{CompatSocket, cannot};
use super::settings::CompatSettings;

/// The files of a run. They are removed when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct CompatFiles(Vec<CompatFile>);

#[derive(Debug)]
struct CompatFile {
    /// The path that the settings name.
    path: PathBuf,
    /// The path at which the file is.
    present: PathBuf,
    /// Device and inode; `None` if they are not known.
    inode: Option<(u64, u64)>,
}

impl Drop for CompatFile {
    fn drop(&mut self) {
        // A router that has taken over may have put its own file in this place.
        if inode(&self.present) == self.inode {
            // If the file cannot be removed, it is replaced at the next start.
            let _ = fs::remove_file(&self.present);
        }
    }
}

impl CompatFiles {
    /// Makes the files. With `are_in_use`, another router has files of these names, and
    /// [`Self::take_names`] must be called when it has ended.
    ///
    /// # Errors
    /// If a file cannot be made, or another program listens on the socket.
    pub(crate) fn make(
        settings: &CompatSettings,
        are_in_use: bool,
    ) -> Result<(Self, CompatSocket), Failure> {
        let mut files = Self::default();
        let present = |path: &Path| if are_in_use { with_pid(path) } else { path.to_owned() };
        let socket = CompatSocket::bind(&present(&settings.socket))?;
        files.add(&settings.socket, present(&settings.socket));
        if let Some(path) = &settings.pidfile {
            let text = format!("{}\n", std::process::id());
            let present = present(path);
            fs::write(&present, text).map_err(|error| cannot(&present, &error))?;
            files.add(path, present);
        }
        Ok((files, socket))
    }

    fn add(&mut self, path: &Path, present: PathBuf) {
        let inode = inode(&present);
        self.0.push(CompatFile { path: path.to_owned(), present, inode });
    }

    /// Gives the files the names of the settings.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn take_names(&mut self) -> io::Result<()> {
        for CompatFile { path, present, .. } in &mut self.0 {
            fs::rename(&*present, &*path)?;
            present.clone_from(path);
        }
        Ok(())
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|of| (of.dev(), of.ino()))
}

/// The name of a file until it may have the name `path`.
fn with_pid(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_ends_late_leaves_the_files_of_its_successor() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut files = CompatFiles::default();
        fs::write(path("pid"), "1\n").unwrap();
        files.add(&path("pid"), path("pid"));
        let mut successors = CompatFiles::default();
        fs::write(path("pid.2"), "2\n").unwrap();
        successors.add(&path("pid"), path("pid.2"));
        successors.take_names().unwrap();
        drop(files);
        assert_eq!(fs::read_to_string(path("pid")).unwrap(), "2\n");
        drop(successors);
        assert!(!path("pid").exists());
    }
}
