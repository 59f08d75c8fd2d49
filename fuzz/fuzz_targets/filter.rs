//! Any text is a filter or an error that points into it; any instructions are a program that
//! ends or an error.
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
        // Signs and precedence print as parentheses, which nest deeper than what was read.
        Err(FilterError::TooDeep { .. }) => return,
        Err(error) => panic!("`{printed}`: {error}"),
    };
    let (Ok(one), Ok(other)) = (filter.compile(DEFAULT_SNAP_LEN), again.compile(DEFAULT_SNAP_LEN))
    else {
        return;
    };
    let len = frame.len() as u32;
    assert_eq!(one.run(frame, len), other.run(frame, len), "`{text}` printed as `{printed}`");
    // What the compiler makes passes the check that foreign programs must pass.
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
