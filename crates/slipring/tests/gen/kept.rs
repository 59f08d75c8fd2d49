//! Tests of when an existing capture is overwritten: by a port, only with `--overwrite`; by a flag
//! that names an output file, always; while the capture is read, never.

use std::path::Path;

use super::slipring;

/// Programs that send to a port. IN stands for a capture to read, and OUT for the capture that the
/// port writes.
const PROGRAMS: [&str; 7] = [
    "gen -i pcap:OUT -f tx -n 2 -P IN",
    "replay -f IN -i pcap:OUT -t 5",
    "bridge -i pcap:IN -i pcap:OUT -t 5",
    "emulate -i pcap:IN -i pcap:OUT -D 1ms -t 300ms",
    "dedup pcap:IN pcap:OUT -t 5",
    "lb -i pcap:IN --outputs pcap:OUT -t 300ms",
    "firewall pcap:IN pcap:OUT --default accept -t 5",
];

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Writes a new capture of `frames` frames.
fn capture(path: &str, frames: u32) {
    slipring(&format!("gen -i pcap:{path} -f tx -n {frames} --overwrite")).ended(0);
}

fn filled(program: &str, input: &str, output: &str) -> String {
    program.replace("IN", input).replace("OUT", output)
}

#[test]
fn no_program_writes_over_a_capture_that_exists_unless_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (path(dir.path(), "in.pcap"), path(dir.path(), "old.pcap"));
    capture(&input, 3);
    for program in PROGRAMS {
        capture(&output, 10);
        let before = std::fs::read(&output).unwrap();
        let words = filled(program, &input, &output);
        let refused = slipring(&words).ended(2).stderr();
        assert!(
            refused.contains("SR0206") && refused.contains("--overwrite"),
            "{words}: {refused}"
        );
        assert!(std::fs::read(&output).unwrap() == before, "{words}");
        slipring(&format!("{words} --overwrite")).ended(0);
        let after = std::fs::read(&output).unwrap();
        assert!(after != before && after.len() > 24, "{words}: {} bytes", after.len());
        std::fs::remove_file(&output).unwrap();
        slipring(&words).ended(0);
        assert!(Path::new(&output).exists(), "{words}");
    }
}

#[test]
fn a_capture_that_is_read_is_never_written_by_whatever_path() {
    let dir = tempfile::tempdir().unwrap();
    let (input, link) = (path(dir.path(), "in.pcap"), path(dir.path(), "link.pcap"));
    capture(&input, 3);
    std::fs::hard_link(&input, &link).unwrap();
    let before = std::fs::read(&input).unwrap();
    let looking = ["dump -r IN -w OUT", "dump -i pcap:IN -w OUT", "trace -i pcap:IN -w OUT"];
    for program in PROGRAMS.iter().chain(&looking) {
        for other in [&input, &link] {
            let words = format!("{} --overwrite", filled(program, &input, other));
            let refused = slipring(&words).ended(2).stderr();
            let message = ["would overwrite what is read", "is given twice"];
            assert!(message.iter().any(|message| refused.contains(message)), "{words}: {refused}");
            assert!(std::fs::read(&input).unwrap() == before, "{words}");
        }
    }
}

#[test]
fn one_capture_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (new, dotted) = (path(dir.path(), "new.pcap"), path(dir.path(), "./new.pcap"));
    for words in [
        format!("lb -i null: --outputs pcap:{new} --outputs pcap:{dotted}"),
        format!("gen -i pcap:{new} -f tx -n 1 --capture {dotted}"),
    ] {
        let refused = slipring(&words).ended(2).stderr();
        assert!(refused.contains("two outputs would be written to"), "{words}: {refused}");
        assert!(!Path::new(&new).exists(), "{words}");
    }
}

#[test]
fn files_that_a_flag_names_to_be_written_are_written_over_as_tcpdump_does() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (path(dir.path(), "in.pcap"), path(dir.path(), "old.pcap"));
    capture(&input, 3);
    for words in [
        "dump -r IN -w OUT",
        "trace -i pcap:IN -w OUT",
        "gen -i null: -f tx -n 2 --capture OUT",
        "emulate --virtual IN OUT -D 1ms",
        "replay -f IN --virtual OUT",
    ] {
        capture(&output, 100);
        let before = std::fs::metadata(&output).unwrap().len();
        slipring(&filled(words, &input, &output)).ended(0);
        assert!(std::fs::metadata(&output).unwrap().len() < before, "{words}");
    }
}
