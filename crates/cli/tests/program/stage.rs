//! A program of three commands, one of them hidden, and a harness that captures what it prints.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use slipring_cli::codes::{SR0401, SR0404};
use slipring_cli::report::{PortReport, PortTraffic, ReportSample};
use slipring_cli::units::{Count, RateUnit, RateWithUnit};
use slipring_cli::{
    ClassicName, CliProgram, Diagnostic, Exit, Failure, Job, OutputStreams, Session, Verb, flags,
};

pub(crate) static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "netmap for stock Linux",
    version: "1.2.3",
    verbs: &VERBS,
};

static VERBS: [Verb; 3] = [
    Verb {
        name: "gen",
        classic: &[ClassicName { name: "pkt-gen", status: classic_status }],
        command: gen_command,
        plan: plan_gen,
        no_metrics: None,
    },
    Verb {
        name: "bridge",
        classic: &[ClassicName { name: "bridge", status: |exit| u8::from(exit != Exit::Done) }],
        command: || {
            let ports = Arg::new("ports").value_name(flags::PORT_VALUE).num_args(0..).hide(true);
            flags::reporting(Command::new("bridge").about("Join two ports").arg(ports))
        },
        plan: |_| Ok(Box::new(|_| Ok(Exit::Done))),
        no_metrics: None,
    },
    Verb {
        name: "ports",
        classic: &[],
        command: || {
            let names = Arg::new("names").long("names").action(ArgAction::SetTrue);
            Command::new("ports").hide(true).arg(names)
        },
        plan: |_| {
            let names = b"xdp:eth0\nxdp:eth1\npacket:eth0\n";
            Ok(Box::new(|session| session.reporter.raw(names).map(|()| Exit::Done)))
        },
        no_metrics: None,
    },
];

/// Exit statuses as `pkt-gen` has them: 255 for usage, 1 for a failure, and (a mistake of
/// `pkt-gen`) 0 for a lost peer.
fn classic_status(exit: Exit) -> u8 {
    match exit {
        Exit::Done | Exit::PeerLost => 0,
        Exit::Usage => 255,
        Exit::Expectation | Exit::Machine => 1,
    }
}

fn gen_command() -> Command {
    let command = Command::new("gen")
        .about("Generate traffic")
        .arg(flags::port().required(true))
        .arg(
            Arg::new("function")
                .short('f')
                .long("function")
                .value_parser(["tx", "rx"])
                .default_value("rx"),
        )
        .arg(Arg::new("count").short('n').long("count").value_parser(str::parse::<Count>))
        .arg(
            Arg::new("rate")
                .short('R')
                .long("rate")
                .value_name("RATE")
                .value_parser(|text: &str| RateWithUnit::parse(text, RateUnit::Packets)),
        )
        .arg(Arg::new("dst").short('d').long("dst").action(ArgAction::Append))
        .arg(Arg::new("wait").long("wait").action(ArgAction::SetTrue))
        .arg(Arg::new("end").long("end").hide(true))
        .arg(Arg::new("peer").long("peer").value_name(flags::RUN_VALUE).hide(true));
    flags::run_dir(flags::configuration(flags::reporting(command)))
}

#[derive(Serialize)]
struct GenExtra {
    rate_pps: u64,
    lost: u64,
}

fn plan_gen(matches: &ArgMatches) -> Result<Job, Failure> {
    let ending = matches.get_one::<String>("end").cloned();
    Ok(Box::new(move |session| run_gen(ending.as_deref(), session)))
}

fn run_gen(ending: Option<&str>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let mut sample = ReportSample {
        elapsed: Duration::ZERO,
        ports: vec![port()],
        in_flight: 0,
        copies: 0,
        extra: GenExtra { rate_pps: 14_880_952, lost: 3 },
    };
    let out = &mut *session.reporter;
    out.start(Some(42), "tsc", &sample.ports)?;
    out.say("talking")?;
    out.say_at(1, "talking more")?;
    sample.elapsed = Duration::from_secs(1);
    out.interval(&sample, "14.88 Mpps")?;
    out.interim(&sample, "interim 14.88 Mpps")?;
    out.end(&sample, format_args!("sent 7, lost {}", sample.extra.lost))?;
    match ending {
        Some("loss") => Err(Diagnostic::new(SR0404, "lost too much").into()),
        Some("gone") => Err(Diagnostic::new(SR0401, "eth0 vanished").into()),
        Some("classic") => {
            out.raw(session.classic.unwrap_or("none").as_bytes()).map(|()| Exit::Done)
        }
        Some("run-dir") => {
            out.raw(session.run_dir.as_os_str().as_encoded_bytes()).map(|()| Exit::Done)
        }
        _ => Ok(Exit::Done),
    }
}

fn port() -> PortReport {
    PortReport {
        settings: [("queues".to_owned(), "1".to_owned())].into(),
        name: "xdp:eth0".into(),
        kind: "xdp".into(),
        mode: "zerocopy".into(),
        driver: Some("veth".into()),
        rx: PortTraffic::default(),
        tx: PortTraffic { packets: 7, bytes: 420 },
        drops: [("tx_ring_full".into(), 3)].into(),
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: u8,
    pub(crate) data: String,
    pub(crate) talk: String,
}

/// Runs a command line whose words are separated by spaces.
pub(crate) fn run(line: &str) -> Outcome {
    let args: Vec<_> = line.split_whitespace().map(Into::into).collect();
    run_words(&args)
}

/// Runs a command line.
pub(crate) fn run_words(args: &[OsString]) -> Outcome {
    let (data, talk) = (Caught::default(), Caught::default());
    let streams = OutputStreams {
        stdout: Box::new(data.clone()),
        stderr: Box::new(talk.clone()),
        coloured: false,
    };
    let status = PROGRAM.run(args, streams);
    Outcome { status, data: data.text(), talk: talk.text() }
}

/// Writes a file with this text, in a directory that the test removes.
pub(crate) fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("gen.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[derive(Clone, Default)]
struct Caught(Arc<Mutex<Vec<u8>>>);

impl Caught {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Caught {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
