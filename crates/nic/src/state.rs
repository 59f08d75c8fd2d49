//! The files in the run directory for a card that is bound to vfio-pci: `nic/BDF.json` has the
//! state from before it was bound; `nic/BDF.link`, if it exists, has the settings that a user has
//! made.
//!
//! All users can read both files, because a user without other privileges may open the card.
//!
//! A file is replaced as a whole, so that a process that is killed leaves the old state or the new
//! one. The state is valid only until the machine restarts, because every card then has its kernel
//! driver again.

mod saved;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use slipring_drivers::{CardSettings, TakenPeriod};
use slipring_native_proto::trust::{self, FileLock};

use crate::host::NicHost;
use crate::pci_address::PciAddress;
use crate::sysfs;
use saved::VERSION;
pub(crate) use saved::{SavedInterface, SavedMessage, SavedNic};

/// The permission bits of all files except the lock.
const FILE_MODE: u32 = 0o644;
/// The extensions of files that are not written in full yet: of a state, and of settings.
const STATE_PARTIAL: &str = "partial";
const SETTINGS_PARTIAL: &str = "link-partial";
/// How long to wait for another running `slipring nic`.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two attempts to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Returns the identifier of the machine's current boot.
pub(crate) fn boot_id(root: &Path) -> String {
    sysfs::read(&root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default()
}

/// A state that cannot be read.
#[derive(Debug)]
pub(crate) struct UnreadableState {
    pub(crate) bdf: String,
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

/// The directory of saved states.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: PathBuf,
}

impl StateDir {
    /// Returns the directory below a run directory. It need not exist.
    pub(crate) fn below(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("nic") }
    }

    /// Returns the path of the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether this is the same directory as another, by its path.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.dir == other.dir
    }

    /// Returns whether the directory exists, and only root and this user can change it.
    pub(crate) fn is_trusted(&self) -> bool {
        trust::check_dir(&self.dir).is_ok()
    }

    /// Returns the file of a card.
    pub(crate) fn path(&self, bdf: &str) -> PathBuf {
        self.dir.join(format!("{bdf}.json"))
    }

    /// Creates the directory, and waits until no other process changes cards. Others cannot change
    /// cards until the returned lock is dropped.
    ///
    /// # Errors
    /// An untrusted run directory, a symbolic link in place of the directory, or a time-out.
    pub(crate) fn lock(&self, host: &dyn NicHost) -> io::Result<FileLock> {
        let run_dir = self.dir.parent().unwrap_or(Path::new(""));
        trust::make_dir(run_dir, 0o755)?;
        trust::make_dir(&self.dir, 0o755)?;
        // The directories may have been created with a strict umask, or by a program that does not
        // share them with other users. Adds the missing permissions: other users may enter a run
        // directory of root, but not list it.
        if geteuid().is_root() {
            // Like `make_dir`, follows a link to the run directory.
            permit(&open_dir(run_dir, OFlags::empty())?, 0o011)?;
        }
        let dir = open_dir(&self.dir, OFlags::NOFOLLOW).map_err(|error| link(&self.dir, error))?;
        permit(&dir, 0o055)?;
        let until = host.uptime() + LOCK_TIMEOUT;
        loop {
            if let Some(lock) = FileLock::try_lock(&self.dir.join("lock"))? {
                return Ok(lock);
            }
            if host.uptime() >= until {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another slipring nic is at work",
                ));
            }
            host.pause(LOCK_PAUSE);
        }
    }

    /// Returns the valid states. States from before a restart of the machine are not valid.
    pub(crate) fn all(&self, host: &dyn NicHost) -> io::Result<Vec<SavedNic>> {
        let mut all = Vec::new();
        for bdf in self.cards() {
            match self.of(host, &bdf) {
                Ok(saved) => all.extend(saved),
                // One broken file must not keep the other cards from being given back.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Returns the states that cannot be read, including those that [`Self::all`] leaves out.
    pub(crate) fn unreadable(&self) -> Vec<UnreadableState> {
        let damaged = |bdf: String| Some(self.damaged(&bdf, self.read(&bdf).err()?));
        self.cards().into_iter().filter_map(damaged).collect()
    }

    /// Returns the description of a state that cannot be read.
    pub(crate) fn damaged(&self, bdf: &str, error: io::Error) -> UnreadableState {
        UnreadableState { bdf: bdf.to_owned(), path: self.path(bdf), error }
    }

    /// Returns whether a card has a state, also if that cannot be read.
    pub(crate) fn has(&self, bdf: &str) -> bool {
        self.path(bdf).exists()
    }

    /// Returns the PCI addresses of all cards that have a state.
    fn cards(&self) -> Vec<String> {
        let names = sysfs::names(&self.dir).into_iter();
        names
            .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
            .filter(|bdf| PciAddress::parse(bdf).is_some_and(|parsed| parsed.to_string() == *bdf))
            .collect()
    }

    /// Returns the valid state of a card; `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub(crate) fn of(&self, host: &dyn NicHost, bdf: &str) -> io::Result<Option<SavedNic>> {
        let boot_id = boot_id(host.root());
        Ok(self.read(bdf)?.filter(|saved| saved.boot_id == boot_id))
    }

    /// Reads the state of a card; `None` if there is none.
    ///
    /// # Errors
    /// `InvalidData` if the file has no state of this card in a version that this program knows;
    /// otherwise the kernel's error.
    pub(crate) fn read(&self, bdf: &str) -> io::Result<Option<SavedNic>> {
        let path = self.path(bdf);
        let invalid = |why: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return Err(invalid("is a directory".to_owned()));
            }
            Err(error) => return Err(error),
        };
        let saved: SavedNic =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        match saved.version {
            1..=VERSION if saved.bdf == bdf => {
                saved.check().map_err(invalid)?;
                Ok(Some(saved))
            }
            1..=VERSION => Err(invalid(format!("is the state of {}", saved.bdf))),
            version => Err(invalid(format!("has version {version}, not 1 to {VERSION}"))),
        }
    }

    /// Replaces a state that cannot be read, which may be a directory.
    pub(crate) fn write_over_damaged(&self, saved: &SavedNic) -> io::Result<()> {
        let path = self.path(&saved.bdf);
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        }
        self.write(saved)
    }

    /// Replaces the state of a card.
    pub(crate) fn write(&self, saved: &SavedNic) -> io::Result<()> {
        replace(&self.path(&saved.bdf), STATE_PARTIAL, &serde_json::to_vec_pretty(saved)?)
    }

    /// Returns the settings that are saved for a card.
    ///
    /// # Errors
    /// The errors of [`CardSettings::read_saved`], or an untrusted directory.
    pub(crate) fn settings(&self, bdf: &str, period: &TakenPeriod) -> io::Result<CardSettings> {
        match trust::check_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            checked => checked?,
        }
        let saved = CardSettings::read_saved(&self.dir, bdf, period)?;
        Ok(saved.unwrap_or_default())
    }

    /// Saves settings for the next port of a card. If there are no settings, deletes the file.
    pub(crate) fn keep_settings(
        &self,
        bdf: &str,
        settings: &CardSettings,
        period: &TakenPeriod,
    ) -> io::Result<()> {
        let path = self.settings_path(bdf);
        if settings.is_empty() {
            return remove(&path);
        }
        let text = settings.saved_text(period);
        replace(&path, SETTINGS_PARTIAL, text.as_bytes())
    }

    /// Returns the path of a card's settings file, which `vfio:` ports read.
    fn settings_path(&self, bdf: &str) -> PathBuf {
        CardSettings::file_in(&self.dir, bdf)
    }

    /// Deletes the saved state and the settings of a card.
    pub(crate) fn remove(&self, bdf: &str) -> io::Result<()> {
        let settings = self.settings_path(bdf);
        remove(&settings)?;
        let path = self.path(bdf);
        // A process that was killed may have left them.
        remove(&settings.with_extension(SETTINGS_PARTIAL))?;
        remove(&path.with_extension(STATE_PARTIAL))?;
        if path.is_dir() { fs::remove_dir_all(&path) } else { remove(&path) }
    }

    /// Adds a line to the log, for a process without a terminal.
    pub(crate) fn log(&self, line: &str) {
        // If the disk cannot be written, only the log entry is lost.
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

/// Replaces a file as a whole. `partial` is the extension of the file that is written first.
fn replace(path: &Path, partial: &str, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension(partial);
    let replaced = write_whole(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if replaced.is_err() {
        // The first error is returned, so an error here is ignored.
        let _ = fs::remove_file(&partial);
    }
    replaced
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Opens a directory, so that the directory that is checked is also the one that is changed.
fn open_dir(dir: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | flags).bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(dir)
}

/// Returns the error for an existing directory that could not be opened without following links.
fn link(dir: &Path, error: io::Error) -> io::Error {
    let kind = error.kind();
    if kind != io::ErrorKind::NotADirectory {
        return error;
    }
    let dir = dir.display();
    io::Error::new(kind, format!("{dir} is a symbolic link, not a directory; remove it: rm {dir}"))
}

/// Adds permission bits to an open directory that belongs to this user. Does nothing to a directory
/// of another user.
fn permit(dir: &File, bits: u32) -> io::Result<()> {
    let found = dir.metadata()?;
    let mode = found.mode() & 0o7777;
    if found.uid() != geteuid().as_raw() || mode & bits == bits {
        return Ok(());
    }
    dir.set_permissions(Permissions::from_mode(mode | bits))
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
