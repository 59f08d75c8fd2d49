//! Any text must parse to a filter, or give an error with a column in the text. Any instructions
//! must form a program that ends, or give an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_filter::{CbpfInsn, CbpfProgram, DEFAULT_SNAP_LEN, Filter, FilterError};

fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (first, frame) = data.split_at(usize::from(split).min(data.len()));
    if let Ok(text) = str::from_utf8(first) {
        expression(text, frame);
    }
    program(first, frame);
});

fn expression(text: &str, frame: &[u8]) {
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.column().is_none_or(|column| column <= text.len() + 1));
            return drop(error.to_string());
        }
    };
    let printed = filter.to_string();
    let again = match Filter::parse(&printed) {
        Ok(again) => again,
        // The printed form has parentheses for signs and precedence, so it may be nested more
        // deeply than the input.
        Err(FilterError::TooDeep { .. }) => return,
        Err(error) => panic!("`{printed}`: {error}"),
    };
    let (Ok(one), Ok(other)) = (filter.compile(DEFAULT_SNAP_LEN), again.compile(DEFAULT_SNAP_LEN))
    else {
        return;
    };
    let len = frame.len() as u32;
    assert_eq!(one.run(frame, len), other.run(frame, len), "`{text}` printed as `{printed}`");
    // A compiled program must pass the check that programs from other sources must pass.
    assert!(CbpfProgram::from_raw(one.insns().to_vec()).is_ok());
}

fn program(bytes: &[u8], frame: &[u8]) {
    let (insns, _) = bytes.as_chunks::<8>();
    let insns = insns
        .iter()
        .map(|&[c0, c1, jt, jf, k @ ..]| CbpfInsn {
            code: u16::from_le_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_le_bytes(k),
        })
        .collect();
    if let Ok(program) = CbpfProgram::from_raw(insns) {
        let _ = program.run(frame, frame.len() as u32);
    }
}
