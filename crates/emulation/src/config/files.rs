//! The files that settings name: traces, tables, profiles, modules.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::codes::{SR0009, SR0205};
use slipring_model::format::FormatError;

use super::error::ConfigError;
use super::tree::{Node, Source};

/// Finds files beside the configuration that names them.
#[derive(Debug, Clone, Default)]
pub struct Files {
    base: PathBuf,
    /// Whether errors keep to themselves what is wrong with a file, and whether there is one: who
    /// changes a run may not be who may look at its files.
    pub discreet: bool,
    /// Paths that were looked at: by all that go back to one configuration.
    seen: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// More than this is no description of a link; a device would never end.
const MOST_BYTES: u64 = 1 << 30;
/// More than this is no configuration: 10,000 links take less than a tenth of it.
const MOST_CONFIGURATION: u64 = 1 << 24;

/// The text of a configuration.
///
/// # Errors
/// If the file cannot be read, is longer than 16 MiB or is not UTF-8.
pub(super) fn configuration(path: &Path) -> Result<String, ConfigError> {
    let shown = path.display().to_string();
    // One from a pipe is welcome: it is read at the start, where nothing waits for it.
    let read = File::open(path).and_then(|file| read(file, MOST_CONFIGURATION));
    let bytes = read.map_err(|error| {
        let error = ConfigError::unreadable(&shown, error.to_string());
        error.help(format!("check the path: ls -l {shown}"))
    })?;
    let bytes = bytes.ok_or_else(|| {
        let error = ConfigError::new(SR0009, format!("{shown} is no configuration"), "");
        error.help("a configuration has at most 16 MiB; traces go into files of their own")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let error = ConfigError::new(SR0009, format!("{shown} is not TOML"), no_text(&error));
        error.help(format!("see what it is: file {shown}"))
    })
}

/// The bytes of a file; none where there are more than `most`.
fn read(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// A file that a setting names, also one of a run that goes on: a pipe could keep it waiting for
/// ever, and a device has no end.
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

impl Files {
    /// Files named in `config` are looked for in its directory.
    pub fn beside(config: &Path) -> Self {
        let base = config.parent().map(Path::to_owned).unwrap_or_default();
        Self { base, ..Self::default() }
    }

    /// The files that settings have named so far.
    pub fn seen(&self) -> Vec<PathBuf> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The path of a file that a setting names.
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than a GiB.
    pub fn bytes(&self, name: &str, node: &Node) -> Result<Vec<u8>, ConfigError> {
        let path = self.path(name);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        let unreadable = |cause: String| {
            if self.discreet {
                return self.unfit(name, node);
            }
            let error = ConfigError::unreadable(&path.display().to_string(), cause);
            error.at(&node.place).help(match node.place.source {
                Source::File { .. } => {
                    "files that a file names are looked for beside it".to_owned()
                }
                Source::Flag(_) | Source::Classic(_) | Source::Message => {
                    format!("check the path: ls -l {}", path.display())
                }
            })
        };
        let read = regular(&path).and_then(|file| read(file, MOST_BYTES));
        let bytes = read.map_err(|error| unreadable(error.to_string()))?;
        bytes.ok_or_else(|| unreadable("more than 1 GiB".into()))
    }

    /// Reads a file with `reader`.
    ///
    /// # Errors
    /// If it cannot be read, is not UTF-8 or not in its format.
    pub fn parsed<T>(
        &self,
        name: &str,
        node: &Node,
        reader: impl Fn(&str) -> Result<T, FormatError>,
    ) -> Result<T, ConfigError> {
        let bytes = self.bytes(name, node)?;
        let shown = self.path(name).display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| {
            if self.discreet {
                return self.unfit(name, node);
            }
            ConfigError::new(SR0205, format!("{shown} cannot be used"), no_text(&error))
                .at(&node.place)
                .help("traces, tables and profiles are text files")
        })?;
        reader(&text).map_err(|error| match self.discreet {
            true => self.unfit(name, node),
            false => ConfigError::format(&shown, &error),
        })
    }

    /// The one thing that is said of whatever file cannot be used.
    pub fn unfit(&self, name: &str, node: &Node) -> ConfigError {
        let shown = self.path(name).display().to_string();
        let cause = "it is not there, not to be read, or of another format";
        let error = ConfigError::new(SR0205, format!("{shown} cannot be used"), cause);
        error.at(&node.place).help(
            "what is wrong is said where it lies: slipring emulate --explain with the same setting",
        )
    }
}
