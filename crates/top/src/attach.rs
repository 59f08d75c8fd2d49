//! Finds the programs that run, and looks at what they publish.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipring_core::counters::{
    self, CountersReadError, CountersReader, CountersSnapshot, PublishedCounters,
};

use slipring_native_proto::trust::{self, TrustError};
use slipring_port::{Nanos, now};

use crate::schema::MetricSchema;

/// Words older than this may be those of a program that rests.
const FRESH_FOR_NS: Nanos = 150_000_000;
/// How long newer ones may take.
const PUBLISH_TIMEOUT_NS: Nanos = 250_000_000;
/// Between two looks whether they are there.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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
        running: Vec<TopProgram>,
    },
    /// None has this name.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// The name or process number.
        target: String,
        /// Those that run.
        running: Vec<TopProgram>,
    },
    /// The run directory is not believed.
    #[error("{0}")]
    Untrusted(TrustError),
    /// Its counters cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: CountersReadError,
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
pub struct TopProgram {
    /// Its process number.
    pub pid: u32,
    /// The name that was given to the run.
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

/// A program that is watched.
#[derive(Debug)]
pub struct AttachedProgram {
    reader: CountersReader,
    schema: MetricSchema,
    path: PathBuf,
}

impl AttachedProgram {
    /// Attaches to the program of this name or process number; without one, to the only one.
    ///
    /// # Errors
    /// If there is none, or more than one and none was named, its counters are nonsense, or the
    /// directory is not to be trusted.
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
    /// If the file is unreadable or nonsense.
    pub fn open(path: &Path) -> Result<Self, AttachError> {
        let unreadable = |source| AttachError::Unreadable { path: path.to_owned(), source };
        let reader = CountersReader::open(path).map_err(unreadable)?;
        let names = MetricSchema::read(reader.text(), reader.words());
        let nonsense = |cause| AttachError::Nonsense { path: path.to_owned(), cause };
        Ok(Self { schema: names.map_err(nonsense)?, reader, path: path.to_owned() })
    }

    /// What it publishes.
    #[must_use]
    pub fn schema(&self) -> &MetricSchema {
        &self.schema
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
    pub fn snapshot(&mut self) -> Result<CountersSnapshot, AttachError> {
        let seen = self.read()?;
        let age_ns = now().saturating_sub(seen.at_ns);
        if age_ns <= FRESH_FOR_NS { Ok(seen) } else { self.newer(seen) }
    }

    /// The same, and surely nothing that was there before, unless the program is too slow.
    ///
    /// # Errors
    /// As of [`Self::look`].
    pub fn fresh_snapshot(&mut self) -> Result<CountersSnapshot, AttachError> {
        let seen = self.read()?;
        self.newer(seen)
    }

    fn newer(&mut self, mut seen: CountersSnapshot) -> Result<CountersSnapshot, AttachError> {
        let (edition, until) = (seen.edition, now() + PUBLISH_TIMEOUT_NS);
        while seen.edition == edition && now() < until && self.is_alive() {
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

/// Every program that publishes in `dir` what can be understood, by process number.
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
