//! The files of a run that the helper moves and removes, for a program that has become another user
//! and therefore cannot.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::geteuid;
use slipring_native_proto::run_names;

/// The files of a run. Requests name none of them: the program fixes them before it reads its first
/// frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFiles {
    /// The run directory, with the program's control socket and counters.
    pub dir: PathBuf,
    /// The name that the run takes over when it is requested.
    pub name: Option<String>,
    /// Files elsewhere, such as a file with the process ID.
    pub others: Vec<PathBuf>,
}

impl RunFiles {
    /// Whether the run directory belongs to another user.
    pub(crate) fn is_foreign(&self) -> bool {
        let owner = fs::metadata(&self.dir).map(|found| found.uid());
        owner.is_ok_and(|owner| owner != geteuid().as_raw())
    }

    /// Gives the run its name.
    pub(crate) fn take_name(&self, program: u32) -> io::Result<()> {
        let name = self.name.as_deref().ok_or(io::ErrorKind::InvalidInput)?;
        run_names::take_name(&self.dir, program, name)
    }

    /// Removes the files. It does not matter if some no longer exist.
    pub(crate) fn remove(&self, program: u32) {
        run_names::remove_socket(&self.dir, program);
        for file in [self.dir.join(format!("{program}.stats"))].iter().chain(&self.others) {
            let _ = fs::remove_file(file);
        }
    }

    /// Returns the files as arguments; `None` if a path is not text.
    pub(crate) fn to_args(&self) -> Option<Vec<String>> {
        let name = self.name.clone().unwrap_or_default();
        let paths = [&self.dir].into_iter().chain(&self.others);
        let mut args =
            paths.map(|path| path.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
        args.insert(1, name);
        Some(args)
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
        let [dir, name, others @ ..] = args else { return None };
        Some(Self {
            dir: dir.into(),
            name: Some(name.clone()).filter(|name| !name.is_empty()),
            others: others.iter().map(PathBuf::from).collect(),
        })
    }
}
