//! Answers of a running router as text, in the forms that users of ip(8) know.

use std::fmt::Write;

use serde_json::Value;

use crate::why;

/// Returns the answer to a request as text.
pub(crate) fn text(what: &str, answer: &Value) -> String {
    match what {
        "status" => status(answer),
        "interface" => list(answer, "interfaces", interface),
        "route.show" => list(answer, "routes", route),
        "route.get" => lookup(answer),
        "why" => why::text(answer),
        "trace" => why::traced(answer),
        "monitor" => event(answer),
        "drop" => drops(answer),
        "punt" => punts(answer),
        "neighbour" => list(answer, "neighbours", neighbour),
        "fib.verify" => verified(answer),
        "reload" => reloaded(answer),
        "quit" => String::new(),
        _ => pairs(answer),
    }
}

fn list(answer: &Value, key: &str, line: fn(&Value) -> String) -> String {
    answer[key].as_array().into_iter().flatten().map(line).collect()
}

/// Returns the displayed form of a field: text without quotes, an empty string for `null`.
pub(crate) fn field(of: &Value, key: &str) -> String {
    match &of[key] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a word, which may be empty, followed by a field; an empty string if the answer does not
/// have the field.
pub(crate) fn word(of: &Value, key: &str, word: &str) -> String {
    let value = field(of, key);
    let separator = if word.is_empty() { "" } else { " " };
    if value.is_empty() { value } else { format!(" {word}{separator}{value}") }
}

fn reloaded(answer: &Value) -> String {
    let lines = |key: &str, line: fn(&str) -> String| -> String {
        answer[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(line).collect()
    };
    lines("warnings", |warning| format!("warning: {warning}\n"))
        + &lines("files", |file| format!("{file} was read again\n"))
}

fn pairs(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    fields.map(|(key, _)| format!("{key} = {}\n", field(answer, key))).collect()
}

fn status(answer: &Value) -> String {
    let fib = &answer["fib"];
    let mut text = format!(
        "{} for {} s by {}\n",
        field(answer, "state"),
        field(answer, "uptime_s"),
        field(answer, "io")
    );
    let _ = writeln!(
        text,
        "routes: {} IPv4, {} IPv6; {} neighbours; generation {}, {} resyncs",
        field(fib, "v4"),
        field(fib, "v6"),
        field(fib, "neighbours"),
        field(fib, "generation"),
        field(fib, "resyncs")
    );
    for worker in answer["workers"].as_array().into_iter().flatten() {
        let (id, queues, frames) =
            (field(worker, "id"), field(worker, "queues"), field(worker, "frames"));
        let busy = worker["busy_ns"].as_u64().unwrap_or_default() / 1_000_000;
        let held = field(worker, "held");
        let _ = writeln!(
            text,
            "worker {id}: queues {queues}, {frames} frames, busy for {busy} ms, {held} held"
        );
    }
    for rules in answer["workers"].as_array().into_iter().flatten().map(|worker| &worker["rules"]) {
        if rules.is_null() {
            continue;
        }
        let [dropped, delayed, waiting, made, unsent] =
            ["dropped", "delayed", "waiting", "made", "unsent"].map(|key| field(rules, key));
        let _ = writeln!(
            text,
            "rules: {dropped} dropped, {delayed} delayed ({waiting} wait), {made} made ({unsent} not sent)"
        );
    }
    for left in answer["left_to_kernel"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "left to the kernel: {}", left.as_str().unwrap_or_default());
    }
    text
}

fn interface(of: &Value) -> String {
    let up = if of["up"] == Value::Bool(true) { "up" } else { "down" };
    let (name, mode) = (field(of, "name"), field(of, "mode"));
    if field(of, "state") == "deleted" {
        return format!("{name}: deleted\n");
    }
    let left = if field(of, "state") == "kernel" { ", left to the kernel" } else { "" };
    let mut text =
        format!("{name}: {up}, {mode}{left}, mac {}, mtu {}", field(of, "mac"), field(of, "mtu"));
    text += &word(of, "vrf", "vrf").replacen(" vrf", ", vrf", 1);
    text.push('\n');
    for address in of["addresses"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "    {}", address.as_str().unwrap_or_default());
    }
    let forwarded = &of["forwarded"];
    let (packets, bytes) = (field(forwarded, "packets"), field(forwarded, "bytes"));
    let _ = writeln!(text, "    forwarded {packets} packets, {bytes} bytes");
    for (cause, count) in of["passed"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "    to the kernel: {count} {cause}");
    }
    for (cause, count) in of["dropped"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "    dropped: {count} {cause}");
    }
    for (class, count) in of["punted"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "    to the kernel by class: {count} {class}");
    }
    if let Some(marked @ 1..) = of["marked"].as_u64() {
        let _ = writeln!(text, "    marked: {marked} beyond the rate of the policer");
    }
    text
}

