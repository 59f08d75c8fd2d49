//! The four-part error: what failed, why, what to try next, and a note.
//!
//! ```text
//! error[SR0107]: cannot open xdp:eth3, queue 0
//!   cause: bind: EBUSY, the queue belongs to pid 4121 (suricata)
//!    help: take a free queue: xdp:eth3-1        (free: 1 to 7)
//!    note: traffic is spread over all 8 queues; see `slipring explain SR0107`
//! ```
//!
//! Libraries keep their own error types; [`Diagnose`] gives them a code and words here. Errors go
//! to stderr, as one JSON object if the command reports in JSON.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::codes::{ErrorCode, SR0201, SR0204};
use crate::{Exit, SCHEMA_VERSION};

/// An error that can be explained to the person who typed the command.
pub trait Diagnose {
    /// The stable code.
    fn code(&self) -> ErrorCode;

    /// What failed, in one line, with the names involved.
    fn summary(&self) -> String;

    /// The cause: the system's error, the position in the input, or the process that conflicts.
    fn cause(&self) -> Option<String> {
        None
    }

    /// The one thing to try next, as a command if possible.
    fn help(&self) -> Option<String> {
        None
    }

    /// Further information that helps to understand the error.
    fn note(&self) -> Option<String> {
        None
    }

    /// The exit status; for a classic name, it may be mapped to the status of the old program.
    fn exit(&self) -> Exit {
        self.code().exit()
    }
}

/// An error with its code and texts, ready to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    code: ErrorCode,
    exit: Exit,
    /// The exit status that the JSON form shows; `None` if it is that of the field `exit`.
    status: Option<u8>,
    summary: String,
    cause: Option<String>,
    help: Option<String>,
    note: Option<String>,
}

impl Diagnostic {
    /// Creates a diagnostic for an error without a type of its own. It has no cause, help or note
    /// yet.
    #[must_use]
    pub fn new(code: ErrorCode, summary: impl Into<String>) -> Self {
        Self {
            code,
            exit: code.exit(),
            status: None,
            summary: summary.into(),
            cause: None,
            help: None,
            note: None,
        }
    }

    /// Creates the diagnostic for a file that cannot be opened for reading.
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        let unopened = Self::new(SR0201, format!("cannot open {path}"));
        unopened
            .with_cause(error.to_string())
            .with_help(format!("see whether it is there and open to you: ls -ld {path}"))
    }

    /// Creates the diagnostic for a file that cannot be created or overwritten.
    #[must_use]
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).display();
        let unmade = Self::new(SR0201, format!("cannot write {}", path.display()));
        unmade
            .with_cause(error.to_string())
            .with_help(format!("see whether its directory is there and open to you: ls -ld {dir}"))
    }

    /// Converts a library's error to a diagnostic.
    #[must_use]
    pub fn of(error: &(impl Diagnose + ?Sized)) -> Self {
        Self {
            code: error.code(),
            exit: error.exit(),
            status: None,
            summary: error.summary(),
            cause: error.cause(),
            help: error.help(),
            note: error.note(),
        }
    }

    /// Sets the exit status that the JSON form shows, for a program that has statuses of its own.
    /// The program also sets [`crate::Session::status`].
    #[must_use]
    pub const fn with_status(mut self, status: u8) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Sets what to try next.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the note, which has further information.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Returns the text for a terminal, with colours if `coloured`, with a final newline.
    #[must_use]
    pub fn to_text(&self, coloured: bool) -> String {
        let paint = TextStyle { coloured };
        let head = format!("error[{}]", self.code);
        let mut text = format!("{}: {}\n", paint.red(&head), self.summary);
        let note = self.note_with_pointer();
        let parts = [("cause", &self.cause), ("help", &self.help), ("note", &Some(note))];
        for (label, part) in parts {
            if let Some(part) = part {
                let label = paint.bold(&format!("{label:>7}:"));
                text.push_str(&format!("{label} {}\n", indent_continuation(part)));
            }
        }
        text
    }

    /// Returns the diagnostic as one JSON object, without keys for absent parts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "schema": SCHEMA_VERSION,
            "event": "error",
            "code": self.code.to_string(),
            "exit": self.status.unwrap_or_else(|| self.exit.status()),
            "summary": self.summary,
        });
        let parts = [("cause", &self.cause), ("help", &self.help), ("note", &self.note)];
        for (key, part) in parts {
            if let Some(part) = part {
                object[key] = json!(part);
            }
        }
        object
    }

    fn note_with_pointer(&self) -> String {
        let pointer = format!("see `slipring explain {}`", self.code);
        match &self.note {
            Some(note) => format!("{note}; {pointer}"),
            None => pointer,
        }
    }
}

