//! Tests of numbers without a unit: if the program is called as `tlem`, they have TLEM's meaning in
//! flags; otherwise the ambiguous ones are refused.

use slipring_cli::Diagnose as _;
use slipring_cli::Diagnostic;
use slipring_link::DelayModel;

use super::super::config::{self, EmulationConfig};
use super::{file, message, network, plan, plan_by};
use crate::{EmulationPlan, flags};

/// Builds the plan of a command line of `slipring emulate`.
fn own(args: &str) -> Result<EmulationPlan, Box<Diagnostic>> {
    let args = format!("--virtual a b {args}");
    plan_by(flags::command(), &args.split_ascii_whitespace().collect::<Vec<_>>())
}

fn classic(args: &str) -> Result<EmulationPlan, Box<Diagnostic>> {
    plan(&format!("--virtual a b {args}"))
}

#[test]
fn a_bare_delay_rate_or_loss_is_refused_with_both_readings() {
    for (args, readings) in [
        ("-D 20", "20s or 20ms"),
        ("--delay 1.5", "1.5s or 1.5ms"),
        ("-D normal,20,3ms", "20s or 20ms"),
        ("--up delay=20", "20s or 20ms"),
        ("-B 1", "1bit or 1Mbit"),
        ("--rate ether,10", "10bit or 10Mbit"),
        ("-L 1", "1% or 100%"),
        ("--loss 0.1", "0.1% or 10%"),
        ("--loss .05", "0.05% or 5%"),
        ("--loss 0.125", "0.125% or 12.5%"),
        ("--duplicate 0.01", "0.01% or 1%"),
        ("-R 0.5,2ms", "0.5% or 50%"),
        ("-M 1", "1s or 1ms"),
    ] {
        let error = own(args).err().unwrap_or_else(|| panic!("{args} was accepted"));
        assert_eq!(error.code().to_string(), "SR0007", "{args}");
        let text = message(&error);
        assert!(text.contains(&format!("it could be {readings}")), "{args}: {text}");
        assert!(text.ends_with(&format!("write {readings}")), "{args}: {text}");
    }
}

#[test]
fn a_number_with_one_reading_is_accepted() {
    for args in [
        "-D 0",
        "-B 0",
        "-L 0",
        "-L 1%",
        "-L 1e-3",
        "-L plr,0.001",
        "-L p=0.001",
        "-L ge,0.01,0.3",
        "--corrupt 0.001",
        "-D 20m",
        "-B 10m",
        "-Q 50000",
    ] {
        assert!(own(args).is_ok(), "{args}: {}", message(&own(args).unwrap_err()));
    }
}

#[test]
fn tlem_keeps_its_own_reading_of_bare_numbers() {
    let plan = classic("-D 20 -B 1000 -L 0.1").unwrap();
    assert_eq!(plan.network.links[0].spec.delay.model, DelayModel::Constant(20_000_000_000));
}

#[test]
fn a_k_of_a_queue_is_1000_bytes_except_under_the_name_of_tlem() {
    let bytes = |plan: EmulationPlan| format!("{:?}", plan.network.links[0].spec.queue);
    assert!(bytes(own("-Q 64k").unwrap()).contains("64000"));
    assert!(bytes(own("-Q 64KiB").unwrap()).contains("65536"));
    assert!(bytes(classic("-Q 64k").unwrap()).contains("65536"));
}

/// Returns the result of giving one setting in five ways: as a flag, in a file (quoted and bare),
/// and in a change of settings (as a string, as `ctl set` sends it, and as a number if it is one).
/// The result is the link, or the refusal without its location.
fn everywhere(flag: &str, setting: &str, value: &str) -> [Result<String, String>; 5] {
    let link = |network: slipring_link::NetworkSpec| format!("{:?}", network.links[0].spec);
    let why = |error: String| {
        let (cause, help) = error.rsplit_once(" | ").expect("a cause and a help");
        format!("{} | {help}", cause.split(" at ").next().unwrap_or_default())
    };
    let typed = own(&format!("{flag} {value}")).map(|plan| link(plan.network));
    let quoted = network(&file(&format!("{setting} = \"{value}\"")));
    let bare = network(&file(&format!("{setting} = {value}")));
    let set = |json: serde_json::Value| {
        let config = EmulationConfig::parse("link.toml", &file("")).unwrap();
        let path = format!("up.{setting}");
        let entries = config::entries([(path.as_str(), &json)]);
        let changed = entries.and_then(|entries| config.changed(&entries)?.network());
        changed.map(link).map_err(|error| why(message(&Diagnostic::of(&error))))
    };
    // JSON would not keep an exponent in the form in which the user wrote it.
    let is_number = value.parse::<f64>().is_ok() && !value.contains('e');
    let number = match is_number {
        true => serde_json::from_str(value).expect("TOML's numbers are those of JSON here"),
        false => serde_json::json!(value),
    };
    [
        typed.map_err(|error| why(message(&error))),
        quoted.clone().map(link).map_err(why),
        // In TOML, every value except a number needs quotes.
        if value.parse::<f64>().is_ok() { bare } else { quoted.clone() }.map(link).map_err(why),
        set(serde_json::json!(value)),
        set(number),
    ]
}

#[test]
fn a_bare_delay_rate_or_loss_has_both_readings_in_flags_files_and_messages_alike() {
    for (flag, setting, value, readings) in [
        ("-L", "loss", "1", "1% or 100%"),
        ("-L", "loss", "0.01", "0.01% or 1%"),
        ("-D", "delay", "20", "20s or 20ms"),
        ("-D", "delay", "1.5", "1.5s or 1.5ms"),
        ("-B", "rate", "10", "10bit or 10Mbit"),
        ("--duplicate", "duplicate", "0.5", "0.5% or 50%"),
    ] {
        for message in everywhere(flag, setting, value) {
            let why = message.expect_err(value);
            assert!(why.ends_with(&format!("it could be {readings} | write {readings}")), "{why}");
        }
    }
}

#[test]
fn a_value_means_the_same_in_flags_files_and_messages() {
    for (flag, setting, value) in [
        ("-Q", "queue", "64k"),
        ("-Q", "queue", "64KiB"),
        ("-Q", "queue", "50000"),
        ("-D", "delay", "20m"),
        ("-D", "delay", "0"),
        ("-D", "delay", "10min"),
        ("-B", "rate", "10M"),
        ("-L", "loss", "1%"),
        ("-L", "loss", "1e-3"),
        ("-L", "loss", "0"),
        ("-L", "loss", "plr,0.001"),
        ("-D", "delay", "20q"),
        ("-L", "loss", "1.5"),
    ] {
        let [typed, rest @ ..] = everywhere(flag, setting, value);
        for message in rest {
            assert_eq!(message, typed, "{setting} {value}");
        }
    }
}
