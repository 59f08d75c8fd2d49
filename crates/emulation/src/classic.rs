//! Translates flags to settings of the two links, `up` and `down`.

use clap::ArgMatches;
use slipring_cli::codes::{SR0003, SR0012};
use slipring_cli::{Diagnostic, Failure, flags};

use super::config::tree::{ConfigLocation, ConfigNode, ConfigTable, ConfigValue};
use super::config::{DEFAULT_QUEUE_BYTES, EmulationConfig, EmulationConfigError, call};
use super::flags::{DIRECTED_FLAGS, DirectedFlag};
use super::presets;
use crate::config::names::{LINK_NAMES, PORT_NAMES};

/// Returns one of the given flags that configure the links; `None` if there is none.
pub(super) fn first_link_flag(matches: &ArgMatches) -> Option<String> {
    let directed =
        DIRECTED_FLAGS.iter().find(|flag| matches.contains_id(flag.id)).map(DirectedFlag::shown);
    let mut whole = LINK_NAMES.iter().chain(&["preset"]);
    directed.or_else(|| whole.find(|id| matches.contains_id(id)).map(|id| format!("--{id}")))
}

/// Returns the settings that the flags give. Also returns the names of the links with a constant
/// rate but no queue setting, because these get TLEM's default queue.
pub(super) fn settings(
    matches: &ArgMatches,
) -> Result<(EmulationConfig, Vec<&'static str>), Failure> {
    let mut root = ConfigTable::default();
    let location = flag(matches, "the command line");
    let (mut ports, mut links) = (ConfigTable::default(), ConfigTable::default());
    let mut unasked = Vec::new();
    for name in PORT_NAMES {
        ports.put(name, ConfigNode::table(ConfigTable::default(), location.clone()));
    }
    for (direction, name) in LINK_NAMES.into_iter().enumerate() {
        let mut link = ConfigTable::default();
        for (key, port) in [("from", PORT_NAMES[direction]), ("to", PORT_NAMES[1 - direction])] {
            link.put(key, ConfigNode::text(port, location.clone()));
        }
        let (mut parts, queue_asked) = parts(matches, direction)?;
        if !queue_asked && has_constant_rate(&parts) {
            unasked.push(name);
            let queue = parts.table_at("queue", &location);
            queue
                .expect("it is a table")
                .put("bytes", ConfigNode::text(DEFAULT_QUEUE_BYTES.to_string(), location.clone()));
        }
        link.entries.extend(parts.entries);
        links.put(name, ConfigNode::table(link, location.clone()));
    }
    root.put("ports", ConfigNode::table(ports, location.clone()));
    root.put("link", ConfigNode::table(links, location));
    Ok((EmulationConfig { root, ..EmulationConfig::default() }, unasked))
}

/// Returns the location of a flag for error messages. The location also says whether the program
/// was called by a classic name; if so, numbers without a unit have the meaning that TLEM gives
/// them.
pub(super) fn flag(matches: &ArgMatches, name: &str) -> ConfigLocation {
    ConfigLocation::flag(name).classic_if(flags::is_called_by_classic_name(matches))
}

/// Returns the settings of one direction, and whether they include its queue.
fn parts(matches: &ArgMatches, direction: usize) -> Result<(ConfigTable, bool), Failure> {
    refuse_two_of_a_kind(matches)?;
    let mut link = ConfigTable::default();
    let mut later = Vec::new();
    for (part, value) in presets::preset_parts(matches, direction).into_iter().flatten() {
        link.put(part, ConfigNode::text(*value, flag(matches, "--preset")));
    }
    for directed in &DIRECTED_FLAGS {
        let Some(text) = value_for(matches, directed, direction)? else { continue };
        let node = ConfigNode::text(text, flag(matches, &directed.shown()));
        match directed.id {
            "half-life" => later.push(("delay", "half_life", node)),
            "admit" => later.push(("queue", "admit", node)),
            "rate" => put_rate(&mut link, node)?,
            "reorder" => put_reorder(&mut link, &node)?,
            id => link.put(id, node),
        }
    }
    let mut queue_asked = link.get("queue").is_some();
    let path = format!("link.{}", LINK_NAMES[direction]);
    call::expand(&mut link, &path)?;
    for (part, key, node) in later {
        let location = node.location.clone();
        let table = link.table_at(part, &location).expect("parts were expanded");
        refuse_repeated_setting(table, part, key, &location)?;
        table.put(key, node);
    }
    if let (Some(order), Some(ConfigNode { value: ConfigValue::Table(delay), .. })) =
        (link.get("order"), link.get("delay"))
    {
        refuse_repeated_setting(delay, "delay", "order", &order.location)?;
    }
    if let Some(text) = matches.get_one::<String>(LINK_NAMES[direction]) {
        let mut whole = call::parts(text, &flag(matches, &format!("--{}", LINK_NAMES[direction])))?;
        queue_asked |= whole.get("queue").is_some();
        refuse_own_value(matches, &whole, direction)?;
        call::expand(&mut whole, &path)?;
        whole.entries.into_iter().for_each(|entry| link.put(&entry.key, entry.node));
    }
    Ok((link, queue_asked))
}

/// Returns an error if two flags set the same setting, since one flag would override the other.
fn refuse_two_of_a_kind(matches: &ArgMatches) -> Result<(), Failure> {
    let both = |flags: [&str; 2]| flags.iter().all(|id| matches.contains_id(id));
    let of_rates = || matches.get_many::<String>("rate").into_iter().flatten();
    let (flags, what) = if both(["reorder", "order"]) {
        ("-P and --order", "both say what becomes of frames that would overtake")
    } else if matches.contains_id("police") && of_rates().any(|rate| rate.starts_with("avg,")) {
        ("-B avg and --police", "both are the policer")
    } else {
        return Ok(());
    };
    let error = Diagnostic::new(SR0003, format!("{flags} do not go together"));
    Err(error.with_cause(what).with_help("give one of them").into())
}

