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

mod blocking_pool;
mod caller;
mod close_tracker;
mod device_link;
mod files;
mod handshake;
mod long_calls;
mod mount;
mod namespaces;
mod native;
mod pages;
mod parameters;
mod permissions;
mod proto;
mod reply;
mod reply_queue;
mod restart;
mod server;
#[allow(unsafe_code)]
mod sys;
mod uring;
mod uring_workers;
mod watchdog;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use slipring_native_proto::NativeListener;
use slipring_netmap::{FdStore, KickDispatcher, Netmap, Parameters};

pub use device_link::DeviceLink;
pub use permissions::Permissions;
pub use restart::ResumeOutcome;
pub use uring::{RequestTransport, UringMode};

use reply::FuseConnection;
use server::FuseServer;
use uring::UringParameterGuard;

/// Where and for whom the device is.
#[derive(Debug, Clone)]
pub struct FuseConfig {
    /// Directory to mount on; made if it is not there.
    pub dir: PathBuf,
    /// Who may open the device, which may change while it runs.
    pub permissions: Arc<Permissions>,
    /// Threads that answer what comes by the device; at least two, so that one that waits a little
    /// leaves another.
    pub workers: usize,
    /// Whether requests come by io_uring instead.
    pub uring: UringMode,
    /// Sizes of memory and rings, which may change while it runs.
    pub parameters: Arc<Parameters>,
}

impl FuseConfig {
    /// Threads that read requests from the device, where all come by it.
    fn readers(&self) -> usize {
        self.workers.max(2)
    }
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuseError {
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

impl FuseError {
    pub(crate) fn step(step: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |error| Self::Step { step, source: error.into() }
    }
}

/// The other way in, and who waits there.
#[derive(Debug)]
struct NativeThreads {
    native: Arc<native::NativeServer>,
    kicks: Arc<KickDispatcher>,
    threads: [JoinHandle<()>; 2],
}

impl NativeThreads {
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
pub struct FuseDevice {
    server: Arc<FuseServer>,
    mount: mount::Mount,
    transport: RequestTransport,
    workers: usize,
    threads: Vec<JoinHandle<()>>,
    /// What is kept for the process that follows.
    store: Option<Arc<dyn FdStore>>,
    /// The other way in, once it is opened.
    native: Option<NativeThreads>,
}

impl FuseDevice {
    /// Mounts the device and serves it.
    ///
    /// # Errors
    /// [`DoorError`]; nothing stays mounted then.
    pub fn open(config: &FuseConfig, netmap: Netmap) -> Result<Self, FuseError> {
        let held = UringParameterGuard::apply(config.uring)?;
        let (mount, device) = mount::Mount::new(&config.dir)?;
        let connection = Arc::new(FuseConnection(device));
        let way = handshake::negotiate(&connection, config.uring, &held)?;
        drop(held);
        let lanes = match way {
            RequestTransport::Device { .. } => Vec::new(),
            RequestTransport::Uring { .. } => {
                uring_workers::plan_workers().map_err(step_error("see the machine's processors"))?
            }
        };
        // Little comes by the device where there are rings.
        let readers = if lanes.is_empty() { config.readers() } else { 1 };
        let workers = lanes.len() + readers;
        let server = FuseServer::new_agreed(connection, config, netmap, workers, 0, None);
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
    pub fn open_persistent(
        config: &FuseConfig,
        netmap: Netmap,
        store: &Arc<dyn FdStore>,
        handed: Vec<(String, OwnedFd)>,
    ) -> Result<(Self, ResumeOutcome), FuseError> {
        let (server, mount, outcome) = restart::start(config, netmap, store, handed)?;
        let way = RequestTransport::Device { refused: None };
        let mut door = Self::run(server, mount, way, Vec::new(), config.readers())?;
        door.store = Some(store.clone());
        door.server.parts().files.wake_earlier_pollers();
        Ok((door, outcome))
    }

    fn run(
        server: FuseServer,
        mount: mount::Mount,
        way: RequestTransport,
        lanes: Vec<uring_workers::UringWorker>,
        readers: usize,
    ) -> Result<Self, FuseError> {
        let server = Arc::new(server);
        let workers = lanes.len() + readers;
        let mut threads = Vec::new();
        let (ready, are_ready) = channel();
        for (i, lane) in lanes.into_iter().enumerate() {
            let ready = ready.clone();
            let serve = move |server: &Arc<FuseServer>| lane.serve(server, i, ready);
            threads.push(spawn(format!("door-queue-{i}"), &server, serve)?);
        }
        drop(ready);
        let said: io::Result<()> = are_ready.iter().collect();
        said.map_err(step_error("have requests by io_uring"))?;
        for i in workers - readers..workers {
            threads.push(spawn(format!("door-{i}"), &server, move |server| server.run(i))?);
        }
        threads.push(spawn("door-ticker".to_owned(), &server, |server| {
            server.netmap().run_ticker();
        })?);
        Ok(Self { server, mount, transport: way, workers, threads, store: None, native: None })
    }

    /// How requests come.
    #[must_use]
    pub fn transport(&self) -> RequestTransport {
        self.transport
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
    pub fn open_native(&mut self, path: &Path) -> Result<(), FuseError> {
        if self.store.is_some() {
            return Ok(());
        }
        let failed = |source| FuseError::Step { step: "listen for programs", source };
        let kicks = self.server.netmap().kicks().map_err(|error| failed(error.into()))?;
        let listener = NativeListener::new(path).map_err(failed)?;
        // Who may is asked of each who connects; the device's mode may change.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        let native = native::NativeServer::new(self.server.clone(), kicks.clone(), listener);
        let native = native.map_err(failed)?;
        let (serving, waking) = (native.clone(), kicks.clone());
        let threads = [
            spawn("door-native".into(), &self.server, move |_| serving.run())?,
            spawn("door-kicks".into(), &self.server, move |_| waking.run())?,
        ];
        self.native = Some(NativeThreads { native, kicks, threads });
        Ok(())
    }

    /// The file that programs open.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.file()
    }

    /// Tells, at any time, the domains of all users who have the device open or something going on
    /// in it. To be dropped before the device is closed.
    pub fn domain_lister(
        &self,
    ) -> impl Fn() -> Vec<Arc<slipring_netmap::Domain>> + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.domains()
    }

    /// Lets the memory go of users of whom nothing is left, at any time: to be called when something of
    /// theirs was removed by another way than the device. To be dropped before the device is closed.
    pub fn memory_releaser(&self) -> impl Fn() + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.release_unused()
    }

    /// Whether no worker has been with one request since the last time that this was asked.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.server.is_healthy()
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
            restart::remove_from_store(&**store, &self.server);
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
    server: &Arc<FuseServer>,
    work: impl FnOnce(&Arc<FuseServer>) + Send + 'static,
) -> Result<JoinHandle<()>, FuseError> {
    let server = server.clone();
    let spawned = std::thread::Builder::new().name(name).spawn(move || work(&server));
    spawned.map_err(step_error("start a thread"))
}

fn step_error(step: &'static str) -> impl Fn(io::Error) -> FuseError {
    move |source| FuseError::Step { step, source }
}
