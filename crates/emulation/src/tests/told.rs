//! Tests of warnings, of help, and of refusals to write over files.

#[test]
fn a_capture_at_the_second_end_is_written_and_refused_where_it_exists() {
    let dir = tempfile::tempdir().unwrap();
    // The headers of a capture file and of its only frame, which has 60 bytes.
    let file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 1, 0, 60, 60];
    let file: Vec<u8> = file.iter().flat_map(|word| word.to_le_bytes()).chain([0; 60]).collect();
    for name in ["a.pcap", "c.pcap"] {
        std::fs::write(dir.path().join(name), &file).unwrap();
    }
    let output = |ports: &str| {
        let args = format!("{ports} -T 0 -t 10s --seed 1 --run-dir @run");
        slipring_datapath::captured_run::run_captured(&[crate::VERB], "emulate", &args, dir.path())
    };
    let both = output("-i pcap:@a.pcap -i pcap:@c.pcap");
    assert_eq!(both.status, 2, "{}", both.stderr);
    assert!(
        both.stderr.contains("c.pcap exists") && both.stderr.contains("--overwrite"),
        "{}",
        both.stderr
    );
    let through = output("-i pcap:@a.pcap -i pcap:@b.pcap");
    assert_eq!(through.status, 0, "{}", through.stderr);
    assert!(!through.stderr.contains("only gives frames"), "{}", through.stderr);
}

#[test]
fn every_request_to_a_running_emulation_shows_examples() {
    let command = super::flags::command();
    let ctl = command.get_subcommands().find(|command| command.get_name() == "ctl").unwrap();
    assert_eq!(ctl.get_subcommands().count(), 11);
    for word in ctl.get_subcommands() {
        let name = word.get_name();
        let examples = word.get_after_help().map(ToString::to_string).unwrap_or_default();
        let line = format!("\n  slipring emulate ctl {name}");
        assert!(
            examples.starts_with("Examples:\n") && examples.contains(&line),
            "{name}: {examples}"
        );
    }
}

#[test]
fn examples_of_requests_are_ones_that_can_be_typed() {
    let mut command = super::flags::command();
    let ctl = command.find_subcommand_mut("ctl").unwrap().clone();
    let examples = ctl.get_subcommands().filter_map(|word| word.get_after_help());
    let lines: Vec<String> = examples
        .flat_map(|text| {
            let text = text.to_string();
            text.lines()
                .filter_map(|line| line.trim().strip_prefix("slipring "))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(lines.len() >= 11, "{lines:?}");
    for line in lines {
        let typed = line.split(['>', '|']).next().unwrap().replace(", ", ",").replace('\'', "");
        let matched = super::flags::command().try_get_matches_from(typed.split_ascii_whitespace());
        assert!(matched.is_ok(), "{line}: {}", matched.unwrap_err());
    }
}

#[test]
fn a_log_for_mahimahi_is_said_to_tell_of_whole_ways_where_links_are_chained() {
    let warnings = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link.toml");
        std::fs::write(&path, text).unwrap();
        let args = format!("--virtual a b --config {} --mahimahi-log mm", path.display());
        super::plan(&args).unwrap().warnings
    };
    assert!(warnings(&super::file("")).is_empty());
    let chained = "nodes = [\"x\"]\n[ports.a]\n[ports.b]\n\
        [link.in]\nfrom = \"a\"\nto = \"x\"\n[link.on]\nfrom = \"x\"\nto = \"b\"\n";
    let [warning] = &warnings(chained)[..] else { panic!("one warning") };
    assert!(warning.starts_with("logs mm.LINK tell of the whole way"), "{warning}");
}

#[test]
fn what_the_links_read_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let output = |args: &str| {
        slipring_datapath::captured_run::run_captured(&[crate::VERB], "emulate", args, dir.path())
    };
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("rate.up", "1\n2\n3\n");
    write("bits", "0010\n");
    write(
        "link.toml",
        &(super::file("") + "[[at]]\nt = \"1s\"\nset = { \"link.up.loss\" = \"pattern,bits\" }\n"),
    );
    for args in [
        "-B trace,@rate.up --log @rate.up",
        "-L pattern,@bits -B 10m --log @bits",
        "-B trace,@rate.up --mahimahi-log @rate",
        "--config @link.toml --log @bits",
    ] {
        let messages = output(&format!("-i null: -i null: -t 10ms --run-dir @run {args}"));
        assert!(
            messages.status == 2 && messages.stderr.contains("would overwrite what is read"),
            "{args}: {}",
            messages.stderr
        );
    }
    assert_eq!(std::fs::read(dir.path().join("bits")).unwrap(), b"0010\n");
}

#[test]
fn settings_that_do_nothing_beside_the_others_are_told() {
    let warnings = |args: &str| super::plan(&format!("--virtual a b {args}")).unwrap().warnings;
    for queue in ["-Q 64k", "-Q 64k -Q 64k", "-Q fq_codel", "-Q droptail,mark_above=5ms"] {
        let messages = warnings(queue);
        assert!(messages[0].starts_with("the queue of up does nothing"), "{queue}: {messages:?}");
    }
    for (idle, start) in [
        ("-D 5ms --half-life 1ms", "the half-life of up does nothing"),
        ("-O 5ms", "the offset of up is more than its delay"),
        ("-D 5ms -O 6ms", "the offset of up is more than its delay"),
    ] {
        let messages = warnings(idle);
        assert!(messages.len() == 2 && messages[0].starts_with(start), "{idle}: {messages:?}");
    }
    for well in [
        "-D 5ms -O 5ms",
        "-D normal,50ms,1ms --half-life 20ms",
        "",
        "-Q none",
        "-B 10m -Q 64k",
        "-D 5ms",
    ] {
        assert!(warnings(well).is_empty(), "{well}: {:?}", warnings(well));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.toml");
    let later = "[[at]]\nt = \"1s\"\nset = { \"link.up.rate\" = \"10Mbit\" }\n";
    std::fs::write(&path, super::file("queue = \"64k\"") + later).unwrap();
    let messages = warnings(&format!("--config {}", path.display()));
    assert!(messages.is_empty(), "it gets a rate: {messages:?}");
}

#[test]
fn settings_and_figures_are_told_without_ports() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        slipring_datapath::captured_run::run_captured(&[crate::VERB], "emulate", args, dir.path())
    };
    let printed = run("--preset lte --print-config");
    assert_eq!(printed.status, 0, "{}", printed.stderr);
    std::fs::write(dir.path().join("link.toml"), &printed.stdout).unwrap();
    for args in ["--preset lte --explain", "--config @link.toml --explain", "-r --print-config"] {
        let messages = run(args);
        assert_eq!(messages.status, 0, "{args}: {}", messages.stderr);
    }
    assert_eq!(run("--preset lte").status, 2, "a run has ports");
}
