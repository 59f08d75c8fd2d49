//! `slipring serve`: the web page of running emulators and routers, and their JSON API over HTTP.
//!
//! The web crate does the work; this module has the flags, and the signals that end the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use slipring_cli::{Exit, Failure, Job, Session, Signals, Verb, flags, metrics};
use slipring_datapath::confine::Confinement;
use slipring_web::{AccessToken, WebGateway, WebOptions, page_missing};

use slipring_emulation::presets;

pub(crate) const VERB: Verb = Verb { name: "serve", classic: &[], command, plan, no_metrics: None };

fn command() -> Command {
    let listen = Arg::new("listen")
        .long("listen")
        .value_name("ADDR")
        .default_value("127.0.0.1:8086")
        .value_parser(|text: &str| {
            let wrong = |_| "write an address and a port, as 127.0.0.1:8086 or [::1]:8086";
            text.parse::<SocketAddr>().map_err(wrong)
        })
        .help("Address and port; port 0 takes a free one. Beyond loopback a token is needed");
    let token = Arg::new("token")
        .long("token")
        .value_name("TOKEN")
        .conflicts_with("token-file")
        .help("What clients must know; other users of this machine can see it in ps");
    let file = Arg::new("token-file")
        .long("token-file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("File with the token in its first line");
    let target = Arg::new("target")
        .long("target")
        .value_name("NAME")
        .help("Lead to this run only, by name or process number [default: all of this user]");
    let command = Command::new("serve")
        .about("Show running emulators and routers on a web page, and change emulators there")
        .after_help(
            "Without a token, programs of this user and of root are answered, and under sudo those\n\
             of the user who called it. With one, the page is opened as /?token=TOKEN.\n\
             POST /api/v1/TARGET/WHAT asks what `slipring emulate ctl WHAT --json` would show.\n\n\
             Examples:\n  \
             slipring serve\n  \
             slipring serve --listen 0.0.0.0:8080 --token-file token",
        )
        .args([listen, token, file, target]);
    flags::run_dir(flags::configuration(flags::reporting(metrics::flag(command))))
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let listen = *matches.get_one("listen").expect("it has a default");
    let text = matches.get_one::<String>("token").map(|text| AccessToken::new(text));
    let file = matches.get_one::<PathBuf>("token-file").map(|path| AccessToken::read(path));
    let token = text.or(file).transpose()?;
    let target = matches.get_one::<String>("target").cloned();
    Ok(Box::new(move |session| {
        let run_dir = session.run_dir.clone();
        run(WebOptions { listen, token, target, run_dir, presets: presets() }, session)
    }))
}

fn run(options: WebOptions, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let signals = Signals::install()?;
    // The capability to open other users' files is kept, because the control sockets of their runs
    // are opened later.
    Confinement::drop_all().opening_files().listening_on(options.listen.port()).begin(session)?;
    let gateway = WebGateway::open(options)?;
    let url = format!("http://{}/", gateway.address());
    if let Some(why) = page_missing() {
        session.reporter.warn(format_args!(
            "this build has no page ({why}); the API works. For the page: apt-get install nodejs \
             npm; touch web/package.json; make release"
        ))?;
    }
    session
        .reporter
        .write_started(&json!({ "url": url }), format_args!("# slipring serves {url}"))?;
    let counts = gateway.counters();
    let _metrics = metrics::serve(session, move || Ok(counts.text()))?;
    while !signals.stopping() {
        // An interrupted poll is no error: the stop flag is checked again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(signals.wake_fd(), PollFlags::IN)], None);
        signals.acknowledge();
    }
    gateway.stop();
    Ok(Exit::Done)
}
