//! The flags of `slipring emulate`: TLEM's one-letter flags, most of which also have a long name,
//! and flags that TLEM does not have.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use slipring_abi::name::PortName;
use slipring_cli::codes::SR0002;
use slipring_cli::flags;
use slipring_cli::units::ByteCount;
use slipring_cli::{Diagnostic, Failure};

use super::control;
use super::presets;
use slipring_datapath::opening;

/// Maximum number of slots and bytes that are taken from a queue of a port at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstLimit {
    /// Maximum number of slots, counted as frames.
    pub frames: u32,
    /// Maximum number of bytes. A single frame that is longer is taken nevertheless.
    pub bytes: u64,
}

impl Default for BurstLimit {
    fn default() -> Self {
        Self { frames: 256, bytes: u64::MAX }
    }
}

impl BurstLimit {
    /// Greatest number of frames that the user may set as a limit: the number of slots of the
    /// largest ring.
    const MAX_SLOTS: u32 = 8192;

    /// Parses a number of frames, or bytes with a unit.
    ///
    /// # Errors
    /// A text for the user, if the limit is 0, fewer bytes than the shortest frame has, more frames
    /// than the slots of the largest ring, or not a number of frames or bytes.
    pub fn parse(text: &str) -> Result<Self, String> {
        const MIN_BYTES: u64 = slipring_link::MIN_FRAME_LEN as u64;
        if let Ok(frames) = text.parse::<u32>() {
            return match frames {
                0 => Err("no frame would ever be taken: write 1 or more".into()),
                1..=Self::MAX_SLOTS => Ok(Self { frames, ..Self::default() }),
                _ => Err(format!("{} frames at most", Self::MAX_SLOTS)),
            };
        }
        match text.parse::<ByteCount>() {
            Ok(ByteCount(bytes)) if text.ends_with('B') && bytes >= MIN_BYTES => {
                Ok(Self { frames: Self::MAX_SLOTS, bytes })
            }
            Ok(_) if text.ends_with('B') => {
                Err(format!("no frame is so short: write {MIN_BYTES}B or more, or frames, as 1"))
            }
            _ => Err("write frames, as 64, or bytes with their unit, as 64KiB or 1500B".into()),
        }
    }

    /// Like [`Self::parse`], but also accepts 0, with which TLEM selects its default. The result is
    /// then 0 frames.
    fn parse_classic(text: &str) -> Result<Self, String> {
        match text {
            "0" => Ok(Self { frames: 0, ..Self::default() }),
            text => Self::parse(text),
        }
    }

    /// Returns the value of the flag.
    ///
    /// # Errors
    /// [`Failure`] if the value is 0 and the program is not called as `tlem`.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let burst = matches.get_one("burst").copied().unwrap_or_default();
        match burst {
            Self { frames: 0, .. } if flags::is_called_by_classic_name(matches) => {
                Ok(Self::default())
            }
            Self { frames: 0, .. } => {
                let error = Diagnostic::new(SR0002, "`0` does not fit --burst");
                let error = error.with_cause("no frame would ever be taken");
                Err(error.with_help("write 1 or more, or leave it out: 256").into())
            }
            burst => Ok(burst),
        }
    }
}

/// Returns the processors that the user gives for the threads, in the order of the threads.
pub(crate) fn cpus(matches: &ArgMatches) -> Result<Vec<u32>, Failure> {
    let cpus: Vec<u32> = matches.get_many("cpu").into_iter().flatten().copied().collect();
    let twice = cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu));
    let Some((_, cpu)) = twice else { return Ok(cpus) };
    let error = Diagnostic::new(SR0002, format!("processor {cpu} is given twice"));
    let error = error.with_cause("each thread has one of its own");
    Err(error.with_help("name processors that differ: -C 2,3").into())
}

/// A flag for the behaviour of links. If it is given once, it applies to both directions. If it is
/// given twice, the first value applies to the first direction (up), and the second to the other
/// one (down).
pub(super) struct DirectedFlag {
    /// The flag's long name.
    pub(super) id: &'static str,
    pub(super) short: Option<char>,
    value: &'static str,
    help: &'static str,
}

impl DirectedFlag {
    /// Returns the flag's name for errors: `-B`, or `--name` if the flag has no short form.
    pub(super) fn shown(&self) -> String {
        self.short.map_or_else(|| format!("--{}", self.id), |short| format!("-{short}"))
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.id).long(self.id).value_name(self.value).help(self.help);
        let arg =
            arg.action(ArgAction::Append).allow_hyphen_values(true).help_heading(LINKS_HEADING);
        self.short.into_iter().fold(arg, Arg::short)
    }
}

const LINKS_HEADING: &str = "The links (once for both directions, twice for each its own)";

const fn directed(
    id: &'static str,
    short: Option<char>,
    value: &'static str,
    help: &'static str,
) -> DirectedFlag {
    DirectedFlag { id, short, value, help }
}

