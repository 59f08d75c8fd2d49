//! Writes the running rules as a file of commands that recreates them, for `ipfw save` and
//! `--state`.
//!
//! # Design decisions
//! - **Loading over a running firewall.** The file first removes rules, tables and `nptv6`
//!   instances. So it can be loaded into an empty firewall, and also into the firewall that wrote
//!   it. A rule that is removed and added again without a change keeps its counters and states.
//! - **Pipes, `nat` instances and settings** are not removed first, because packets wait in pipes
//!   and instances have flows. The file has a complete command for each of them, which replaces its
//!   configuration.
//! - **States** are written only on request. They come after the rules that they depend on.
//! - **A truncated file** is refused. Its first line says that there must be a last line.
//!
//! Not for: the counters of rules and the flows of `nat`. These are lost when the program ends.

use std::fmt::Write;

use slipring_dummynet::{Dummynet, ShaperConfig};
use slipring_ipfw::rule::RESERVED_SET;
use slipring_ipfw::run::{CommandFlags, Firewall, IpfwConfig};
use slipring_ipfw::table::LookupTable;
use slipring_ipfw::text::{
    IpfwCommand, NatCommand, NatShow, Nptv6Command, Nptv6Verb, RuleStyle, StateCommand, StyledRule,
};

/// The shaper's configuration. Only the engines have it, not the master.
#[derive(Debug, Clone, Default)]
pub struct ShaperState {
    /// The commands that create pipes, queues and schedulers.
    pub objects: Vec<ShaperConfig>,
    sysctls: String,
}

impl ShaperState {
    /// Reads the configuration of a shaper.
    pub fn of<H: Copy>(shaper: &mut Dummynet<H>) -> Self {
        Self { objects: shaper.configuration(), sysctls: sysctls_of(shaper) }
    }
}

fn sysctls_of<H: Copy>(shaper: &mut Dummynet<H>) -> String {
    shaper.sysctl("", None).unwrap_or_default()
}

/// The first lines of a saved file. They remove objects that would conflict with the rest of the
/// file.
const SAVE_HEADER: &str = "\
# Written by `slipring ipfw save`; `slipring ipfw FILE` loads it, in place of what there is, if it is whole.
flush
delete set 31
table all destroy
nptv6 all destroy
";

/// The last line of a saved file. If it is missing, the file is truncated.
const SAVE_TRAILER: &str = "# The end of what `slipring ipfw save` wrote.";

/// The sysctl for the default number of lines that a rule with `log` writes. A rule copies this
/// value when it is created, so a saved file sets the sysctl after its rules.
const LOG_LIMIT_SYSCTL: &str = "net.inet.ip.fw.verbose_limit";

/// The start of a comment line about something that a saved file does not contain, such as the
/// flows of `nat`.
pub const NOT_SAVED_PREFIX: &str = "# Not kept: ";

/// If `text` was written by [`text`] and is truncated, returns the line at which it ends; otherwise
/// `None`.
pub fn truncated_at(text: &str) -> Option<usize> {
    let head = SAVE_HEADER.split('\n').next().unwrap_or_default();
    let is_part_of_head = !text.is_empty() && head.starts_with(text);
    let is_saved = text
        .strip_prefix(head)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['\n', '\r']));
    let is_cut =
        is_part_of_head || (is_saved && text.trim_end().lines().next_back() != Some(SAVE_TRAILER));
    is_cut.then(|| text.lines().count())
}

/// Returns the commands that recreate the configuration, one per line. `states` are the commands
/// that restore the states.
pub fn text(firewall: &mut Firewall, shaper: &ShaperState, states: &[StateCommand]) -> String {
    let mut text = SAVE_HEADER.to_owned();
    let (usual, now) = (sysctls(&mut Firewall::new(0, [0; 2])), sysctls(firewall));
    let is_limit = |line: &&str| line.starts_with(LOG_LIMIT_SYSCTL);
    let limit =
        now.lines().find(is_limit).filter(|limit| !usual.lines().any(|line| line == *limit));
    changed_sysctls(&mut text, &usual, &now);
    changed_sysctls(&mut text, &sysctls_of(&mut Dummynet::<()>::new(0, [0; 2])), &shaper.sysctls);
    for object in &shaper.objects {
        line(&mut text, object);
    }
    translators(&mut text, firewall);
    let config = firewall.config();
    for (set, name, table) in config.tables.sorted() {
        self::table(&mut text, (set, name.as_str()), table);
    }
    line(&mut text, sets(config));
    rules(&mut text, config, limit);
    states.iter().for_each(|state| line(&mut text, state));
    line(&mut text, SAVE_TRAILER);
    text
}

