//! Tests of changes of settings during a run: a change applies as a whole or not at all, and
//! settings have the same names as in files.

use serde_json::{Value, json};
use slipring_cli::Diagnostic;
use slipring_link::{DelayModel, NetworkSpec, RateSpec};

use super::super::config::{self, EmulationConfig, EmulationConfigError};
use super::{file, message, plan};

fn config() -> EmulationConfig {
    let text = file("rate = \"10Mbit\"\ndelay = \"normal(20ms, 3ms)\"");
    EmulationConfig::parse("link.toml", &text).unwrap()
}

fn set(config: &mut EmulationConfig, path: &str, value: Value) -> Result<(), String> {
    let done = apply(config, &[(path, &value)]);
    done.map(|_| ()).map_err(|error| message(&Diagnostic::of(&error)))
}

/// Applies settings as a change during a run does: all of them, or none if the result is invalid.
fn apply(
    config: &mut EmulationConfig,
    settings: &[(&str, &Value)],
) -> Result<NetworkSpec, EmulationConfigError> {
    let changed = config.changed(&config::entries(settings.iter().copied())?)?;
    let network = changed.network()?;
    *config = changed;
    Ok(network)
}

fn rate(config: &EmulationConfig) -> RateSpec {
    config.network().unwrap().links[0].spec.rate.clone()
}

#[test]
fn a_path_reaches_a_value_or_a_whole_part() {
    let mut config = config();
    set(&mut config, "link.up.rate.bps", json!("20Mbit")).unwrap();
    assert_eq!(rate(&config), RateSpec::Constant { bps: 20_000_000 });
    set(&mut config, "up.rate", json!("ether(1Gbit)")).unwrap();
    assert_eq!(config.network().unwrap().links[0].spec.framing.overhead_bytes, 24);
    set(&mut config, "up.delay.mean", json!("40ms")).unwrap();
    let DelayModel::Random(delay) = &config.network().unwrap().links[0].spec.delay.model else {
        panic!()
    };
    assert!((delay.mean_ns() - 40e6).abs() < 1e3, "the deviation stays, the mean changes");
    set(&mut config, "up.loss.p", json!(0.01)).unwrap();
    set(&mut config, "up.loss", json!("none")).unwrap();
    assert!(config.network().unwrap().links[0].spec.loss.is_empty());
    set(&mut config, "up.queue", json!({ "kind": "codel", "bytes": "64KiB" })).unwrap();
    assert_eq!(config.network().unwrap().links[0].spec.queue.bytes, Some(65_536));
}

#[test]
fn a_change_that_does_not_fit_leaves_everything_as_it_was() {
    let mut config = config();
    let before = config.network().unwrap();
    for (path, value, why) in [
        (
            "up.rate.bps",
            json!("20"),
            "`20` does not fit link.up.rate.bps | it could be 20bit or 20Mbit",
        ),
        (
            "up.rate.bps",
            json!(20),
            "`20` does not fit link.up.rate.bps | it could be 20bit or 20Mbit",
        ),
        ("up.rate.bsp", json!("1Mbit"), "link.up.rate has no `bsp`"),
        ("pu.rate", json!("1Mbit"), "there is no link.pu.rate"),
        ("up.delay.sd", json!("-1ms"), "`-1ms` does not fit link.up.delay.sd"),
        (
            "up",
            json!("x"),
            "link.up cannot be set as a whole | links are neither added nor removed",
        ),
        (
            "up.from",
            json!("right"),
            "link.up.from cannot be set | links are neither added nor removed",
        ),
        ("third.rate", json!("1Mbit"), "there is no link.third.rate | links are neither added nor"),
        ("seed", json!(4), "seed cannot change in a run | it is a setting of the whole run"),
        ("ports.left.dev", json!("tap:x"), "ports.left.dev cannot change in a run"),
        ("up..bps", json!("1Mbit"), "`link.up..bps` is no path"),
        ("up.delay.mean.x", json!("1ms"), "link.up.delay.mean is a single value"),
        ("up.rate", Value::Null, "up.rate cannot be null"),
        ("up.order", json!("correlated"), "`correlated` does not fit link.up.order"),
    ] {
        let error = set(&mut config, path, value).unwrap_err();
        assert!(error.starts_with(why), "{path}: {error}");
        assert_eq!(config.network().unwrap(), before, "{path}");
    }
}

