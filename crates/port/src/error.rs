//! Errors of opening and running a port, most of them with what to try next.

use std::fmt;
use std::io;

use slipring_ring::{RegionError, SyncFault};

/// The path of netmap's device.
pub const DEVICE_PATH: &str = "/dev/netmap";

/// Bytes of a huge page.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// The class of a failure; programs turn it into their exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The command is wrong: a name or value, a missing option, or a file that cannot be used.
    Usage,
    /// The machine lacks a privilege, a kernel feature, an interface, or something else that the
    /// port needs.
    Machine,
    /// The port failed while it was in use, usually because the interface, device or program behind
    /// it was lost.
    Peer,
}

/// Every code that [`OpenError::code`] and [`RunError::code`] return.
pub const CODES: &[&str] = &[
    "SR0101", "SR0102", "SR0103", "SR0104", "SR0105", "SR0106", "SR0107", "SR0108", "SR0109",
    "SR0110", "SR0111", "SR0112", "SR0116", "SR0199", "SR0201", "SR0202", "SR0203", "SR0204",
    "SR0401", "SR0402", "SR0499",
];

/// The commands, to be run once, that grant the capabilities that ports need. A copy of the program
/// gets the capabilities. Only the members of a group may execute this copy, since these users can
/// read and change all traffic. The commands list every capability, since setcap removes those that
/// it does not list.
pub const GRANT_COMMANDS: &str = "sudo groupadd -f slipring && \
     sudo install -g slipring -m 750 \"$(command -v slipring)\" /usr/local/bin/slipring-net && \
     sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep /usr/local/bin/slipring-net && \
     sudo usermod -aG slipring \"$USER\"";

/// Returns whether this process is in a user namespace other than the initial one, as far as its
/// UID map shows. In such a namespace the kernel loads no BPF programs for ports, whatever
/// capabilities the process has.
#[must_use]
pub fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<_> = map.split_ascii_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

