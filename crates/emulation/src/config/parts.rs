//! The models of each part of a link, and the names of their positional arguments.
//!
//! This one table serves `-D normal,20ms,3ms`, `--up 'delay=normal(20ms,sd=3ms)'`, the TOML text
//! `delay = "normal(20ms, 3ms)"` and the errors of all three.

/// A part of a link, such as its delay.
#[derive(Debug)]
pub(crate) struct LinkPart {
    /// The part's name in a configuration.
    pub name: &'static str,
    /// The key whose value names the model.
    pub selector: &'static str,
    /// The model that applies if no model is named.
    pub default: &'static str,
    pub models: &'static [PartModel],
}

impl LinkPart {
    /// Returns whether the first argument of the default model is a probability.
    pub(crate) fn is_share(&self) -> bool {
        self.model(self.default).and_then(|model| model.arguments.first()) == Some(&"p")
    }
}

/// A model of a part.
#[derive(Debug)]
pub(crate) struct PartModel {
    pub name: &'static str,
    /// Names of the model's positional arguments. If the last name ends in `…`, that argument takes
    /// all remaining values.
    pub arguments: &'static [&'static str],
}

const fn model(name: &'static str, arguments: &'static [&'static str]) -> PartModel {
    PartModel { name, arguments }
}

/// The parts that can be written in one line, as a call of a model.
pub(crate) static LINK_PARTS: [LinkPart; 9] = [
    LinkPart {
        name: "hold",
        selector: "model",
        default: "const",
        models: &[model("const", &["p", "time"])],
    },
    LinkPart {
        name: "police",
        selector: "model",
        default: "bucket",
        models: &[
            model("bucket", &["bps", "burst"]),
            model("rfc2698", &["cir", "cbs", "pir", "pbs"]),
            model("rfc4115", &["cir", "cbs", "eir", "ebs"]),
        ],
    },
    LinkPart {
        name: "loss",
        selector: "model",
        default: "plr",
        models: &[
            model("plr", &["p"]),
            model("ber", &["ber"]),
            model("ge", &["p", "r", "bad", "good"]),
            model("timed-ge", &["good_time", "bad_time", "bad", "good"]),
            model("state4", &["p13", "p31", "p32", "p23", "p14"]),
            model("pattern", &["bits"]),
            model("nth", &["every", "nth"]),
            model("numbers", &["numbers…"]),
            model("time", &["from", "until", "p", "period"]),
            model("trace", &["file"]),
            model("wasm", &["wasm", "params…"]),
        ],
    },
    LinkPart {
        name: "rate",
        selector: "model",
        default: "const",
        models: &[
            model("const", &["bps"]),
            model("ether", &["bps"]),
            model("trace", &["trace", "mtu", "end"]),
            model("steps", &["trace", "end"]),
            model("tdm", &["bps", "period", "slot", "start"]),
            model("ramp", &["from", "to", "duration", "step"]),
            model("sine", &["mean", "amplitude", "period", "step"]),
            model("markov", &["states…"]),
            model("ou", &["mean", "sd", "half_life", "min", "max", "step"]),
            model("wasm", &["wasm", "params…"]),
        ],
    },
    LinkPart {
        name: "queue",
        selector: "kind",
        default: "droptail",
        models: &[
            model("droptail", &["bytes", "packets", "time"]),
            model("drophead", &["bytes", "packets", "time"]),
            model("red", &["min", "max", "max_p", "weight"]),
            model("codel", &["target", "interval"]),
            model("pie", &["target", "update"]),
            model("fq_codel", &["target", "interval", "flows", "quantum"]),
            model("fq_pie", &["target", "update", "flows", "quantum"]),
            model("dualpi2", &["target", "update", "step", "coupling"]),
            model("none", &[]),
        ],
    },
    LinkPart {
        name: "mangle",
        selector: "model",
        default: "set",
        models: &[
            model("set", &["at", "bytes", "p"]),
            model("invert", &["at", "mask", "p"]),
            model("random", &["at", "count", "p"]),
        ],
    },
    LinkPart {
        name: "corrupt",
        selector: "model",
        default: "ber",
        models: &[model("ber", &["ber"]), model("burst", &["p", "bits"])],
    },
    LinkPart {
        name: "duplicate",
        selector: "model",
        default: "const",
        models: &[model("const", &["p", "after", "copies"]), model("trace", &["file"])],
    },
    LinkPart {
        name: "delay",
        selector: "dist",
        default: "const",
        models: &[
            model("const", &["mean"]),
            model("uniform", &["min", "max"]),
            model("exp", &["min", "mean"]),
            model("normal", &["mean", "sd"]),
            model("pareto", &["scale", "shape"]),
            model("lognormal", &["mean", "sd"]),
            model("gamma", &["mean", "sd"]),
            model("weibull", &["scale", "shape"]),
            model("table", &["file", "mean", "sd"]),
            model("cdf", &["file"]),
            model("samples", &["file", "in_turn"]),
            model("trace", &["file", "end"]),
            model("inter-packet", &["min_gap", "max_gap", "delay"]),
            model("wasm", &["wasm", "params…"]),
        ],
    },
];

impl LinkPart {
    /// Returns the part called `name`.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        LINK_PARTS.iter().find(|part| part.name == name)
    }

    pub(crate) fn model(&self, name: &str) -> Option<&'static PartModel> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Returns the names of the part's models.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.models.iter().map(|model| model.name).collect()
    }
}

impl PartModel {
    /// Returns the name of the positional argument at `position`, and whether it takes all
    /// remaining values.
    pub(crate) fn argument(&self, position: usize) -> Option<(&'static str, bool)> {
        let rest = |name: &'static str| name.strip_suffix('…').map(|name| (name, true));
        match self.arguments.get(position) {
            Some(name) => Some(rest(name).unwrap_or((name, false))),
            None => self.arguments.last().and_then(|name| rest(name)),
        }
    }
}
