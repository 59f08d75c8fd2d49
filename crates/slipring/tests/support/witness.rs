//! tcpdump on an interface, which shows the frames as an unmodified program sees them.

use std::path::PathBuf;

use rustix::process::Signal;
use slipring_port::capture::FileReader;
use slipring_test_support::frames::is_numbered;
use slipring_test_support::{Namespace, Program, eventually};

/// A tcpdump that writes a file.
pub(crate) struct CaptureProbe {
    program: Option<Program>,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl CaptureProbe {
    /// Starts tcpdump, and waits until it listens.
    pub(crate) fn start(namespace: &Namespace, ifname: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("{ifname}.pcap"));
        // tcpdump reserves space for a frame of the maximum size for each frame that it has not
        // written yet, so the maximum is small here.
        let words = format!(
            "-i {ifname} -w {} -Z root -U -B 32768 --immediate-mode -s 2048 -n",
            path.display()
        );
        let program = Program::start(namespace, "tcpdump", &words);
        program.wait_for_text("listening on");
        Self { program: Some(program), path, _dir: dir }
    }

    /// Returns all frames written so far.
    pub(crate) fn frames(&self) -> Vec<Vec<u8>> {
        let copy = self.path.with_extension("now");
        // tcpdump writes whole records, so a copy is a valid file.
        std::fs::copy(&self.path, &copy).unwrap();
        let Ok(mut reader) = FileReader::open(copy.to_str().unwrap()) else { return Vec::new() };
        let mut frames = Vec::new();
        while let Ok(Some(packet)) = reader.next() {
            frames.push(packet.data.to_vec());
        }
        frames
    }

    /// Waits for `count` of our numbered frames, ends tcpdump, and returns the frames.
    pub(crate) fn testify(mut self, count: usize) -> Vec<Vec<u8>> {
        let ours = eventually("tcpdump to write all frames", || {
            let mut frames = self.frames();
            frames.retain(|frame| is_numbered(frame));
            (frames.len() >= count).then_some(frames)
        });
        let ended = self.program.take().unwrap().stop(Signal::INT);
        assert!(ended.stderr.contains("\n0 packets dropped by kernel"), "{ended:?}");
        ours
    }
}

impl Drop for CaptureProbe {
    /// If the test failed, keeps the capture and prints its path.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!(
                "{}-{}",
                std::thread::current().name().unwrap_or("test").replace(':', "_"),
                self.path.file_name().unwrap().display()
            ));
            let _ = std::fs::copy(&self.path, &kept);
            println!("--- the last capture is {}", kept.display());
        }
    }
}
