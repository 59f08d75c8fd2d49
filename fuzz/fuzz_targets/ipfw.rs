//! Any text must parse to a command, or give an error with a column in the text. A printed rule
//! must parse to the same rule. Accepted rules must be able to check any frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_ipfw::run::{CheckOutputs, Firewall, PacketMetadata};
use slipring_ipfw::text::{IpfwCommand, parse_command};

fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (first, frame) = data.split_at(usize::from(split).min(data.len()));
    let Ok(text) = str::from_utf8(first) else { return };
    rule(text);
    if let Ok(mut firewall) = loaded(text) {
        let mut outputs = CheckOutputs::default();
        for now_ns in 0..3 {
            let mut crossing = PacketMetadata::incoming(0);
            firewall.check(&mut frame.to_vec(), &mut crossing, now_ns, &mut outputs);
        }
        let drops = firewall.drops();
        assert_eq!(drops.checked, 3);
    }
});

fn loaded(text: &str) -> Result<Firewall, ()> {
    let mut firewall = Firewall::open(1, [1, 2]);
    firewall.load(text, 0).map_err(drop)?;
    Ok(firewall)
}

fn rule(text: &str) {
    match parse_command(text) {
        Ok(IpfwCommand::Add(add)) => {
            let written = format!("add {}", add.rule);
            let again = match parse_command(&written) {
                Ok(IpfwCommand::Add(again)) => again,
                other => panic!("`{text}` wrote `{written}`: {other:?}"),
            };
            assert_eq!(again.rule.to_string(), add.rule.to_string());
        }
        Ok(_) => {}
        Err(error) => assert!(error.column as usize <= text.chars().count() + 1, "{error}"),
    }
}
