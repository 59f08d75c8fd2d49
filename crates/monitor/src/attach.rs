//! Finds the programs that run, and looks at what they publish.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipring_core::counters::{self, Published, ReadError, Reader, Snapshot};

use slipring_port::{Nanos, now};
use slipring_proto::trust::{self, Untrusted};

use crate::names::Names;

/// Words older than this may be those of a program that rests.
const FRESH: Nanos = 150_000_000;
/// How long newer ones may take.
const PATIENCE: Nanos = 250_000_000;
/// Between two looks whether they are there.
const STEP: Duration = Duration::from_millis(1);

/// Why there is nothing to watch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No program publishes anything.
    #[error("nothing runs that could be watched")]
    NothingRuns {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// More than one does, and none was named.
    #[error("more than one program runs")]
    Several {
        /// All of them.
        running: Vec<Running>,
    },
    /// None has this name.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// The name or process number.
        target: String,
        /// Those that run.
        running: Vec<Running>,
    },
    /// The run directory is not believed.
    #[error("{0}")]
    Untrusted(Untrusted),
    /// Its counters cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// Its counters have names that make no sense.
    #[error("cannot understand {path}", path = path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
}

/// A program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its process number.
    pub pid: u32,
    /// The name that was given to the run.
    pub name: Option<String>,
    /// The whole command line.
    pub line: String,
}

impl std::fmt::Display for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} ({name})", self.pid),
            None => write!(f, "{}", self.pid),
        }
    }
}

/// A program that is watched.
#[derive(Debug)]
pub struct Attached {
    reader: Reader,
    names: Names,
    path: PathBuf,
}

impl Attached {
    /// Attaches to the program of this name or process number; without one, to the only one.
    ///
    /// # Errors
    /// If there is none, or more than one and none was named, its counters are nonsense, or the
    /// directory is not to be trusted.
    pub fn find(dir: &Path, target: Option<&str>) -> Result<Self, AttachError> {
        if let Err(error) = trust::check_dir(dir)
            && let Some(why) = Untrusted::of(&error)
        {
            return Err(AttachError::Untrusted(why.clone()));
        }
        let Some(target) = target else { return Self::only(dir) };
        let pid = target.parse();
        let mut found = published(dir).filter_map(|published| {
            let by_number = Ok(published.pid) == pid;
            let attached = Self::open(&published.path);
            let by_name = || attached.as_ref().is_ok_and(|this| this.is_called(target));
            (by_number || by_name()).then_some(attached)
        });
        found.next().unwrap_or_else(|| {
            let target = target.to_owned();
            Err(AttachError::Unknown { target, running: running(dir) })
        })
    }

    fn only(dir: &Path) -> Result<Self, AttachError> {
        let found: Vec<_> = published(dir).collect();
        match &found[..] {
            [] => Err(AttachError::NothingRuns { dir: dir.to_owned() }),
            [only] => Self::open(&only.path),
            _ => Err(AttachError::Several { running: running(dir) }),
        }
    }

    /// Attaches to the program that publishes this file.
    ///
    /// # Errors
    /// If the file is unreadable or nonsense.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let unreadable = |source| AttachError::Unreadable { path: path.to_owned(), source };
        let reader = Reader::open(path).map_err(unreadable)?;
        let names = Names::read(reader.text(), reader.words());
        let nonsense = |cause| AttachError::Nonsense { path: path.to_owned(), cause };
        Ok(Self { names: names.map_err(nonsense)?, reader, path: path.to_owned() })
    }

    /// What it publishes.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.reader.pid()
    }

    /// When it began to publish, CLOCK_MONOTONIC in ns.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.reader.start_ns()
    }

    /// Whether it lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.reader.is_alive()
    }

    /// Its words of now. A program that nobody looked at has published nothing for long: this
    /// look wakes it, and waits a moment for what it says then.
    ///
    /// # Errors
    /// If the file was cut off, or the program died while it wrote.
    pub fn look(&mut self) -> Result<Snapshot, AttachError> {
        let seen = self.read()?;
        let age_ns = now().saturating_sub(seen.at_ns);
        if age_ns <= FRESH { Ok(seen) } else { self.newer(seen) }
    }

    /// The same, and surely nothing that was there before, unless the program is too slow.
    ///
    /// # Errors
    /// As of [`Self::look`].
    pub fn look_anew(&mut self) -> Result<Snapshot, AttachError> {
        let seen = self.read()?;
        self.newer(seen)
    }

    fn newer(&mut self, mut seen: Snapshot) -> Result<Snapshot, AttachError> {
        let (edition, until) = (seen.edition, now() + PATIENCE);
        while seen.edition == edition && now() < until && self.is_alive() {
            std::thread::sleep(STEP);
            seen = self.read()?;
        }
        Ok(seen)
    }

    fn read(&mut self) -> Result<Snapshot, AttachError> {
        let path = &self.path;
        let unreadable = |source| AttachError::Unreadable { path: path.clone(), source };
        self.reader.read().map_err(unreadable)
    }

    fn is_called(&self, target: &str) -> bool {
        self.names.name.as_deref() == Some(target)
    }
}

/// Every program that publishes in `dir` what can be understood, by process number.
#[must_use]
pub fn running(dir: &Path) -> Vec<Running> {
    let known = |published: Published| {
        let Attached { names, .. } = Attached::open(&published.path).ok()?;
        Some(Running { pid: published.pid, name: names.name, line: names.line })
    };
    published(dir).filter_map(known).collect()
}

fn published(dir: &Path) -> impl Iterator<Item = Published> {
    counters::running(dir).into_iter()
}
