//! The token with which other machines get access to the gateway.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use slipring_cli::Diagnostic;
use slipring_cli::codes::{SR0002, SR0201};

/// Minimum length of a token in characters. Guessing such a token takes years.
const MIN_TOKEN_CHARS: usize = 16;
/// Maximum length of a token in characters.
const MAX_TOKEN_CHARS: usize = 512;

/// A secret that a client must send.
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    /// Creates a token. It must have 16 to 512 characters, none of which needs quoting in an
    /// address or a cookie.
    ///
    /// # Errors
    /// [`Diagnostic`] if the token is shorter or longer than allowed, or has other characters.
    pub fn new(text: &str) -> Result<Self, Diagnostic> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"-_.~".contains(&c);
        let cause = match text.len() {
            MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS if text.bytes().all(fits) => {
                return Ok(Self(text.to_owned()));
            }
            MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS => {
                "it has other letters than A-Z a-z 0-9 - _ . ~".to_owned()
            }
            length => {
                format!("it has {length} letters, and needs {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS}")
            }
        };
        let error = Diagnostic::new(SR0002, "the token cannot be used").with_cause(cause);
        Err(error.with_help(
            "make one: (umask 077; openssl rand -hex 16 > token); then --token-file token",
        ))
    }

    /// Reads a token from the first line of a file.
    ///
    /// # Errors
    /// [`Diagnostic`] if the file cannot be read, has no valid token, or can be accessed by other
    /// users.
    pub fn read(path: &Path) -> Result<Self, Diagnostic> {
        let unreadable = |error: io::Error| {
            let failed = Diagnostic::new(SR0201, format!("cannot open {}", path.display()));
            let help = format!("check the path: ls -l {}", path.display());
            failed.with_cause(error.to_string()).with_help(help)
        };
        let file = File::open(path).map_err(unreadable)?;
        refuse_shared(path, &file.metadata().map_err(unreadable)?)?;
        let mut text = String::new();
        // The file may be a device. Even then, no more bytes are read than a token can have.
        file.take(MAX_TOKEN_CHARS as u64 + 2).read_to_string(&mut text).map_err(unreadable)?;
        Self::new(text.lines().next().unwrap_or_default().trim())
    }

    /// Returns whether `given` is the token. This takes the same time wherever the first wrong
    /// character is.
    pub(crate) fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0 && own.len() == given.len()
    }

    /// Returns the text for a browser's cookie.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Returns an error for a file that other users may have read or written.
fn refuse_shared(path: &Path, file: &Metadata) -> Result<(), Diagnostic> {
    const GROUP_AND_OTHER_BITS: u32 = 0o077;
    let shown = path.display();
    let own = rustix::process::geteuid().as_raw();
    let (cause, help) = if file.uid() != own && file.uid() != 0 {
        (format!("it belongs to user {}", file.uid()), format!("sudo chown {own} {shown}"))
    } else if file.mode() & GROUP_AND_OTHER_BITS != 0 {
        let cause = format!("others may use it: its mode is {:04o}", file.mode() & 0o7777);
        (cause, format!("chmod 600 {shown}; whoever read it has the token: make another"))
    } else {
        return Ok(());
    };
    let error = Diagnostic::new(SR0002, format!("{shown} is no secret")).with_cause(cause);
    Err(error.with_help(help))
}

/// Prints no part of the token. So no log can contain it.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_file_that_others_may_read_is_refused_with_the_command_that_mends_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o602, 0o620] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = AccessToken::read(&path).unwrap_err().to_text(false);
            assert!(error.contains(&format!("its mode is {mode:04o}")), "{error}");
            assert!(error.contains(&format!("chmod 600 {}", path.display())), "{error}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(AccessToken::read(&path).is_ok());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = AccessToken::new("0123456789abcdef").unwrap();
        assert!(token.matches("0123456789abcdef"));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdefg", "1123456789abcdef"] {
            assert!(!token.matches(wrong), "{wrong}");
        }
    }

    #[test]
    fn weak_and_unfit_tokens_are_refused() {
        for text in ["", "short", "0123456789abcde;", "0123456789abcdé", &"x".repeat(513)] {
            let error = AccessToken::new(text).unwrap_err().to_text(false);
            assert!(error.contains("the token cannot be used"), "{error}");
            assert!(error.contains("openssl rand"), "{error}");
        }
        assert_eq!(format!("{:?}", AccessToken::new(&"x".repeat(16)).unwrap()), "Token");
    }

    #[test]
    fn a_file_has_its_token_in_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "  0123456789abcdef \nmore\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(AccessToken::read(&path).unwrap().matches("0123456789abcdef"));
        assert!(AccessToken::read(Path::new("/dev/zero")).is_err());
        assert!(AccessToken::read(&dir.path().join("none")).is_err());
    }
}