#[test]
fn several_changes_are_one() {
    let mut config = config();
    let (good, bad) = (json!("20Mbit"), json!("x"));
    let both = [("up.rate.bps", &good), ("down.rate.bps", &bad)];
    assert!(apply(&mut config, &both).is_err());
    assert_eq!(rate(&config), RateSpec::Constant { bps: 10_000_000 }, "not the first one alone");
    let both = [("up.rate.bps", &good), ("down.rate.bps", &good)];
    let network = apply(&mut config, &both).unwrap();
    let wanted = RateSpec::Constant { bps: 20_000_000 };
    assert!(network.links.iter().all(|link| link.spec.rate == wanted));
}

#[test]
fn settings_of_flags_are_changed_by_the_same_paths() {
    let mut plan = plan("--virtual a b -B 10m -D normal,20ms,3ms").unwrap();
    set(&mut plan.config, "down.rate.bps", json!("1Gbit")).unwrap();
    let network = plan.config.network().unwrap();
    assert_eq!(network.links[1].spec.rate, RateSpec::Constant { bps: 1_000_000_000 });
    assert_eq!(network.links[0], plan.network.links[0]);
}

#[test]
fn a_rate_ends_a_trace_and_a_trace_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("lte.mm");
    std::fs::write(&trace, "1\n2\n").unwrap();
    let mut config = config();
    set(&mut config, "up.rate.trace", json!(trace.to_str().unwrap())).unwrap();
    assert!(matches!(rate(&config), RateSpec::Opportunities { .. }));
    set(&mut config, "up.rate.bps", json!("1Mbit")).unwrap();
    assert_eq!(rate(&config), RateSpec::Constant { bps: 1_000_000 });
}

#[test]
fn explanations_show_what_is_really_drawn() {
    let plan =
        plan("--virtual a b -B ether,10g -D normal,5ms,5ms,min=0 -L 1e-15 --seed 3").unwrap();
    let explained = config::explain(&plan.network, plan.seed);
    let text = explained.text();
    assert!(text.contains("takes 84 on the line, 67.200 ns"), "{text}");
    assert!(text.contains("50000 bytes (40 us of the line), droptail"), "{text}");
    let json = explained.json();
    let up = &json["links"]["up"];
    assert_eq!(json["seed"], 3);
    let p = up["loss"]["probability"].as_f64().unwrap();
    assert!((p - 1e-15).abs() < 1e-18, "as near as 2^-63 allows: {p:e}");
    let mean = up["delay"]["mean_ns"].as_f64().unwrap();
    assert!((mean - 6.44e6).abs() < 0.02e6, "cut at 0, the mean rises to {mean}");
}

#[test]
fn what_stands_in_a_file_is_not_told_to_who_changes_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let message = |discreet| {
        let mut config = config();
        config.files.hides_details = discreet;
        let of = |path: &str, value: Value| set(&mut config.clone(), path, value).unwrap_err();
        let file = json!(secret.to_str().unwrap());
        let samples = json!({ "model": "samples", "file": &file });
        [
            of("up.rate.trace", file.clone()),
            of("up.delay", samples),
            of("up.delay", json!({ "wasm": file })),
        ]
    };
    // An error can reveal the contents of a file as text or, for an invalid module, as its first
    // bytes in hexadecimal.
    let is_told = |message: &String| message.contains("hunter2") || message.contains("0x68");
    assert!(message(false).iter().any(is_told), "at the start they help: {:?}", message(false));
    assert!(!message(true).iter().any(is_told), "{:?}", message(true));
}

#[test]
fn a_file_that_is_not_there_is_refused_as_one_that_does_not_fit_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("text"), "hunter2\n").unwrap();
    std::fs::write(path("bytes"), [0xff, 0xfe, 0]).unwrap();
    type Naming = fn(&str) -> Value;
    let message = |part: &str, value: Naming, name: &str| {
        let mut config = config();
        config.files.hides_details = true;
        set(&mut config, part, value(&path(name))).unwrap_err().replace(&path(name), "FILE")
    };
    let parts: [(&str, Naming); 5] = [
        ("up.rate", |file| json!({ "trace": file })),
        ("up.rate", |file| json!({ "trace": file, "format": "theaterq" })),
        ("up.delay", |file| json!({ "dist": "table", "file": file, "mean": "1ms", "sd": "1ms" })),
        ("up.delay", |file| json!({ "wasm": file })),
        ("up.loss", |file| json!({ "model": "pattern", "bits": file })),
    ];
    for (part, value) in parts {
        let missing = message(part, value, "nosuch");
        assert!(
            missing.starts_with("FILE cannot be used | it is not there, not to be"),
            "{missing}"
        );
        for name in ["text", "bytes", ".", "text/below"] {
            assert_eq!(message(part, value, name), missing, "{part} {name}");
        }
    }
}

