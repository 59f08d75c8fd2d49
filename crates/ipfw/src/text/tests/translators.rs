//! Tests of `nat …` and `nptv6 …`.

use super::*;

/// Returns the settings of a command, as they are listed.
fn nat(text: &str) -> String {
    match parse_command(&format!("nat 1 config {text}")) {
        Ok(IpfwCommand::Nat(NatCommand::Config { number: 1, settings })) => settings.to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_configuration_is_listed_as_it_was_written() {
    let configurations = [
        "ip 203.0.113.9",
        "if em0 log deny_in same_ports skip_global unreg_only unreg_cgn reset reverse proxy_only",
        "ip 203.0.113.9 port_range 2000-3000",
        "ip 203.0.113.9 redirect_addr 10.0.0.1 203.0.113.10 redirect_addr 10.0.0.2 0.0.0.0",
        "redirect_addr 10.0.0.1,10.0.0.2 203.0.113.10",
        "if em0 redirect_port tcp 10.0.0.1:22 2222 redirect_port udp 10.0.0.2:53 53",
        "if em0 redirect_port tcp 10.0.0.1:2300-2399 3300-3399",
        "redirect_port tcp 10.0.0.1:80 80",
        "if em0 redirect_port udp 10.0.0.1:7000-7009 203.0.113.9:8000-8009 192.0.2.1:9000-9009",
        "if em0 redirect_port tcp 10.0.0.1:80,10.0.0.2:8080 80 192.0.2.1",
        "if em0 redirect_proto gre 10.0.0.1 203.0.113.10 192.0.2.1",
        "if em0 redirect_proto 99 10.0.0.1",
    ];
    for text in configurations {
        assert_eq!(nat(text), format!(" {text}"));
    }
    assert_eq!(
        nat("if em0 redirect_port tcp 10.0.0.1:ssh https"),
        " if em0 redirect_port tcp 10.0.0.1:22 443"
    );
    assert_eq!(
        nat("if em0 redirect_port tcp 10.0.0.1:22 22 192.0.2.1:0"),
        " if em0 redirect_port tcp 10.0.0.1:22 22 192.0.2.1"
    );
}

#[test]
fn the_number_stands_before_or_behind_the_verb() {
    for [one, other] in [
        ["nat 5 config if em0", "nat config 5 if em0"],
        ["nat 5 delete", "nat delete 5"],
        ["nat 5 show config", "nat show config 5"],
        ["nat 5-9 show", "nat list 5-9"],
    ] {
        assert_eq!(parse_command(one), parse_command(other), "{one}");
        assert!(parse_command(one).is_ok(), "{one}");
    }
}

#[test]
fn a_mistake_in_a_translator_is_told_with_its_column() {
    let mistakes = [
        ("nat 1 config", 13, "a parameter: ip"),
        ("nat 0 config if em0", 5, "1 to 65534"),
        ("nat 1 config log", 17, "`ip ADDRESS`"),
        ("nat 1 config ip 1.2.3", 17, "IPv4 address"),
        ("nat 1 config if em0 port_range 9-5", 32, "LOWER-UPPER"),
        ("nat 1 config if em0 redirect_port icmp 1.2.3.4:1 1", 35, "tcp, udp or sctp"),
        ("nat 1 config if em0 redirect_port tcp 1.2.3.4 1", 39, "IP:PORT"),
        ("nat 1 config if em0 redirect_port tcp 1.2.3.4:1-3 1-2", 51, "as many ports"),
        ("nat 1 config if em0 redirect_port tcp 1.2.3.4:1-2,1.2.3.5:1-2 1", 39, "a pool"),
        ("nat 1 config if em0 redirect_port tcp 1.2.3.4:1-3 1-3 1.2.3.4:1-2", 55, "as many as"),
        ("nat 1 config if em0 redirect_port sctp 1.2.3.4:1 2", 50, "the ports of the target"),
        ("nat 1 config if em0 redirect_addr 1.2.3.4", 42, "the public address"),
        ("nat 1 config if em0 redirect_proto nosuch 1.2.3.4", 36, "a protocol"),
        ("nat 1 config if em0 udp_eim", 21, "not offered"),
        ("nat delete", 11, "numbers of instances"),
        ("nat show x", 10, "numbers, or ranges"),
        ("nptv6 all create int_prefix fd00::/16", 7, "a name"),
        ("nptv6 x create ext_prefix fd00::/16", 36, "int_prefix"),
        ("nptv6 x create int_prefix fd00::/16", 36, "ext_prefix"),
        ("nptv6 x create int_prefix fd00:: ext_prefix fd01::", 51, "prefixlen"),
        ("nptv6 x create int_prefix fd00::/16 ext_prefix fd01::/24", 48, "the same for both"),
        ("nptv6 x create int_prefix fd00::/65", 27, "8 to 64"),
        ("nptv6 x create int_prefix 10.0.0.0", 27, "an IPv6 prefix"),
        ("nptv6 x create ext_if em0 ext_prefix fd01::", 27, "one of"),
        ("nptv6 x make", 9, "create, destroy"),
    ];
    for (text, column, expected) in mistakes {
        let error = error(text);
        assert_eq!((error.column, error.exit_code()), (column, 65), "{text}: {error}");
        assert!(error.expected.contains(expected), "{text}: {error}");
    }
}

#[test]
fn prefixes_are_given_in_any_order_and_way() {
    let listed = |text: &str| match parse_command(text) {
        Ok(IpfwCommand::Nptv6(Nptv6Command { verb: Nptv6Verb::Create(options), .. })) => {
            options.to_string()
        }
        other => panic!("{text}: {other:?}"),
    };
    let text = "int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 32";
    assert_eq!(listed(&format!("nptv6 x create {text}")), text);
    assert_eq!(
        listed("nptv6 x create prefixlen 32 ext_prefix 2001:db8:: int_prefix fd00::/32"),
        text
    );
    let text = "int_prefix fd00:: ext_if em0 prefixlen 32";
    assert_eq!(listed(&format!("nptv6 x create {text}")), text);
}
