//! Models of the user's own: the settings `wasm`, `function`, `params`, `fuel` and `memory` of a
//! delay, a loss or a rate.

use slipring_cli::codes::SR0205;
use slipring_link::user::{UserDelay, UserLoss, UserRate};
use slipring_wasm::{Limits, Module, ModuleError};

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::section::{self, Section};
use super::tree::{Node, Value};

/// A delay of a module; its function is `delay_ns` where none is named.
pub(super) fn delay(section: &mut Section<'_>, files: &Files) -> Result<UserDelay, ConfigError> {
    let source = Source::read(section, files, "delay_ns")?;
    source.made(|module, function, params| module.delay(function, params))
}

/// A loss of a module; its function is `lose` where none is named.
pub(super) fn loss(section: &mut Section<'_>, files: &Files) -> Result<UserLoss, ConfigError> {
    let source = Source::read(section, files, "lose")?;
    source.made(|module, function, params| module.loss(function, params))
}

/// A rate of a module; its function is `finish_ns` where none is named.
pub(super) fn rate(section: &mut Section<'_>, files: &Files) -> Result<UserRate, ConfigError> {
    let source = Source::read(section, files, "finish_ns")?;
    source.made(|module, function, params| module.rate(function, params))
}

/// Bytes of memory that a module may be allowed.
const MOST_MEMORY: u64 = 1 << 30;

/// What the settings say.
struct Source<'n, 'f> {
    node: &'n Node,
    name: String,
    bytes: Vec<u8>,
    function: String,
    params: Vec<f64>,
    limits: Limits,
    files: &'f Files,
}

impl<'n, 'f> Source<'n, 'f> {
    fn read(
        section: &mut Section<'n>,
        files: &'f Files,
        function: &str,
    ) -> Result<Self, ConfigError> {
        let (node, name, bytes) = section.need("wasm", |path, node| {
            let name = section::text(path, node)?;
            let bytes = files.bytes(&name, node)?;
            Ok((node, name, bytes))
        })?;
        let defaults = Limits::default();
        Ok(Self {
            node,
            name,
            bytes,
            files,
            function: section.text("function")?.unwrap_or_else(|| function.to_owned()),
            params: section.read("params", params)?.unwrap_or_default(),
            limits: Limits {
                fuel: section.read("fuel", fuel)?.unwrap_or(defaults.fuel),
                memory_bytes: section.read("memory", memory)?.unwrap_or(defaults.memory_bytes),
            },
        })
    }

    fn made<M>(
        &self,
        make: impl Fn(&Module, &str, &[f64]) -> Result<M, ModuleError>,
    ) -> Result<M, ConfigError> {
        let module = Module::read(&self.bytes, self.limits);
        let made = module.and_then(|module| make(&module, &self.function, &self.params));
        made.map_err(|error| {
            // What is a module is known to be no secret.
            if self.files.discreet && matches!(error, ModuleError::NotAModule(_)) {
                return self.files.unfit(&self.name, self.node);
            }
            let summary = format!("{} cannot be used", self.files.path(&self.name).display());
            // What an engine says of other bytes is a list of them, over many lines.
            let cause = match error {
                ModuleError::NotAModule(_) if !self.bytes.starts_with(b"\0asm") => {
                    "it is no WebAssembly module: it does not begin as one".to_owned()
                }
                _ => error.to_string(),
            };
            let error_in = ConfigError::new(SR0205, summary, cause);
            error_in.at(&self.node.place).help(error.help())
        })
    }
}

/// Of one call; without any, no call would have an answer.
fn fuel(path: &str, node: &Node) -> Result<u64, ConfigError> {
    match quantity::count(path, node)? {
        0 => {
            let error =
                ConfigError::value(path, &node.shown(), "a call needs some").at(&node.place);
            Err(error.help("an instruction costs about 1; unsaid, a call has 1000000"))
        }
        fuel => Ok(fuel),
    }
}

/// Of one instance, of which each link and direction has one.
fn memory(path: &str, node: &Node) -> Result<u64, ConfigError> {
    match quantity::size_bytes(path, node)? {
        bytes @ ..=MOST_MEMORY => Ok(bytes),
        _ => {
            let error = ConfigError::value(path, &node.shown(), "too much").at(&node.place);
            Err(error.help("allow 1GiB at most; each link and direction may take as much"))
        }
    }
}

/// Numbers of any sign, in a list or alone.
fn params(path: &str, node: &Node) -> Result<Vec<f64>, ConfigError> {
    let number = |node: &Node| match &node.value {
        Value::Text(text) | Value::Number(text) => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.ok_or_else(|| {
                let error = ConfigError::value(path, text, "it is no number").at(&node.place);
                error.help("write plain numbers; what they mean is the module's")
            })
        }
        other => Err(quantity::wrong_kind(path, other, &node.place).help("write numbers")),
    };
    match &node.value {
        Value::List(list) => list.iter().map(number).collect(),
        _ => number(node).map(|number| vec![number]),
    }
}
