//! User-supplied models: the settings `wasm`, `function`, `params`, `fuel` and `memory` of a delay,
//! a loss or a rate.

use slipring_cli::codes::SR0205;
use slipring_link::user::{DelayFactory, LossFactory, RateFactory};
use slipring_wasm::{ModuleError, ModuleLimits, WasmModule};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::section::{self, ConfigSection};
use super::tree::{ConfigNode, ConfigValue};

/// Reads a delay model; its function is `delay_ns` by default.
pub(super) fn delay(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<DelayFactory, EmulationConfigError> {
    let source = WasmSource::read(section, files, "delay_ns")?;
    source.build(|module, function, params| module.delay(function, params))
}

/// Reads a loss model; its function is `lose` by default.
pub(super) fn loss(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<LossFactory, EmulationConfigError> {
    let source = WasmSource::read(section, files, "lose")?;
    source.build(|module, function, params| module.loss(function, params))
}

/// Reads a rate model; its function is `finish_ns` by default.
pub(super) fn rate(
    section: &mut ConfigSection<'_>,
    files: &ConfigFiles,
) -> Result<RateFactory, EmulationConfigError> {
    let source = WasmSource::read(section, files, "finish_ns")?;
    source.build(|module, function, params| module.rate(function, params))
}

/// Maximum of the setting `memory`, in bytes.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// The module and its settings.
struct WasmSource<'n, 'f> {
    node: &'n ConfigNode,
    name: String,
    bytes: Vec<u8>,
    function: String,
    params: Vec<f64>,
    limits: ModuleLimits,
    files: &'f ConfigFiles,
}

impl<'n, 'f> WasmSource<'n, 'f> {
    fn read(
        section: &mut ConfigSection<'n>,
        files: &'f ConfigFiles,
        function: &str,
    ) -> Result<Self, EmulationConfigError> {
        let (node, name, bytes) = section.required("wasm", |path, node| {
            let name = section::text(path, node)?;
            let bytes = files.bytes(&name, node)?;
            Ok((node, name, bytes))
        })?;
        let defaults = ModuleLimits::default();
        Ok(Self {
            node,
            name,
            bytes,
            files,
            function: section.text("function")?.unwrap_or_else(|| function.to_owned()),
            params: section.read("params", params)?.unwrap_or_default(),
            limits: ModuleLimits {
                fuel: section.read("fuel", fuel)?.unwrap_or(defaults.fuel),
                memory_bytes: section.read("memory", memory)?.unwrap_or(defaults.memory_bytes),
            },
        })
    }

    fn build<M>(
        &self,
        make: impl Fn(&WasmModule, &str, &[f64]) -> Result<M, ModuleError>,
    ) -> Result<M, EmulationConfigError> {
        let module = WasmModule::read(&self.bytes, self.limits);
        let made = module.and_then(|module| make(&module, &self.function, &self.params));
        made.map_err(|error| {
            // A file that is not a module may be secret, so a client of the control socket is not
            // told what is in it. Errors of a real module are shown.
            if self.files.hides_details && matches!(error, ModuleError::NotAModule(_)) {
                return self.files.unusable(&self.name, self.node);
            }
            let summary = format!("{} cannot be used", self.files.path(&self.name).display());
            // If a file does not begin like a module, the runtime's message would list the file's
            // bytes over many lines.
            let cause = match error {
                ModuleError::NotAModule(_) if !self.bytes.starts_with(b"\0asm") => {
                    "it is no WebAssembly module: it does not begin as one".to_owned()
                }
                _ => error.to_string(),
            };
            let error_in = EmulationConfigError::new(SR0205, summary, cause);
            error_in.at(&self.node.location).help(error.help())
        })
    }
}

/// Reads the fuel per call. 0 is an error, because every call would fail.
fn fuel(path: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    match quantity::count(path, node)? {
        0 => {
            let error = EmulationConfigError::value(path, &node.shown(), "a call needs some")
                .at(&node.location);
            Err(error.help("an instruction costs about 1; unsaid, a call has 1000000"))
        }
        fuel => Ok(fuel),
    }
}

/// Reads the memory limit of an instance of the module, in bytes. Each link has a separate
/// instance, so each direction may take as much.
fn memory(path: &str, node: &ConfigNode) -> Result<u64, EmulationConfigError> {
    match quantity::size_bytes(path, node)? {
        bytes @ ..=MAX_MEMORY_BYTES => Ok(bytes),
        _ => {
            let error =
                EmulationConfigError::value(path, &node.shown(), "too much").at(&node.location);
            Err(error.help("allow 1GiB at most; each link and direction may take as much"))
        }
    }
}

/// Reads a list of numbers, or a single number; they may be negative.
fn params(path: &str, node: &ConfigNode) -> Result<Vec<f64>, EmulationConfigError> {
    let number = |node: &ConfigNode| match &node.value {
        ConfigValue::Text(text) | ConfigValue::Number(text) => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number.ok_or_else(|| {
                let error =
                    EmulationConfigError::value(path, text, "it is no number").at(&node.location);
                error.help("write plain numbers; what they mean is the module's")
            })
        }
        other => Err(quantity::wrong_kind(path, other, &node.location).help("write numbers")),
    };
    match &node.value {
        ConfigValue::List(list) => list.iter().map(number).collect(),
        _ => number(node).map(|number| vec![number]),
    }
}