/// Returns an error if a setting is given both by its own flag and within the value of another
/// flag.
fn refuse_repeated_setting(
    table: &ConfigTable,
    part: &str,
    key: &str,
    flag: &ConfigLocation,
) -> Result<(), Failure> {
    let Some(value) = table.get(key) else { return Ok(()) };
    let summary = format!("{key} of {part} is given twice");
    let error =
        Diagnostic::new(SR0003, summary).with_cause(format!("at {flag} and {}", value.location));
    Err(error.with_help("give it once").into())
}

/// Returns an error if a flag has a value for each direction, and `--up` or `--down` replaces one
/// of these values. A single value may be replaced, because it still applies to the other
/// direction.
fn refuse_own_value(
    matches: &ArgMatches,
    whole: &ConfigTable,
    direction: usize,
) -> Result<(), Failure> {
    let is_twice = |flag: &&DirectedFlag| {
        matches.get_many::<String>(flag.id).is_some_and(|values| values.len() == 2)
    };
    let replaced = DIRECTED_FLAGS.iter().filter(is_twice).find(|flag| whole.get(flag.id).is_some());
    let Some(flag) = replaced else { return Ok(()) };
    let (shown, name) = (flag.shown(), LINK_NAMES[direction]);
    let summary = format!("--{name} replaces what {shown} says of that direction");
    let help = format!("give {shown} once, for the other direction, or leave it out of --{name}");
    Err(Diagnostic::new(SR0003, summary).with_help(help).into())
}

/// For a command whose frames go one way: returns an error if there are settings for a second
/// direction.
///
/// # Errors
/// [`Failure`] that names the first flag with such a setting.
pub fn refuse_second_direction(matches: &ArgMatches) -> Result<(), Failure> {
    let twice =
        |flag: &&DirectedFlag| matches.get_many::<String>(flag.id).is_some_and(|v| v.len() > 1);
    let summary = if matches.contains_id("down") {
        "--down says nothing here".to_owned()
    } else if let Some(flag) = DIRECTED_FLAGS.iter().find(twice) {
        // A command whose frames go one way has no `-B`: there the rate of the link is set by
        // `--link-rate`.
        let shown = if flag.id == "rate" { "--link-rate".to_owned() } else { flag.shown() };
        format!("{shown} is given twice")
    } else {
        return Ok(());
    };
    let error = Diagnostic::new(SR0003, summary).with_cause("all frames go one way, up");
    Err(error.with_help("give what the link does once, by its flag or by --up").into())
}

/// Returns the value of a flag for a direction; a single value is for both directions.
fn value_for<'m>(
    matches: &'m ArgMatches,
    flag: &DirectedFlag,
    direction: usize,
) -> Result<Option<&'m String>, Failure> {
    let values: Vec<_> = matches.get_many::<String>(flag.id).into_iter().flatten().collect();
    match values[..] {
        [] => Ok(None),
        [both] => Ok(Some(both)),
        [up, down] => Ok(Some(if direction == 0 { up } else { down })),
        _ => {
            let summary = format!("{} is given {} times", flag.shown(), values.len());
            let error = Diagnostic::new(SR0003, summary).with_cause("there are two directions");
            Err(error.with_help("give it once for both, or once for each").into())
        }
    }
}

/// Stores a rate. A rate with TLEM's `avg` becomes a policer.
fn put_rate(link: &mut ConfigTable, node: ConfigNode) -> Result<(), EmulationConfigError> {
    let text = node.shown();
    match text.strip_prefix("avg,") {
        Some(rest) => {
            link.put("police", ConfigNode::text(rest, node.location.advanced_by("avg,".len())))
        }
        None => link.put("rate", node),
    }
    Ok(())
}

fn put_reorder(link: &mut ConfigTable, node: &ConfigNode) -> Result<(), EmulationConfigError> {
    let order = match node.shown().as_str() {
        "0" => "strict",
        "1" => "drop",
        other => {
            let error = EmulationConfigError::value("-P", other, "it is neither 0 nor 1")
                .at(&node.location);
            return Err(error.help("1 drops frames that would overtake; see --order for more"));
        }
    };
    link.put("order", ConfigNode::text(order, node.location.clone()));
    Ok(())
}

fn has_constant_rate(link: &ConfigTable) -> bool {
    let Some(ConfigNode { value: ConfigValue::Table(rate), .. }) = link.get("rate") else {
        return false;
    };
    matches!(rate.word("model"), None | Some("const" | "ether"))
}

/// Returns an error if TLEM's session files are requested. They are an image of TLEM's memory, so
/// this program cannot read them.
pub(super) fn refuse_foreign(matches: &ArgMatches) -> Result<(), Failure> {
    let (what, help) = if matches.contains_id("session") {
        let help = "start it with --name lab instead; then: slipring emulate ctl stats --name lab, \
                    or: slipring emulate ctl set --name lab up.delay=40ms";
        ("-s: there is no session file", help)
    } else if matches.get_flag("ask-to-exit") {
        let help = "to end a run with its summary: slipring emulate ctl quit --name lab";
        ("-a: there is no session to ask", help)
    } else {
        return Ok(());
    };
    let cause = "running links are asked and changed by their name, through a socket of their own";
    Err(Diagnostic::new(SR0012, what).with_cause(cause).with_help(help).into())
}
