//! Compiles modules, starts instances of them, and calls their functions.
//!
//! There are two WebAssembly engines: `wasmi`, an interpreter, and `wasmtime`, a compiler. A build
//! uses `wasmtime` if the feature of that name is enabled. The code for each engine is in one small
//! file.

#[cfg(not(feature = "wasmtime"))]
#[path = "machine/wasmi.rs"]
mod engine;
#[cfg(feature = "wasmtime")]
#[path = "machine/wasmtime.rs"]
mod engine;

use std::fmt;
use std::sync::Arc;

use slipring_model::Stream;

use engine::{
    Caller, Engine, Error, ExternType, Instance, Linker, Memory, Store, StoreLimits,
    StoreLimitsBuilder, TypedFunc, ValType, WasmParams, WasmResults,
};

use crate::module::{ModuleLimits, ResultWidth};
use crate::{ABI_VERSION, ModuleError};

/// The fuel to start a module and to read its version. It is 100 times the default for a call, but
/// is used up in a fraction of a second.
const START_FUEL: u64 = 100_000_000;
/// Size of a WebAssembly page in bytes.
const PAGE_BYTES: u64 = 1 << 16;
/// Maximum number of elements in each table of a module.
const MAX_TABLE_ELEMENTS: usize = 1 << 16;
/// Maximum length of a module's header window, in bytes.
const MAX_HEADER_BYTES: i32 = 1 << 16;

/// The arguments of a model's call.
pub(crate) struct ModelCall<'c> {
    pub(crate) at_ns: u64,
    pub(crate) len: u32,
    pub(crate) number: u64,
    /// The stored bytes of the frame. A module may change them.
    pub(crate) frame: &'c mut [u8],
}

/// A compiled module.
pub(crate) struct CompiledModule {
    module: engine::Module,
    linker: Linker<InstanceState>,
    limits: ModuleLimits,
}

/// A running instance of a module.
pub(crate) struct ModuleInstance {
    store: Store<InstanceState>,
    function: ModelFunction,
    header: Option<HeaderWindow>,
    fuel: u64,
}

/// Why a call returned no value.
#[derive(Debug)]
pub(crate) enum ModelCallError {
    /// A time or a length does not fit in the parameter of the function, or the header window is
    /// not in the module's memory.
    Argument,
    /// The call has used up all its fuel. The value is the fuel that it had.
    Fuel(u64),
    /// The module, or an import that it called, has failed.
    Trap(String),
}

/// The state of the host that a module's imported functions need.
struct InstanceState {
    limits: StoreLimits,
    params: Arc<[f64]>,
    /// The random stream of the current call. Between calls, it is `None`.
    stream: Option<Stream>,
}

enum ModelFunction {
    Short(TypedFunc<(i64, i32, i64), i32>),
    Long(TypedFunc<(i64, i32, i64), i64>),
}

/// The part of the module's memory to which the first bytes of each frame are copied.
struct HeaderWindow {
    memory: Memory,
    at: usize,
    len: usize,
    /// Whether the bytes are copied back to the frame after a call.
    rewrites: bool,
}

impl CompiledModule {
    pub(crate) fn new(bytes: &[u8], limits: ModuleLimits) -> Result<Self, ModuleError> {
        let refused = |error: Error| ModuleError::NotAModule(engine::cause(&error));
        let engine = engine::engine().map_err(refused)?;
        let module = engine::Module::new(&engine, bytes).map_err(refused)?;
        check_imports(&module)?;
        check_memory(&module, limits)?;
        let linker = linker(&engine);
        Ok(Self { module, linker, limits })
    }

    /// Starts an instance of the module for calls of `function`.
    pub(crate) fn start(
        &self,
        function: &str,
        answer: ResultWidth,
        params: Arc<[f64]>,
    ) -> Result<ModuleInstance, ModuleError> {
        // The limits apply to each memory and each table, so there is one of each at most.
        let limits = StoreLimitsBuilder::new()
            .memories(1)
            .tables(1)
            .memory_size(usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX))
            .table_elements(MAX_TABLE_ELEMENTS)
            .build();
        let state = InstanceState { limits, params, stream: None };
        let mut store = Store::new(self.linker.engine(), state);
        store.limiter(|state| &mut state.limits);
        let cannot = |error: Error| ModuleError::Start(engine::cause(&error));
        store.set_fuel(START_FUEL).map_err(cannot)?;
        let instance = engine::instantiate(&self.linker, &mut store, &self.module);
        let instance = instance.map_err(cannot)?;
        let version = typed_export(&mut store, &instance, "slipring_abi", "() -> i32")?;
        match version.call(&mut store, ()).map_err(cannot)? {
            ABI_VERSION => {}
            found => return Err(ModuleError::Abi { found }),
        }
        let header = HeaderWindow::of(&mut store, &instance)?;
        let function = ModelFunction::of(&mut store, &instance, function, answer)?;
        Ok(ModuleInstance { store, function, header, fuel: self.limits.fuel })
    }
}

