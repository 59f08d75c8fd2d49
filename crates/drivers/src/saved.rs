//! The file with the settings that `slipring nic set` has saved for the next port of a card.
//!
//! ```text
//!   boot=0f6c35b2-...          identifies the boot of the machine during which they were saved
//!   speed=100 autoneg=off
//! ```
//! After a restart of the machine, every card has its kernel driver again, so settings from before
//! the restart no longer apply.
//!
//! Only for directories that the caller has checked: the file is not read through a symbolic link,
//! but the directory is.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::settings::CardSettings;

/// The name of the first word, whose value identifies the boot of the machine.
const BOOT: &str = "boot=";
/// Number of bytes that are read of a file; the rest is ignored.
const MAX_FILE_BYTES: u64 = 4096;

impl CardSettings {
    /// Returns the path of the file with the saved settings of a card, in a directory of such
    /// files.
    #[must_use]
    pub fn file_in(dir: &Path, card: &str) -> PathBuf {
        dir.join(format!("{card}.link"))
    }

    /// Returns the contents of a file with these settings. `boot_id` identifies the machine's
    /// current boot.
    #[must_use]
    pub fn saved_text(&self, boot_id: &str) -> String {
        format!("{BOOT}{boot_id}\n{self}\n")
    }

    /// Reads the saved settings of a card; `None` if none were saved since the machine was started.
    ///
    /// # Errors
    /// The system's error, which names the file; `InvalidData` if it is no file of settings.
    pub fn read_saved(dir: &Path, card: &str, boot_id: &str) -> io::Result<Option<Self>> {
        let path = Self::file_in(dir, card);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = match read_regular(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(named)?,
        };
        let (boot, settings) = text.split_once('\n').unwrap_or((&text, ""));
        match boot.strip_prefix(BOOT) {
            Some(boot) if boot != boot_id => return Ok(None),
            Some(_) => {}
            None => return Err(named(invalid("its first line is not that of settings"))),
        }
        settings.parse().map(Some).map_err(|malformed| named(invalid(malformed)))
    }
}

/// Reads a file that must be a regular one: a read of another kind of file could wait forever.
fn read_regular(path: &Path) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("it is no regular file"));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CARD: &str = "0000:03:00.0";

    #[test]
    fn settings_are_those_that_were_saved_since_the_machine_was_started() {
        let dir = tempfile::tempdir().unwrap();
        let read = |boot| CardSettings::read_saved(dir.path(), CARD, boot).unwrap();
        assert_eq!(read("a"), None);
        let settings = "speed=100 autoneg=off".parse::<CardSettings>().unwrap();
        let path = CardSettings::file_in(dir.path(), CARD);
        fs::write(path, settings.saved_text("a")).unwrap();
        assert_eq!((read("a"), read("b")), (Some(settings), None));
    }

    #[test]
    fn anything_but_a_regular_file_of_settings_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = CardSettings::file_in(dir.path(), CARD);
        let error = || {
            let error = CardSettings::read_saved(dir.path(), CARD, "a").unwrap_err().to_string();
            assert!(error.contains("0000:03:00.0.link: "), "{error}");
            error
        };
        for (text, cause) in [
            ("boot=a\ncolour=red\n", "`colour=red` is no setting"),
            ("speed=100\n", "its first line"),
            ("", "its first line"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(error().contains(cause), "{}", error());
        }
        fs::remove_file(&path).unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "boot=a\nspeed=100\n").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        error();
        fs::remove_file(&path).unwrap();
        // A read of a pipe without writers would wait.
        let (any, mode) = (rustix::fs::CWD, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(any, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(error().contains("no regular file"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(error().contains("no regular file"));
    }
}