/// Flags for the behaviour of links, by direction.
pub(super) static DIRECTED_FLAGS: [DirectedFlag; 16] = [
    directed(
        "rate",
        Some('B'),
        "RATE",
        "[const,]BPS; ether,BPS (24 bytes more per frame); avg,BPS[,BURST] (police); trace,FILE; \
         steps,FILE; tdm,..; ramp,..; sine,..; markov,..; ou,..; wasm,FILE[,NUMBER..] [units: 10Mbit or 10m; as tlem also bare: bit/s]",
    ),
    directed(
        "delay",
        Some('D'),
        "DELAY",
        "[const,]T; uniform,MIN,MAX; exp,MIN,MEAN; normal,MEAN,SD; pareto,SCALE,SHAPE; \
         lognormal,MEAN,SD; gamma,MEAN,SD; weibull,SCALE,SHAPE; table,FILE,MEAN,SD; cdf,FILE; \
         samples,FILE; trace,FILE; inter-packet,MIN,MAX,DELAY; wasm,FILE[,NUMBER..] [units: 20ms or 20m; as tlem also bare: s]",
    ),
    directed(
        "loss",
        Some('L'),
        "LOSS",
        "1%, or plr,P; ber,P; ge,P,R[,BAD[,GOOD]]; timed-ge,GOOD,BAD; state4,P13,P31,P32,P23,P14; \
         pattern,BITS|FILE; nth,N; numbers,N,..; time,FROM,UNTIL,P; trace,FILE; \
         wasm,FILE[,NUMBER..]",
    ),
    directed(
        "hold",
        Some('R'),
        "P,TIME",
        "Hold frames back with probability P, before the queue, so that others overtake them",
    ),
    directed(
        "queue",
        Some('Q'),
        "SIZE",
        "Bytes (64k: 64000, 64KiB: 65536; as tlem 64k is 65536), or red,..; codel,TARGET,INTERVAL; pie,..; fq_codel,..; \
         dualpi2,..; droptail,packets=N,time=T [default: 50000 with a constant rate, else no limit]",
    ),
    directed("reorder", Some('P'), "0|1", "1: drop frames that would overtake others"),
    directed(
        "offset",
        Some('O'),
        "TIME",
        "Subtract this from every delay: the fixed delay of this machine",
    ),
    directed("order", None, "POLICY", "strict, correlated, free, drop or path"),
    directed("half-life", None, "TIME", "Let the delay vary smoothly, with this half-life"),
    directed("admit", None, "RULE", "When a queue is full: strict or tlem"),
    directed("serialise", None, "END", "Delays count from the end of a frame, or its start"),
    directed("police", None, "RATE", "BPS[,BURST]; rfc2698,..; rfc4115,..: drop what exceeds it"),
    directed(
        "mangle",
        None,
        "EDIT",
        "Write over bytes: [set,]AT,HEX[,P]; invert,AT,HEX[,P]; random,AT,COUNT[,P]",
    ),
    directed("corrupt", None, "BER", "Bit errors that are delivered: BER, or burst,P,BITS"),
    directed("duplicate", None, "P", "Copy frames: P[,AFTER[,COPIES]]"),
    directed("profile", None, "FILE", "Extra time on the link, by a dummynet profile"),
];

/// The flag table of `slipring emulate`.
pub(super) fn command() -> Command {
    let command = Command::new("emulate")
        .about("Pass frames between two ports, or two captures, as a link would")
        .arg(flags::with_note(
            flags::port().action(ArgAction::Append).value_parser(PortName::parse_classic),
            "twice: frames from the first to the second go up, others down",
        ))
        .args(run());
    let command = links(command).args(places()).args(routing()).args(old());
    let command = flags::configuration(flags::reporting(opening::flags(command)));
    command
        .subcommand(control::command::command())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .after_help(EXAMPLES)
}

const EXAMPLES: &str = "\
Examples:
  slipring emulate -i netmap:eth1 -i netmap:eth2 -B 10m -D 20ms -L 1%
  slipring emulate -i tap:a -i tap:b -D normal,20ms,3ms --half-life 50ms -D 5ms --name lab
  slipring emulate ctl set --name lab up.delay=40ms
  slipring emulate --virtual in.pcap out.pcapng --config link.toml --seed 7
  slipring emulate --preset lte --print-config > link.toml";

/// Adds the flags of every command with emulated links: the links, the seed, the limits, the
/// outputs, and the run directory. [`EmulationPlan::with_clock`](super::EmulationPlan::with_clock)
/// reads them.
pub fn links(command: Command) -> Command {
    let command = command
        .args(DIRECTED_FLAGS.iter().map(DirectedFlag::arg))
        .args(whole_links())
        .args(limits())
        .args(outputs());
    flags::run_dir(command)
}

fn own(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(name).help(help)
}

fn switch(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}

