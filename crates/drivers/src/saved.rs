//! The file with the settings that `slipring nic set` has saved for the next port of a card.
//!
//! ```text
//!   boot=0f6c35b2-... taken=51234     the boot of the machine, and when the card was taken
//!   speed=100 autoneg=off
//! ```
//! After a restart of the machine, every card has its kernel driver again, so settings from before
//! the restart no longer apply. Nor do those from before the card was given back and taken again:
//! root cannot delete a user's file, whose directory it does not know.
//!
//! Only for directories that the caller has checked: the file is not read through a symbolic link,
//! but the directory is.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::settings::CardSettings;

/// The name of the first word, whose value identifies the boot of the machine.
const BOOT: &str = "boot=";
/// The name of the second word, whose value says when the card was taken.
const TAKEN: &str = "taken=";
/// Number of bytes that are read of a file of settings; the rest is ignored.
const MAX_FILE_BYTES: u64 = 4096;
/// Number of bytes that are read of a file with the state of a card. It contains all routes of the
/// card's interface.
const MAX_STATE_BYTES: u64 = 64 << 20;

/// Identifies the period in which a card is taken: by the boot of the machine, and by the time at
/// which `slipring nic` took the card. Settings count in the period in which they were saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPeriod(String);

impl TakenPeriod {
    /// Returns the present period of a card. It is read from the card's state that was saved during
    /// the boot with the identifier `boot_id`, in the first of these directories that has one.
    /// Without a state, another program has given the card to vfio-pci, and the period is that of
    /// the boot.
    #[must_use]
    pub fn find<D: AsRef<Path>>(dirs: &[D], card: &str, boot_id: &str) -> Self {
        let taken_at = |dir: &D| {
            let path = dir.as_ref().join(format!("{card}.json"));
            let state: Value =
                serde_json::from_str(&read_regular(&path, MAX_STATE_BYTES).ok()?).ok()?;
            let is_valid = state.get("boot_id")?.as_str()? == boot_id;
            is_valid.then(|| state.get("bound_at_ms")?.as_u64())?
        };
        match dirs.iter().find_map(taken_at) {
            Some(ms) => Self(format!("{boot_id} {TAKEN}{ms}")),
            None => Self(boot_id.to_owned()),
        }
    }
}

impl fmt::Display for TakenPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CardSettings {
    /// Returns the path of the file with the saved settings of a card, in a directory of such
    /// files.
    #[must_use]
    pub fn file_in(dir: &Path, card: &str) -> PathBuf {
        dir.join(format!("{card}.link"))
    }

    /// Returns the contents of a file with these settings, which count in this period.
    #[must_use]
    pub fn saved_text(&self, period: &TakenPeriod) -> String {
        format!("{BOOT}{period}\n{self}\n")
    }

    /// Reads the saved settings of a card; `None` if none were saved in this period.
    ///
    /// # Errors
    /// The system's error, which names the file; `InvalidData` if it is no file of settings.
    pub fn read_saved(dir: &Path, card: &str, period: &TakenPeriod) -> io::Result<Option<Self>> {
        let path = Self::file_in(dir, card);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = match read_regular(&path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(named)?,
        };
        let (boot, settings) = text.split_once('\n').unwrap_or((&text, ""));
        match boot.strip_prefix(BOOT) {
            Some(boot) if boot != period.0 => return Ok(None),
            Some(_) => {}
            None => return Err(named(invalid("its first line is not that of settings"))),
        }
        settings.parse().map(Some).map_err(|malformed| named(invalid(malformed)))
    }
}

/// Reads a file that must be a regular one: a read of another kind of file could wait forever.
fn read_regular(path: &Path, max_bytes: u64) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("it is no regular file"));
    }
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text)?;
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
        let period = |boot| TakenPeriod::find(&[dir.path()], CARD, boot);
        let read = |boot| CardSettings::read_saved(dir.path(), CARD, &period(boot)).unwrap();
        assert_eq!(read("a"), None);
        let settings = "speed=100 autoneg=off".parse::<CardSettings>().unwrap();
        let path = CardSettings::file_in(dir.path(), CARD);
        fs::write(path, settings.saved_text(&period("a"))).unwrap();
        assert_eq!((read("a"), read("b")), (Some(settings), None));
    }

    #[test]
    fn settings_count_until_the_card_is_taken_again() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths = dirs.each_ref().map(tempfile::TempDir::path);
        let state = paths[1].join("0000:03:00.0.json");
        let period = || TakenPeriod::find(&paths, CARD, "a");
        let taken_at = |text: &str| fs::write(&state, text).unwrap();
        assert_eq!(period().to_string(), "a");
        taken_at("{\"boot_id\":\"a\",\"bound_at_ms\":7}");
        assert_eq!(period().to_string(), "a taken=7");
        let settings = "mtu=9000".parse::<CardSettings>().unwrap();
        fs::write(CardSettings::file_in(paths[0], CARD), settings.saved_text(&period())).unwrap();
        let read = || CardSettings::read_saved(paths[0], CARD, &period()).unwrap();
        assert_eq!(read(), Some(settings));
        taken_at("{\"boot_id\":\"a\",\"bound_at_ms\":8}");
        assert_eq!(read(), None);
        for no_state in ["{\"boot_id\":\"b\",\"bound_at_ms\":7}", "{\"boot_id\":\"a\"}", "{", "[]"]
        {
            taken_at(no_state);
            assert_eq!(period().to_string(), "a");
        }
    }

    #[test]
    fn anything_but_a_regular_file_of_settings_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = CardSettings::file_in(dir.path(), CARD);
        let period = TakenPeriod::find::<PathBuf>(&[], CARD, "a");
        let error = || {
            let error =
                CardSettings::read_saved(dir.path(), CARD, &period).unwrap_err().to_string();
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
