//! Answers the kernel's requests: any number of threads in [`Server::work`].

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use slipring_netmap::{Errno, Events, Netmap, Open, Store, Ticket};

use crate::Config;
use crate::caller::{Caller, NoMemory, Numbered, opener};
use crate::closing::Closing;
use crate::desk::Desk;
use crate::files::{Files, Node, Nodes};
use crate::lasting::Lasting;
use crate::mount::FILE;
use crate::namespaces::Namespaces;
use crate::parameters::{self, Tree};
use crate::permissions::{Permissions, Shown};
use crate::proto::{self, Attr, Body, DIR, Message, REG, ROOT, S_IFDIR, S_IFREG, opcode};
use crate::reply::{Connection, Reply};
use crate::vitals::Vitals;

/// How long a poll waits for what its peer is about to do, rather than put the caller to sleep:
/// less than waking it would take.
const PATIENCE: Duration = Duration::from_micros(20);

/// The device.
#[derive(Debug)]
pub(crate) struct Server {
    connection: Arc<Connection>,
    netmap: Arc<Netmap>,
    nodes: Arc<Nodes>,
    files: Arc<Files>,
    desk: Arc<Desk>,
    lasting: Arc<Lasting>,
    namespaces: Namespaces,
    /// For closes.
    closers: Arc<Desk>,
    closing: Arc<Closing>,
    permissions: Arc<Permissions>,
    vitals: Vitals,
    tree: Tree,
    size: u64,
}

/// What of it outlives the process.
pub(crate) struct Parts<'s> {
    pub(crate) connection: &'s Arc<Connection>,
    pub(crate) netmap: &'s Netmap,
    pub(crate) nodes: &'s Nodes,
    pub(crate) files: &'s Files,
    pub(crate) namespaces: &'s Namespaces,
}

type Answer = Result<Vec<u8>, Errno>;

impl Server {
    /// The device of a connection on which all is agreed, which so many workers will serve. Numbers
    /// that it gives begin behind `base`.
    pub(crate) fn over(
        connection: Arc<Connection>,
        config: &Config,
        netmap: Netmap,
        workers: usize,
        base: u64,
        store: Option<Arc<dyn Store>>,
    ) -> Self {
        Self {
            connection,
            netmap: Arc::new(netmap),
            nodes: Arc::new(Nodes::new(config.parameters.clone(), base, store.clone())),
            files: Arc::new(Files::new(base)),
            desk: Arc::default(),
            lasting: Arc::default(),
            namespaces: Namespaces::new(store),
            closers: Arc::default(),
            closing: Arc::default(),
            permissions: config.permissions.clone(),
            vitals: Vitals::new(workers),
            tree: Tree::new(config.parameters.clone()),
            size: config.parameters.now().domain_bytes,
        }
    }

    /// What a restart has to fill.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Self { connection, netmap, nodes, files, namespaces, .. } = self;
        Parts { connection, netmap, nodes, files, namespaces }
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

    /// The memory and names of `uid`.
    pub(crate) fn domain(&self, uid: u32) -> Result<Arc<slipring_netmap::Domain>, Errno> {
        self.nodes.domain(uid)
    }

    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    pub(crate) fn wait_for_closes(&self, uid: u32) {
        self.closing.wait(uid);
    }

    /// Closes a file that the kernel knows nothing of.
    pub(crate) fn close(self: &Arc<Self>, open: Arc<Open>) {
        let (uid, server) = (open.uid(), self.clone());
        let close = self.closing.begin(uid);
        self.closers.submit(uid, move || {
            let domain = open.domain().clone();
            drop(open);
            server.nodes.let_go(domain);
            drop(close);
        });
    }

    /// Lets the memory go that nothing needs any more.
    pub(crate) fn tidy(&self) {
        self.nodes.sweep(self.device());
    }

    pub(crate) fn domains(&self) -> Vec<Arc<slipring_netmap::Domain>> {
        self.nodes.domains()
    }

    /// Closes all files, also those of which the kernel will tell us no more, and waits for it. The
    /// memory of those that are open stays as it is: their programs have it mapped.
    pub(crate) fn close_all(&self) {
        let files = self.files.take();
        if !files.is_empty() {
            self.nodes.domains().iter().for_each(|domain| domain.leave_memory());
        }
        drop(files);
        self.closing.wait_for_all();
    }

    pub(crate) fn is_well(&self) -> bool {
        self.vitals.is_well()
    }

    pub(crate) fn open_files(&self) -> usize {
        self.files.count()
    }

    /// A worker begins or ends a request.
    #[inline]
    pub(crate) fn beat(&self, worker: usize) {
        self.vitals.beat(worker);
    }

