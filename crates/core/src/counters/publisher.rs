//! Publishes counters.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;
use slipring_native_proto::trust;
use slipring_port::now;

use super::directory;
use super::format::{
    CountersLayout, HEADER_WORDS, MAGIC, MAX_FILE_BYTES, VERSION, WORD_BYTES, at, words_of,
};
use super::reader_events::ReaderEvents;
use super::seqlock::seqlock_write;
use crate::sys::lock;
use crate::sys::shared::MappedWords;

/// Publishes the counters of this process. The file is removed on drop.
#[derive(Debug)]
pub struct Publisher {
    memory: MappedWords,
    first: usize,
    sequence: u64,
    path: PathBuf,
    /// Holds the lock that shows that this process is running.
    _file: File,
}

impl Publisher {
    /// Creates this process's file in `dir`, with space for `words` counters: one 64-bit word each,
    /// initially 0. `text` describes the counters. Also removes the files of ended programs in
    /// `dir`. If the directory does not exist, it is created, for this user only.
    ///
    /// # Errors
    /// An error if the directory or the file cannot be created or trusted, if this process, or one
    /// with the same process id in another container, already publishes in the directory, or if the
    /// counters exceed the maximum file size.
    pub fn open(dir: &Path, text: &str, words: usize) -> io::Result<Self> {
        trust::make_dir(dir, 0o700)?;
        directory::remove_dead(dir);
        let shape = CountersLayout { text_bytes: text.len(), words };
        if shape.length() > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many counters"));
        }
        let path = directory::path_of(dir, std::process::id());
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let new = UnpublishedFile::create(path.with_extension("stats.new"), shape.length())?;
        let memory = MappedWords::map(&new.file, shape.all_words())?;
        write_head(&memory, text, shape);
        let file = new.link_as(&path)?;
        Ok(Self { memory, first: shape.first_word(), sequence: 0, path, _file: file })
    }

    /// Publishes values with the timestamp `at_ns` (CLOCK_MONOTONIC), starting at word 0. Words
    /// after the last value keep their contents; values after the last word are ignored.
    pub fn publish(&mut self, at_ns: u64, values: impl IntoIterator<Item = u64>) {
        let words = self.memory.words();
        let time = (&words[at::PUBLISHED], at_ns);
        let values = std::iter::once(time).chain(words[self.first..].iter().zip(values));
        seqlock_write(&words[at::SEQUENCE], &mut self.sequence, values);
    }

    /// Returns a descriptor that becomes readable when a reader opens or reads the file.
    ///
    /// # Errors
    /// The kernel's error, usually because the limit of inotify instances is reached
    /// (`fs.inotify.max_user_instances`).
    pub fn readers(&self) -> io::Result<ReaderEvents> {
        ReaderEvents::watch(&self.path)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // If the file cannot be removed now, the next publisher removes it.
        let _ = fs::remove_file(&self.path);
    }
}

fn write_head(memory: &MappedWords, text: &str, shape: CountersLayout) {
    let header: [(usize, u64); HEADER_WORDS] = [
        (at::MAGIC, MAGIC),
        (at::VERSION, VERSION),
        (at::LENGTH, shape.length()),
        (at::PID, u64::from(std::process::id())),
        (at::START, now()),
        (at::TEXT, shape.text_bytes as u64),
        (at::WORDS, shape.words as u64),
        (at::SEQUENCE, 0),
        (at::PUBLISHED, 0),
    ];
    let mut padded = text.as_bytes().to_vec();
    padded.resize(padded.len().next_multiple_of(WORD_BYTES), 0);
    let text = (HEADER_WORDS..).zip(words_of(&padded));
    for (index, word) in header.into_iter().chain(text) {
        memory.words()[index].store(word, Ordering::Relaxed);
    }
}

/// A file that is not visible under its final name yet; removed on drop.
struct UnpublishedFile {
    path: PathBuf,
    file: File,
}

impl UnpublishedFile {
    fn create(path: PathBuf, length: u64) -> io::Result<Self> {
        // A killed process with the same process id may have left the file.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32)
            .open(&path)?;
        let new = Self { path, file };
        lock::acquire(&new.file)?;
        // Other users may read the file only from now on. Before the publisher had its lock, one of
        // them could have taken a lock that conflicts with it.
        new.file.set_permissions(Permissions::from_mode(0o644))?;
        // The space is allocated now, so that a full file system causes an error here and not a
        // SIGBUS at a later store.
        rustix::fs::fallocate(&new.file, rustix::fs::FallocateFlags::empty(), 0, length)?;
        Ok(new)
    }

    fn link_as(self, path: &Path) -> io::Result<File> {
        fs::rename(&self.path, path)?;
        self.file.try_clone()
    }
}

impl Drop for UnpublishedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
