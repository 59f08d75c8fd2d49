//! Golden files, which contain expected texts. They are in the directories of the tests.
//!
//! `SLIPRING_BLESS=1 cargo test …` writes the files. Review the diff before you commit it.

use std::fs;
use std::path::Path;

/// The environment variable that makes tests write the golden files.
const BLESS: &str = "SLIPRING_BLESS";

/// Returns whether golden files must be written instead of compared.
#[must_use]
pub fn is_blessing() -> bool {
    std::env::var_os(BLESS).is_some()
}

/// Compares a text with a file. If [`is_blessing`], writes the file instead. Callers build the name
/// of the file with `env!("CARGO_MANIFEST_DIR")`.
///
/// # Panics
/// If the texts differ; the message contains the first line that differs. Also if the file cannot
/// be read or written.
#[track_caller]
pub fn check(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    if is_blessing() {
        fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let wanted = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}; {BLESS}=1 writes it", path.display());
    });
    if let Some(difference) = difference(text, &wanted) {
        panic!(
            "{}, {difference}\n{BLESS}=1 writes the file; all of the text:\n{text}",
            path.display()
        );
    }
}

/// Describes the first line in which `text` differs from `wanted`; `None` if they are equal.
fn difference(text: &str, wanted: &str) -> Option<String> {
    if text == wanted {
        return None;
    }
    let (mut got, mut want) = (text.lines(), wanted.lines());
    for number in 1.. {
        let pair = (got.next(), want.next());
        let of = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
        match pair {
            (None, None) => break,
            (got, want) if got != want => {
                return Some(format!(
                    "line {number}\n  got:    {}\n  wanted: {}",
                    of(got),
                    of(want)
                ));
            }
            _ => {}
        }
    }
    Some("the end of the last line, or an end of a line, differs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let diff = difference("a\nb\nc\n", "a\nx\nc\n").unwrap();
        assert_eq!(diff, "line 2\n  got:    b\n  wanted: x");
        assert!(difference("a\n", "a\nb\n").unwrap().contains("got:    (the end)"));
        assert!(difference("a", "a\n").unwrap().contains("end of the last line"));
        assert!(difference("a\r\n", "a\n").is_some());
    }

    #[test]
    fn a_file_that_differs_or_is_missing_fails_and_an_equal_one_does_not() {
        if is_blessing() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("golden.txt");
        let fails = |text: &str| std::panic::catch_unwind(|| check(&path, text)).is_err();
        assert!(fails("one\n"));
        fs::write(&path, "one\n").unwrap();
        assert!(!fails("one\n"));
        assert!(fails("two\n"));
    }
}
