//! Why the kernel refused a map or a program.

use std::io;

/// An error of bpf(2) during the creation of an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The call failed.
    #[error("{what}: {source}")]
    System {
        /// The attempted operation, such as "create a BPF map".
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The verifier refused the program.
    #[error("{what}: {source}: {}", last_lines(log))]
    Rejected {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
        /// The verifier's log, complete up to one MiB.
        log: String,
    },
}

impl BpfError {
    /// The attempted operation.
    #[must_use]
    pub fn what(&self) -> &'static str {
        match self {
            Self::System { what, .. } | Self::Rejected { what, .. } => what,
        }
    }

    /// The kernel's error number.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } | Self::Rejected { source, .. } => source.raw_os_error(),
        }
    }

    /// Converts to an I/O error. If the verifier refused the program, the I/O error contains the
    /// verifier's explanation but no error number.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::System { source, .. } => source,
            Self::Rejected { source, log, .. } => {
                io::Error::new(source.kind(), format!("{source}: {}", last_lines(&log)))
            }
        }
    }
}

/// The end of a log, where the verifier explains the problem; the statistics that follow are
/// omitted.
fn last_lines(log: &str) -> String {
    const SHOWN_LINES: usize = 3;
    let lines = log.lines().filter(|line| !line.is_empty() && !line.starts_with("processed "));
    let lines: Vec<_> = lines.collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_quotes_the_end_of_the_verifier_s_log() {
        let log = "a\nb\nR0 !read_ok\nd\nprocessed 1 insns (limit 1000000)\n\n".to_owned();
        let source = io::Error::from_raw_os_error(libc::EACCES);
        let error = BpfError::Rejected { what: "load a BPF program", source, log };
        let text = "load a BPF program: Permission denied (os error 13): b; R0 !read_ok; d";
        assert_eq!(error.to_string(), text);
        assert_eq!((error.what(), error.raw_os_error()), ("load a BPF program", Some(13)));
        assert_eq!(error.into_io().to_string(), text["load a BPF program: ".len()..]);
    }
}
