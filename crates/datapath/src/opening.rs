//! The flags that say how a command opens its ports, and the wrappers that they put around the
//! queues of ports.

use std::path::Path;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use rustix::thread::{CpuSet, sched_getaffinity};
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::codes::SR0002;
use slipring_cli::flags::chosen_run_dir;
use slipring_cli::units::{Count, Ratio, TimeSpan};
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_core::Host;
use slipring_model::Chance;
use slipring_port::capture::FileWriter;
use slipring_port::middleware::{self, CaptureObserver, FaultSpec, inject, observe};
use slipring_port::{Interest, OpenError, OpenOptions, Port, Queue, WaitStrategy, XdpMode, native};
use slipring_ring::{HugePages, is_buf_size};

use crate::files::{RunFile, check_distinct, check_overwrite};
use crate::latency;
use crate::takeover::{self, TakeoverNotice};

/// How the ports of one command are opened.
#[derive(Debug, Clone)]
pub struct PortOpening {
    /// Options for all kinds of ports.
    pub options: OpenOptions,
    /// How the program waits for frames.
    pub wait_policy: WaitStrategy,
    capture: Option<String>,
    faults: Option<FaultSpec>,
    overwrite: bool,
    notice: TakeoverNotice,
}

/// How a program uses a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRole {
    /// Frames only come from the port.
    Source,
    /// Frames go to the port. They may also come from it.
    Sink,
}

/// Adds the flags for opening ports to a command.
pub fn flags(command: Command) -> Command {
    let value = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help).help_heading("Opening ports")
    };
    let switch = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help).help_heading("Opening ports")
    };
    command.args([
        value(
            "mode",
            "MODE",
            "How to attach to an interface; every mode but best fails where it is not available",
        )
        .value_parser(["best", "zerocopy", "native", "generic"])
        .default_value("best"),
        value("slots", "N", "Slots per ring")
            .value_parser(clap::value_parser!(u32).range(64..=65_536)),
        value(
            "buf-size",
            "BYTES",
            "Size of a buffer in bytes [default: 2112, or 2048 with ports of interfaces and cards]",
        )
        .value_parser(buf_size),
        switch("hugepages", "Refuse to run without 2 MiB pages"),
        switch("shared", "Leave the interface to the host's stack as well"),
        switch("take-over", "Allow the interface that carries the default route"),
        switch("no-promisc", "Receive only frames for this host"),
        switch("exit-on-link-down", "End when an interface is down, rather than wait for it"),
        value(
            "busy-poll",
            "TIME",
            "Busy-poll the device this long per system call [default unit: us]",
        )
        .value_parser(|text: &str| TimeSpan::parse(text, Duration::from_micros(1))),
        switch("spin", "Never sleep: lowest latency, a whole core per thread")
            .conflicts_with("sleep"),
        switch("sleep", "Never spin before sleeping"),
        value("capture", "FILE", "Write what passes to a capture (.pcap, .pcapng)")
            .value_hint(ValueHint::FilePath),
        switch(
            "overwrite",
            "Write captures (pcap:FILE) that frames go to although the files exist",
        ),
        value("fault-loss", "SHARE", "Lose this share of frames on purpose")
            .value_parser(str::parse::<Ratio>),
        value("fault-corrupt", "SHARE", "Flip a bit in this share of frames")
            .value_parser(str::parse::<Ratio>),
        value("fault-delay", "TIME", "Hold every frame this long [default unit: us]")
            .value_parser(|text: &str| TimeSpan::parse(text, Duration::from_micros(1))),
        value("fault-seed", "N", "Seed of the faults")
            .value_parser(str::parse::<Count>)
            .default_value("1"),
    ])
}

/// Returns the first of these flags that is on the command line, such as `--slots`; `None` if there
/// is none. A mode that opens no port can refuse this flag.
pub fn first_typed_flag(matches: &ArgMatches) -> Option<String> {
    let known = flags(Command::new(""));
    let typed =
        |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    known.get_arguments().find(typed).map(|arg| format!("--{}", arg.get_id()))
}

fn buf_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|&size| is_buf_size(size));
    size.ok_or_else(|| "buffers have a multiple of 64 bytes from 2048 to 4096".to_owned())
}

