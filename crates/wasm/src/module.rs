//! A checked module, and the factories of its models.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};
use slipring_link::user::{
    DelayFactory, LossFactory, ModelFactory, RateFactory, UserDelayModel, UserLossModel,
    UserRateModel,
};

use crate::ModuleError;
use crate::machine::CompiledModule;
use crate::models::{FirstError, ModelInstance, WasmDelayModel, WasmLossModel, WasmRateModel};

/// The limits of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleLimits {
    /// The fuel of one call. An instruction costs about one unit.
    pub fuel: u64,
    /// Maximum size of an instance's memory, in bytes.
    pub memory_bytes: u64,
}

impl Default for ModuleLimits {
    /// Returns limits with a million units of fuel and 16 MiB of memory.
    fn default() -> Self {
        Self { fuel: 1_000_000, memory_bytes: 16 << 20 }
    }
}

/// A checked WebAssembly module.
#[derive(Clone)]
pub struct WasmModule {
    compiled: Arc<CompiledModule>,
    /// A hash of the module's bytes and limits.
    fingerprint: u128,
}

impl WasmModule {
    /// Reads and compiles a module. The module must be written for slipring.
    ///
    /// # Errors
    /// [`ModuleError`] if the module cannot be used.
    pub fn read(bytes: &[u8], limits: ModuleLimits) -> Result<Self, ModuleError> {
        let compiled = Arc::new(CompiledModule::new(bytes, limits)?);
        let mut hasher = SipHasher13::new();
        hasher.write(bytes);
        hasher.write_u64(limits.fuel);
        hasher.write_u64(limits.memory_bytes);
        Ok(Self { compiled, fingerprint: hasher.finish128().as_u128() })
    }

    /// Creates a factory of delay models. They call the exported `function`, which can read
    /// `params`.
    ///
    /// # Errors
    /// [`ModuleError`] if the module cannot be started, or does not export a function with this
    /// name and the required type.
    pub fn delay(&self, function: &str, params: &[f64]) -> Result<DelayFactory, ModuleError> {
        self.maker(function, params, |asked| {
            Box::new(WasmDelayModel(asked)) as Box<dyn UserDelayModel>
        })
    }

    /// Creates a factory of loss models. They call the exported `function`, which can read
    /// `params`.
    ///
    /// # Errors
    /// [`ModuleError`] if the module cannot be started, or does not export a function with this
    /// name and the required type.
    pub fn loss(&self, function: &str, params: &[f64]) -> Result<LossFactory, ModuleError> {
        self.maker(function, params, |asked| {
            Box::new(WasmLossModel(asked)) as Box<dyn UserLossModel>
        })
    }

    /// Creates a factory of rate models. They call the exported `function`, which can read
    /// `params`.
    ///
    /// # Errors
    /// [`ModuleError`] if the module cannot be started, or does not export a function with this
    /// name and the required type.
    pub fn rate(&self, function: &str, params: &[f64]) -> Result<RateFactory, ModuleError> {
        let model = |asked| Box::new(WasmRateModel(asked)) as Box<dyn UserRateModel>;
        self.maker(function, params, model)
    }

    /// Creates a factory. Starts the module once, so that errors appear before a run.
    fn maker<M: ?Sized + WasmModel + 'static>(
        &self,
        function: &str,
        params: &[f64],
        model: fn(ModelInstance) -> Box<M>,
    ) -> Result<ModelFactory<M>, ModuleError> {
        let params: Arc<[f64]> = params.into();
        self.compiled.start(function, M::RESULT_WIDTH, params.clone())?;
        // The identity contains the bits of the parameters, because different numbers may be
        // printed in the same way.
        let bits: Vec<_> = params.iter().map(|param| param.to_bits()).collect();
        let identity = format!("wasm {:032x} {function} {bits:x?}", self.fingerprint);
        let (compiled, function) = (self.compiled.clone(), function.to_owned());
        let trouble = FirstError::default();
        let sink = trouble.clone();
        // A module that could be started once can be started again, unless there is too little
        // memory. In that case, every call of the model fails, and its frames are counted as lost.
        let make = move || {
            let machine = compiled.start(&function, M::RESULT_WIDTH, params.clone());
            model(ModelInstance::new(machine, trouble.clone()))
        };
        let maker = ModelFactory::new(make).identified(&identity);
        Ok(maker.reporting(move || sink.get().cloned()))
    }
}

/// The type of the result of a model's function: i32 (`Short`) or i64 (`Long`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultWidth {
    Short,
    Long,
}

/// Maps a kind of model to the result type of its function.
trait WasmModel {
    const RESULT_WIDTH: ResultWidth;
}

impl WasmModel for dyn UserDelayModel {
    const RESULT_WIDTH: ResultWidth = ResultWidth::Long;
}

impl WasmModel for dyn UserRateModel {
    const RESULT_WIDTH: ResultWidth = ResultWidth::Long;
}

impl WasmModel for dyn UserLossModel {
    const RESULT_WIDTH: ResultWidth = ResultWidth::Short;
}
