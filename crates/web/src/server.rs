//! The server: it accepts connections with limits and timeouts, and shuts down.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::{Value, json};
use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0002;
use slipring_control::peer_table::{ConnectionPeer, MAX_CONNECTIONS};
use slipring_control::socket_owner;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use crate::AccessToken;
use crate::access::WebAccess;
use crate::api::{WebState, router};
use crate::connections::ConnectionTable;
use crate::counters::HttpCounters;
use crate::guard::WebClient;

/// Maximum number of clients that follow a stream of events at the same time.
const MAX_WATCHERS: usize = 32;
/// Maximum length of a request's head in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum time to receive the head of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a stopping server waits for answers that are not complete.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the server waits before it accepts again after a failure, for example because the
/// process ran out of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Options of a gateway.
#[derive(Debug, Clone)]
pub struct WebOptions {
    /// Address on which to listen; port 0 takes a free port.
    pub listen: SocketAddr,
    /// The token that clients must have. It is required if other machines can reach the address.
    pub token: Option<AccessToken>,
    /// The only run to which the gateway gives access, by name or process id. `None` means all
    /// runs.
    pub target: Option<String>,
    /// Directory of the control sockets.
    pub run_dir: PathBuf,
    /// The settings of well-known kinds of links. The page shows them.
    pub presets: Value,
}

impl WebOptions {
    /// Creates options that give access to all runs in a directory, without a token and without
    /// presets.
    #[must_use]
    pub fn on(listen: SocketAddr, run_dir: &Path) -> Self {
        Self { listen, token: None, target: None, run_dir: run_dir.to_owned(), presets: json!([]) }
    }
}

/// A running gateway, which stops on drop.
#[derive(Debug)]
pub struct WebGateway {
    address: SocketAddr,
    counters: Arc<HttpCounters>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl WebGateway {
    /// Starts the gateway.
    ///
    /// # Errors
    /// [`Diagnostic`] if the address requires a token and there is none, or if the address cannot
    /// be used.
    pub fn open(options: WebOptions) -> Result<Self, Diagnostic> {
        let access = WebAccess::of(options.listen, options.token)?;
        let refused = |error: std::io::Error| {
            let summary = format!("cannot listen on {}", options.listen);
            let help =
                "take another address of this machine: --listen 127.0.0.1:0 takes a free port";
            Diagnostic::new(SR0002, summary).with_cause(error.to_string()).with_help(help)
        };
        let listener = StdListener::bind(options.listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (stop, stopped) = watch::channel(false);
        let counts = Arc::new(HttpCounters::default());
        let gate = Arc::new(WebState {
            access,
            port: address.port(),
            run_dir: options.run_dir,
            target: options.target,
            presets: options.presets,
            watcher_permits: Arc::new(Semaphore::new(MAX_WATCHERS)),
            stop: stopped,
            counters: counts.clone(),
        });
        let runtime = runtime().map_err(refused)?;
        let thread = std::thread::Builder::new().name("gateway".to_owned());
        let thread = thread.spawn(move || serve(runtime, listener, gate)).map_err(refused)?;
        Ok(Self { address, counters: counts, stop, thread: Some(thread) })
    }

    /// Returns the address on which the gateway listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters. They can be read even after the gateway has stopped.
    #[must_use]
    pub fn counters(&self) -> Arc<HttpCounters> {
        self.counters.clone()
    }

    /// Stops accepting connections, ends the streams of events, and waits at most one second until
    /// other answers are complete.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for WebGateway {
    fn drop(&mut self) {
        // An error is ignored, because it only means that the thread has already ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked, which it has already reported.
            let _ = thread.join();
        }
    }
}

/// Creates a runtime. It has one thread for all connections, and one for each request that waits
/// for a run.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(2 * MAX_CONNECTIONS).build()
}

fn serve(runtime: Runtime, listener: StdListener, gate: Arc<WebState>) {
    runtime.block_on(async {
        // The listener is non-blocking and the runtime is running, so an error is not expected.
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept_all(listener, &gate).await;
        }
    });
    // This does not wait for the threads that wait for a run: they end with the run or with the
    // process.
    runtime.shutdown_background();
}

async fn accept_all(listener: TcpListener, gate: &Arc<WebState>) {
    let (table, graceful) = (Arc::new(ConnectionTable::default()), GracefulShutdown::new());
    let (router, mut stop) = (router(gate.clone()), gate.stop.clone());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, client)) = accepted else {
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        gate.counters.count_connection();
        let peer = peer(&stream, client, gate).await;
        // This is not used if there is a token: the guard then looks for it in each request.
        let may_ask = peer == ConnectionPeer::Trusted;
        // If there is no place for the connection, it is refused and not queued.
        let Some(slot) = table.acquire(peer).map(Arc::new) else {
            gate.counters.count_rejected();
            continue;
        };
        let client = WebClient { may_ask, slot: slot.clone() };
        let served = connection(stream, client, (&router, &gate.counters), &graceful);
        tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                () = slot.wait_evicted() => {}
            }
        });
    }
    drop(listener);
    // Connections that are still open after the timeout are closed.
    let _ = timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
}

/// Serves a connection until it ends.
fn connection(
    stream: TcpStream,
    client: WebClient,
    (router, counts): (&Router, &Arc<HttpCounters>),
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    let (router, counts) = (router.clone(), counts.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        let answered = router.clone().call(request.map(Body::new));
        let counts = counts.clone();
        async move {
            let answer = answered.await.unwrap_or_else(|never| match never {});
            counts.count_response(answer.status());
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let served = graceful.watch(served);
    async move {
        // An error only means that the client has closed the connection early.
        let _ = served.await;
    }
}

/// Returns the peer of a connection. Its user is determined only if the gateway admits only users
/// of this machine.
async fn peer(stream: &TcpStream, client: SocketAddr, gate: &WebState) -> ConnectionPeer {
    match (&gate.access, stream.local_addr()) {
        (WebAccess::Token(_), _) => ConnectionPeer::machine(client.ip()),
        (WebAccess::Own(_), Ok(server)) => {
            let owner = spawn_blocking(move || socket_owner::owner(client, server)).await;
            ConnectionPeer::user(owner.ok().flatten())
        }
        (WebAccess::Own(_), Err(_)) => ConnectionPeer::User(None),
    }
}
