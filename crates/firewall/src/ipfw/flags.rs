//! The command-line flags of ipfw and dnctl.

use clap::{Arg, ArgAction, Command};
use slipring_cli::flags;

const IPFW_EXAMPLES: &str = "\
Commands:
  add [N] [set N] [prob P] ACTION [log [logamount N]] [tag|untag N] BODY [// comment]
  delete N[-N] ...   list|show|zero|resetlog [N[-N] ...]   flush   -- behind `set N`: of that set
  set show|enable N ...|disable N ...|swap N N|move [rule] N to N
  table NAME|all create|destroy|modify|swap|lock|unlock|[atomic] add|delete|lookup|flush|list|info
  pipe|queue|sched N config ...|show|delete|flush
  nat N config ...|show [config|log|stats]|delete   nptv6 NAME create ...|destroy|list|stats
  enable|disable firewall|one_pass|verbose|dyn_keepalive   sysctl -a|NAME[=VALUE]
  explain PROTO SOURCE[:PORT] DESTINATION[:PORT] [recv PORT] [ttl N] [tos N] [len N]|FILE
  monitor   metrics   save [--states]

  ACTION   allow deny count skipto N call N return check-state pipe N queue N reject unreach CODE
           unreach6 CODE reset reset6 abort abort6 fwd ADDRESS|port:NAME setdscp D setmark N
           tcp-setmss N reass nat N|global nptv6 NAME; N may be tablearg
  BODY     PROTO from SOURCE [PORTS] to DESTINATION [PORTS] OPTIONS, or OPTIONS alone
  OPTIONS  in out recv|xmit|via PORT keep-state limit WHAT N established setup dst-port PORTS
           tcpflags icmptypes iplen ipttl dscp frag tagged mark lookup flow MAC mac-type vlan ...

Examples:
  slipring ipfw add 100 allow tcp from any to 192.0.2.1 22 keep-state
  slipring ipfw -a list
  slipring ipfw -n /etc/ipfw.rules            # checks a file, with no firewall running
  slipring ipfw /etc/ipfw.rules               # loads it, wholly or not at all
  slipring ipfw save > /etc/ipfw.rules        # what runs, as a file that makes it
  slipring ipfw explain udp 10.0.0.1:1024 10.1.0.1:53    # which rules it crosses, and why
  slipring ipfw monitor                       # lines of rules with log, as they come";

const DNCTL_EXAMPLES: &str = "\
Commands:
  pipe N config [bw RATE] [delay TIME] [burst SIZE] [queue SIZE] [plr P] [mask FIELDS]
                [profile FILE] [red|gred W/MIN/MAX/P] [codel ...] [pie ...] [ecn]
  queue N config pipe|sched N [weight N] [lmax N] [pri N] [mask FIELDS] [queue SIZE] ...
  sched N config type fifo|wf2q+|rr|qfq|prio|fq_codel|fq_pie [mask FIELDS] ...
  pipe|queue|sched [N] show|list|delete|flush   sysctl -a|NAME[=VALUE]

Examples:
  slipring dnctl pipe 1 config bw 10Mbit/s delay 20ms
  slipring dnctl pipe show";

/// Letter, long name and meaning of each flag without a value. Both programs have all of them.
const FLAG_LETTERS: &[(char, &str, &str)] = &[
    ('a', "counters", "Show packets and bytes"),
    ('b', "brief", "Show actions and comments only"),
    ('c', "compact", "Show rules in compact form"),
    ('d', "dynamic", "Show states behind the rules"),
    ('D', "only-dynamic", "Show only states"),
    ('e', "expired", "Show states that have ended, too"),
    ('f', "force", "Do not ask; ignore what does not exist"),
    ('i', "addresses", "Show values of tables as addresses"),
    ('n', "trial", "Check commands and files, and change nothing; needs no firewall"),
    ('N', "names", "Show names of services for ports"),
    ('q', "quiet", "Do not report what was done"),
    ('S', "sets", "Show sets, and rules of disabled ones"),
    ('t', "times", "Show when the last packet matched"),
    ('T', "seconds", "Show that time in seconds since 1970"),
];

/// Returns the letter and the long name of each flag without a value.
pub(super) fn letters() -> impl Iterator<Item = (char, &'static str)> {
    FLAG_LETTERS.iter().map(|&(letter, name, _)| (letter, name))
}

pub(super) fn ipfw() -> Command {
    table(
        "ipfw",
        "Ask and change the rules of a running firewall or router, as ipfw(8) does",
        IPFW_EXAMPLES,
    )
}

pub(super) fn dnctl() -> Command {
    table(
        "dnctl",
        "Ask and change the pipes of a running firewall or router, as dnctl(8) does",
        DNCTL_EXAMPLES,
    )
}

fn table(name: &'static str, about: &'static str, examples: &'static str) -> Command {
    let switch = |&(letter, name, help): &(char, &'static str, &'static str)| {
        Arg::new(name).short(letter).long(name).action(ArgAction::SetTrue).help(help)
    };
    let command = Command::new(name).about(about).args(FLAG_LETTERS.iter().map(switch)).args([
        Arg::new("sort")
            .short('s')
            .long("sort")
            .value_name("FIELD")
            .value_parser(clap::value_parser!(i32).range(-4..=4))
            .allow_negative_numbers(true)
            .help("Sort rows of pipes by a counter, 1 to 4; -4 to -1 in reverse order"),
        Arg::new("preprocessor")
            .short('p')
            .long("preprocessor")
            .value_name("COMMAND")
            .help("Run the file through this first; its flags stand before the file"),
        Arg::new("name")
            .long("name")
            .value_name("NAME")
            .help("The firewall or router, by name or process number [default: the only one]"),
        Arg::new("words")
            .value_name("COMMAND")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .help("A command, or a file of commands: its path, or - for standard input"),
    ]);
    flags::run_dir(flags::reporting_as("ipfw", command)).after_help(examples)
}