pub(crate) fn route(of: &Value) -> String {
    let kind = field(of, "kind");
    let mut text = if kind == "unicast" { String::new() } else { format!("{kind} ") };
    text += &field(of, "prefix");
    text += &word(of, "table", "table");
    let hops: Vec<_> = of["nexthops"].as_array().into_iter().flatten().map(next_hop).collect();
    match &hops[..] {
        [only] => text += only,
        several => several.iter().for_each(|hop| text += &format!("\n\tnexthop{hop}")),
    }
    text += &word(of, "metric", "metric");
    text += &word(of, "mtu", "mtu");
    text + "\n"
}

fn next_hop(of: &Value) -> String {
    word(of, "via", "via")
        + &word(of, "dev", "dev")
        + &word(of, "mac", "lladdr")
        + &word(of, "weight", "weight")
}

fn lookup(answer: &Value) -> String {
    let hops: Vec<_> = answer["nexthops"].as_array().into_iter().flatten().map(next_hop).collect();
    let destination = field(answer, "destination");
    let prefix = word(answer, "prefix", "by");
    let action = field(answer, "action");
    let reason = field(answer, "reason");
    let reason = if reason.is_empty() { reason } else { format!(", since {reason}") };
    let hops = hops.join(" or");
    let mut text = format!("{destination}: {action}{prefix}{hops}{reason}\n");
    for exception in answer["exceptions"].as_array().into_iter().flatten() {
        let _ =
            writeln!(text, "    some to the kernel: {}", exception.as_str().unwrap_or_default());
    }
    for tables in answer["other_tables"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "    but {}", tables.as_str().unwrap_or_default());
    }
    text
}

fn neighbour(of: &Value) -> String {
    let mac = word(of, "mac", "lladdr");
    format!("{} dev {}{mac} {}\n", field(of, "address"), field(of, "dev"), field(of, "state"))
}

