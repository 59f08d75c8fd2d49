//! `/dev/netmap` for programs that were written for netmap and never heard of us.
//!
//! ```text
//!   program            kernel                     this crate               slipring-netmap
//!   open, close  --->  FUSE: LOOKUP, OPEN, RELEASE ---> server, files  --->  Open (made, dropped)
//!   ioctl, poll  --->  FUSE: IOCTL, POLL      ------->  server         --->  Open::sync, poll
//!     (NIOCCTRL  --->        "      )         ------->  desk           --->  Netmap::ioctl
//!     (close     --->        "      )         ------->  closing        --->  what it gives back
//!   mmap         --->  passthrough: the domain's memfd itself
//!   asleep in poll <-  FUSE_NOTIFY_POLL       <-------  reply          <---  Notify
//! ```
//!
//! Requests are read from the FUSE device, or come through a ring for each processor (`lanes`,
//! [`Uring`]); answers go the way that the request came (`reply`).
//!
//! The file is real, so dup, fork, exec and descriptor passing need no care: the kernel tells when
//! the last reference is gone. Each user finds a node of his own under the one name, with the
//! memory of his domain behind it.
//!
//! # Invariants
//! 1. A worker thread never waits for a client. Calls that read or write a client's memory, which
//!    may be a page that never comes, run at a desk of their own with a limit per user.
//! 2. The process that serves never opens its own mount.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod caller;
mod closing;
mod desk;
mod files;
mod handshake;
mod lanes;
mod lasting;
mod link;
mod mount;
mod namespaces;
mod native;
mod outbox;
mod pages;
mod parameters;
mod permissions;
mod proto;
mod reply;
mod restart;
mod server;
#[allow(unsafe_code)]
mod sys;
mod uring;
mod vitals;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use slipring_netmap::{Kicks, Netmap, Parameters, Store};
use slipring_proto::Listener;

pub use link::DeviceLink;
pub use permissions::Permissions;
pub use restart::Outcome;
pub use uring::{Uring, Way};

use reply::Connection;
use server::Server;
use uring::Held;

/// Where and for whom the device is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory to mount on; made if it is not there.
    pub dir: PathBuf,
    /// Who may open the device, which may change while it runs.
    pub permissions: Arc<Permissions>,
    /// Threads that answer what comes by the device; at least two, so that one that waits a little
    /// leaves another.
    pub workers: usize,
    /// Whether requests come by io_uring instead.
    pub uring: Uring,
    /// Sizes of memory and rings, which may change while it runs.
    pub parameters: Arc<Parameters>,
}

impl Config {
    /// Threads that read requests from the device, where all come by it.
    fn readers(&self) -> usize {
        self.workers.max(2)
    }
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// The kernel has no passthrough.
    #[error("the kernel's FUSE has no passthrough; it came with Linux 6.9")]
    NoPassthrough,
    /// io_uring was asked for, and the kernel has none for FUSE.
    #[error("the kernel's FUSE has no io_uring; it came with Linux 6.14")]
    NoUring,
    /// Not allowed to, or not possible.
    #[error("cannot {step}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl DoorError {
    pub(crate) fn step(step: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |error| Self::Step { step, source: error.into() }
    }
}

/// The other way in, and who waits there.
#[derive(Debug)]
struct NativeDoor {
    native: Arc<native::Native>,
    kicks: Arc<Kicks>,
    threads: [JoinHandle<()>; 2],
}