impl Diagnose for Diagnostic {
    fn code(&self) -> ErrorCode {
        self.code
    }

    fn summary(&self) -> String {
        self.summary.clone()
    }

    fn cause(&self) -> Option<String> {
        self.cause.clone()
    }

    fn help(&self) -> Option<String> {
        self.help.clone()
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }

    fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_text(false).trim_end())
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// The command failed; the diagnostic explains why.
    Error(Box<Diagnostic>),
    /// The reader of the output closed the pipe, as `head` does. This counts as success.
    ReaderLeft,
}

impl<E: Diagnose> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(Box::new(Diagnostic::of(&error)))
    }
}

/// Converts errors of writes to the standard streams. Other I/O errors need their own diagnostics.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderLeft;
        }
        Diagnostic::new(SR0204, "cannot write the output").with_cause(error.to_string()).into()
    }
}

/// Indents every line of `part` except the first, so that it starts in the column after the label.
fn indent_continuation(part: &str) -> String {
    part.replace('\n', "\n         ")
}

struct TextStyle {
    coloured: bool,
}

impl TextStyle {
    fn red(&self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(&self, style: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{SR0107, SR0401};

    fn busy() -> Diagnostic {
        Diagnostic::new(SR0107, "cannot open xdp:eth3, queue 0")
            .with_cause("bind: EBUSY, the queue belongs to pid 4121 (suricata)")
            .with_help("take a free queue: xdp:eth3-1        (free: 1 to 7)")
            .with_note("traffic is spread over all 8 queues")
    }

    #[test]
    fn the_four_parts_are_aligned_and_point_to_explain() {
        assert_eq!(
            busy().to_text(false),
            "error[SR0107]: cannot open xdp:eth3, queue 0\n\
             \x20 cause: bind: EBUSY, the queue belongs to pid 4121 (suricata)\n\
             \x20  help: take a free queue: xdp:eth3-1        (free: 1 to 7)\n\
             \x20  note: traffic is spread over all 8 queues; see `slipring explain SR0107`\n"
        );
    }

    #[test]
    fn files_that_cannot_be_opened_are_told_with_where_to_look() {
        let missing = io::Error::from_raw_os_error(2);
        let help = |error: Diagnostic| error.to_json()["help"].as_str().unwrap().to_owned();
        let read = help(Diagnostic::unreadable(Path::new("a/in"), &missing));
        assert!(read.ends_with(": ls -ld a/in"), "{read}");
        for (path, dir) in [("a/out", "a"), ("out", "."), ("/out", "/")] {
            let written = help(Diagnostic::unwritable(Path::new(path), &missing));
            assert!(written.ends_with(&format!(": ls -ld {dir}")), "{written}");
        }
    }

    #[test]
    fn absent_parts_leave_no_line_but_the_pointer_stays() {
        assert_eq!(
            Diagnostic::new(SR0401, "eth0 vanished").to_text(false),
            "error[SR0401]: eth0 vanished\n   note: see `slipring explain SR0401`\n"
        );
    }

    #[test]
    fn a_second_line_of_a_part_hangs_under_its_first() {
        let text = busy().with_help("one\ntwo").to_text(false);
        assert!(text.contains("   help: one\n         two\n"), "{text}");
    }

    #[test]
    fn colour_only_adds_escapes() {
        let coloured = busy().to_text(true);
        assert!(coloured.starts_with("\x1b[1;31merror[SR0107]\x1b[0m: "));
        let plain =
            coloured.replace("\x1b[1;31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert_eq!(plain, busy().to_text(false));
    }

    #[test]
    fn json_has_the_same_parts_and_the_exit_status() {
        let object = busy().to_json();
        assert_eq!(object["code"], "SR0107");
        assert_eq!(object["exit"], 3);
        assert_eq!(object["note"], "traffic is spread over all 8 queues");
        let bare = Diagnostic::new(SR0401, "eth0 vanished").to_json();
        assert!(bare.get("cause").is_none());
    }

    #[test]
    fn a_broken_pipe_is_no_error_but_a_full_disk_is() {
        let failure = |kind| Failure::from(io::Error::from(kind));
        assert!(matches!(failure(io::ErrorKind::BrokenPipe), Failure::ReaderLeft));
        assert!(matches!(
            failure(io::ErrorKind::StorageFull),
            Failure::Error(error) if error.code() == SR0204
        ));
    }
}