fn whole_links() -> [Arg; 7] {
    let link = |id: &'static str, help: &'static str| {
        own(id, "LINK", help).allow_hyphen_values(true).help_heading(LINKS_HEADING)
    };
    let names = presets::PRESETS.each_ref().map(|preset| preset.name);
    [
        own("preset", "NAME", "A known kind of link; other flags replace its settings")
            .value_parser(names)
            .help_heading(LINKS_HEADING),
        link(
            "up",
            "All settings of the way up: 'rate=50m,delay=normal(20ms,3ms),queue=codel(5ms,100ms)'",
        ),
        link("down", "All settings of the way down"),
        own("config-file", "FILE", "Read ports, links and the rest from a TOML file")
            .long("config")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath),
        own("set", "PATH=VALUE", "Change a setting of the file: link.up.rate.bps=20Mbit")
            .action(ArgAction::Append),
        switch("print-settings", "Print all settings as such a file and stop").long("print-config"),
        switch("explain", "Print the effective figures, after all rounding, and stop"),
    ]
}

fn run() -> [Arg; 3] {
    [
        own("virtual", "CAPTURE", "In virtual time: captures IN OUT [IN2 OUT2...], not ports")
            .num_args(2..)
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath)
            .conflicts_with("interface"),
        flags::duration().allow_hyphen_values(true),
        flags::period().allow_hyphen_values(true),
    ]
}

fn limits() -> [Arg; 3] {
    [
        flags::with_note(flags::seed(), "chosen and told by default").allow_hyphen_values(true),
        own("late-drop", "TIME", "Drop frames that are later than this [default: only count them]")
            .short('d')
            .allow_hyphen_values(true),
        own(
            "bounds",
            "DELAY[,BPS[,HOLD]]",
            "Largest values that settings may have, also those of live changes",
        )
        .short('M')
        .allow_hyphen_values(true),
    ]
}

fn places() -> [Arg; 4] {
    [
        switch(
            "pipeline",
            "Two threads, one per port: each receives at its port and sends at the other's, with the same timing",
        ),
        flags::cpus(),
        own(
            "burst",
            "SIZE",
            "Maximum number of frames, or bytes (64KiB), taken at a time; 0 for the default",
        )
        .short('b')
        .default_value("256")
        .value_parser(BurstLimit::parse_classic),
        flags::link_wait().allow_hyphen_values(true),
    ]
}

fn outputs() -> [Arg; 5] {
    [
        flags::with_note(flags::run_name(), "its process number by default"),
        own("log", "FILE", "Write every frame with its fate to a pcapng file")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath),
        own("mahimahi-log", "PREFIX", "Write PREFIX.LINK for each direction in mahimahi's format")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath),
        own("metrics", "ADDR", "Serve counters as OpenMetrics: 127.0.0.1:9100, or a socket's path"),
        switch("stats", "Print all figures at the end"),
    ]
}

/// Returns the flags of route mode.
fn routing() -> [Arg; 3] {
    const ROUTING: &str = "Routing";
    [
        switch("route", "Route between the subnets of the two interfaces, instead of joining them")
            .short('r')
            .help_heading(ROUTING),
        own("gateway", "IP", "Default gateway behind a port, or none; once for each port")
            .short('G')
            .action(ArgAction::Append)
            .value_parser(gateway)
            .requires("route")
            .help_heading(ROUTING),
        switch("decrement-ttl", "Decrement TTL and hop limit, as routers do; TLEM does not")
            .requires("route")
            .help_heading(ROUTING),
    ]
}

fn gateway(text: &str) -> Result<Option<IpAddr>, std::net::AddrParseError> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// Returns TLEM's flags that have no long name here. `-H` twice requires huge pages, and once has
/// no effect; `-c` only causes a warning; `-s` and `-a` are refused with an explanation.
fn old() -> [Arg; 4] {
    let letter = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).short(short).help(help).help_heading("For compatibility with TLEM")
    };
    [
        letter(
            "hugepages-classic",
            'H',
            "Use huge pages if there are enough, which is the default; -HH: do not run without them",
        )
        .action(ArgAction::Count),
        letter("no-zerocopy", 'c', "Copy frames, as is always done").action(ArgAction::SetTrue),
        letter("session", 's', "Session file: refused, see --name and ctl").value_name("FILE"),
        letter("ask-to-exit", 'a', "Ask the server of a session to exit: refused")
            .action(ArgAction::SetTrue),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_frames_or_bytes_with_their_unit() {
        let burst = |text: &str| BurstLimit::parse(text).map(|burst| (burst.frames, burst.bytes));
        assert_eq!(burst("64"), Ok((64, u64::MAX)));
        assert_eq!(burst("60B"), Ok((8192, 60)));
        assert_eq!(burst("64KiB"), Ok((8192, 65_536)));
        for text in ["64k", "8193", "0", "0B", "1B", "59B", "-1", "x", ""] {
            assert!(burst(text).is_err(), "{text}");
        }
    }
}