impl NativeDoor {
    fn close(self) {
        self.native.stop();
        self.kicks.stop();
        for thread in self.threads {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// The device while it is served.
#[derive(Debug)]
pub struct Door {
    server: Arc<Server>,
    mount: mount::Mount,
    way: Way,
    workers: usize,
    threads: Vec<JoinHandle<()>>,
    /// What is kept for the process that follows.
    store: Option<Arc<dyn Store>>,
    /// The other way in, once it is opened.
    native: Option<NativeDoor>,
}

impl Door {
    /// Mounts the device and serves it.
    ///
    /// # Errors
    /// [`DoorError`]; nothing stays mounted then.
    pub fn open(config: &Config, netmap: Netmap) -> Result<Self, DoorError> {
        let held = Held::as_wanted(config.uring)?;
        let (mount, device) = mount::Mount::new(&config.dir)?;
        let connection = Arc::new(Connection(device));
        let way = handshake::agree(&connection, config.uring, &held)?;
        drop(held);
        let lanes = match way {
            Way::Device { .. } => Vec::new(),
            Way::Uring { .. } => lanes::plan().map_err(cannot("see the machine's processors"))?,
        };
        // Little comes by the device where there are rings.
        let readers = if lanes.is_empty() { config.readers() } else { 1 };
        let workers = lanes.len() + readers;
        let server = Server::over(connection, config, netmap, workers, 0, None);
        Self::run(server, mount, way, lanes, readers)
    }

    /// The same, with all that programs have kept in `store` for the process that follows this one.
    /// `handed` is what the one before it has left there, by name: where that makes sense, programs
    /// go on as if nothing had happened; where it does not, it is given up and the device is new.
    ///
    /// Requests come by the device here, whatever `config` says: those that are under way by
    /// io_uring end with the process.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_kept(
        config: &Config,
        netmap: Netmap,
        store: &Arc<dyn Store>,
        handed: Vec<(String, OwnedFd)>,
    ) -> Result<(Self, Outcome), DoorError> {
        let (server, mount, outcome) = restart::start(config, netmap, store, handed)?;
        let way = Way::Device { refused: None };
        let mut door = Self::run(server, mount, way, Vec::new(), config.readers())?;
        door.store = Some(store.clone());
        door.server.parts().files.wake_old();
        Ok((door, outcome))
    }

    fn run(
        server: Server,
        mount: mount::Mount,
        way: Way,
        lanes: Vec<lanes::Lane>,
        readers: usize,
    ) -> Result<Self, DoorError> {
        let server = Arc::new(server);
        let workers = lanes.len() + readers;
        let mut threads = Vec::new();
        let (ready, are_ready) = channel();
        for (i, lane) in lanes.into_iter().enumerate() {
            let ready = ready.clone();
            let serve = move |server: &Arc<Server>| lane.serve(server, i, ready);
            threads.push(spawn(format!("door-queue-{i}"), &server, serve)?);
        }
        drop(ready);
        let said: io::Result<()> = are_ready.iter().collect();
        said.map_err(cannot("have requests by io_uring"))?;
        for i in workers - readers..workers {
            threads.push(spawn(format!("door-{i}"), &server, move |server| server.work(i))?);
        }
        threads.push(spawn("door-ticker".to_owned(), &server, |server| {
            server.netmap().run_ticker();
        })?);
        Ok(Self { server, mount, way, workers, threads, store: None, native: None })
    }

    /// How requests come.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
    }

    /// How many threads answer them.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Lets programs in by a socket at `path`, too, unless there is a store: what programs sync
    /// themselves does not outlive a restart.
    ///
    /// # Errors
    /// [`DoorError`]; the device is served all the same.
    pub fn open_native(&mut self, path: &Path) -> Result<(), DoorError> {
        if self.store.is_some() {
            return Ok(());
        }
        let failed = |source| DoorError::Step { step: "listen for programs", source };
        let kicks = self.server.netmap().kicks().map_err(|error| failed(error.into()))?;
        let listener = Listener::new(path).map_err(failed)?;
        // Who may is asked of each who connects; the device's mode may change.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        let native = native::Native::new(self.server.clone(), kicks.clone(), listener);
        let native = native.map_err(failed)?;
        let (serving, waking) = (native.clone(), kicks.clone());
        let threads = [
            spawn("door-native".into(), &self.server, move |_| serving.work())?,
            spawn("door-kicks".into(), &self.server, move |_| waking.run())?,
        ];
        self.native = Some(NativeDoor { native, kicks, threads });
        Ok(())
    }

    /// The file that programs open.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.file()
    }

    /// Tells, at any time, the domains of all users who have the device open or something going on
    /// in it. To be dropped before the device is closed.
    pub fn overview(&self) -> impl Fn() -> Vec<Arc<slipring_netmap::Domain>> + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.domains()
    }

    /// Lets the memory go of users of whom nothing is left, at any time: to be called when something of
    /// theirs was removed by another way than the device. To be dropped before the device is closed.
    pub fn tidier(&self) -> impl Fn() + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.tidy()
    }

    /// Whether no worker has been with one request since the last time that this was asked.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.server.is_well()
    }

    /// How many files are open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.server.open_files()
    }

    /// Takes the device away, in all mount namespaces that have a copy of the mount. Clients that
    /// still have it open see `POLLERR` and `ENOTCONN`; returns whether there are any.
    pub fn close(self) -> bool {
        self.server.netmap().stop();
        if let Some(store) = &self.store {
            // Ended on purpose: nobody follows.
            restart::forget(&**store, &self.server);
        }
        if let Some(native) = self.native {
            native.close();
        }
        let removed = self.mount.remove();
        // Else they end with the process.
        if removed.has_ended {
            for thread in self.threads {
                // One that panicked has said so already.
                let _ = thread.join();
            }
        }
        self.server.close_all();
        removed.in_use
    }
}

fn spawn(
    name: String,
    server: &Arc<Server>,
    work: impl FnOnce(&Arc<Server>) + Send + 'static,
) -> Result<JoinHandle<()>, DoorError> {
    let server = server.clone();
    let spawned = std::thread::Builder::new().name(name).spawn(move || work(&server));
    spawned.map_err(cannot("start a thread"))
}

fn cannot(step: &'static str) -> impl Fn(io::Error) -> DoorError {
    move |source| DoorError::Step { step, source }
}
