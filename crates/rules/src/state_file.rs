//! The state file, in which a firewall saves its rules. Only one process writes it, and it is
//! always complete.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use slipring_cli::codes::{SR0003, SR0201};
use slipring_cli::{Diagnostic, Failure};
use slipring_native_proto::trust::FileLock;

/// The state file, which is locked until this value is dropped.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    _lock: FileLock,
}

impl StateFile {
    /// Locks the file at `path`, which need not exist yet. The lock file is created in the same
    /// directory. So a missing or read-only directory causes an error before the first frame.
    pub fn lock(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        match FileLock::try_lock(&sibling_path(path, ".lock")) {
            Ok(Some(lock)) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Ok(None) => {
                let error =
                    Diagnostic::new(SR0003, format!("another firewall keeps its rules in {shown}"));
                let error = error.with_cause("each would write over what the other keeps");
                Err(error.with_help("give each firewall a --state file of its own").into())
            }
            Err(error) => {
                let refused = Diagnostic::new(SR0201, format!("rules cannot be kept in {shown}"));
                let dir = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let dir = dir.unwrap_or(Path::new(".")).display();
                let refused = refused.with_cause(format!("{dir}: {error}"));
                Err(refused
                    .with_help(format!("see whether you may write there: ls -ld {dir}"))
                    .into())
            }
        }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents of the file by `text`, atomically.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let new = sibling_path(&self.path, ".new");
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
