//! Shows what a running command does to whoever looks: `slipring top`, or any reader of
//! [`slipring_core::counters`].
//!
//! A thread of its own copies the figures that the command has anyway, some times a second, so a
//! frame costs nothing more and nobody has to be asked. A command that cannot publish goes on.
//!
//! Not for: what a report tells in full; here stand the figures that are watched.

mod ports;

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use slipring_cli::{Failure, Session};
use slipring_core::counters::Publisher;
use slipring_monitor::names::{Names, Object, SCHEMA};
use slipring_port::{Nanos, now};

use crate::meter::Meter;

/// Between two looks, where there are few links.
const SOON: Duration = Duration::from_millis(100);
/// Between two looks at most, as often as reports come anyway.
const LATE: Duration = Duration::from_secs(1);
/// The board shows all links at once, so thousands are shown less often.
const PER_LINK: Duration = Duration::from_millis(1);

/// Figures that are published until this is dropped.
pub struct Publishing {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a command has to show beside its ports: its links.
pub trait Watched: Send {
    /// The name and the seed of the run.
    fn run(&self) -> (Option<String>, u64);

    /// How many there are.
    fn count(&self) -> usize;

    /// Adds them and the meaning of their words.
    fn describe(&self, names: &mut Names);

    /// Adds their words as they are now; the time of that, 0 where it is not known.
    fn look(&mut self, words: &mut Vec<u64>) -> Nanos;

    /// The causes of losses between them and a port.
    fn between(&self) -> Vec<&'static str>;

    /// Adds the packets that were lost so at port `at` when they were last looked at.
    fn lost(&self, at: usize, words: &mut Vec<u64>);
}

/// Publishes the counters of ports, and the figures of links where there are any.
///
/// # Errors
/// If stderr cannot be written, where it says that there is nothing to watch.
pub fn start(
    meter: Meter,
    links: Option<Box<dyn Watched>>,
    session: &mut Session<'_>,
) -> Result<Option<Publishing>, Failure> {
    match Source::new(meter, links).publish(&session.run_dir) {
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
    links: Option<Box<dyn Watched>>,
    names: Names,
}

impl Source {
    fn new(meter: Meter, links: Option<Box<dyn Watched>>) -> Self {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let (name, seed) = links.as_ref().map_or((None, None), |links| {
            let (name, seed) = links.run();
            (name, Some(seed))
        });
        let mut names = Names {
            schema: SCHEMA,
            line: args.collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name,
            seed,
            ..Names::default()
        };
        if let Some(links) = &links {
            links.describe(&mut names);
        }
        let between = links.as_ref().map_or_else(Vec::new, |links| links.between());
        names.describe("port", ports::counters(&between));
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
        let links = self.links.as_ref().map_or(0, |links| links.count());
        let period = PER_LINK.saturating_mul(links as u32).clamp(SOON, LATE);
        let mut words = Vec::new();
        loop {
            words.clear();
            // Links that were never looked at have no time yet.
            let time = self.links.as_mut().map_or(0, |links| links.look(&mut words));
            for (at, (_, counts)) in self.meter.snapshots().enumerate() {
                ports::values(&counts, &mut words);
                if let Some(links) = &self.links {
                    links.lost(at, &mut words);
                }
            }
            publisher.publish(if time > 0 { time } else { now() }, words.iter().copied());
            if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}
