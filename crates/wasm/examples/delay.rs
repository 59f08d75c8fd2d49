//! A link whose delays come from a module, which is spikes.wat in this directory.

use slipring_link::{DelayModel, DelaySpec, LinkSpec, NetworkSpec};
use slipring_wasm::{ModuleLimits, WasmModule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = wat::parse_str(include_str!("spikes.wat"))?;
    let module = WasmModule::read(&bytes, ModuleLimits::default())?;
    // The delay is 20 ms, except for one frame in a hundred, whose delay is 150 ms.
    let model = DelayModel::User(module.delay("delay_ns", &[20.0, 150.0, 0.01])?);
    let link = LinkSpec { delay: DelaySpec { model, half_life_ns: None }, ..LinkSpec::wire("up") };
    let network = slipring_link::Network::new(&NetworkSpec::single(link), 42)?;
    println!("in flight: {}", network.counters(slipring_link::LinkId(0)).in_flight.packets);
    Ok(())
}
