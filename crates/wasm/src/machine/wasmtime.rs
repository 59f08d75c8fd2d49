//! wasmtime: a compiler to machine code, faster and of some megabytes; a build with the feature
//! `wasmtime` has it in place of wasmi.
//!
//! It is set up to answer as wasmi does: bits of NaNs are canonical, what wasmi does not know is
//! refused, and memory that is out of bounds is found by comparison, so that no signal handler and
//! no reserved address space comes with a module.

pub(super) use wasmtime::{
    Caller, Engine, Error, ExternType, FuncType, Instance, Linker, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TypedFunc, ValType, WasmParams, WasmResults,
};
use wasmtime::{Config, Trap};

/// One that counts the steps of its modules.
pub(super) fn engine() -> Result<Engine, Error> {
    let mut config = Config::new();
    config.consume_fuel(true).cranelift_nan_canonicalization(true);
    config.wasm_simd(false).wasm_relaxed_simd(false);
    config.signals_based_traps(false);
    config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(0);
    Engine::new(&config)
}

pub(super) fn instantiate<T: 'static>(
    linker: &Linker<T>,
    store: &mut Store<T>,
    module: &Module,
) -> Result<Instance, Error> {
    linker.instantiate(store, module)
}

pub(super) fn is_function(found: &FuncType, params: &[ValType], result: &ValType) -> bool {
    let same = |found: ValType, known: &ValType| ValType::eq(&found, known);
    found.params().len() == params.len()
        && found.params().zip(params).all(|(found, known)| same(found, known))
        && found.results().len() == 1
        && found.results().all(|found| same(found, result))
}

/// The types of a function, as they are written.
pub(super) fn types(found: &FuncType) -> [Vec<String>; 2] {
    let word = |ty: ValType| ty.to_string();
    [found.params().map(word).collect(), found.results().map(word).collect()]
}

/// An error of an import.
pub(super) fn refused(why: &'static str) -> Error {
    Error::msg(why)
}

pub(super) fn is_out_of_fuel(error: &Error) -> bool {
    error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel)
}

/// What ended a call, in a few words: its own words have a trace of the stack before.
pub(super) fn cause(error: &Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => error.root_cause().to_string(),
    }
}
