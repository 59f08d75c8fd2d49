//! Warns about rules that use objects which do not exist, and about objects that no rule uses.
//!
//! Not for mistakes: rules with these warnings are loaded all the same, because the user may intend
//! them.

use std::collections::BTreeSet;

use slipring_dummynet::ShaperConfig;
use slipring_ipfw::rule::{
    Arg, Condition, HeaderField, InterfacePattern, NatRef, Rule, RuleAction,
};
use slipring_ipfw::run::{Firewall, IpfwConfig, tables_of};
use slipring_nat::{NatMode, OutsideAddress};

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_RARP: u16 = 0x8035;
/// Maximum number of warnings. In a longer list, the important ones would be overlooked.
const MAX_WARNINGS: usize = 20;

/// Returns the warnings about a configuration as text.
pub(crate) fn warnings(firewall: &Firewall, shaper: &[ShaperConfig]) -> Vec<String> {
    let config = firewall.config();
    let mut all = Vec::new();
    pipes(config, shaper, &mut all);
    tables(config, &mut all);
    translators(firewall, &mut all);
    sets(config, &mut all);
    arp(config, &mut all);
    limited(all)
}

fn limited(mut all: Vec<String>) -> Vec<String> {
    if all.len() > MAX_WARNINGS {
        let more = all.len() - MAX_WARNINGS;
        all.truncate(MAX_WARNINGS);
        all.push(format!("{more} more of the kind"));
    }
    all
}

fn rules(config: &IpfwConfig) -> impl Iterator<Item = (u16, &Rule)> {
    config.list.iter().map(|(entry, _)| (entry.number, &*entry.rule))
}

/// Returns a warning for each interface in the rules that is not a port of the firewall. No packet
/// uses such an interface.
pub fn unknown_interfaces(config: &IpfwConfig) -> Vec<String> {
    let mut all = Vec::new();
    for (number, rule) in rules(config) {
        for pattern in rule.body.clauses().flatten() {
            let (word, interface) = match &pattern.condition {
                Condition::Recv(InterfacePattern::Glob(name)) => ("recv", name),
                Condition::Xmit(InterfacePattern::Glob(name)) => ("xmit", name),
                Condition::Via(InterfacePattern::Glob(name)) => ("via", name),
                _ => continue,
            };
            let is_exact = !interface.contains(['*', '?', '[']);
            if is_exact && !config.ports.contains(interface) {
                let ports = config.ports.join(", ");
                all.push(format!(
                    "rule {number}: {word} {interface}: there is no such interface, only {ports}"
                ));
            }
        }
    }
    limited(all)
}

/// The numbers of the pipes, queues and schedulers that exist.
#[derive(Default)]
struct DefinedObjects {
    pipes: BTreeSet<u32>,
    queues: BTreeSet<u32>,
    scheds: BTreeSet<u32>,
    /// The numbers of the pipes for which a scheduler type was given.
    with_scheduler_type: BTreeSet<u32>,
    /// Pairs of numbers: a pipe or scheduler, and a queue that is attached to it.
    parents: BTreeSet<(u32, u32)>,
}

impl DefinedObjects {
    fn of(shaper: &[ShaperConfig]) -> Self {
        let mut objects = Self::default();
        for config in shaper {
            match config {
                ShaperConfig::Pipe(number, pipe) => {
                    objects.pipes.insert((*number).into());
                    objects.with_scheduler_type.extend(pipe.kind.map(|_| u32::from(*number)));
                }
                ShaperConfig::Sched(number, _) => _ = objects.scheds.insert((*number).into()),
                ShaperConfig::Queue(number, queue) => {
                    objects.queues.insert((*number).into());
                    let parent = queue.parent.map(|parent| (parent.into(), (*number).into()));
                    objects.parents.extend(parent);
                }
            }
        }
        objects
    }
}

