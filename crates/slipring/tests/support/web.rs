//! A simple web server and its file, for downloads through links.

use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_test_support::{Namespace, Program, skip};

/// TCP port of the server.
const PORT: u16 = 8000;

/// A server of one file, which stops on drop.
pub(crate) struct Web {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    url: String,
    _server: Program,
}

impl Web {
    /// Serves `len` bytes at `address` of a namespace; returns `None`, and prints why, if a needed
    /// program is missing.
    pub(crate) fn serve(namespace: &Namespace, address: &str, len: usize) -> Option<Self> {
        for program in ["python3", "curl"] {
            if Command::new(program).arg("--version").output().is_err() {
                skip!("{program} is not installed");
                return None;
            }
        }
        let (dir, bytes) = (tempfile::tempdir().unwrap(), content(len));
        std::fs::write(dir.path().join("file"), &bytes).unwrap();
        let words = format!("-u -m http.server {PORT} --bind {address} --directory");
        let mut words: Vec<_> = words.split(' ').collect();
        words.push(dir.path().to_str().unwrap());
        let server = Program::start_with(namespace, "python3", &words);
        server.wait_for_text("Serving HTTP");
        let url = format!("http://{address}:{PORT}/file");
        Some(Self { dir, bytes, url, _server: server })
    }

    /// Returns the URL of the file.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Creates a file for a client's download, writable by every user; returns its path.
    pub(crate) fn target(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.dir.path().join("got");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        std::fs::set_permissions(self.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Asserts that a file equals the served file.
    pub(crate) fn assert_whole(&self, got: &Path) {
        let got = std::fs::read(got).unwrap();
        let first = got.iter().zip(&self.bytes).position(|(got, sent)| got != sent);
        assert_eq!((got.len(), first), (self.bytes.len(), None), "length, and first wrong byte");
    }
}

/// Returns bytes whose groups of 8 all differ, so that misplaced parts are noticed.
fn content(len: usize) -> Vec<u8> {
    let numbers = (0u64..).flat_map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    numbers.take(len).collect()
}