/// A port could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The name as the user wrote it.
    pub port: String,
    /// Why the port could not be opened.
    pub cause: Box<OpenCause>,
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum OpenCause {
    #[error("{reason}")]
    Name { reason: String, help: Option<String> },
    #[error("{reason}")]
    Setting { reason: String, help: String },
    #[error("there is no interface `{ifname}` in this network namespace")]
    NoInterface { ifname: String },
    #[error("interface `{ifname}` is down")]
    Down { ifname: String },
    #[error("{what}: {source}")]
    Privilege { what: &'static str, capabilities: &'static str, source: io::Error },
    #[error("`{path}` is closed to this user: {source}")]
    ClosedNode { path: &'static str, source: io::Error },
    #[error("the netmap device gives `{name}` to nobody like you: {source}")]
    Denied { name: String, source: io::Error },
    #[error("queue {queue} is out of range: `{ifname}` has {queues} (0 to {})", queues.saturating_sub(1))]
    QueueRange { ifname: String, queue: u32, queues: u32 },
    #[error("MTU {mtu} of `{ifname}` is above the {limit} bytes that {kind} carries in this mode")]
    Mtu { ifname: String, mtu: u32, limit: u32, kind: &'static str },
    #[error("queue {queue} of `{ifname}` is in use{by}")]
    Busy { ifname: String, queue: u32, by: QueueOwner },
    #[error("IOMMU group {group} is in use by another program")]
    CardBusy { group: String },
    #[error("`{ifname}` has no {wanted}: {source}")]
    ModeRefused { ifname: String, wanted: &'static str, source: io::Error },
    #[error("`{ifname}` carries the default route: taking it cuts this machine off")]
    DefaultRoute { ifname: String },
    #[error("{0}")]
    Region(#[from] RegionError),
    #[error("the kernel may not lock {bytes} bytes of memory for this process")]
    LockedMemory { bytes: u64 },
    #[error("{what} is not available here: {needs}")]
    Unsupported { what: String, needs: &'static str },
    #[error("nothing serves `{path}` here: neither netmap's kernel module nor a slipring daemon")]
    NoDevice { path: String },
    #[error("the {end} end of pipe `{pipe}` is open already")]
    PipeTaken { pipe: String, end: &'static str },
    #[error("{reason}")]
    Card { reason: String, help: Option<String> },
    #[error("cannot open `{path}`: {source}")]
    File { path: String, source: io::Error },
    #[error("`{path}` is not a capture that can be read: {reason}")]
    NotACapture { path: String, reason: String },
    #[error("`{path}` is cut short: {reason}")]
    Truncated { path: String, reason: String },
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// What uses a queue that is busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueOwner {
    /// A process, or several, as text.
    Process(String),
    /// Processes with AF_XDP sockets, as text. One of them may use the queue: this kernel does not
    /// list AF_XDP sockets.
    Suspects(String),
    /// No process that this one can see: probably the device still has frames of a socket that was
    /// closed.
    Nobody,
    /// The owner cannot be found, because privileges are missing (`CAP_SYS_PTRACE`).
    Unknown,
}

impl fmt::Display for QueueOwner {
    /// Writes what follows after "in use": nothing if no process is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(label) => write!(f, " by {label}"),
            Self::Suspects(labels) => write!(f, ", perhaps by {labels}"),
            Self::Nobody | Self::Unknown => Ok(()),
        }
    }
}

impl OpenError {
    /// Creates the error of the port `port`.
    pub fn new(port: impl fmt::Display, cause: impl Into<OpenCause>) -> Self {
        Self { port: port.to_string(), cause: Box::new(cause.into()) }
    }

    /// The stable code, for `slipring explain`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match *self.cause {
            OpenCause::Name { .. } | OpenCause::Setting { .. } => "SR0101",
            OpenCause::NoInterface { .. } => "SR0102",
            OpenCause::Down { .. } => "SR0103",
            OpenCause::Privilege { .. }
            | OpenCause::ClosedNode { .. }
            | OpenCause::Denied { .. } => "SR0104",
            OpenCause::QueueRange { .. } => "SR0105",
            OpenCause::Mtu { .. } => "SR0106",
            OpenCause::Busy { .. } | OpenCause::CardBusy { .. } => "SR0107",
            OpenCause::ModeRefused { .. } => "SR0108",
            OpenCause::DefaultRoute { .. } => "SR0109",
            OpenCause::Region(_) | OpenCause::LockedMemory { .. } => "SR0110",
            OpenCause::Unsupported { .. } | OpenCause::NoDevice { .. } => "SR0111",
            OpenCause::PipeTaken { .. } => "SR0112",
            OpenCause::Card { .. } => "SR0116",
            OpenCause::File { .. } => "SR0201",
            OpenCause::NotACapture { .. } => "SR0202",
            OpenCause::Truncated { .. } => "SR0203",
            OpenCause::System { .. } => "SR0199",
        }
    }

    /// A suggestion of what to try next.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match &*self.cause {
            OpenCause::Name { help, .. } => return help.clone(),
            OpenCause::Card { help, .. } => return help.clone(),
            OpenCause::Setting { help, .. } => help.clone(),
            OpenCause::File { path, .. } => format!("see whether it is there and open to you: ls -ld {path}"),
            OpenCause::NoInterface { .. } => "list the interfaces there are: slipring ports".into(),
            OpenCause::Down { ifname } => format!("bring it up: ip link set {ifname} up"),
            OpenCause::Privilege { capabilities, .. } if capabilities.contains("cap_bpf") && in_user_namespace() => {
                "take packet:IF with --shared, which needs no BPF, or run it outside of the container".into()
            }
            OpenCause::Privilege { .. } => format!("run as root, or once: {GRANT_COMMANDS}; then log in again, and run slipring-net"),
            // Access to the device node is denied: with EACCES by its permissions, with EPERM by
            // the device rules of the process's control group.
            OpenCause::ClosedNode { path, source } if source.raw_os_error() == Some(libc::EACCES) => {
                format!("open it to everybody, as udev does: sudo chmod 0666 {path}")
            }
            OpenCause::ClosedNode { path, .. } => {
                format!("give it to the container (docker run --device {path}) or the unit (DeviceAllow={path} rw)")
            }
            OpenCause::Denied { .. } => "run as root, or have the daemon allow it: daemon.toml, docs/netmap.md".into(),
            OpenCause::QueueRange { queues: 1, .. } => "open it without a queue number".into(),
            OpenCause::QueueRange { queues, .. } => format!("take a queue from 0 to {}", queues - 1),
            OpenCause::Mtu { ifname, limit, .. } => format!("lower it: ip link set {ifname} mtu {limit}"),
            OpenCause::Busy { .. } => "stop the program that holds it, or take another queue; `slipring ports` shows owners".into(),
            OpenCause::CardBusy { group } => format!("see which process has it: fuser -v /dev/vfio/{group}"),
            OpenCause::ModeRefused { .. } => "leave the mode out to take the best one there is".into(),
            OpenCause::DefaultRoute { .. } => "add --take-over if you mean it; `packet:` with --shared leaves the host its traffic".into(),
            OpenCause::Region(RegionError::HugePages { bytes, .. }) => format!("reserve them: sysctl -w vm.nr_hugepages={}; or do without", bytes.div_ceil(HUGE_PAGE_BYTES)),
            OpenCause::Region(_) => "ask for fewer slots (@conf:slots=N) or fewer queues".into(),
            OpenCause::LockedMemory { .. } => "raise the limit (ulimit -l unlimited) or add cap_ipc_lock".into(),
            OpenCause::NoDevice { path } if path == DEVICE_PATH => "start a daemon, as root: slipring daemon".into(),
            OpenCause::NoDevice { path } => format!("start a daemon, as root: slipring daemon --link {path}"),
            OpenCause::PipeTaken { .. } => "open the other end, or choose another pipe name".into(),
            OpenCause::NotACapture { .. } => "pcap and pcapng files are read; check it with: file FILE".into(),
            OpenCause::Truncated { .. } => "capture it again, or cut the damaged end off with: editcap".into(),
            OpenCause::Unsupported { .. } | OpenCause::System { .. } => return None,
        })
    }

    /// A remark to print along with the help.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match &*self.cause {
            OpenCause::Privilege { capabilities, .. }
                if capabilities.contains("cap_bpf") && in_user_namespace() =>
            {
                Some("in a user namespace the kernel loads BPF for nobody".into())
            }
            OpenCause::Privilege { capabilities, .. } => Some(format!(
                "this takes {capabilities}; members of the group can read and change all traffic of this machine"
            )),
            OpenCause::ClosedNode { .. } => Some(
                "opening it gives no right to any interface: the kernel asks for CAP_NET_ADMIN, or for the owner of a device".into()
            ),
            OpenCause::Unsupported { .. } => {
                Some("`slipring doctor` shows what this kernel can do".into())
            }
            _ => None,
        }
    }

    /// The class of the failure.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match *self.cause {
            OpenCause::Name { .. }
            | OpenCause::Setting { .. }
            | OpenCause::DefaultRoute { .. }
            | OpenCause::File { .. }
            | OpenCause::NotACapture { .. }
            | OpenCause::Truncated { .. } => ErrorClass::Usage,
            _ => ErrorClass::Machine,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open {}: {}", self.port, self.cause)
    }
}