impl PortOpening {
    /// Parses the flags.
    pub fn of(matches: &ArgMatches) -> Self {
        let flag = |id: &str| matches.get_flag(id);
        let text = |id: &str| matches.get_one::<String>(id).map(String::as_str);
        let defaults = OpenOptions::default();
        let busy_poll =
            matches.get_one::<TimeSpan>("busy-poll").map_or(0, |span| span.nanos() / 1000);
        let options = OpenOptions {
            slots: matches.get_one("slots").copied().unwrap_or(defaults.slots),
            buf_size: matches.get_one("buf-size").copied(),
            huge: if flag("hugepages") { HugePages::Require } else { HugePages::Try },
            xdp: match text("mode") {
                Some("zerocopy") => XdpMode::ZeroCopy,
                Some("native") => XdpMode::Native,
                Some("generic") => XdpMode::Generic,
                _ => XdpMode::Best,
            },
            shared: flag("shared"),
            take_over: flag("take-over"),
            promiscuous: !flag("no-promisc"),
            exit_on_link_down: flag("exit-on-link-down"),
            daemon: Some(native::socket_path(&chosen_run_dir(matches))),
            busy_poll_us: u32::try_from(busy_poll).unwrap_or(u32::MAX),
            ..defaults
        };
        let wait_policy = match (flag("spin"), flag("sleep")) {
            (true, _) => WaitStrategy::Spin,
            (_, true) => WaitStrategy::Sleep,
            _ => WaitStrategy::default(),
        };
        Self {
            options,
            wait_policy,
            capture: text("capture").map(str::to_owned),
            faults: faults(matches),
            overwrite: flag("overwrite"),
            notice: TakeoverNotice::Shared,
        }
    }