fn event(of: &Value) -> String {
    let (kind, change, dev) = (field(of, "event"), field(of, "change"), field(of, "dev"));
    let object = &of[&*kind];
    match &*kind {
        "route" => format!("route {change} {}", route(object)),
        "neighbour" => format!("neighbour {change} {}", neighbour(object)),
        "address" => {
            format!("address {change} {} dev {}\n", field(object, "address"), field(object, "dev"))
        }
        "link" => {
            let up = if object["up"] == true { "up" } else { "down" };
            let carrier = if object["carrier"] == true { "" } else { ", no carrier" };
            let mtu = word(object, "mtu", "mtu");
            format!("link {change} {}: {up}{carrier},{mtu}\n", field(object, "dev"))
        }
        "drop" => {
            let (packets, cause) = (field(of, "packets"), field(of, "cause"));
            format!("drop{}: {packets} {cause}\n", word(of, "dev", ""))
        }
        "interface" => format!("interface {dev}: {}\n", field(of, "state")),
        _ if of["files"].is_array() => {
            let files = of["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
            format!("router: reload of {}\n", files.collect::<Vec<_>>().join(", "))
        }
        _ if of["why"].is_string() => {
            format!("router: {}: {}\n", field(of, "what"), field(of, "why"))
        }
        _ if of["what"].is_string() => {
            format!("router: {} {}\n", field(of, "count"), field(of, "what"))
        }
        _ => format!("router: {}\n", field(of, "state")),
    }
}

fn drops(answer: &Value) -> String {
    let since = match answer["reset_s"].as_u64() {
        Some(age) => format!("since the reset {age} s ago"),
        None => "since the start".to_owned(),
    };
    let reset = if answer["reset"] == true { "; counted from 0 now" } else { "" };
    let mut text = format!("{} packets dropped {since}{reset}\n", field(answer, "packets"));
    for of in answer["drops"].as_array().into_iter().flatten() {
        let dev = if of["dev"].is_null() { "all interfaces".to_owned() } else { field(of, "dev") };
        let _ = writeln!(text, "{dev}: {} {}", field(of, "packets"), field(of, "cause"));
    }
    text
}

fn punts(answer: &Value) -> String {
    let mut text = String::new();
    for of in answer["classes"].as_array().into_iter().flatten() {
        let (class, packets, limited) =
            (field(of, "class"), field(of, "packets"), field(of, "limited"));
        let _ = match of["rate"].as_u64() {
            Some(rate) => writeln!(
                text,
                "{class}: {packets} to the kernel, {limited} beyond {rate} a second dropped"
            ),
            None => writeln!(text, "{class}: the program passes packets on, without a limit"),
        };
    }
    if let Some(failed @ 1..) = answer["failed"].as_u64() {
        let _ = writeln!(text, "{failed} not taken by the kernel");
    }
    text
}

fn verified(answer: &Value) -> String {
    format!(
        "{} routes compared: {} missing, {} too many, {} different\n",
        field(answer, "checked"),
        field(answer, "missing"),
        field(answer, "extra"),
        field(answer, "different")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn routes_read_as_those_of_ip() {
        let routes = json!({ "routes": [
            { "prefix": "10.0.0.0/8", "kind": "unicast", "metric": 100,
              "nexthops": [{ "via": "10.1.0.2", "dev": "eth0", "mac": "02:00:00:00:00:01" }] },
            { "prefix": "10.9.0.0/16", "kind": "blackhole", "nexthops": [] },
            { "prefix": "2001:db8::/32", "kind": "unicast", "nexthops": [
                { "via": "fe80::1", "dev": "eth0", "weight": 1 },
                { "via": "fe80::2", "dev": "eth1", "weight": 2 },
            ] },
        ] });
        assert_eq!(
            text("route.show", &routes),
            "10.0.0.0/8 via 10.1.0.2 dev eth0 lladdr 02:00:00:00:00:01 metric 100\n\
             blackhole 10.9.0.0/16\n\
             2001:db8::/32\n\
             \tnexthop via fe80::1 dev eth0 weight 1\n\
             \tnexthop via fe80::2 dev eth1 weight 2\n"
        );
    }

    #[test]
    fn events_are_lines() {
        for (event, line) in [
            (
                json!({ "event": "route", "change": "set", "route": { "prefix": "10.9.0.0/16",
                    "kind": "unicast", "nexthops": [{ "via": "10.3.0.3", "dev": "e1" }] } }),
                "route set 10.9.0.0/16 via 10.3.0.3 dev e1\n",
            ),
            (
                json!({ "event": "neighbour", "change": "removed", "neighbour": {
                    "address": "10.3.0.3", "dev": "e1", "state": "FAILED" } }),
                "neighbour removed 10.3.0.3 dev e1 FAILED\n",
            ),
            (
                json!({ "event": "link", "change": "set",
                    "link": { "dev": "e1", "up": true, "carrier": false, "mtu": 1500 } }),
                "link set e1: up, no carrier, mtu 1500\n",
            ),
            (
                json!({ "event": "drop", "dev": "e0", "cause": "ttl", "packets": 3 }),
                "drop e0: 3 ttl\n",
            ),
            (json!({ "event": "drop", "cause": "limit-bgp", "packets": 3 }), "drop: 3 limit-bgp\n"),
            (
                json!({ "event": "interface", "dev": "e0", "state": "kernel" }),
                "interface e0: kernel\n",
            ),
            (json!({ "event": "router", "state": "kernel" }), "router: kernel\n"),
            (json!({ "event": "router", "what": "resync", "count": 1 }), "router: 1 resync\n"),
            (
                json!({ "event": "router", "what": "reload", "files": ["/a", "/b"] }),
                "router: reload of /a, /b\n",
            ),
            (
                json!({ "event": "router", "what": "takeover given up", "why": "it has ended" }),
                "router: takeover given up: it has ended\n",
            ),
        ] {
            assert_eq!(text("monitor", &event), line);
        }
    }

    #[test]
    fn a_status_names_what_is_left_to_the_kernel() {
        let answer = json!({ "state": "forwarding", "uptime_s": 12, "io": "xdp (native)",
            "fib": { "v4": 3, "v6": 2, "neighbours": 4, "generation": 8, "resyncs": 1 },
            "left_to_kernel": ["eth0: tc filters at ingress"] });
        assert_eq!(
            text("status", &answer),
            "forwarding for 12 s by xdp (native)\n\
             routes: 3 IPv4, 2 IPv6; 4 neighbours; generation 8, 1 resyncs\n\
             left to the kernel: eth0: tc filters at ingress\n"
        );
    }
}
