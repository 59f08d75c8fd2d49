//! Answers for `--json`: listings as JSON values. Times are in nanoseconds, rates in bits per
//! second, and lengths in bytes. For a command that changes something other than a sysctl, the
//! answer only contains the text that the command printed.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};
use slipring_dummynet::flow::FlowMask;
use slipring_dummynet::show::{
    FlowRow, FlowsetView, LinkView, PipeView, SchedListing, SchedView, ShaperListing,
    ShaperQueueView,
};
use slipring_dummynet::spec::{
    AqmSpec, PolicySpec, QueueLimit, SchedKind, ShaperLoss, ShaperRedSpec,
};
use slipring_ipfw::rule::{NUM_SETS, ObjectName};
use slipring_ipfw::run::Firewall;
use slipring_ipfw::table::LookupTable;
use slipring_ipfw::text::{
    IpfwCommand, NatCommand, SetCommand, StyledRule, TableCommand, TableScope, TableVerb,
};
use slipring_model::aqm::{CoDelSpec, FairSpec, PieSpec};

use crate::shaper_commands::protocol;

/// Returns the answer to a command that printed `text`. `listing` is the shaper's listing, if the
/// command lists pipes, queues or schedulers.
pub(crate) fn answer(
    master: &Firewall,
    command: &IpfwCommand,
    text: &str,
    listing: Option<&ShaperListing>,
) -> Value {
    let (name, value) = match command {
        IpfwCommand::List { ranges, set, .. } => {
            let is_meant =
                |number: u16| ranges.is_empty() || ranges.iter().any(|range| range.holds(number));
            ("rules", rules(master, *set, is_meant))
        }
        IpfwCommand::Table(table) if is_listing(&table.verb) => ("tables", tables(master, table)),
        IpfwCommand::Set(SetCommand::Show) => ("sets", sets(master)),
        IpfwCommand::Sysctl { .. } => ("sysctls", sysctls(text)),
        IpfwCommand::Nat(NatCommand::Show { ranges, .. }) => {
            let is_meant =
                |number: u16| ranges.is_empty() || ranges.iter().any(|range| range.holds(number));
            ("nats", nats(master, is_meant))
        }
        _ => match listing {
            Some(ShaperListing::Pipes(all)) => ("pipes", all.iter().map(pipe).collect()),
            Some(ShaperListing::Queues(all)) => ("queues", all.iter().map(queue).collect()),
            Some(ShaperListing::Scheds(all)) => ("scheds", all.iter().map(sched_shown).collect()),
            None => return json!({ "text": text }),
        },
    };
    json!({ name: value, "text": text })
}

/// Returns the rules with their counters. Only includes rules whose number satisfies `is_meant`. If
/// `set` is given, only includes rules in that set.
fn rules(master: &Firewall, set: Option<u8>, is_meant: impl Fn(u16) -> bool) -> Value {
    let config = master.config();
    let all = config.list.iter();
    let meant = all
        .filter(|(entry, _)| is_meant(entry.number) && set.is_none_or(|set| entry.rule.set == set));
    meant
        .map(|(entry, counters)| {
            json!({
                "number": entry.number,
                "set": entry.rule.set,
                "enabled": config.is_enabled(entry.rule.set),
                "rule": StyledRule(&entry.rule, Default::default()).to_string(),
                "packets": counters.packets,
                "bytes": counters.bytes,
                "last_match_ns": counters.last_match_ns.map(|ns| master.unix_ns(ns)),
                "logged": counters.logged,
            })
        })
        .collect()
}

const fn is_listing(verb: &TableVerb) -> bool {
    matches!(verb, TableVerb::List | TableVerb::Info | TableVerb::Detail | TableVerb::Lookup(_))
}

fn tables(master: &Firewall, command: &TableCommand) -> Value {
    let config = master.config();
    let set = config.table_set(command.set);
    let is_meant = |of: u8, name: &ObjectName| match &command.scope {
        TableScope::One(one) => (of, name) == (set, one),
        TableScope::All => true,
    };
    let all = config.tables.sorted().into_iter();
    let meant = all.filter(|(of, name, _)| is_meant(*of, name));
    meant.map(|(set, name, one)| table(set, name, one, &command.verb)).collect()
}