fn pipes(config: &IpfwConfig, shaper: &[ShaperConfig], all: &mut Vec<String>) {
    let objects = DefinedObjects::of(shaper);
    let (mut pipes, mut queues) = (BTreeSet::new(), BTreeSet::new());
    let mut by_table = false;
    for (number, rule) in rules(config) {
        let (word, arg, known, used) = match &rule.action {
            RuleAction::Pipe(arg) => ("pipe", arg, &objects.pipes, &mut pipes),
            RuleAction::Queue(arg) => ("queue", arg, &objects.queues, &mut queues),
            _ => continue,
        };
        let &Arg::Number(to) = arg else {
            by_table = true;
            continue;
        };
        if used.insert(to) && !known.contains(&to) {
            all.push(format!("rule {number}: there is no {word} {to}: it loses what it is sent"));
        }
    }
    let has_sched =
        |number: &u32| objects.pipes.contains(number) || objects.scheds.contains(number);
    for (parent, queue) in objects.parents.iter().filter(|(parent, _)| !has_sched(parent)) {
        all.push(format!("queue {queue}: there is no pipe or sched {parent}: it loses its frames"));
    }
    if by_table {
        return;
    }
    let has_queues = |pipe: &u32| objects.parents.iter().any(|(parent, _)| parent == pipe);
    for pipe in objects.pipes.iter().filter(|pipe| !pipes.contains(*pipe) && !has_queues(pipe)) {
        all.push(format!("pipe {pipe}: no rule and no queue uses it"));
    }
    for sched in
        objects.scheds.union(&objects.with_scheduler_type).filter(|sched| !has_queues(sched))
    {
        all.push(format!(
            "sched {sched}: no queue uses it, and rules with `pipe` pass it by: \
             `queue N config sched {sched}`"
        ));
    }
    for queue in objects.queues.difference(&queues) {
        all.push(format!("queue {queue}: no rule uses it"));
    }
}

fn tables(config: &IpfwConfig, all: &mut Vec<String>) {
    let mut used = BTreeSet::new();
    for (number, rule) in rules(config) {
        let set = config.table_set(rule.set);
        for (name, _) in tables_of(rule) {
            let is_empty =
                config.table(rule.set, name.as_str()).is_none_or(|table| table.is_empty());
            if used.insert((set, name.as_str().to_owned())) && is_empty {
                all.push(format!("rule {number}: table {name} is empty"));
            }
        }
    }
    for (set, name, _) in config.tables.sorted() {
        if !used.contains(&(set, name.as_str().to_owned())) {
            all.push(format!("table {name}: no rule uses it"));
        }
    }
}

fn translators(firewall: &Firewall, all: &mut Vec<String>) {
    let config = firewall.config();
    let known: BTreeSet<u32> = firewall.nat_instances().map(|(number, _)| number.into()).collect();
    let (mut used, mut uses_all) = (BTreeSet::new(), false);
    for (number, rule) in rules(config) {
        match &rule.action {
            RuleAction::Nat(NatRef::Instance(Arg::Number(to))) => {
                let is_new = used.insert(*to);
                if is_new && !known.contains(to) {
                    all.push(format!("rule {number}: there is no nat {to}: it loses its frames"));
                }
            }
            RuleAction::Nat(_) => uses_all = true,
            RuleAction::Nptv6(name)
                if !firewall.nptv6_counters().any(|(known, _)| known == name) =>
            {
                all.push(format!("rule {number}: there is no nptv6 {name}: it loses its frames"));
            }
            _ => {}
        }
    }
    for (number, translator) in firewall.nat_instances() {
        let settings = translator.config();
        let is_global = uses_all && !settings.modes.has(NatMode::SkipGlobal);
        if !is_global && !used.contains(&number.into()) {
            all.push(format!("nat {number}: no rule uses it"));
        }
        if settings.outside == OutsideAddress::None {
            all.push(match translator.address() {
                Some(address) => format!(
                    "nat {number}: it has neither `ip` nor `if`: its public address is {address}, \
                     the first of --me"
                ),
                None => format!(
                    "nat {number}: it has neither `ip` nor `if`, and there is no --me: only what \
                     its redirections bring in is translated, whatever address that is for"
                ),
            });
        }
    }
}

/// Warns about sets that are disabled but have no rules. These are usually typing mistakes.
fn sets(config: &IpfwConfig, all: &mut Vec<String>) {
    let is_empty = |set: u8| rules(config).all(|(_, rule)| rule.set != set);
    for set in (0..31).filter(|&set| !config.is_enabled(set) && is_empty(set)) {
        all.push(format!("set {set} is disabled, and no rule is in it"));
    }
}

/// Warns about rules for ARP if ARP frames are not checked by rules.
fn arp(config: &IpfwConfig, all: &mut Vec<String>) {
    if config.settings.arp_meets_rules {
        return;
    }
    for (number, _) in rules(config).filter(|(_, rule)| is_about_arp(rule)) {
        all.push(format!(
            "rule {number}: ARP passes before the rules are asked: \
             `sysctl net.link.bridge.ipfw_arp=1`, or --arp rules"
        ));
    }
}

/// Returns whether a rule is meant for ARP: it names the EtherType of ARP or RARP alone, not only
/// in a range with others.
fn is_about_arp(rule: &Rule) -> bool {
    rule.body.clauses().flatten().any(|pattern| match &pattern.condition {
        Condition::Number(HeaderField::MacType, ranges) => ranges.0.iter().any(|&range| {
            range == (ETHERTYPE_ARP, ETHERTYPE_ARP) || range == (ETHERTYPE_RARP, ETHERTYPE_RARP)
        }),
        _ => false,
    })
}
