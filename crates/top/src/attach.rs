//! Finds running programs, and reads their published counters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipring_core::counters::{
    self, CountersReadError, CountersReader, CountersSnapshot, PublishedCounters,
};

use slipring_native_proto::trust::{self, TrustError};
use slipring_port::{Nanos, now};

use crate::schema::MetricSchema;

/// If a program's counters are older than this, in ns, its publisher may be asleep.
const FRESH_FOR_NS: Nanos = 150_000_000;
/// Maximum time to wait for newer counters.
const PUBLISH_TIMEOUT_NS: Nanos = 250_000_000;
/// Time between two checks for newer counters.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Why no program can be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No program publishes counters.
    #[error("nothing runs that could be watched")]
    NothingRuns {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// There are several programs, and neither a name nor a process id was given.
    #[error("more than one program runs")]
    Several {
        /// The running programs.
        running: Vec<TopProgram>,
    },
    /// No program has this name or process id.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// The name or process id.
        target: String,
        /// The running programs.
        running: Vec<TopProgram>,
    },
    /// The run directory is not trusted.
    #[error("{0}")]
    Untrusted(TrustError),
    /// The program's counters cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// Path of the file with the counters.
        path: PathBuf,
        /// Why the file cannot be read.
        #[source]
        source: CountersReadError,
    },
    /// The program's counters have an invalid schema.
    #[error("cannot understand {path}", path = path.display())]
    Nonsense {
        /// Path of the file with the counters.
        path: PathBuf,
        /// What is wrong with the schema.
        cause: String,
    },
}

/// A running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopProgram {
    /// The program's process id.
    pub pid: u32,
    /// The name given to the run; `None` if it has none.
    pub name: Option<String>,
    /// The whole command line.
    pub line: String,
}

impl std::fmt::Display for TopProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} ({name})", self.pid),
            None => write!(f, "{}", self.pid),
        }
    }
}

/// A program that is being watched.
#[derive(Debug)]
pub struct AttachedProgram {
    reader: CountersReader,
    schema: MetricSchema,
    path: PathBuf,
}

impl AttachedProgram {
    /// Attaches to the program with this name or process id; without a target, to the only program.
    ///
    /// # Errors
    /// [`AttachError`] if the directory is not trusted, nothing runs, several programs run and no
    /// target was given, no program has this name or process id, or the program's counters are
    /// unreadable or invalid.
    pub fn find(dir: &Path, target: Option<&str>) -> Result<Self, AttachError> {
        if let Err(error) = trust::check_dir(dir)
            && let Some(why) = TrustError::of(&error)
        {
            return Err(AttachError::Untrusted(why.clone()));
        }
        let Some(target) = target else { return Self::only(dir) };
        let pid = target.parse();
        let mut found = published(dir).filter_map(|published| {
            let by_number = Ok(published.pid) == pid;
            let attached = Self::open(&published.path);
            let by_name = || attached.as_ref().is_ok_and(|this| this.matches_target(target));
            (by_number || by_name()).then_some(attached)
        });
        found.next().unwrap_or_else(|| {
            let target = target.to_owned();
            Err(AttachError::Unknown { target, running: programs(dir) })
        })
    }

    fn only(dir: &Path) -> Result<Self, AttachError> {
        let found: Vec<_> = published(dir).collect();
        match &found[..] {
            [] => Err(AttachError::NothingRuns { dir: dir.to_owned() }),
            [only] => Self::open(&only.path),
            _ => Err(AttachError::Several { running: programs(dir) }),
        }
    }

    /// Attaches to the program that publishes this file.
    ///
    /// # Errors
    /// [`AttachError`] if the file is unreadable or invalid.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let unreadable = |source| AttachError::Unreadable { path: path.to_owned(), source };
        let reader = CountersReader::open(path).map_err(unreadable)?;
        let names = MetricSchema::read(reader.text(), reader.words());
        let nonsense = |cause| AttachError::Nonsense { path: path.to_owned(), cause };
        Ok(Self { schema: names.map_err(nonsense)?, reader, path: path.to_owned() })
    }

    /// Returns the schema of the program's counters.
    #[must_use]
    pub fn schema(&self) -> &MetricSchema {
        &self.schema
    }

    /// Returns the program's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.reader.pid()
    }

    /// Returns when the program began to publish, CLOCK_MONOTONIC in ns.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.reader.start_ns()
    }

    /// Returns whether the program is alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.reader.is_alive()
    }

    /// Returns the current values of the program's counters. If no process has read them for a
    /// while, the last published values are old. Then this call wakes the program's publisher, and
    /// waits briefly for new values.
    ///
    /// # Errors
    /// [`AttachError`] if the file was truncated, or the program died while it wrote.
    pub fn snapshot(&mut self) -> Result<CountersSnapshot, AttachError> {
        let seen = self.read()?;
        let age_ns = now().saturating_sub(seen.at_ns);
        if age_ns <= FRESH_FOR_NS { Ok(seen) } else { self.newer(seen) }
    }

    /// Like [`Self::snapshot`], but always waits for newer values than those already published,
    /// unless the program takes too long or has ended.
    ///
    /// # Errors
    /// Same as for [`Self::snapshot`].
    pub fn fresh_snapshot(&mut self) -> Result<CountersSnapshot, AttachError> {
        let seen = self.read()?;
        self.newer(seen)
    }

    fn newer(&mut self, mut seen: CountersSnapshot) -> Result<CountersSnapshot, AttachError> {
        let (sequence, until) = (seen.sequence, now() + PUBLISH_TIMEOUT_NS);
        while seen.sequence == sequence && now() < until && self.is_alive() {
            std::thread::sleep(POLL_INTERVAL);
            seen = self.read()?;
        }
        Ok(seen)
    }

    fn read(&mut self) -> Result<CountersSnapshot, AttachError> {
        let path = &self.path;
        let unreadable = |source| AttachError::Unreadable { path: path.clone(), source };
        self.reader.read().map_err(unreadable)
    }

    fn matches_target(&self, target: &str) -> bool {
        self.schema.name.as_deref() == Some(target)
    }
}

/// Returns every program that publishes valid counters in `dir`, in the order of process ids.
#[must_use]
pub fn programs(dir: &Path) -> Vec<TopProgram> {
    let known = |published: PublishedCounters| {
        let AttachedProgram { schema: names, .. } = AttachedProgram::open(&published.path).ok()?;
        Some(TopProgram { pid: published.pid, name: names.name, line: names.line })
    };
    published(dir).filter_map(known).collect()
}

fn published(dir: &Path) -> impl Iterator<Item = PublishedCounters> {
    counters::running(dir).into_iter()
}