fn table(set: u8, name: &ObjectName, table: &LookupTable, verb: &TableVerb) -> Value {
    let options = &table.options;
    let entry =
        |(key, value): (slipring_ipfw::table::TableKey, &slipring_ipfw::table::TableValue)| {
            let value = value.show(options.values, false);
            json!({ "key": key.show(options.kind), "value": value })
        };
    let mut value = json!({
        "name": name.as_str(),
        "set": set,
        "type": options.kind.to_string(),
        "valtype": options.values.to_string(),
        "items": table.len(),
        "limit": Some(options.limit).filter(|&limit| limit > 0),
        "locked": options.locked,
    });
    match verb {
        TableVerb::List => value["entries"] = table.sorted().into_iter().map(entry).collect(),
        TableVerb::Lookup(key) => {
            let key = slipring_ipfw::table::TableKey::parse(key, options.kind).ok();
            value["entries"] =
                key.and_then(|key| table.lookup(&key)).into_iter().map(entry).collect();
        }
        _ => {}
    }
    value
}

fn sets(master: &Firewall) -> Value {
    let is_on = |set: &u8| master.config().is_enabled(*set);
    let (enabled, disabled): (Vec<_>, Vec<_>) = (0..NUM_SETS).partition(is_on);
    json!({ "enabled": enabled, "disabled": disabled })
}

/// Parses lines such as `name: 5` and `name: 5 -> 6`.
fn sysctls(text: &str) -> Value {
    let line = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let value = value.rsplit(' ').next()?.parse::<u64>().ok()?;
        Some((name.to_owned(), json!(value)))
    };
    Value::Object(text.lines().filter_map(line).collect())
}

fn nats(master: &Firewall, is_meant: impl Fn(u16) -> bool) -> Value {
    let object = |pairs: &[(&str, u64)]| -> Map<String, Value> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
    };
    let nats = master.nats().into_iter().filter(|nat| is_meant(nat.number));
    nats.map(|nat| {
        json!({
            "number": nat.number,
            "config": nat.config.trim(),
            "flows": nat.flows.map(|flows| object(&flows)),
            "packets": nat.outcomes.map(|fates| object(&fates)),
        })
    })
    .collect()
}

fn pipe(pipe: &PipeView) -> Value {
    let mut value = link(&pipe.link);
    value["queue"] = flowset(&pipe.flowset);
    value["sched"] = sched(&pipe.sched);
    value["flows"] = pipe.flows.iter().map(row).collect();
    value
}

fn queue(queue: &ShaperQueueView) -> Value {
    let mut value = flowset(&queue.flowset);
    value["flows"] = queue.flows.iter().map(row).collect();
    value
}

fn sched_shown(listing: &SchedListing) -> Value {
    let mut value = sched(&listing.sched);
    value["link"] = link(&listing.link);
    value["queues"] = json!(listing.children);
    value["flows"] = listing.flows.iter().map(row).collect();
    value
}

fn link(link: &LinkView) -> Value {
    let profile = link.profile.as_ref().map(|(name, first_lost, samples)| {
        json!({ "name": name, "samples": samples, "loss": f64::from(*first_lost) / f64::from(*samples) })
    });
    json!({
        "number": link.number,
        "bits_per_sec": Some(link.bits_per_sec).filter(|&rate| rate > 0),
        "delay_ns": link.delay_ns,
        "burst_bytes": link.burst_bytes,
        "profile": profile,
    })
}

fn flowset(flowset: &FlowsetView) -> Value {
    let PolicySpec { limit, loss, aqm: spec, noerror } = &flowset.policy;
    let (packets, bytes) = match *limit {
        QueueLimit::Slots(slots) => (Some(slots), None),
        QueueLimit::Bytes(bytes) => (None, Some(bytes)),
    };
    let [weight, lmax, pri] = flowset.share;
    json!({
        "number": flowset.number,
        "limit_packets": packets,
        "limit_bytes": bytes,
        "loss": losses(*loss),
        "aqm": aqm(spec),
        "noerror": noerror,
        "sched": flowset.sched,
        "weight": weight,
        "lmax": lmax,
        "pri": pri,
        "buckets": flowset.buckets,
        "active": flowset.flows,
        "mask": mask(&flowset.mask),
    })
}

