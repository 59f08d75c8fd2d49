//! Any bytes must give an error, or decode to a request of the privileged helper. Encoding this
//! request must give the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_privileged::HelperRequest;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = HelperRequest::parse(bytes) {
        assert_eq!(request.to_bytes(), bytes);
    }
});
