//! The flags, including those of netmap's vale-ctl, and their meaning.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, ValueHint, value_parser};
use slipring_abi::{
    NETMAP_POLLING_MODE_MULTI_CPU, NETMAP_POLLING_MODE_SINGLE_CPU, NmreqValeNewif, NmreqValePolling,
};
use slipring_cli::codes::SR0003;
use slipring_cli::{Diagnostic, Failure, flags};

use crate::action::{ValeAction, ValeMemory};
use crate::settings::{KEYS, SettingChange};
use crate::show::{DaemonRequest, FreeTarget};

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct ValePlan {
    pub(crate) device: Option<PathBuf>,
    pub(crate) action: ValeRequest,
}

/// A request, and whether it goes to the device or to the daemon.
#[derive(Debug)]
pub(crate) enum ValeRequest {
    Device(ValeAction),
    Daemon(DaemonRequest),
}

/// One flag per request: short flag, long flag, value name, help.
const ACTIONS: [(char, &str, &str, &str); 8] = [
    ('a', "attach", "SWITCH:IF", "Plug an interface or persistent port into a switch"),
    ('h', "attach-host", "SWITCH:IF", "Plug an interface and its host stack into a switch"),
    ('d', "detach", "SWITCH:IF", "Unplug an interface or persistent port"),
    ('n', "new", "NAME", "Make a persistent port"),
    ('r', "remove", "NAME", "Remove a persistent port"),
    ('g', "get", "PORT", "Show slots, rings and memory of a port"),
    ('l', "list", "SWITCH:PORT", "Show index of switch and port"),
    ('p', "poll", "SWITCH:IF", "Make a processor poll an interface"),
];

pub(crate) fn command() -> Command {
    let actions = ACTIONS.map(|(letter, word, value, help)| {
        Arg::new(word).short(letter).long(word).value_name(value).help(help)
    });
    let stop = Arg::new("stop-polling")
        .short('P')
        .long("stop-polling")
        .value_name("SWITCH:IF")
        .help("Stop polling an interface");
    let show = Arg::new("show")
        .long("show")
        .value_name("SWITCH")
        .num_args(0..=1)
        .default_missing_value("")
        .help("Show ports, counters, drops by reason and addresses of a switch, or of all");
    let flush = Arg::new("flush")
        .long("flush")
        .value_name("SWITCH[:PORT]")
        .help("Forget the addresses of a switch, or of one port");
    let set = Arg::new("set")
        .long("set")
        .value_name("SWITCH[:PORT]")
        .num_args(2..)
        .value_names(["SWITCH[:PORT]", "KEY=VALUE"])
        .help(format!("Change settings {KEYS}"));
    let group = ArgGroup::new("action").args(ACTIONS.map(|(_, word, ..)| word));
    let group = group.args(["stop-polling", "show", "flush", "set"]);
    let command = Command::new("vale")
        .about("Plug ports into switches of /dev/netmap, list and look at them")
        .after_help(
            "Without a flag that asks for something: lists all ports of all switches.\n\n\
             Examples:\n  \
             slipring vale\n  \
             slipring vale -a vale0:eth0\n  \
             slipring vale --show vale0",
        )
        .disable_help_flag(true)
        .args(actions)
        .args([stop, show, flush, set])
        .args(settings())
        .group(group);
    flags::run_dir(flags::configuration(flags::reporting(command)))
}

fn settings() -> [Arg; 5] {
    [
        Arg::new("owner").long("owner").value_name("USER").help(
            "With -r and -d: of this user, by name or number, instead of your own. Asks the daemon, \
             as root or its user",
        ),
        Arg::new("conf").short('C').long("conf").value_name("N,N,..").help(
            "With -n: tx slots, rx slots, tx rings, rx rings. With -p: 0 and a processor, or 1, \
             the first ring and processor, and how many",
        ),
        Arg::new("memory")
            .short('m')
            .long("memory")
            .value_name("ID|PORT")
            .value_parser(memory)
            .help("Memory of the new port: a number, or netmap:PORT to share that port's"),
        Arg::new("device")
            .long("device")
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath)
            .help(
                "The device to ask [default: that of the daemon of the run directory, else \
                 /dev/netmap]",
            ),
        Arg::new("help").long("help").action(ArgAction::Help).help("Print help"),
    ]
}

impl ValePlan {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let device = matches.get_one::<PathBuf>("device").cloned();
        Ok(Self { device, action: parse_request(matches)? })
    }
}

