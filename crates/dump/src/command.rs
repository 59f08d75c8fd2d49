//! The flags of `slipring dump`, which are those of tcpdump.

use std::time::Duration;

use clap::{Arg, ArgAction, Command, ValueHint};
use slipring_cli::units::{Count, TimeSpan};
use slipring_cli::{flags, metrics};
use slipring_datapath::opening;

use crate::plan::port_by_name;

const SELECTING_HEADING: &str = "Choosing frames";
const PRINTING_HEADING: &str = "Printing";
const SAVING_HEADING: &str = "Saving";

/// The flag table.
#[must_use]
pub fn command() -> Command {
    let port = flags::with_note(
        flags::port().value_parser(port_by_name),
        "an interface without a kind is only listened to",
    );
    let filter = Arg::new("filter")
        .value_name("FILTER")
        .num_args(0..)
        .help("Frames to capture, in the language of tcpdump: host 10.0.0.1 and tcp port 80");
    let command = Command::new("dump")
        .about("Capture the frames of a port, as tcpdump does")
        .arg(port)
        .args(sources())
        .args(selecting())
        .args(printing())
        .args(saving())
        .arg(filter)
        .after_help(
            "packet:IF (and IF alone) only listens: the host keeps its frames and both directions \
             are seen.\nnetmap:IF, xdp:IF, taps and pipes are opened: what arrives there is taken \
             and goes no further.\nNames are never looked up, and times in files have nanoseconds.\nThe filter runs in this process: received by \
             filter counts all that came to it.\n\n\
             Examples:\n  \
             slipring dump -i packet:eth0 tcp port 80\n  \
             slipring dump -i packet:eth0 -w seen.pcapng\n  \
             slipring dump -r seen.pcapng -c 20",
        );
    flags::run_dir(flags::reporting(metrics::flag(opening::flags(command))))
}

fn value(id: &'static str, short: char, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).short(short).long(id).value_name(name).help(help)
}

fn switch(id: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(id).short(short).long(id).action(ArgAction::SetTrue).help(help)
}

fn counted(id: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(id).short(short).long(id).action(ArgAction::Count).help(help)
}

fn sources() -> [Arg; 4] {
    [
        value("read", 'r', "FILE", "Read a capture instead; - is the standard input")
            .value_hint(ValueHint::FilePath)
            .conflicts_with("interface"),
        switch("list-interfaces", 'D', "List the ports that can be captured from and stop"),
        switch("list-data-link-types", 'L', "List the kinds of link layer headers and stop"),
        counted("compiled", 'd', "Print the compiled filter and stop; -dd as C, -ddd as numbers"),
    ]
}

fn some_frames(text: &str) -> Result<Count, String> {
    let count: Count = text.parse().map_err(|error| format!("{error}"))?;
    if count.0 > 0 { Ok(count) } else { Err("at least 1; without -c there is no end".into()) }
}

fn selecting() -> [Arg; 6] {
    let args = [
        value("count-frames", 'c', "N", "Stop after this many frames").value_parser(some_frames),
        value("filter-file", 'F', "FILE", "Read the filter from a file")
            .value_hint(ValueHint::FilePath)
            .conflicts_with("filter"),
        value("direction", 'Q', "WAY", "Capture only frames in this direction")
            .value_parser(["in", "out", "inout"])
            .default_value("inout"),
        value(
            "snapshot-length",
            's',
            "BYTES",
            "Maximum number of bytes kept of a frame; 0 for the maximum",
        )
        .value_parser(clap::value_parser!(u32).range(0..=262_144))
        .default_value("262144"),
        Arg::new("no-promiscuous-mode")
            .short('p')
            .long("no-promiscuous-mode")
            .action(ArgAction::SetTrue)
            .help("Receive only frames for this host"),
        Arg::new("immediate-mode")
            .long("immediate-mode")
            .action(ArgAction::SetTrue)
            .help("Accepted: frames are always delivered at once"),
    ];
    args.map(|arg| arg.help_heading(SELECTING_HEADING))
}

