//! Tests numbers and lists at their bounds, and the reported positions of mistakes.

use super::*;

fn reads(text: &str) -> bool {
    parse_command(text).is_ok()
}

#[test]
fn numbers_have_the_bounds_that_the_language_gives_them() {
    for (rule, good, bad) in [
        ("allow ip from any to any dscp N", &["0", "63", "010"][..], &["64", "08", "-1", "x"][..]),
        ("setdscp N ip from any to any", &["0", "63"], &["64"]),
        ("count tag N ip from any to any", &["1", "65534"], &["0", "65536", ""]),
        ("allow ip from any to any ipprecedence N", &["0", "7"], &["8"]),
        ("allow icmp from any to any icmptypes N", &["0", "31", "0,31"], &["32", "256"]),
        ("allow ip from any to any ipid N", &["0", "65535", "1-2"], &["65536", "2-1", "1-"]),
        ("allow ip from 1.2.3.64/26{N} to any", &["64", "127", "64-127"], &["63", "128", "90-80"]),
        ("allow ip from 1.2.3.0/N{1} to any", &["24", "31"], &["23", "33"]),
        ("allow ip from 1.2.3.4/N to any", &["0", "32"], &["33"]),
        ("allow ip from 2001:db8::1/N to any", &["0", "128"], &["129"]),
    ] {
        let of = |value: &str| format!("add {}", rule.replace('N', value));
        good.iter().for_each(|value| assert!(reads(&of(value)), "{}", of(value)));
        bad.iter().for_each(|value| assert!(!reads(&of(value)), "{}", of(value)));
    }
    for (command, good, bad) in [
        (
            "nat 1 config ip 1.2.3.4 port_range N",
            &["1-65535", "5-6"][..],
            &["0-5", "5-5", "6-5"][..],
        ),
        (
            "nat 1 config ip 1.2.3.4 redirect_port tcp 10.0.0.1:N 80",
            &["1", "65535", "http"],
            &["0", "65536"],
        ),
        (
            "nat 1 config ip 1.2.3.4 redirect_port tcp 10.0.0.1:8-N 8-9",
            &["9"],
            &["7", "8", "10", "0"],
        ),
        ("set swap N 1", &["0", "31"], &["32"]),
        ("set disable N", &["0", "31"], &["32"]),
        ("N add allow ip from any to any", &["1", "65534", "0100"], &["65535", "65536"]),
        ("delete N", &["1", "65535", "1-2"], &["65536", "x"]),
    ] {
        let of = |value: &str| command.replace('N', value);
        good.iter().for_each(|value| assert!(reads(&of(value)), "{}", of(value)));
        bad.iter().for_each(|value| assert!(!reads(&of(value)), "{}", of(value)));
    }
}

#[test]
fn numbers_with_a_leading_zero_are_octal_except_numbers_of_rules() {
    assert_eq!(
        rule("setdscp 9 ip from any to any dscp 011"),
        rule("setdscp 9 ip from any to any dscp 9")
    );
    assert_eq!(
        rule("allow ip from any to any ipttl 0"),
        rule("allow ip from any to any ipttl 0x0")
    );
    let number = |text: &str| match parse_command(text) {
        Ok(IpfwCommand::Add(add)) => add.number,
        other => panic!("{other:?}"),
    };
    assert_eq!(number("add 0100 allow ip from any to any"), Some(100));
    assert_eq!(number("0100 add allow ip from any to any"), Some(100));
}

#[test]
fn a_mistake_in_a_list_or_in_brackets_is_where_it_stands() {
    for (text, wrong) in [
        ("add allow ip from {1.2.3.4 or x!} to any", "x!"),
        ("add allow ip from { 1.2.3.4 or x! } to any", "x!"),
        ("add allow ip from 1.2.3.4,x! to any", "x!"),
        ("add allow ip from 2001:db8::1,x! to any", "x!"),
        ("add allow ip from any to any ipid 5,x!", "x!"),
        ("add allow ip from any to any {ipid 5 or x!}", "x!"),
    ] {
        let column = text.find(wrong).unwrap() as u32 + 1;
        assert_eq!(error(text).column, column, "{text}: {}", error(text));
    }
}

