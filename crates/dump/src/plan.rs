//! Turns flags into the plan of a capture.

use std::path::Path;

use clap::ArgMatches;
use slipring_abi::name::{PortName, PortNameError, PortNameKind, RingSelection};
use slipring_cli::codes::{SR0003, SR0006};
use slipring_cli::units::{Count, TimeSpan};
use slipring_cli::{Diagnostic, Failure, Job, Session, Signals};
use slipring_datapath::files::{RunFile, check_distinct};
use slipring_datapath::opening::PortOpening;
use slipring_filter::CbpfProgram;
use slipring_port::Interest;
use slipring_wire::summary::Detail;

use crate::listing::ListInterfaces;
use crate::run;
use crate::save::{FileRotation, SaveOptions};
use crate::select::{self, DirectionFilter, FrameSelector};
use crate::show::{PrintStyle, PrintedBytes};
use crate::source::DumpSource;
use crate::stamp::TimestampForm;

/// Default maximum of bytes captured of a frame.
pub(crate) const DEFAULT_SNAPLEN: u32 = 262_144;

/// The source of frames.
pub enum FrameOrigin {
    /// An interface to listen on, while the host keeps using it.
    Listen {
        /// The port's name.
        shown: String,
        /// The name of the interface, without the port's kind.
        ifname: String,
        /// Whether frames for other hosts are captured too.
        promisc: bool,
        /// Whether the capture ends when the interface goes down.
        exit_on_link_down: bool,
    },
    /// A capture file.
    Read {
        /// Path of the file.
        path: String,
    },
    /// A port that is opened. Unless it is a monitor, the frames that it receives go no further.
    Take {
        /// The name of the port to open.
        port: Box<PortName>,
        /// How the port is opened.
        opening: Box<PortOpening>,
    },
}

impl FrameOrigin {
    /// Returns whether the source is a monitor of another port.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        matches!(self, Self::Take { port, .. } if port.flags.is_monitor())
    }

    /// Returns whether the capture takes frames from a port without taking an interface from its
    /// host. If it takes an interface, opening it already prints a notice.
    #[must_use]
    pub fn takes_frames(&self) -> bool {
        matches!(self, Self::Take { port, opening } if !self.is_monitor() && !opening.takes_interface(port))
    }

    /// Returns the file that is read; `None` for other sources.
    #[must_use]
    pub fn file(&self) -> Option<RunFile> {
        match self {
            Self::Read { path } => Some(RunFile::read(Path::new(path))),
            _ => None,
        }
    }

    /// Opens the source. First prints a notice if opening takes an interface from its host.
    ///
    /// # Errors
    /// [`Failure`] if the source cannot be opened.
    pub fn open(
        &self,
        signals: &Signals,
        session: &mut Session<'_>,
    ) -> Result<DumpSource, Failure> {
        match self {
            Self::Listen { shown, ifname, promisc, exit_on_link_down } => {
                DumpSource::listen(shown, ifname, *promisc)?.exit_on_link_down(*exit_on_link_down)
            }
            Self::Read { path } => {
                let shown = format!("pcap:{path}");
                DumpSource::read(&shown, if path == "-" { "/dev/stdin" } else { path })
            }
            Self::Take { port, opening } => {
                let ports = opening.open(std::slice::from_ref(port), session)?;
                let port = ports.into_iter().next().expect("one port per name");
                DumpSource::take_from(port, self.is_monitor(), signals)
            }
        }
    }
}

/// The destination of frames.
pub(crate) struct DumpOutput {
    /// Whether frames are printed.
    pub(crate) shows: bool,
    pub(crate) style: PrintStyle,
    pub(crate) timestamp_form: TimestampForm,
    pub(crate) nanos: bool,
    pub(crate) flush_each: bool,
    pub(crate) saving: Option<SaveOptions>,
}

/// The plan of a capture.
pub(crate) struct DumpPlan {
    pub(crate) origin: FrameOrigin,
    pub(crate) select: FrameSelector,
    pub(crate) count: Option<u64>,
    /// Whether to print only the number of frames.
    pub(crate) counts_only: bool,
    pub(crate) snaplen: u32,
    /// Whether to print only errors.
    pub(crate) silent: bool,
    pub(crate) output: DumpOutput,
}