impl std::error::Error for OpenError {}

/// A port stopped working.
#[derive(Debug)]
pub struct RunError {
    /// The port's name.
    pub port: String,
    /// Why the port stopped.
    pub cause: RunCause,
}

/// Why a port stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum RunCause {
    #[error("the interface is gone")]
    Vanished,
    #[error("the interface went down")]
    WentDown,
    #[error("the other end of the pipe is gone")]
    PeerGone,
    #[error("the card no longer answers: it was removed, or its bus has failed")]
    CardGone,
    #[error("the card is taken away: it is being removed, or given to another driver")]
    CardRevoked,
    #[error("the card does not run any more: something else has reset it")]
    CardReset,
    #[error("the card is stuck: it has not sent what it was given for {seconds} s")]
    CardStuck { seconds: u64 },
    #[error("{0}")]
    Ring(#[from] SyncFault),
    #[error("`{path}`: {reason}")]
    Capture { path: String, reason: String },
    #[error("cannot write `{path}`: {source}")]
    Write { path: String, source: io::Error },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl RunCause {
    /// Returns whether the port works again only if it is opened again: its device is gone, or has
    /// lost its settings.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Vanished | Self::CardGone | Self::CardRevoked | Self::CardReset)
    }
}

impl RunError {
    /// Creates the error of the port `port`.
    pub fn new(port: impl fmt::Display, cause: impl Into<RunCause>) -> Self {
        Self { port: port.to_string(), cause: cause.into() }
    }

    /// Creates the error for a system call that failed.
    pub fn system(port: impl fmt::Display, what: &'static str, source: io::Error) -> Self {
        Self::new(port, RunCause::System { what, source })
    }

    /// The stable code, for `slipring explain`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.cause {
            RunCause::Vanished
            | RunCause::WentDown
            | RunCause::PeerGone
            | RunCause::CardGone
            | RunCause::CardRevoked
            | RunCause::CardReset
            | RunCause::CardStuck { .. } => "SR0401",
            RunCause::Ring(_) => "SR0402",
            RunCause::Capture { .. } => "SR0203",
            RunCause::Write { .. } => "SR0204",
            RunCause::System { .. } => "SR0499",
        }
    }

    /// A suggestion of what to try next.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match &self.cause {
            RunCause::Vanished => Some("list the interfaces there are: slipring ports".into()),
            RunCause::Write { path, .. } => {
                Some(format!("make room, or write elsewhere: df -h {path}"))
            }
            RunCause::CardGone => Some("see what the kernel says of it: dmesg | tail".into()),
            RunCause::CardRevoked => Some("see which cards there are: slipring nic list".into()),
            RunCause::CardReset | RunCause::CardStuck { .. } => {
                Some("start again, which resets it; see also: dmesg | tail".into())
            }
            RunCause::WentDown => {
                Some("bring it up and start again, or run without --exit-on-link-down".into())
            }
            _ => None,
        }
    }

    /// The class of the failure.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self.cause {
            RunCause::Capture { .. } | RunCause::Write { .. } => ErrorClass::Usage,
            _ => ErrorClass::Peer,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.port, self.cause)
    }
}

impl std::error::Error for RunError {}
