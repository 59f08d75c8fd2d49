//! `slipring route ctl`: asks a running router.

use std::net::IpAddr;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};
use slipring_cli::codes::SR0002;
use slipring_cli::{Diagnostic, Exit, Failure, Job, ReportFormat, Session, flags};
use slipring_control::{ControlClient, ControlError};
use slipring_rules::command_batch::CommandFault;
use slipring_rules::packet_words::{self, ETHERNET_LEN, PacketOptions};

use crate::events;
use crate::packet_trace::MAX_BYTES;
use crate::service::{PROGRAM_NAME, masked};
use crate::{route_document, shell, show, trace};

/// The command's name after `slipring route`.
pub(crate) const COMMAND_NAME: &str = "ctl";

const EXAMPLES: &str = "\
Without a command, commands are read from standard input: with history and completion on a terminal.

Examples:
  slipring route ctl
  slipring route ctl status
  slipring route ctl route show 10.0.0.0/8
  slipring route ctl route get 192.0.2.1 --json
  slipring route ctl why udp 10.1.0.2:4000 10.3.0.2:53 recv eth0
  slipring route ctl monitor route neighbour
  slipring route ctl fib verify";

/// The flag table of `ctl`.
pub(crate) fn command() -> Command {
    let name = Arg::new("name")
        .long("name")
        .value_name("NAME")
        .help("Name or process number of the run [default: the only one]");
    let command = Command::new(COMMAND_NAME).about("Ask a running router").arg(name);
    let command = flags::run_dir(flags::reporting_as("route", command.after_help(EXAMPLES)))
        .mut_args(|arg| arg.global(true));
    let plain = |name: &'static str, about: &'static str, example: &'static str| {
        Command::new(name).about(about).after_help(example)
    };
    command.subcommands([
        plain(
            "status",
            "Show what the router does, and by which tables",
            "Examples:\n  slipring route ctl status",
        ),
        plain(
            "interface",
            "Show interfaces with their counters",
            "Examples:\n  slipring route ctl interface\n  slipring route ctl interface eth0",
        )
        .arg(Arg::new("interface").value_name("INTERFACE").help("Show only this interface")),
        route_command(),
        why_command(),
        trace_command(),
        monitor_command(),
        drop_command(),
        plain(
            "punt",
            "Show what the kernel gets from the threads, by class, and what exceeds its rate",
            "Examples:\n  slipring route ctl punt",
        ),
        plain("arp", "Show IPv4 neighbours", "Examples:\n  slipring route ctl arp"),
        plain("nd", "Show IPv6 neighbours", "Examples:\n  slipring route ctl nd"),
        fib_command(),
        plain("hello", "Show which router answers", "Examples:\n  slipring route ctl hello"),
        plain(
            "reload",
            "Read the files of the run again: all of them take effect, or nothing",
            "Examples:\n  slipring route ctl reload\n  slipring route ctl reload --name edge",
        ),
        plain("shutdown", "End the router", "Examples:\n  slipring route ctl shutdown --name edge")
            .visible_alias("quit"),
    ])
}

fn route_command() -> Command {
    let show = Command::new("show")
        .about("Show routes")
        .arg(
            Arg::new("prefix")
                .value_name("PREFIX")
                .help("Show only routes within this prefix [default: all]"),
        )
        .after_help("Examples:\n  slipring route ctl route show\n  slipring route ctl route show 2001:db8::/32");
    let get = Command::new("get")
        .about("Show what becomes of packets for an address")
        .arg(
            Arg::new("address")
                .value_name("ADDRESS")
                .required(true)
                .value_parser(clap::value_parser!(IpAddr))
                .help("The packets' destination"),
        )
        .after_help("Examples:\n  slipring route ctl route get 192.0.2.1");
    Command::new("route")
        .about("Show routes, or the route of a packet")
        .subcommand_required(true)
        .subcommands([show, get])
        .after_help("Examples:\n  slipring route ctl route get 2001:db8::1")
}

fn why_command() -> Command {
    let words = Arg::new("words")
        .value_name("WORD")
        .required(true)
        .num_args(1..)
        .help(format!("The packet: {}", packet_words::PACKET_SYNTAX));
    Command::new("why")
        .about("Show what each stage decides about a packet; nothing is sent or counted")
        .arg(words)
        .after_help(
            "Examples:
  slipring route ctl why udp 10.1.0.2:4000 10.3.0.2:53 recv eth0
  slipring route ctl why tcp [fd01::2]:4000 [fd03::2]:80 recv eth0 ttl 1 --json",
        )
}

fn trace_command() -> Command {
    let filter = Arg::new("filter")
        .value_name("FILTER")
        .num_args(0..)
        .help("Only packets that match this filter, as of pcap-filter(7) [default: all]");
    let count = Arg::new("count")
        .short('c')
        .long("count")
        .value_name("N")
        .value_parser(clap::value_parser!(u32).range(1..=i64::from(trace::MAX_COUNT)))
        .help(format!("End after this number of packets [default: {}]", trace::DEFAULT_COUNT));
    Command::new("trace")
        .about("Show packets as they come, each with what becomes of it; not with --io xdp")
        .args([filter, count])
        .after_help(
            "Examples:\n  slipring route ctl trace\n  slipring route ctl trace -c 3 udp port 53",
        )
}