fn printing() -> [Arg; 17] {
    let args = [
        counted("numeric", 'n', "Accepted: addresses and ports are always numbers"),
        switch("ethernet", 'e', "Print the link layer's addresses and type too"),
        counted("verbose", 'v', "Print the IP header too and verify checksums; talk more"),
        switch("quick", 'q', "Print less about protocols"),
        counted("hex", 'x', "Print the bytes as hex; -xx with the link layer's"),
        counted("hex-text", 'X', "Print the bytes as hex and text; -XX with the link layer's"),
        switch("ascii", 'A', "Print the bytes as text"),
        counted(
            "time",
            't',
            "-t no time, -tt since 1970, -ttt since the line before, -tttt with the date, -ttttt since the first line",
        ),
        switch("no-checksums", 'K', "Do not verify checksums"),
        switch(
            "absolute",
            'S',
            "Print TCP's sequence numbers as they are, and not from the beginning of a conversation",
        ),
        switch("number", '#', "Print the number of each frame"),
        switch("lines", 'l', "Write each line at once"),
        Arg::new("nano").long("nano").action(ArgAction::SetTrue).help("Times with nanoseconds"),
        Arg::new("micro").long("micro").action(ArgAction::SetTrue).help("Times with microseconds"),
        Arg::new("time-stamp-precision")
            .long("time-stamp-precision")
            .value_name("UNIT")
            .value_parser(["micro", "nano"])
            .help("The same"),
        Arg::new("print")
            .long("print")
            .action(ArgAction::SetTrue)
            .help("Print the frames although they are saved"),
        Arg::new("count")
            .long("count")
            .action(ArgAction::SetTrue)
            .help("Print only how many frames there were"),
    ];
    args.map(|arg| arg.help_heading(PRINTING_HEADING))
}

fn saving() -> [Arg; 6] {
    let seconds = |text: &str| TimeSpan::parse(text, Duration::from_secs(1));
    let args = [
        value("write", 'w', "FILE", "Save the frames to a capture; - is the standard output")
            .value_hint(ValueHint::FilePath),
        Arg::new("pcapng")
            .long("pcapng")
            .action(ArgAction::SetTrue)
            .help("Save as pcapng, as for names in .pcapng, and not as pcap"),
        switch("packet-buffered", 'U', "Save each frame at once"),
        value("file-size", 'C', "SIZE", "Begin another file beyond this size [default unit: MB]")
            .value_parser(file_size),
        value(
            "rotate",
            'G',
            "TIME",
            "Begin another file after this long, named by strftime(3) [default unit: s]",
        )
        .value_parser(seconds),
        value(
            "files",
            'W',
            "N",
            "With -C, as many files in a ring; with -G alone, stop after so many",
        )
        .value_parser(clap::value_parser!(u64).range(1..)),
    ];
    args.map(|arg| arg.help_heading(SAVING_HEADING).requires_if_not_write())
}

/// Makes a flag require `-w`.
trait WithWrite {
    fn requires_if_not_write(self) -> Self;
}

impl WithWrite for Arg {
    fn requires_if_not_write(self) -> Self {
        if self.get_id() == "write" { self } else { self.requires("write") }
    }
}

/// Parses a file size. As with tcpdump, a number without a suffix is in millions of bytes, and
/// `k`, `m` and `g` are powers of 1024.
fn file_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1_000_000,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err("expected a number, with k, m or g behind it or nothing".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a whole number".to_owned())?;
    let size = number.checked_mul(unit).filter(|&size| size > 0);
    size.ok_or_else(|| "expected a size above 0 that fits into 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_size_is_of_millions_and_letters_are_powers_of_two() {
        assert_eq!(file_size("2"), Ok(2_000_000));
        assert_eq!([file_size("2k"), file_size("1MiB")], [Ok(2048), Ok(1 << 20)]);
        for wrong in ["", "0", "2x", "-1", "99999999999g"] {
            assert!(file_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_is_sound() {
        command().debug_assert();
    }
}
