//! What holds: the flags, and below them the file.

use std::path::{Path, PathBuf};

use slipring_cli::Diagnostic;
use slipring_door::Uring;

use crate::accounts::Accounts;
use crate::config;
use crate::rules::Book;
use crate::scheduling::Scheduling;

/// The group that may open the device, where there is one of this name.
const GROUP: &str = "netmap";

/// What a file or the flags say; `None` where nothing was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) workers: Option<usize>,
    pub(crate) uring: Option<Uring>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) link: Option<PathBuf>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) domain_bytes: Option<u64>,
    pub(crate) parameters: Vec<(String, i64)>,
    pub(crate) book: Book,
}

/// Where settings come from, to read them again.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) flags: Settings,
    pub(crate) file: Option<PathBuf>,
    /// Whether the run directory was chosen by the one who started us.
    pub(crate) run_dir_typed: bool,
}

impl Sources {
    /// Reads the file below the flags, and what nobody said from the machine.
    pub(crate) fn read(&self) -> Result<Settings, Diagnostic> {
        let accounts = Accounts::read();
        let file = self.file.as_ref().map(|path| config::read(path, &accounts)).transpose()?;
        let mut settings = self.flags.over(file.unwrap_or_default());
        let group = accounts.group(GROUP);
        settings.mode = settings.mode.or(Some(if group.is_some() { 0o660 } else { 0o600 }));
        settings.gid = settings.gid.or(group);
        Ok(settings)
    }
}

impl Settings {
    /// These, and what `below` says where these say nothing. Rules and parameters are the file's.
    fn over(&self, below: Self) -> Self {
        Self {
            mode: self.mode.or(below.mode),
            uid: self.uid.or(below.uid),
            gid: self.gid.or(below.gid),
            workers: self.workers.or(below.workers),
            uring: self.uring.or(below.uring),
            scheduling: self.scheduling.or(below.scheduling),
            link: self.link.clone().or(below.link),
            run_dir: self.run_dir.clone().or(below.run_dir),
            domain_bytes: self.domain_bytes.or(below.domain_bytes),
            parameters: below.parameters,
            book: Book { flags: self.book.flags, ..below.book },
        }
    }

    /// Threads that answer.
    pub(crate) fn workers(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        self.workers.unwrap_or(processors.clamp(2, 8))
    }

    /// The link elsewhere, if one is wanted.
    pub(crate) fn link(&self) -> Option<&Path> {
        let link = self.link.as_deref().unwrap_or(Path::new("/dev/netmap"));
        Some(link).filter(|link| link.as_os_str() != "none")
    }
}
