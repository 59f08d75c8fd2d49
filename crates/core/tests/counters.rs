//! Tests of published counters, their readers, and files that only look like published counters.
#![allow(clippy::unwrap_used)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_core::counters::{CountersReadError, CountersReader, Publisher, running};

const HEADER: usize = 72;

fn open(dir: &Path, words: usize) -> Publisher {
    Publisher::open(dir, "text", words).unwrap()
}

/// Copies the counters of this process to the file `name`, which no process publishes. Returns the
/// path of the copy.
fn copied(dir: &Path, name: &str) -> PathBuf {
    let publisher = open(dir, 3);
    let copy = dir.join(name);
    fs::copy(publisher.path(), &copy).unwrap();
    copy
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn words_are_read_as_they_were_published() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::open(dir.path(), "names of three", 3).unwrap();
    let mut reader = CountersReader::open(publisher.path()).unwrap();
    assert_eq!((reader.text(), reader.words()), ("names of three", 3));
    assert_eq!(reader.pid(), std::process::id());
    assert_eq!(reader.read().unwrap().at_ns, 0, "nothing was published yet");
    publisher.publish(10, [1, 2, 3]);
    publisher.publish(20, [u64::MAX, 7]);
    let snapshot = reader.read().unwrap();
    assert_eq!((snapshot.at_ns, snapshot.sequence), (20, 2));
    assert_eq!(snapshot.words, [u64::MAX, 7, 3], "a word without a value stays");
    publisher.publish(30, [1, 2, 3, 4]);
    assert_eq!(reader.read().unwrap().words, [1, 2, 3], "a value without a word is left out");
}

#[test]
fn a_reader_gets_words_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = open(dir.path(), 2000);
    let mut reader = CountersReader::open(publisher.path()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                value += 1;
                publisher.publish(value, std::iter::repeat_n(value, 2000));
                std::thread::yield_now();
            }
        });
        let mut seen = 0;
        for _ in 0..300 {
            // A read may fail during continuous writing, but never mixes two updates.
            let Ok(snapshot) = reader.read() else { continue };
            assert_eq!(snapshot.at_ns, snapshot.sequence);
            assert!(snapshot.words.iter().all(|&word| word == snapshot.sequence));
            seen += 1;
        }
        assert!(seen > 0);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_file_is_there_as_long_as_its_publisher() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = open(dir.path(), 1);
    let found = running(dir.path());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].pid, found[0].path.as_path()), (std::process::id(), publisher.path()));
    let reader = CountersReader::open(publisher.path()).unwrap();
    assert!(reader.is_alive());
    drop(publisher);
    assert!(!reader.is_alive());
    assert_eq!(running(dir.path()), []);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn one_process_publishes_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 1);
    let error = Publisher::open(dir.path(), "", 1).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(first.path().exists());
}

#[test]
fn what_the_dead_left_is_removed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    // Process 1 runs, but publishes nothing; the name alone proves nothing.
    for name in ["1.stats", "4194305.stats"] {
        copied(dir.path(), name);
    }
    fs::write(dir.path().join("lab.stats"), "not by a number: not ours").unwrap();
    fs::write(dir.path().join("7.sock"), "").unwrap();
    assert_eq!(running(dir.path()), []);
    let publisher = open(dir.path(), 1);
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let own = publisher.path().file_name().unwrap().to_owned();
    let mut expected = vec!["7.sock".into(), "lab.stats".into(), own];
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn a_file_that_is_cut_off_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let copy = copied(dir.path(), "1.stats");
    let mut reader = CountersReader::open(&copy).unwrap();
    reader.read().unwrap();
    for length in [HEADER + 16, HEADER, 8, 0] {
        OpenOptions::new().write(true).open(&copy).unwrap().set_len(length as u64).unwrap();
        assert!(matches!(reader.read(), Err(CountersReadError::Cut)), "{length}");
        assert!(CountersReader::open(&copy).is_err(), "{length}");
    }
}

#[test]
fn a_lock_of_somebody_who_may_only_read_raises_no_dead() {
    let dir = tempfile::tempdir().unwrap();
    let dead = copied(dir.path(), "1.stats");
    let squatter = fs::File::open(&dead).unwrap();
    squatter.lock().unwrap();
    assert!(running(dir.path()).is_empty());
    let _publisher = open(dir.path(), 1);
    assert!(!dead.exists());
}

#[test]
fn nothing_is_read_where_others_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let _publisher = open(dir.path(), 1);
    assert_eq!(running(dir.path()).len(), 1);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(running(dir.path()).is_empty());
    assert!(Publisher::open(dir.path(), "text", 1).is_err());
}

#[test]
fn a_writer_that_died_in_the_middle_does_not_hold_its_readers() {
    let dir = tempfile::tempdir().unwrap();
    let copy = copied(dir.path(), "1.stats");
    let mut reader = CountersReader::open(&copy).unwrap();
    overwrite(&copy, 7 * 8, &1u64.to_ne_bytes());
    assert!(matches!(reader.read(), Err(CountersReadError::Unfinished)));
}

#[test]
fn sizes_that_do_not_fit_each_other_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let copy = copied(dir.path(), "1.stats");
    let good = fs::read(&copy).unwrap();
    // Header words: length of the file, length of the text, number of words, process id.
    for word in [2u64, 5, 6, 3] {
        for value in [1 << 32, u64::MAX, u64::MAX / 8 + 1, 0x1000_0000] {
            fs::write(&copy, &good).unwrap();
            overwrite(&copy, word * 8, &value.to_ne_bytes());
            let refused = matches!(CountersReader::open(&copy), Err(CountersReadError::Foreign(_)));
            assert!(refused || word == 3, "word {word}: {value}");
        }
    }
    fs::write(&copy, &good).unwrap();
    overwrite(&copy, 8, &2u64.to_ne_bytes());
    assert!(matches!(CountersReader::open(&copy), Err(CountersReadError::Version { found: 2 })));
    fs::write(&copy, &good).unwrap();
    overwrite(&copy, HEADER as u64, &[0xff; 4]);
    assert!(matches!(
        CountersReader::open(&copy),
        Err(CountersReadError::Foreign("its text is not UTF-8"))
    ));
}

#[test]
fn any_bytes_may_stand_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.stats");
    let good = fs::read(copied(dir.path(), "2.stats")).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 24) as u8;
        }
        bytes.truncate(bytes.len().min((state >> 20) as usize % 200));
        fs::write(&path, &bytes).unwrap();
        // No panic and no hang; a file that opens has consistent sizes.
        if let Ok(reader) = CountersReader::open(&path) {
            assert!(reader.words() * 8 <= bytes.len());
        }
    }
}

#[test]
fn neither_a_fifo_nor_a_link_nor_a_directory_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let copy = copied(dir.path(), "1.stats");
    let [fifo, link, folder] = ["2.stats", "3.stats", "4.stats"].map(|name| dir.path().join(name));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink(&copy, &link).unwrap();
    fs::create_dir(&folder).unwrap();
    for path in [fifo, link, folder] {
        assert!(CountersReader::open(&path).is_err(), "{}", path.display());
    }
}