#[test]
fn explanations_tell_how_long_models_of_bursts_are_in_their_states() {
    let loss = |words: &str| {
        let plan = plan(&format!("--virtual a b -L {words}")).unwrap();
        let explained = config::explain(&plan.network, 1);
        (explained.text(), explained.json()["links"]["up"]["loss"].clone())
    };
    let near = |value: &Value, wanted: f64| (value.as_f64().unwrap() - wanted).abs() < 1e-9;
    let (text, ge) = loss("ge,0.01,0.25");
    assert!(text.contains("3.8462 % of all in the bad state"), "{text}");
    assert!(near(&ge["bad_share"], 0.01 / 0.26) && near(&ge["mean_burst"], 4.0), "{ge}");
    let (_, timed) = loss("timed-ge,3s,1s");
    assert!(near(&timed["bad_share"], 0.25), "{timed}");
    let (text, four) = loss("state4,0.01,0.25,0,1,0");
    assert!(near(&four["mean_loss"], 0.01 / 0.26) && text.contains("4.000 in a row"), "{text}");
}

#[test]
fn one_setting_is_given_one_value_however_its_path_is_written() {
    let why = |one: &str, other: &str| {
        let (first, second) = (json!("5ms"), json!("6ms"));
        let error = apply(&mut config(), &[(one, &first), (other, &second)]).unwrap_err();
        message(&Diagnostic::of(&error))
    };
    for (one, other, wanted) in [
        ("up.delay", "link.up.delay", "link.up.delay is given twice | `up.delay` and `link.up.de"),
        ("link.up.delay", "up.delay", "link.up.delay is given twice | `link.up.delay` and `up.de"),
        ("up.delay", "up.delay.mean", "link.up.delay.mean is given twice | `up.delay` sets it too"),
        ("up.delay.mean", "up.delay", "link.up.delay.mean is given twice | `up.delay` sets it too"),
    ] {
        let error = why(one, other);
        assert!(error.starts_with(wanted), "{one} {other}: {error}");
    }
    let (delay, loss) = (json!("5ms"), json!("1%"));
    let sd = json!("1ms");
    let others = [("up.delay.mean", &delay), ("up.delay.sd", &sd), ("down.delay", &delay)];
    apply(&mut config(), &others).unwrap();
    apply(&mut config(), &[("up.loss", &loss), ("up.delay", &delay)]).unwrap();
}

#[test]
fn flags_blocks_and_scripts_give_a_setting_one_value_too() {
    let twice = |words: &str| message(&plan(&format!("--virtual a b -D 1ms {words}")).unwrap_err());
    for words in [
        "--set up.delay=5ms --set up.delay=6ms",
        "--set up.delay=5ms --set link.up.delay=6ms",
        "--set up.delay=5ms --set up.delay.mean=6ms",
    ] {
        assert!(twice(words).contains("is given twice"), "{words}: {}", twice(words));
    }
    let block =
        "[[at]]\nt = \"1s\"\nset = { \"up.delay\" = \"5ms\", \"link.up.delay\" = \"6ms\" }\n";
    let config = EmulationConfig::parse("link.toml", &(file("") + block)).unwrap();
    let error = message(&Diagnostic::of(&config.schedule().unwrap_err()));
    assert!(error.contains("are one setting at link.toml, line 12, column 29"), "{error}");
    let [step] = &config::script("steps.toml", block).unwrap()[..] else { panic!("one block") };
    assert!(EmulationConfig::parse("link.toml", &file("")).unwrap().changed(&step.set).is_err());
}

#[test]
fn an_end_of_a_link_is_told_with_its_place_in_a_script() {
    let text = "[[at]]\nt = \"1s\"\nset = { \"up.from\" = \"right\", \"up.to\" = \"left\" }\n";
    let [step] = &config::script("steps.toml", text).unwrap()[..] else { panic!("one block") };
    let error =
        EmulationConfig::parse("link.toml", &file("")).unwrap().changed(&step.set).unwrap_err();
    let error = message(&Diagnostic::of(&error));
    let wanted = "link.up.from cannot be set | links are neither added nor removed while they run \
                  at steps.toml, line 3, column 9 | write the settings to a file";
    assert!(error.starts_with(wanted), "{error}");
}

#[test]
fn a_block_with_a_word_too_many_is_told_that_word() {
    let error = config::script("x", "[[at]]\nt = \"1s\"\nsett = {}\n").unwrap_err();
    let error = message(&Diagnostic::of(&error));
    assert!(
        error.starts_with("at has no `sett` | at x, line 3, column 1 | did you mean"),
        "{error}"
    );
}
