//! Answers the requests of the kernel. Any number of threads may call [`FuseServer::run`].

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use slipring_netmap::{Errno, FdStore, Netmap, OpenHandle, OpenId, PollEvents};

use crate::blocking_pool::BlockingPool;
use crate::caller::{CallMemory, Caller, NoTaskMemory, opener};
use crate::close_tracker::CloseTracker;
use crate::config::FuseConfig;
use crate::files::{FuseNode, FuseNodes, OpenFiles};
use crate::long_calls::LongCalls;
use crate::mount::FILE_NAME;
use crate::namespaces::Namespaces;
use crate::parameters::{self, ParameterTree};
use crate::permissions::{PermissionBits, Permissions};
use crate::proto::{
    self, DIRENT_DIR, DIRENT_REG, FuseArgs, FuseAttr, FuseRequest, ROOT_NODE, S_IFDIR, S_IFREG,
    opcode,
};
use crate::reply::{FuseConnection, FuseReply};
use crate::watchdog::Watchdog;

/// How long a poll waits for the program at the other end of a pipe before the caller is put to
/// sleep. Waking the caller would take longer than this.
const POLL_WAIT: Duration = Duration::from_micros(20);

/// The state that all workers share.
#[derive(Debug)]
pub(crate) struct FuseServer {
    connection: Arc<FuseConnection>,
    netmap: Arc<Netmap>,
    nodes: Arc<FuseNodes>,
    files: Arc<OpenFiles>,
    blocking_pool: Arc<BlockingPool>,
    long_calls: Arc<LongCalls>,
    namespaces: Namespaces,
    /// The threads that close files.
    close_pool: Arc<BlockingPool>,
    close_tracker: Arc<CloseTracker>,
    permissions: Arc<Permissions>,
    watchdog: Watchdog,
    parameter_tree: ParameterTree,
    size: u64,
}

/// The parts of [`FuseServer`] whose state the next daemon takes over.
pub(crate) struct PersistentParts<'s> {
    pub(crate) connection: &'s Arc<FuseConnection>,
    pub(crate) netmap: &'s Netmap,
    pub(crate) nodes: &'s FuseNodes,
    pub(crate) files: &'s OpenFiles,
    pub(crate) namespaces: &'s Namespaces,
}

type FuseResult = Result<Vec<u8>, Errno>;

impl FuseServer {
    /// Creates the server of a connection for which INIT is done. `workers` threads will run it.
    /// Its node and file numbers start above `base`.
    pub(crate) fn new_agreed(
        connection: Arc<FuseConnection>,
        config: &FuseConfig,
        netmap: Netmap,
        workers: usize,
        base: u64,
        store: Option<Arc<dyn FdStore>>,
    ) -> Self {
        Self {
            connection,
            netmap: Arc::new(netmap),
            nodes: Arc::new(FuseNodes::new(config.parameters.clone(), base, store.clone())),
            files: Arc::new(OpenFiles::new(base)),
            blocking_pool: Arc::default(),
            long_calls: Arc::default(),
            namespaces: Namespaces::new(store),
            close_pool: Arc::default(),
            close_tracker: Arc::default(),
            permissions: config.permissions.clone(),
            watchdog: Watchdog::new(workers),
            parameter_tree: ParameterTree::new(config.parameters.clone()),
            size: config.parameters.current().domain_bytes,
        }
    }

