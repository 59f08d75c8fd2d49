//! An ordinary web server and what it serves, for downloads through links.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::namespace::Namespace;
use super::program::Program;

/// Its port.
const PORT: u16 = 8000;

/// A server of one file, until it is dropped.
pub(crate) struct Web {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    url: String,
    _server: Program,
}

impl Web {
    /// Serves `len` bytes at `address` of a namespace; `None`, and a line that says why, where the
    /// programs for that are missing.
    pub(crate) fn serve(namespace: &Namespace, address: &str, len: usize) -> Option<Self> {
        for program in ["python3", "curl"] {
            if Command::new(program).arg("--version").output().is_err() {
                println!("skipped: {program} is not installed");
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

    /// Where the file is to be had.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where a client may put what it got; anyone may write there.
    pub(crate) fn target(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.dir.path().join("got");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        std::fs::set_permissions(self.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Insists that a file has every byte of what was served.
    pub(crate) fn assert_whole(&self, got: &Path) {
        let got = std::fs::read(got).unwrap();
        let first = got.iter().zip(&self.bytes).position(|(got, sent)| got != sent);
        assert_eq!((got.len(), first), (self.bytes.len(), None), "length, and first wrong byte");
    }
}

/// Bytes that repeat nowhere, so that a piece in the wrong place is noticed.
fn content(len: usize) -> Vec<u8> {
    let numbers = (0u64..).flat_map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    numbers.take(len).collect()
}