/// Turns the command line into a job; `list` lists the interfaces.
///
/// # Errors
/// [`Failure`] if the filter is invalid, or flags contradict each other.
pub fn plan(matches: &ArgMatches, list: ListInterfaces) -> Result<Job, Failure> {
    let flag = |id: &str| matches.get_flag(id);
    if flag("list-interfaces") {
        return Ok(Box::new(move |session| run::list(&list(&session.run_dir), session)));
    }
    if flag("list-data-link-types") {
        return Ok(Box::new(run::link_types));
    }
    let snaplen = match matches.get_one::<u32>("snapshot-length") {
        None | Some(0) => DEFAULT_SNAPLEN,
        Some(snaplen) => *snaplen,
    };
    let program = select::compile(&filter(matches)?, snaplen)?;
    if let form @ 1.. = matches.get_count("compiled") {
        return Ok(Box::new(move |session| run::compiled(&program, form, session)));
    }
    let plan = DumpPlan {
        origin: from(matches)?,
        select: selected(program, matches),
        count: matches.get_one::<Count>("count-frames").map(|count| count.0),
        counts_only: flag("count"),
        snaplen,
        silent: false,
        output: output(matches, snaplen),
    };
    plan.refuse_what_shows_nothing(matches)?;
    plan.refuse_to_write_over_what_is_read()?;
    Ok(Box::new(move |session| plan.run(list, session)))
}

/// Parses a port name for this command. A name that contains none of `:`, `{`, `}` and `/` is an
/// interface to listen on; as for tcpdump, it may contain any other character.
///
/// # Errors
/// [`PortNameError`] with the column of the first wrong character.
pub fn port_by_name(text: &str) -> Result<PortName, PortNameError> {
    if text.contains([':', '{', '}', '/']) {
        return PortName::parse(text);
    }
    let mut name = String::from("packet:");
    for c in text.chars() {
        name.extend(std::iter::repeat_n(c, if "-*^@".contains(c) { 2 } else { 1 }));
    }
    PortName::parse(&name)
}

fn filter(matches: &ArgMatches) -> Result<String, Failure> {
    if let Some(path) = matches.get_one::<String>("filter-file") {
        return select::from_file(path);
    }
    let words = matches.get_many::<String>("filter").into_iter().flatten();
    Ok(words.map(String::as_str).collect::<Vec<_>>().join(" "))
}

fn from(matches: &ArgMatches) -> Result<FrameOrigin, Failure> {
    if let Some(path) = matches.get_one::<String>("read") {
        return Ok(FrameOrigin::Read { path: path.clone() });
    }
    let Some(port) = matches.get_one::<PortName>("interface") else {
        let error = Diagnostic::new(SR0006, "missing: --interface <PORT> or --read <FILE>");
        let error = error.with_cause("there is nothing to capture from");
        return Err(error.with_help("list what there is: slipring dump -D").into());
    };
    let promisc = !matches.get_flag("no-promiscuous-mode") && !matches.get_flag("no-promisc");
    let mut opening = PortOpening::of(matches).for_observer().one_direction(Interest::RX);
    opening.options.promiscuous = promisc;
    Ok(from_port(port.clone(), promisc, opening))
}

/// Returns how to get frames from a port: a capture is read, a whole interface that is named as
/// `packet:IF` is listened on, and any other port is opened.
#[must_use]
pub fn from_port(port: PortName, promisc: bool, opening: PortOpening) -> FrameOrigin {
    if port.kind == PortNameKind::Pcap {
        return FrameOrigin::Read { path: port.name };
    }
    if port.kind == PortNameKind::Packet && port.rings == RingSelection::All {
        let exit_on_link_down = opening.options.exit_on_link_down;
        let shown = port.to_string();
        return FrameOrigin::Listen { shown, ifname: port.name, promisc, exit_on_link_down };
    }
    FrameOrigin::Take { port: Box::new(port), opening: Box::new(opening) }
}