#[test]
fn what_a_rule_has_once_is_refused_twice_and_in_brackets() {
    assert!(!reads("add allow log log ip from any to any"));
    for word in ["keep-state", "record-state", "limit src-addr 1"] {
        let text = format!("add allow ip from any to any {{ {word} or in }}");
        let error = error(&text).to_string();
        assert!(error.contains("outside of brackets"), "{text}: {error}");
    }
    let error = error("add allow ip from any to any { nosuch or in }").to_string();
    assert!(!error.contains("outside of brackets"), "{error}");
    assert!(!reads("nptv6 x create int_prefix 2001:db8:1:: ext_prefix 2001:db8:2:: ext_if em0"));
    assert!(!reads("nptv6 x create int_prefix 2001:db8:1:: ext_if em0 ext_if em1"));
}

#[test]
fn switches_that_do_nothing_are_read_and_those_that_cannot_be_are_refused_by_name() {
    for switch in ["firewall", "one_pass", "debug", "verbose", "dyn_keepalive", "skipto_cache"] {
        assert!(reads(&format!("enable {switch}")) && reads(&format!("disable {switch}")));
    }
    assert!(error("enable altq").to_string().contains("ALTQ"));
    assert!(error("internal iflist").to_string().contains("monitor"));
    assert!(!reads("enable nosuch"));
    assert!(reads("table t atomic add 1.2.3.4") && reads("table t atomic delete 1.2.3.4"));
    assert!(!reads("table t atomic list"));
}

#[test]
fn names_are_of_letters_digits_and_three_signs() {
    let longest = "n".repeat(63);
    for good in ["t", "a-b_c.d", "9", &longest] {
        assert!(reads(&format!("table {good} create")), "{good}");
    }
    let long = "n".repeat(64);
    for bad in ["a!b", "a/b", "ä", &long] {
        assert!(!reads(&format!("table {bad} create")), "{bad}");
        assert!(!reads(&format!("add allow ip from any to any keep-state :{bad}")), "{bad}");
    }
}

#[test]
fn numbers_of_rules_have_no_sign() {
    for text in ["delete +5", "add +5 allow ip from any to any", "add skipto +5 ip from any to any"]
    {
        assert!(!reads(text), "{text}");
    }
}

#[test]
fn a_backslash_keeps_a_dash_within_the_name_of_a_service() {
    let ports = |ports: &str| rule(&format!("allow tcp from any to any {ports}")).to_string();
    assert_eq!(ports("ftp\\-data"), ports("20"));
    assert_eq!(ports("ftp\\-data-80"), ports("20-80"));
    assert_eq!(ports("7-ftp\\-data"), ports("7-20"));
}

#[test]
fn what_begins_with_an_option_has_no_addresses() {
    for options in ["in", "established", "ipid 5", "not in", "{ in or out }"] {
        let text = format!("add allow {options} from any to any");
        let column = text.find("from").unwrap() as u32 + 1;
        assert_eq!(error(&text).column, column, "{text}: {}", error(&text));
    }
}

#[test]
fn a_word_of_300_characters_is_quoted_whole() {
    let word = "x".repeat(300);
    assert!(error(&format!("add allow ip from {word} to any")).to_string().contains(&word));
}

#[test]
fn comments_are_kept_as_written() {
    let printed = |text: &str| rule(text).to_string();
    assert!(printed("deny ip from any to any // see #5 here").ends_with(" // see #5 here"));
    assert!(printed("deny ip from any to any //").ends_with(" //"));
}

#[test]
fn a_surplus_bracket_is_where_it_stands() {
    for text in ["add allow ip from any to 1.2.3.4)", "add allow ip from any to any in}"] {
        assert_eq!(error(text).column, text.len() as u32, "{text}: {}", error(text));
    }
}

#[test]
fn two_hosts_in_a_row_are_a_list_and_three_a_range() {
    for hosts in ["{1,2}", "{1-3}", "{254,255}", "{0,1,7-9,255}", "{253-255}"] {
        let text = format!("allow ip from 1.2.3.0/24{hosts} to any");
        assert_eq!(rule(&text).to_string(), text);
    }
}

#[test]
fn a_mask_of_a_mac_address_that_begins_with_0_is_written_as_a_mask() {
    let text = "deny ip from any to any mac any 00:00:5e:00:00:01&00:ff:ff:ff:ff:ff";
    let written = rule(text).to_string();
    assert!(written.contains("&00:ff:ff:ff:ff:ff"), "{written}");
}

#[test]
fn lists_inside_a_kernel_are_refused_with_what_to_use_instead() {
    for command in ["internal iflist", "internal talist", "internal olist"] {
        assert!(error(command).to_string().contains("inside a kernel"), "{}", error(command));
    }
}
