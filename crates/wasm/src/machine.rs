//! What runs modules: wasmi, an interpreter in safe Rust that counts its steps.
//!
//! Everything of it is behind [`Compiled`] and [`Machine`], so that another one (a compiler, where
//! its speed is worth its size) is another file of this shape and nothing else.

use std::sync::Arc;

use slipring_model::Stream;
use wasmi::{
    Caller, CompilationMode, Config, Engine, Error, ExternType, FuncType, Instance, Linker, Memory,
    Store, StoreLimits, StoreLimitsBuilder, TypedFunc, ValType, WasmParams, WasmResults,
};

use crate::module::{Answer, Limits};
use crate::{ABI, ModuleError};

/// Fuel to start a module and to ask for its version; more than a call has, and yet a fraction of
/// a second.
const START_FUEL: u64 = 100_000_000;
/// Bytes of a page of memory.
const PAGE: u64 = 1 << 16;
/// Elements that all tables of a module may have.
const TABLE_ELEMENTS: usize = 1 << 16;
/// Bytes of a header at most.
const HEADER: i32 = 1 << 16;

/// What a model is asked.
pub(crate) struct Call<'c> {
    pub(crate) at_ns: u64,
    pub(crate) len: u32,
    pub(crate) number: u64,
    pub(crate) header: &'c [u8],
}

/// A compiled module.
pub(crate) struct Compiled {
    module: wasmi::Module,
    linker: Linker<State>,
    limits: Limits,
}

/// A module at work.
pub(crate) struct Machine {
    store: Store<State>,
    function: Function,
    header: Option<Header>,
    fuel: u64,
}

/// What imports of a module see.
struct State {
    limits: StoreLimits,
    params: Arc<[f64]>,
    /// There during a call only.
    stream: Option<Stream>,
}

enum Function {
    Short(TypedFunc<(i64, i32, i64), i32>),
    Long(TypedFunc<(i64, i32, i64), i64>),
}

/// Where the module wants the first bytes of a frame.
struct Header {
    memory: Memory,
    at: usize,
    len: usize,
}

impl Compiled {
    pub(crate) fn new(bytes: &[u8], limits: Limits) -> Result<Self, ModuleError> {
        let mut config = Config::default();
        // All of it now: what is wrong is said at the start, and no call pays for compiling.
        config.consume_fuel(true).compilation_mode(CompilationMode::Eager);
        let engine = Engine::new(&config);
        let module = wasmi::Module::new(&engine, bytes);
        let module = module.map_err(|error| ModuleError::NotAModule(error.to_string()))?;
        check_imports(&module)?;
        check_memory(&module, limits)?;
        let linker = linker(&engine);
        Ok(Self { module, linker, limits })
    }

    /// Starts an instance whose `function` is to be called.
    pub(crate) fn start(
        &self,
        function: &str,
        answer: Answer,
        params: Arc<[f64]>,
    ) -> Result<Machine, ModuleError> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX))
            .table_elements(TABLE_ELEMENTS)
            .build();
        let state = State { limits, params, stream: None };
        let mut store = Store::new(self.linker.engine(), state);
        store.limiter(|state| &mut state.limits);
        let cannot = |error: Error| ModuleError::Start(error.to_string());
        store.set_fuel(START_FUEL).map_err(cannot)?;
        let instance = self.linker.instantiate_and_start(&mut store, &self.module);
        let instance = instance.map_err(cannot)?;
        let version = typed(&store, &instance, "slipring_abi", "() -> i32")?;
        match version.call(&mut store, ()).map_err(cannot)? {
            ABI => {}
            found => return Err(ModuleError::Abi { found }),
        }
        let header = Header::of(&mut store, &instance)?;
        let function = Function::of(&store, &instance, function, answer)?;
        Ok(Machine { store, function, header, fuel: self.limits.fuel })
    }
}

impl Machine {
    /// Asks the module; `None` if it has no answer.
    pub(crate) fn call(&mut self, call: &Call<'_>, stream: &mut Stream) -> Option<i64> {
        let args = (
            i64::try_from(call.at_ns).ok()?,
            i32::try_from(call.len).ok()?,
            call.number.cast_signed(),
        );
        if let Some(header) = &self.header {
            header.put(call.header, &mut self.store)?;
        }
        self.store.set_fuel(self.fuel).ok()?;
        self.store.data_mut().stream = Some(stream.clone());
        let answer = match &self.function {
            Function::Short(function) => function.call(&mut self.store, args).map(i64::from),
            Function::Long(function) => function.call(&mut self.store, args),
        };
        if let Some(after) = self.store.data_mut().stream.take() {
            *stream = after;
        }
        answer.ok()
    }
}

impl Function {
    fn of(
        store: &Store<State>,
        instance: &Instance,
        name: &str,
        answer: Answer,
    ) -> Result<Self, ModuleError> {
        match answer {
            Answer::Short => {
                typed(store, instance, name, "(i64, i32, i64) -> i32").map(Self::Short)
            }
            Answer::Long => typed(store, instance, name, "(i64, i32, i64) -> i64").map(Self::Long),
        }
    }
}

