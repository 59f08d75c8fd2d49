//! The plug-in by which Wireshark captures from slipring's ports. It implements the extcap
//! protocol, in which Wireshark runs the program repeatedly, each time with one request.
//!
//! ```text
//!   --extcap-interfaces --extcap-version=4.4        lists the interfaces
//!   --extcap-interface=I --extcap-dlts              the link type of one
//!   --extcap-interface=I --extcap-config            its settings, for the dialog
//!   --extcap-interface=I --extcap-capture-filter=F  whether F is a filter: no output means yes
//!   --extcap-interface=I --capture --fifo=PATH      writes pcapng to PATH until TERM
//! ```
//!
//! On success stderr stays empty, because Wireshark shows text on it as an error.
//!
//! Not for: the control messages that Wireshark can exchange with a running plug-in.

mod sentences;

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use slipring_abi::name::PortName;
use slipring_cli::codes::{SR0002, SR0006};
use slipring_cli::{Diagnostic, Exit, Failure, Job, Session, flags};
use slipring_datapath::opening::PortOpening;
use slipring_port::{Interest, OpenOptions};

use crate::listing::ListInterfaces;
use crate::plan::{DEFAULT_SNAPLEN, DumpOutput, DumpPlan, FrameOrigin, from_port, port_by_name};
use crate::save::{FileRotation, SaveOptions};
use crate::select::{self, DirectionFilter, FrameSelector};
use crate::show::PrintStyle;
use crate::stamp::TimestampForm;

/// Returns the table of flags: Wireshark's flags, and one for each setting of the dialog.
#[must_use]
pub fn command() -> Command {
    let value = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    let switch = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
    };
    let command = Command::new("extcap").about("Answer Wireshark, as its capture plug-in");
    let command = command.after_help("Examples:\n  slipring extcap --extcap-interfaces").args([
        switch("extcap-interfaces", "List what can be captured from"),
        value("extcap-version", "VERSION", "Wireshark's version").num_args(0..=1),
        value("extcap-interface", "NAME", "What to capture from, as it was listed"),
        switch("extcap-dlts", "List its link types"),
        switch("extcap-config", "List its settings"),
        value("extcap-reload-option", "NAME", "A setting whose values are to be listed again"),
        value("extcap-capture-filter", "FILTER", "Frames to capture, in the language of tcpdump"),
        switch("capture", "Capture until told to stop"),
        value("fifo", "PATH", "Where to write the capture").value_hint(ValueHint::FilePath),
        value("port", flags::PORT_VALUE, "The port, where it is given by its name")
            .value_parser(port_by_name),
        value("take", "BOOL", "Take the frames from the host instead of only listening")
            .num_args(0..=1)
            .value_parser(clap::value_parser!(bool))
            .default_value("false")
            .default_missing_value("true"),
        value("take-over", "BOOL", "Take even the interface of the default route")
            .num_args(0..=1)
            .value_parser(clap::value_parser!(bool))
            .default_value("false")
            .default_missing_value("true"),
        value("snaplen", "BYTES", "Maximum number of bytes kept of a frame")
            .value_parser(clap::value_parser!(u32).range(0..=262_144))
            .default_value("262144"),
    ]);
    flags::run_dir(flags::reporting(command))
}

/// Turns a request into a job; `list` lists the interfaces.
///
/// # Errors
/// [`Failure`] if the request is incomplete or contains an invalid value, or if no list can contain
/// the interface name.
pub fn plan(matches: &ArgMatches, list: ListInterfaces) -> Result<Job, Failure> {
    let flag = |id: &str| matches.get_flag(id);
    if flag("extcap-interfaces") {
        return Ok(print_job(move |run_dir| sentences::interfaces(&list(run_dir))));
    }
    let name = matches.get_one::<String>("extcap-interface");
    let name = name.ok_or_else(|| missing("--extcap-interface <NAME>"))?;
    if name != sentences::ANY_PORT_INTERFACE {
        port_of(name)?;
    }
    if flag("extcap-dlts") {
        return Ok(print_job(|_| sentences::link_types()));
    }
    if flag("extcap-config") {
        let any = name == sentences::ANY_PORT_INTERFACE;
        return Ok(print_job(move |_| sentences::settings(any)));
    }
    let filter = matches.get_one::<String>("extcap-capture-filter").map_or("", String::as_str);
    if !flag("capture") {
        let verdict = slipring_filter::compile(filter).map_err(|error| error.to_string());
        return Ok(print_job(move |_| verdict.err().map_or(String::new(), |error| error + "\n")));
    }
    let capture = capture(matches, name, filter)?;
    Ok(Box::new(move |session| capture.run(list, session)))
}