    /// A worker cannot go on, and so its callers cannot.
    pub(crate) fn fail(&self) {
        self.vitals.fail();
    }

    /// Answers requests that come by the device until it is unmounted.
    pub(crate) fn work(&self, worker: usize) {
        let mut buffer = vec![0; proto::MAX_MESSAGE];
        loop {
            match rustix::io::read(&*self.connection, &mut *buffer) {
                Ok(len) => match Message::new(&buffer[..len]) {
                    Some(message) => {
                        self.beat(worker);
                        self.take(message);
                        self.beat(worker);
                    }
                    None => return,
                },
                // A caller was killed before we took its request, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }

    #[inline]
    fn take(&self, message: Message<'_>) {
        match message.opcode() {
            opcode::FORGET => self.forget(message.node(), message.body().u64(0)),
            opcode::BATCH_FORGET => self.batch_forget(message.body()),
            // What else can be interrupted ends by itself within microseconds, or waits at the
            // desk for memory of the very caller.
            opcode::INTERRUPT => self.lasting.interrupt(message.body().u64(0)),
            _ => self.handle(message, Reply::by_device(&self.connection, message.unique())),
        }
    }

    /// Answers a request, or has it answered.
    #[inline]
    pub(crate) fn handle(&self, message: Message<'_>, reply: Reply) {
        match message.opcode() {
            opcode::POLL => self.poll(message, reply),
            opcode::IOCTL => self.ioctl(message, reply),
            opcode::RELEASE => self.release(message, reply),
            _ => match self.other(message) {
                Ok(answer) => reply.done([&answer, &[]]),
                // It is not the caller who has too many files open.
                Err(Errno::MFILE) => reply.refuse(Errno::NFILE),
                Err(error) => reply.refuse(error),
            },
        }
    }

    fn other(&self, message: Message<'_>) -> Answer {
        let body = message.body();
        if parameters::has(message.node()) {
            return self.tree.answer(message);
        }
        match message.opcode() {
            opcode::LOOKUP => self.look_up(message),
            opcode::OPEN => self.open(message),
            opcode::GETATTR => Ok(self.attr(message.node()).answer()),
            // The file's size is fixed; the rest is for the one who starts the device to say.
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

    fn attr(&self, node: u64) -> Attr {
        match node {
            ROOT => Attr { node, size: 0, mode: S_IFDIR | 0o755, uid: 0, gid: 0 },
            _ => {
                let Shown { mode, uid, gid } = self.permissions.shown();
                Attr { node, size: self.size, mode: S_IFREG | mode, uid, gid }
            }
        }
    }

    fn look_up(&self, message: Message<'_>) -> Answer {
        if message.node() == ROOT && message.body().name() == parameters::NAME.as_bytes() {
            return Ok(self.tree.directory().entry());
        }
        if message.node() != ROOT || message.body().name() != FILE.as_bytes() {
            return Err(Errno::NOENT);
        }
        Ok(self.attr(self.nodes.look_up(message.uid())).entry())
    }

    fn open(&self, message: Message<'_>) -> Answer {
        let (number, uid) = (message.node(), message.uid());
        let before = message.comes_again().then(|| self.files.opened_by(message.call())).flatten();
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

    /// Opens a file on a node; its number.
    fn open_on(&self, node: Node, message: Message<'_>) -> Result<u64, Errno> {
        let opener = opener(&self.namespaces, message.tid(), message.uid())?;
        let ticket = Ticket { handle: self.files.number(), call: message.call() };
        let open = self.netmap.open_kept(node.domain, opener, self.connection.clone(), ticket)?;
        self.files.put(ticket.handle, open);
        Ok(ticket.handle)
    }

    fn release(&self, message: Message<'_>, reply: Reply) {
        if parameters::has(message.node()) {
            return reply.done([&[], &[]]);
        }
        let open = self.files.remove(message.body().u64(0));
        let Some(open) = open else { return reply.done([&[], &[]]) };
        let uid = open.uid();
        let close = self.closing.begin(uid);
        let (nodes, connection, node) =
            (self.nodes.clone(), self.connection.clone(), message.node());
        self.closers.submit(uid, move || {
            drop(open);
            nodes.close(connection.as_fd(), node);
            drop(close);
            reply.done([&[], &[]]);
        });
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.nodes.forget(self.device(), node, lookups);
    }

    fn batch_forget(&self, body: Body<'_>) {
        for pair in body.rest(8).chunks_exact(16).take(body.u32(0) as usize) {
            self.forget(Body(pair).u64(0), Body(pair).u64(8));
        }
    }

    #[inline]
    fn poll(&self, message: Message<'_>, reply: Reply) {
        let body = message.body();
        let Some(open) = self.files.get(body.u64(0)) else { return reply.refuse(Errno::BADF) };
        let arm = (body.u32(16) & proto::POLL_SCHEDULE_NOTIFY != 0).then(|| body.u64(8));
        let wanted = Events(body.u32(20));
        if !open.has_indirect() {
            return poll(open, wanted, arm, reply);
        }
        let (tid, uid) = (message.tid(), message.uid());
        self.desk.submit(uid, move || {
            if let Ok(mut memory) = Caller::of(tid, uid) {
                // What cannot be fetched waits: the poll sends what lies before it.
                let _ = open.fetch_indirect(&mut memory);
            }
            poll(open, wanted, arm, reply);
        });
    }

    #[inline]
    fn ioctl(&self, message: Message<'_>, reply: Reply) {
        let body = message.body();
        let Some(open) = self.files.get(body.u64(0)) else { return reply.refuse(Errno::BADF) };
        let cmd = body.u32(12);
        let (netmap, argument) = (self.netmap.clone(), body.rest(32).to_vec());
        let reaches = Netmap::touches_caller(cmd) || Netmap::is_quick(cmd) && open.has_indirect();
        let call = Call { netmap, open, cmd, reply, argument };
        if Netmap::is_quick(cmd) && !reaches {
            return call.perform(Ok(NoMemory));
        }
        let (tid, uid) = (message.tid(), message.uid());
        let (closing, owner) = (self.closing.clone(), call.open.uid());
        if Netmap::is_long(cmd, &call.argument) {
            // Without a thread for it the call is dropped, and so refused.
            let lasts = move |cancel| {
                closing.wait(owner);
                call.perform(Caller::of(tid, uid).map(|caller| caller.ended_by(cancel)));
            };
            return self.lasting.perform(message.unique(), lasts);
        }
        self.desk.submit(uid, move || {
            closing.wait(owner);
            match reaches {
                true => call.perform(Caller::of(tid, uid)),
                false => call.perform(Ok(NoMemory)),
            }
        });
    }
}

/// Answers a poll.
#[inline]
fn poll(open: Arc<Open>, wanted: Events, arm: Option<u64>, reply: Reply) {
    let events = open.poll(wanted, arm, PATIENCE);
    // As in `Call::perform`.
    drop(open);
    reply.done([&proto::poll_out(events.0), &[]]);
}

/// An ioctl on its way.
struct Call {
    netmap: Arc<Netmap>,
    open: Arc<Open>,
    cmd: u32,
    reply: Reply,
    argument: Vec<u8>,
}

impl Call {
    #[inline]
    fn perform(mut self, memory: Result<impl slipring_netmap::CallerMemory, Errno>) {
        let call = proto::call_of(self.reply.unique());
        let done = memory.and_then(|memory| {
            let memory = &mut Numbered(memory, call);
            perform(&self.netmap, &self.open, self.cmd, &mut self.argument, memory)
        });
        // Before the answer: a program that closes the file next shall be its last user.
        drop(self.open);
        // The argument goes back also when the call fails, as netmap's does.
        let result = done.unwrap_or_else(|error| -error.raw_os_error());
        self.reply.done([&proto::ioctl_out(result), &self.argument]);
    }
}

/// Performs an ioctl.
///
/// A port that is busy may be so only because a worker that has taken the close before this call
/// did not run since: that one gets a little time.
#[inline]
pub(crate) fn perform(
    netmap: &Netmap,
    open: &Open,
    cmd: u32,
    argument: &mut Vec<u8>,
    memory: &mut dyn slipring_netmap::CallerMemory,
) -> Result<i32, Errno> {
    const PATIENCE: [Duration; 3] =
        [Duration::from_millis(1), Duration::from_millis(4), Duration::from_millis(16)];
    let asked = argument.clone();
    let mut done = netmap.ioctl(open, cmd, argument, memory);
    for pause in PATIENCE {
        if done != Err(Errno::BUSY) || Netmap::is_quick(cmd) {
            break;
        }
        std::thread::sleep(pause);
        argument.clone_from(&asked);
        done = netmap.ioctl(open, cmd, argument, memory);
    }
    done
}

/// The directory from its `from`th entry on.
fn list(from: u64) -> Vec<u8> {
    // The file's number depends on who looks; any will do here, but 0.
    let entries = [
        (ROOT, DIR, "."),
        (ROOT, DIR, ".."),
        (parameters::BEHIND, REG, FILE),
        (parameters::DIRECTORY, DIR, parameters::NAME),
    ];
    let numbered = entries.into_iter().zip(1u64..).skip(from as usize);
    numbered.flat_map(|((node, kind, name), next)| proto::dirent(node, next, kind, name)).collect()
}
