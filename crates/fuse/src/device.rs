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
            // An error is ignored, because a thread that panicked has already printed its panic.
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
    /// The store that keeps descriptors for the next daemon; `None` if the device is not
    /// persistent.
    store: Option<Arc<dyn FdStore>>,
    /// The native socket API; `None` if it is not open.
    native: Option<NativeThreads>,
}

impl FuseDevice {
    /// Mounts the device and serves it.
    ///
    /// # Errors
    /// [`FuseError`] if the device cannot be mounted or served. Nothing stays mounted then.
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
        // With io_uring, only few requests arrive through the device. So one reader is enough.
        let readers = if rings.is_empty() { config.readers() } else { 1 };
        let workers = rings.len() + readers;
        let server = FuseServer::new_agreed(connection, config, netmap, workers, 0, None);
        Self::run(server, mount, transport, rings, readers)
    }

    /// Like [`Self::open`], but keeps the state of all open files in `store` for the next daemon.
    /// `handed` has the descriptors that the previous daemon left in the store, by name. If they
    /// are consistent, programs continue as if nothing had happened. Otherwise they are discarded,
    /// and the device starts empty.
    ///
    /// Requests always arrive through the device, whatever `config` says. The reason is that
    /// requests in an io_uring are lost when the process ends.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
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

    /// Returns whether requests arrive through the device or by io_uring.
    #[must_use]
    pub fn transport(&self) -> RequestTransport {
        self.transport
    }

    /// Returns the number of threads that answer requests.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Also serves programs that connect to a socket at `path`. Does nothing if there is a store,
    /// because rings that programs sync themselves do not survive a restart.
    ///
    /// # Errors
    /// [`FuseError`] if the socket cannot be opened or served. The device is still served then.
    pub fn open_native(&mut self, path: &Path) -> Result<(), FuseError> {
        if self.store.is_some() {
            return Ok(());
        }
        let failed = |source| FuseError::Step { step: "listen for programs", source };
        let kicks = self.server.netmap().kicks().map_err(|error| failed(error.into()))?;
        let listener = NativeListener::new(path).map_err(failed)?;
        // Any user may connect, because each client's permission is checked when it connects. A
        // stricter mode of the socket would not follow later changes of the device's mode.
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
    /// open or own something that exists without open files. The function must be dropped before
    /// the device is closed.
    pub fn domain_lister(
        &self,
    ) -> impl Fn() -> Vec<Arc<slipring_netmap::Domain>> + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.domains()
    }

    /// Returns a function that frees the memory of users who have no open files and own nothing
    /// that exists without open files. It must be called after an object of a user was removed by
    /// other means than the device. It must be dropped before the device is closed.
    pub fn memory_releaser(&self) -> impl Fn() + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.release_unused()
    }

    /// Returns whether no worker has failed and no worker still serves the same request as at the
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
    /// still have the device open get `POLLERR` and `ENOTCONN`. Returns whether there are such
    /// clients.
    pub fn close(self) -> bool {
        self.server.netmap().stop();
        if let Some(store) = &self.store {
            // The device is stopped deliberately, so no other daemon will continue it.
            restart::remove_from_store(&**store, &self.server);
        }
        if let Some(native) = self.native {
            native.close();
        }
        let removed = self.mount.remove();
        // If the FUSE connection has not ended, the threads wait in reads until the process ends,
        // so they are not joined.
        if removed.has_ended {
            for thread in self.threads {
                // An error is ignored, because a thread that panicked has already printed its
                // panic.
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
