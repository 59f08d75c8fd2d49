//! Private network namespaces for tests, each held by a thread that runs jobs inside it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

type Job = Box<dyn FnOnce() + Send>;

/// A namespace with loopback up; it is removed when this is dropped.
pub(crate) struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

impl Namespace {
    /// Creates a namespace; `None`, with a message, if that is not permitted.
    pub(crate) fn new() -> Option<Self> {
        let (jobs, todo) = channel::<Job>();
        let (report, reported) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: a new network namespace changes nothing that other threads rely on.
            let made = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            report.send(made.map(|()| gettid().as_raw_nonzero().get())).unwrap();
            if made.is_ok() {
                todo.into_iter().for_each(|job| job());
            }
        });
        match reported.recv().unwrap() {
            Ok(tid) => {
                let namespace = Self { jobs: Some(jobs), thread: Some(thread), tid };
                namespace.ip("link set lo up");
                Some(namespace)
            }
            Err(error) => {
                println!("skipped: cannot make a network namespace: {error}");
                None
            }
        }
    }

    /// Runs `job` inside and returns what it returns.
    pub(crate) fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (give, take) = channel();
        let job: Job = Box::new(move || give.send(job()).unwrap_or(()));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        take.recv().expect("the job panicked; see above")
    }

    /// Runs `ip` with words separated by spaces.
    pub(crate) fn ip(&self, words: &str) {
        self.command("ip", words);
    }

    /// Runs a program that must succeed; returns its output.
    pub(crate) fn command(&self, program: &'static str, words: &str) -> String {
        let words = words.to_owned();
        self.run(move || {
            let words = words.split_ascii_whitespace().collect::<Vec<_>>();
            let done = Command::new(program).args(&words).output().unwrap();
            assert!(
                done.status.success(),
                "{program} {words:?}: {}{}",
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            );
            String::from_utf8_lossy(&done.stdout).into_owned()
        })
    }

    /// Creates a pair of interfaces: `here` in this namespace, `there` in the other. Both are up
    /// and quiet.
    pub(crate) fn veth(&self, here: &str, other: &Self, there: &str, extra: &str) {
        self.ip(&format!(
            "link add {here} {extra} type veth peer name {there} {extra} netns {}",
            other.tid
        ));
        self.quiet(here);
        other.quiet(there);
        self.ip(&format!("link set {here} up"));
        other.ip(&format!("link set {there} up"));
    }

    /// Keeps an interface from sending on its own (IPv6 router and neighbour discovery).
    pub(crate) fn quiet(&self, ifname: &str) {
        // `/proc/sys/net` shows the namespace of the reading thread.
        let path = format!("/proc/sys/net/ipv6/conf/{ifname}/disable_ipv6");
        self.run(move || std::fs::write(path, "1")).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        let finished = self.thread.take().map(JoinHandle::join);
        assert!(finished.is_none_or(|result| result.is_ok()) || std::thread::panicking());
    }
}