fn parse_request(matches: &ArgMatches) -> Result<ValeRequest, Failure> {
    let text = |word: &str| matches.get_one::<String>(word).cloned();
    if let Some(switch) = text("show") {
        return Ok(ValeRequest::Daemon(DaemonRequest::Show(
            Some(switch).filter(|name| !name.is_empty()),
        )));
    }
    if let Some(selector) = text("flush") {
        return Ok(ValeRequest::Daemon(DaemonRequest::Flush(selector)));
    }
    if let Some(mut words) = matches.get_many::<String>("set") {
        let selector = words.next().cloned().unwrap_or_default();
        let changes = words.map(|word| SettingChange::parse(word)).collect::<Result<_, _>>();
        return Ok(ValeRequest::Daemon(DaemonRequest::Set(
            selector,
            changes.map_err(|why| bad_flag("--set", &why))?,
        )));
    }
    let memory = matches.get_one::<ValeMemory>("memory").cloned().unwrap_or_default();
    let conf = numbers(text("conf").as_deref()).map_err(|why| bad_flag("-C", &why))?;
    let has = |word: &str| matches.contains_id(word);
    if !conf.is_empty() && !has("new") && !has("poll") {
        return Err(bad_flag(
            "-C",
            "it goes with -n, a new port, or -p, polling; with nothing else",
        ));
    }
    if has("memory") && !["new", "attach", "attach-host"].into_iter().any(has) {
        return Err(bad_flag("-m", "it goes with -n, -a and -h; nothing else takes a memory"));
    }
    if let Some(owner) = text("owner") {
        let port = text("remove").map(|name| (FreeTarget::Port, name));
        let freed = port.or_else(|| text("detach").map(|name| (FreeTarget::AttachedPort, name)));
        let (what, name) = freed.ok_or_else(|| {
            bad_flag(
                "--owner",
                "it goes with -r and -d; what else is another user's is for that user to ask for",
            )
        })?;
        return Ok(ValeRequest::Daemon(DaemonRequest::Free { what, name, owner }));
    }
    let attach = |name, host| ValeAction::Attach { name, host, memory: memory.clone() };
    let wishes = [
        text("attach").map(|name| attach(name, false)),
        text("attach-host").map(|name| attach(name, true)),
        text("detach").map(ValeAction::Detach),
        text("remove").map(ValeAction::Remove),
        text("get").map(ValeAction::Info),
        text("list").map(ValeAction::List),
        text("stop-polling").map(ValeAction::StopPolling),
    ];
    let action = match (text("new"), text("poll")) {
        (Some(name), _) => ValeAction::New {
            name,
            sizes: sizes(&conf).map_err(|why| bad_flag("-C", &why))?,
            memory,
        },
        (_, Some(name)) => {
            ValeAction::Poll { name, polling: polling(&conf).map_err(|why| bad_flag("-C", &why))? }
        }
        _ => wishes.into_iter().flatten().next().unwrap_or(ValeAction::ListAll),
    };
    Ok(ValeRequest::Device(action))
}

fn bad_flag(flag: &str, why: &str) -> Failure {
    Diagnostic::new(SR0003, format!("the value of {flag} makes no sense"))
        .with_cause(why)
        .with_help("see slipring vale --help")
        .into()
}

/// Parses the number of a memory, or the name of the port whose memory is shared.
fn memory(text: &str) -> Result<ValeMemory, String> {
    match text.strip_prefix("netmap:") {
        Some("") => Err("netmap: needs a port behind it".to_owned()),
        Some(port) => Ok(ValeMemory::Of(port.to_owned())),
        None if text.starts_with("vale") => Ok(ValeMemory::Of(text.to_owned())),
        None => text.parse().map(ValeMemory::Number).map_err(|_| {
            "a memory is a number up to 65535, or a port such as netmap:eth0".to_owned()
        }),
    }
}

/// Parses the value of `-C`: numbers separated by commas.
fn numbers(text: Option<&str>) -> Result<Vec<u32>, String> {
    let words = text.into_iter().flat_map(|text| text.split(','));
    let read = |word: &str| word.trim().parse().map_err(|_| format!("`{word}` is no number"));
    words.map(read).collect()
}

/// Reads `tx slots, rx slots, tx rings, rx rings`; a missing rx value equals the tx value.
fn sizes(conf: &[u32]) -> Result<NmreqValeNewif, String> {
    let ring = |count: u32| u16::try_from(count).map_err(|_| format!("{count} rings are too many"));
    let (slots, rings) = match *conf {
        [] => ([0, 0], [0, 0]),
        [tx] => ([tx, tx], [0, 0]),
        [tx, rx] => ([tx, rx], [0, 0]),
        [tx, rx, rings] => ([tx, rx], [rings, rings]),
        [tx, rx, tx_rings, rx_rings] => ([tx, rx], [tx_rings, rx_rings]),
        _ => return Err("there are four numbers at most".to_owned()),
    };
    Ok(NmreqValeNewif {
        nr_tx_slots: slots[0],
        nr_rx_slots: slots[1],
        nr_tx_rings: ring(rings[0])?,
        nr_rx_rings: ring(rings[1])?,
        ..NmreqValeNewif::default()
    })
}

/// Parses `0,PROCESSOR` (one processor polls all rings), or `1,FIRST,COUNT` (each of `COUNT`
/// processors, from `FIRST` on, polls one ring).
fn polling(conf: &[u32]) -> Result<NmreqValePolling, String> {
    let (nr_mode, first, count) = match *conf {
        [] | [0] => (NETMAP_POLLING_MODE_SINGLE_CPU, 0, 1),
        [0, cpu] | [0, cpu, 1] => (NETMAP_POLLING_MODE_SINGLE_CPU, cpu, 1),
        [0, ..] => return Err("with 0 in front, one processor polls all rings".to_owned()),
        [_] => (NETMAP_POLLING_MODE_MULTI_CPU, 0, 1),
        [_, first] => (NETMAP_POLLING_MODE_MULTI_CPU, first, 1),
        [_, first, count] => (NETMAP_POLLING_MODE_MULTI_CPU, first, count),
        _ => return Err("there are three numbers at most".to_owned()),
    };
    Ok(NmreqValePolling {
        nr_mode,
        nr_first_cpu_id: first,
        nr_num_polling_cpus: count,
        ..NmreqValePolling::default()
    })
}