    /// Sets whether captures that already exist may be overwritten.
    pub fn overwriting(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Creates an opening that has only these options. It is for a program that does not have the
    /// flags.
    pub fn plain(options: OpenOptions) -> Self {
        Self {
            options,
            wait_policy: WaitStrategy::default(),
            capture: None,
            faults: None,
            overwrite: false,
            notice: TakeoverNotice::None,
        }
    }

    /// Opens the ports in one region, with the requested wrappers. In text format, first prints a
    /// notice on stderr for each interface that is taken from its host.
    ///
    /// # Errors
    /// [`Failure`] for the first port or capture that cannot be opened.
    pub fn open(
        &self,
        names: &[PortName],
        session: &mut Session<'_>,
    ) -> Result<Vec<Port>, Failure> {
        self.open_with_pipes(names, &[], session)
    }

    /// Like [`Self::open`], but also opens the program's own pipes in the same region. They come
    /// after the ports and have no wrappers.
    pub fn open_with_pipes(
        &self,
        names: &[PortName],
        pipes: &[PortName],
        session: &mut Session<'_>,
    ) -> Result<Vec<Port>, Failure> {
        // If the check fails for these names, no interface is taken, and no notice is needed.
        Host::global().check_all(&[names, pipes].concat(), &self.options)?;
        takeover::warn_takeover(names, &self.options, self.notice, session)?;
        if self.wait_policy == WaitStrategy::Spin {
            latency::request_no_latency();
        }
        let mut options = self.options.clone();
        if self.faults.is_some() {
            options.reserve_factor += middleware::FAULT_LAYERS;
        }
        let mut ports = Host::global().open_all(&[names, pipes].concat(), &options)?;
        let capture = self.start_capture(&ports[..names.len()])?;
        for (i, port) in ports[..names.len()].iter_mut().enumerate() {
            if let Some(faults) = &self.faults {
                let name = port.info.name.clone();
                rewrap(port, |index, queue| inject(&name, index, queue, faults))?;
            }
            if let Some(capture) = &capture {
                rewrap(port, |_, queue| Ok(observe(queue, Box::new(capture.for_interface(i)))))?;
            }
        }
        Ok(ports)
    }

    /// Sets whether both a NIC and its host rings are opened.
    pub fn with_host_rings(mut self, beside: bool) -> Self {
        self.options.uses_host_rings = beside;
        self
    }

    /// Reserves memory for `layers` more wrappers around each port. Each wrapper has separate
    /// rings.
    pub fn with_layers(mut self, layers: u32) -> Self {
        self.options.reserve_factor += layers;
        self
    }

    /// Sets the length of the virtio-net header that is before each frame in the rings, in bytes.
    pub fn with_vnet_header(mut self, bytes: u32) -> Self {
        self.options.vnet_hdr = bytes;
        self
    }

    fn start_capture(&self, ports: &[Port]) -> Result<Option<CaptureObserver>, OpenError> {
        let Some(path) = &self.capture else { return Ok(None) };
        let names: Vec<_> = ports.iter().map(|port| port.info.name.as_str()).collect();
        let file = FileWriter::create(path, &names).map_err(|cause| OpenError::new(path, cause))?;
        Ok(Some(CaptureObserver::new(file).after_header(self.options.vnet_hdr as usize)))
    }

    /// Returns the role of each port in a program that forwards frames. `goes` must return whether
    /// frames go to the port with this index. A port is a source if no frames go to it. The first
    /// port is also a source if it is an existing capture or standard input.
    pub fn roles(ports: &[PortName], goes: impl Fn(usize) -> bool) -> Vec<(&PortName, PortRole)> {
        let is_there = |name: &str| name == "-" || Path::new(name).exists();
        let is_read = |at: usize, port: &PortName| !goes(at) || at == 0 && is_there(&port.name);
        let role = |at, port| if is_read(at, port) { PortRole::Source } else { PortRole::Sink };
        ports.iter().enumerate().map(|(at, port)| (port, role(at, port))).collect()
    }

    /// Sets the role of each port, and the other files that the program itself reads or writes. A
    /// capture to which frames go is written, even if the file exists, provided that `--overwrite`
    /// allows this. A capture from which frames only come is read.
    ///
    /// # Errors
    /// [`Failure`] with a capture that exists and would be overwritten, that would be written
    /// twice, or that would be both read and written.
    pub fn with_roles<'p>(
        mut self,
        ports: impl IntoIterator<Item = (&'p PortName, PortRole)>,
        others: Vec<RunFile>,
    ) -> Result<Self, Failure> {
        let captures = ports.into_iter().filter(|(port, _)| port.kind == PortNameKind::Pcap);
        let captures: Vec<_> = captures
            .map(|(port, role)| match role {
                PortRole::Source => RunFile::read(Path::new(&port.name)),
                PortRole::Sink => RunFile::written(Path::new(&port.name)),
            })
            .collect();
        let observed = self.capture.iter().map(|path| RunFile::written(Path::new(path)));
        check_distinct(&[captures.clone(), others, observed.collect()].concat())?;
        if !self.overwrite {
            check_overwrite(&captures)?;
        }
        let (written, read): (Vec<_>, _) = captures.iter().partition(|file| file.is_written());
        self.options.captures_to_write = written.into_iter().map(RunFile::display_path).collect();
        self.options.captures_to_read = read.into_iter().map(RunFile::display_path).collect();
        Ok(self)
    }

    /// Returns whether opening `name` takes an interface from its host. In text format,
    /// [`Self::open`] prints a notice then.
    pub fn takes_interface(&self, name: &PortName) -> bool {
        takeover::takes_interface(name, std::slice::from_ref(name), &self.options)
    }

    /// Makes the notice say that the program could listen on the interface instead. It is for
    /// programs that only observe frames.
    pub fn for_observer(mut self) -> Self {
        self.notice = TakeoverNotice::Listen;
        self
    }

    /// Opens only one direction of each port, for a program that does not use the other direction.
    pub fn one_direction(mut self, direction: Interest) -> Self {
        self.options.direction = direction;
        self
    }
}

/// Checks that this process may use the CPUs. Otherwise, threads that are to be bound to them would
/// run on any CPU.
///
/// # Errors
/// [`Failure`] with the first CPU that this process may not use.
pub fn require_cpus(cpus: &[u32]) -> Result<(), Failure> {
    let allowed = sched_getaffinity(None).map_err(std::io::Error::from)?;
    let here = |cpu: u32| (cpu as usize) < CpuSet::MAX_CPU && allowed.is_set(cpu as usize);
    let Some(cpu) = cpus.iter().find(|cpu| !here(**cpu)) else { return Ok(()) };
    let all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let all: Vec<_> = all.map(|cpu| cpu.to_string()).collect();
    let error = Diagnostic::new(SR0002, format!("there is no processor {cpu} to run on"));
    let error = error.with_cause("the machine has it not, or this process may not use it");
    Err(error.with_help(format!("there are: {}", all.join(", "))).into())
}

/// Puts a wrapper around each queue of a port.
fn rewrap(
    port: &mut Port,
    mut wrap: impl FnMut(u64, Box<dyn Queue>) -> Result<Box<dyn Queue>, OpenError>,
) -> Result<(), OpenError> {
    for (queue, index) in std::mem::take(&mut port.queues).into_iter().zip(0..) {
        port.queues.push(wrap(index, queue)?);
    }
    Ok(())
}

fn faults(matches: &ArgMatches) -> Option<FaultSpec> {
    let share = |id: &str| matches.get_one::<Ratio>(id).map(|share| share.ppb());
    let (loss, corruption) = (share("fault-loss"), share("fault-corrupt"));
    let delay = matches.get_one::<TimeSpan>("fault-delay").map(|span| span.nanos());
    if loss.is_none() && corruption.is_none() && delay.is_none() {
        return None;
    }
    let chance = |ppb: Option<u64>| {
        Chance::from_ratio(ppb.unwrap_or(0), 1_000_000_000).unwrap_or(Chance::NEVER)
    };
    let seed = matches.get_one::<Count>("fault-seed").map_or(1, |count| count.0);
    Some(FaultSpec {
        loss: chance(loss),
        corruption: chance(corruption),
        delay: delay.unwrap_or(0),
        seed,
    })
}
