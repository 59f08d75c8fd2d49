//! The files that settings name: traces, tables, profiles, modules.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use slipring_model::format::FormatError;

use super::error::ConfigError;
use super::tree::Node;

/// Finds files beside the configuration that names them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    base: PathBuf,
}

/// More than this is no description of a link; a device would never end.
const MOST_BYTES: u64 = 1 << 30;

impl Files {
    /// Files named in `config` are looked for in its directory.
    pub(crate) fn beside(config: &Path) -> Self {
        Self { base: config.parent().map(Path::to_owned).unwrap_or_default() }
    }

    /// The path of a file that a setting names.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than a GiB.
    pub(crate) fn bytes(&self, name: &str, node: &Node) -> Result<Vec<u8>, ConfigError> {
        let path = self.path(name);
        let unreadable = |cause: String| {
            let error = ConfigError::unreadable(&path.display().to_string(), cause);
            error.at(&node.place).help("files that a file names are looked for beside it")
        };
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(|error| unreadable(error.to_string()))?;
        let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(unreadable("more than 1 GiB".into()));
        }
        Ok(bytes)
    }

    /// Reads a file with `reader`.
    ///
    /// # Errors
    /// If it cannot be read, is not UTF-8 or not in its format.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        node: &Node,
        reader: impl Fn(&str) -> Result<T, FormatError>,
    ) -> Result<T, ConfigError> {
        let bytes = self.bytes(name, node)?;
        let shown = self.path(name).display().to_string();
        let text = String::from_utf8(bytes).map_err(|_| {
            ConfigError::unreadable(&shown, "it is not a text")
                .at(&node.place)
                .help("traces, tables and profiles are text files")
        })?;
        reader(&text).map_err(|error| ConfigError::format(&shown, &error))
    }
}