impl Header {
    /// Where a module wants headers, if it does.
    fn of(store: &mut Store<State>, instance: &Instance) -> Result<Option<Self>, ModuleError> {
        if instance.get_export(&mut *store, "slipring_header").is_none() {
            return Ok(None);
        }
        let mut ask = |name| {
            let function = typed::<(), i32>(store, instance, name, "() -> i32")?;
            let asked = function.call(&mut *store, ());
            asked.map_err(|error| ModuleError::Start(error.to_string()))
        };
        let (at, len) = (ask("slipring_header")?, ask("slipring_header_len")?);
        let outside = ModuleError::Header { at, len };
        let Some(memory) = instance.get_memory(&*store, "memory") else { return Err(outside) };
        let size = memory.data_size(&*store) as i64;
        let inside =
            at >= 0 && (0..=HEADER).contains(&len) && i64::from(at) + i64::from(len) <= size;
        match inside {
            true => Ok(Some(Self { memory, at: at as usize, len: len as usize })),
            false => Err(outside),
        }
    }

    /// Memory never shrinks, so what was inside stays so; `None` all the same if it were not.
    fn put(&self, bytes: &[u8], store: &mut Store<State>) -> Option<()> {
        let memory = self.memory.data_mut(store);
        let room = memory.get_mut(self.at..self.at + self.len)?;
        let (filled, rest) = room.split_at_mut(bytes.len().min(self.len));
        filled.copy_from_slice(&bytes[..filled.len()]);
        rest.fill(0);
        Some(())
    }
}

/// The imports that there are: [`linker`] has the same.
const IMPORTS: [(&str, &[ValType], ValType); 3] = [
    ("random", &[], ValType::I64),
    ("uniform", &[], ValType::F64),
    ("param", &[ValType::I32], ValType::F64),
];

fn linker(engine: &Engine) -> Linker<State> {
    let mut linker = Linker::new(engine);
    let defined = linker
        .func_wrap("slipring", "random", |mut caller: Caller<'_, State>| {
            let bits = drawing(&mut caller)?.next_u64();
            Ok::<_, Error>(bits.cast_signed())
        })
        .and_then(|linker| {
            linker.func_wrap("slipring", "uniform", |mut caller: Caller<'_, State>| {
                Ok::<_, Error>(drawing(&mut caller)?.next_f64())
            })
        })
        .and_then(|linker| {
            linker.func_wrap("slipring", "param", |caller: Caller<'_, State>, index: i32| {
                let params = &caller.data().params;
                let param = usize::try_from(index).ok().and_then(|index| params.get(index));
                param.copied().ok_or_else(|| Error::new("there is no such parameter"))
            })
        });
    defined.expect("no name is defined twice");
    linker
}

/// The stream of the call under way.
fn drawing<'s>(caller: &'s mut Caller<'_, State>) -> Result<&'s mut Stream, Error> {
    let stream = caller.data_mut().stream.as_mut();
    stream.ok_or_else(|| Error::new("random numbers are drawn for frames only"))
}

/// Says by name what would be refused at the start anyway.
fn check_imports(module: &wasmi::Module) -> Result<(), ModuleError> {
    for import in module.imports() {
        let (from, name) = (import.module().to_owned(), import.name().to_owned());
        let known = IMPORTS.iter().find(|(known, ..)| from == "slipring" && *known == name);
        let Some((_, params, result)) = known else {
            return Err(ModuleError::Import { module: from, name });
        };
        let known = FuncType::new(params.iter().copied(), [*result]);
        if import.ty().func() != Some(&known) {
            return Err(ModuleError::ImportType { name });
        }
    }
    Ok(())
}

/// Says in numbers what would be refused at the start anyway.
fn check_memory(module: &wasmi::Module, limits: Limits) -> Result<(), ModuleError> {
    let memories = module.exports().filter_map(|export| match export.ty() {
        ExternType::Memory(memory) => Some(memory.minimum().saturating_mul(PAGE)),
        _ => None,
    });
    let allowed = limits.memory_bytes;
    match memories.max().filter(|wanted| *wanted > allowed) {
        Some(wanted) => Err(ModuleError::Memory { wanted, allowed }),
        None => Ok(()),
    }
}

/// The exported function of this name, which must be of this type.
fn typed<P: WasmParams, R: WasmResults>(
    store: &Store<State>,
    instance: &Instance,
    name: &str,
    wanted: &'static str,
) -> Result<TypedFunc<P, R>, ModuleError> {
    let Some(function) = instance.get_func(store, name) else {
        return Err(ModuleError::Missing(name.to_owned()));
    };
    function.typed(store).map_err(|_| {
        let ty = function.ty(store);
        let list = |types: &[ValType]| {
            let words: Vec<_> = types.iter().map(|ty| format!("{ty:?}").to_lowercase()).collect();
            words.join(", ")
        };
        let results = match ty.results() {
            [one] => list(&[*one]),
            other => format!("({})", list(other)),
        };
        let found = format!("({}) -> {results}", list(ty.params()));
        ModuleError::Type { name: name.to_owned(), found, wanted }
    })
}
