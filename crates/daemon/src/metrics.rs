//! The metrics of the daemon (`--metrics`): bound ports, their traffic, and the memory of users.

use serde_json::{Map, Value, json};
use slipring_cli::metrics::MetricsText;
use slipring_control::{ControlReply, ControlRequest, ControlService};

use crate::service::DaemonService;

/// Returns the current metrics as text. They are computed from the control service's answers.
///
/// # Errors
/// The summary of the refusal if the control service refuses a request.
pub(crate) fn text(answers: &DaemonService) -> Result<String, String> {
    let mut text = MetricsText::default();
    ports(&mut text, &answer(answers, "ports")?["ports"]);
    memory(&mut text, &answer(answers, "memory")?["memory"]);
    Ok(text.finish())
}

fn answer(answers: &DaemonService, what: &str) -> Result<Value, String> {
    let request = ControlRequest { id: json!(0), what: what.to_owned(), args: Map::new() };
    match answers.answer(&request) {
        Ok(ControlReply::Once(value)) => Ok(value),
        Ok(_) => Err(format!("`{what}` has more than one answer")),
        Err(refusal) => Err(refusal.summary),
    }
}

/// One value with its labels.
type MetricRow = (Vec<(&'static str, String)>, u64);

fn ports(text: &mut MetricsText, ports: &Value) {
    let ports: Vec<_> = ports.as_array().into_iter().flatten().collect();
    let labels = |port: &Value| {
        vec![
            ("port", value_text(&port["port"])),
            ("kind", value_text(&port["kind"])),
            ("user", value_text(&port["uid"])),
            ("netns", value_text(&port["netns"])),
        ]
    };
    let of = |direction: &str| -> Vec<MetricRow> {
        let count = |port: &&Value| Some((labels(port), port[direction]["packets"].as_u64()?));
        ports.iter().filter_map(count).collect()
    };
    let bound: Vec<MetricRow> = ports.iter().map(|port| (labels(port), 1)).collect();
    text.gauge("slipring_daemon_bound_ports", "Ports that programs have bound", bound);
    text.counter("slipring_daemon_rx_packets", "Frames that programs received", of("rx"));
    text.counter("slipring_daemon_tx_packets", "Frames that programs sent", of("tx"));
    let lost = ports.iter().flat_map(|port| {
        port["drops"].as_object().into_iter().flatten().filter_map(|(cause, count)| {
            let cause = [("cause", cause.clone())];
            Some((labels(port).into_iter().chain(cause).collect(), count.as_u64()?))
        })
    });
    let lost = lost.collect::<Vec<MetricRow>>();
    text.counter("slipring_daemon_lost_packets", "Frames lost, by cause", lost);
}

fn memory(text: &mut MetricsText, users: &Value) {
    let families = [
        ("limit", "Maximum memory of the user"),
        ("placed", "Memory in the user's ports"),
        ("touched", "Memory of the user that the machine really gives"),
    ];
    for (key, help) in families {
        let row =
            |user: &Value| Some((vec![("user", value_text(&user["uid"]))], user[key].as_u64()?));
        let rows = users.as_array().into_iter().flatten().filter_map(row);
        text.gauge(&format!("slipring_daemon_memory_{key}_bytes"), help, rows);
    }
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_memory_are_told_by_user() {
        let mut text = MetricsText::default();
        let bound = json!([{
            "port": "vale0:a", "kind": "switch port", "uid": 7, "netns": 4026,
            "rx": { "packets": 3 }, "tx": { "packets": 2 }, "drops": { "tx-full": 1 },
        }, { "port": "x{1", "kind": "pipe", "uid": 7, "netns": 4026 }]);
        ports(&mut text, &bound);
        memory(&mut text, &json!([{ "uid": 7, "limit": 9, "placed": 5, "touched": 1 }]));
        let text = text.finish();
        let a = "port=\"vale0:a\",kind=\"switch port\",user=\"7\",netns=\"4026\"";
        for line in [
            format!("slipring_daemon_bound_ports{{{a}}} 1\n"),
            format!("slipring_daemon_rx_packets_total{{{a}}} 3\n"),
            format!("slipring_daemon_lost_packets_total{{{a},cause=\"tx-full\"}} 1\n"),
            "slipring_daemon_memory_limit_bytes{user=\"7\"} 9\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
