//! Shows what a running command does to whoever looks: `slipring top`, or any reader of
//! [`slipring_core::counters`].
//!
//! A thread of its own copies the figures that the command has anyway, some times a second, so a
//! frame costs nothing more and nobody has to be asked. A command that cannot publish goes on.
//!
//! Not for: what a report tells in full; here stand the figures that are watched.

mod links;
mod ports;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use slipring_cli::{Failure, Session};
use slipring_core::counters::Publisher;
use slipring_link::NetworkSpec;
use slipring_monitor::names::{Names, Object, SCHEMA};
use slipring_port::now;

use crate::emulate::realtime::Board;
use crate::meter::Meter;
use links::Links;

/// Between two looks, where there are few links.
const SOON: Duration = Duration::from_millis(100);
/// Between two looks at most, as often as reports come anyway.
const LATE: Duration = Duration::from_secs(1);
/// The board shows all links at once, so thousands are shown less often.
const PER_LINK: Duration = Duration::from_millis(1);

/// Figures that are published until this is dropped.
pub(crate) struct Publishing {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What is published of links.
pub(crate) struct Watched {
    /// The name of the run.
    pub(crate) name: Option<String>,
    /// Its seed.
    pub(crate) seed: u64,
    /// Where states come from.
    pub(crate) board: Arc<Board>,
    /// The links as they are now.
    pub(crate) network: Box<dyn Fn() -> Arc<NetworkSpec> + Send>,
}

/// Publishes the counters of ports, and the figures of links where there are any.
///
/// # Errors
/// If stderr cannot be written, where it says that there is nothing to watch.
pub(crate) fn start(
    meter: Meter,
    watched: Option<Watched>,
    session: &mut Session<'_>,
) -> Result<Option<Publishing>, Failure> {
    match Source::new(meter, watched).publish(&session.run_dir) {
        Ok(publishing) => Ok(Some(publishing)),
        Err(error) => {
            let told = format_args!("# nothing to see for slipring top: {error}");
            session.reporter.say_at(1, told).map(|()| None)
        }
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic was told by its thread already.
            let _ = thread.join();
        }
    }
}

/// Where the words come from.
struct Source {
    meter: Meter,
    links: Option<Links>,
    names: Names,
}

impl Source {
    fn new(meter: Meter, watched: Option<Watched>) -> Self {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let mut names = Names {
            schema: SCHEMA,
            line: args.collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: watched.as_ref().and_then(|watched| watched.name.clone()),
            seed: watched.as_ref().map(|watched| watched.seed),
            ..Names::default()
        };
        let links = watched.map(Links::new);
        if let Some(links) = &links {
            links.describe(&mut names);
        }
        names.describe("port", ports::counters(links.is_some()));
        for (name, _) in meter.snapshots() {
            let (kind, name) = ("port".to_owned(), name.to_owned());
            names.add(Object { kind, name, ..Object::default() });
        }
        Self { meter, links, names }
    }

    fn publish(mut self, dir: &Path) -> io::Result<Publishing> {
        let mut publisher = Publisher::open(dir, &self.names.text(), self.names.words())?;
        let (stop, stopped) = channel();
        let thread = spawn(move || self.run(&mut publisher, &stopped));
        Ok(Publishing { stop: Some(stop), thread: Some(thread) })
    }

    fn run(&mut self, publisher: &mut Publisher, stopped: &Receiver<()>) {
        let links = self.links.as_ref().map_or(0, Links::len);
        let period = PER_LINK.saturating_mul(links as u32).clamp(SOON, LATE);
        let mut words = Vec::new();
        loop {
            words.clear();
            let state = self.links.as_mut().map(|links| links.look(&mut words));
            for (at, (_, counts)) in self.meter.snapshots().enumerate() {
                ports::values(&counts, at, state.as_deref(), &mut words);
            }
            // Links that were never looked at have no time yet.
            let time = state.map(|state| state.account.at_ns).filter(|&at_ns| at_ns > 0);
            publisher.publish(time.unwrap_or_else(now), words.iter().copied());
            if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}