fn monitor_command() -> Command {
    let kinds = Arg::new("kinds")
        .value_name("KIND")
        .num_args(0..)
        .value_parser(events::KINDS)
        .help("Only events of these kinds [default: all]");
    let count = Arg::new("count")
        .short('c')
        .long("count")
        .value_name("N")
        .value_parser(clap::value_parser!(u64).range(1..))
        .help("End after this number of events [default: never]");
    Command::new("monitor")
        .about("Show what changes, as it happens: routes, neighbours, links, drops")
        .args([kinds, count])
        .after_help(
            "Examples:\n  slipring route ctl monitor\n  slipring route ctl monitor route drop --json",
        )
}

fn drop_command() -> Command {
    let reset = Command::new("reset")
        .about("Show what was dropped, and count from 0 again; metrics and reports go on")
        .after_help("Examples:\n  slipring route ctl drop reset");
    Command::new("drop")
        .about("Show what was dropped, by interface and cause")
        .subcommand(reset)
        .after_help("Examples:\n  slipring route ctl drop\n  slipring route ctl drop reset")
}

fn fib_command() -> Command {
    let verify = Command::new("verify")
        .about("Compare the tables with the kernel's routes")
        .after_help("Examples:\n  slipring route ctl fib verify");
    Command::new("fib")
        .about("Check the forwarding tables")
        .subcommand_required(true)
        .subcommand(verify)
        .after_help("Examples:\n  slipring route ctl fib verify --json")
}

/// Returns the job for the command line: the requests of one command, or the shell.
pub(crate) fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    if matches.subcommand().is_none() {
        let name = matches.get_one::<String>("name").cloned();
        return Ok(Box::new(move |session| shell::run(name.as_deref(), session)));
    }
    let (what, args, inner) = request(matches)?;
    let name = inner.get_one::<String>("name").cloned();
    Ok(Box::new(move |session| send(what, args, name.as_deref(), session)))
}

/// Executes a line of the shell. The line applies to the run with this name, unless it names
/// another run.
pub(crate) fn execute(
    matches: &ArgMatches,
    name: Option<&str>,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let (what, args, inner) = request(matches)?;
    let name = inner.get_one::<String>("name").map(String::as_str).or(name);
    let format = flags::format(inner);
    shell::with_format(format, session, |session| send(what, args, name, session)).map(drop)
}

fn send(
    what: &'static str,
    args: Value,
    name: Option<&str>,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let client = ControlClient::find_program(&session.run_dir, name, PROGRAM_NAME);
    let mut client = client.map_err(failure)?;
    match what {
        "trace" => follow_trace(&mut client, args, session),
        "monitor" => follow_events(&mut client, args, session),
        _ => ask(&mut client, what, args, session),
    }
}

fn request(matches: &ArgMatches) -> Result<(&'static str, Value, &ArgMatches), Failure> {
    let (word, args) = matches.subcommand().expect("clap requires one");
    let text = |args: &ArgMatches, id: &str| args.get_one::<String>(id).cloned();
    Ok(match (word, args.subcommand()) {
        ("status", _) => ("status", json!({}), args),
        ("interface", _) => ("interface", json!({ "name": text(args, "interface") }), args),
        ("route", Some(("get", inner))) => {
            let address: &IpAddr = inner.get_one("address").expect("clap requires it");
            ("route.get", json!({ "destination": address }), inner)
        }
        ("route", Some((_, inner))) => {
            let prefix = text(inner, "prefix").map(|text| read_prefix(&text)).transpose()?;
            ("route.show", json!({ "prefix": prefix }), inner)
        }
        ("why", _) => ("why", described_packet(args)?, args),
        ("trace", _) => {
            let filter: Vec<_> =
                args.get_many::<String>("filter").into_iter().flatten().cloned().collect();
            let filter = (!filter.is_empty()).then(|| filter.join(" "));
            let count = args.get_one::<u32>("count").copied().unwrap_or(trace::DEFAULT_COUNT);
            ("trace", json!({ "filter": filter, "count": count }), args)
        }
        ("monitor", _) => {
            let kinds: Vec<_> =
                args.get_many::<String>("kinds").into_iter().flatten().cloned().collect();
            let count = args.get_one::<u64>("count").copied();
            ("monitor", json!({ "kinds": kinds, "count": count }), args)
        }
        ("drop", Some((_, inner))) => ("drop", json!({ "reset": true }), inner),
        ("drop", None) => ("drop", json!({}), args),
        ("punt", _) => ("punt", json!({}), args),
        ("fib", Some((_, inner))) => ("fib.verify", json!({}), inner),
        ("arp", _) => ("neighbour", json!({ "family": 4 }), args),
        ("nd", _) => ("neighbour", json!({ "family": 6 }), args),
        ("reload", _) => ("reload", json!({}), args),
        ("shutdown", _) => ("quit", json!({}), args),
        _ => ("hello", json!({}), args),
    })
}