fn selected(program: CbpfProgram, matches: &ArgMatches) -> FrameSelector {
    let directions = match matches.get_one::<String>("direction").map(String::as_str) {
        Some("in") => DirectionFilter::In,
        Some("out") => DirectionFilter::Out,
        _ => DirectionFilter::Both,
    };
    FrameSelector::new(program, directions)
}

fn output(matches: &ArgMatches, snaplen: u32) -> DumpOutput {
    let flag = |id: &str| matches.get_flag(id);
    let saving = saving(matches, snaplen);
    let precise = matches.get_one::<String>("time-stamp-precision");
    DumpOutput {
        shows: (saving.is_none() || flag("print")) && !flag("count"),
        style: style(matches),
        timestamp_form: TimestampForm::of(matches.get_count("time")),
        nanos: flag("nano") || precise.is_some_and(|unit| unit == "nano"),
        flush_each: flag("lines"),
        saving,
    }
}

fn style(matches: &ArgMatches) -> PrintStyle {
    let flag = |id: &str| matches.get_flag(id);
    let (hex, hex_text) = (matches.get_count("hex"), matches.get_count("hex-text"));
    PrintStyle {
        link: flag("ethernet"),
        bytes: match (hex_text, hex, flag("ascii")) {
            (1.., _, _) => PrintedBytes::HexText,
            (_, 1.., _) => PrintedBytes::Hex,
            (_, _, true) => PrintedBytes::Text,
            _ => PrintedBytes::None,
        },
        whole: hex > 1 || hex_text > 1,
        detail: Detail {
            is_quick: flag("quick"),
            verbose: matches.get_count("verbose"),
            checksums: !flag("no-checksums"),
            is_absolute: flag("absolute"),
            bytes_follow: hex > 0 || hex_text > 0 || flag("ascii"),
        },
        numbered: flag("number"),
    }
}

fn saving(matches: &ArgMatches, snaplen: u32) -> Option<SaveOptions> {
    let path = matches.get_one::<String>("write")?.clone();
    let period = matches.get_one::<TimeSpan>("rotate").map(|span| span.duration());
    Some(SaveOptions {
        pcapng: matches.get_flag("pcapng") || SaveOptions::is_pcapng(&path),
        snaplen,
        rotation: FileRotation {
            size: matches.get_one("file-size").copied(),
            period: period.filter(|period| !period.is_zero()),
            files: matches.get_one("files").copied(),
        },
        flush_each: matches.get_flag("packet-buffered"),
        path,
    })
}

impl DumpPlan {
    fn refuse_to_write_over_what_is_read(&self) -> Result<(), Failure> {
        let saved = self.output.saving.as_ref();
        let saved = saved.map(|saving| RunFile::written(Path::new(&saving.path)));
        let files: Vec<_> = self.origin.file().into_iter().chain(saved).collect();
        check_distinct(&files)
    }

    /// Returns an error for combinations of flags with which the capture would print or write
    /// nothing, or something other than the flags request.
    fn refuse_what_shows_nothing(&self, matches: &ArgMatches) -> Result<(), Failure> {
        let rotation = self.output.saving.as_ref().map(|saving| &saving.rotation);
        let lone_files = rotation.is_some_and(|rotation| {
            rotation.files.is_some() && rotation.size.is_none() && rotation.period.is_none()
        });
        let rotates = rotation.is_some_and(|rotation| *rotation != FileRotation::default());
        let to_stdout = self.output.saving.as_ref().is_some_and(|saving| saving.path == "-");
        let out_only = matches.get_one::<String>("direction").is_some_and(|way| way == "out");
        let (summary, help) = if lone_files {
            ("-W counts files that -C or -G begin", "add -C 100 or -G 3600, or leave -W out")
        } else if to_stdout && rotates {
            ("the standard output is one file", "name files by -w, or leave -C, -G and -W out")
        } else if to_stdout && matches.get_flag("print") {
            ("--print and -w - want the same output", "name a file by -w, or leave --print out")
        } else if out_only && matches!(self.origin, FrameOrigin::Take { .. }) {
            (
                "a port that is opened shows what arrives, nothing that goes out",
                "leave -Q out, or listen to the interface: packet:IF",
            )
        } else {
            return Ok(());
        };
        Err(Diagnostic::new(SR0003, summary).with_help(help).into())
    }
}
