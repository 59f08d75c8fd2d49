//! Reads the files that settings name: traces, tables, profiles, modules.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::codes::{SR0009, SR0205};
use slipring_model::format::FormatError;

use super::error::EmulationConfigError;
use super::tree::{ConfigNode, ConfigOrigin};

/// Reads files by names relative to the directory of the configuration.
#[derive(Debug, Clone, Default)]
pub struct ConfigFiles {
    base: PathBuf,
    /// If true, errors do not tell whether a file exists, or what is wrong with it. This is set
    /// while a client of the control socket changes settings, because the client may not have
    /// permission to read the files.
    pub hides_details: bool,
    /// Paths that were accessed; all clones of a configuration share this set.
    paths: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// Maximum size of a file that a setting names, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum size of a configuration file, in bytes. A file with 10,000 links takes less than a
/// tenth of it.
const MAX_CONFIG_BYTES: u64 = 1 << 24;

/// Reads the text of a configuration.
///
/// # Errors
/// [`EmulationConfigError`] if the file cannot be read, is longer than 16 MiB or is not UTF-8.
pub(super) fn configuration(path: &Path) -> Result<String, EmulationConfigError> {
    let shown = path.display().to_string();
    // A pipe is allowed. The configuration is read before the run, so waiting for the writer of
    // the pipe delays only the start.
    let read = File::open(path).and_then(|file| read(file, MAX_CONFIG_BYTES));
    let bytes = read.map_err(|error| {
        let error = EmulationConfigError::unreadable(&shown, error.to_string());
        error.help(format!("check the path: ls -l {shown}"))
    })?;
    let bytes = bytes.ok_or_else(|| {
        let error = EmulationConfigError::new(SR0009, format!("{shown} is no configuration"), "");
        error.help("a configuration has at most 16 MiB; traces go into files of their own")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let error =
            EmulationConfigError::new(SR0009, format!("{shown} is not TOML"), no_text(&error));
        error.help(format!("see what it is: file {shown}"))
    })
}

/// Reads a file; `None` if it has more than `most` bytes.
fn read(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Opens a file that a setting names. Only regular files are accepted, because a setting may also
/// be changed during a run: a pipe could block the run for ever, and a device has no end.
fn regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

fn no_text(error: &FromUtf8Error) -> String {
    format!("byte {} is not UTF-8", error.utf8_error().valid_up_to())
}

impl ConfigFiles {
    /// Creates a reader of files by names relative to the directory of the file `config`.
    pub fn beside(config: &Path) -> Self {
        let base = config.parent().map(Path::to_owned).unwrap_or_default();
        Self { base, ..Self::default() }
    }

    /// Returns the paths of all files accessed so far.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns the path of a file that a setting names.
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the file cannot be read, or is longer than a GiB.
    pub fn bytes(&self, name: &str, node: &ConfigNode) -> Result<Vec<u8>, EmulationConfigError> {
        let path = self.path(name);
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        let unreadable = |cause: String| {
            if self.hides_details {
                return self.unusable(name, node);
            }
            let error = EmulationConfigError::unreadable(&path.display().to_string(), cause);
            error.at(&node.location).help(match node.location.origin {
                ConfigOrigin::File { .. } => {
                    "files that a file names are looked for beside it".to_owned()
                }
                ConfigOrigin::Flag(_) | ConfigOrigin::Classic(_) | ConfigOrigin::Message => {
                    format!("check the path: ls -l {}", path.display())
                }
            })
        };
        let read = regular(&path).and_then(|file| read(file, MAX_FILE_BYTES));
        let bytes = read.map_err(|error| unreadable(error.to_string()))?;
        bytes.ok_or_else(|| unreadable("more than 1 GiB".into()))
    }

    /// Parses a file with `reader`.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the file cannot be read, is not UTF-8 or does not have the
    /// expected format.
    pub fn parsed<T>(
        &self,
        name: &str,
        node: &ConfigNode,
        reader: impl Fn(&str) -> Result<T, FormatError>,
    ) -> Result<T, EmulationConfigError> {
        let bytes = self.bytes(name, node)?;
        let shown = self.path(name).display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| {
            if self.hides_details {
                return self.unusable(name, node);
            }
            EmulationConfigError::new(SR0205, format!("{shown} cannot be used"), no_text(&error))
                .at(&node.location)
                .help("traces, tables and profiles are text files")
        })?;
        reader(&text).map_err(|error| match self.hides_details {
            true => self.unusable(name, node),
            false => EmulationConfigError::format(&shown, &error),
        })
    }

    /// Returns an error that is the same for every file that cannot be used, whatever the cause.
    pub fn unusable(&self, name: &str, node: &ConfigNode) -> EmulationConfigError {
        let shown = self.path(name).display().to_string();
        let cause = "it is not there, not to be read, or of another format";
        let error = EmulationConfigError::new(SR0205, format!("{shown} cannot be used"), cause);
        error.at(&node.location).help(
            "what is wrong is said where it lies: slipring emulate --explain with the same setting",
        )
    }
}