fn sched(sched: &SchedView) -> Value {
    let (fair, aqm) = match &sched.kind {
        SchedKind::FqCodel(spec, codel) => (Some(fairness(spec)), Some(self::codel(codel))),
        SchedKind::FqPie(spec, pie) => (Some(fairness(spec)), Some(self::pie(pie))),
        _ => (None, None),
    };
    json!({
        "number": sched.number,
        "type": sched.kind.name(),
        "fair": fair,
        "aqm": aqm,
        "buckets": sched.buckets,
        "active": sched.active,
        "mask": mask(&sched.mask),
    })
}

fn losses(loss: ShaperLoss) -> Value {
    let p = |loss: u32| f64::from(loss) / f64::from(ShaperLoss::SCALE);
    match loss {
        ShaperLoss::None => Value::Null,
        ShaperLoss::Uniform(loss) => json!({ "p": p(loss) }),
        ShaperLoss::GilbertElliott { good, to_bad, bad, to_good } => {
            json!({ "good": p(good), "to_bad": p(to_bad), "bad": p(bad), "to_good": p(to_good) })
        }
    }
}

fn aqm(spec: &AqmSpec) -> Value {
    match spec {
        AqmSpec::DropTail => json!({ "type": "droptail" }),
        AqmSpec::Red(red) => {
            let p = |value: u32| f64::from(value) / f64::from(ShaperRedSpec::SCALE);
            json!({
                "type": if red.gentle { "gred" } else { "red" },
                "w_q": p(red.weight),
                "min": red.min,
                "max": red.max,
                "max_p": p(red.max_p),
                "ecn": red.ecn,
            })
        }
        AqmSpec::CoDel(spec) => codel(spec),
        AqmSpec::Pie(spec) => pie(spec),
    }
}

fn codel(spec: &CoDelSpec) -> Value {
    json!({
        "type": "codel",
        "target_ns": spec.target_ns,
        "interval_ns": spec.interval_ns,
        "ecn": spec.ecn,
    })
}

fn pie(spec: &PieSpec) -> Value {
    json!({
        "type": "pie",
        "target_ns": spec.target_ns,
        "tupdate_ns": spec.update_ns,
        "alpha": spec.alpha,
        "beta": spec.beta,
        "max_burst_ns": spec.max_burst_ns,
        "max_ecnth": spec.max_ecn_p,
        "ecn": spec.ecn,
    })
}

fn fairness(spec: &FairSpec) -> Value {
    json!({ "flows": spec.flows, "quantum": spec.quantum, "limit_packets": spec.limit_packets })
}

fn mask(mask: &FlowMask) -> Value {
    if mask.is_none() {
        return Value::Null;
    }
    json!({
        "proto": mask.proto,
        "src_ip": Ipv4Addr::from(mask.src4),
        "dst_ip": Ipv4Addr::from(mask.dst4),
        "src_ip6": Ipv6Addr::from(mask.src6),
        "dst_ip6": Ipv6Addr::from(mask.dst6),
        "src_port": mask.src_port,
        "dst_port": mask.dst_port,
        "flow_id": mask.flow_label,
        "queue": mask.queue,
    })
}

fn row(row: &FlowRow) -> Value {
    let key = &row.id.key;
    let address = |bits: u128| match key.is_v6 {
        true => Ipv6Addr::from(bits).to_string(),
        false => Ipv4Addr::from(bits as u32).to_string(),
    };
    json!({
        "bucket": row.bucket,
        "proto": protocol(key.proto).map_or_else(|| json!(key.proto), |name| json!(name)),
        "src": address(key.src),
        "src_port": key.src_port,
        "dst": address(key.dst),
        "dst_port": key.dst_port,
        "flow_id": key.flow_label,
        "packets": row.packets,
        "bytes": row.bytes,
        "waiting_packets": row.waiting,
        "waiting_bytes": row.waiting_bytes,
        "lost_packets": row.drops,
    })
}
