//! Checks the files of one run against each other. A file that is read must not be written. A file
//! that is written must have only one writer.
//!
//! A file is identified by its device and inode number. So links, and other spellings of its path,
//! are recognised. A new file is identified by its directory and name. Devices such as `/dev/null`
//! may be used any number of times.
//!
//! The checks are made before anything is created. They do not cover files that other programs
//! write at the same time.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use slipring_cli::codes::{SR0003, SR0206};
use slipring_cli::{Diagnostic, Failure};

/// The identity of a file, which does not depend on the spelling of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileIdentity {
    Known { device: u64, number: u64 },
    New(PathBuf),
}

/// A file that a run reads or writes, with the path as the user wrote it.
#[derive(Debug, Clone)]
pub struct RunFile {
    path: PathBuf,
    identity: Option<FileIdentity>,
    is_written: bool,
}

impl RunFile {
    /// A file that is read. `-` stands for standard input.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        Self::with_stream(path, "/dev/stdin", false)
    }

    /// A file that is written. `-` stands for standard output.
    #[must_use]
    pub fn written(path: &Path) -> Self {
        Self::with_stream(path, "/dev/stdout", true)
    }

    /// Returns whether the run writes the file.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// Returns the path as the user wrote it.
    #[must_use]
    pub fn display_path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn with_stream(path: &Path, stream: &str, is_written: bool) -> Self {
        let target = if path == Path::new("-") { Path::new(stream) } else { path };
        Self { path: path.to_owned(), identity: FileIdentity::at(target), is_written }
    }
}

impl FileIdentity {
    /// Returns the identity of the file at `path`; `None` for devices and sockets, and if the file
    /// cannot be examined. In the last case, opening the file later reports the error.
    fn at(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(file) if file.is_file() || file.file_type().is_fifo() => {
                Some(Self::Known { device: file.dev(), number: file.ino() })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
                Some(Self::New(directory.join(path.file_name()?)))
            }
            _ => None,
        }
    }
}

/// Checks that the run does not overwrite its own input, and writes no file twice.
///
/// # Errors
/// [`Failure`] with the first file that violates this.
pub fn check_distinct(files: &[RunFile]) -> Result<(), Failure> {
    for (at, later) in files.iter().enumerate() {
        let same = |former: &&RunFile| {
            (former.is_written || later.is_written)
                && later.identity.is_some()
                && former.identity == later.identity
        };
        if let Some(former) = files[..at].iter().find(same) {
            return Err(overlap_failure(former, later));
        }
    }
    Ok(())
}

/// Checks that no existing capture would be overwritten. Must be called unless the user allows
/// overwriting.
///
/// # Errors
/// [`Failure`] with the first existing capture that would be overwritten.
pub fn check_overwrite(files: &[RunFile]) -> Result<(), Failure> {
    let exists = |named: &&RunFile| {
        named.is_written && fs::metadata(&named.path).is_ok_and(|file| file.is_file())
    };
    let Some(RunFile { path, .. }) = files.iter().find(exists) else { return Ok(()) };
    let path = path.display();
    let error =
        Diagnostic::new(SR0206, format!("{path} exists, and frames are to be written to it"));
    let error =
        error.with_cause("it would be written from its start, and what it holds would be lost");
    Err(error.with_help("add --overwrite, or name a capture that does not exist").into())
}

/// Returns whether output to a path goes to stdout. Reports also go there.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    let stdout = || FileIdentity::at(Path::new("/dev/stdout"));
    NAMES.iter().any(|name| path == Path::new(name))
        || FileIdentity::at(path).is_some_and(|file| Some(file) == stdout())
}

fn overlap_failure(former: &RunFile, later: &RunFile) -> Failure {
    let what = match former.is_written && later.is_written {
        true => "two outputs would be written to",
        false => "the output would overwrite what is read:",
    };
    let summary = format!("{what} `{}`", later.path.display());
    let error = Diagnostic::new(SR0003, summary);
    let cause = match (former.path != later.path, later.is_written && former.is_written) {
        (true, _) => {
            format!("`{}` and `{}` are one file", former.path.display(), later.path.display())
        }
        (false, true) => "each would write over the other".to_owned(),
        (false, false) => "it would be empty before it is read".to_owned(),
    };
    let error = error.with_cause(cause);
    error.with_help("give each output a file of its own").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[RunFile]) -> String {
        match check_distinct(files) {
            Err(Failure::Error(error)) => error.to_string(),
            Err(Failure::ReaderLeft) => panic!("nothing is written"),
            Ok(()) => String::new(),
        }
    }

    #[test]
    fn one_file_is_known_by_every_name_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let [a, hard, soft] = ["a", "hard", "soft"].map(|name| dir.path().join(name));
        fs::write(&a, "x").unwrap();
        fs::hard_link(&a, &hard).unwrap();
        std::os::unix::fs::symlink(&a, &soft).unwrap();
        let dotted = dir.path().join("./a");
        for other in [&a, &hard, &soft, &dotted] {
            let text = told(&[RunFile::read(&a), RunFile::written(other)]);
            assert!(text.contains("would overwrite what is read"), "{other:?}: {text}");
        }
        assert_eq!(told(&[RunFile::read(&a), RunFile::read(&hard)]), "");
    }

    #[test]
    fn standard_output_is_known_by_every_name_it_has() {
        for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(is_stdout(Path::new(name)), "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_stdout(&dir.path().join("new")));
        assert!(!is_stdout(Path::new("/dev/full")));
    }

    #[test]
    fn a_capture_that_exists_is_written_only_where_that_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "frames").unwrap();
        let Err(Failure::Error(error)) =
            check_overwrite(&[RunFile::written(&new), RunFile::written(&old)])
        else {
            panic!("it exists");
        };
        let text = error.to_text(false);
        assert!(text.contains("SR0206") && text.contains("old exists"), "{text}");
        assert!(text.contains("--overwrite"), "{text}");
        let null = RunFile::written(Path::new("/dev/null"));
        assert!(check_overwrite(&[RunFile::written(&new), RunFile::read(&old), null]).is_ok());
    }

    #[test]
    fn a_file_that_is_not_there_yet_has_one_writer_and_a_device_any_number() {
        let dir = tempfile::tempdir().unwrap();
        let (new, dotted) = (dir.path().join("new"), dir.path().join("./new"));
        let text = told(&[RunFile::written(&new), RunFile::written(&dotted)]);
        assert!(text.contains("two outputs would be written to"), "{text}");
        assert_eq!(
            told(&[RunFile::written(&new), RunFile::written(&dir.path().join("other"))]),
            ""
        );
        let null = Path::new("/dev/null");
        assert_eq!(
            told(&[RunFile::written(null), RunFile::written(null), RunFile::read(null)]),
            ""
        );
    }
}