/// Returns a job that prints a text as it is, whatever the output format.
fn print_job(text: impl FnOnce(&Path) -> String + 'static) -> Job {
    Box::new(move |session: &mut Session<'_>| {
        session.reporter.raw(text(&session.run_dir).as_bytes())?;
        Ok(Exit::Done)
    })
}

fn capture(matches: &ArgMatches, name: &str, filter: &str) -> Result<DumpPlan, Failure> {
    let fifo = matches.get_one::<String>("fifo").ok_or_else(|| missing("--fifo <PATH>"))?;
    let snaplen = match matches.get_one::<u32>("snaplen") {
        None | Some(0) => DEFAULT_SNAPLEN,
        Some(snaplen) => *snaplen,
    };
    let saving = SaveOptions {
        path: fifo.clone(),
        pcapng: true,
        snaplen,
        rotation: FileRotation::default(),
        flush_each: false,
    };
    Ok(DumpPlan {
        origin: from(matches, name)?,
        select: FrameSelector::new(select::compile(filter, snaplen)?, DirectionFilter::Both),
        count: None,
        counts_only: false,
        snaplen,
        silent: true,
        output: DumpOutput {
            shows: false,
            style: PrintStyle::default(),
            timestamp_form: TimestampForm::None,
            nanos: true,
            flush_each: false,
            saving: Some(saving),
        },
    })
}

fn from(matches: &ArgMatches, name: &str) -> Result<FrameOrigin, Failure> {
    let set = |id: &str| matches.get_one::<bool>(id) == Some(&true);
    let port = match name {
        sentences::ANY_PORT_INTERFACE => {
            matches.get_one("port").cloned().ok_or_else(|| missing("--port <PORT>"))
        }
        listed => port_of(listed),
    }?;
    let port = if set("take") { takeover_name(port)? } else { port };
    let options = OpenOptions {
        take_over: set("take-over"),
        direction: Interest::RX,
        ..OpenOptions::default()
    };
    let opening = PortOpening::plain(options);
    Ok(from_port(port, true, opening))
}

/// Returns the port for an interface name from the list.
fn port_of(listed: &str) -> Result<PortName, Failure> {
    let unknown = |cause: String| -> Failure {
        Diagnostic::new(SR0002, format!("`{listed}` was never listed"))
            .with_cause(cause)
            .with_help("list what there is: slipring extcap --extcap-interfaces")
            .into()
    };
    let name = sentences::decoded(listed).ok_or_else(|| unknown("it is no name of ours".into()))?;
    PortName::parse(&name).map_err(|error| unknown(error.to_string()))
}

/// Returns the port name that takes an interface's frames from the host: it opens the interface
/// instead of listening on it. A name that does not listen is returned unchanged.
fn takeover_name(port: PortName) -> Result<PortName, Failure> {
    let name = port.to_string();
    let Some(interface) = name.strip_prefix("packet:") else { return Ok(port) };
    PortName::parse(&format!("netmap:{interface}")).map_err(|error| {
        Diagnostic::new(SR0002, format!("{name} cannot be taken"))
            .with_cause(error.to_string())
            .with_help("leave --take out")
            .into()
    })
}

fn missing(what: &str) -> Failure {
    Diagnostic::new(SR0006, format!("missing: {what}"))
        .with_cause("Wireshark always says it; this program is made to be started by Wireshark")
        .with_help("put a link where Wireshark looks: docs/dump.md; by hand, use slipring dump")
        .into()
}

#[cfg(test)]
mod tests;