impl ModuleInstance {
    /// Calls the instance's function with the arguments in `call`; returns its result.
    pub(crate) fn call(
        &mut self,
        call: &mut ModelCall<'_>,
        stream: &mut Stream,
    ) -> Result<i64, ModelCallError> {
        let at_ns = i64::try_from(call.at_ns).map_err(|_| ModelCallError::Argument)?;
        let len = i32::try_from(call.len).map_err(|_| ModelCallError::Argument)?;
        let args = (at_ns, len, call.number.cast_signed());
        if let Some(header) = &self.header {
            header.write(call.frame, &mut self.store).ok_or(ModelCallError::Argument)?;
        }
        self.store.set_fuel(self.fuel).map_err(|error| self.failure(&error))?;
        self.store.data_mut().stream = Some(stream.clone());
        let answer = match &self.function {
            ModelFunction::Short(function) => function.call(&mut self.store, args).map(i64::from),
            ModelFunction::Long(function) => function.call(&mut self.store, args),
        };
        if let Some(after) = self.store.data_mut().stream.take() {
            *stream = after;
        }
        let answer = answer.map_err(|error| self.failure(&error))?;
        if let Some(header) = self.header.as_ref().filter(|header| header.rewrites) {
            header.read_back(call.frame, &self.store).ok_or(ModelCallError::Argument)?;
        }
        Ok(answer)
    }

    fn failure(&self, error: &Error) -> ModelCallError {
        match engine::is_out_of_fuel(error) {
            true => ModelCallError::Fuel(self.fuel),
            false => ModelCallError::Trap(engine::cause(error)),
        }
    }
}

impl fmt::Display for ModelCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument => f.write_str("the frame does not fit into a call"),
            Self::Fuel(fuel) => write!(f, "it ran out of fuel ({fuel} a call)"),
            Self::Trap(cause) => write!(f, "it ended without an answer: {cause}"),
        }
    }
}

impl ModelFunction {
    fn of(
        store: &mut Store<InstanceState>,
        instance: &Instance,
        name: &str,
        answer: ResultWidth,
    ) -> Result<Self, ModuleError> {
        match answer {
            ResultWidth::Short => {
                typed_export(store, instance, name, "(i64, i32, i64) -> i32").map(Self::Short)
            }
            ResultWidth::Long => {
                typed_export(store, instance, name, "(i64, i32, i64) -> i64").map(Self::Long)
            }
        }
    }
}

impl HeaderWindow {
    /// Returns the header window; `None` if the module does not export one.
    fn of(
        store: &mut Store<InstanceState>,
        instance: &Instance,
    ) -> Result<Option<Self>, ModuleError> {
        if instance.get_export(&mut *store, "slipring_header").is_none() {
            return Ok(None);
        }
        let at = exported_number(store, instance, "slipring_header")?;
        let len = exported_number(store, instance, "slipring_header_len")?;
        let rewrites = instance.get_export(&mut *store, REWRITES_EXPORT).is_some()
            && exported_number(store, instance, REWRITES_EXPORT)? != 0;
        let outside = ModuleError::Header { at, len };
        let Some(memory) = instance.get_memory(&mut *store, "memory") else { return Err(outside) };
        let size = memory.data_size(&*store) as i64;
        let inside = at >= 0
            && (0..=MAX_HEADER_BYTES).contains(&len)
            && i64::from(at) + i64::from(len) <= size;
        match inside {
            true => Ok(Some(Self { memory, at: at as usize, len: len as usize, rewrites })),
            false => Err(outside),
        }
    }

    /// Copies the bytes in the window back to the frame; `None` if the window is not in the memory.
    fn read_back(&self, bytes: &mut [u8], store: &Store<InstanceState>) -> Option<()> {
        let room = self.memory.data(store).get(self.at..self.at + self.len)?;
        let count = bytes.len().min(self.len);
        bytes[..count].copy_from_slice(&room[..count]);
        Some(())
    }

    /// Copies the first bytes of a frame to the window, and fills the rest with zeros. Returns
    /// `None` if the window is not in the memory. This cannot happen, because the memory never
    /// becomes smaller.
    fn write(&self, bytes: &[u8], store: &mut Store<InstanceState>) -> Option<()> {
        let memory = self.memory.data_mut(store);
        let room = memory.get_mut(self.at..self.at + self.len)?;
        let (filled, rest) = room.split_at_mut(bytes.len().min(self.len));
        filled.copy_from_slice(&bytes[..filled.len()]);
        rest.fill(0);
        Some(())
    }
}