    /// Returns the parts whose state a restart must restore.
    pub(crate) fn parts(&self) -> PersistentParts<'_> {
        let Self { connection, netmap, nodes, files, namespaces, .. } = self;
        PersistentParts { connection, netmap, nodes, files, namespaces }
    }

    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    pub(crate) fn netmap(&self) -> &Netmap {
        &self.netmap
    }

    pub(crate) fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    pub(crate) fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Returns the memory and ports of `uid`.
    pub(crate) fn domain(&self, uid: u32) -> Result<Arc<slipring_netmap::Domain>, Errno> {
        self.nodes.domain(uid)
    }

    pub(crate) fn blocking_pool(&self) -> &Arc<BlockingPool> {
        &self.blocking_pool
    }

    pub(crate) fn wait_for_closes(&self, uid: u32) {
        self.close_tracker.wait(uid);
    }

    /// Closes a handle that the kernel does not know, for example a handle of the native socket
    /// API.
    pub(crate) fn close(self: &Arc<Self>, open: Arc<OpenHandle>) {
        let (uid, server) = (open.uid(), self.clone());
        let close = self.close_tracker.begin(uid);
        self.close_pool.submit(uid, move || {
            let domain = open.domain().clone();
            drop(open);
            server.nodes.release_domain(domain);
            drop(close);
        });
    }

    /// Frees the memory of users who have no open files and own nothing that exists without open
    /// files.
    pub(crate) fn release_unused(&self) {
        self.nodes.release_unused(self.device());
    }

    pub(crate) fn domains(&self) -> Vec<Arc<slipring_netmap::Domain>> {
        self.nodes.domains()
    }

    /// Closes all files, including those whose close the kernel will not report, and waits until
    /// all are closed. The memory of open files stays as it is, because programs have it mapped.
    pub(crate) fn close_all(&self) {
        let files = self.files.take_all();
        if !files.is_empty() {
            self.nodes.domains().iter().for_each(|domain| domain.keep_memory_mapped());
        }
        drop(files);
        self.close_tracker.wait_for_all();
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.watchdog.is_healthy()
    }

    pub(crate) fn open_files(&self) -> usize {
        self.files.count()
    }

    /// Tells the watchdog that worker number `worker` begins or ends a request.
    #[inline]
    pub(crate) fn heartbeat(&self, worker: usize) {
        self.watchdog.heartbeat(worker);
    }

    /// Tells the watchdog that a worker cannot continue. Calls that it should have answered hang.
    pub(crate) fn fail(&self) {
        self.watchdog.fail();
    }

    /// Answers requests that arrive through the device until it is unmounted.
    pub(crate) fn run(&self, worker: usize) {
        let mut buffer = vec![0; proto::MAX_MESSAGE];
        loop {
            match rustix::io::read(&*self.connection, &mut *buffer) {
                Ok(len) => match FuseRequest::new(&buffer[..len]) {
                    Some(message) => {
                        self.heartbeat(worker);
                        self.dispatch(message);
                        self.heartbeat(worker);
                    }
                    None => return,
                },
                // A caller was killed before this thread had read its request, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }

    #[inline]
    fn dispatch(&self, message: FuseRequest<'_>) {
        match message.opcode() {
            opcode::FORGET => self.forget(message.node(), message.body().u64(0)),
            opcode::BATCH_FORGET => self.batch_forget(message.body()),
            // Only long calls need to be interrupted. All others end by themselves, or wait in the
            // blocking pool for memory of the same caller.
            opcode::INTERRUPT => self.long_calls.interrupt(message.body().u64(0)),
            _ => self.handle(message, FuseReply::to_device(&self.connection, message.unique())),
        }
    }

    /// Answers a request, or queues it to be answered.
    #[inline]
    pub(crate) fn handle(&self, message: FuseRequest<'_>, reply: FuseReply) {
        match message.opcode() {
            opcode::POLL => self.poll(message, reply),
            opcode::IOCTL => self.ioctl(message, reply),
            opcode::RELEASE => self.release(message, reply),
            _ => match self.handle_immediate(message) {
                Ok(answer) => reply.done([&answer, &[]]),
                // EMFILE would say that the caller has too many open files. But it is the server
                // that has too many, so the caller gets ENFILE.
                Err(Errno::MFILE) => reply.refuse(Errno::NFILE),
                Err(error) => reply.refuse(error),
            },
        }
    }

    fn handle_immediate(&self, message: FuseRequest<'_>) -> FuseResult {
        let body = message.body();
        if parameters::is_parameter_node(message.node()) {
            return self.parameter_tree.answer(message);
        }
        match message.opcode() {
            opcode::LOOKUP => self.look_up(message),
            opcode::OPEN => self.open(message),
            opcode::GETATTR => Ok(self.attr(message.node()).answer()),
            // The size of the file cannot change. Its other attributes are set by the operator of
            // the device.
            opcode::SETATTR if body.u32(0) & proto::SET_SIZE != 0 => Err(Errno::INVAL),
            opcode::SETATTR => Err(Errno::PERM),
            opcode::FALLOCATE => Err(Errno::OPNOTSUPP),
            opcode::OPENDIR => Ok(proto::open_out(0, None)),
            opcode::READDIR => Ok(list(body.u64(8))),
            opcode::RELEASEDIR | opcode::DESTROY => Ok(Vec::new()),
            opcode::STATFS => Ok(vec![0; 80]),
            _ => Err(Errno::NOSYS),
        }
    }

    fn attr(&self, node: u64) -> FuseAttr {
        match node {
            ROOT_NODE => FuseAttr { node, size: 0, mode: S_IFDIR | 0o755, uid: 0, gid: 0 },
            _ => {
                let PermissionBits { mode, uid, gid } = self.permissions.bits();
                FuseAttr { node, size: self.size, mode: S_IFREG | mode, uid, gid }
            }
        }
    }

    fn look_up(&self, message: FuseRequest<'_>) -> FuseResult {
        if message.node() == ROOT_NODE
            && message.body().name() == parameters::DIRECTORY_NAME.as_bytes()
        {
            return Ok(self.parameter_tree.directory().entry());
        }
        if message.node() != ROOT_NODE || message.body().name() != FILE_NAME.as_bytes() {
            return Err(Errno::NOENT);
        }
        Ok(self.attr(self.nodes.look_up(message.uid())).entry())
    }

    fn open(&self, message: FuseRequest<'_>) -> FuseResult {
        let (number, uid) = (message.node(), message.uid());
        let before =
            message.is_resent().then(|| self.files.handle_opened_by(message.call())).flatten();
        if let (Some(handle), Some(node)) = (before, self.nodes.get(number)) {
            return Ok(proto::open_out(handle, Some(node.backing)));
        }
        let node = self.nodes.open(self.device(), number, uid)?;
        let backing = node.backing;
        let opened = self.open_on(node, message);
        if opened.is_err() {
            self.nodes.close(self.device(), number);
        }
        Ok(proto::open_out(opened?, Some(backing)))
    }

    /// Opens a file on a node and returns the handle of the file.
    fn open_on(&self, node: FuseNode, message: FuseRequest<'_>) -> Result<u64, Errno> {
        let opener = opener(&self.namespaces, message.tid(), message.uid())?;
        let open_id = OpenId { handle: self.files.next_handle(), call: message.call() };
        let open =
            self.netmap.open_persistent(node.domain, opener, self.connection.clone(), open_id)?;
        self.files.insert(open_id.handle, open);
        Ok(open_id.handle)
    }

    fn release(&self, message: FuseRequest<'_>, reply: FuseReply) {
        if parameters::is_parameter_node(message.node()) {
            return reply.done([&[], &[]]);
        }
        let open = self.files.remove(message.body().u64(0));
        let Some(open) = open else { return reply.done([&[], &[]]) };
        let uid = open.uid();
        let close = self.close_tracker.begin(uid);
        let (nodes, connection, node) =
            (self.nodes.clone(), self.connection.clone(), message.node());
        self.close_pool.submit(uid, move || {
            drop(open);
            nodes.close(connection.as_fd(), node);
            drop(close);
            reply.done([&[], &[]]);
        });
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.nodes.forget(self.device(), node, lookups);
    }

    fn batch_forget(&self, body: FuseArgs<'_>) {
        for pair in body.bytes_from(8).chunks_exact(16).take(body.u32(0) as usize) {
            self.forget(FuseArgs(pair).u64(0), FuseArgs(pair).u64(8));
        }
    }

    #[inline]
    fn poll(&self, message: FuseRequest<'_>, reply: FuseReply) {
        let body = message.body();
        let Some(open) = self.files.get(body.u64(0)) else { return reply.refuse(Errno::BADF) };
        let arm = (body.u32(16) & proto::POLL_SCHEDULE_NOTIFY != 0).then(|| body.u64(8));
        let wanted = PollEvents(body.u32(20));
        if !open.has_indirect() {
            return poll(open, wanted, arm, reply);
        }
        let (tid, uid) = (message.tid(), message.uid());
        self.blocking_pool.submit(uid, move || {
            if let Ok(mut memory) = Caller::open(tid, uid) {
                // After an error, the frames that were not fetched stay queued, and the poll sends
                // the frames before them.
                let _ = open.fetch_indirect(&mut memory);
            }
            poll(open, wanted, arm, reply);
        });
    }

    #[inline]
    fn ioctl(&self, message: FuseRequest<'_>, reply: FuseReply) {
        let body = message.body();
        let Some(open) = self.files.get(body.u64(0)) else { return reply.refuse(Errno::BADF) };
        let cmd = body.u32(12);
        let (netmap, argument) = (self.netmap.clone(), body.bytes_from(32).to_vec());
        let reaches = Netmap::touches_caller(cmd) || Netmap::is_sync(cmd) && open.has_indirect();
        let call = IoctlCall { netmap, open, cmd, reply, argument };
        if Netmap::is_sync(cmd) && !reaches {
            return call.perform(Ok(NoTaskMemory));
        }
        let (tid, uid) = (message.tid(), message.uid());
        let (closing, owner) = (self.close_tracker.clone(), call.open.uid());
        if Netmap::runs_until_cancelled(cmd, &call.argument) {
            // If no thread can be started, the call is dropped, and is thereby refused.
            let lasts = move |cancel| {
                closing.wait(owner);
                call.perform(Caller::open(tid, uid).map(|caller| caller.with_cancel(cancel)));
            };
            return self.long_calls.perform(message.unique(), lasts);
        }
        self.blocking_pool.submit(uid, move || {
            closing.wait(owner);
            match reaches {
                true => call.perform(Caller::open(tid, uid)),
                false => call.perform(Ok(NoTaskMemory)),
            }
        });
    }
}

/// Answers a poll.
#[inline]
fn poll(open: Arc<OpenHandle>, wanted: PollEvents, arm: Option<u64>, reply: FuseReply) {
    let events = open.poll(wanted, arm, POLL_WAIT);
    // The handle is dropped before the reply is sent, as in `IoctlCall::perform`.
    drop(open);
    reply.done([&proto::poll_out(events.0), &[]]);
}

/// An ioctl that has to be performed.
struct IoctlCall {
    netmap: Arc<Netmap>,
    open: Arc<OpenHandle>,
    cmd: u32,
    reply: FuseReply,
    argument: Vec<u8>,
}

impl IoctlCall {
    #[inline]
    fn perform(mut self, memory: Result<impl slipring_netmap::CallerMemory, Errno>) {
        let call = proto::call_of(self.reply.unique());
        let done = memory.and_then(|memory| {
            let memory = &mut CallMemory(memory, call);
            perform(&self.netmap, &self.open, self.cmd, &mut self.argument, memory)
        });
        // The server's reference must be dropped before the reply is sent. If the program then
        // closes the file, this drops the last reference.
        drop(self.open);
        // As in netmap, the argument is copied back even if the call fails.
        let result = done.unwrap_or_else(|error| -error.raw_os_error());
        self.reply.done([&proto::ioctl_out(result), &self.argument]);
    }
}

/// Performs an ioctl and returns its result.
///
/// Sometimes a port is busy just because an earlier close was not processed yet: with io_uring,
/// each processor has its own worker, and the worker that must process the close has not run since.
/// So after EBUSY, the call is tried again for 85 ms.
#[inline]
pub(crate) fn perform(
    netmap: &Netmap,
    open: &OpenHandle,
    cmd: u32,
    argument: &mut Vec<u8>,
    memory: &mut dyn slipring_netmap::CallerMemory,
) -> Result<i32, Errno> {
    const BUSY_RETRY_DELAYS_MS: [u64; 4] = [1, 4, 16, 64];
    let asked = argument.clone();
    let mut done = netmap.ioctl(open, cmd, argument, memory);
    for pause_ms in BUSY_RETRY_DELAYS_MS {
        if done != Err(Errno::BUSY) || Netmap::is_sync(cmd) {
            break;
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        argument.clone_from(&asked);
        done = netmap.ioctl(open, cmd, argument, memory);
    }
    done
}

/// Returns the body of a reply that lists the device's directory, starting at entry `from`.
fn list(from: u64) -> Vec<u8> {
    // The node number of the file depends on the user. Here, any number except 0 is accepted.
    let entries = [
        (ROOT_NODE, DIRENT_DIR, "."),
        (ROOT_NODE, DIRENT_DIR, ".."),
        (parameters::FIRST_FREE_NODE, DIRENT_REG, FILE_NAME),
        (parameters::DIRECTORY_NODE, DIRENT_DIR, parameters::DIRECTORY_NAME),
    ];
    let numbered = entries.into_iter().zip(1u64..).skip(from as usize);
    numbered.flat_map(|((node, kind, name), next)| proto::dirent(node, next, kind, name)).collect()
}
