//! Publishes the counters of a running command, for `slipring top` and for any other reader of
//! [`slipring_core::counters`].
//!
//! While a reader is active, a separate thread copies the counters one to ten times a second. So
//! there is no additional cost per frame. Without readers, the thread sleeps. The next read wakes
//! it, and new values appear a moment later. If a command cannot publish its counters, it continues
//! without that.
//!
//! Not for complete reports: only counters that are worth watching are published.

mod metrics;
mod ports;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use slipring_cli::{Failure, Session};
use slipring_core::counters::{Publisher, ReaderEvents};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;
use slipring_top::schema::{MetricObject, MetricSchema, SCHEMA_VERSION};

pub use metrics::serve_metrics;

use crate::meter::PortMeter;

/// Time between two updates if there are few objects.
const MIN_PUBLISH_PERIOD: Duration = Duration::from_millis(100);
/// Maximum time between two updates, which is the default period of reports.
const MAX_PUBLISH_PERIOD: Duration = Duration::from_secs(1);
/// Time between two updates, per object. An update is for all objects, so it takes longer if there
/// are more of them.
const PUBLISH_PERIOD_PER_OBJECT: Duration = Duration::from_millis(1);
/// For how long updates continue after a read. A reader that comes in this time finds recent
/// values.
const WATCHED_FOR_NS: Nanos = 3_000_000_000;

/// Counters are published until this value is dropped.
pub struct PublishGuard {
    stop: Arc<PublisherStop>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the publishing thread to end.
struct PublisherStop {
    is_set: AtomicBool,
    doorbell: Doorbell,
}

/// A function that waits until a descriptor is readable or a timeout has expired, such as `poll`.
type PollFn = fn(&mut [PollFd<'_>], Option<&Timespec>) -> rustix::io::Result<usize>;

/// The objects of a command other than its ports: the links of an emulator, the parts of a router.
pub trait ObjectMetrics: Send {
    /// Returns the name of the run, and its seed if it has one.
    fn run(&self) -> (Option<String>, Option<u64>);

    /// Returns the number of objects.
    fn count(&self) -> usize;

    /// Adds to `names` the objects, and the names of the counters that are published for each.
    fn describe(&self, names: &mut MetricSchema);

    /// Appends the current words of all objects. Returns the time of these values, or 0 if it is
    /// not known.
    fn sample(&mut self, words: &mut Vec<u64>) -> Nanos;

    /// Returns the causes for which packets are lost between links and a port.
    fn boundary_loss_causes(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Appends how many packets were lost between links and port `at`, as of the last
    /// [`Self::sample`].
    fn boundary_losses(&self, _at: usize, _words: &mut Vec<u64>) {}
}

/// Publishes the counters of ports, and those of other objects if `objects` is given, until the
/// returned value is dropped. Returns `None` if counters cannot be published.
///
/// # Errors
/// [`Failure`] if stderr cannot be written. If counters cannot be published, this is only reported
/// there, to users who ask for details.
pub fn start(
    meter: PortMeter,
    objects: Option<Box<dyn ObjectMetrics>>,
    session: &mut Session<'_>,
) -> Result<Option<PublishGuard>, Failure> {
    let publishing = open(meter, objects, session)?.map(OpenPublication::start);
    publishing.map_or(Ok(None), |started| or_report(started, session))
}

/// A file for counters, to which nothing is written yet. A program opens it while it may still
/// create files in the run directory.
pub struct OpenPublication {
    source: MetricsSource,
    publisher: Publisher,
}

/// Like [`start`], but only creates the file. [`OpenPublication::start`] then publishes the
/// counters.
///
/// # Errors
/// As [`start`].
pub fn open(
    meter: PortMeter,
    objects: Option<Box<dyn ObjectMetrics>>,
    session: &mut Session<'_>,
) -> Result<Option<OpenPublication>, Failure> {
    let source = MetricsSource::new(meter, objects);
    let publisher = source.open(&session.run_dir);
    or_report(publisher.map(|publisher| OpenPublication { source, publisher }), session)
}

impl OpenPublication {
    /// Publishes the counters.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub fn start(self) -> io::Result<PublishGuard> {
        self.source.start(self.publisher)
    }
}

/// Returns the result; `None` for an error, which is reported only to users who ask for details.
fn or_report<T>(done: io::Result<T>, session: &mut Session<'_>) -> Result<Option<T>, Failure> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) => {
            let message = format_args!("# nothing to see for slipring top: {error}");
            session.reporter.say_at(1, message).map(|()| None)
        }
    }
}

impl Drop for PublishGuard {
    fn drop(&mut self) {
        // Relaxed: the flag does not guard other data. The doorbell stays readable until the thread
        // has seen the flag.
        self.stop.is_set.store(true, Ordering::Relaxed);
        self.stop.doorbell.ring();
        if let Some(thread) = self.thread.take() {
            // The thread has already reported its panic.
            let _ = thread.join();
        }
    }
}

/// The source of the values of the published counters.
struct MetricsSource {
    meter: PortMeter,
    objects: Option<Box<dyn ObjectMetrics>>,
    names: MetricSchema,
    wait: PollFn,
}

impl MetricsSource {
    fn new(meter: PortMeter, objects: Option<Box<dyn ObjectMetrics>>) -> Self {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let (name, seed) = objects.as_ref().map_or((None, None), |objects| objects.run());
        let mut names = MetricSchema {
            schema: SCHEMA_VERSION,
            line: args.collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name,
            seed,
            ..MetricSchema::default()
        };
        if let Some(objects) = &objects {
            objects.describe(&mut names);
        }
        let between = objects.as_ref().map_or_else(Vec::new, |of| of.boundary_loss_causes());
        names.describe("port", ports::counters(&between));
        for (name, _) in meter.snapshots() {
            let (kind, name) = ("port".to_owned(), name.to_owned());
            names.add(MetricObject { kind, name, ..MetricObject::default() });
        }
        Self { meter, objects, names, wait: poll }
    }

