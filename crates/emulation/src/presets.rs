//! Settings of common kinds of links, for `--preset` and the web page.
//!
//! Presets have round figures for ordinary conditions, chosen so that applications behave
//! differently on each of them; no preset represents a product or a location. For a particular
//! link, measure it and write settings.

use clap::ArgMatches;
use serde_json::{Value, json};

/// The settings of one direction: a value for each part, as in a file.
pub(super) type PresetParts = [(&'static str, &'static str); 4];

/// A kind of link; `up` is the direction away from the user.
pub(crate) struct Preset {
    /// The preset's name in flags.
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    up: PresetParts,
    down: PresetParts,
}

const fn parts(
    rate: &'static str,
    delay: &'static str,
    loss: &'static str,
    queue: &'static str,
) -> PresetParts {
    [("rate", rate), ("delay", delay), ("loss", loss), ("queue", queue)]
}

/// All presets, in the order in which they are listed for the user.
pub(crate) static PRESETS: [Preset; 6] = [
    Preset {
        name: "dsl",
        title: "DSL",
        about: "16 Mbit/s down, 1 up, short and steady, with a deep queue up",
        up: parts("1Mbit", "normal(12ms, 500us, half_life=50ms)", "none", "droptail(time=300ms)"),
        down: parts(
            "16Mbit",
            "normal(12ms, 500us, half_life=50ms)",
            "none",
            "droptail(time=100ms)",
        ),
    },
    Preset {
        name: "lte",
        title: "LTE",
        about: "30 Mbit/s down, 10 up, jitter of the radio, queues of 200 ms",
        up: parts("10Mbit", "normal(25ms, 5ms, half_life=50ms)", "0.05%", "droptail(time=200ms)"),
        down: parts("30Mbit", "normal(20ms, 4ms, half_life=50ms)", "0.05%", "droptail(time=200ms)"),
    },
    Preset {
        name: "3g",
        title: "3G",
        about: "2 Mbit/s down, 500 kbit/s up, slow and uneven, queues of a second",
        up: parts("500kbit", "normal(80ms, 20ms, half_life=150ms)", "0.5%", "droptail(time=1s)"),
        down: parts("2Mbit", "normal(70ms, 15ms, half_life=100ms)", "0.5%", "droptail(time=1s)"),
    },
    Preset {
        name: "satellite",
        title: "Satellite",
        about: "20 Mbit/s down, 3 up, through a geostationary satellite",
        up: parts("3Mbit", "normal(270ms, 4ms, half_life=200ms)", "0.1%", "droptail(time=500ms)"),
        down: parts(
            "20Mbit",
            "normal(270ms, 4ms, half_life=200ms)",
            "0.1%",
            "droptail(time=500ms)",
        ),
    },
    Preset {
        name: "wifi",
        title: "Lossy Wi-Fi",
        about: "20 Mbit/s each way at the edge of the cell, 3 % lost in bursts",
        up: parts(
            "20Mbit",
            "gamma(4ms, 3ms, half_life=20ms)",
            "ge(0.01, 0.32)",
            "droptail(time=50ms)",
        ),
        down: parts(
            "20Mbit",
            "gamma(4ms, 3ms, half_life=20ms)",
            "ge(0.01, 0.32)",
            "droptail(time=50ms)",
        ),
    },
    Preset {
        name: "dc",
        title: "Data centre",
        about: "10 Gbit/s and 50 us each way, with a shallow queue",
        up: parts("10Gbit", "50us", "none", "droptail(1MiB)"),
        down: parts("10Gbit", "50us", "none", "droptail(1MiB)"),
    },
];

/// Returns the preset's settings for `direction` (0 is up, 1 is down), if a preset was requested.
pub(super) fn preset_parts(matches: &ArgMatches, direction: usize) -> Option<&'static PresetParts> {
    let name = matches.get_one::<String>("preset")?;
    let preset = PRESETS.iter().find(|preset| preset.name == name)?;
    Some(if direction == 0 { &preset.up } else { &preset.down })
}

/// Returns all presets as JSON: `up` and `down` map paths below a link to values.
pub fn json() -> Value {
    let direction = |parts: &PresetParts| -> Value {
        parts.iter().map(|(part, value)| ((*part).to_owned(), json!(value))).collect()
    };
    let preset = |preset: &Preset| {
        json!({
            "name": preset.name,
            "title": preset.title,
            "about": preset.about,
            "up": direction(&preset.up),
            "down": direction(&preset.down),
        })
    };
    PRESETS.iter().map(preset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmulationPlan;

    fn settings(words: &str) -> Value {
        let words = "emulate --virtual in out in2 out2".split(' ').chain(words.split(' '));
        let matches = crate::flags::command().try_get_matches_from(words).unwrap();
        toml::from_str(&EmulationPlan::of(&matches).unwrap().config.to_toml()).unwrap()
    }

    #[test]
    fn every_preset_makes_links_that_differ_from_all_others() {
        let all = PRESETS.each_ref().map(|preset| settings(&format!("--preset {}", preset.name)));
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one), "{one}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_preset_and_leaves_its_other_parts() {
        let link = &settings("--preset lte -D 7ms")["link"];
        for (name, rate) in [("up", "10Mbit/s"), ("down", "30Mbit/s")] {
            assert_eq!(link[name]["rate"]["bps"], rate, "{link}");
            assert_eq!(link[name]["delay"]["mean"], "7ms", "{link}");
            assert_eq!(link[name]["queue"]["time"], "200ms", "{link}");
        }
    }
}
