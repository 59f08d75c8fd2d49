//! The token that opens the gateway to other machines.

use std::fmt;
use std::io::Read;
use std::path::Path;

use slipring_cli::Diagnostic;
use slipring_cli::codes::{SR0002, SR0201};

/// Letters of a token at least: one that is guessed in years, not in minutes.
const LEAST: usize = 16;
/// Letters of a token at most.
const MOST: usize = 512;

/// A secret that a client must know.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token of 16 to 512 letters that need no quoting in an address or a cookie.
    ///
    /// # Errors
    /// If it is shorter, longer, or has other letters.
    pub fn new(text: &str) -> Result<Self, Diagnostic> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"-_.~".contains(&c);
        let cause = match text.len() {
            LEAST..=MOST if text.bytes().all(fits) => return Ok(Self(text.to_owned())),
            LEAST..=MOST => "it has other letters than A-Z a-z 0-9 - _ . ~".to_owned(),
            length => format!("it has {length} letters, and needs {LEAST} to {MOST}"),
        };
        let error = Diagnostic::new(SR0002, "the token cannot be used").with_cause(cause);
        Err(error.with_help("make one: openssl rand -hex 16 > token; then --token-file token"))
    }

    /// Reads a token from the first line of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has no token.
    pub fn read(path: &Path) -> Result<Self, Diagnostic> {
        let mut text = String::new();
        let file = std::fs::File::open(path);
        // Whatever the file is, no more of it is looked at than a token may have.
        let read = file.and_then(|file| file.take(MOST as u64 + 2).read_to_string(&mut text));
        read.map_err(|error| {
            let failed = Diagnostic::new(SR0201, format!("cannot open {}", path.display()));
            let help = format!("check the path: ls -l {}", path.display());
            failed.with_cause(error.to_string()).with_help(help)
        })?;
        Self::new(text.lines().next().unwrap_or_default().trim())
    }

    /// Whether this is the token. Takes as long for a wrong letter at the end as for one at the
    /// start.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0 && own.len() == given.len()
    }

    /// What a browser keeps.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Nothing of it, so that no log has it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdefg", "1123456789abcdef"] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn weak_and_unfit_tokens_are_refused() {
        for text in ["", "short", "0123456789abcde;", "0123456789abcdé", &"x".repeat(513)] {
            let error = Token::new(text).unwrap_err().to_text(false);
            assert!(error.contains("the token cannot be used"), "{error}");
            assert!(error.contains("openssl rand"), "{error}");
        }
        assert_eq!(format!("{:?}", Token::new(&"x".repeat(16)).unwrap()), "Token");
    }

    #[test]
    fn a_file_has_its_token_in_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "  0123456789abcdef \nmore\n").unwrap();
        assert!(Token::read(&path).unwrap().is("0123456789abcdef"));
        assert!(Token::read(Path::new("/dev/zero")).is_err());
        assert!(Token::read(&dir.path().join("none")).is_err());
    }
}
