//! Any bytes are a request to the privileged helper in its only form, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_privileged::HelperRequest;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = HelperRequest::parse(bytes) {
        assert_eq!(request.to_bytes(), bytes);
    }
});