/// Reads `ADDRESS/LENGTH`, or an address as a prefix of full length. Returns the prefix with its
/// host bits cleared.
pub(crate) fn read_prefix(text: &str) -> Result<String, Failure> {
    let fault = |cause: &str| -> Failure {
        Diagnostic::new(SR0002, format!("`{text}` is no prefix"))
            .with_cause(cause)
            .with_help("write an address and a length: 10.0.0.0/8, 2001:db8::/32")
            .into()
    };
    let (address, len) = text.split_once('/').map_or((text, None), |(a, len)| (a, Some(len)));
    let address: IpAddr = address.parse().map_err(|_| fault("the address is not one of IP"))?;
    let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Ok(bits), str::parse).map_err(|_| fault("the length is no number"))?;
    if len > bits {
        return Err(fault("the length is greater than that of an address"));
    }
    Ok(format!("{}/{len}", masked(address, len)))
}

/// Converts the description of a packet to the arguments of `why`.
fn described_packet(args: &ArgMatches) -> Result<Value, Failure> {
    let words: Vec<_> =
        args.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect();
    let packet = packet_request(&words);
    packet.map_err(|fault| {
        let mistake = Diagnostic::new(SR0002, "the packet is not understood");
        let expected = fault.expected.unwrap_or_default();
        mistake.with_cause(fault.message).with_help(format!("write {expected}")).into()
    })
}

fn packet_request(words: &[&str]) -> Result<Value, CommandFault> {
    let [proto, src, dst, more @ ..] = words else {
        return Err(packet_words::usage_fault("a protocol and two addresses are needed"));
    };
    let options = PacketOptions::parse(more)?;
    let Some(port) = options.port.as_ref().filter(|_| !options.is_out) else {
        return Err(packet_words::usage_fault(
            "`recv` must name the interface on which it arrives",
        ));
    };
    let frame = options.frame(proto, src, dst)?;
    Ok(json!({ "in": port, "packet": packet_words::hex(&frame[ETHERNET_LEN..]) }))
}

/// Sends a request, and further requests for the other pages of a list, and prints the answers.
fn ask(
    client: &mut ControlClient,
    what: &'static str,
    mut args: Value,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    if what == "route.show" && session.reporter.format() != ReportFormat::Text {
        return route_document::print(client, args, session);
    }
    loop {
        let mut answer = client.request(what, args.clone()).map_err(failure)?;
        let next = answer.as_object_mut().and_then(|answer| answer.remove("next"));
        print(what, &answer, session)?;
        match next {
            Some(next) if !next.is_null() => args["after"] = next,
            _ => break,
        }
    }
    Ok(Exit::Done)
}

/// Prints the packets of a trace as they arrive, until the last packet or the end of the router.
fn follow_trace(
    client: &mut ControlClient,
    args: Value,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let mut answer = client.request("trace", args).map_err(failure)?;
    session.reporter.say("tracing")?;
    while answer["left"] != 0 {
        let next = json!({ "trace": answer["trace"] });
        answer = match client.request("trace", next) {
            Ok(answer) => answer,
            Err(ControlError::NoAnswer(_) | ControlError::TimedOut { .. }) => break,
            Err(error) => return Err(failure(error)),
        };
        for packet in answer["packets"].as_array().into_iter().flatten() {
            print("trace", packet, session)?;
        }
        if answer["cut"] == true {
            session.reporter.warn(format_args!(
                "the trace has ended early: the packets of all traces have more than {} MiB",
                MAX_BYTES >> 20
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// Prints events as they come, until as many as wanted are printed or the router ends.
fn follow_events(
    client: &mut ControlClient,
    mut args: Value,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let mut left = args["count"].as_u64().unwrap_or(u64::MAX);
    let mut answer = client.request("monitor", args.clone()).map_err(failure)?;
    session.reporter.say("watching")?;
    while left > 0 {
        args["after"] = answer["next"].take();
        answer = match client.request("monitor", args.clone()) {
            Ok(answer) => answer,
            Err(ControlError::NoAnswer(_) | ControlError::TimedOut { .. }) => break,
            Err(error) => return Err(failure(error)),
        };
        if let Some(lost @ 1..) = answer["lost"].as_u64() {
            session.reporter.warn(format_args!("{lost} events were missed: there are too many"))?;
        }
        for event in answer["events"].as_array().into_iter().flatten().take(left as usize) {
            print("monitor", event, session)?;
            left -= 1;
        }
    }
    Ok(Exit::Done)
}

fn print(what: &str, answer: &Value, session: &mut Session<'_>) -> Result<(), Failure> {
    if session.reporter.format() != ReportFormat::Text {
        return session.reporter.document(&json!({ "answer": answer }), "");
    }
    session.reporter.raw(show::text(what, answer).as_bytes())
}

fn failure(error: ControlError) -> Failure {
    Diagnostic::of(&error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_with_their_host_bits_cleared() {
        for (text, prefix) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8:1::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            assert_eq!(read_prefix(text).unwrap(), prefix);
        }
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "eth0", "10.0.0.0/x", "/8"] {
            assert!(read_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
