//! The device while it is served: the mount, the threads that answer requests, and the native
//! socket.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use slipring_native_proto::NativeListener;
use slipring_netmap::{FdStore, KickDispatcher, Netmap};

use crate::config::FuseConfig;
use crate::error::{FuseError, step_error};
use crate::mount::Mount;
use crate::native::NativeServer;
use crate::reply::FuseConnection;
use crate::restart::ResumeOutcome;
use crate::server::FuseServer;
use crate::uring::{RequestTransport, UringParameterGuard};
use crate::uring_workers::UringWorker;
use crate::{handshake, restart, uring_workers};

/// The native socket API and the threads that serve it.
#[derive(Debug)]
struct NativeThreads {
    native: Arc<NativeServer>,
    kicks: Arc<KickDispatcher>,
    threads: [JoinHandle<()>; 2],
}

impl NativeThreads {
    fn close(self) {
        self.native.stop();
        self.kicks.stop();
        for thread in self.threads {
            // An error is ignored: a thread that panicked has already printed its panic.
            let _ = thread.join();
        }
    }
}

/// The device while it is being served.
#[derive(Debug)]
pub struct FuseDevice {
    server: Arc<FuseServer>,
    mount: Mount,
    transport: RequestTransport,
    workers: usize,
    threads: Vec<JoinHandle<()>>,
    /// The store of descriptors for the next daemon, if the device is persistent.
    store: Option<Arc<dyn FdStore>>,
    /// The native socket API, once it is open.
    native: Option<NativeThreads>,
}

impl FuseDevice {
    /// Mounts the device and serves it.
    ///
    /// # Errors
    /// [`FuseError`]; nothing stays mounted in that case.
    pub fn open(config: &FuseConfig, netmap: Netmap) -> Result<Self, FuseError> {
        let guard = UringParameterGuard::apply(config.uring)?;
        let (mount, device) = Mount::new(&config.dir)?;
        let connection = Arc::new(FuseConnection(device));
        let transport = handshake::negotiate(&connection, config.uring, &guard)?;
        drop(guard);
        let rings = match transport {
            RequestTransport::Device { .. } => Vec::new(),
            RequestTransport::Uring { .. } => {
                uring_workers::plan_workers().map_err(step_error("see the machine's processors"))?
            }
        };
        // With io_uring, few requests arrive through the device, so one reader is enough.
        let readers = if rings.is_empty() { config.readers() } else { 1 };
        let workers = rings.len() + readers;
        let server = FuseServer::new_agreed(connection, config, netmap, workers, 0, None);
        Self::run(server, mount, transport, rings, readers)
    }

    /// Like [`Self::open`], and keeps in `store`, for the next daemon, the state of all files that
    /// programs have open. `handed` holds the descriptors, by name, that the previous daemon left
    /// in the store. If they are consistent, programs continue as if nothing had happened;
    /// otherwise they are discarded and the device starts empty.
    ///
    /// With this function, requests arrive through the device, whatever `config` says: requests in
    /// flight on an io_uring end with the process.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub fn open_persistent(
        config: &FuseConfig,
        netmap: Netmap,
        store: &Arc<dyn FdStore>,
        handed: Vec<(String, OwnedFd)>,
    ) -> Result<(Self, ResumeOutcome), FuseError> {
        let (server, mount, outcome) = restart::start(config, netmap, store, handed)?;
        let transport = RequestTransport::Device { refused: None };
        let mut device = Self::run(server, mount, transport, Vec::new(), config.readers())?;
        device.store = Some(store.clone());
        device.server.parts().files.wake_earlier_pollers();
        Ok((device, outcome))
    }

    fn run(
        server: FuseServer,
        mount: Mount,
        transport: RequestTransport,
        rings: Vec<UringWorker>,
        readers: usize,
    ) -> Result<Self, FuseError> {
        let server = Arc::new(server);
        let workers = rings.len() + readers;
        let mut threads = Vec::new();
        let (ready, are_ready) = channel();
        for (i, ring) in rings.into_iter().enumerate() {
            let ready = ready.clone();
            let serve = move |server: &Arc<FuseServer>| ring.serve(server, i, ready);
            threads.push(spawn(format!("fuse-queue-{i}"), &server, serve)?);
        }
        drop(ready);
        let started: io::Result<()> = are_ready.iter().collect();
        started.map_err(step_error("have requests by io_uring"))?;
        for i in workers - readers..workers {
            threads.push(spawn(format!("fuse-{i}"), &server, move |server| server.run(i))?);
        }
        threads.push(spawn("fuse-ticker".to_owned(), &server, |server| {
            server.netmap().run_ticker();
        })?);
        Ok(Self { server, mount, transport, workers, threads, store: None, native: None })
    }

    /// Returns how requests arrive.
    #[must_use]
    pub fn transport(&self) -> RequestTransport {
        self.transport
    }

    /// Returns the number of threads that answer requests.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Also serves programs that connect to a socket at `path`, unless there is a store: rings that
    /// programs sync themselves do not survive a restart.
    ///
    /// # Errors
    /// [`FuseError`]; the device is still served in that case.
    pub fn open_native(&mut self, path: &Path) -> Result<(), FuseError> {
        if self.store.is_some() {
            return Ok(());
        }
        let failed = |source| FuseError::Step { step: "listen for programs", source };
        let kicks = self.server.netmap().kicks().map_err(|error| failed(error.into()))?;
        let listener = NativeListener::new(path).map_err(failed)?;
        // Each client's permission is checked when it connects; the device's mode may change.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        let native = NativeServer::new(self.server.clone(), kicks.clone(), listener);
        let native = native.map_err(failed)?;
        let (serving, waking) = (native.clone(), kicks.clone());
        let threads = [
            spawn("fuse-native".into(), &self.server, move |_| serving.run())?,
            spawn("fuse-kicks".into(), &self.server, move |_| waking.run())?,
        ];
        self.native = Some(NativeThreads { native, kicks, threads });
        Ok(())
    }

    /// Returns the path of the file that programs open.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.file()
    }

    /// Returns a function that lists, at any time, the domains of all users who have the device
    /// open or own something that outlives their files. Drop it before closing the device.
    pub fn domain_lister(
        &self,
    ) -> impl Fn() -> Vec<Arc<slipring_netmap::Domain>> + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.domains()
    }

    /// Returns a function that frees the memory of users who have no files open and own nothing
    /// that outlives their files. Call it after removing a user's objects other than through the
    /// device. Drop the function before closing the device.
    pub fn memory_releaser(&self) -> impl Fn() + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.release_unused()
    }

    /// Whether no worker has failed, and no worker still serves the request that it served at the
    /// previous call.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.server.is_healthy()
    }

    /// Returns the number of open files.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.server.open_files()
    }

    /// Removes the device from all mount namespaces that have a copy of the mount. Clients that
    /// still have the device open get `POLLERR` and `ENOTCONN`; returns whether there are any.
    pub fn close(self) -> bool {
        self.server.netmap().stop();
        if let Some(store) = &self.store {
            // A deliberate stop: there is no successor.
            restart::remove_from_store(&**store, &self.server);
        }
        if let Some(native) = self.native {
            native.close();
        }
        let removed = self.mount.remove();
        // If the connection has not ended, the threads block in reads until the process ends.
        if removed.has_ended {
            for thread in self.threads {
                // An error is ignored: a thread that panicked has already printed its panic.
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