/// Writes the rules. `limit` is the value of [`LOG_LIMIT_SYSCTL`], or `None` if it has its default
/// value.
fn rules(text: &mut String, config: &IpfwConfig, limit: Option<&str>) {
    // The last rule is the default rule. It always exists, so it is not written.
    let rules: Vec<_> = config.list.iter().take(config.list.len() - 1).collect();
    if rules.iter().any(|(entry, _)| entry.rule.log.is_some_and(|log| log.amount.is_none())) {
        line(text, format_args!("sysctl {LOG_LIMIT_SYSCTL}=0"));
    }
    for (entry, _) in rules {
        let set = match entry.rule.set {
            0 => String::new(),
            set => format!("set {set} "),
        };
        let rule = StyledRule(&entry.rule, RuleStyle { exact: true, ..RuleStyle::default() });
        line(text, format_args!("add {:05} {set}{rule}", entry.number));
    }
    if let Some((name, value)) = limit.and_then(|limit| limit.split_once(": ")) {
        line(text, format_args!("sysctl {name}={value}"));
    }
}

/// Returns a command that enables or disables every set but the reserved one, so that after
/// loading, no set keeps its earlier state.
fn sets(config: &IpfwConfig) -> String {
    let of = |is_enabled: bool| {
        let sets = (0..RESERVED_SET).filter(move |&set| config.is_enabled(set) == is_enabled);
        sets.map(|set| format!(" {set}")).collect::<String>()
    };
    match (of(false), of(true)) {
        (disabled, enabled) if disabled.is_empty() => format!("set enable{enabled}"),
        (disabled, enabled) if enabled.is_empty() => format!("set disable{disabled}"),
        (disabled, enabled) => format!("set disable{disabled} enable{enabled}"),
    }
}

fn line(text: &mut String, line: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn sysctls(firewall: &mut Firewall) -> String {
    let all = IpfwCommand::Sysctl { name: String::new(), value: None };
    firewall.execute(&all, 0, CommandFlags::default()).map(|reply| reply.text).unwrap_or_default()
}

/// Writes the sysctls that differ from their defaults. Skips sysctls that are counters, the one of
/// the default rule, and [`LOG_LIMIT_SYSCTL`], which [`rules`] writes.
fn changed_sysctls(text: &mut String, usual: &str, now: &str) {
    const COUNTED_SYSCTLS: [&str; 4] = ["io_pkt", "tick_", "static_count", "dyn_count"];
    for (usual, now) in usual.lines().zip(now.lines()).filter(|(usual, now)| usual != now) {
        let Some((name, value)) = now.split_once(": ").filter(|_| usual.contains(": ")) else {
            continue;
        };
        let is_said = name.ends_with("default_rule") || name == LOG_LIMIT_SYSCTL;
        if !COUNTED_SYSCTLS.iter().any(|counted| name.contains(counted)) && !is_said {
            line(text, format_args!("sysctl {name}={value}"));
        }
    }
}

fn translators(text: &mut String, firewall: &mut Firewall) {
    let nat = IpfwCommand::Nat(NatCommand::Show { what: NatShow::Config, ranges: Vec::new() });
    let texts = |firewall: &mut Firewall, command| {
        firewall
            .execute(&command, 0, CommandFlags::default())
            .map(|reply| reply.text)
            .unwrap_or_default()
    };
    let configs = texts(firewall, nat);
    if !configs.is_empty() {
        line(text, format_args!("{NOT_SAVED_PREFIX}flows of nat, which end with the firewall"));
    }
    for config in configs.lines() {
        line(text, config.trim_start_matches("ipfw "));
    }
    let nptv6 = IpfwCommand::Nptv6(Nptv6Command { name: None, verb: Nptv6Verb::List });
    for listed in texts(firewall, nptv6).lines() {
        // The listing of an instance has the form `nptv6 NAME OPTIONS`.
        let mut words = listed.splitn(3, ' ');
        if let (Some(_), Some(name), Some(options)) = (words.next(), words.next(), words.next()) {
            line(text, format_args!("nptv6 {name} create {options}"));
        }
    }
}

fn table(text: &mut String, (set, name): (u8, &str), table: &LookupTable) {
    let options = &table.options;
    let set = if set == 0 { String::new() } else { format!("set {set} ") };
    let mut create =
        format!("{set}table {name} create type {} valtype {}", options.kind, options.values);
    if let Some(algorithm) = &options.algorithm {
        let _ = write!(create, " algo {algorithm}");
    }
    if options.limit > 0 {
        let _ = write!(create, " limit {}", options.limit);
    }
    line(text, create);
    for (key, value) in table.sorted() {
        let (key, value) = (key.show(options.kind), value.show(options.values, false));
        line(text, format_args!("{set}table {name} add {key} {value}"));
    }
    if options.locked {
        line(text, format_args!("{set}table {name} lock"));
    }
}