    fn open(&self, dir: &Path) -> io::Result<Publisher> {
        Publisher::open(dir, &self.names.text(), self.names.words())
    }

    fn start(mut self, mut publisher: Publisher) -> io::Result<PublishGuard> {
        let stop =
            Arc::new(PublisherStop { is_set: AtomicBool::new(false), doorbell: Doorbell::new()? });
        let stopped = stop.clone();
        let thread = spawn(move || self.run(&mut publisher, &stopped));
        Ok(PublishGuard { stop, thread: Some(thread) })
    }

    fn run(&mut self, publisher: &mut Publisher, stop: &PublisherStop) {
        let objects = self.objects.as_ref().map_or(0, |objects| objects.count());
        let period = PUBLISH_PERIOD_PER_OBJECT
            .saturating_mul(objects as u32)
            .clamp(MIN_PUBLISH_PERIOD, MAX_PUBLISH_PERIOD);
        // If it is unknown whether there are readers, updates continue all the time.
        let readers = publisher.readers().ok();
        let (mut words, mut watched_until) = (Vec::new(), 0);
        loop {
            self.publish_once(publisher, &mut words);
            if readers.as_ref().is_some_and(ReaderEvents::take_events) {
                watched_until = now() + WATCHED_FOR_NS;
            }
            match &readers {
                Some(readers) if now() >= watched_until => {
                    self.wait_for_readers(stop, Some(readers), None)
                }
                _ => self.wait_for_readers(stop, None, Some(period)),
            }
            if stop.is_set.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn publish_once(&mut self, publisher: &mut Publisher, words: &mut Vec<u64>) {
        words.clear();
        // The time is 0 if there are no objects, or if they were never sampled.
        let time = self.objects.as_mut().map_or(0, |objects| objects.sample(words));
        for (at, (_, counts)) in self.meter.snapshots().enumerate() {
            ports::values(&counts, words);
            if let Some(objects) = &self.objects {
                objects.boundary_losses(at, words);
            }
        }
        publisher.publish(if time > 0 { time } else { now() }, words.iter().copied());
    }

    /// Waits for a reader (if `readers` is given), for `time` (if it is given), or until the
    /// publisher stops.
    fn wait_for_readers(
        &self,
        stop: &PublisherStop,
        readers: Option<&ReaderEvents>,
        time: Option<Duration>,
    ) {
        let limit = time.map(|time| Timespec::try_from(time).expect("it is a second at most"));
        let mut fds = vec![PollFd::from_borrowed_fd(stop.doorbell.as_fd(), PollFlags::IN)];
        fds.extend(readers.map(|readers| PollFd::from_borrowed_fd(readers.as_fd(), PollFlags::IN)));
        match (self.wait)(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // The kernel may lack memory. Updates continue, but more slowly.
            Err(_) => sleep(time.unwrap_or(MAX_PUBLISH_PERIOD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use slipring_core::counters::{CountersReader, running};
    use slipring_top::schema::MetricCounter;

    use super::*;

    /// Links that count how often they are sampled.
    struct SampleCount(Arc<AtomicU64>);

    impl ObjectMetrics for SampleCount {
        fn run(&self) -> (Option<String>, Option<u64>) {
            (None, None)
        }

        fn count(&self) -> usize {
            1
        }

        fn describe(&self, names: &mut MetricSchema) {
            names.describe("link", vec![MetricCounter::growing("looks", "")]);
            let (kind, name) = ("link".to_owned(), "up".to_owned());
            names.add(MetricObject { kind, name, ..MetricObject::default() });
        }

        fn sample(&mut self, words: &mut Vec<u64>) -> Nanos {
            words.push(self.0.fetch_add(1, Ordering::Relaxed) + 1);
            now()
        }
    }

    fn publish(source: MetricsSource, dir: &Path) -> PublishGuard {
        let publisher = source.open(dir).unwrap();
        source.start(publisher).unwrap()
    }

    #[test]
    fn figures_are_published_for_those_who_look_and_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let looks = Arc::new(AtomicU64::new(0));
        let links: Box<dyn ObjectMetrics> = Box::new(SampleCount(looks.clone()));
        let publishing = publish(MetricsSource::new(PortMeter::new(&[]), Some(links)), dir.path());
        let count = || looks.load(Ordering::Relaxed);
        let eventually = |what: &dyn Fn() -> bool| {
            let until = now() + 10_000_000_000;
            while !what() {
                assert!(now() < until, "waited in vain, {} looks", count());
                sleep(Duration::from_millis(1));
            }
        };
        eventually(&|| count() >= 1);
        // In this time, many updates are possible.
        sleep(10 * MIN_PUBLISH_PERIOD);
        assert_eq!(count(), 1, "nobody looks, and nothing is done");
        let mut reader = CountersReader::open(&running(dir.path())[0].path).unwrap();
        reader.read().unwrap();
        // The read wakes the publisher once. Updates then continue without further reads.
        eventually(&|| count() >= 5);
        assert!(reader.read().unwrap().words[0] >= 4);
        drop(publishing);
        assert!(!reader.is_alive());
    }

    #[test]
    fn figures_are_published_though_waiting_fails_and_the_end_comes_soon() {
        let dir = tempfile::tempdir().unwrap();
        let looks = Arc::new(AtomicU64::new(0));
        let links: Box<dyn ObjectMetrics> = Box::new(SampleCount(looks.clone()));
        let mut source = MetricsSource::new(PortMeter::new(&[]), Some(links));
        source.wait = |_, _| Err(Errno::NOMEM);
        let publishing = publish(source, dir.path());
        let until = now() + 10_000_000_000;
        while looks.load(Ordering::Relaxed) < 2 {
            assert!(now() < until, "nothing is shown any more");
            sleep(Duration::from_millis(1));
        }
        drop(publishing);
    }
}