/// The export with which a module says that it changes the bytes of frames.
const REWRITES_EXPORT: &str = "slipring_rewrites";

/// Returns the result of an exported function without parameters.
fn exported_number(
    store: &mut Store<InstanceState>,
    instance: &Instance,
    name: &str,
) -> Result<i32, ModuleError> {
    let function = typed_export::<(), i32>(&mut *store, instance, name, "() -> i32")?;
    let asked = function.call(&mut *store, ());
    asked.map_err(|error| ModuleError::Start(engine::cause(&error)))
}

/// The functions that a module may import, as [`linker`] defines them: name, parameters and result
/// of each.
const IMPORTS: [(&str, &[ValType], ValType); 3] = [
    ("random", &[], ValType::I64),
    ("uniform", &[], ValType::F64),
    ("param", &[ValType::I32], ValType::F64),
];

fn linker(engine: &Engine) -> Linker<InstanceState> {
    let mut linker = Linker::new(engine);
    let defined = linker
        .func_wrap("slipring", "random", |mut caller: Caller<'_, InstanceState>| {
            let bits = random_stream(&mut caller)?.next_u64();
            Ok::<_, Error>(bits.cast_signed())
        })
        .and_then(|linker| {
            linker.func_wrap("slipring", "uniform", |mut caller: Caller<'_, InstanceState>| {
                Ok::<_, Error>(random_stream(&mut caller)?.next_f64())
            })
        })
        .and_then(|linker| {
            linker.func_wrap(
                "slipring",
                "param",
                |caller: Caller<'_, InstanceState>, index: i32| {
                    let params = &caller.data().params;
                    let param = usize::try_from(index).ok().and_then(|index| params.get(index));
                    param.copied().ok_or_else(|| engine::refused("there is no such parameter"))
                },
            )
        });
    defined.expect("no name is defined twice");
    linker
}

/// Returns the random stream of the current call.
fn random_stream<'s>(caller: &'s mut Caller<'_, InstanceState>) -> Result<&'s mut Stream, Error> {
    let stream = caller.data_mut().stream.as_mut();
    stream.ok_or_else(|| engine::refused("random numbers are drawn for frames only"))
}

/// Returns an error if a module has an unknown import. Starting it would also fail, but this error
/// contains the name of the import.
fn check_imports(module: &engine::Module) -> Result<(), ModuleError> {
    for import in module.imports() {
        let (from, name) = (import.module().to_owned(), import.name().to_owned());
        let known = IMPORTS.iter().find(|(known, ..)| from == "slipring" && *known == name);
        let Some((_, params, result)) = known else {
            return Err(ModuleError::Import { module: from, name });
        };
        let of_type = |found| engine::is_function(found, params, result);
        if !import.ty().func().is_some_and(of_type) {
            return Err(ModuleError::ImportType { name });
        }
    }
    Ok(())
}

/// Returns an error if a memory that a module exports is larger than allowed. Starting it would
/// also fail, but this error contains the size.
fn check_memory(module: &engine::Module, limits: ModuleLimits) -> Result<(), ModuleError> {
    let memories = module.exports().filter_map(|export| match export.ty() {
        ExternType::Memory(memory) => Some(memory.minimum().saturating_mul(PAGE_BYTES)),
        _ => None,
    });
    let allowed = limits.memory_bytes;
    match memories.max().filter(|wanted| *wanted > allowed) {
        Some(wanted) => Err(ModuleError::Memory { wanted, allowed }),
        None => Ok(()),
    }
}

/// Returns the exported function `name`. It must have parameters `P` and result `R`. `wanted` is
/// this type as text, for the error.
fn typed_export<P: WasmParams, R: WasmResults>(
    store: &mut Store<InstanceState>,
    instance: &Instance,
    name: &str,
    wanted: &'static str,
) -> Result<TypedFunc<P, R>, ModuleError> {
    let Some(function) = instance.get_func(&mut *store, name) else {
        return Err(ModuleError::Missing(name.to_owned()));
    };
    function.typed(&*store).map_err(|_| {
        let [params, results] = engine::types(&function.ty(&*store)).map(|types| types.join(", "));
        let results = if results.contains(", ") || results.is_empty() {
            format!("({results})")
        } else {
            results
        };
        let found = format!("({params}) -> {results}");
        ModuleError::Type { name: name.to_owned(), found, wanted }
    })
}
