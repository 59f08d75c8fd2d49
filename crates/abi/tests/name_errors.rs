//! Tests of invalid port names. For each, the exact column, message and help are checked.
#![allow(clippy::unwrap_used)]

use slipring_abi::name::kind::PLANNED;
use slipring_abi::name::{self, NameForm, PortName, PortNameError, PortNameKind, listed};

/// An invalid name, the column of its first wrong character, the message, and the help. The help is
/// empty if there is none.
type Case = (&'static str, usize, &'static str, &'static str);

/// Stands for the help that lists the kinds.
const KINDS: &str = "the kinds";
const FLAGS: &str = "the flags are x (exclusive), z (zero-copy monitor), t (monitor tx), \
                     r (monitor rx), T (tx rings only) and R (rx rings only)";
const OPTIONS: &str = "the options are @N, @share:…, @extmem:…, @conf:… and @offset:…";

#[rustfmt::skip]
const KIND_CASES: &[Case] = &[
    ("", 1, "expected the name of a port, found the end", ""),
    ("eth0", 1, "it does not say what kind of port this is", "write `netmap:eth0`"),
    ("eth0-2/x", 1, "it does not say what kind of port this is", "write `netmap:eth0-2/x`"),
    ("eth 0", 1, "it does not say what kind of port this is", KINDS),
    ("eth0:", 1, "there is no kind `eth0:`", KINDS),
    ("foo:eth0", 1, "there is no kind `foo:`", KINDS),
    ("NETMAP:eth0", 1, "there is no kind `NETMAP:`", KINDS),
    (":eth0", 1, "there is no kind `:`", KINDS),
    ("af-xdp:eth0", 1, "it does not say what kind of port this is", KINDS),
    ("vale0", 6, "expected `:` after the name of the switch, found the end", "write `vale0:NAME` for a port of the switch, `netmap:NAME` for an interface"),
    ("vale0-1", 6, "expected `:` after the name of the switch, found `-`", "write `vale0:NAME` for a port of the switch, `netmap:NAME` for an interface"),
    ("valex/x", 6, "expected `:` after the name of the switch, found `/`", "write `valex:NAME` for a port of the switch, `netmap:NAME` for an interface"),
    ("é:x", 1, "it does not say what kind of port this is", KINDS),
    ("br-lan", 1, "it does not say what kind of port this is", "a `-` that belongs to the name is written twice: `netmap:br--lan`"),
];

#[rustfmt::skip]
const NAME_CASES: &[Case] = &[
    ("netmap:", 8, "expected a name, found the end", ""),
    ("netmap:-1", 8, "expected a name, found `-`", ""),
    ("netmap:^", 8, "expected a name, found `^`", ""),
    ("netmap:/x", 8, "expected a name, found `/`", ""),
    ("netmap:@1", 8, "expected a name, found `@`", ""),
    ("netmap:a b", 9, "` ` cannot be part of a name", ""),
    ("xdp:a\tb", 6, "`\\t` cannot be part of a name", ""),
    ("netmap:a\u{7}", 9, "`\\u{7}` cannot be part of a name", ""),
    ("netmap:vale0:a", 13, "`:` cannot be part of a name", "write `vale0:a`"),
    ("vale0:a:b", 8, "`:` cannot be part of a name", ""),
    ("vale0:", 7, "expected a name, found the end", ""),
    ("netmap:a{{1", 9, "`{` cannot be part of a name", ""),
    ("vale0:a}}", 8, "`}` cannot be part of a name", ""),
    ("xdp:a//b", 6, "`/` cannot be part of a name", ""),
    ("xdp:.", 5, "no interface can have this name", ""),
    ("tap:..", 5, "no interface can have this name", ""),
    ("netmap:{1", 8, "expected a name, found `{`", ""),
    ("{1", 1, "expected a name, found `{`", ""),
    ("netmap:0123456789abcdef", 23, "the name of an interface has at most 15 bytes", ""),
    ("xdp:0123456789abcde--", 20, "the name of an interface has at most 15 bytes", ""),
    ("packet:ééééééééé", 15, "the name of an interface has at most 15 bytes", ""),
    ("vale0:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", 64, "the name of a port has at most 63 bytes", ""),
    ("netmap:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn{1", 71, "the name of a port has at most 63 bytes", ""),
    ("netmap:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn{1", 71, "the name of a port has at most 63 bytes", ""),
    ("netmap:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn{1", 71, "the name of a port has at most 63 bytes", ""),
    ("vale0:nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn}12", 64, "the name of a port has at most 63 bytes", ""),
    ("valennnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn:a", 64, "the name of a port has at most 63 bytes", ""),
    ("pcap:", 6, "expected the name of a file, found the end", ""),
    ("null:eth0", 6, "expected a suffix or the end, found `e`", ""),
    ("netmap:xdp:eth0", 11, "`:` cannot be part of a name", "write `xdp:eth0`"),
];

#[rustfmt::skip]
const RING_CASES: &[Case] = &[
    ("netmap:eth0-", 13, "expected the number of a ring after `-`, found the end", ""),
    ("netmap:br-lan", 11, "expected the number of a ring after `-`, found `l`", "a `-` that belongs to the name is written twice: `netmap:br--lan`"),
    ("netmap:my-if-2", 11, "expected the number of a ring after `-`, found `i`", "a `-` that belongs to the name is written twice: `netmap:my--if-2`"),
    ("netmap:my-if-x", 11, "expected the number of a ring after `-`, found `i`", "a `-` that belongs to the name is written twice: `netmap:my--if--x`"),
    ("netmap:br-1a2b", 12, "expected a suffix or the end, found `a`", "a `-` that belongs to the name is written twice: `netmap:br--1a2b`"),
    ("eth-x{1", 1, "it does not say what kind of port this is", "a `-` that belongs to the name is written twice: `netmap:eth--x{1`"),
    ("netmap:eth0-+1", 13, "expected the number of a ring after `-`, found `+`", "a `-` that belongs to the name is written twice: `netmap:eth0--+1`"),
    ("netmap:eth0-65536", 13, "the number is greater than 65535", ""),
    ("netmap:eth0-99999999999999999999999", 13, "the number is greater than 65535", ""),
    ("netmap:eth0^65536", 13, "the number is greater than 65535", ""),
    ("netmap:eth0^x", 13, "expected a suffix or the end, found `x`", ""),
    ("netmap:eth0*1", 13, "expected a suffix or the end, found `1`", ""),
    ("netmap:eth0-1-2", 14, "expected a suffix or the end, found `-`", "a `-` that belongs to the name is written twice: `netmap:eth0--1-2`"),
    ("netmap:eth0-1*", 14, "expected a suffix or the end, found `*`", "a `-` that belongs to the name is written twice: `netmap:eth0--1*`"),
    ("netmap:é-x", 10, "expected the number of a ring after `-`, found `x`", "a `-` that belongs to the name is written twice: `netmap:é--x`"),
    ("null:-", 7, "expected the number of a ring after `-`, found the end", ""),
];

#[rustfmt::skip]
const PIPE_CASES: &[Case] = &[
    ("netmap:x{", 10, "expected the identifier of a pipe, found the end", ""),
    ("x{", 3, "expected the identifier of a pipe, found the end", ""),
    ("x}", 3, "expected the identifier of a pipe, found the end", ""),
    ("x{-1", 3, "expected the identifier of a pipe, found `-`", ""),
    ("x{1{2", 4, "expected a suffix or the end, found `{`", ""),
    ("x{1y.", 5, "expected a suffix or the end, found `.`", ""),
    ("x{é", 3, "expected the identifier of a pipe, found `é`", ""),
    ("xdp:eth0{1", 9, "only `netmap:`, `kernel:` and `vale:` ports have pipes", "write `netmap:eth0{1`"),
    ("tap:t}a/x", 6, "only `netmap:`, `kernel:` and `vale:` ports have pipes", "write `netmap:t}a/x`"),
    ("null:{1", 6, "only `netmap:`, `kernel:` and `vale:` ports have pipes", ""),
    ("vfio:03:00.0{1", 13, "only `netmap:`, `kernel:` and `vale:` ports have pipes", ""),
];

#[rustfmt::skip]
const FLAG_CASES: &[Case] = &[
    ("netmap:eth0/", 13, "expected the letter of a flag, found the end", ""),
    ("netmap:eth0/q", 13, "`q` is not a flag", FLAGS),
    ("netmap:eth0/xX", 14, "`X` is not a flag", FLAGS),
    ("netmap:eth0/x/", 15, "expected the letter of a flag, found the end", ""),
    ("netmap:eth0/@1", 13, "expected the letter of a flag, found `@`", ""),
    ("netmap:eth0/x-1", 14, "`-` is not a flag", FLAGS),
    ("netmap:eth0-1/é", 15, "`é` is not a flag", FLAGS),
];

#[rustfmt::skip]
const PCI_CASES: &[Case] = &[
    ("vfio:", 6, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:eth0", 6, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:3:00.0", 6, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:03:0.0", 9, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:03:20.0", 9, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:03:00.8", 12, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:03:00.10", 12, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:03:00", 11, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:000:03:00.0", 6, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:0000:03:00", 16, "expected a PCI address such as 0000:03:00.0", ""),
    ("vfio:0000:03:00.0x", 18, "expected a suffix or the end, found `x`", ""),
    ("vfio:0000:", 11, "expected a PCI address such as 0000:03:00.0", ""),
];

#[rustfmt::skip]
const OPTION_CASES: &[Case] = &[
    ("netmap:eth0@", 13, "expected the number of a memory region or an option, found the end", ""),
    ("netmap:eth0@0", 13, "the number must be at least 1", ""),
    ("netmap:eth0@65536", 13, "the number is greater than 65535", ""),
    ("netmap:eth0@x", 13, "there is no option `@x`", OPTIONS),
    ("netmap:eth0@1x", 14, "expected a suffix or the end, found `x`", ""),
    ("netmap:eth0@1@2", 14, "another memory region is asked for already", ""),
    ("netmap:eth0@1@share:port=a", 14, "another memory region is asked for already", ""),
    ("netmap:eth0@-1", 13, "there is no option `@-`", OPTIONS),
    ("netmap:eth0@share", 18, "expected `:`, found the end", ""),
    ("netmap:eth0@share:", 19, "expected a key, found the end", ""),
    ("netmap:eth0@share:port", 23, "expected `=`, found the end", ""),
    ("netmap:eth0@share:port=", 24, "expected the name of a port, found the end", ""),
    ("netmap:eth0@share=", 19, "expected the name of a port, found the end", ""),
    ("netmap:eth0@share:port=a,port=b", 26, "`port` is given twice", ""),
    ("netmap:eth0@share:port=a,", 26, "expected a key, found the end", ""),
    ("netmap:eth0@extmem:if-num=3", 28, "expected `,file=`, found the end", ""),
    ("netmap:eth0@extmem:file=f,if-num=0", 34, "the number must be at least 1", ""),
    ("netmap:eth0@extmem:file=f,if-num=4294967296", 34, "the number is greater than 4294967295", ""),
    ("netmap:eth0@extmem:file=f,size=1", 27, "the option has no key `size`", "the keys are file, if-num, if-size, ring-num, ring-size, buf-num, buf-size"),
    ("netmap:eth0@offset=1,bits=2", 21, "expected a suffix or the end, found `,`", ""),
    ("netmap:eth0@conf:tx-rings=1,tx_rings=1", 29, "`tx-rings` is given twice", ""),
    ("netmap:eth0@conf", 17, "expected `:`, found the end", ""),
    ("netmap:eth0@conf=2", 17, "expected `:`, found `=`", ""),
    ("netmap:eth0@conf:rings", 23, "expected `=`, found the end", ""),
    ("netmap:eth0@conf:rings=", 24, "expected a number, found the end", ""),
    ("netmap:eth0@conf:rings=x", 24, "expected a number, found `x`", ""),
    ("netmap:eth0@conf:rings=65536", 24, "the number is greater than 65535", ""),
    ("netmap:eth0@conf:rings=2,", 26, "expected a key, found the end", ""),
    ("netmap:eth0@conf:rings=2,rings=2", 26, "`rings` is given twice", ""),
    ("netmap:eth0@conf:rings=1@conf:slots=3", 26, "`conf` is given twice", ""),
    ("netmap:eth0@conf:ring=1", 18, "the option has no key `ring`", "the keys are rings, host-rings, tx-rings, rx-rings, host-tx-rings, host-rx-rings, slots, tx-slots, rx-slots"),
    ("netmap:eth0@conf:slots=4294967296", 24, "the number is greater than 4294967295", ""),
    ("netmap:eth0@conf:slots=0", 24, "the number must be at least 1", ""),
    ("netmap:eth0@conf:rings=2x", 25, "expected a suffix or the end, found `x`", ""),
    ("netmap:eth0@offset:bits=3", 26, "expected `,initial=`, found the end", ""),
    ("netmap:eth0@offset:initial=64,bits=65", 36, "the number is greater than 64", ""),
    ("netmap:eth0@offset:initial=64,bits=0", 36, "the number must be at least 1", ""),
    ("netmap:eth0@offset=18446744073709551616", 20, "the number is greater than 18446744073709551615", ""),
    ("netmap:eth0@offset=1@offset=1", 22, "`offset` is given twice", ""),
    ("netmap:eth0@offset=-1", 20, "expected a number of bytes, found `-`", ""),
];

fn error(name: &str) -> PortNameError {
    PortName::parse(name).expect_err(name)
}

fn assert_cases(cases: &[Case]) {
    for &(name, column, reason, help) in cases {
        let error = error(name);
        assert_eq!(error.input, name);
        assert_eq!(error.column, column, "column in {name:?}");
        assert_eq!(error.reason.to_string(), reason, "reason for {name:?}");
        let help = if help == KINDS { kinds() } else { help.to_owned() };
        assert_eq!(error.help().unwrap_or_default(), help, "help for {name:?}");
    }
}

/// Returns the help that lists the kinds. It has all kinds of the table that can be opened, but no
/// switches.
fn kinds() -> String {
    let words = listed("", |kind| kind.form != NameForm::SwitchPort && !kind.has(PLANNED));
    assert!(words.starts_with("netmap:, xdp:, packet:, tap:"), "{words}");
    assert!(words.contains("vfio:"), "{words}");
    format!("the kinds are {words}; pipes are NAME{{K and NAME}}K, ports of switches valeX:NAME")
}

#[test]
fn names_without_a_known_kind_are_refused() {
    assert_cases(KIND_CASES);
}

#[test]
fn names_that_nothing_can_have_are_refused() {
    assert_cases(NAME_CASES);
}

#[test]
fn ring_suffixes_that_are_none_are_refused() {
    assert_cases(RING_CASES);
}

#[test]
fn pipes_that_are_none_are_refused() {
    assert_cases(PIPE_CASES);
}

#[test]
fn unknown_flags_are_refused() {
    assert_cases(FLAG_CASES);
}

#[test]
fn addresses_that_are_not_on_the_pci_bus_are_refused() {
    assert_cases(PCI_CASES);
}

#[test]
fn malformed_options_are_refused() {
    assert_cases(OPTION_CASES);
}

#[test]
fn a_kind_whose_name_is_free_text_says_what_it_expects() {
    let mut seen = 0;
    for kind in name::KINDS {
        let (NameForm::Text(what) | NameForm::Rest(what)) = kind.grammar().form else { continue };
        let reason = error(&kind.to_string()).reason.to_string();
        assert_eq!(reason, format!("expected {what}, found the end"), "{kind}");
        seen += 1;
    }
    assert!(seen > 2);
}

#[test]
fn an_error_reads_as_one_line() {
    assert_eq!(
        error("netmap:br-lan").to_string(),
        "\"netmap:br-lan\" is not a port name: column 11: \
         expected the number of a ring after `-`, found `l`"
    );
}

#[test]
fn columns_of_classic_names_count_in_what_the_user_wrote() {
    let column = |name| PortName::parse_classic(name).unwrap_err().column;
    assert_eq!(column("br-lan"), 4);
    assert_eq!(column("tap0/q"), 6);
    assert_eq!(column("vale0"), 6);
    assert_eq!(column("foo:eth0"), 1);
    assert_eq!(column(""), 1);
}

#[test]
fn an_error_without_a_better_suggestion_shows_names_of_the_kind_that_was_typed() {
    for kind in name::KINDS {
        let wrong = match kind.grammar().form {
            NameForm::Text(_) | NameForm::Rest(_) => kind.to_string(),
            NameForm::Nothing => format!("{kind}^x"),
            NameForm::PciAddress => format!("{kind}x"),
            _ => format!("{kind}eth0^65536"),
        };
        let advice = error(&wrong).advice();
        assert!(advice.starts_with(&format!("write {kind}")), "{wrong}: {advice}");
        let others = name::KINDS.iter().filter(|other| *other != kind);
        for other in others.filter(|other| !matches!(other, PortNameKind::Vale { .. })) {
            assert!(!advice.contains(&format!(" {other}")), "{wrong}: {advice}");
        }
        let names = advice.split([' ', ',']).filter(|word| word.starts_with(&kind.to_string()));
        for name in names.filter(|name| !name.ends_with(':') && !name.ends_with("NAME")) {
            PortName::parse(name).unwrap();
        }
    }
}

#[test]
fn an_error_in_a_pipe_or_an_option_shows_how_to_write_one() {
    let advice = |name: &str| error(name).advice();
    assert_eq!(advice("a{"), "write a{1 for one end of a pipe, a}1 for the other");
    for option in ["netmap:eth0@conf:slots=", "vhost:/x@share:port="] {
        assert!(advice(option).contains("@conf:slots=1024"), "{option}");
    }
    assert_eq!(advice(""), kinds());
    let help = error("netmap:br-lan").help();
    assert_eq!(Some(advice("netmap:br-lan")), help, "a suggestion comes before examples");
}

#[test]
fn every_help_that_shows_a_name_shows_a_right_one() {
    let all = [KIND_CASES, NAME_CASES, RING_CASES, PIPE_CASES];
    let helps = all.concat().into_iter().map(|(.., help)| help);
    let names: Vec<&str> =
        helps.filter_map(|help| help.strip_suffix('`')?.rsplit('`').next()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        PortName::parse(name).unwrap();
    }
}
