//! Any text must parse to a port name, or give an error with a column in the text. A printed name
//! must parse to the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_abi::name::PortName;

fuzz_target!(|text: &str| {
    for parse in [PortName::parse, PortName::parse_classic] {
        match parse(text) {
            Ok(name) => {
                let printed = name.to_string();
                assert_eq!(PortName::parse(&printed), Ok(name), "printed as `{printed}`");
            }
            Err(error) => drop((error.to_string(), error.help())),
        }
    }
});
