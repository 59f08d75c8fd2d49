//! The settings that are in force. Flags have precedence over the file.

use std::path::{Path, PathBuf};

use slipring_cli::Diagnostic;
use slipring_fuse::UringMode;

use crate::accounts::Accounts;
use crate::config;
use crate::rules::AccessRules;
use crate::scheduling::SchedulingClass;

/// The group whose members may open the device by default, if the group exists.
const DEVICE_GROUP: &str = "netmap";

/// Settings from a file or from flags. A setting that is not given is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DaemonSettings {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) workers: Option<usize>,
    pub(crate) uring: Option<UringMode>,
    pub(crate) scheduling: Option<SchedulingClass>,
    pub(crate) link: Option<PathBuf>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) domain_bytes: Option<u64>,
    pub(crate) parameters: Vec<(String, i64)>,
    pub(crate) access_rules: AccessRules,
}

/// Where the settings come from. They can be read again.
#[derive(Debug, Clone)]
pub(crate) struct SettingsSources {
    pub(crate) flags: DaemonSettings,
    pub(crate) file: Option<PathBuf>,
    /// Whether the run directory was given by a flag or by the environment.
    pub(crate) run_dir_typed: bool,
}

impl SettingsSources {
    /// Reads the file. Flags have precedence over it. Mode and group, if given neither in the file
    /// nor by flags, get defaults that depend on whether the group `netmap` exists.
    pub(crate) fn read(&self) -> Result<DaemonSettings, Diagnostic> {
        let accounts = Accounts::read();
        let file = self.file.as_ref().map(|path| config::read(path, &accounts)).transpose()?;
        let mut settings = self.flags.or(file.unwrap_or_default());
        let group = accounts.group(DEVICE_GROUP);
        settings.mode = settings.mode.or(Some(if group.is_some() { 0o660 } else { 0o600 }));
        settings.gid = settings.gid.or(group);
        Ok(settings)
    }
}

impl DaemonSettings {
    /// Takes settings that are not given in `self` from `below`. Rules and parameters can be given
    /// only in the file.
    fn or(&self, below: Self) -> Self {
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
            access_rules: AccessRules { flags: self.access_rules.flags, ..below.access_rules },
        }
    }

    /// Returns the number of threads that answer requests.
    pub(crate) fn workers(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        self.workers.unwrap_or(processors.clamp(2, 8))
    }

    /// Returns the path of the symbolic link, outside the run directory, that leads to the device.
    /// By default, it is `/dev/netmap`; `None` means that there must be no such link.
    pub(crate) fn link(&self) -> Option<&Path> {
        let link = self.link.as_deref().unwrap_or(Path::new("/dev/netmap"));
        Some(link).filter(|link| link.as_os_str() != "none")
    }
}
